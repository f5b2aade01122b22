//! Performs one step of the plan. Nothing is decided here; every call may be repeated, and cut short
//! when the record changes meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holm_model::command::{Command, ReleaseCause, Released, VmReport};
use holm_model::planted::{Plant, planted};
use holm_model::vm::{ObservedState, VmStatus};
use holm_model::{Epoch, Reply, VmId};
use holm_vmm::hypervisor::Error;
use tokio::sync::Semaphore;

use super::images::{self, Images};
use super::plan::{Report, Step};
use super::report::{Reporter, propose};
use super::start::wanted;
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

/// How long a VM waits here for an image whose holders cannot be reached, or for its storage. A holder that reboots, or
/// a network that is cut for a moment, is no reason to call the VM impossible; longer, and another host may do better.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often the cluster hears that it still waits.
const TELL: Duration = Duration::from_secs(20);
/// How late [`Plant::MarkAfterProposal`] is.
const PLANTED_DELAY: Duration = Duration::from_secs(10);

/// What one worker remembers between steps: only words, the marks on disk decide.
#[derive(Default)]
pub struct Memory {
    /// Why the VM could not be built here.
    pub build_failure: Option<String>,
    /// Which run has waited since when for what it needs: an image that nobody could give, or its storage.
    pub waits: Option<(u64, Instant)>,
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
            Step::Report(report) => self.report(vm, report.clone()).await,
            Step::Start { epoch, run, confirm } => self.start(vm, *epoch, *run, *confirm, memory).await,
            Step::Stop(mode) => Ok(hypervisor.stop(vm, *mode).await?),
            Step::Bind { epoch, bound } => Ok(hypervisor.bind(vm, *epoch, *bound).await?),
            Step::Enforce => {
                tracing::warn!(%vm, "its lease has ended and its shim has not ended it: killed");
                Ok(hypervisor.enforce(vm).await?)
            }
            Step::Arm(lease) => Ok(hypervisor.arm(vm, self.app.lease.of(*lease)).await?),
            Step::Disarm => Ok(hypervisor.disarm(vm).await?),
            Step::Release(epoch) => self.mark_released(vm, *epoch).await,
            Step::GiveUp { epoch, run, reason } => self.give_up(vm, *epoch, *run, reason, memory).await,
            Step::FinishDelete(epoch) => {
                hypervisor.delete_disks(vm).await?;
                self.released(vm, *epoch, ReleaseCause::Deleted).await
            }
            Step::FinishVacate(epoch) => self.released(vm, *epoch, ReleaseCause::Vacated).await,
            Step::GiveBack { epoch, reason } => {
                let reason = memory.build_failure.clone().unwrap_or_else(|| reason.clone());
                self.released(vm, *epoch, ReleaseCause::BuildFailed { reason }).await
            }
            Step::Forget => Ok(hypervisor.forget(vm).await?),
        }
    }

    async fn report(&self, vm: VmId, report: Report) -> Result<(), Failure> {
        let Report { epoch, run, state, armed_for, note } = report;
        let report = VmReport { vm, epoch, run, state, armed_for, note };
        if self.reporter.report(report).await { Ok(()) } else { Err(Failure::NotTaken) }
    }

    /// The same with nothing beside the state.
    pub(super) async fn report_state(
        &self,
        vm: VmId,
        epoch: Epoch,
        run: u64,
        state: ObservedState,
    ) -> Result<(), Failure> {
        self.report(vm, Report { epoch, run, state, armed_for: None, note: None }).await
    }

    async fn mark_released(&self, vm: VmId, epoch: Epoch) -> Result<(), Failure> {
        if planted(Plant::MarkAfterProposal) {
            tokio::time::sleep(PLANTED_DELAY).await;
        }
        Ok(self.app.hypervisor.release(vm, epoch).await?)
    }

    async fn released(&self, vm: VmId, epoch: Epoch, cause: ReleaseCause) -> Result<(), Failure> {
        let node = self.app.raft.node_id();
        let command = Command::Released(Released { node, vm, epoch, cause });
        match propose(&self.app.raft, command).await {
            Some(Reply::Done(_)) => Ok(()),
            _ => Err(Failure::NotTaken),
        }
    }

    /// The VM could not be built: back it goes, another host may do better. A replica that lags may not know
    /// that it has run, and then its disk would be lost: so only a current state decides. The mark comes
    /// first (FENCING.md, rule 2).
    pub(super) async fn give_up(
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
            let state = ObservedState::Failed { reason: reason.to_owned() };
            return self.report_state(vm, epoch, run, state).await;
        }
        memory.build_failure = Some(reason.to_owned());
        let cause = ReleaseCause::BuildFailed { reason: reason.to_owned() };
        if planted(Plant::MarkAfterProposal) {
            self.released(vm, epoch, cause).await?;
            return self.mark_released(vm, epoch).await;
        }
        self.mark_released(vm, epoch).await?;
        self.released(vm, epoch, cause).await
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
            // Not taken: it is said again with the next look.
            let _ = self.report_state(vm, claim.epoch, record.power.run, state).await;
        }
    }
}

impl Memory {
    pub(super) fn may_tell(&mut self) -> bool {
        let may = self.told.is_none_or(|told| told.elapsed() >= TELL);
        if may {
            self.told = Some(Instant::now());
        }
        may
    }

    /// Whether what this run misses is still waited for; the time begins with the first question. One that was built
    /// before is waited for without end: no other host has what it has here, and its storage comes back last after a
    /// power cut, when nobody is there to start it.
    pub(super) fn is_patient(&mut self, run: u64, is_built_now: bool, now: Instant) -> bool {
        let (of, mut since) = self.waits.unwrap_or((run, now));
        if of != run {
            since = now;
        }
        self.waits = Some((run, since));
        !is_built_now || now.duration_since(since) < PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_waits_for_a_while_in_each_run_and_what_ran_before_for_ever() {
        let (mut memory, begin) = (Memory::default(), Instant::now());
        let after = |seconds| begin + Duration::from_secs(seconds);
        assert!(memory.is_patient(1, true, begin));
        assert!(memory.is_patient(1, true, after(119)));
        assert!(!memory.is_patient(1, true, after(121)));
        assert!(memory.is_patient(2, true, after(121)), "another run waits anew");
        assert!(memory.is_patient(2, false, after(9_000)));
    }
}
