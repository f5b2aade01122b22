//! Begins a run: brings the images here, looks once more whether record and lease still allow it, and hands
//! everything to the hypervisor. A start that fails is told, or the VM is given back for another host to try.

use std::time::{Duration, Instant};

use holm_model::image::{Image, ImageKind};
use holm_model::planted::{Plant, planted};
use holm_model::vm::{ObservedState, Vm, VmStatus, WantPower};
use holm_model::volume::VolumeLock;
use holm_model::{Epoch, ImageId, Revision, State, VmId, VolumeId};
use holm_vmm::hypervisor::{Boot, DiskFormat, Error, SharedVolume, StartSpec};
use holm_vmm::lease::Lease;
use holm_vmm::pci::PciAddress;

use super::execute::{Executor, Failure, Memory};
use super::plan::needs_lease;
use super::report::PROPOSE_TIMEOUT;
use super::{host_parts, images};
use crate::app::chain;
use crate::lease::Standing;

/// How long a start waits for the replica to see what a lease that was just renewed has seen.
const CATCH_UP: Duration = Duration::from_secs(2);

impl Executor {
    pub(super) async fn start(
        &self,
        vm: VmId,
        epoch: Epoch,
        run: u64,
        confirm: bool,
        memory: &mut Memory,
    ) -> Result<(), Failure> {
        let published = if confirm {
            // Nothing of it is here yet: only a current state may begin it (FENCING.md, rule 13).
            let read = self.app.raft.read(PROPOSE_TIMEOUT).await;
            read.map_err(|_| Failure::NotTaken)?
        } else {
            self.app.raft.state()
        };
        let Some(record) = wanted(&published.state, vm, epoch, run) else { return Ok(()) };
        if record.task_state.is_none() {
            self.tell_again(record, epoch);
        }
        let is_patient = |vm: &Vm, memory: &mut Memory| {
            memory.is_patient(run, vm.status == VmStatus::Build, Instant::now())
        };
        let booted = match self.boot(&published.state, record, epoch).await {
            Ok(boot) => match self.try_start(vm, epoch, run, boot).await {
                Err(Error::NotYet(why)) if is_patient(record, memory) => {
                    self.tell_waiting(vm, epoch, run, memory, &why).await;
                    return Err(Error::NotYet(why).into());
                }
                started => started,
            },
            Err(NoBoot::Image(error)) if error.is_passing() && is_patient(record, memory) => {
                let why = format!("waiting for its image: {}", chain(&error));
                self.tell_waiting(vm, epoch, run, memory, &why).await;
                return Err(Failure::Image(error));
            }
            Err(no_boot) => Err(Error::BuildFailed(chain(&no_boot))),
        };
        memory.waits = None;
        let reason = match booted {
            Ok(()) => return Ok(()),
            Err(Error::BuildFailed(reason) | Error::NotYet(reason)) => reason,
            Err(error @ Error::Io { .. }) => chain(&error),
            Err(error) => return Err(error.into()),
        };
        tracing::warn!(vm = %record.name, node = %self.app.raft.node_id(), %epoch, reason, "start failed");
        if record.status == VmStatus::Build {
            self.give_up(vm, epoch, run, &reason, memory).await
        } else {
            self.report_state(vm, epoch, run, ObservedState::Failed { reason }).await
        }
    }

    /// Seldom: each time it is told, the record changes, and its worker looks again at once.
    async fn tell_waiting(&self, vm: VmId, epoch: Epoch, run: u64, memory: &mut Memory, why: &str) {
        if memory.may_tell() {
            let state = ObservedState::Progress { step: why.to_owned() };
            // Only words: nothing depends on their being taken.
            let _ = self.report_state(vm, epoch, run, state).await;
        }
    }

    /// It starts although nobody asked for it now: its host was down, or its lease had ended. The record should show
    /// that it was interrupted; the start does not wait for that, since there may be nobody to tell.
    fn tell_again(&self, record: &Vm, epoch: Epoch) {
        let state = ObservedState::Progress { step: "starting again".to_owned() };
        let (executor, vm, run) = (self.clone(), record.id, record.power.run);
        tokio::spawn(async move {
            let told = executor.report_state(vm, epoch, run, state).await;
            tracing::debug!(%vm, ?told, "starts again");
        });
    }

    async fn try_start(&self, vm: VmId, epoch: Epoch, run: u64, boot: Boot) -> Result<(), Error> {
        let _permit = self.starts.acquire().await.expect("the semaphore is never closed");
        // Images and other starts took their time: from here to the exec nothing is waited for any more.
        let Some((record, lease)) = self.licence(vm, epoch, run).await? else { return Ok(()) };
        let size = record.spec.size;
        self.app
            .hypervisor
            .start(StartSpec {
                vm,
                name: record.name.clone(),
                epoch: if planted(Plant::WrongEpoch) { Epoch(Revision(epoch.0.0 + 1)) } else { epoch },
                run,
                vcpus: size.vcpus,
                memory_mib: size.memory_mib,
                disk_gib: size.disk_gib,
                boot,
                cmdline: record.spec.cmdline.clone(),
                lease,
                cpu_affinity: host_parts::affinity(
                    &self.app.raft.state().state,
                    self.app.raft.node_id(),
                    &record,
                ),
                pci_devices: pci_devices(&record)?,
                volumes: volumes(&self.app.raft.state().state, &record)?,
                cluster: Some(self.app.raft.identity().cluster),
                start_order: record.spec.policies.start_order,
                again: self.app.is_allowed_again(vm, run),
            })
            .await
    }

