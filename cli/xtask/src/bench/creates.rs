//! From the request to create a VM until its placement is committed: seen in the event stream, which
//! follows the applied state.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::report::{Measurement, Sample};
use crate::client::Client;
use crate::dev_cluster::DevCluster;
use crate::interrupt;

const LIMIT: Duration = Duration::from_secs(60);

/// Something that happened to a VM, and when we heard of it.
struct Heard {
    name: String,
    what: String,
    at: Instant,
}

/// A VM at a time, on a cluster that does nothing else.
///
/// # Errors
/// When a VM is not created, placed or deleted.
pub fn one_by_one(cluster: &DevCluster, rounds: usize) -> anyhow::Result<Vec<Measurement>> {
    let client = Client::new(&cluster.leader()?.endpoint(), LIMIT);
    let events = listen(&client)?;
    let mut placed_ms = Vec::new();
    for round in 0..rounds {
        let name = format!("one-{round}");
        let sent = Instant::now();
        create(&client, &name)?;
        let placed = wait(&events, &name, "placed")?;
        placed_ms.push(placed.duration_since(sent).as_secs_f64() * 1e3);
        client.delete(&format!("/v1/vms/{name}"))?;
        wait(&events, &name, "deleted")?;
    }
    let note = "target p50 ≤ 5, p99 ≤ 25; POST until its event";
    let sample = Sample::new(placed_ms).context("no rounds")?;
    Ok(vec![Measurement::spread("create → placed and committed, unloaded", "ms", &sample, note)])
}

/// How the VMs of a load are asked for.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Clients at once, spread over the nodes.
    pub clients: usize,
    /// VMs a request; 1 asks without `count`.
    pub count: usize,
}

/// As many as there is room for, and `most` at most, by several clients at once.
///
/// # Errors
/// When a VM is not created, placed or deleted.
pub fn batch(cluster: &DevCluster, load: Load, most: usize) -> anyhow::Result<Vec<Measurement>> {
    let nodes = cluster.nodes()?;
    let client = Client::new(&cluster.leader()?.endpoint(), LIMIT);
    let requests = room(&client)?.min(most) / load.count;
    let events = listen(&client)?;
    let start = Instant::now();
    let sent: anyhow::Result<Vec<HashMap<String, Instant>>> = thread::scope(|scope| {
        let clients: Vec<_> = (0..load.clients)
            .map(|n| {
                let endpoint = nodes[n % nodes.len()].endpoint();
                scope.spawn(move || create_share(&Client::new(&endpoint, LIMIT), n, load, requests))
            })
            .collect();
        clients
            .into_iter()
            .map(|client| client.join().map_err(|_| anyhow::anyhow!("a client panicked"))?)
            .collect()
    });
    let sent: HashMap<String, Instant> = sent?.into_iter().flatten().collect();
    let mut placed_ms = Vec::new();
    let mut last = start;
    while placed_ms.len() < sent.len() {
        let heard = next(&events)?;
        if let (Some(sent), "placed") = (sent.get(&heard.name), heard.what.as_str()) {
            placed_ms.push(heard.at.duration_since(*sent).as_secs_f64() * 1e3);
            last = heard.at;
        }
    }
    for name in sent.keys() {
        client.delete(&format!("/v1/vms/{name}"))?;
    }
    let mut deleted = 0;
    while deleted < sent.len() {
        deleted += usize::from(next(&events)?.what == "deleted");
    }
    let rate = sent.len() as f64 / last.duration_since(start).as_secs_f64();
    let (name, target) = match load.count {
        1 => (format!("creates, {} clients, one VM a request", load.clients), ""),
        count => (format!("creates, {} clients, count={count}", load.clients), "target ≥ 2000; "),
    };
    let note = format!("{target}{} VMs placed and committed; percentiles: ms until placed", sent.len());
    let sample = Sample::new(placed_ms).context("there is no room for a VM")?;
    let latency = Measurement::spread(&name, "VMs/s", &sample, &note);
    Ok(vec![Measurement { value: rate, ..latency }])
}

/// Every so many requests one, beginning with the `n`th.
fn create_share(
    client: &Client,
    n: usize,
    load: Load,
    requests: usize,
) -> anyhow::Result<HashMap<String, Instant>> {
    let mut sent = HashMap::new();
    for request in (n..requests).step_by(load.clients) {
        interrupt::check()?;
        let name = format!("batch-{request}");
        let at = Instant::now();
        if load.count == 1 {
            create(client, &name)?;
            sent.insert(name, at);
            continue;
        }
        let body = json!({ "name": name, "flavor": "bench", "image": "guest", "count": load.count });
        client.post("/v1/vms", &body)?;
        sent.extend((1..=load.count).map(|vm| (format!("{name}-{vm}"), at)));
    }
    Ok(sent)
}

fn create(client: &Client, name: &str) -> anyhow::Result<Value> {
    client.post("/v1/vms", &json!({ "name": name, "flavor": "bench", "image": "guest" }))
}

/// How many VMs of the flavor `bench` (1 vCPU, 16 MiB and 16 MiB overhead) the nodes have room for.
fn room(client: &Client) -> anyhow::Result<usize> {
    let nodes = client.get("/v1/nodes")?;
    let free = |node: &Value, class: &str| {
        let inventory = &node["inventory"][class];
        inventory["capacity"].as_u64().unwrap_or(0).saturating_sub(inventory["used"].as_u64().unwrap_or(0))
    };
    let items = nodes["items"].as_array().context("no list of nodes")?;
    Ok(items.iter().map(|node| free(node, "VCPU").min(free(node, "MEMORY_MB") / 32)).sum::<u64>() as usize)
}

/// Everything about VMs from now on. The thread ends with its connection.
fn listen(client: &Client) -> anyhow::Result<Receiver<Heard>> {
    let since = client.get("/v1/cluster")?["revision"].as_u64().context("no revision")?;
    let lines = BufReader::new(client.stream(&format!("/v1/events?since={since}"))?).lines();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let at = Instant::now();
            let Some(data) = line.strip_prefix("data:") else { continue };
            let Ok(event) = serde_json::from_str::<Value>(data) else { continue };
            if event["kind"] == "vm" {
                let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
                if sender.send(Heard { name: text("name"), what: text("what"), at }).is_err() {
                    return;
                }
            }
        }
    });
    Ok(receiver)
}

fn next(events: &Receiver<Heard>) -> anyhow::Result<Heard> {
    interrupt::wait_for("an event", LIMIT, || match events.recv_timeout(Duration::from_millis(50)) {
        Ok(heard) => Ok(Some(heard)),
        Err(mpsc::RecvTimeoutError::Timeout) => Ok(None),
        Err(mpsc::RecvTimeoutError::Disconnected) => bail!("the event stream ended"),
    })
}

fn wait(events: &Receiver<Heard>, name: &str, what: &str) -> anyhow::Result<Instant> {
    loop {
        let heard = next(events)?;
        if heard.name == name && heard.what == "error" {
            bail!("VM {name} went to ERROR");
        }
        if heard.name == name && heard.what == what {
            return Ok(heard.at);
        }
    }
}
