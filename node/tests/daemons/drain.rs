//! Emptying nodes of a cluster of three: who leaves and who stays, under whichever leader, and how it is called off.

use serde_json::{Value, json};

use crate::daemon::Daemon;

/// Running VMs on one node, named NAME-1 …
async fn on(nodes: &[Daemon], node: usize, name: &str, count: usize, more: Value) {
    let others: Vec<&str> = others(nodes, node).collect();
    for other in &others {
        nodes[0].patch(&format!("/v1/nodes/{other}"), json!({"enabled": false})).await.expect(200);
    }
    let mut body = json!({"name": name, "flavor": "tiny", "image": "guest", "count": count});
    for (key, value) in more.as_object().into_iter().flatten() {
        body[key] = value.clone();
    }
    nodes[0].post("/v1/vms", body).await.expect(202);
    for n in 1..=count {
        let vm = nodes[0].until_status(&format!("{name}-{n}"), "ACTIVE").await;
        assert_eq!(vm["node"], json!(nodes[node].name));
    }
    for other in others {
        nodes[0].patch(&format!("/v1/nodes/{other}"), json!({"enabled": true})).await.expect(200);
    }
}

fn others(nodes: &[Daemon], node: usize) -> impl Iterator<Item = &str> {
    nodes.iter().map(|daemon| daemon.name.as_str()).filter(move |name| *name != nodes[node].name)
}

fn failover() -> Value {
    json!({"availability": "failover"})
}

async fn drained(daemon: &Daemon, node: &str) -> Value {
    daemon
        .until(&format!("{node} is drained"), async |daemon| {
            let drain = daemon.try_get(&format!("/v1/nodes/{node}/drain")).await?.json;
            (drain["done"] == true).then_some(drain)
        })
        .await
}

