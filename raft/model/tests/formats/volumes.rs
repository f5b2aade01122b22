//! Shared volumes: a sample of each command about them, and a snapshot that holds some.

use holm_model::command::*;
use holm_model::scheduling::Scheduling;
use holm_model::vm::{Availability, DiskLoss, OnNoHost, VmPolicies};
use holm_model::volume::VolumeLock;
use holm_model::*;

use super::{committed, entry, trouble, uuid};

fn volume(n: u128, read_only: bool, lock: VolumeLock) -> Command {
    Command::CreateVolume(CreateVolume {
        id: VolumeId(uuid(n)),
        name: format!("volume{n}"),
        path: format!("/dev/disk/by-id/scsi-{n}"),
        read_only,
        lock,
    })
}

pub fn commands() -> Vec<Command> {
    vec![
        volume(13, false, VolumeLock::PersistentReservation),
        Command::DeleteVolume(DeleteVolume { id: VolumeId(uuid(13)), expected: Some(Revision(3)) }),
    ]
}

#[test]
fn a_snapshot_with_volumes_is_read_and_written_as_ever() {
    let mut history = trouble::in_trouble();
    history.extend([
        volume(13, false, VolumeLock::PersistentReservation),
        volume(14, true, VolumeLock::None),
        volume(15, false, VolumeLock::None),
        Command::CreateVm(CreateVm {
            admitted: None,
            id: VmId(uuid(21)),
            name: "store".into(),
            flavor: FlavorId(uuid(4)),
            image: ImageId(uuid(5)),
            kernel: None,
            cmdline: None,
            node: None,
            availability: Availability::Failover,
            policies: VmPolicies { disk_loss: DiskLoss::Recreate, ..VmPolicies::default() },
            on_no_host: OnNoHost::Queue,
            scheduling: Scheduling::default(),
            volumes: vec![VolumeId(uuid(13)), VolumeId(uuid(14))],
        }),
    ]);
    let mut state = State::default();
    for command in history {
        let mut entry = entry(command);
        entry.proposal.key = None;
        let applied = apply(&mut state, &entry);
        assert!(matches!(applied.reply, Reply::Done(_)), "{:?}: {:?}", entry.proposal.command, applied.reply);
        invariant::check(&state).unwrap();
    }
    let bytes = snapshot::encode(&state);
    let committed = committed("snapshot-3.mp", &bytes);
    assert_eq!(snapshot::decode(&committed).unwrap(), state);
    assert_eq!(bytes, committed);
}
