//! Powers off the guests of this host when it shuts down. Works without the daemon: the shims are asked
//! directly. A mark in the run directory, which a boot clears, keeps the daemon from starting them again
//! meanwhile; the records still want them on, so they start after the boot.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use holm_model::vm::StopMode;
use holm_vmm::hypervisor::{Hypervisor, InstanceState, Observation};
use tokio::task::JoinSet;

use crate::cli::{AllowGuests, StopGuests};
use crate::config::Config;
use crate::wiring;

/// Passes over the guests of the host.
const PASSES: usize = 3;

/// While this file is there, the daemon starts nothing.
pub fn hold_file(run_dir: &Path) -> PathBuf {
    run_dir.join("guests-held")
}

/// `holmd allow-guests`
///
/// # Errors
/// When the mark cannot be removed.
pub fn allow(args: &AllowGuests) -> Result<()> {
    let run_dir = match &args.run_dir {
        Some(run_dir) => run_dir.clone(),
        None => Config::read(&args.data_dir)?.run_dir,
    };
    let hold = hold_file(&run_dir);
    match std::fs::remove_file(&hold) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", hold.display()))
        }
        _ => Ok(()),
    }
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
    std::fs::create_dir_all(&config.run_dir)
        .and_then(|()| std::fs::write(hold_file(&config.run_dir), ""))
        .with_context(|| format!("cannot write {}", hold_file(&config.run_dir).display()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let hypervisor = wiring::hypervisor(&config, &args.data_dir).await?;
        let mode = StopMode::Graceful { timeout_s: args.timeout };
        let (mut stopped, mut failed) = (0, Vec::new());
        // More than once: a start that was under way when the mark was made may end meanwhile.
        for _ in 0..PASSES {
            let (now, not) = stop_all(&hypervisor, mode).await?;
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

/// One pass: how many were stopped, and what went wrong with the others.
async fn stop_all(hypervisor: &Arc<dyn Hypervisor>, mode: StopMode) -> Result<(usize, Vec<String>)> {
    let mut stops = JoinSet::new();
    for vm in hypervisor.vms().await? {
        let hypervisor = hypervisor.clone();
        stops.spawn(async move {
            let Observation::Known(instance) = hypervisor.observe(vm).await else { return None };
            match instance.state {
                InstanceState::Prepared | InstanceState::Ended(_) => None,
                InstanceState::Running | InstanceState::Paused | InstanceState::Unresponsive { .. } => {
                    Some((vm, hypervisor.stop(vm, mode).await))
                }
            }
        });
    }
    let (mut stopped, mut failed) = (0, Vec::new());
    while let Some(done) = stops.join_next().await {
        match done? {
            None => {}
            Some((_, Ok(()))) => stopped += 1,
            Some((vm, Err(error))) => failed.push(format!("{vm}: {}", crate::app::chain(&error))),
        }
    }
    Ok((stopped, failed))
}
