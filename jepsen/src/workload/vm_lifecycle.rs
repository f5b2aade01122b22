//! Clients create, look at and delete VMs through random nodes. A VM's name is used once and its create has
//! one idempotency key, so what became of it can be told from names alone. Now and then an acknowledged
//! create is sent again, also after its VM was deleted: it must never act twice.

use std::sync::Arc;

use holm_api::{Code, Deleted, Vm, VmStatus};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Nodes, Target, patience, think};
use crate::harness::client::{Call as Request, Error};
use crate::harness::vms::tiny_vm;
use crate::history::{self, Outcome, Recorder};

/// Name of the image the VMs boot.
pub const IMAGE: &str = "guest";
/// VMs one client has at a time: all clients together stay below what two nodes can hold.
const AT_ONCE: usize = 3;
/// Attempts at one request, through whatever node.
const ATTEMPTS: usize = 8;
const THINK_MS: u64 = 60;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "f", content = "value", rename_all = "kebab-case")]
pub enum Call {
    Create {
        name: String,
    },
    /// The create of a VM whose create was acknowledged, once more, under its old key.
    Replay {
        name: String,
    },
    Delete {
        name: String,
    },
    Read {
        name: String,
    },
}

impl Call {
    /// The VM it is about.
    pub fn name(&self) -> &str {
        match self {
            Self::Create { name } | Self::Replay { name } | Self::Delete { name } | Self::Read { name } => {
                name
            }
        }
    }
}

/// What a success said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    Created { id: Uuid, duplicate: bool },
    Deleted { duplicate: bool },
    Found { id: Uuid, status: VmStatus },
    Absent,
}

/// One attempt.
pub type Operation = history::Operation<Call, Answer>;
/// The recorder of this workload.
pub type Log = Arc<Recorder<Call, Answer>>;

/// A VM as its client remembers it.
struct Owned {
    name: String,
    /// Revision the client had seen when it decided to create it.
    seen: u64,
    id: Option<Uuid>,
}

/// Runs one client until it is told to stop. Client `index` of `clients`.
pub async fn client(
    (index, clients): (u64, u64),
    targets: Vec<Target>,
    log: Log,
    mut rng: StdRng,
    stop: CancellationToken,
) {
    let mut client = Client {
        index,
        process: index,
        clients,
        nodes: Nodes::new(&targets),
        log,
        seen: 0,
        made: 0,
        replayed: false,
        live: Vec::new(),
        gone: Vec::new(),
    };
    while !stop.is_cancelled() {
        think(&mut rng, THINK_MS).await;
        // However short the run, what is created first is asked for again.
        let is_due = !client.replayed && client.live.iter().any(|owned| owned.id.is_some());
        match if is_due { 0 } else { rng.random_range(0..10) } {
            0 => client.replay(&mut rng).await,
            1..=3 => client.read(&mut rng).await,
            _ if client.live.is_empty() => client.create(&mut rng).await,
            4..=6 if client.live.len() < AT_ONCE => client.create(&mut rng).await,
            _ => client.delete(&mut rng).await,
        }
    }
}

struct Client {
    index: u64,
    process: u64,
    clients: u64,
    nodes: Nodes,
    log: Log,
    /// The latest revision an answer named.
    seen: u64,
    made: u64,
    replayed: bool,
    live: Vec<Owned>,
    /// VMs whose create was acknowledged and whose delete was asked for.
    gone: Vec<Owned>,
}

impl Client {
    async fn create(&mut self, rng: &mut StdRng) {
        let name = format!("c{}-{}", self.index, self.made);
        self.made += 1;
        let seen = self.seen;
        let outcome = self.insist(&Call::Create { name: name.clone() }, seen, rng).await;
        match outcome {
            Outcome::Ok(Answer::Created { id, .. }) => self.live.push(Owned { name, seen, id: Some(id) }),
            // It may be there: it is deleted by name some time.
            Outcome::Info(_) => self.live.push(Owned { name, seen, id: None }),
            Outcome::Ok(_) | Outcome::Fail(_) => {}
        }
    }

