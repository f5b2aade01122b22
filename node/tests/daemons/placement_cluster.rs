//! Three daemons, sixty VMs in groups and zones, one node cordoned and one tainted: the placement obeys every
//! rule, and what-if predicts what then happens when a node is lost.

use std::collections::BTreeMap;

use holm_vmm::test_guest;
use hyper::Method;
use serde_json::{Value, json};

use crate::daemon::Daemon;

/// The nodes: n1 is plain, n2 cordoned, n3 tainted; n1 and n2 make zone `left`, n3 zone `right`.
async fn cluster() -> Vec<Daemon> {
    let n1 = Daemon::first().await;
    let n2 = Daemon::joined("n2", &n1).await;
    let n3 = Daemon::joined("n3", &n1).await;
    n1.until("all three vote", async |n1| {
        let members = n1.get("/v1/cluster").await.json["members"].clone();
        let votes = |member: &Value| member["role"] == "voter" || member["role"] == "leader";
        (members.as_array()?.iter().filter(|member| votes(member)).count() == 3).then_some(())
    })
    .await;
    for (name, nodes) in [("left", json!(["n1", "n2"])), ("right", json!(["n3"]))] {
        let metadata = json!({"availability_zone": name});
        let body = json!({"name": name, "nodes": nodes, "metadata": metadata});
        n1.post("/v1/aggregates", body).await.expect(201);
        let roomy = json!({"inventory": {"VCPU": {"total": 64, "allocation_ratio": 1}}});
        n1.patch(&format!("/v1/aggregates/{name}"), roomy).await.expect(200);
    }
    n1.patch("/v1/nodes/n1", json!({"labels": {"disk": "nvme"}})).await.expect(200);
    n1.patch("/v1/nodes/n2", json!({"enabled": false, "reason": "new disk"})).await.expect(200);
    n1.patch("/v1/nodes/n3", json!({"taints": [gpu_taint()]})).await.expect(200);
    n1.post("/v1/flavors", json!({"name": "tiny", "vcpus": 1, "memory_mib": 16})).await.expect(201);
    let kernel = test_guest::elf(test_guest::Variant::Banner);
    n1.send(Method::POST, "/v1/images?name=guest&kind=kernel", &[], kernel.into()).await.expect(201);
    for (name, policy, max) in [
        ("apart", "anti-affinity", Some(5)),
        ("together", "affinity", None),
        ("loose", "soft-anti-affinity", None),
        ("pair", "affinity", None),
    ] {
        let mut body = json!({"name": name, "policy": policy});
        if let Some(max) = max {
            body["max_server_per_host"] = json!(max);
        }
        n1.post("/v1/server-groups", body).await.expect(201);
    }
    vec![n1, n2, n3]
}

fn gpu_taint() -> Value {
    json!({"key": "gpu", "value": "yes", "effect": "NoSchedule"})
}

/// Sixty VMs; those without a zone fail over. Two of a group find no host, and neither does the mate, whose anchor is
/// where it must not be.
async fn create(daemon: &Daemon) {
    let tolerate = json!([{"key": "gpu"}]);
    let failover = |more: Value| {
        let mut body = more;
        body["availability"] = json!("failover");
        body
    };
    let nvme = json!(["disk = nvme"]);
    for (name, count, placed, more) in [
        ("loose", 8, 8, failover(json!({"group": "loose", "tolerations": tolerate}))),
        ("right", 8, 8, json!({"availability_zone": "right", "tolerations": tolerate})),
        ("together", 10, 10, failover(json!({"group": "together", "tolerations": tolerate}))),
        ("left", 10, 10, json!({"availability_zone": "left"})),
        ("plain", 5, 5, failover(json!({}))),
        ("apart", 12, 10, failover(json!({"group": "apart", "tolerations": tolerate}))),
        ("fast", 5, 5, failover(json!({"node_selector": nvme, "priority": 5}))),
        ("anchor", 1, 1, failover(json!({"node_selector": nvme, "group": "pair"}))),
        ("mate", 1, 0, json!({"availability_zone": "right", "tolerations": tolerate, "group": "pair"})),
    ] {
        let mut body = more;
        for (key, value) in [("name", json!(name)), ("flavor", json!("tiny")), ("image", json!("guest"))] {
            body[key] = value;
        }
        if count > 1 {
            body["count"] = json!(count);
        }
        daemon.post("/v1/vms", body).await.expect(202);
        // What is placed already is weighed, so a batch is let settle.
        until(daemon, placed, &format!("{name} are ACTIVE"), |vm| {
            batch(vm) == name && vm["status"] == "ACTIVE"
        })
        .await;
    }
    let waits = |vm: &Value| vm["node"].is_null() && !refusals(vm).is_empty();
    until(daemon, 3, "wait and know why", waits).await;
}

