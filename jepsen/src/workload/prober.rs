//! Measures how long nobody can write: small writes at a steady pace, each through the next node, none waiting
//! for another. Clients of the workloads cannot tell, since they wait at nodes that do not answer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use holm_api::{CreateFlavor, Deleted, Flavor};
use tokio::task::JoinHandle;

use super::Target;
use crate::harness::Client;
use crate::harness::client::Call as Request;

const PACE: Duration = Duration::from_millis(150);
/// One that takes longer found nobody to take it.
const LIMIT: Duration = Duration::from_millis(1_000);

/// Probes in the background until dropped.
#[derive(Debug)]
pub struct Prober {
    acknowledged: Arc<Mutex<Vec<Instant>>>,
    task: JoinHandle<()>,
}

impl Prober {
    pub fn start(targets: Vec<Target>) -> Self {
        let acknowledged = Arc::new(Mutex::new(Vec::new()));
        let times = Arc::clone(&acknowledged);
        let task = tokio::spawn(async move {
            let mut pace = tokio::time::interval(PACE);
            for (number, target) in (0_u64..).zip(targets.iter().cycle()) {
                pace.tick().await;
                tokio::spawn(probe(number, target.clone(), Arc::clone(&times)));
            }
        });
        Self { acknowledged, task }
    }

    /// The longest time between two acknowledgements so far.
    pub fn longest_gap(&self) -> Duration {
        let mut times = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).clone();
        times.sort();
        times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn probe(number: u64, target: Target, times: Arc<Mutex<Vec<Instant>>>) {
    let mut client = Client::new(target.address);
    let name = format!("probe-{number}");
    let flavor = CreateFlavor {
        name: name.clone(),
        vcpus: 1,
        memory_mib: 64,
        disk_gib: 0,
        extra_specs: Default::default(),
    };
    let added = client.call::<Flavor>(Request::post("/v1/flavors", &flavor).limit(LIMIT)).await;
    if added.is_ok() {
        times.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
        // Nobody looks at it: what is left when this fails does no harm.
        let _ = client.call::<Deleted>(Request::delete(format!("/v1/flavors/{name}")).limit(LIMIT)).await;
    }
}