fn left(drain: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let left = drain["left"].as_array().into_iter().flatten();
    left.map(|left| (text(&left["name"]), text(&left["next"]))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn failover_vms_leave_and_pinned_ones_are_kept_or_stopped_as_was_said() {
    let nodes = Daemon::three().await;
    on(&nodes, 1, "web", 6, failover()).await;
    on(&nodes, 1, "db", 2, json!({})).await;
    let n1 = &nodes[0];

    let refused = n1.post("/v1/nodes/n2/drain", json!({})).await.expect(422).json;
    assert_eq!(refused["field"], "pinned");
    assert!(
        refused["detail"].as_str().is_some_and(|detail| detail.contains("db-1, db-2 run on n2")),
        "{refused}"
    );

    let foreseen =
        n1.post("/v1/nodes/n2/drain?dry_run=true", json!({"pinned": "stop"})).await.expect(200).json;
    assert_eq!((foreseen["dry_run"].clone(), foreseen["since"].clone()), (json!(true), Value::Null));
    let next = |name: &str| left(&foreseen).into_iter().find(|(vm, _)| vm == name).map(|(_, next)| next);
    assert_eq!((next("web-1").as_deref(), next("db-1").as_deref()), (Some("moves"), Some("stops")));
    assert_eq!(n1.get("/v1/nodes/n2").await.json["enabled"], true, "a dry run changes nothing");

    n1.post("/v1/nodes/n2/drain", json!({"pinned": "keep"})).await.expect(202);
    let drain = drained(n1, "n2").await;
    assert_eq!(
        left(&drain),
        [("db-1".to_owned(), "kept".to_owned()), ("db-2".to_owned(), "kept".to_owned())]
    );
    for n in 1..=6 {
        let vm = n1.until_status(&format!("web-{n}"), "ACTIVE").await;
        assert_ne!(vm["node"], "n2", "{vm}");
    }
    assert_eq!(n1.until_status("db-1", "ACTIVE").await["run"], 1, "it was never touched");

    // The same drain, with another word about pinned VMs.
    n1.post("/v1/nodes/n2/drain", json!({"pinned": "stop", "timeout_s": 20})).await.expect(202);
    assert_eq!(left(&drained(n1, "n2").await), []);
    let db = n1.until_status("db-2", "SHUTOFF").await;
    assert_eq!(
        (db["node"].clone(), db["recovery"]["stopped_for_drain_of"].clone()),
        (json!("n2"), json!("n2"))
    );

    n1.patch("/v1/nodes/n2", json!({"enabled": true})).await.expect(200);
    let db = n1.until_status("db-2", "ACTIVE").await;
    assert_eq!((db["run"].clone(), db["node"].clone()), (json!(2), json!("n2")));
    n1.get("/v1/nodes/n2/drain").await.expect(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_outlives_the_leader_that_began_it() {
    let mut nodes = Daemon::three().await;
    on(&nodes, 2, "web", 12, failover()).await;
    let leader = leader(&nodes[1]).await;
    // The leader must not be the one that is emptied: that hands over by itself.
    assert_eq!(leader, "n1", "the first node leads what nothing has disturbed");
    nodes[1].post("/v1/nodes/n3/drain", json!({})).await.expect(202);
    nodes[0].kill();
    let there = nodes[1].get("/v1/vms?node=n3&consistency=stale").await.expect(200).json;
    assert_ne!(there["items"], json!([]), "the leader died before the end of the drain");
    assert_eq!(left(&drained(&nodes[1], "n3").await), []);
    for n in 1..=12 {
        let vm = nodes[1].until_status(&format!("web-{n}"), "ACTIVE").await;
        assert_eq!(vm["node"], "n2", "{vm}");
    }
}

async fn leader(daemon: &Daemon) -> String {
    daemon
        .until("there is a leader", async |daemon| {
            let cluster = daemon.try_get("/v1/cluster").await?.json;
            cluster["leader"]["name"].as_str().map(str::to_owned)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_emptied_hands_over_and_its_drain_ends() {
    let nodes = Daemon::three().await;
    on(&nodes, 0, "web", 3, failover()).await;
    assert_eq!(leader(&nodes[1]).await, "n1");
    nodes[0].post("/v1/nodes/n1/drain", json!({})).await.expect(202);
    nodes[1]
        .until("another node leads", async |n2| {
            let leader = n2.try_get("/v1/cluster").await?.json["leader"]["name"].as_str()?.to_owned();
            (leader != "n1").then_some(())
        })
        .await;
    assert_eq!(left(&drained(&nodes[1], "n1").await), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_nowhere_to_go_vms_run_on_until_there_is_room_or_the_drain_is_called_off() {
    let nodes = Daemon::three().await;
    on(&nodes, 1, "web", 2, failover()).await;
    let n1 = &nodes[0];
    let full = json!({"inventory": {"MEMORY_MB": {"total": 16, "reserved": 0}}});
    for other in ["n1", "n3"] {
        n1.patch(&format!("/v1/nodes/{other}"), full.clone()).await.expect(200);
    }
    let drain = n1.post("/v1/nodes/n2/drain", json!({})).await.expect(202).json;
    assert_eq!(
        left(&drain),
        [("web-1".to_owned(), "stuck".to_owned()), ("web-2".to_owned(), "stuck".to_owned())]
    );
    let by: Vec<_> = (0..3).map(|at| drain["left"][0]["refusals"][at]["by"].clone()).collect();
    assert_eq!(by, ["Capacity", "ComputeStatus", "Capacity"]);

    let node = n1.delete("/v1/nodes/n2/drain").await.expect(200).json;
    assert_eq!(
        (node["drain"].clone(), node["enabled"].clone()),
        (Value::Null, json!(false)),
        "it stays cordoned"
    );
    assert_eq!(n1.until_status("web-1", "ACTIVE").await["run"], 1);

    n1.post("/v1/nodes/n2/drain", json!({})).await.expect(202);
    n1.patch("/v1/nodes/n3", json!({"inventory": {"MEMORY_MB": null}})).await.expect(200);
    drained(n1, "n2").await;
    for vm in ["web-1", "web-2"] {
        assert_eq!(n1.until_status(vm, "ACTIVE").await["node"], "n3");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn maintenance_lasts_over_restarts_until_it_is_ended() {
    let mut nodes = Daemon::three().await;
    on(&nodes, 2, "db", 1, json!({})).await;
    let work = json!({"pinned": "stop", "reason": "new disk", "timeout_s": 20});
    let node = nodes[0].put("/v1/nodes/n3/maintenance", work).await.expect(202).json;
    assert_eq!(
        (node["maintenance"]["reason"].clone(), node["enabled"].clone()),
        (json!("new disk"), json!(false))
    );
    drained(&nodes[0], "n3").await;

    let mut n3 = nodes.pop().expect("there are three");
    n3.kill();
    nodes[0]
        .until("n3 is known to be down", async |n1| {
            (n1.get("/v1/nodes/n3").await.json["up"] == false).then_some(())
        })
        .await;
    let n3 = n3.again().await;
    let node = n3.get("/v1/nodes/n3").await.expect(200).json;
    assert_eq!(
        (node["maintenance"]["reason"].clone(), node["drain"]["done"].clone()),
        (json!("new disk"), json!(true))
    );
    assert_eq!(n3.get("/v1/vms/db-1").await.json["status"], "SHUTOFF");
    n3.patch("/v1/nodes/n3", json!({"enabled": true})).await.expect(409);

    let node = n3.delete("/v1/nodes/n3/maintenance").await.expect(200).json;
    assert_eq!(
        (node["maintenance"].clone(), node["drain"].clone(), node["enabled"].clone()),
        (Value::Null, Value::Null, json!(true))
    );
    n3.until_status("db-1", "ACTIVE").await;
}
