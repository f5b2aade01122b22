//! What shims do, daemon or no daemon: begin a run, end it with its lease, and tell whoever looks.

use holm_model::VmId;
use holm_vmm::hypervisor::{ExitCause, InstanceState};

use super::event::{Event, Ix, Ms};
use super::host;
use super::sim::{Bug, Sim};

/// The longest a shim takes from the end of a lease to the death of its VMM: less than the margin.
const KILL: Ms = 800;

impl Sim {
    /// The shim is through with its exec: it looks once more, under the lock, and begins the run or ends.
    pub fn shim_ready(&mut self, node: Ix, vm: VmId, start: u64) {
        let (now, boot) = (self.now, self.hosts[node].boot);
        let Some(dir) = self.hosts[node].dirs.get(&vm) else { return };
        let Some(pending) = dir.pending.filter(|pending| pending.start == start) else { return };
        let leased = pending.lease.is_none_or(|lease| self.hosts[node].lease_lives(lease, now));
        let licensed = leased || self.has(Bug::StartWithoutLicence);
        let unbound = dir.bound && pending.lease.is_none();
        let (epoch, released) = (dir.epoch, dir.released);
        let fails = self.healed_at.is_none() && self.rng.percent(6);
        let Some(dir) = self.hosts[node].dirs.get_mut(&vm) else { return };
        dir.pending = None;
        if released || unbound {
            return self.tell(node, vm, false);
        }
        dir.run = pending.run;
        dir.boot = Some(boot);
        dir.start = start;
        dir.armed = None;
        if !licensed {
            dir.state = InstanceState::Ended(ExitCause::LeaseEnded);
            return self.tell(node, vm, false);
        }
        if fails {
            dir.state =
                InstanceState::Ended(ExitCause::Failed { reason: "the VMM did not start".to_owned() });
            return self.tell(node, vm, true);
        }
        dir.state = InstanceState::Running;
        dir.armed = pending.lease;
        self.figures.starts += 1;
        self.note(|| format!("n{} runs VM {} at epoch {epoch}", node + 1, super::sim::short(vm)));
        self.look_for_two(vm);
        self.check_start(node, vm, epoch);
        self.heap.push(now, Event::LeaseDue { node, vm, start });
        if self.healed_at.is_none() && self.rng.percent(10) {
            let cause = match self.rng.below(2) {
                0 => ExitCause::GuestOff,
                _ => ExitCause::Failed { reason: "the VMM crashed".to_owned() },
            };
            let at = now + self.rng.below(20_000);
            self.heap.push(at, Event::GuestEnds { node, vm, start, cause });
        }
        self.tell(node, vm, true);
    }

    /// The daemon, if it runs, learns that the shim is through.
    fn tell(&mut self, node: Ix, vm: VmId, well: bool) {
        if self.hosts[node].on && self.daemons[node].up {
            self.done(node, vm, well);
        }
    }

    /// A shim looks at its lease: it lives, and the shim looks again at its deadline; or it has ended, and
    /// so does the VM, soon.
    pub fn lease_due(&mut self, node: Ix, vm: VmId, start: u64) {
        let host = &self.hosts[node];
        let Some(dir) = host.dirs.get(&vm).filter(|dir| dir.start == start && host::alive(&dir.state)) else {
            return;
        };
        let Some(armed) = dir.armed else { return };
        if !host.on || self.has(Bug::ShimIgnoresLease) {
            return;
        }
        if let Some(lease) = host.lease.filter(|_| host.lease_lives(armed, self.now)) {
            let at = host.when(lease.deadline_ns).max(self.now + 1);
            self.heap.push(at, Event::LeaseDue { node, vm, start });
            return self.look_for_two(vm);
        }
        // A machine that stood still kills at once, as its clock went on.
        let late = if host.frozen_until == self.now { 0 } else { self.rng.below(KILL) };
        self.heap.push(self.now + late, Event::Killed { node, vm, start, cause: ExitCause::LeaseEnded });
        if late == 0 {
            self.ended(node, vm, start, ExitCause::LeaseEnded);
        }
    }

    /// Every shim of `node` looks at its lease, because there is another one.
    pub fn look_at_leases(&mut self, node: Ix) {
        let due: Vec<(VmId, u64)> = self.hosts[node].dirs.iter().map(|(vm, dir)| (*vm, dir.start)).collect();
        for (vm, start) in due {
            self.heap.push(self.now, Event::LeaseDue { node, vm, start });
        }
    }

    /// A run ends.
    pub fn ended(&mut self, node: Ix, vm: VmId, start: u64, cause: ExitCause) {
        let Some(dir) = self.hosts[node].dirs.get_mut(&vm) else { return };
        if dir.start != start || !host::alive(&dir.state) {
            return;
        }
        dir.state = InstanceState::Ended(cause.clone());
        dir.armed = None;
        self.note(|| format!("n{} VM {} ends: {cause:?}", node + 1, super::sim::short(vm)));
        if self.hosts[node].on && self.daemons[node].up {
            self.done(node, vm, true);
        }
    }
}
