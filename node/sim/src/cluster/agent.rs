//! A node's workers: they observe, ask the product's plan, and perform one step at a time. How long a step
//! takes, and whether it fails, is chance; a daemon that dies forgets it half-way, a shim goes on.

use holm_model::command::{Command, ReleaseCause, Released, ReportVms, UnfenceNode, VmReport};
use holm_model::planted::{Plant, planted};
use holm_model::vm::{ObservedState, Vm, VmStatus, WantPower};
use holm_model::{Epoch, VmId};
use holm_node::agent::plan::{NOT_ITS_TURN, Report, Standing, Step, needs_lease, plan};
use holm_node::lease;
use holm_vmm::hypervisor::{ExitCause, Observation};

use super::event::{Event, Ix, Ms, Process};
use super::host::{self, Dir, Pending};
use super::node::{BACKOFF, Waiting, Worker};
use super::sim::{Bug, Sim};

/// How long a worker that waits lets things be.
const WAIT: Ms = 15_000;
/// Longest pause after failures.
const BACKOFF_MAX: Ms = 15_000;

impl Sim {
    /// Called when a replica has applied something: workers look at what changed, reads are answered.
    pub fn applied(&mut self, node: Ix) {
        self.applied_as_leader(node);
        self.finish_reads(node);
        let me = self.daemons[node].id();
        let mut vms: Vec<VmId> = self.daemons[node].state.vms_on(me).map(|vm| vm.id).collect();
        vms.extend(self.daemons[node].workers.keys().chain(self.hosts[node].dirs.keys()).copied());
        vms.sort();
        vms.dedup();
        for vm in vms {
            let revision = self.daemons[node].state.vms.get(&vm).map(|vm| vm.revision);
            let worker = self.daemons[node].workers.entry(vm).or_default();
            if worker.seen != revision {
                worker.seen = revision;
                self.wake(node, vm, 0);
            }
        }
    }

    /// The worker of `vm` looks again, if it is not about to.
    pub fn wake(&mut self, node: Ix, vm: VmId, after: Ms) {
        let process = self.daemons[node].process;
        let worker = self.daemons[node].workers.entry(vm).or_default();
        let about_to = worker.woken && after == 0;
        if !worker.busy && !about_to {
            worker.woken |= after == 0;
            self.heap.push(self.now + after, Event::Work(process, vm));
        }
    }

    /// Every worker looks again.
    pub fn wake_all(&mut self, node: Ix) {
        let mut vms: Vec<VmId> = self.daemons[node].workers.keys().copied().collect();
        vms.extend(self.hosts[node].dirs.keys().copied());
        vms.sort();
        vms.dedup();
        for vm in vms {
            self.wake(node, vm, 0);
        }
    }

    /// Every few seconds a daemon looks at everything, and learns whether it has caught up.
    pub fn look(&mut self, process: Process) {
        let node = process.node;
        self.heap.push(self.now + 5_000, Event::Look(process));
        self.apply(node);
        if !self.daemons[node].caught_up {
            self.read(node, Waiting::CatchUp);
        }
        self.wake_all(node);
    }

    /// A fenced node that has read the present state: is anything alive that is not its own?
    pub fn come_back(&mut self, node: Ix) {
        let cluster = self.cluster();
        let daemon = &self.daemons[node];
        let me = daemon.id();
        let Some(fence) = daemon.state.nodes.get(&me).and_then(|node| node.fence.clone()) else { return };
        let clean = self.hosts[node].dirs.iter().all(|(vm, dir)| {
            let claim = daemon.state.vms.get(vm).and_then(|vm| vm.claim.as_ref());
            let ours = claim.is_some_and(|claim| claim.node == me && claim.epoch == dir.epoch);
            match self.hosts[node].observe(*vm, cluster) {
                Observation::Unknown { .. } => false,
                _ => ours || !host::alive(&dir.state),
            }
        });
        let waits = |waiting: &Waiting| matches!(waiting, Waiting::Unfence);
        if clean && !daemon.waiting.values().any(waits) {
            let boot_id = self.hosts[node].boot;
            let unfence = UnfenceNode { node: me, boot_id, fence: fence.revision, found: 0 };
            self.propose(node, Command::UnfenceNode(unfence), Waiting::Unfence);
        }
    }

    fn standing(&self, node: Ix) -> Standing {
        let daemon = &self.daemons[node];
        let licensed = !self.has(Bug::StartWithoutLicence);
        let lease = match self.standing_of_lease(node) {
            lease::Standing::Behind(id) if !licensed => lease::Standing::Ready(id),
            standing => standing,
        };
        let me = daemon.id();
        let boot = self.hosts[node].boot;
        let record = daemon.state.nodes.get(&me);
        Standing {
            me,
            cluster: self.cluster(),
            boot,
            applied: daemon.state.revision,
            caught_up: daemon.caught_up || !licensed,
            waited: self.now - daemon.started_at >= daemon.state.policy.autostart_wait_ms,
            removed: record.is_some_and(|node| node.past_boots.contains(&boot)),
            held: false,
            allowed_again: false,
            fenced: daemon.fenced() && licensed,
            lease,
            overdue: false,
            turn: true,
        }
    }

