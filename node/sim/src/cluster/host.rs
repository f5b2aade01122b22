//! One simulated host: its boot and its clock, the lease file, and what lies and runs in its VMs' directories.
//! It does what the Cloud Hypervisor driver and its shims do, on the simulated clock: nothing is forgotten
//! with the daemon, what runs and the lease file are with the host.

use std::collections::BTreeMap;

use holm_model::{BootId, ClusterId, Epoch, VmId};
use holm_vmm::hypervisor::{ExitCause, Instance, InstanceState, Observation};
use holm_vmm::lease::LeaseId;
use uuid::Uuid;

use super::event::Ms;

/// The lease file.
#[derive(Clone, Copy, Debug)]
pub struct LeaseFile {
    pub id: LeaseId,
    pub deadline_ns: u64,
}

/// A VM's directory.
#[derive(Clone, Debug)]
pub struct Dir {
    pub epoch: Epoch,
    pub released: bool,
    pub bound: bool,
    pub run: u64,
    pub boot: Option<BootId>,
    pub state: InstanceState,
    pub armed: Option<LeaseId>,
    /// A shim that has not begun its run yet: it holds the directory's lock.
    pub pending: Option<Pending>,
    /// Which start the run is of: a shim's events name it.
    pub start: u64,
}

/// A shim between its exec and its VMM.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    pub run: u64,
    pub lease: Option<LeaseId>,
    pub start: u64,
}

/// One host.
#[derive(Debug)]
pub struct Host {
    pub on: bool,
    pub boot: BootId,
    booted_at: Ms,
    /// How fast its clock runs, in millionths.
    pub rate: u64,
    pub frozen_until: Ms,
    pub lease: Option<LeaseFile>,
    pub dirs: BTreeMap<VmId, Dir>,
}

impl Host {
    /// A host that boots for the first time.
    pub fn new(number: u128, rate: u64) -> Self {
        Self {
            on: true,
            boot: BootId(Uuid::from_u128(number)),
            booted_at: 0,
            rate,
            frozen_until: 0,
            lease: None,
            dirs: BTreeMap::new(),
        }
    }

    /// Nanoseconds since it booted, by its own clock.
    pub fn boot_ns(&self, now: Ms) -> u64 {
        // A host is never at zero: the product takes no deadline for one at the beginning of time.
        1_000_000_000 + (now - self.booted_at) * self.rate
    }

    /// When its clock shows `boot_ns`.
    pub fn when(&self, boot_ns: u64) -> Ms {
        self.booted_at + boot_ns.saturating_sub(1_000_000_000).div_ceil(self.rate)
    }

    /// Power is lost: nothing that ran is left, nor what lay in memory.
    pub fn power_off(&mut self) {
        self.on = false;
        self.lease = None;
        for dir in self.dirs.values_mut() {
            dir.pending = None;
            dir.armed = None;
            if alive(&dir.state) {
                dir.state = InstanceState::Ended(ExitCause::HostLost);
            }
        }
    }

    /// It boots again.
    pub fn power_on(&mut self, number: u128, now: Ms) {
        self.on = true;
        self.boot = BootId(Uuid::from_u128(number));
        self.booted_at = now;
    }

    /// What the driver sees of `vm`.
    pub fn observe(&self, vm: VmId, cluster: ClusterId) -> Observation {
        let Some(dir) = self.dirs.get(&vm) else { return Observation::Absent };
        if dir.pending.is_some() {
            return Observation::Unknown { reason: "its shim is starting".to_owned() };
        }
        Observation::Known(Instance {
            epoch: dir.epoch,
            released: dir.released,
            cluster: Some(cluster),
            bound: dir.bound,
            run: dir.run,
            boot_id: dir.boot,
            armed: dir.armed.filter(|_| alive(&dir.state)),
            can_arm: true,
            state: dir.state.clone(),
        })
    }

    /// Whether a guest of `vm` executes here now.
    pub fn runs(&self, vm: VmId, now: Ms) -> bool {
        self.on && self.frozen_until <= now && self.dirs.get(&vm).is_some_and(|dir| alive(&dir.state))
    }

    /// Whether the lease `id` is in force.
    pub fn lease_lives(&self, id: LeaseId, now: Ms) -> bool {
        self.lease.is_some_and(|lease| lease.id == id && self.boot_ns(now) < lease.deadline_ns)
    }

    /// Whether run `run` of `epoch` may begin, as the driver and the shim see it.
    pub fn may_begin(&self, vm: VmId, epoch: Epoch, run: u64) -> bool {
        let Some(dir) = self.dirs.get(&vm) else { return true };
        if dir.epoch != epoch {
            return dir.epoch < epoch && !alive(&dir.state);
        }
        let lost = dir.boot != Some(self.boot)
            || matches!(dir.state, InstanceState::Ended(ExitCause::HostLost | ExitCause::LeaseEnded));
        !dir.released && !alive(&dir.state) && (dir.run < run || dir.run == run && lost)
    }
}

/// Whether a VMM is there.
pub fn alive(state: &InstanceState) -> bool {
    matches!(state, InstanceState::Running | InstanceState::Paused | InstanceState::Unresponsive { .. })
}
