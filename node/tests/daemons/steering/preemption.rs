//! Preemption: off by default; who would be evicted is said before anybody is, and afterwards with the decision. And
//! the host that is kept for one that waited long.

use super::*;

/// A node that is full of two VMs of no priority.
async fn full() -> Daemon {
    let daemon = one_node(2).await;
    for name in ["low-a", "low-b"] {
        daemon.post("/v1/vms", vm(name, json!({"preemptible": true}))).await.expect(202);
        daemon.until_status(name, "ACTIVE").await;
    }
    daemon
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_evicted_is_said_before_it_happens_and_kept_with_the_decision() {
    let daemon = full().await;
    let high = vm("high", json!({"priority": 10}));
    let without = daemon.post("/v1/vms?dry_run=true", high.clone()).await.expect(200).json;
    assert_eq!(
        (without["eviction"].clone(), without["hosts"][0]["by"].clone()),
        (json!(null), json!("Capacity"))
    );

    set_policy(&daemon, json!({"preemption": true})).await;
    let equal = daemon.post("/v1/vms?dry_run=true", vm("equal", json!({}))).await.expect(200).json;
    assert_eq!(equal["eviction"], json!(null), "an equal gives way to nobody");
    let foreseen = daemon.post("/v1/vms?dry_run=true", high.clone()).await.expect(200).json;
    assert_eq!(foreseen["eviction"]["node"], "n1");
    let victims = foreseen["eviction"]["victims"].as_array().cloned().unwrap_or_default();
    let [Value::String(victim)] = victims.as_slice() else { panic!("one makes room: {foreseen}") };
    let summary = foreseen["summary"].as_str().unwrap_or_default();
    assert!(summary.contains(&format!("it would evict {victim} from n1")), "{summary}");

    daemon.post("/v1/vms", high).await.expect(202);
    let placed = daemon.until_status("high", "ACTIVE").await;
    assert_eq!(placed["decision"]["evicted"], json!([victim]));
    let said = events_of(&daemon, "high").await;
    let at = |what: &str| said.iter().position(|event| event["what"] == what);
    assert!(at("preempting") < at("placed") && at("preempting").is_some(), "{said:?}");
    let message = said[at("preempting").unwrap_or_default()]["message"].clone();
    assert_eq!(
        message,
        format!("n1 is kept for it, and these leave there, all of lesser priority: {victim}")
    );
    let gone = daemon
        .until("the victim waits for another host", async |daemon| {
            let vm = daemon.get(&format!("/v1/vms/{victim}")).await.json;
            (vm["status"] == "BUILD" && vm["node"].is_null()).then_some(vm)
        })
        .await;
    let leaving = events_of(&daemon, victim).await.into_iter().find(|event| event["what"] == "leaving");
    let why = leaving.map(|event| event["message"].clone()).unwrap_or_default();
    assert_eq!(why, "preempted by `high`: priority 0 gives way to 10", "{gone}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_is_kept_for_one_that_waited_and_explain_says_so() {
    let daemon = full().await;
    set_policy(&daemon, json!({"reserve_after_s": 1})).await;
    daemon.post("/v1/flavors", json!({"name": "wide", "vcpus": 2, "memory_mib": 16})).await.expect(201);
    daemon.post("/v1/vms", vm("wide", json!({"flavor": "wide"}))).await.expect(202);
    daemon
        .until("n1 is kept for it", async |daemon| {
            (daemon.get("/v1/vms/wide").await.json["reserved_node"] == "n1").then_some(())
        })
        .await;
    assert!(events_of(&daemon, "wide").await.iter().any(|event| event["what"] == "reserved"));
    daemon.delete("/v1/vms/low-a").await.expect(202);
    daemon
        .until("there is room for a small one", async |daemon| {
            (daemon.get("/v1/nodes/n1").await.json["inventory"]["VCPU"]["used"] == 1).then_some(())
        })
        .await;
    let small = daemon.post("/v1/vms?dry_run=true", vm("small", json!({}))).await.expect(200).json;
    assert_eq!(small["hosts"][0]["by"], "Reserved", "{small}");
    let candidates = daemon.get("/v1/allocation-candidates?flavor=tiny").await.expect(200).json;
    assert_eq!(candidates["refusals"][0]["by"], "Reserved", "{candidates}");
    let explained = daemon.get("/v1/vms/wide/explain").await.expect(200).json;
    assert_eq!(explained["hosts"][0]["by"], "Capacity", "{explained}");
    daemon.delete("/v1/vms/low-b").await.expect(202);
    daemon.until_status("wide", "ACTIVE").await;
}
