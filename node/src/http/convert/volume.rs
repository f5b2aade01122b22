//! Shared volumes.

use holm_api as api;
use holm_model::volume::{Volume, VolumeLock};
use holm_model::{State, VolumeId};

use super::timestamp;

pub fn volume(state: &State, volume: &Volume) -> api::Volume {
    api::Volume {
        id: volume.id.0,
        name: volume.name.clone(),
        project: volume.project.clone(),
        path: volume.path.clone(),
        read_only: volume.read_only,
        lock: match volume.lock {
            VolumeLock::None => api::VolumeLock::None,
            VolumeLock::PersistentReservation => api::VolumeLock::PersistentReservation,
        },
        vms: state.users_of_volume(volume.id).map(|vm| vm.name.clone()).collect(),
        created_at: timestamp(volume.created_at),
        revision: volume.revision.0,
    }
}

pub fn to_volume_lock(lock: api::VolumeLock) -> VolumeLock {
    match lock {
        api::VolumeLock::None => VolumeLock::None,
        api::VolumeLock::PersistentReservation => VolumeLock::PersistentReservation,
    }
}

/// In the order in which the VM has them.
pub fn volume_names(state: &State, volumes: &[VolumeId]) -> Vec<String> {
    volumes.iter().filter_map(|id| state.volumes.get(id)).map(|volume| volume.name.clone()).collect()
}
