//! Says once, after a start, what was found running: an operator who restarts a daemon wants to read that
//! every guest went on, and what protection their shims lack. Nothing is changed here; the workers do their
//! own looking.

use std::time::Instant;

use futures::future::join_all;
use holm_vmm::hypervisor::{InstanceState, Observation};

use crate::app::{Shared, chain};

/// Looks at every VM that has a directory here.
pub async fn tell(app: Shared) {
    for what in holm_vmm::shim::missing_protection() {
        tracing::warn!(what, "shims of this node are less protected than they should be");
    }
    let began = Instant::now();
    let vms = match app.hypervisor.vms().await {
        Ok(vms) => vms,
        Err(error) => {
            tracing::error!(error = %chain(&error), "cannot list the VMs of this host");
            return;
        }
    };
    let found = join_all(vms.iter().map(|vm| app.hypervisor.observe(*vm))).await;
    let count = |wanted: fn(&InstanceState) -> bool| {
        let known =
            |one: &&Observation| matches!(one, Observation::Known(instance) if wanted(&instance.state));
        found.iter().filter(known).count()
    };
    tracing::info!(
        running = count(|state| matches!(state, InstanceState::Running | InstanceState::Paused)),
        unresponsive = count(|state| matches!(state, InstanceState::Unresponsive { .. })),
        off = count(|state| matches!(state, InstanceState::Prepared | InstanceState::Ended(_))),
        unknown = found.iter().filter(|one| matches!(one, Observation::Unknown { .. })).count(),
        after_ms = began.elapsed().as_millis() as u64,
        "VMs of this host adopted"
    );
}
