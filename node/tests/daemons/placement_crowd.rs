//! A hundred VMs created at once through three daemons, into server groups and past a quota: the rules of the groups
//! and the quota hold as if each had come alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::daemon::{Answer, Daemon};

const CREATES: usize = 100;
const QUOTA: usize = 80;
/// Of the group `apart` on one host: room for 15 on three, of the at least 20 that the quota lets in.
const PER_HOST: usize = 5;
const NODES: [&str; 3] = ["n1", "n2", "n3"];

/// Of each ten, four must not be together, three must be, and three had better not be.
fn group(n: usize) -> &'static str {
    match n % 10 {
        0..4 => "apart",
        4..7 => "together",
        _ => "loose",
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_creates_at_once_hold_every_group_and_the_quota() {
    let daemons = Arc::new(Daemon::three().await);
    let n1 = &daemons[0];
    for body in [
        json!({"name": "apart", "policy": "anti-affinity", "max_server_per_host": PER_HOST}),
        json!({"name": "together", "policy": "affinity"}),
        json!({"name": "loose", "policy": "soft-anti-affinity"}),
    ] {
        n1.post("/v1/server-groups", body).await.expect(201);
    }
    n1.put("/v1/quotas/default", json!({"limits": {"VMS": QUOTA}})).await.expect(200);

    let created = create(&daemons).await;

    for daemon in daemons.iter() {
        let vms = at_rest(daemon).await;
        let names: Vec<&str> = vms.iter().map(|vm| text(&vm["name"])).collect();
        assert_eq!(names.len(), QUOTA);
        assert!(
            created.iter().all(|name| names.contains(&name.as_str())),
            "those that were answered 202 exist"
        );
        obeyed(&vms);
    }
    nobody_twice(n1, &at_rest(n1).await).await;
}

/// Sends them all at once, a third to each daemon; the names of those that were accepted. The rest is refused for the
/// quota, and for nothing else.
async fn create(daemons: &Arc<Vec<Daemon>>) -> Vec<String> {
    let mut asked = JoinSet::new();
    for n in 0..CREATES {
        let daemons = Arc::clone(daemons);
        asked.spawn(async move {
            let name = format!("vm-{n}");
            let hints = json!({"name": name, "flavor": "tiny", "image": "guest", "group": group(n)});
            (name, daemons[n % daemons.len()].post("/v1/vms", hints).await)
        });
    }
    let answers = asked.join_all().await;
    let (accepted, refused): (Vec<_>, Vec<_>) =
        answers.into_iter().partition(|(_, answer)| answer.status == 202);
    assert_eq!((accepted.len(), refused.len()), (QUOTA, CREATES - QUOTA));
    let over_quota = |answer: &Answer| answer.status == 409 && answer.json["code"] == "quota_exceeded";
    for (name, answer) in &refused {
        assert!(over_quota(answer), "{name}: {answer:?}");
    }
    accepted.into_iter().map(|(name, _)| name).collect()
}

/// All VMs, once each runs or knows why it does not.
async fn at_rest(daemon: &Daemon) -> Vec<Value> {
    daemon
        .until("each VM runs, or knows why it does not", async |daemon| {
            let vms = items(&daemon.get("/v1/vms?limit=1000").await.json["items"]).to_vec();
            let rests = |vm: &Value| match vm["node"].is_null() {
                true => !items(&vm["refusals"]).is_empty(),
                false => vm["status"] == "ACTIVE",
            };
            vms.iter().all(rests).then_some(vms)
        })
        .await
}

fn obeyed(vms: &[Value]) {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for vm in vms {
        let n = text(&vm["name"]).trim_start_matches("vm-").parse().expect("a VM has its number in its name");
        *counts.entry((group(n), text(&vm["node"]))).or_default() += 1;
    }
    let on = |group, node| counts.get(&(group, node)).copied().unwrap_or(0);
    for node in NODES {
        assert_eq!(on("apart", node), PER_HOST, "as many as may be, no more: {counts:?}");
        assert!(on("loose", node) > 0, "spread: {counts:?}");
    }
    let hosts = NODES.iter().filter(|node| on("together", node) > 0).count();
    assert_eq!((hosts, on("together", "")), (1, 0), "all of them on one host: {counts:?}");
    assert_eq!(on("loose", ""), 0, "a soft rule keeps nobody waiting: {counts:?}");
}

/// Each that has a node was placed once in its life, and the nodes hold as much as they seem to.
async fn nobody_twice(daemon: &Daemon, vms: &[Value]) {
    let mut placed: BTreeMap<String, usize> = BTreeMap::new();
    let events = daemon.get("/v1/events?follow=false&limit=1000&since=0").await.expect(200).json;
    for event in items(&events["items"]).iter().filter(|event| event["what"] == "placed") {
        *placed.entry(text(&event["name"]).to_owned()).or_default() += 1;
    }
    let once = vms.iter().filter(|vm| !vm["node"].is_null()).map(|vm| (text(&vm["name"]).to_owned(), 1));
    assert_eq!(placed, once.collect());
    let mut used = 0;
    for node in NODES {
        let node = daemon.get(&format!("/v1/nodes/{node}")).await.expect(200).json;
        used += node["inventory"]["VCPU"]["used"].as_u64().unwrap_or(0);
    }
    assert_eq!(used, placed.len() as u64, "one vCPU each");
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