    /// The record, if it still asks for this run, and the lease the run needs (FENCING.md, rule 11). The shim looks
    /// at the lease's deadline once more.
    async fn licence(&self, vm: VmId, epoch: Epoch, run: u64) -> Result<Option<(Vm, Option<Lease>)>, Error> {
        self.see_what_the_lease_has_seen().await;
        let published = self.app.raft.state();
        let Some(record) = wanted(&published.state, vm, epoch, run) else { return Ok(None) };
        if !needs_lease(record) || planted(Plant::StartWithoutLease) {
            return Ok(Some((record.clone(), None)));
        }
        if self.app.is_fenced(&published.state) {
            return Err(Error::NoLease("this node was fenced".to_owned()));
        }
        match self.app.lease.standing(published.log_index) {
            Standing::Ready(id) => Ok(Some((record.clone(), Some(self.app.lease.of(id))))),
            Standing::Behind(id) => Err(Error::NoLease(format!("the replica lags behind lease {id}"))),
            Standing::None => Err(Error::NoLease("this node holds none".to_owned())),
        }
    }

    /// A renewal a moment ago asks for entries that are on their way: worth a moment's wait.
    async fn see_what_the_lease_has_seen(&self) {
        let Some(seen) = self.app.lease.live().and_then(|lease| lease.read_index) else { return };
        let mut states = self.app.raft.watch();
        let caught_up = states.wait_for(|published| published.log_index >= seen);
        // In vain: the licence is refused, with the reason.
        let _ = tokio::time::timeout(CATCH_UP, caught_up).await;
    }

    /// Brings the images here, telling the cluster how far they are, and says what to boot.
    async fn boot(&self, state: &State, record: &Vm, epoch: Epoch) -> Result<Boot, NoBoot> {
        let mut paths = Vec::new();
        let image = find(state, record.spec.image)?;
        for image in
            [Some(image), record.spec.kernel.map(|id| find(state, id)).transpose()?].into_iter().flatten()
        {
            let (vm, run) = (record.id, record.power.run);
            let tell = move |step: String| async move {
                // Only words, as above.
                let _ = self.report_state(vm, epoch, run, ObservedState::Progress { step }).await;
            };
            paths.push(self.images.ensure(image, tell).await?);
        }
        let mut paths = paths.into_iter();
        let source = paths.next().expect("a VM has an image");
        let kernel = paths.next();
        Ok(match image.kind {
            ImageKind::Kernel => Boot::Kernel { kernel: source },
            ImageKind::RawDisk => Boot::Disk { source, format: DiskFormat::Raw, kernel },
            ImageKind::Qcow2Disk => Boot::Disk { source, format: DiskFormat::Qcow2, kernel },
        })
    }
}

/// Why there is nothing to boot.
#[derive(Debug, thiserror::Error)]
enum NoBoot {
    #[error("image {0} is gone")]
    Gone(ImageId),
    #[error(transparent)]
    Image(#[from] images::Error),
}

fn find(state: &State, id: ImageId) -> Result<&Image, NoBoot> {
    state.images.get(&id).ok_or(NoBoot::Gone(id))
}

/// The record, if it still asks for exactly this start.
pub(super) fn wanted(state: &State, vm: VmId, epoch: Epoch, run: u64) -> Option<&Vm> {
    state.vms.get(&vm).filter(|vm| {
        vm.claim.as_ref().is_some_and(|claim| claim.epoch == epoch)
            && vm.power.want == WantPower::On
            && vm.power.run == run
            && vm.status != VmStatus::Deleting
            && vm.recovery.vacate.is_none()
    })
}

/// Its shared volumes, as the hypervisor takes them.
fn volumes(state: &State, record: &Vm) -> Result<Vec<SharedVolume>, Error> {
    let one = |id: &VolumeId| {
        let volume = state.volumes.get(id);
        let volume = volume.ok_or_else(|| Error::Refused(format!("its volume {id} is gone")))?;
        Ok(SharedVolume {
            id: *id,
            name: volume.name.clone(),
            path: volume.path.clone().into(),
            read_only: volume.read_only,
            reserved: volume.lock == VolumeLock::PersistentReservation,
        })
    };
    record.spec.volumes.iter().map(one).collect()
}

/// The devices of its claim, as the hypervisor takes them.
fn pci_devices(record: &Vm) -> Result<Vec<PciAddress>, Error> {
    let devices = record.claim.iter().flat_map(|claim| &claim.parts.devices);
    devices.map(|device| device.parse().map_err(|error| Error::Refused(format!("{error}")))).collect()
}
