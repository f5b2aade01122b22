//! How the latest run of a VM that is at rest ended, read from its directory; the same whichever driver
//! asks and whichever ran it, since a node may change its driver between two runs.

use std::io;

use holm_model::{BootId, Epoch};

use crate::hypervisor::{ExitCause, Instance, InstanceState};
use crate::vm_dir::{EpochRecord, ShimRecord, SimulatedRecord, VmDir};

/// The instance in a directory that nobody runs. `boot` is the current boot of the host.
pub fn at_rest(dir: &VmDir, mark: &EpochRecord, boot: BootId) -> io::Result<Instance> {
    let real = dir.shim()?.filter(|run| run.epoch == mark.epoch);
    let simulated = dir.simulated()?.filter(|run| run.epoch == mark.epoch);
    let (run, boot_id, state) = match (real, simulated) {
        (None, None) => (0, None, InstanceState::Prepared),
        (Some(real), simulated) if simulated.as_ref().is_none_or(|simulated| simulated.run < real.run) => {
            (real.run, Some(real.boot_id), InstanceState::Ended(end_of_real(dir, &real, boot)?))
        }
        (_, Some(simulated)) => {
            (simulated.run, Some(simulated.boot_id), InstanceState::Ended(end_of_simulated(simulated)))
        }
        (Some(_), None) => unreachable!("a real run alone is the latest"),
    };
    Ok(Instance {
        epoch: mark.epoch,
        released: mark.released,
        cluster: mark.cluster,
        bound: mark.bound,
        run,
        boot_id,
        armed: None,
        can_arm: true,
        state,
    })
}

fn end_of_real(dir: &VmDir, record: &ShimRecord, boot: BootId) -> io::Result<ExitCause> {
    let exit = dir
        .exit()?
        .filter(|exit| (exit.epoch, exit.run, exit.boot_id) == (record.epoch, record.run, record.boot_id));
    Ok(match exit {
        Some(exit) => exit.cause,
        None if record.boot_id != boot => ExitCause::HostLost,
        None => ExitCause::Failed {
            reason: format!(
                "the shim (process {}) was killed or crashed, and Cloud Hypervisor died with it",
                record.shim.pid
            ),
        },
    })
}

/// A simulated run that nobody simulates any more is lost with its host.
fn end_of_simulated(record: SimulatedRecord) -> ExitCause {
    record.ended.unwrap_or(ExitCause::HostLost)
}

/// Whether `run` may begin; otherwise the text of the refusal. A run begins once, but one that was lost
/// with its host or its lease, or ended in an earlier boot, may begin again; and, with `again`, one that was
/// ended for a shutdown of its host which did not come.
pub fn may_begin(
    dir: &VmDir,
    epoch: Epoch,
    run: u64,
    boot: BootId,
    again: bool,
) -> io::Result<Result<(), String>> {
    let Some(mark) = dir.epoch()? else { return Ok(Ok(())) };
    if mark.epoch > epoch {
        return Ok(Err(format!("epoch {epoch} was replaced on this host by epoch {}", mark.epoch)));
    }
    if mark.epoch < epoch {
        return Ok(Ok(()));
    }
    if mark.released {
        return Ok(Err(format!("epoch {epoch} was released on this host")));
    }
    let last = at_rest(dir, &mark, boot)?;
    let lost = last.boot_id != Some(boot)
        || matches!(last.state, InstanceState::Ended(ExitCause::HostLost | ExitCause::LeaseEnded))
        || again && last.state == InstanceState::Ended(ExitCause::Requested);
    Ok(match last.run {
        begun if begun < run || (begun == run && lost) => Ok(()),
        begun => Err(format!("run {run} was begun already; the latest is {begun}")),
    })
}

#[cfg(test)]
mod tests {
    use holm_model::Revision;

    use super::*;
    use crate::durable::Sync;
    use crate::vm_dir::{ExitRecord, FORMAT, ProcessId};

    const EPOCH: Epoch = Epoch(Revision(7));

    fn boot(n: u128) -> BootId {
        BootId(uuid::Uuid::from_u128(n))
    }

    fn began(dir: &VmDir, run: u64, boot_id: BootId) {
        let record = ShimRecord {
            version: FORMAT,
            epoch: EPOCH,
            run,
            boot_id,
            shim: ProcessId { pid: 10, start_ticks: 1 },
            vmm: None,
            api_socket: "/a".into(),
            control_socket: "/b".into(),
            console_socket: "/c".into(),
            cgroup: None,
            can_arm: true,
        };
        dir.set_shim(&record, Sync::No).expect("shim.json");
    }

    fn ended(dir: &VmDir, run: u64, boot_id: BootId, cause: ExitCause) {
        let record = ExitRecord { version: FORMAT, epoch: EPOCH, run, boot_id, cause, ended_at_ms: 0 };
        dir.set_exit(&record).expect("exit.json");
    }

    fn state(dir: &VmDir) -> InstanceState {
        let mark = dir.epoch().expect("epoch.json").expect("marked");
        at_rest(dir, &mark, boot(1)).expect("readable").state
    }

    #[test]
    fn the_state_at_rest_follows_run_exit_and_boot() {
        let root = tempfile::tempdir().expect("temporary directory");
        let dir = VmDir::at(root.path().join("vm"));
        dir.set_epoch(EPOCH, false).expect("marked");
        assert_eq!(state(&dir), InstanceState::Prepared);
        began(&dir, 1, boot(1));
        assert!(matches!(state(&dir), InstanceState::Ended(ExitCause::Failed { .. })));
        ended(&dir, 1, boot(1), ExitCause::GuestOff);
        assert_eq!(state(&dir), InstanceState::Ended(ExitCause::GuestOff));
        began(&dir, 2, boot(0));
        assert_eq!(state(&dir), InstanceState::Ended(ExitCause::HostLost), "no exit in an earlier boot");
        dir.set_epoch(Epoch(Revision(8)), false).expect("marked");
        assert_eq!(state(&dir), InstanceState::Prepared, "what an older epoch did is not this one's");
    }

    #[test]
    fn a_run_begins_once_in_a_boot_and_again_after_the_host_was_lost() {
        let root = tempfile::tempdir().expect("temporary directory");
        let dir = VmDir::at(root.path().join("vm"));
        let begins = |epoch: u64, run, again| {
            may_begin(&dir, Epoch(Revision(epoch)), run, boot(1), again).expect("readable").is_ok()
        };
        let may = |epoch, run| begins(epoch, run, false);
        assert!(may(7, 1), "nothing is there");
        dir.set_epoch(EPOCH, false).expect("marked");
        began(&dir, 2, boot(1));
        ended(&dir, 2, boot(1), ExitCause::Requested);
        assert!(!may(7, 1) && !may(7, 2) && may(7, 3));
        assert!(!may(6, 9) && may(8, 1));
        assert!(begins(7, 2, true) && !begins(7, 1, true), "the shutdown it was ended for did not come");
        ended(&dir, 2, boot(1), ExitCause::HostLost);
        assert!(!may(7, 1) && may(7, 2), "the host went down under it");
        began(&dir, 2, boot(0));
        assert!(!may(7, 1) && may(7, 2), "it was begun in an earlier boot");
        dir.set_epoch(EPOCH, true).expect("released");
        assert!(!may(7, 3));
    }
}
