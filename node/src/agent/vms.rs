//! One worker a VM: each observes, plans and performs on its own, many in parallel, one step at a time.
//! The supervisor starts a worker for every VM that is claimed by this node or has something here, and
//! wakes it when its record or its host state changes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holm_model::{BootId, Revision, VmId};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use holm_vmm::hypervisor::Observation;

use super::execute::{Executor, Memory};
use super::images::Images;
use super::plan::{Standing, Step, plan};
use super::report::Reporter;
use crate::app::Shared;

/// Every VM is looked at at least this often, whatever was missed.
const PERIOD: Duration = Duration::from_secs(5);
/// A cold node waits this long for a quorum before it starts what it already had (FENCING.md, rule 13).
const AUTOSTART_WAIT: Duration = Duration::from_secs(60);
/// VMs that start at the same time.
const PARALLEL_STARTS: usize = 8;
/// Pause after a step that failed or repeats, doubled up to the maximum.
const BACKOFF: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(15);
/// What cannot be told for longer is told to the cluster.
const UNKNOWN_PATIENCE: Duration = Duration::from_secs(15);

struct Worker {
    task: tokio::task::Id,
    wake: Arc<Notify>,
    /// The revision of the record when it was last woken.
    woken_at: Option<Revision>,
}

/// Runs until cancelled. Running VMs are left alone when it ends.
pub async fn run(app: Shared, images: Images, boot: BootId, stop: CancellationToken) {
    let reporter = Reporter::start(app.raft.clone(), boot);
    let starts = Arc::new(Semaphore::new(PARALLEL_STARTS));
    let executor = Executor { app: app.clone(), reporter, images, starts };
    let mut supervisor = Supervisor { executor, boot, workers: HashMap::new(), tasks: JoinSet::new() };
    let mut state = app.raft.watch();
    let mut changes = app.hypervisor.changes();
    let mut caught_up = app.watch_caught_up();
    let mut period = tokio::time::interval(PERIOD);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            changed = state.changed() => {
                if changed.is_err() {
                    return;
                }
                state.mark_unchanged();
                supervisor.state_changed();
            }
            Some(vm) = changes.recv() => supervisor.wake(vm),
            _ = period.tick() => supervisor.look_at_all().await,
            // What a host that booted had waits for exactly this.
            Ok(()) = caught_up.changed() => supervisor.look_at_all().await,
            Some(ended) = supervisor.tasks.join_next_with_id() => supervisor.ended(ended),
        }
    }
}

struct Supervisor {
    executor: Executor,
    boot: BootId,
    workers: HashMap<VmId, Worker>,
    tasks: JoinSet<()>,
}

impl Supervisor {
    fn state_changed(&mut self) {
        let published = self.executor.app.raft.state();
        let me = self.executor.app.raft.node_id();
        for vm in published.state.vms_on(me) {
            if !self.workers.contains_key(&vm.id) {
                self.wake(vm.id);
            }
        }
        for (id, worker) in &mut self.workers {
            let revision = published.state.vms.get(id).map(|vm| vm.revision);
            if worker.woken_at != revision {
                worker.woken_at = revision;
                worker.wake.notify_one();
            }
        }
    }

    async fn look_at_all(&mut self) {
        match self.executor.app.hypervisor.vms().await {
            Ok(found) => found.into_iter().for_each(|vm| self.wake(vm)),
            Err(error) => {
                tracing::error!(error = %crate::app::chain(&error), "cannot list the VMs of this host")
            }
        }
        self.workers.values().for_each(|worker| worker.wake.notify_one());
        self.state_changed();
    }

    fn wake(&mut self, vm: VmId) {
        let worker = self.workers.entry(vm).or_insert_with(|| {
            let wake = Arc::new(Notify::new());
            let task = self.tasks.spawn(work(self.executor.clone(), self.boot, vm, wake.clone())).id();
            Worker { task, wake, woken_at: None }
        });
        worker.wake.notify_one();
    }

    /// Lets go of the worker. One that panicked says nothing of its VM: a fresh one looks at it with the next
    /// period.
    fn ended(&mut self, ended: Result<(tokio::task::Id, ()), tokio::task::JoinError>) {
        let (task, panicked) = match ended {
            Ok((task, ())) => (task, false),
            Err(error) => {
                tracing::error!(%error, "a VM worker panicked");
                (error.id(), true)
            }
        };
        self.workers.retain(|_, worker| worker.task != task);
        if !panicked {
            // What changed between its last look and now must not be missed.
            self.state_changed();
        }
    }
}

/// Works on one VM until nothing of it is here and nothing of it should be.
async fn work(executor: Executor, boot: BootId, vm: VmId, wake: Arc<Notify>) {
    let app = executor.app.clone();
    let mut memory = Memory::default();
    let mut last: Option<Step> = None;
    let mut backoff = BACKOFF;
    let mut unknown_since: Option<Instant> = None;
    loop {
        let observed = app.hypervisor.observe(vm).await;
        if !matches!(observed, Observation::Unknown { .. }) {
            unknown_since = None;
        }
        let next = || {
            let published = app.raft.state();
            plan(standing(&app, boot, published.state.revision), published.state.vms.get(&vm), &observed)
        };
        let step = next();
        match step {
            Step::Nothing => {
                let gone = matches!(observed, Observation::Absent);
                let ours = app.raft.state().state.vms.get(&vm).is_some_and(|record| {
                    record.claim.as_ref().is_some_and(|claim| claim.node == app.raft.node_id())
                });
                if gone && !ours {
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
                let _ = tokio::time::timeout(BACKOFF_MAX, wake.notified()).await;
                continue;
            }
            _ => {}
        }
        let repeated = last.as_ref() == Some(&step);
        let performed = tokio::select! {
            performed = executor.perform(vm, &step, &mut memory) => performed,
            // The record asks for something else now: what was begun is left where it is.
            () = superseded(&wake, &step, next) => Ok(()),
        };
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

fn standing(app: &Shared, boot: BootId, applied: Revision) -> Standing {
    Standing {
        me: app.raft.node_id(),
        boot,
        applied,
        caught_up: app.caught_up(),
        waited: app.started_at.elapsed() >= AUTOSTART_WAIT,
        removed: app.removed(),
        held: app.held(),
    }
}

/// Learns, once, that the replica has caught up with the cluster since this process started.
pub async fn catch_up(app: Shared, stop: CancellationToken) {
    let began = Instant::now();
    while !app.caught_up() && !stop.is_cancelled() {
        match app.raft.read(Duration::from_secs(3)).await {
            Ok(_) => {
                app.set_caught_up();
                tracing::info!(after_ms = began.elapsed().as_millis() as u64, "replica has caught up");
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}
