//! Clients and what they may see: a write that was acknowledged is there for every read that begins later, wherever, and
//! for ever; one that was certainly not proposed never is; a fresh name is not refused.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use holm_model::command::CreateFlavor;
use holm_model::flavor::Size;
use holm_model::{Actor, Command, FlavorId, IdempotencyKey, Proposal, Reply, State};
use holm_raft::{Handle, ProposeError};
use uuid::Uuid;

use crate::rng::Rng;

/// How long a client waits.
const PATIENCE: Duration = Duration::from_secs(4);
/// Longest value of an extra spec.
const LINE: usize = 255;

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Read,
    Write { number: u64, keyed: bool, lines: usize },
}

impl Operation {
    /// One of many; `number` is nobody else's.
    pub(crate) fn any(rng: &mut Rng, number: u64) -> Self {
        if rng.percent(40) {
            return Self::Read;
        }
        let lines = if rng.percent(20) { rng.index(60) } else { 0 };
        Self::Write { number, keyed: rng.percent(75), lines }
    }

    pub(crate) fn words(&self) -> String {
        match self {
            Self::Read => "read".to_owned(),
            Self::Write { number, keyed: true, .. } => format!("write {}", name(*number)),
            Self::Write { number, .. } => format!("write {} without a key", name(*number)),
        }
    }
}

#[derive(Debug)]
pub(crate) enum Outcome {
    ReadAt(u64),
    NotRead,
    Written(u64),
    /// The state machine said no.
    Rejected(String),
    /// Certainly without effect.
    NotWritten,
    Unknown,
}

pub(crate) fn name(number: u64) -> String {
    format!("flavor-{number}")
}

/// What a client of the node `handle` does.
pub(crate) async fn perform(handle: Handle, operation: Operation) -> Outcome {
    match operation {
        Operation::Read => match handle.read(PATIENCE).await {
            Ok(published) => Outcome::ReadAt(published.log_index),
            Err(_) => Outcome::NotRead,
        },
        Operation::Write { number, keyed, lines } => {
            let key = keyed.then(|| IdempotencyKey { key: name(number), fingerprint: "f".repeat(64) });
            let command = Command::CreateFlavor(CreateFlavor {
                id: FlavorId(Uuid::from_u128(u128::from(number))),
                name: name(number),
                size: Size { vcpus: 1, memory_mib: 64, disk_gib: 0 },
                extra_specs: (0..lines).map(|line| (format!("padding-{line}"), "x".repeat(LINE))).collect(),
            });
            let actor = Actor { name: "client".to_owned(), project: "default".to_owned() };
            let proposal = Proposal { key, seen: handle.state().state.revision, actor, command };
            match handle.propose(proposal, PATIENCE).await {
                Ok(committed) => match rejection(&committed.reply) {
                    None => Outcome::Written(committed.log_index),
                    Some(why) => Outcome::Rejected(why),
                },
                Err(ProposeError::Unknown(_)) => Outcome::Unknown,
                Err(_) => Outcome::NotWritten,
            }
        }
    }
}

fn rejection(reply: &Reply) -> Option<String> {
    match reply {
        Reply::Done(_) => None,
        Reply::Duplicate(original) => rejection(original),
        Reply::Rejected(why) => Some(why.to_string()),
    }
}

/// What was told so far.
#[derive(Default)]
pub(crate) struct History {
    acknowledged: BTreeSet<u64>,
    never: BTreeSet<u64>,
    /// Operations that were read or written.
    served: BTreeSet<u64>,
    /// What every read that begins now must have seen.
    floor: u64,
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

impl History {
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    /// Whether an operation has had the answer that it should have.
    pub(crate) fn was_served(&self, id: u64) -> bool {
        self.served.contains(&id)
    }

    /// Operation `id`, which began when the floor was at `floor`, has ended. Answers what is wrong with it.
    pub(crate) fn ended(
        &mut self,
        id: u64,
        operation: &Operation,
        floor: u64,
        outcome: &Outcome,
    ) -> Option<String> {
        let (counted, number) = match (outcome, operation) {
            (Outcome::ReadAt(_), _) => ("read", None),
            (Outcome::NotRead, _) => ("not read", None),
            (Outcome::Written(_), Operation::Write { number, .. }) => ("written", Some(*number)),
            (Outcome::NotWritten, Operation::Write { number, .. }) => ("not written", Some(*number)),
            (Outcome::Rejected(_), _) => ("rejected", None),
            _ => ("unknown", None),
        };
        *self.counts.entry(counted).or_default() += 1;
        match outcome {
            Outcome::ReadAt(index) if *index < floor => {
                return Some(format!(
                    "stale read: at index {index}, when {floor} had been acknowledged before it began"
                ));
            }
            Outcome::ReadAt(index) | Outcome::Written(index) => {
                self.floor = self.floor.max(*index);
                self.served.insert(id);
            }
            Outcome::Rejected(why) => return Some(format!("{} was refused: {why}", operation.words())),
            _ => {}
        }
        match outcome {
            Outcome::Written(_) => self.acknowledged.extend(number),
            Outcome::NotWritten => self.never.extend(number),
            _ => {}
        }
        None
    }

    /// What is wrong with `state`, which holds all that was acknowledged.
    pub(crate) fn judge(&self, state: &State) -> Option<String> {
        if let Some(lost) =
            self.acknowledged.iter().find(|number| state.find_flavor(&name(**number)).is_none())
        {
            return Some(format!("lost: {} was acknowledged", name(*lost)));
        }
        let phantom = self.never.iter().find(|number| state.find_flavor(&name(**number)).is_some());
        phantom.map(|number| {
            format!("phantom: {} was certainly not proposed, as its client was told", name(*number))
        })
    }
}
