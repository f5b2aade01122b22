//! Performs one step of the plan. Nothing is decided here; every call may be repeated, and cut short
//! when the record changes meanwhile.

use std::sync::Arc;

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
    #[error(transparent)]
    Hypervisor(#[from] Error),
}

/// What one worker remembers between steps: only words, the marks on disk decide.
#[derive(Default)]
pub struct Memory {
    /// Why the VM could not be built here.
    pub build_failure: Option<String>,
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
        let report = VmReport { vm, epoch, run, state };
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
        let result = self.try_start(&published.state, record, epoch).await;
        let reason = match result {
            Ok(()) => return Ok(()),
            Err(Error::BuildFailed(reason)) => reason,
            Err(error @ Error::Io { .. }) => crate::app::chain(&error),
            Err(error) => return Err(error.into()),
        };
        tracing::warn!(vm = %record.name, node = %self.app.raft.node_id(), %epoch, reason, "start failed");
        if record.status == VmStatus::Build {
            // Never ACTIVE: give it back, another host may do better. The mark comes first (rule 2).
            memory.build_failure = Some(reason.clone());
            self.app.hypervisor.release(vm, epoch).await?;
            self.released(vm, epoch, ReleaseCause::BuildFailed { reason }).await
        } else {
            self.report(vm, epoch, run, ObservedState::Failed { reason }).await
        }
    }

    async fn try_start(&self, state: &State, record: &Vm, epoch: Epoch) -> Result<(), Error> {
        let boot = self.boot(state, record, epoch).await?;
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
            })
            .await
    }

    /// Brings the images here, telling the cluster how far they are, and says what to boot.
    async fn boot(&self, state: &State, record: &Vm, epoch: Epoch) -> Result<Boot, Error> {
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
                    reporter.report(VmReport { vm, epoch, run, state }).await;
                }
            };
            let fetched = self.images.ensure(image, tell).await;
            paths.push(fetched.map_err(|e: images::Error| Error::BuildFailed(crate::app::chain(&e)))?);
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

fn find(state: &State, id: ImageId) -> Result<&Image, Error> {
    state.images.get(&id).ok_or_else(|| Error::BuildFailed(format!("image {id} is gone")))
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
