//! One worker a VM: it observes, plans and performs on its own, many in parallel, one step at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holm_model::{BootId, VmId};
use holm_raft::handle::Published;
use holm_vmm::hypervisor::{ExitCause, InstanceState, Observation};
use tokio::sync::{Notify, watch};

use super::adopt::Adoption;
use super::execute::{Executor, Memory};
use super::plan::{NOT_ITS_TURN, Standing, Step, alive, plan};
use super::start_order::StartOrder;

/// Pause after a step that failed or repeats, doubled up to the maximum.
const BACKOFF: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(15);
/// How often a VM that waits for its turn asks again.
const TURN: Duration = Duration::from_millis(500);
/// What cannot be told for longer is told to the cluster.
const UNKNOWN_PATIENCE: Duration = Duration::from_secs(15);

/// What the workers of a host have in common.
pub struct Surroundings {
    pub executor: Executor,
    boot: BootId,
    order: StartOrder,
    pub adoption: Adoption,
    /// Wakes those that wait for a lease or a turn.
    again: watch::Sender<()>,
}

impl Surroundings {
    /// Of a host whose current boot is `boot`.
    pub fn new(executor: Executor, boot: BootId) -> Self {
        let (order, again) = (StartOrder::new(), watch::Sender::new(()));
        Self { executor, boot, order, adoption: Adoption::begin(), again }
    }

    /// Whoever waits asks again.
    pub fn ask_again(&self) {
        self.again.send_replace(());
    }

    fn standing(&self, published: &Published, vm: VmId, observed: &Observation) -> Standing {
        let app = &self.executor.app;
        let state = &published.state;
        let me = app.raft.node_id();
        let allowed_again = self.is_allowed_again(vm, observed);
        let other_boot = matches!(observed, Observation::Known(here) if here.boot_id != Some(self.boot));
        let record = state.vms.get(&vm).filter(|_| other_boot || allowed_again);
        Standing {
            me,
            cluster: app.raft.identity().cluster,
            boot: self.boot,
            applied: state.revision,
            caught_up: app.caught_up(),
            waited: app.started_at.elapsed() >= Duration::from_millis(state.policy.autostart_wait_ms),
            // Another host that has reported since is the node; this one has its identity only.
            removed: app.removed()
                || state.nodes.get(&me).is_some_and(|node| node.past_boots.contains(&self.boot)),
            held: app.held(),
            allowed_again,
            fenced: app.is_fenced(state),
            lease: app.lease.standing(published.log_index),
            overdue: self.is_overdue(observed),
            turn: record.is_none_or(|record| self.order.is_turn(record, state, me)),
        }
    }

    /// Whether it goes on although the lease it is bound to ended a while ago.
    fn is_overdue(&self, observed: &Observation) -> bool {
        let Observation::Known(here) = observed else { return false };
        here.armed.is_some_and(|lease| self.executor.app.lease.is_overdue(lease))
    }

    /// Takes down what others need to know of what was seen.
    fn note(&self, vm: VmId, observed: &Observation) {
        self.adoption.seen(vm, observed);
        let app = &self.executor.app;
        if app.orphans.note(app.raft.identity().cluster, vm, observed) {
            tracing::warn!(%vm, "a VM that another cluster placed is on this host: it is left alone");
        }
        if app.held() {
            self.order.begin_anew();
        }
    }

    /// Takes down whether those of higher start order still wait for `vm`: not for what runs, nor for what is not
    /// to start.
    fn note_turn(&self, vm: VmId, observed: &Observation, next: &Step) {
        let runs = matches!(observed, Observation::Known(here) if alive(&here.state));
        let is_to_start = matches!(next, Step::Start { .. } | Step::Wait(_) | Step::Bind { .. });
        if runs || !is_to_start {
            self.had_turn(vm);
        }
    }

    /// Whether what ended was ended for a shutdown of the host which did not come.
    fn is_allowed_again(&self, vm: VmId, observed: &Observation) -> bool {
        let Observation::Known(here) = observed else { return false };
        here.state == InstanceState::Ended(ExitCause::Requested)
            && self.executor.app.is_allowed_again(vm, here.run)
    }

    fn had_turn(&self, vm: VmId) {
        if self.order.had_turn(vm) {
            self.ask_again();
        }
    }
}

/// Works on one VM until nothing of it is here and nothing of it should be.
pub async fn work(here: Arc<Surroundings>, vm: VmId, wake: Arc<Notify>) {
    let executor = &here.executor;
    let app = &executor.app;
    let mut again = here.again.subscribe();
    let mut memory = Memory::default();
    let mut last: Option<Step> = None;
    let mut backoff = BACKOFF;
    let mut unknown_since: Option<Instant> = None;
    loop {
        let observed = app.hypervisor.observe(vm).await;
        here.note(vm, &observed);
        if !matches!(observed, Observation::Unknown { .. }) {
            unknown_since = None;
        }
        again.mark_unchanged();
        let published = app.raft.state();
        let on = here.standing(&published, vm, &observed);
        let step = plan(on, published.state.vms.get(&vm), &observed);
        drop(published);
        here.note_turn(vm, &observed, &step);
        match step {
            Step::Nothing => {
                let gone = matches!(observed, Observation::Absent);
                let ours = app.raft.state().state.vms.get(&vm).is_some_and(|record| {
                    record.claim.as_ref().is_some_and(|claim| claim.node == app.raft.node_id())
                });
                if gone && !ours {
                    here.order.forget(vm);
                    return;
                }
                (last, backoff) = (None, BACKOFF);
                wake.notified().await;
                continue;
            }
            Step::Wait(why) => {
                tracing::debug!(%vm, why, "waiting");
                if let Observation::Unknown { reason } = &observed {
                    let since = *unknown_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= UNKNOWN_PATIENCE {
                        executor.tell_unknown(vm, reason.clone()).await;
                    }
                }
                let pause = if why == NOT_ITS_TURN { TURN } else { BACKOFF_MAX };
                tokio::select! {
                    () = wake.notified() => {}
                    _ = again.changed() => {}
                    () = tokio::time::sleep(pause) => {}
                }
                continue;
            }
            _ => {}
        }
        let repeated = last.as_ref() == Some(&step);
        let next = || {
            let published = app.raft.state();
            // Of lease and turn, what was decided stands: a start looks at its lease itself, right before it
            // begins, and the shim after that.
            let on = Standing { lease: on.lease, turn: on.turn, ..here.standing(&published, vm, &observed) };
            plan(on, published.state.vms.get(&vm), &observed)
        };
        let performed = tokio::select! {
            performed = executor.perform(vm, &step, &mut memory) => performed,
            // The record asks for something else now: what was begun is left where it is.
            () = superseded(&wake, &step, next) => Ok(()),
        };
        if let Step::Start { .. } = step {
            // Whatever came of it.
            here.had_turn(vm);
        }
        if let Err(error) = &performed {
            tracing::warn!(%vm, ?step, error = %crate::app::chain(error), "step failed, will be tried again");
        }
        if performed.is_err() || repeated {
            let _ = tokio::time::timeout(backoff, wake.notified()).await;
            backoff = (backoff * 2).min(BACKOFF_MAX);
        } else {
            backoff = BACKOFF;
        }
        last = Some(step);
    }
}

/// Returns when the plan, with what was observed before the step, no longer is that step.
async fn superseded(wake: &Notify, step: &Step, next: impl Fn() -> Step) {
    loop {
        wake.notified().await;
        if next() != *step {
            // Keep the wake-up for the loop.
            wake.notify_one();
            return;
        }
    }
}
