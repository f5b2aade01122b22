//! Performs one step of the plan. Nothing is decided here; every call may be repeated, and cut short
//! when the record changes meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holm_model::command::{Command, ReleaseCause, Released, VmReport};
use holm_model::image::{Image, ImageKind};
use holm_model::vm::{ObservedState, Vm, VmStatus, WantPower};
use holm_model::{Epoch, ImageId, Reply, State, VmId};
use holm_vmm::hypervisor::{Boot, DiskFormat, Error, StartSpec};
use tokio::sync::Semaphore;

use super::images::{self, Images};
use super::plan::Step;
use super::report::{Reporter, propose};
use crate::app::Shared;

/// What a step needs.
#[derive(Clone)]
pub struct Executor {
    pub app: Shared,
    pub reporter: Reporter,
    pub images: Images,
    /// Bounds how many VMs start at the same time.
    pub starts: Arc<Semaphore>,
}

/// Why a step did not get its way.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("the cluster did not take it; it is tried again")]
    NotTaken,
    #[error("its image cannot be had at present")]
    Image(#[source] images::Error),
    #[error(transparent)]
    Hypervisor(#[from] Error),
}

/// How long a VM waits here for an image whose holders cannot be reached. A holder that reboots, or a network
/// that is cut for a moment, is no reason to call the VM impossible; longer, and another host may do better.
const IMAGE_PATIENCE: Duration = Duration::from_secs(120);
/// How often the cluster hears that it still waits.
const IMAGE_TELL: Duration = Duration::from_secs(20);

/// What one worker remembers between steps: only words, the marks on disk decide.
#[derive(Default)]
pub struct Memory {
    /// Why the VM could not be built here.
    pub build_failure: Option<String>,
    /// Since when it has waited for an image that nobody could give.
    pub without_image: Option<Instant>,
    /// When it last told so.
    pub told: Option<Instant>,
}

impl Executor {
    /// Performs `step` for `vm`.
    ///
    /// # Errors
    /// When it must be tried again later.
    pub async fn perform(&self, vm: VmId, step: &Step, memory: &mut Memory) -> Result<(), Failure> {
        let hypervisor = &self.app.hypervisor;
        match step {
            Step::Nothing | Step::Wait(_) => Ok(()),
            Step::Report { epoch, run, state } => self.report(vm, *epoch, *run, state.clone()).await,
            Step::Start { epoch, run, confirm } => self.start(vm, *epoch, *run, *confirm, memory).await,
            Step::Stop(mode) => Ok(hypervisor.stop(vm, *mode).await?),
            Step::Release(epoch) => Ok(hypervisor.release(vm, *epoch).await?),
            Step::GiveUp { epoch, run, reason } => self.give_up(vm, *epoch, *run, reason, memory).await,
            Step::FinishDelete(epoch) => {
                hypervisor.delete_disks(vm).await?;
                self.released(vm, *epoch, ReleaseCause::Deleted).await
            }
            Step::GiveBack { epoch, reason } => {
                let reason = memory.build_failure.clone().unwrap_or_else(|| reason.clone());
                self.released(vm, *epoch, ReleaseCause::BuildFailed { reason }).await
            }
            Step::Forget => Ok(hypervisor.forget(vm).await?),
        }
    }

    async fn report(&self, vm: VmId, epoch: Epoch, run: u64, state: ObservedState) -> Result<(), Failure> {
        let report = VmReport { vm, epoch, run, state, armed_for: None, note: None };
        if self.reporter.report(report).await { Ok(()) } else { Err(Failure::NotTaken) }
    }

    async fn released(&self, vm: VmId, epoch: Epoch, cause: ReleaseCause) -> Result<(), Failure> {
        let node = self.app.raft.node_id();
        let command = Command::Released(Released { node, vm, epoch, cause });
        match propose(&self.app.raft, command).await {
            Some(Reply::Done(_)) => Ok(()),
            _ => Err(Failure::NotTaken),
        }
    }

    async fn start(
        &self,
        vm: VmId,
        epoch: Epoch,
        run: u64,
        confirm: bool,
        memory: &mut Memory,
    ) -> Result<(), Failure> {
        let published = if confirm {
            // Nothing of it is here yet: only a current state may begin it (FENCING.md, rule 13).
            let read = self.app.raft.read(super::report::PROPOSE_TIMEOUT).await;
            read.map_err(|_| Failure::NotTaken)?
        } else {
            self.app.raft.state()
        };
        let Some(record) = wanted(&published.state, vm, epoch, run) else { return Ok(()) };
        let booted = match self.boot(&published.state, record, epoch).await {
            Ok(boot) => self.try_start(record, epoch, boot).await,
            Err(NoBoot::Image(error)) if error.is_passing() && memory.is_patient() => {
                // Seldom: each time it is told, the record changes, and its worker looks again at once.
                if memory.may_tell() {
                    let step = format!("waiting for its image: {}", crate::app::chain(&error));
                    let state = ObservedState::Progress { step };
                    self.reporter.report(VmReport { vm, epoch, run, state, armed_for: None, note: None }).await;
                }
                return Err(Failure::Image(error));
            }
            Err(no_boot) => Err(Error::BuildFailed(crate::app::chain(&no_boot))),
        };
        memory.without_image = None;
        let reason = match booted {
            Ok(()) => return Ok(()),
            Err(Error::BuildFailed(reason)) => reason,
            Err(error @ Error::Io { .. }) => crate::app::chain(&error),
            Err(error) => return Err(error.into()),
        };
        tracing::warn!(vm = %record.name, node = %self.app.raft.node_id(), %epoch, reason, "start failed");
        if record.status == VmStatus::Build {
            self.give_up(vm, epoch, run, &reason, memory).await
        } else {
            self.report(vm, epoch, run, ObservedState::Failed { reason }).await
        }
    }

    /// The VM could not be built: back it goes, another host may do better. A replica that lags may not know
    /// that it has run, and then its disk would be lost: so only a current state decides. The mark comes
    /// first (FENCING.md, rule 2).
    async fn give_up(
        &self,
        vm: VmId,
        epoch: Epoch,
        run: u64,
        reason: &str,
        memory: &mut Memory,
    ) -> Result<(), Failure> {
        let read = self.app.raft.read(super::report::PROPOSE_TIMEOUT).await;
        let published = read.map_err(|_| Failure::NotTaken)?;
        let Some(record) = wanted(&published.state, vm, epoch, run) else { return Ok(()) };
        if record.status != VmStatus::Build {
            return self.report(vm, epoch, run, ObservedState::Failed { reason: reason.to_owned() }).await;
        }
        memory.build_failure = Some(reason.to_owned());
        self.app.hypervisor.release(vm, epoch).await?;
        self.released(vm, epoch, ReleaseCause::BuildFailed { reason: reason.to_owned() }).await
    }

    /// What is here cannot be told for a while: the cluster should know, whatever the plan waits for.
    pub async fn tell_unknown(&self, vm: VmId, reason: String) {
        let published = self.app.raft.state();
        let Some(record) = published.state.vms.get(&vm) else { return };
        let Some(claim) = record.claim.as_ref().filter(|claim| claim.node == self.app.raft.node_id()) else {
            return;
        };
        let state = ObservedState::Unknown { reason };
        let told = record.observed.as_ref().is_some_and(|observed| observed.state == state);
        if !told {
            self.reporter.report(VmReport { vm, epoch: claim.epoch, run: record.power.run, state, armed_for: None, note: None }).await;
        }
    }

    async fn try_start(&self, record: &Vm, epoch: Epoch, boot: Boot) -> Result<(), Error> {
        let _permit = self.starts.acquire().await.expect("the semaphore is never closed");
        let size = record.spec.size;
        self.app
            .hypervisor
            .start(StartSpec {
                vm: record.id,
                name: record.name.clone(),
                epoch,
                run: record.power.run,
                vcpus: size.vcpus,
                memory_mib: size.memory_mib,
                disk_gib: size.disk_gib,
                boot,
                cmdline: record.spec.cmdline.clone(),
                lease: None,
                cpu_affinity: Vec::new(),
                pci_devices: Vec::new(),
                cluster: None,
                start_order: 0,
            })
            .await
    }

    /// Brings the images here, telling the cluster how far they are, and says what to boot.
    async fn boot(&self, state: &State, record: &Vm, epoch: Epoch) -> Result<Boot, NoBoot> {
        let mut paths = Vec::new();
        let image = find(state, record.spec.image)?;
        for image in
            [Some(image), record.spec.kernel.map(|id| find(state, id)).transpose()?].into_iter().flatten()
        {
            let (vm, run, reporter) = (record.id, record.power.run, self.reporter.clone());
            let tell = move |step: String| {
                let reporter = reporter.clone();
                async move {
                    let state = ObservedState::Progress { step };
                    reporter.report(VmReport { vm, epoch, run, state, armed_for: None, note: None }).await;
                }
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

impl Memory {
    fn may_tell(&mut self) -> bool {
        let may = self.told.is_none_or(|told| told.elapsed() >= IMAGE_TELL);
        if may {
            self.told = Some(Instant::now());
        }
        may
    }

    /// Whether a missing image is still waited for; the time begins with the first question.
    fn is_patient(&mut self) -> bool {
        self.without_image.get_or_insert_with(Instant::now).elapsed() < IMAGE_PATIENCE
    }
}

fn find(state: &State, id: ImageId) -> Result<&Image, NoBoot> {
    state.images.get(&id).ok_or(NoBoot::Gone(id))
}

/// The record, if it still asks for exactly this start.
fn wanted(state: &State, vm: VmId, epoch: Epoch, run: u64) -> Option<&Vm> {
    state.vms.get(&vm).filter(|vm| {
        vm.claim.as_ref().is_some_and(|claim| claim.epoch == epoch)
            && vm.power.want == WantPower::On
            && vm.power.run == run
            && vm.status != VmStatus::Deleting
    })
}
