//! What a run does about its lease: it begins under one, is bound to one or freed while it goes on, and ends
//! with it. The VMM is killed first and the rest comes after.

use super::run::Run;
use super::setup::{self, note};
use crate::lease::{ArmedRecord, Lease};
use crate::vm_state::{Input, Phase};

impl Run {
    /// Ends the run if its lease has ended.
    pub(super) fn end_with_lease(&mut self) {
        if self.lease.has_ended() {
            self.step(Input::LeaseEnded);
            note("the lease ended: Cloud Hypervisor was killed");
        }
    }

    /// Binds the run to `lease`, unless it is bound to it already.
    pub(super) fn arm(&mut self, lease: Lease) -> Result<(), String> {
        // Of two orders that waited here, the lease that ended meanwhile counts first.
        self.end_with_lease();
        if matches!(self.phase, Phase::Ending(_) | Phase::Ended(_)) {
            return Err("the VM is being ended".to_owned());
        }
        if self.lease.armed() == Some(lease.id) {
            return Ok(());
        }
        let Some(vmm) = self.record.vmm else { return Err("the VM is being started".to_owned()) };
        if self.lock_memory_at.take().is_some() {
            setup::lock_memory();
        }
        self.lease.arm(&lease)?;
        let record = ArmedRecord::new(self.record.boot_id, lease, self.record.shim, vmm);
        record.write(&self.run_dir).map_err(|e| {
            // Bound without a record, nobody would know.
            self.lease.disarm();
            format!("armed.json cannot be written: {e}")
        })
    }

    /// Frees the run from its lease.
    pub(super) fn disarm(&mut self) -> Result<(), String> {
        self.end_with_lease();
        if matches!(self.phase, Phase::Ending(_) | Phase::Ended(_)) {
            return Err("the VM is being ended".to_owned());
        }
        // First, so that the watchdog never sees a freed VM as bound.
        ArmedRecord::remove(&self.run_dir).map_err(|e| format!("armed.json cannot be removed: {e}"))?;
        self.lease.disarm();
        Ok(())
    }
}
