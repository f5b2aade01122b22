//! Small replicated records that the product has anyway: aggregates, whose metadata holds registers and lists.
//! Clients work on a few at a time and go on to fresh ones after so many operations, so that every history that
//! a checker must search stays short.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holm_api::{Aggregate, CreateAggregate};
use rand::Rng;
use rand::rngs::StdRng;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Nodes, Target, think};
use crate::harness::client::Call as Request;

const PAUSE_MS: u64 = 100;
/// A maker that waits longer tries another node.
const PATIENCE: Duration = Duration::from_secs(3);

/// Aggregates in the order in which they were made.
#[derive(Debug)]
pub struct Pool {
    ids: Mutex<Vec<Uuid>>,
    begun: AtomicU64,
    /// Worked on at the same time.
    at_once: u64,
    /// Operations on each.
    operations: u64,
}

impl Pool {
    pub fn new(at_once: u64, operations: u64) -> Self {
        Self { ids: Mutex::default(), begun: AtomicU64::new(0), at_once, operations }
    }

    /// One to work on next, by number and id. None: there is no fresh one yet.
    pub fn pick(&self, rng: &mut StdRng) -> Option<(u64, Uuid)> {
        let number = self.group() * self.at_once + rng.random_range(0..self.at_once);
        let id = self
            .ids
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(usize::try_from(number).ok()?)
            .copied()?;
        self.begun.fetch_add(1, Ordering::Relaxed);
        Some((number, id))
    }

    fn group(&self) -> u64 {
        self.begun.load(Ordering::Relaxed) / (self.at_once * self.operations)
    }

    fn made(&self) -> u64 {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).len() as u64
    }
}

/// Makes aggregates ahead of those who work on them, until told to stop. Each is made with `metadata`.
pub async fn make(
    pool: std::sync::Arc<Pool>,
    targets: Vec<Target>,
    metadata: Vec<(String, String)>,
    mut rng: StdRng,
    stop: CancellationToken,
) {
    let mut nodes = Nodes::new(&targets);
    while !stop.is_cancelled() {
        let number = pool.made();
        if number >= (pool.group() + 3) * pool.at_once {
            think(&mut rng, PAUSE_MS).await;
            continue;
        }
        let body = CreateAggregate {
            name: format!("r{number}"),
            nodes: Vec::new(),
            metadata: metadata.iter().cloned().collect(),
        };
        let request = Request::post("/v1/aggregates", &body).key(format!("make-{number}")).limit(PATIENCE);
        let (_, node) = nodes.pick(&mut rng);
        match node.call::<Aggregate>(request).await {
            Ok(made) => pool.ids.lock().unwrap_or_else(PoisonError::into_inner).push(made.body.id),
            Err(_) => think(&mut rng, PAUSE_MS).await,
        }
    }
}
