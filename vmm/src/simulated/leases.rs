//! Leases of simulated VMs. There is no process beside the daemon here that could end a VM, so this is no
//! fence: a VM whose lease ended is ended as soon as a daemon that lives looks, and never told as running
//! after that.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use holm_model::VmId;

use super::{Shared, Simulated};
use crate::host;
use crate::lease::{Lease, LeaseView};

/// How often leases are looked at while a VM depends on one.
const PERIOD: Duration = Duration::from_millis(100);

/// The VMs that depend on a lease, as far as this daemon knows.
#[derive(Default)]
pub struct Armed {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    vms: BTreeMap<VmId, Lease>,
    /// A task looks at their leases.
    looked_at: bool,
}

impl Armed {
    /// True where nobody looks at leases yet, and the caller has to see to that.
    fn insert(&self, vm: VmId, lease: &Lease) -> bool {
        let mut known = self.lock();
        known.vms.insert(vm, lease.clone());
        !std::mem::replace(&mut known.looked_at, true)
    }

    /// This VM depends on none any more.
    pub fn remove(&self, vm: VmId) {
        self.lock().vms.remove(&vm);
    }

    /// Those whose lease has ended; `None` when there is no VM to look after, and nobody does any more.
    fn ended(&self) -> Option<Vec<VmId>> {
        let mut known = self.lock();
        known.looked_at = !known.vms.is_empty();
        if !known.looked_at {
            return None;
        }
        let now = host::boottime_ns();
        // Mostly all depend on one file.
        let mut views: HashMap<&Path, Option<LeaseView>> = HashMap::new();
        let mut ended = Vec::new();
        for (vm, Lease { file, id }) in &known.vms {
            let view = views.entry(file).or_insert_with(|| LeaseView::open(file).ok());
            let deadline = view.as_ref().and_then(|view| view.deadline_of(*id));
            if deadline.is_none_or(|deadline| deadline <= now) {
                ended.push(*vm);
            }
        }
        Some(ended)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Simulated {
    /// Looks after the lease of a run that goes on.
    pub(super) fn look_after(&self, vm: VmId, lease: &Lease) {
        if self.shared.armed.insert(vm, lease) {
            tokio::spawn(enforce(Arc::downgrade(&self.shared)));
        }
    }
}

/// Ends VMs whose lease has ended, until none depends on one or the driver is gone.
async fn enforce(driver: Weak<Shared>) {
    loop {
        tokio::time::sleep(PERIOD).await;
        let Some(shared) = driver.upgrade() else { return };
        let driver = Simulated { shared };
        let Some(ended) = driver.shared.armed.ended() else { return };
        for vm in ended {
            // To look is to end it. What cannot be read is looked at again.
            let _ = driver.running(vm);
        }
    }
}
