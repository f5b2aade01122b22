//! One node of the model: its daemon, what is in the VM's directory, the shim, and the lease file; and what
//! passes on it with a tick of the clock.

use super::replicated::{Availability, Replicated};
use super::rule::{Rule, Rules};
use super::time::Timing;

/// What the daemon has decided and not done yet: it fetches the image, waits for a slot …
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Starting {
    pub epoch: u8,
}

/// The VM's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Directory {
    pub epoch: u8,
    /// Durable: survives whatever happens.
    pub released: bool,
    /// What starts here needs a lease, whatever the replica says; durable.
    pub bound: bool,
}

/// The shim of the VM and its VMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shim {
    pub epoch: u8,
    /// The VMM runs; until then the shim is between its exec and its check.
    pub running: bool,
    /// The shim is gone, its VMM is not.
    pub orphaned: bool,
    pub paused: bool,
    /// The lease the VMM ends with.
    pub armed: Option<u8>,
    /// Ticks until the VMM is dead, once its lease has ended.
    pub doom: Option<u8>,
}

/// The lease file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    pub id: u8,
    /// Ticks until its deadline on this node's clock.
    pub remaining: u8,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// The machine is on.
    pub on: bool,
    /// The whole machine stands still.
    pub frozen: bool,
    /// The daemon runs.
    pub up: bool,
    pub paused: bool,
    /// Which run of the daemon this is.
    pub process: u8,
    /// Ticks since the daemon started, and since boot.
    pub process_age: u8,
    pub uptime: u8,
    /// How far its replica has come. Lost at a restart: the replica starts again from any earlier state.
    pub applied: u8,
    /// The greatest read index this process was granted.
    pub read_index: Option<u8>,
    pub starting: Option<Starting>,
    /// The epoch this process is giving back.
    pub releasing: Option<u8>,
    pub lease: Option<Lease>,
    pub next_lease: u8,
    pub directory: Option<Directory>,
    pub shim: Option<Shim>,
    /// The operator has said that this machine is off, and it has been switched on since.
    pub evacuated: bool,
}

impl Default for Node {
    fn default() -> Self {
        Self {
            on: true,
            frozen: false,
            up: true,
            paused: false,
            process: 0,
            process_age: 0,
            uptime: 0,
            applied: 0,
            read_index: None,
            starting: None,
            releasing: None,
            lease: None,
            next_lease: 1,
            directory: None,
            shim: None,
            evacuated: false,
        }
    }
}

impl Node {
    /// The daemon can take a step.
    pub fn daemon_runs(&self) -> bool {
        self.on && self.up && !self.paused && !self.frozen
    }

    /// The VM runs here. A machine that stands still runs nothing.
    pub fn vmm_alive(&self) -> bool {
        !self.frozen && self.shim.is_some_and(|shim| shim.running)
    }

    /// The lease of the file, if its deadline has not passed.
    pub fn live_lease(&self) -> Option<Lease> {
        self.lease.filter(|lease| lease.remaining > 0)
    }

    /// The replica has seen at least what a grant to this process has seen.
    pub fn fresh(&self) -> bool {
        self.read_index.is_some_and(|read_index| self.applied >= read_index)
    }

    /// Nothing of the VM is here, as the daemon sees it. A shim that has not started its VMM is seen by the
    /// lock it holds; without the lock it is invisible.
    pub fn seen_absent(&self, rules: Rules) -> bool {
        match self.shim {
            None => true,
            Some(shim) => !shim.running && !rules.on(Rule::ShimHoldsDirectory),
        }
    }

    /// Whether the VM must not outlive the lease, as far as this node can tell: the record says so, or is
    /// about to; or the directory does, whatever the record.
    pub fn must_arm(&self, record: &Replicated, rules: Rules) -> bool {
        let recorded =
            record.effective == Availability::Failover || record.requested == Availability::Failover;
        let bound = self.directory.is_some_and(|directory| directory.bound);
        recorded || (bound && rules.on(Rule::DirectoryBoundFirst))
    }

    /// Whether the lease `armed` is still in force.
    pub fn lease_holds(&self, armed: u8, rules: Rules) -> bool {
        let same = |lease: Lease| lease.id == armed || !rules.on(Rule::NewIdAfterLapse);
        self.live_lease().is_some_and(same)
    }

    /// One tick on this node's clock, which goes on while the machine stands still.
    pub fn tick(&mut self, rules: Rules, timing: &Timing) {
        self.process_age = timing.older(self.process_age);
        if self.on {
            self.uptime = timing.older(self.uptime);
            if let Some(lease) = &mut self.lease {
                lease.remaining = lease.remaining.saturating_sub(1);
            }
            if let Some(shim) = self.shim.as_mut() {
                shim.doom = shim.doom.map(|doom| doom.saturating_sub(1));
            }
            self.enforce(rules, timing);
        }
    }

    /// Dooms a VMM whose lease has ended or changed, and kills one whose time is up if anybody is there to.
    pub fn enforce(&mut self, rules: Rules, timing: &Timing) {
        let Some(shim) = self.shim.filter(|shim| shim.running) else { return };
        let ended = shim.armed.is_some_and(|armed| !self.lease_holds(armed, rules));
        let doom = if ended { Some(shim.doom.unwrap_or(timing.kill)) } else { None };
        let by_shim = rules.on(Rule::ShimEnforces) && !shim.paused && !shim.orphaned;
        let by_daemon = rules.on(Rule::DaemonEnforces) && self.daemon_runs();
        let killed = doom == Some(0) && !self.frozen && (by_shim || by_daemon);
        self.shim = if killed { None } else { Some(Shim { doom, ..shim }) };
    }
}
