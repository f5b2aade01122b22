//! What an operator steers placement with beyond filters and weighers, on real daemons: N+1 admission, preemption,
//! hosts kept for those that waited, rebalancing, CPUs and devices for one VM alone.

mod admission;
mod batches;
mod parts;
mod preemption;
mod rebalance;
mod replay;

use holm_vmm::test_guest;
use hyper::Method;
use serde_json::{Value, json};

use crate::daemon::{Answer, Daemon};

/// One node with so many vCPUs, a flavor `tiny` and an image `guest`.
async fn one_node(vcpus: u32) -> Daemon {
    let daemon = Daemon::first().await;
    narrow(&daemon, "n1", vcpus).await;
    daemon.post("/v1/flavors", json!({"name": "tiny", "vcpus": 1, "memory_mib": 16})).await.expect(201);
    let kernel = test_guest::elf(test_guest::Variant::Banner);
    daemon.send(Method::POST, "/v1/images?name=guest&kind=kernel", &[], kernel.into()).await.expect(201);
    daemon
}

async fn narrow(daemon: &Daemon, node: &str, vcpus: u32) {
    let inventory = json!({"inventory": {"VCPU": {"total": vcpus, "allocation_ratio": 1}}});
    daemon.patch(&format!("/v1/nodes/{node}"), inventory).await.expect(200);
}

fn vm(name: &str, more: Value) -> Value {
    let mut body = json!({"name": name, "flavor": "tiny", "image": "guest"});
    for (key, value) in more.as_object().into_iter().flatten() {
        body[key] = value.clone();
    }
    body
}

/// The same policy with something changed.
async fn set_policy(daemon: &Daemon, change: Value) -> Answer {
    daemon.put("/v1/scheduler", change).await.expect(200)
}

/// What happened to a VM, in order.
async fn events_of(daemon: &Daemon, vm: &str) -> Vec<Value> {
    let events = daemon.get("/v1/events?follow=false&limit=1000&since=0").await.expect(200).json;
    let events = events["items"].as_array().cloned().unwrap_or_default();
    events.into_iter().filter(|event| event["kind"] == "vm" && event["name"] == vm).collect()
}
