//! Binding a run that goes on to a lease, and freeing it again: the shim does both, and its answer is the
//! proof. What was asked of a shim that does not answer is unknown.

use std::io;

use holm_model::VmId;

use super::CloudHypervisor;
use crate::hypervisor::{Error, Lease};
use crate::shim::client::{self, TIMEOUT};
use crate::shim::protocol::{Op, Status};
use crate::vm_files::io_error;

/// For a run that was started before its shim's program knew leases.
const TOO_OLD: &str =
    "the VM was started by an earlier version of Holm, which knows no leases: stop and start it once";

impl CloudHypervisor {
    pub(super) async fn arm_vm(&self, vm: VmId, lease: Lease) -> Result<(), Error> {
        lease.deadline().map_err(Error::NoLease)?;
        let Lease { file, id } = lease;
        let status = self.ask_about_lease(vm, Op::Arm { file, lease: id }).await?;
        match (status.error, status.armed) {
            (None, Some(armed)) if armed == id => Ok(()),
            (Some(why), _) => Err(Error::NoLease(why)),
            (None, _) => Err(Error::Unknown("its shim did not say that it is armed".to_owned())),
        }
    }

    pub(super) async fn disarm_vm(&self, vm: VmId) -> Result<(), Error> {
        let status = self.ask_about_lease(vm, Op::Disarm).await?;
        match (status.error, status.armed) {
            (None, None) => Ok(()),
            (Some(why), _) => Err(Error::Refused(why)),
            (None, Some(_)) => Err(Error::Unknown("its shim did not say that it is disarmed".to_owned())),
        }
    }

    async fn ask_about_lease(&self, vm: VmId, op: Op) -> Result<Status, Error> {
        let dir = self.dir(vm);
        let unreadable = || io_error("cannot read", dir.path());
        if dir.epoch().map_err(unreadable())?.is_none() {
            return Err(Error::NotHere);
        }
        let not_running = || Error::Refused("the VM does not run".to_owned());
        if !dir.is_locked().map_err(unreadable())? {
            return Err(not_running());
        }
        let record = dir.shim().map_err(unreadable())?.ok_or_else(not_running)?;
        if !record.can_arm {
            return Err(Error::Refused(TOO_OLD.to_owned()));
        }
        client::call(&record.control_socket, op, TIMEOUT).await.map_err(|e| match e.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => not_running(),
            _ => Error::Unknown(format!("its shim (process {}) does not answer: {e}", record.shim.pid)),
        })
    }
}
