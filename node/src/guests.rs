//! Powers off the guests of this host when it shuts down, those of the highest start order first. Works without
//! the daemon: the shims are asked directly. A mark in the run directory, which a boot clears, keeps the daemon
//! from starting them again meanwhile; the records still want them on, so they start after the boot, or when
//! they are allowed to.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use holm_model::VmId;
use holm_model::vm::StopMode;
use holm_vmm::hypervisor::{Hypervisor, InstanceState, Observation};
use tokio::task::JoinSet;

use crate::cli::{AllowGuests, StopGuests};
use crate::config::Config;
use crate::wiring;

/// Passes over the guests of the host.
const PASSES: usize = 3;

/// While this file is there, the daemon starts nothing. It names the guests that were stopped, one a line.
pub fn hold_file(run_dir: &Path) -> PathBuf {
    run_dir.join("guests-held")
}

/// Names the guests that were stopped with the host and are allowed again: the daemon starts them.
fn allowed_file(run_dir: &Path) -> PathBuf {
    run_dir.join("guests-allowed")
}

/// Whether this run of `vm` was ended for the host's shutdown, which did not come.
pub fn is_allowed_again(run_dir: &Path, vm: VmId, run: u64) -> bool {
    std::fs::read_to_string(allowed_file(run_dir))
        .is_ok_and(|text| text.lines().any(|line| line == name_of(vm, run)))
}

fn name_of(vm: VmId, run: u64) -> String {
    format!("{vm} {run}")
}

/// `holmd allow-guests`
///
/// # Errors
/// When the marks cannot be changed.
pub fn allow(args: &AllowGuests) -> Result<()> {
    let run_dir = match &args.run_dir {
        Some(run_dir) => run_dir.clone(),
        None => Config::read(&args.data_dir)?.run_dir,
    };
    let (hold, allowed) = (hold_file(&run_dir), allowed_file(&run_dir));
    let stopped = match std::fs::read_to_string(&hold) {
        Ok(stopped) => stopped,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", hold.display())),
    };
    let before = std::fs::read_to_string(&allowed).unwrap_or_default();
    let lines: BTreeSet<&str> = before.lines().chain(stopped.lines()).collect();
    let fresh = allowed.with_extension("new");
    // The names first, whole: without the hold and without them, the guests would stay off.
    std::fs::write(&fresh, lines.into_iter().map(|line| format!("{line}\n")).collect::<String>())
        .and_then(|()| std::fs::rename(&fresh, &allowed))
        .with_context(|| format!("cannot write {}", allowed.display()))?;
    std::fs::remove_file(&hold).with_context(|| format!("cannot remove {}", hold.display()))
}

/// `holmd stop-guests`
///
/// # Errors
/// When the configuration cannot be read, or a guest could not be stopped; all others are stopped.
pub fn stop(args: StopGuests) -> Result<()> {
    let mut config = Config::read(&args.data_dir)?;
    if let Some(run_dir) = args.run_dir {
        config.run_dir = run_dir;
    }
    let hold = hold_file(&config.run_dir);
    std::fs::create_dir_all(&config.run_dir)
        .and_then(|()| std::fs::OpenOptions::new().create(true).append(true).open(&hold).map(drop))
        .with_context(|| format!("cannot write {}", hold.display()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let hypervisor = wiring::hypervisor(&config, &args.data_dir).await?;
        let mode = StopMode::Graceful { timeout_s: args.timeout };
        let (mut stopped, mut failed) = (0, Vec::new());
        // More than once: a start that was under way when the mark was made may end meanwhile.
        for _ in 0..PASSES {
            let (now, not) = stop_all(&hypervisor, mode, &hold).await?;
            stopped += now;
            failed = not;
            if now == 0 && failed.is_empty() {
                break;
            }
        }
        println!("{stopped} guests stopped; none starts before the next boot, or `holmd allow-guests`.");
        if !failed.is_empty() {
            bail!("{} guests could not be stopped: {}", failed.len(), failed.join("; "));
        }
        Ok(())
    })
}

