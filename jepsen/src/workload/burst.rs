//! More VMs than there is room for, asked for at the same moment through all nodes: clients meet before each
//! create, so that quota and capacity are checked by many at once. Whoever is refused deletes one of its own.

use holm_api::{CreateVm, Deleted, Vm};
use rand::Rng;
use rand::rngs::StdRng;
use tokio::time::Duration;
use tokio_util::sync::CancellationToken;

use super::vm_lifecycle::{Answer, Call, IMAGE, Log};
use super::{Attempts, Nodes, Target, patience, think};
use crate::harness::client::Call as Request;
use crate::harness::vms::tiny_vm;
use crate::history::Outcome;

/// Flavor of these VMs: a few of them fill a node.
pub const FLAVOR: &str = "large";
const THINK_MS: u64 = 60;
const ATTEMPTS: usize = 4;
/// VMs in a crowd, and the pause after one.
const CROWD: u32 = 150;
const CROWD_THINK_MS: u64 = 1_000;
/// Clients act together at each beat of this clock.
const BEAT: Duration = Duration::from_millis(400);

/// Works until told to stop. Client `index` of `clients`.
pub async fn client(
    (index, clients): (u64, u64),
    targets: Vec<Target>,
    log: Log,
    mut rng: StdRng,
    stop: CancellationToken,
) {
    let mut nodes = Nodes::new(&targets);
    let (mut process, mut made) = (index, 0);
    let mut live: Vec<String> = Vec::new();
    while !stop.is_cancelled() {
        next_beat().await;
        let call = if live.len() < 2 || rng.random_bool(0.6) {
            made += 1;
            Call::Create { name: format!("b{index}-{made}") }
        } else {
            Call::Delete { name: live.swap_remove(rng.random_range(0..live.len())) }
        };
        let outcome = insist(&call, &mut nodes, &log, &mut process, clients, &mut rng).await;
        match (&call, outcome) {
            (Call::Create { name }, Outcome::Ok(_) | Outcome::Info(_)) => live.push(name.clone()),
            (Call::Create { .. }, Outcome::Fail(refusal))
                if refusal.code == "quota_exceeded" && !live.is_empty() =>
            {
                let name = live.swap_remove(rng.random_range(0..live.len()));
                let delete = Call::Delete { name: name.clone() };
                let gone = insist(&delete, &mut nodes, &log, &mut process, clients, &mut rng).await;
                if matches!(&gone, Outcome::Fail(refusal) if refusal.code != "not_found") {
                    live.push(name);
                }
            }
            (Call::Delete { name }, Outcome::Fail(refusal)) if refusal.code != "not_found" => {
                live.push(name.clone())
            }
            _ => {}
        }
    }
}

/// Asks now and then for a whole crowd of VMs in one request, all or none: it is always refused, for the quota is far
/// smaller, yet it goes through the log as an entry of hundreds of kilobytes.
pub async fn crowd(targets: Vec<Target>, mut rng: StdRng, stop: CancellationToken) {
    let mut nodes = Nodes::new(&targets);
    for number in 0_u64.. {
        if stop.is_cancelled() {
            return;
        }
        let cmdline = Some(format!("{number:0>2000}"));
        let name = format!("crowd-{number}");
        let body = CreateVm {
            count: Some(CROWD),
            atomic: Some(true),
            cmdline,
            flavor: FLAVOR.to_owned(),
            ..tiny_vm(&name, IMAGE)
        };
        let (_, client) = nodes.pick(&mut rng);
        // What became of it is told by the event stream, should it ever come to be.
        let _ = client.raw(Request::post("/v1/vms", &body).key(&name).limit(patience(&mut rng))).await;
        think(&mut rng, CROWD_THINK_MS).await;
    }
}

/// All clients of this process wake at the same moments.
async fn next_beat() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let past = now.as_millis() % BEAT.as_millis();
    tokio::time::sleep(BEAT - Duration::from_millis(u64::try_from(past).unwrap_or_default())).await;
}

async fn insist(
    call: &Call,
    nodes: &mut Nodes,
    log: &Log,
    process: &mut u64,
    clients: u64,
    rng: &mut StdRng,
) -> Outcome<Answer> {
    let mut attempts = Attempts::none();
    for _ in 0..ATTEMPTS {
        let (node, client) = nodes.pick(rng);
        let op = log.invoke(*process, node, call.clone());
        let name = call.name();
        let outcome = match call {
            Call::Delete { .. } => {
                let request = Request::delete(format!("/v1/vms/{name}")).key(format!("delete-{name}"));
                Outcome::of(client.call::<Deleted>(request.limit(patience(rng))).await, |reply| {
                    Answer::Deleted { duplicate: reply.duplicate }
                })
            }
            _ => {
                let body = CreateVm { flavor: FLAVOR.to_owned(), ..tiny_vm(name, IMAGE) };
                let request = Request::post("/v1/vms", &body).key(format!("create-{name}"));
                Outcome::of(client.call::<Vm>(request.limit(patience(rng))).await, |reply| Answer::Created {
                    id: reply.body.id,
                    duplicate: reply.duplicate,
                })
            }
        };
        log.complete(op, outcome.clone());
        match &outcome {
            Outcome::Ok(_) => log.journal.acknowledge(),
            Outcome::Info(_) => *process += clients,
            Outcome::Fail(_) => {}
        }
        if !attempts.add(outcome) {
            break;
        }
        think(rng, THINK_MS).await;
    }
    attempts.outcome()
}
