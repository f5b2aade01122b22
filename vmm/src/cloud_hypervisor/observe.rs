//! What is there of a VM: its marks, its lock, and its shim's word. Reads only.

use std::io;
use std::time::Duration;

use holm_model::VmId;

use super::CloudHypervisor;
use crate::hypervisor::{Instance, InstanceState, Observation};
use crate::last_run;
use crate::lease::{ArmedRecord, LeaseId};
use crate::shim::client::{self, TIMEOUT};
use crate::shim::protocol::{Op, Status};
use crate::vm_dir::{EpochRecord, ShimRecord, VmDir};
use crate::vm_state::Phase;

/// How long a lock may outlast its shim's socket: both end with the process, within microseconds.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
/// How often the lock is looked at meanwhile.
const LOCK_POLL: Duration = Duration::from_millis(5);

impl CloudHypervisor {
    pub(super) async fn observe_vm(&self, vm: VmId) -> Observation {
        let dir = self.dir(vm);
        match self.look(vm, &dir).await {
            Ok(observation) => observation,
            Err(e) => {
                Observation::Unknown { reason: format!("{} cannot be read: {e}", dir.path().display()) }
            }
        }
    }

    async fn look(&self, vm: VmId, dir: &VmDir) -> io::Result<Observation> {
        let Some(mark) = dir.epoch()? else { return Ok(Observation::Absent) };
        if dir.is_locked()? {
            if let Some(observation) = self.ask_shim(vm, dir, &mark).await? {
                return Ok(observation);
            }
            // The shim's socket is closed. Its end may be a moment away; else it has just begun.
            if !lock_ends(dir).await? {
                return Ok(Observation::Unknown { reason: "a start is under way".to_owned() });
            }
        }
        Ok(Observation::Known(last_run::at_rest(dir, &mark, self.boot_id)?))
    }

    /// The shim's word; `None` when there is nobody to ask.
    async fn ask_shim(&self, vm: VmId, dir: &VmDir, mark: &EpochRecord) -> io::Result<Option<Observation>> {
        let Some(record) = dir.shim()? else { return Ok(None) };
        // Whatever it says now, what it says next is news.
        self.watches.begin(vm, &record.control_socket);
        let (state, armed) = match client::call(&record.control_socket, Op::Status, TIMEOUT).await {
            Ok(status) => match running_state(&status) {
                Ok(state) => (state, status.armed),
                Err(reason) => return Ok(Some(Observation::Unknown { reason })),
            },
            // Its backlog is full, or it took the request and is silent.
            Err(e) if matches!(e.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => {
                let state = InstanceState::Unresponsive {
                    reason: format!("its shim (process {}) does not answer", record.shim.pid),
                };
                (state, ArmedRecord::read(&self.run_dir(vm))?.map(|armed| armed.lease.id))
            }
            Err(_) => return Ok(None),
        };
        Ok(Some(Observation::Known(instance(mark, &record, armed, state))))
    }
}

fn instance(
    mark: &EpochRecord,
    record: &ShimRecord,
    armed: Option<LeaseId>,
    state: InstanceState,
) -> Instance {
    // A run of an older epoch that still goes on is reported under the epoch it belongs to.
    Instance {
        epoch: record.epoch,
        released: mark.released && mark.epoch == record.epoch,
        cluster: mark.cluster,
        bound: mark.bound && mark.epoch == record.epoch,
        run: record.run,
        boot_id: Some(record.boot_id),
        armed,
        can_arm: record.can_arm,
        state,
    }
}

/// The phase in the words of the trait; the text of an unknown one where there is none.
fn running_state(status: &Status) -> Result<InstanceState, String> {
    if let Some(unanswered) = &status.unanswered {
        // Without the time it has taken so far: each new text would be one more report to the cluster.
        return Ok(InstanceState::Unresponsive {
            reason: format!("Cloud Hypervisor has not answered {}; it may be busy", unanswered.call),
        });
    }
    match &status.phase {
        Phase::Starting => Err("the guest is being started".to_owned()),
        Phase::Running | Phase::Stopping(_) => Ok(InstanceState::Running),
        Phase::Paused => Ok(InstanceState::Paused),
        Phase::Ending(_) => Err("Cloud Hypervisor is being ended".to_owned()),
        Phase::Ended(cause) => Ok(InstanceState::Ended(cause.clone())),
    }
}

/// Waits a moment for the lock to be free; false when it is still held.
pub(super) async fn lock_ends(dir: &VmDir) -> io::Result<bool> {
    let deadline = tokio::time::Instant::now() + LOCK_PATIENCE;
    while dir.is_locked()? {
        if tokio::time::Instant::now() >= deadline {
            return Ok(false);
        }
        tokio::time::sleep(LOCK_POLL).await;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim::protocol::{Unanswered, VERSION};

    #[test]
    fn a_vmm_that_hangs_longer_is_told_in_the_same_words() {
        let told = |for_ms| {
            let unanswered = Some(Unanswered { call: "vm.info".to_owned(), for_ms });
            running_state(&Status {
                v: VERSION,
                epoch: holm_model::Epoch(holm_model::Revision(1)),
                run: 1,
                phase: Phase::Running,
                vmm_pid: 1,
                resets: 0,
                unanswered,
                armed: None,
                error: None,
            })
        };
        let reason = "Cloud Hypervisor has not answered vm.info; it may be busy".to_owned();
        assert_eq!(told(2_000), Ok(InstanceState::Unresponsive { reason }));
        assert_eq!(told(2_000), told(7_000));
    }
}