/// One pass: how many were stopped, and what went wrong with the others. Guests of one order stop together.
async fn stop_all(
    hypervisor: &Arc<dyn Hypervisor>,
    mode: StopMode,
    hold: &Path,
) -> Result<(usize, Vec<String>)> {
    let (mut stopped, mut failed) = (0, Vec::new());
    for (_, vms) in in_order(running(hypervisor).await?) {
        write_down(hold, &vms).with_context(|| format!("cannot write {}", hold.display()))?;
        let mut stops = JoinSet::new();
        for (vm, _) in vms {
            let hypervisor = hypervisor.clone();
            stops.spawn(async move { (vm, hypervisor.stop(vm, mode).await) });
        }
        while let Some(done) = stops.join_next().await {
            match done? {
                (_, Ok(())) => stopped += 1,
                (vm, Err(error)) => failed.push(format!("{vm}: {}", crate::app::chain(&error))),
            }
        }
    }
    Ok((stopped, failed))
}

/// A guest that runs: its start order, the VM and its run.
type Guest = (i32, VmId, u64);

async fn running(hypervisor: &Arc<dyn Hypervisor>) -> Result<Vec<Guest>> {
    let mut looks = JoinSet::new();
    for vm in hypervisor.vms().await? {
        let hypervisor = hypervisor.clone();
        looks.spawn(async move {
            let Observation::Known(instance) = hypervisor.observe(vm).await else { return None };
            match instance.state {
                InstanceState::Prepared | InstanceState::Ended(_) => None,
                InstanceState::Running | InstanceState::Paused | InstanceState::Unresponsive { .. } => {
                    Some((hypervisor.start_order(vm).await, vm, instance.run))
                }
            }
        });
    }
    Ok(looks.join_all().await.into_iter().flatten().collect())
}

/// The last to start is the first to stop.
fn in_order(guests: Vec<Guest>) -> BTreeMap<Reverse<i32>, Vec<(VmId, u64)>> {
    let mut orders = BTreeMap::<_, Vec<_>>::new();
    for (order, vm, run) in guests {
        orders.entry(Reverse(order)).or_default().push((vm, run));
    }
    orders
}

/// Before they are stopped: a daemon that sees one go must find it here.
fn write_down(hold: &Path, vms: &[(VmId, u64)]) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(hold)?;
    let lines: String = vms.iter().map(|(vm, run)| name_of(*vm, *run) + "\n").collect();
    file.write_all(lines.as_bytes())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn vm(n: u128) -> VmId {
        VmId(Uuid::from_u128(n))
    }

    #[test]
    fn the_last_to_start_is_the_first_to_stop() {
        let orders = in_order(vec![(0, vm(1), 1), (5, vm(2), 1), (-3, vm(3), 2), (5, vm(4), 7)]);
        let order: Vec<_> = orders.into_iter().map(|(Reverse(order), vms)| (order, vms)).collect();
        assert_eq!(order, [(5, vec![(vm(2), 1), (vm(4), 7)]), (0, vec![(vm(1), 1)]), (-3, vec![(vm(3), 2)])]);
    }

    #[test]
    fn what_was_stopped_with_the_host_is_allowed_again_by_its_run() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let args = AllowGuests { data_dir: dir.path().into(), run_dir: Some(dir.path().into()) };
        allow(&args).expect("nothing is held");
        assert!(!is_allowed_again(dir.path(), vm(1), 3));
        for (stopped, run) in [(vm(1), 3), (vm(2), 1)] {
            write_down(&hold_file(dir.path()), &[(stopped, run)]).expect("written");
            assert!(!is_allowed_again(dir.path(), stopped, run), "it is held");
            allow(&args).expect("allowed");
            assert!(!hold_file(dir.path()).exists());
        }
        assert!(is_allowed_again(dir.path(), vm(1), 3) && is_allowed_again(dir.path(), vm(2), 1));
        assert!(!is_allowed_again(dir.path(), vm(1), 4), "another run was stopped for another reason");
    }
}