async fn until(daemon: &Daemon, count: usize, what: &str, holds: impl Fn(&Value) -> bool) {
    daemon
        .until(&format!("{count} {what}"), async |daemon| {
            (vms(daemon).await.iter().filter(|vm| holds(vm)).count() == count).then_some(())
        })
        .await;
}

async fn vms(daemon: &Daemon) -> Vec<Value> {
    daemon.get("/v1/vms?limit=1000").await.expect(200).json["items"].as_array().cloned().unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// `left` of `left-7`.
fn batch(vm: &Value) -> &str {
    text(&vm["name"]).split('-').next().unwrap_or_default()
}

/// How many VMs of each batch are on each node.
fn counts(vms: &[Value]) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    for vm in vms {
        *counts.entry((batch(vm).to_owned(), text(&vm["node"]).to_owned())).or_default() += 1;
    }
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_vms_obey_every_rule_and_a_lost_node_does_what_was_predicted() {
    let mut nodes = cluster().await;
    create(&nodes[0]).await;
    obeyed(&nodes[0]).await;

    let before = vms(&nodes[0]).await;
    let foreseen = nodes[0].get("/v1/what-if?lose=n1").await.expect(200).json;
    let there = before.iter().filter(|vm| vm["node"] == "n1").count();
    assert_eq!(items(&foreseen["vms"]).len(), there, "{foreseen}");
    let expected = expected(&before, &foreseen);
    let become_of = |fate: fn(&Fate) -> bool| expected.values().filter(|what| fate(what)).count();
    // Those that are spread, those together, and the mate, whose anchor no longer holds it.
    assert_eq!(become_of(|fate| matches!(fate, Fate::Moved { .. })), 4 + 10 + 1, "{expected:?}");
    // No toleration; no other node with the label; no more than five of the group.
    assert_eq!(become_of(|fate| matches!(fate, Fate::Stuck { .. })), 5 + 5 + 1 + 5, "{expected:?}");
    assert_eq!(become_of(|fate| matches!(fate, Fate::Waits)), 2, "{expected:?}");

    drop(nodes.remove(0));
    let n2 = &nodes[0];
    let after = n2
        .until("all that n1 lost is placed or refused", async |n2| {
            let answer = n2.try_get("/v1/vms?limit=1000").await?;
            let vms = items(&answer.json["items"]).to_vec();
            let at_rest = |vm: &Value| match text(&vm["node"]) {
                "n1" => vm["availability"] == "pinned",
                "" => !refusals(vm).is_empty(),
                _ => vm["status"] == "ACTIVE",
            };
            (vms.len() == 60 && vms.iter().all(at_rest)).then_some(vms)
        })
        .await;
    let became: BTreeMap<String, Fate> = after
        .iter()
        .map(|vm| {
            let name = text(&vm["name"]).to_owned();
            let fate = became(vm, &expected[&name]);
            (name, fate)
        })
        .collect();
    assert_eq!(became, expected);
    // Of three voters two are left: without another, nobody could decide anything.
    let one_more = n2.get("/v1/what-if?lose=n3").await.expect(200).json;
    let hindrance = text(&one_more["hindrances"][0]);
    assert!(hindrance.starts_with("no majority is left, 1 of 3 voters: nothing comes back"), "{one_more}");
    assert!(items(&one_more["vms"]).iter().all(|vm| vm["by_itself"] == false), "{one_more}");
    assert_eq!(n2.get("/v1/n-plus-one").await.expect(200).json["holds"], false);

    // Pinned VMs stay until somebody moves them: then that is true of them too.
    n2.patch("/v1/nodes/n2", json!({"enabled": true})).await.expect(200);
    until(n2, 5 + 5, "find room on n2", |vm| vm["node"] == "n2" && vm["status"] == "ACTIVE").await;
    let foreseen = n2.get("/v1/what-if?lose=n1").await.expect(200).json;
    let pinned = items(&foreseen["vms"]);
    assert_eq!((pinned.len(), &foreseen["stranded"]), (10, &json!(0)), "{foreseen}");
    n2.send(Method::DELETE, "/v1/nodes/n1?confirm_node_off=true", &[], Default::default()).await.expect(202);
    for moved in pinned {
        assert_eq!((&moved["by_itself"], &moved["to"]), (&json!(false), &json!("n2")), "{moved}");
        let name = text(&moved["vm"]);
        n2.send(Method::POST, &format!("/v1/vms/{name}/start"), &[], Default::default()).await.expect(202);
        assert_eq!(n2.until_status(name, "ACTIVE").await["node"], moved["to"]);
    }
}

/// What becomes of a VM when a node is lost.
#[derive(Clone, Debug, PartialEq)]
enum Fate {
    /// It runs there.
    Moved { to: String },
    /// It lost its host, and waits for these reasons.
    Stuck { refusals: Vec<Value> },
    /// It waited before, and does so still.
    Waits,
    /// It is in the same run on the same host.
    Untouched { node: String, run: Value },
}

/// What was said, of all that there is.
fn expected(before: &[Value], foreseen: &Value) -> BTreeMap<String, Fate> {
    let said = |list: &str, name: &str| items(&foreseen[list]).iter().find(|one| one["vm"] == name).cloned();
    let moved = |to: &Value| Fate::Moved { to: text(to).to_owned() };
    let of_vm = |vm: &Value| {
        let name = text(&vm["name"]);
        let fate = match (said("vms", name), said("waiting", name)) {
            (Some(one), None) if one["by_itself"] == true && one["to"].is_null() => {
                Fate::Stuck { refusals: refusals(&one).to_vec() }
            }
            (Some(one), None) if one["by_itself"] == true => moved(&one["to"]),
            (None, Some(one)) if one["node"].is_null() => Fate::Waits,
            (None, Some(one)) => moved(&one["node"]),
            (_, None) => untouched(vm),
            (Some(_), Some(_)) => panic!("{name} is said to be on a node, and to wait"),
        };
        (name.to_owned(), fate)
    };
    before.iter().map(of_vm).collect()
}

/// What became of it, in the words of what was expected.
fn became(vm: &Value, expected: &Fate) -> Fate {
    match (expected, text(&vm["node"])) {
        (Fate::Waits, "") => Fate::Waits,
        (_, "") => Fate::Stuck { refusals: refusals(vm).to_vec() },
        (Fate::Untouched { .. }, _) => untouched(vm),
        (_, to) => Fate::Moved { to: to.to_owned() },
    }
}

fn untouched(vm: &Value) -> Fate {
    Fate::Untouched { node: text(&vm["node"]).to_owned(), run: vm["run"].clone() }
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn refusals(vm: &Value) -> &[Value] {
    items(&vm["refusals"])
}

/// Every rule, on the placement as it is.
async fn obeyed(daemon: &Daemon) {
    let vms = vms(daemon).await;
    assert_eq!(vms.len(), 60);
    let counts = counts(&vms);
    let on = |batch: &str, node: &str| counts.get(&(batch.to_owned(), node.to_owned())).copied().unwrap_or(0);
    assert!(counts.keys().all(|(_, node)| node != "n2"), "n2 is cordoned: {counts:?}");
    assert_eq!((on("left", "n1"), on("right", "n3")), (10, 8), "zones");
    assert_eq!((on("apart", "n1"), on("apart", "n3")), (5, 5), "at most five of a group on a host");
    assert_eq!(on("together", "n1"), 10, "one host, the one with more room: {counts:?}");
    assert_eq!((on("loose", "n1"), on("loose", "n3")), (4, 4), "spread where possible");
    assert_eq!((on("fast", "n1"), on("anchor", "n1")), (5, 1), "the label is on n1 only");
    assert_eq!(on("plain", "n1"), 5, "n3 is tainted");
    assert_eq!((on("apart", ""), on("mate", "")), (2, 1), "neither the rule of a group nor a zone bends");
    let zones = daemon.get("/v1/availability-zones").await.expect(200).json["items"].clone();
    let zone = |at: usize| (text(&zones[at]["name"]).to_owned(), zones[at]["vms"].as_u64().unwrap_or(0));
    let on_n1: usize = counts.iter().filter(|((_, node), _)| node == "n1").map(|(_, count)| count).sum();
    assert_eq!(zone(0), ("left".to_owned(), on_n1 as u64));
    assert_eq!(zone(1), ("right".to_owned(), 60 - 3 - on_n1 as u64));
    let group = daemon.get("/v1/server-groups/apart").await.expect(200).json;
    assert_eq!(group["members"].as_array().map(Vec::len), Some(12));
}
