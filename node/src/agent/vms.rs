//! The supervisor: starts a worker for every VM that is claimed by this node or has something here, and wakes
//! it when its record or its host state changes. Those that wait for a lease, or for their turn, are asked again
//! when there may be news for them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holm_model::{BootId, Revision, VmId};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::execute::Executor;
use super::images::Images;
use super::report::Reporter;
use super::worker::{Surroundings, work};
use crate::app::Shared;

/// Every VM is looked at at least this often, whatever was missed.
const PERIOD: Duration = Duration::from_secs(5);
/// VMs that start at the same time.
const PARALLEL_STARTS: usize = 8;

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
    let surroundings = Arc::new(Surroundings::new(executor, boot));
    let mut supervisor =
        Supervisor { surroundings, workers: HashMap::new(), tasks: JoinSet::new(), may_start: false };
    let mut state = app.raft.watch();
    let mut changes = app.hypervisor.changes();
    let mut caught_up = app.watch_caught_up();
    let mut lease = app.lease.watch();
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
            Ok(()) = lease.changed() => supervisor.look_at_all().await,
            Some(ended) = supervisor.tasks.join_next_with_id() => supervisor.ended(ended),
        }
    }
}

struct Supervisor {
    surroundings: Arc<Surroundings>,
    workers: HashMap<VmId, Worker>,
    tasks: JoinSet<()>,
    /// Failover VMs could start here when it was last looked.
    may_start: bool,
}

impl Supervisor {
    fn app(&self) -> &Shared {
        &self.surroundings.executor.app
    }

    fn state_changed(&mut self) {
        let published = self.app().raft.state();
        let me = self.app().raft.node_id();
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
        let lease = self.app().lease.standing(published.log_index);
        let may_start = lease.is_ready() && !self.app().is_fenced(&published.state);
        if may_start && !self.may_start {
            self.surroundings.ask_again();
        }
        self.may_start = may_start;
    }

    async fn look_at_all(&mut self) {
        match self.app().hypervisor.vms().await {
            Ok(found) => {
                self.surroundings.adoption.found(&found);
                found.into_iter().for_each(|vm| self.wake(vm));
            }
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
            let task = self.tasks.spawn(work(self.surroundings.clone(), vm, wake.clone())).id();
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
