//! Registers: metadata of aggregates, read, written, and compared and set (`If-Match` with the revision of the
//! read before), through random nodes. Every written value is unique. An attempt whose outcome is unknown is
//! made again through another node under its old key; all attempts together are one operation.

use std::collections::BTreeMap;
use std::sync::Arc;

use holm_api::{Aggregate, PatchAggregate};
use rand::Rng;
use rand::rngs::StdRng;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::aggregates::Pool;
use super::{Attempts, Nodes, Target, patience, think};
use crate::harness::client::Call as Request;
use crate::history::{self, Outcome, Recorder};

/// Metadata key of the value.
pub const KEY: &str = "v";
const THINK_MS: u64 = 120;
const ATTEMPTS: usize = 4;
/// Users that take what they are told first: what is told as refused must not have happened.
const GIVES_UP: f64 = 0.4;
/// One write in this many carries much else along: long log entries take other ways through a store.
const LONG_EVERY: u32 = 6;

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "f", content = "value", rename_all = "kebab-case")]
pub enum Call {
    Read { key: u64 },
    Write { key: u64, to: u64 },
    Cas { key: u64, from: u64, to: u64 },
}

impl Call {
    pub fn key(self) -> u64 {
        match self {
            Self::Read { key } | Self::Write { key, .. } | Self::Cas { key, .. } => key,
        }
    }
}

/// What a success said. A compare-and-set that did not find what it expected is refused: it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    Value(u64),
    Written,
}

/// One operation.
pub type Operation = history::Operation<Call, Answer>;
/// The recorder of this workload.
pub type Log = Arc<Recorder<Call, Answer>>;

/// Works until told to stop. Client `index` of `clients`.
pub async fn client(
    (index, clients): (u64, u64),
    targets: Vec<Target>,
    pool: Arc<Pool>,
    log: Log,
    mut rng: StdRng,
    stop: CancellationToken,
) {
    let mut client = Client { index, process: index, clients, written: 0, nodes: Nodes::new(&targets), log };
    while !stop.is_cancelled() {
        think(&mut rng, THINK_MS).await;
        let Some((key, id)) = pool.pick(&mut rng) else { continue };
        match rng.random_range(0..10) {
            0..=3 => drop(client.read(key, id, &mut rng).await),
            4..=6 => client.write(key, id, &mut rng).await,
            _ => client.compare_and_set(key, id, &mut rng).await,
        }
    }
}

struct Client {
    index: u64,
    process: u64,
    clients: u64,
    written: u64,
    nodes: Nodes,
    log: Log,
}

impl Client {
    fn unique(&mut self) -> u64 {
        self.written += 1;
        self.written * self.clients + self.index + 1
    }

    /// The value, and the revision at which it stood.
    async fn read(&mut self, key: u64, id: Uuid, rng: &mut StdRng) -> Option<(u64, u64)> {
        let mut revision = 0;
        let (node, client) = self.nodes.pick(rng);
        let op = self.log.invoke(self.process, node, Call::Read { key });
        let request = Request::get(format!("/v1/aggregates/{id}")).limit(patience(rng));
        let outcome = Outcome::of(client.call::<Aggregate>(request).await, |reply| {
            revision = reply.body.revision;
            Answer::Value(
                reply.body.metadata.get(KEY).and_then(|value| value.parse().ok()).unwrap_or(u64::MAX),
            )
        });
        let value = outcome.ok().copied();
        self.complete(op, outcome, false);
        match value {
            Some(Answer::Value(value)) => Some((value, revision)),
            _ => None,
        }
    }

    async fn write(&mut self, key: u64, id: Uuid, rng: &mut StdRng) {
        let to = self.unique();
        self.change(Call::Write { key, to }, to, id, None, rng).await;
    }

    async fn compare_and_set(&mut self, key: u64, id: Uuid, rng: &mut StdRng) {
        let Some((from, revision)) = self.read(key, id, rng).await else { return };
        let to = self.unique();
        self.change(Call::Cas { key, from, to }, to, id, Some(revision), rng).await;
    }

    async fn change(&mut self, call: Call, to: u64, id: Uuid, expected: Option<u64>, rng: &mut StdRng) {
        let body = PatchAggregate { metadata: metadata(to, rng), ..PatchAggregate::default() };
        let mut request = Request::patch(format!("/v1/aggregates/{id}"), &body).key(format!("set-{to}"));
        if let Some(expected) = expected {
            request = request.expecting(expected);
        }
        let (node, _) = self.nodes.pick(rng);
        let op = self.log.invoke(self.process, node, call);
        let mut attempts = Attempts::none();
        for _ in 0..ATTEMPTS {
            let (_, client) = self.nodes.pick(rng);
            let attempt = client.call::<Aggregate>(request.clone().limit(patience(rng))).await;
            let again = attempts.add(Outcome::of(attempt, |_| Answer::Written));
            if !again || rng.random_bool(GIVES_UP) {
                break;
            }
            think(rng, THINK_MS).await;
        }
        self.complete(op, attempts.outcome(), true);
    }

    fn complete(&mut self, op: usize, outcome: Outcome<Answer>, is_write: bool) {
        if outcome.is_info() {
            // Its operation may still be under way: whoever goes on is another process.
            self.process += self.clients;
        }
        let acknowledged = is_write && outcome.ok().is_some();
        self.log.complete(op, outcome);
        if acknowledged {
            self.log.journal.acknowledge();
        }
    }
}

fn metadata(value: u64, rng: &mut StdRng) -> BTreeMap<String, Option<String>> {
    let mut metadata = BTreeMap::from([(KEY.to_owned(), Some(value.to_string()))]);
    if rng.random_range(0..LONG_EVERY) == 0 {
        let filling = format!("{value:0>250}");
        metadata.extend((0..60).map(|at| (format!("filling-{at}"), Some(filling.clone()))));
    }
    metadata
}