    /// A worker observes, plans, and begins the step.
    pub fn work(&mut self, process: Process, vm: VmId) {
        let node = process.node;
        let worker = self.daemons[node].workers.entry(vm).or_default();
        worker.woken = false;
        if worker.busy {
            return;
        }
        let observed = self.hosts[node].observe(vm, self.cluster());
        let daemon = &self.daemons[node];
        let step = plan(self.standing(node), daemon.state.vms.get(&vm), &observed);
        match step {
            Step::Nothing => {
                let claim = daemon.state.vms.get(&vm).and_then(|vm| vm.claim.as_ref());
                let ours = claim.is_some_and(|claim| claim.node == daemon.id());
                if observed == Observation::Absent && !ours {
                    self.daemons[node].workers.remove(&vm);
                } else {
                    self.rest(node, vm);
                }
            }
            Step::Wait(why) => {
                let after = if why == NOT_ITS_TURN { 500 } else { WAIT };
                self.heap.push(self.now + after, Event::Work(process, vm));
            }
            step => self.perform(node, vm, step),
        }
    }

    fn rest(&mut self, node: Ix, vm: VmId) {
        let worker = self.worker(node, vm);
        worker.last = None;
        worker.backoff = BACKOFF;
    }

    fn worker(&mut self, node: Ix, vm: VmId) -> &mut Worker {
        self.daemons[node].workers.entry(vm).or_default()
    }

    fn perform(&mut self, node: Ix, vm: VmId, step: Step) {
        self.note(|| format!("n{} VM {}: {step:?}", node + 1, super::sim::short(vm)));
        let process = self.daemons[node].process;
        let worker = self.worker(node, vm);
        worker.busy = true;
        let repeated = worker.last.as_ref() == Some(&step);
        worker.last = Some(step.clone());
        if !repeated {
            worker.backoff = BACKOFF;
        }
        match step {
            Step::Report(report) => self.report(node, vm, report),
            Step::Start { confirm: true, .. } => self.read(node, Waiting::Confirm(vm, step)),
            Step::Start { .. } => self.prepare_start(node, vm, step),
            Step::GiveUp { .. } => self.read(node, Waiting::GiveUp(vm, step)),
            Step::FinishVacate(epoch) => self.release(node, vm, epoch, ReleaseCause::Vacated),
            Step::GiveBack { epoch, reason } => {
                self.release(node, vm, epoch, ReleaseCause::BuildFailed { reason });
            }
            Step::Stop(_) => self.stop(node, vm),
            step => {
                let at = self.now + 1 + self.rng.below(20);
                self.heap.push(at, Event::Performed(process, vm, step));
            }
        }
    }

    fn report(&mut self, node: Ix, vm: VmId, report: Report) {
        if self.has(Bug::ReportLost) && self.starts.is_multiple_of(3) {
            return self.done(node, vm, true);
        }
        let Report { epoch, run, state, armed_for, note } = report;
        let command = Command::ReportVms(ReportVms {
            node: self.daemons[node].id(),
            boot_id: self.hosts[node].boot,
            sequence: self.hosts[node].boot_ns(self.now),
            reports: vec![VmReport { vm, epoch, run, state, armed_for, note }],
        });
        self.propose(node, command, Waiting::Worker(vm));
    }

    fn release(&mut self, node: Ix, vm: VmId, epoch: Epoch, cause: ReleaseCause) {
        let released = Released { node: self.daemons[node].id(), vm, epoch, cause };
        self.propose(node, Command::Released(released), Waiting::Worker(vm));
    }

    /// The image is fetched, which may take a while.
    pub fn prepare_start(&mut self, node: Ix, vm: VmId, step: Step) {
        let process = self.daemons[node].process;
        let fetch = if self.rng.percent(5) { 4_000 } else { 200 };
        let at = self.now + 5 + self.rng.below(fetch);
        self.heap.push(at, Event::Performed(process, vm, step));
    }

    /// A step that takes effect on the host does so now.
    pub fn performed(&mut self, process: Process, vm: VmId, step: Step) {
        let node = process.node;
        match step {
            Step::Start { epoch, run, .. } => return self.exec(node, vm, epoch, run),
            Step::Bind { epoch, bound } => {
                if let Some(dir) = self.hosts[node].dirs.get_mut(&vm).filter(|dir| dir.epoch == epoch) {
                    dir.bound = bound;
                }
            }
            Step::Arm(lease) => {
                let lives = self.hosts[node].lease_lives(lease, self.now);
                if let Some(dir) = self.hosts[node].dirs.get_mut(&vm).filter(|_| lives) {
                    dir.armed = Some(lease);
                    let start = dir.start;
                    self.heap.push(self.now, Event::LeaseDue { node, vm, start });
                }
            }
            Step::Disarm => {
                if let Some(dir) = self.hosts[node].dirs.get_mut(&vm) {
                    dir.armed = None;
                }
            }
            Step::Release(epoch) => self.mark_released(node, vm, epoch),
            Step::FinishDelete(epoch) => return self.release(node, vm, epoch, ReleaseCause::Deleted),
            Step::Forget => self.forget(node, vm),
            other => unreachable!("{other:?} has no effect of its own"),
        }
        self.done(node, vm, true);
    }

