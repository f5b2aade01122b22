//! A set that only grows: writers add flavors with increasing numbers through random nodes, and at every node
//! a reader asks for the newest acknowledged one, or for all. Whatever was acknowledged before a read began
//! must be in its answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use holm_api::{Code, CreateFlavor, Flavor, List};
use rand::Rng;
use rand::rngs::StdRng;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::{Nodes, Target, patience, think};
use crate::harness::Client;
use crate::harness::client::{Call as Request, Error};
use crate::history::{self, Outcome, Recorder};

/// Writers pause so that the whole set stays small enough to be listed often.
const WRITE_THINK_MS: u64 = 80;
const READ_THINK_MS: u64 = 4;
/// One read in this many asks for all.
const LIST_EVERY: u32 = 40;
const ATTEMPTS: usize = 8;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "f", content = "value", rename_all = "kebab-case")]
pub enum Call {
    Add(u64),
    /// Whether this one is there.
    Get(u64),
    List,
}

/// What a success said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    Added,
    Present(bool),
    /// In the order of the answer.
    All(Vec<u64>),
}

/// One attempt.
pub type Operation = history::Operation<Call, Answer>;
/// The recorder of this workload.
pub type Log = Arc<Recorder<Call, Answer>>;

/// What writers and readers share: numbers handed out, and the highest acknowledged one plus one.
#[derive(Debug, Default)]
pub struct Shared {
    next: AtomicU64,
    acknowledged: AtomicU64,
}

/// Adds until told to stop.
pub async fn writer(
    process: u64,
    targets: Vec<Target>,
    shared: Arc<Shared>,
    log: Log,
    mut rng: StdRng,
    stop: CancellationToken,
) {
    let mut nodes = Nodes::new(&targets);
    while !stop.is_cancelled() {
        think(&mut rng, WRITE_THINK_MS).await;
        let number = shared.next.fetch_add(1, Ordering::SeqCst);
        for _ in 0..ATTEMPTS {
            let limit = patience(&mut rng);
            let (node, client) = nodes.pick(&mut rng);
            let id = log.invoke(process, node, Call::Add(number));
            let request =
                Request::post("/v1/flavors", &flavor(number)).key(format!("add-{number}")).limit(limit);
            let outcome = Outcome::of(client.call::<Flavor>(request).await, |_| Answer::Added);
            let done = outcome.ok().is_some();
            log.complete(id, outcome);
            if done {
                // After it was recorded: a read that asks for it began later, by the history's clock too.
                shared.acknowledged.fetch_max(number + 1, Ordering::SeqCst);
                log.journal.acknowledge();
                break;
            }
            think(&mut rng, WRITE_THINK_MS).await;
        }
    }
}

/// Reads through one node until told to stop.
pub async fn reader(
    process: u64,
    target: Target,
    shared: Arc<Shared>,
    log: Log,
    mut rng: StdRng,
    stop: CancellationToken,
) {
    let mut client = Client::new(target.address);
    while !stop.is_cancelled() {
        think(&mut rng, READ_THINK_MS).await;
        let newest = shared.acknowledged.load(Ordering::SeqCst);
        let call = match newest {
            0 => Call::List,
            _ if rng.random_range(0..LIST_EVERY) == 0 => Call::List,
            newest => Call::Get(newest - 1),
        };
        let id = log.invoke(process, &target.node, call.clone());
        let outcome = match call {
            Call::Get(number) => get(&mut client, number).await,
            _ => list(&mut client).await,
        };
        log.complete(id, outcome);
    }
}

async fn get(client: &mut Client, number: u64) -> Outcome<Answer> {
    match client.call::<Flavor>(Request::get(format!("/v1/flavors/{}", name(number)))).await {
        Err(error @ Error::Refused(_)) if error.code() == Some(Code::NotFound) => {
            Outcome::Ok(Answer::Present(false))
        }
        result => Outcome::of(result, |_| Answer::Present(true)),
    }
}

/// Page after page: what was there when it began is on one of them.
async fn list(client: &mut Client) -> Outcome<Answer> {
    let mut numbers = Vec::new();
    let mut marker = String::new();
    loop {
        let page = client.call::<List<Flavor>>(Request::get(format!("/v1/flavors?limit=1000{marker}"))).await;
        match page {
            Ok(page) => {
                numbers.extend(page.body.items.iter().filter_map(|flavor| number(&flavor.name)));
                match page.body.next {
                    Some(next) => marker = format!("&marker={next}"),
                    None => return Outcome::Ok(Answer::All(numbers)),
                }
            }
            failed => return Outcome::of(failed, |_| Answer::Added),
        }
    }
}

fn name(number: u64) -> String {
    format!("f{number}")
}

fn number(name: &str) -> Option<u64> {
    name.strip_prefix('f')?.parse().ok()
}

fn flavor(number: u64) -> CreateFlavor {
    CreateFlavor {
        name: name(number),
        vcpus: 1,
        memory_mib: 64,
        disk_gib: 0,
        extra_specs: Default::default(),
    }
}
