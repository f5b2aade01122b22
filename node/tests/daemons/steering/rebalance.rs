//! Rebalancing: a plan with the gain of each move, which changes nothing, and its application.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_changes_nothing_and_applied_it_moves_what_can_move() {
    let daemons = Daemon::three().await;
    let n1 = &daemons[0];
    for node in ["n1", "n2", "n3"] {
        narrow(n1, node, 8).await;
    }
    for node in ["n2", "n3"] {
        n1.patch(&format!("/v1/nodes/{node}"), json!({"enabled": false})).await.expect(200);
    }
    for name in ["web-1", "web-2", "web-3"] {
        n1.post("/v1/vms", vm(name, json!({"availability": "failover"}))).await.expect(202);
        n1.until_status(name, "ACTIVE").await;
    }
    n1.post("/v1/vms", vm("fixed", json!({}))).await.expect(202);
    n1.until_status("fixed", "ACTIVE").await;
    for node in ["n2", "n3"] {
        n1.patch(&format!("/v1/nodes/{node}"), json!({"enabled": true})).await.expect(200);
    }
    let plan = n1.get("/v1/rebalance").await.expect(200).json;
    let moves = plan["moves"].as_array().cloned().unwrap_or_default();
    assert!(!moves.is_empty() && moves.iter().all(|of| of["gain"].as_f64() > Some(0.0)), "{plan}");
    assert!(plan["imbalance_after"].as_f64() < plan["imbalance"].as_f64(), "{plan}");
    assert_eq!(plan["applied"], false);
    assert_eq!(plan["staying"][0]["vms"], json!(["fixed"]), "a pinned VM that runs stays: {plan}");
    let on_n1 = async || n1.get("/v1/vms?node=n1").await.json["items"].as_array().map(Vec::len);
    assert_eq!(on_n1().await, Some(4), "nothing has moved");

    let headers = [("idempotency-key", "once"), ("content-type", "application/json")];
    let begin = async || n1.send(Method::POST, "/v1/rebalance", &headers, "{}".into()).await.expect(202).json;
    let applied = begin().await;
    assert_eq!((applied["applied"].clone(), applied["refused"].clone()), (json!(true), json!([])));
    assert_eq!(applied["planned"].as_u64(), applied["moves"].as_array().map(|moves| moves.len() as u64));
    let again = begin().await;
    for field in ["moves", "planned", "refused", "applied", "revision"] {
        assert_eq!(again[field], applied[field], "a repeated request is told what was begun: {again}");
    }
    for moved in applied["moves"].as_array().into_iter().flatten() {
        let name = moved["vm"].as_str().unwrap_or_default().to_owned();
        n1.until(&format!("{name} runs where it was to go"), async |n1| {
            let vm = n1.get(&format!("/v1/vms/{name}")).await.json;
            (vm["node"] == moved["to"] && vm["status"] == "ACTIVE").then_some(())
        })
        .await;
    }
    for (query, field) in
        [("max_moves=0", "max_moves"), ("max_moves=101", "max_moves"), ("min_gain=NaN", "min_gain")]
    {
        let bad = n1.get(&format!("/v1/rebalance?{query}")).await;
        assert!(matches!(bad.status.as_u16(), 400 | 422), "{query}: {}", bad.json);
        assert_eq!(bad.json["field"], field, "{query}");
    }
}

/// One that is off has no node until it is started: then it goes where it was moved to.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_off_is_moved_and_goes_there_when_it_is_started() {
    let daemons = Daemon::three().await;
    let n1 = &daemons[0];
    for node in ["n1", "n2", "n3"] {
        narrow(n1, node, 8).await;
    }
    for name in ["off-1", "off-2", "off-3"] {
        n1.post("/v1/vms", vm(name, json!({"node": "n1"}))).await.expect(202);
        n1.until_status(name, "ACTIVE").await;
        n1.patch(&format!("/v1/vms/{name}"), json!({"any_node": true})).await.expect(200);
        n1.post(&format!("/v1/vms/{name}/stop"), json!({"force": true})).await.expect(202);
        n1.until_status(name, "SHUTOFF").await;
    }
    let applied = n1.post("/v1/rebalance", json!({"max_moves": 1})).await.expect(202).json;
    let (name, to) = (&applied["moves"][0]["vm"], &applied["moves"][0]["to"]);
    let target = format!("/v1/vms/{}", name.as_str().unwrap_or_default());
    let moved_to = n1
        .until("it has left its node", async |n1| {
            let vm = n1.get(&target).await.json;
            (vm["node"] == Value::Null && vm["status"] == "SHUTOFF")
                .then(|| vm["recovery"]["moved_to"].clone())
        })
        .await;
    assert_eq!(&moved_to, to);
    // The other two hosts are equally good, or better.
    n1.post("/v1/vms", vm("in-the-way", json!({"node": to}))).await.expect(202);
    n1.until_status("in-the-way", "ACTIVE").await;
    n1.post(&format!("{target}/start"), json!({})).await.expect(202);
    n1.until_status(name.as_str().unwrap_or_default(), "ACTIVE").await;
    let vm = n1.get(&target).await.json;
    assert_eq!((&vm["node"], vm["recovery"].get("moved_to")), (to, None), "{vm}");
}
