//! Transactions over several lists, in the manner of Jepsen's list-append: an aggregate's metadata holds one
//! list a key. A transaction reads the record, and appends with one `If-Match` write to some of the lists it
//! saw; so it happened at one point or not at all. Every appended number is unique.

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

/// Lists in one aggregate.
pub const LISTS: u64 = 4;
const THINK_MS: u64 = 120;
const ATTEMPTS: usize = 4;
/// Users that take what they are told first: what is told as refused must not have happened.
const GIVES_UP: f64 = 0.4;
/// Metadata holds no longer text.
const TEXT_MAX: usize = 240;

/// One step of a transaction: `["r", 7, [1, 2]]` or `["append", 7, 3]`. The list of a read is null before it
/// is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Micro {
    Append(AppendWord, u64, u64),
    Read(ReadWord, u64, Option<Vec<u64>>),
}

/// The word `append`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AppendWord {
    #[serde(rename = "append")]
    Append,
}

/// The word `r`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadWord {
    #[serde(rename = "r")]
    Read,
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "f", content = "value", rename_all = "kebab-case")]
pub enum Call {
    Txn(Vec<Micro>),
}

/// What a success said: the same steps, the lists known.
pub type Answer = Vec<Micro>;
/// One transaction.
pub type Operation = history::Operation<Call, Answer>;
/// The recorder of this workload.
pub type Log = Arc<Recorder<Call, Answer>>;

/// Number of a list among all: `key` of aggregate `table`.
fn global(table: u64, key: u64) -> u64 {
    table * LISTS + key
}

/// Name of a list within its aggregate.
pub fn name(key: u64) -> String {
    format!("list-{key}")
}

/// Works until told to stop. Client `index` of `clients`.
pub async fn client(
    (index, clients): (u64, u64),
    targets: Vec<Target>,
    pool: Arc<Pool>,
    log: Log,
    mut rng: StdRng,
    stop: CancellationToken,
) {
    let mut nodes = Nodes::new(&targets);
    let (mut process, mut appended) = (index, 0);
    while !stop.is_cancelled() {
        think(&mut rng, THINK_MS).await;
        let Some((table, id)) = pool.pick(&mut rng) else { continue };
        let mut unique = || {
            appended += 1;
            appended * clients + index + 1
        };
        let steps = steps(table, &mut unique, &mut rng);
        let (node, _) = nodes.pick(&mut rng);
        let op = log.invoke(process, node, Call::Txn(steps.clone()));
        let outcome = transact(&mut nodes, table, id, &steps, &mut rng).await;
        if outcome.is_info() {
            process += clients;
        }
        let acknowledged =
            outcome.ok().is_some_and(|steps| steps.iter().any(|step| matches!(step, Micro::Append(..))));
        log.complete(op, outcome);
        if acknowledged {
            log.journal.acknowledge();
        }
    }
}

/// One to three steps, each on another list of the aggregate.
fn steps(table: u64, unique: &mut impl FnMut() -> u64, rng: &mut StdRng) -> Vec<Micro> {
    let first = rng.random_range(0..LISTS);
    let count = rng.random_range(1..=3);
    (0..count)
        .map(|step| {
            let key = global(table, (first + step) % LISTS);
            match rng.random_bool(0.5) {
                true => Micro::Append(AppendWord::Append, key, unique()),
                false => Micro::Read(ReadWord::Read, key, None),
            }
        })
        .collect()
}

async fn transact(
    nodes: &mut Nodes,
    table: u64,
    id: Uuid,
    steps: &[Micro],
    rng: &mut StdRng,
) -> Outcome<Answer> {
    let path = format!("/v1/aggregates/{id}");
    let (_, client) = nodes.pick(rng);
    let seen = match client.call::<Aggregate>(Request::get(&path).limit(patience(rng))).await {
        Ok(reply) => reply.body,
        // It has changed nothing: whatever became of the read, the transaction did not happen.
        failed => {
            return match Outcome::of(failed, |_| Vec::new()) {
                Outcome::Info(detail) => fail("not_read", detail),
                refused => refused,
            };
        }
    };
    let list = |key: u64| numbers(seen.metadata.get(&name(key - table * LISTS)));
    let mut appends = BTreeMap::new();
    let mut done = Vec::new();
    for step in steps {
        match step {
            Micro::Read(word, key, _) => done.push(Micro::Read(*word, *key, Some(list(*key)))),
            Micro::Append(word, key, number) => {
                let text = text(list(*key).into_iter().chain([*number]));
                if text.len() > TEXT_MAX {
                    return fail("list_full", format!("list {key} is full"));
                }
                appends.insert(name(key - table * LISTS), Some(text));
                done.push(Micro::Append(*word, *key, *number));
            }
        }
    }
    if appends.is_empty() {
        return Outcome::Ok(done);
    }
    write(nodes, &path, seen.revision, appends, done, rng).await
}

async fn write(
    nodes: &mut Nodes,
    path: &str,
    revision: u64,
    appends: BTreeMap<String, Option<String>>,
    done: Vec<Micro>,
    rng: &mut StdRng,
) -> Outcome<Answer> {
    let body = PatchAggregate { metadata: appends, ..PatchAggregate::default() };
    let request = Request::patch(path, &body).key(format!("txn-{}", Uuid::new_v4())).expecting(revision);
    let mut attempts = Attempts::none();
    for _ in 0..ATTEMPTS {
        let (_, client) = nodes.pick(rng);
        let attempt = client.call::<Aggregate>(request.clone().limit(patience(rng))).await;
        let again = attempts.add(Outcome::of(attempt, |_| done.clone()));
        if !again || rng.random_bool(GIVES_UP) {
            break;
        }
        think(rng, THINK_MS).await;
    }
    attempts.outcome()
}

fn fail(code: &str, detail: String) -> Outcome<Answer> {
    Outcome::Fail(history::operation::Refusal { code: code.to_owned(), detail })
}

fn numbers(text: Option<&String>) -> Vec<u64> {
    text.into_iter().flat_map(|text| text.split(',')).filter_map(|number| number.parse().ok()).collect()
}

fn text(numbers: impl Iterator<Item = u64>) -> String {
    numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_written_as_jepsen_writes_them() {
        let steps = vec![
            Micro::Append(AppendWord::Append, 7, 3),
            Micro::Read(ReadWord::Read, 7, None),
            Micro::Read(ReadWord::Read, 8, Some(vec![1, 2])),
        ];
        let text = serde_json::to_string(&steps).unwrap();
        assert_eq!(text, r#"[["append",7,3],["r",7,null],["r",8,[1,2]]]"#);
        assert_eq!(serde_json::from_str::<Vec<Micro>>(&text).unwrap(), steps);
    }

    #[test]
    fn a_list_survives_its_text() {
        assert_eq!(numbers(Some(&text([4, 11, 7].into_iter()))), [4, 11, 7]);
        assert_eq!(numbers(Some(&String::new())), Vec::<u64>::new());
        assert_eq!(numbers(None), Vec::<u64>::new());
    }
}
