//! Three daemons, sixty VMs in groups and zones, one node cordoned and one tainted: the placement obeys every
//! rule, and what-if predicts what then happens when a node is lost.

mod daemon;

use std::collections::BTreeMap;

use daemon::Daemon;
use holm_vmm::test_guest;
use hyper::Method;
use serde_json::{Value, json};

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
    // Only what does not move by itself: the prediction is to hold to the letter.
    let weighers = json!({"Ram": 1, "Cpu": 1, "SoftAffinity": 10, "SoftAntiAffinity": 10});
    n1.put("/v1/scheduler", json!({"weighers": weighers})).await.expect(200);
    n1.post("/v1/flavors", json!({"name": "tiny", "vcpus": 1, "memory_mib": 16})).await.expect(201);
    let kernel = test_guest::elf(test_guest::Variant::Banner);
    n1.send(Method::POST, "/v1/images?name=guest&kind=kernel", &[], kernel.into()).await.expect(201);
    for (name, policy, max) in [
        ("apart", "anti-affinity", Some(5)),
        ("together", "affinity", None),
        ("loose", "soft-anti-affinity", None),
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

/// Sixty VMs in six batches; those without a zone fail over.
async fn create(daemon: &Daemon) {
    let tolerate = json!([{"key": "gpu"}]);
    for (name, count, more) in [
        ("left", 15, json!({"availability_zone": "left"})),
        ("right", 10, json!({"availability_zone": "right", "tolerations": tolerate})),
        ("apart", 10, json!({"group": "apart", "tolerations": tolerate, "availability": "failover"})),
        ("together", 10, json!({"group": "together", "tolerations": tolerate, "availability": "failover"})),
        ("loose", 10, json!({"group": "loose", "tolerations": tolerate, "availability": "failover"})),
        ("fast", 5, json!({"node_selector": ["disk = nvme"], "priority": 5, "availability": "failover"})),
    ] {
        let mut body = more;
        for (key, value) in [
            ("name", json!(name)),
            ("count", json!(count)),
            ("flavor", json!("tiny")),
            ("image", json!("guest")),
        ] {
            body[key] = value;
        }
        let created = daemon.post("/v1/vms", body).await.expect(202).json;
        assert_eq!(created["items"].as_array().map(Vec::len), Some(count));
        // A soft rule weighs what is placed already, so a batch is let settle.
        until(daemon, count, name, "ACTIVE").await;
    }
}

async fn until(daemon: &Daemon, count: usize, name: &str, status: &str) {
    daemon
        .until(&format!("{count} {name}-* are {status}"), async |daemon| {
            let vms = vms(daemon).await;
            let of = vms.iter().filter(|vm| batch(vm) == name && vm["status"] == status);
            (of.count() == count).then_some(())
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

    // Room for those of n1: n2 takes VMs again, n3 takes any.
    nodes[0].patch("/v1/nodes/n2", json!({"enabled": true})).await.expect(200);
    nodes[0].patch("/v1/nodes/n3", json!({"taints": []})).await.expect(200);
    let foreseen = nodes[0].get("/v1/what-if?lose=n1").await.expect(200).json;
    let there = nodes[0].get("/v1/vms?node=n1&limit=1000").await.json["items"].as_array().map(Vec::len);
    let moves = foreseen["vms"].as_array().cloned().unwrap_or_default();
    assert_eq!(Some(moves.len()), there);
    // Only n1 has the label that those want.
    assert_eq!(foreseen["stranded"], 5, "{foreseen}");

    drop(nodes.remove(0));
    let n2 = &nodes[0];
    // What fails over moves when n1 has surely lost it; nobody asks for it.
    let (by_itself, pinned): (Vec<&Value>, Vec<&Value>) =
        moves.iter().partition(|moved| moved["by_itself"] == true);
    assert!(by_itself.len() > 10 && pinned.len() >= 15, "{foreseen}");
    for moved in by_itself {
        came_true(n2, moved).await;
    }
    n2.send(Method::DELETE, "/v1/nodes/n1?confirm_node_off=true", &[], Default::default()).await.expect(202);
    for moved in pinned {
        let path = format!("/v1/vms/{}/start", text(&moved["vm"]));
        n2.send(Method::POST, &path, &[], Default::default()).await.expect(202);
        came_true(n2, moved).await;
    }
}

/// The VM is placed where it was said, or waits for the reasons that were said, host by host.
async fn came_true(daemon: &Daemon, moved: &Value) {
    let name = text(&moved["vm"]);
    let vm = daemon
        .until(&format!("{name} is placed elsewhere or refused"), async |daemon| {
            let vm = daemon.try_get(&format!("/v1/vms/{name}")).await?.json;
            let refused = vm["refusals"].as_array().is_some_and(|refusals| !refusals.is_empty());
            ((!vm["node"].is_null() && vm["node"] != "n1") || refused).then_some(vm)
        })
        .await;
    assert_eq!(vm["node"], moved["to"], "{name}: foreseen {moved}, got {vm}");
    let reasons = |vm: &Value| -> BTreeMap<String, String> {
        let refusals = vm["refusals"].as_array().into_iter().flatten();
        refusals.map(|refusal| (text(&refusal["node"]).to_owned(), text(&refusal["by"]).to_owned())).collect()
    };
    assert_eq!(reasons(&vm), reasons(moved), "{name}: foreseen {moved}, got {vm}");
}

/// Every rule, on the placement as it is.
async fn obeyed(daemon: &Daemon) {
    let vms = vms(daemon).await;
    assert_eq!(vms.len(), 60);
    let counts = counts(&vms);
    let on = |batch: &str, node: &str| counts.get(&(batch.to_owned(), node.to_owned())).copied().unwrap_or(0);
    assert!(counts.keys().all(|(_, node)| node != "n2"), "n2 is cordoned: {counts:?}");
    assert_eq!((on("left", "n1"), on("right", "n3")), (15, 10), "zones");
    assert_eq!((on("apart", "n1"), on("apart", "n3")), (5, 5), "at most five of a group on a host");
    assert!(on("together", "n1") == 10 || on("together", "n3") == 10, "one host: {counts:?}");
    assert_eq!((on("loose", "n1"), on("loose", "n3")), (5, 5), "spread where possible");
    assert_eq!(on("fast", "n1"), 5, "the label is on n1 only");
    let zones = daemon.get("/v1/availability-zones").await.expect(200).json["items"].clone();
    let zone = |at: usize| (text(&zones[at]["name"]).to_owned(), zones[at]["vms"].as_u64().unwrap_or(0));
    let on_n1: usize = counts.iter().filter(|((_, node), _)| node == "n1").map(|(_, count)| count).sum();
    assert_eq!(zone(0), ("left".to_owned(), on_n1 as u64));
    assert_eq!(zone(1), ("right".to_owned(), 60 - on_n1 as u64));
    let group = daemon.get("/v1/server-groups/apart").await.expect(200).json;
    assert_eq!(group["members"].as_array().map(Vec::len), Some(10));
}
