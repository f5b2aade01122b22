//! What clients do while faults happen: one workload a file, with the vocabulary of its operations. Every
//! attempt is recorded as an operation of its own; what is retried is retried under its old key.

pub mod aggregates;
pub mod burst;
pub mod flavor_set;
pub mod lists;
pub mod power;
pub mod prober;
pub mod registers;
pub mod vm_lifecycle;

use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;

use crate::harness::Client;
use crate::harness::client::Endpoint;
use crate::history::Outcome;

/// One node, as a client knows it.
#[derive(Clone, Debug)]
pub struct Target {
    pub node: String,
    pub address: Endpoint,
}

/// Clients of every node, for one process.
struct Nodes(Vec<(String, Client)>);

impl Nodes {
    fn new(targets: &[Target]) -> Self {
        Self(targets.iter().map(|target| (target.node.clone(), Client::new(target.address))).collect())
    }

    fn pick(&mut self, rng: &mut StdRng) -> &mut (String, Client) {
        let at = rng.random_range(0..self.0.len());
        &mut self.0[at]
    }
}

/// What several attempts of one request came to. Once one of them may have taken effect, only a success, or the
/// refusal of a duplicate, settles it.
struct Attempts<A>(Option<Outcome<A>>);

impl<A> Attempts<A> {
    fn none() -> Self {
        Self(None)
    }

    /// True when another attempt may change the outcome.
    fn add(&mut self, outcome: Outcome<A>) -> bool {
        let again = may_try_again(&outcome);
        let unsettled = self.0.as_ref().is_some_and(Outcome::is_info);
        if !(unsettled && matches!(outcome, Outcome::Fail(_))) {
            self.0 = Some(outcome);
        }
        again
    }

    fn outcome(self) -> Outcome<A> {
        self.0.expect("at least one attempt was made")
    }
}

/// Whether an attempt that ended like this is worth another one: under its old key it cannot act twice.
fn may_try_again<A>(outcome: &Outcome<A>) -> bool {
    match outcome {
        Outcome::Ok(_) => false,
        Outcome::Info(_) => true,
        Outcome::Fail(refusal) => matches!(refusal.code.as_str(), "not_sent" | "unavailable"),
    }
}

/// How long a client waits for an answer. Short ones give up in the middle of an election, on purpose.
fn patience(rng: &mut StdRng) -> Duration {
    match rng.random_range(0..10) {
        0 | 1 => Duration::from_millis(300),
        2..=4 => Duration::from_secs(2),
        _ => Duration::from_secs(12),
    }
}

/// The pace of a user between two requests.
async fn think(rng: &mut StdRng, at_most_ms: u64) {
    tokio::time::sleep(Duration::from_millis(rng.random_range(0..=at_most_ms))).await;
}