    fn mark_released(&mut self, node: Ix, vm: VmId, epoch: Epoch) {
        let lost = self.has(Bug::MarkNotDurable);
        let dir = self.hosts[node].dirs.entry(vm).or_insert_with(|| empty(epoch));
        if dir.epoch == epoch && dir.pending.is_none() && !host::alive(&dir.state) {
            dir.released = !lost;
        }
    }

    /// The record, if it still asks for exactly this start, and what lease the run needs.
    fn licence(&self, node: Ix, vm: VmId, epoch: Epoch, run: u64) -> Option<(Vm, Option<lease::Standing>)> {
        let daemon = &self.daemons[node];
        let record = daemon.state.vms.get(&vm).filter(|vm| {
            vm.claim.as_ref().is_some_and(|claim| claim.epoch == epoch)
                && vm.power.want == WantPower::On
                && vm.power.run == run
                && vm.status != VmStatus::Deleting
                && vm.recovery.vacate.is_none()
        })?;
        if !needs_lease(record) || planted(Plant::StartWithoutLease) {
            return Some((record.clone(), None));
        }
        let standing = self.standing_of_lease(node);
        let licensed = standing.is_ready() && !daemon.fenced() || self.has(Bug::StartWithoutLicence);
        licensed.then(|| (record.clone(), Some(standing)))
    }

    fn exec(&mut self, node: Ix, vm: VmId, epoch: Epoch, run: u64) {
        let Some((_, standing)) = self.licence(node, vm, epoch, run) else {
            return self.done(node, vm, false);
        };
        if !self.hosts[node].may_begin(vm, epoch, run) {
            return self.done(node, vm, false);
        }
        self.starts += 1;
        let start = self.starts;
        let lease = standing.and_then(lease::Standing::id);
        let dir = self.hosts[node].dirs.entry(vm).or_insert_with(|| empty(epoch));
        if dir.epoch != epoch {
            *dir = empty(epoch);
        }
        dir.pending = Some(Pending { run, lease, start });
        let slow = if self.rng.percent(3) { 3_000 } else { 60 };
        let at = self.now + 5 + self.rng.below(slow);
        self.heap.push(at, Event::ShimReady { node, vm, start });
    }

    fn stop(&mut self, node: Ix, vm: VmId) {
        let Some(dir) = self.hosts[node].dirs.get(&vm).filter(|dir| host::alive(&dir.state)) else {
            return self.done(node, vm, true);
        };
        let (start, epoch, run) = (dir.start, dir.epoch, dir.run);
        self.check_stop(node, vm, epoch, run);
        let slow = if self.rng.percent(10) { 4_000 } else { 300 };
        let at = self.now + 10 + self.rng.below(slow);
        self.heap.push(at, Event::Killed { node, vm, start, cause: ExitCause::Requested });
    }

    /// The build failed: back it goes, if it never ran.
    pub fn give_up(&mut self, node: Ix, vm: VmId, step: &Step) {
        let Step::GiveUp { epoch, run, reason } = step.clone() else {
            unreachable!("it is what was read for")
        };
        let Some(record) = self.daemons[node].state.vms.get(&vm) else { return self.done(node, vm, true) };
        let claimed = record.claim.as_ref().is_some_and(|claim| claim.epoch == epoch);
        if !claimed || record.power.run != run {
            return self.done(node, vm, true);
        }
        if record.status != VmStatus::Build {
            let state = ObservedState::Failed { reason };
            return self.report(node, vm, Report { epoch, run, state, armed_for: None, note: None });
        }
        self.mark_released(node, vm, epoch);
        self.release(node, vm, epoch, ReleaseCause::BuildFailed { reason });
    }

    /// A step is done: the worker looks again, at once or after a pause.
    pub fn done(&mut self, node: Ix, vm: VmId, well: bool) {
        let worker = self.worker(node, vm);
        worker.busy = false;
        let pause = if well { 0 } else { worker.backoff };
        if !well {
            worker.backoff = (2 * worker.backoff).min(BACKOFF_MAX);
        }
        // Never twice in the same moment, whatever the plan says.
        self.wake(node, vm, pause.max(1));
    }
}

fn empty(epoch: Epoch) -> Dir {
    Dir {
        epoch,
        released: false,
        bound: false,
        run: 0,
        boot: None,
        state: holm_vmm::hypervisor::InstanceState::Prepared,
        armed: None,
        pending: None,
        start: 0,
    }
}
