//! Powers off the guests of this host when it shuts down. Works without the daemon: the shims are
//! asked directly. The records still want the guests on, so they start again after the boot.

use anyhow::{Result, bail};
use holm_model::vm::StopMode;
use holm_vmm::hypervisor::{InstanceState, Observation};
use tokio::task::JoinSet;

use crate::cli::StopGuests;
use crate::config::Config;
use crate::wiring;

/// `holmd stop-guests`
///
/// # Errors
/// When the configuration cannot be read, or a guest could not be stopped; all others are stopped.
pub fn stop(args: StopGuests) -> Result<()> {
    let mut config = Config::read(&args.data_dir)?;
    if let Some(run_dir) = args.run_dir {
        config.run_dir = run_dir;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let hypervisor = wiring::hypervisor(&config, &args.data_dir).await?;
        let mode = StopMode::Graceful { timeout_s: args.timeout };
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
        println!("{stopped} guests stopped.");
        if !failed.is_empty() {
            bail!("{} guests could not be stopped: {}", failed.len(), failed.join("; "));
        }
        Ok(())
    })
}