    async fn delete(&mut self, rng: &mut StdRng) {
        let owned = self.live.swap_remove(rng.random_range(0..self.live.len()));
        let call = Call::Delete { name: owned.name.clone() };
        let outcome = self.insist(&call, self.seen, rng).await;
        match outcome {
            // It was not sent: the VM is still there.
            Outcome::Fail(refusal) if refusal.code != "not_found" => self.live.push(owned),
            Outcome::Ok(_) | Outcome::Fail(_) | Outcome::Info(_) if owned.id.is_some() => {
                self.gone.push(owned)
            }
            Outcome::Ok(_) | Outcome::Fail(_) | Outcome::Info(_) => {}
        }
    }

    async fn read(&mut self, rng: &mut StdRng) {
        let Some(owned) = self.any(rng) else { return };
        let call = Call::Read { name: owned.name.clone() };
        self.attempt(&call, 0, rng).await;
    }

    async fn replay(&mut self, rng: &mut StdRng) {
        let Some(owned) = self.any(rng).filter(|owned| owned.id.is_some()) else { return };
        let (call, seen) = (Call::Replay { name: owned.name.clone() }, owned.seen);
        self.replayed = true;
        self.attempt(&call, seen, rng).await;
    }

    fn any(&self, rng: &mut StdRng) -> Option<&Owned> {
        let (first, second) =
            if rng.random_bool(0.5) { (&self.live, &self.gone) } else { (&self.gone, &self.live) };
        first.choose(rng).or_else(|| second.choose(rng))
    }

    /// Tries again under the same key while the outcome is unknown or nobody took the request.
    async fn insist(&mut self, call: &Call, seen: u64, rng: &mut StdRng) -> Outcome<Answer> {
        let mut worst = None;
        for _ in 0..ATTEMPTS {
            let outcome = self.attempt(call, seen, rng).await;
            match &outcome {
                Outcome::Ok(_) => return outcome,
                Outcome::Info(_) => {
                    worst = Some(outcome);
                    // Some users give up.
                    if rng.random_bool(0.1) {
                        break;
                    }
                }
                Outcome::Fail(refusal) if matches!(refusal.code.as_str(), "not_sent" | "unavailable") => {
                    worst = worst.or(Some(outcome));
                    think(rng, THINK_MS).await;
                }
                // Once an attempt may have taken effect, a later refusal does not settle it.
                Outcome::Fail(_) => return worst.filter(Outcome::is_info).unwrap_or(outcome),
            }
        }
        worst.expect("at least one attempt was made")
    }

    async fn attempt(&mut self, call: &Call, seen: u64, rng: &mut StdRng) -> Outcome<Answer> {
        let (node, client) = self.nodes.pick(rng);
        let id = self.log.invoke(self.process, node, call.clone());
        let limit = patience(rng);
        let revision = &mut self.seen;
        let mut note = |of: Option<u64>| *revision = (*revision).max(of.unwrap_or(0));
        let name = call.name();
        let outcome = match call {
            Call::Create { .. } | Call::Replay { .. } => {
                let request = Request::post("/v1/vms", &tiny_vm(name, IMAGE));
                let request = request.key(format!("create-{name}")).seen(seen).limit(limit);
                Outcome::of(client.call::<Vm>(request).await, |reply| {
                    note(reply.revision);
                    Answer::Created { id: reply.body.id, duplicate: reply.duplicate }
                })
            }
            Call::Delete { .. } => {
                let request = Request::delete(format!("/v1/vms/{name}"));
                let request = request.key(format!("delete-{name}")).seen(seen).limit(limit);
                Outcome::of(client.call::<Deleted>(request).await, |reply| {
                    note(reply.revision);
                    Answer::Deleted { duplicate: reply.duplicate }
                })
            }
            Call::Read { .. } => {
                match client.call::<Vm>(Request::get(format!("/v1/vms/{name}")).limit(limit)).await {
                    Err(error @ Error::Refused(_)) if error.code() == Some(Code::NotFound) => {
                        Outcome::Ok(Answer::Absent)
                    }
                    result => Outcome::of(result, |reply| {
                        note(reply.revision);
                        Answer::Found { id: reply.body.id, status: reply.body.status }
                    }),
                }
            }
        };
        self.log.complete(id, outcome.clone());
        match &outcome {
            Outcome::Ok(_) if matches!(call, Call::Create { .. } | Call::Delete { .. }) => {
                self.log.journal.acknowledge();
            }
            // Its operation may still be under way: whoever goes on is another process.
            Outcome::Info(_) => self.process += self.clients,
            Outcome::Ok(_) | Outcome::Fail(_) => {}
        }
        outcome
    }
}
