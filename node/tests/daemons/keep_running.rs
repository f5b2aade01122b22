//! How VMs are kept running, on a cluster of three: policies changed later, evacuation, a step that does not end, the
//! cluster's policy, announced network work.

use serde_json::{Value, json};

use crate::daemon::Daemon;

async fn vm(daemon: &Daemon, name: &str, more: Value) -> Value {
    let mut body = json!({"name": name, "flavor": "tiny", "image": "guest"});
    for (key, value) in more.as_object().into_iter().flatten() {
        body[key] = value.clone();
    }
    daemon.post("/v1/vms", body).await.expect(202);
    daemon.until_status(name, "ACTIVE").await
}

async fn is_down(daemon: &Daemon, node: &str) {
    daemon
        .until(&format!("{node} is known to be down"), async |daemon| {
            (daemon.get(&format!("/v1/nodes/{node}")).await.json["up"] == false).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_is_evacuated_only_from_a_node_that_is_down_and_on_the_operators_word() {
    let mut nodes = Daemon::three().await;
    vm(&nodes[0], "db", json!({"node": "n3"})).await;
    let evacuate = async |confirmed: bool| {
        nodes[0].post("/v1/vms/db/evacuate", json!({"confirm_node_off": confirmed})).await
    };
    let refused = evacuate(true).await.expect(409).json;
    assert!(
        refused["detail"].as_str().is_some_and(|detail| detail.contains("node `n3` is up; drain it")),
        "{refused}"
    );

    nodes.pop();
    is_down(&nodes[0], "n3").await;
    assert_eq!(nodes[0].get("/v1/vms/db").await.json["node_up"], false);
    let unconfirmed = nodes[0].post("/v1/vms/db/evacuate", json!({})).await.expect(422).json;
    assert_eq!(unconfirmed["field"], "confirm_node_off");
    let vm = nodes[0].post("/v1/vms/db/evacuate", json!({"confirm_node_off": true})).await.expect(202).json;
    assert_eq!((vm["node"].clone(), vm["recovery"]["failing_over"].clone()), (Value::Null, json!(true)));
    assert_eq!(vm["build_deadline"], Value::Null, "it waits for as long as it takes");
    let vm = nodes[0].until_status("db", "ACTIVE").await;
    assert_ne!(vm["node"], "n3", "{vm}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_does_not_end_is_taken_back_by_hand() {
    let mut nodes = Daemon::three().await;
    vm(&nodes[0], "db", json!({"node": "n3"})).await;
    nodes[0].post("/v1/vms/db/reset-state", json!({})).await.expect(409);
    nodes[2].kill();
    is_down(&nodes[0], "n3").await;
    let vm = nodes[0].post("/v1/vms/db/stop", json!({})).await.expect(202).json;
    assert_eq!(vm["task_state"], "powering-off");
    assert_eq!(vm["recovery"]["task_deadline"], Value::Null, "a node that is down is not late");
    let vm = nodes[0].post("/v1/vms/db/reset-state", json!({})).await.expect(202).json;
    assert_eq!((vm["status"].clone(), vm["task_state"].clone()), (json!("ERROR"), Value::Null));
    nodes[0].post("/v1/vms/db/start", json!({})).await.expect(202);
    let n3 = nodes.pop().expect("there are three").again().await;
    let vm = n3.until_status("db", "ACTIVE").await;
    assert_eq!((vm["node"].clone(), vm["task_state"].clone()), (json!("n3"), Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_are_given_at_creation_and_changed_later() {
    let nodes = Daemon::three().await;
    let n1 = &nodes[0];
    let asked = json!({
        "restart_policy": "on-failure", "start_order": -3, "start_delay_s": 30, "disk_loss": "recreate",
    });
    let made = vm(n1, "web", asked.clone()).await;
    for (key, value) in asked.as_object().into_iter().flatten() {
        assert_eq!(&made[key], value, "{key}");
    }
    assert_eq!(
        (made["availability"].clone(), made["availability_in_force"].clone()),
        (json!("pinned"), json!("pinned"))
    );

    let changed =
        n1.patch("/v1/vms/web", json!({"availability": "failover", "start_order": 7})).await.expect(200).json;
    assert_eq!(
        (changed["availability"].clone(), changed["start_order"].clone()),
        (json!("failover"), json!(7))
    );
    assert_eq!(changed["restart_policy"], "on-failure", "what is not given stays");
    let bound = n1
        .until("its node has bound it to the lease", async |n1| {
            let vm = n1.get("/v1/vms/web").await.json;
            (vm["availability_in_force"] == "failover").then_some(vm)
        })
        .await;
    assert_eq!(
        (bound["status"].clone(), bound["run"].clone()),
        (json!("ACTIVE"), json!(1)),
        "without a restart"
    );
    let pinned = n1.patch("/v1/vms/web", json!({"availability": "pinned"})).await.expect(200).json;
    assert_eq!(pinned["availability_in_force"], "pinned", "at once");

    vm(n1, "bound", json!({"node": "n2"})).await;
    let failover = json!({"availability": "failover"});
    let refused = n1.patch("/v1/vms/bound", failover.clone()).await.expect(422).json;
    let detail = refused["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("created for n2") && detail.contains("--any-node"), "{refused}");
    n1.patch("/v1/vms/bound", json!({"any_node": true})).await.expect(200);
    n1.patch("/v1/vms/bound", failover).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_have_bounds_and_network_work_is_announced() {
    let nodes = Daemon::three().await;
    let n2 = &nodes[1];
    let policy = n2.get("/v1/policy").await.expect(200);
    assert_eq!(policy.json["lease_ttl_ms"], json!({"value": 15_000, "least": 8_400, "most": 600_000}));
    assert_eq!(
        (policy.json["fence_after_ms"].clone(), policy.json["failover_possible"].clone()),
        (json!(20_000), json!(true))
    );
    let refused = n2.patch("/v1/policy", json!({"lease_ttl_ms": 8_000})).await.expect(422).json;
    assert_eq!(refused["detail"], "lease_ttl_ms: is 8000, must be 8400 to 600000");
    let tight =
        n2.patch("/v1/policy", json!({"lease_ttl_ms": 9_000, "margin_ms": 2_000})).await.expect(200).json;
    assert_eq!(tight["lease_ttl_ms"]["value"], 9_000);
    assert_eq!(tight["fence_after_ms"], 17_000, "leases of 15 s may be out");
    n2.until("the longer leases have ended", async |n2| {
        (n2.get("/v1/policy").await.json["fence_after_ms"] == 11_000).then_some(())
    })
    .await;

    let freeze =
        n2.put("/v1/freeze", json!({"for_ms": 1_800_000, "reason": "new switch"})).await.expect(200).json;
    assert_eq!((freeze["reason"].clone(), freeze["over"].clone()), (json!("new switch"), json!(false)));
    let shown = nodes[0].get("/v1/cluster").await.expect(200).json;
    assert_eq!(shown["freeze"], freeze);
    let over = n2.delete("/v1/freeze").await.expect(200).json;
    assert_eq!(over["over"], true);
    n2.delete("/v1/freeze").await.expect(409);
    n2.until("every lease is short again, long before it would have ended", async |n2| {
        n2.get("/v1/cluster").await.expect(200).json["freeze"].is_null().then_some(())
    })
    .await;
}
