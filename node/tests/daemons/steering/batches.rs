//! Batches on three daemons: all or none of an atomic one, and of another those for which there is room.

use super::*;

const NODES: [&str; 3] = ["n1", "n2", "n3"];

/// Room for six VMs.
async fn room_for_six() -> Vec<Daemon> {
    let daemons = Daemon::three().await;
    for node in NODES {
        narrow(&daemons[0], node, 2).await;
    }
    daemons
}

/// The records of `NAME-1` to `NAME-10`, once `is` holds of each.
async fn ten(daemon: &Daemon, name: &str, what: &str, is: impl Fn(&Value) -> bool) -> Vec<Value> {
    let mut ten = Vec::new();
    for n in 1..=10 {
        let target = format!("/v1/vms/{name}-{n}");
        let vm = daemon
            .until(&format!("{name}-{n} {what}"), async |daemon| {
                let vm = daemon.get(&target).await.json;
                is(&vm).then_some(vm)
            })
            .await;
        ten.push(vm);
    }
    ten
}

fn why(vm: &Value) -> &str {
    vm["fault"]["message"].as_str().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn with_room_for_six_of_ten_all_fail_or_wait_until_all_fit_and_go_in_one_entry() {
    let daemons = room_for_six().await;
    let (n1, n2) = (&daemons[0], &daemons[1]);
    let batch = |name, on_no_host| vm(name, json!({"count": 10, "atomic": true, "on_no_host": on_no_host}));
    let too_many = "6 of the 10 VMs of its batch fit, which is placed as a whole or not at all; for the next, no node fits it \
                    (3 × Capacity)";

    let foreseen = n2.post("/v1/vms?dry_run=true", batch("fail", "fail")).await.expect(200).json;
    for planned in foreseen["placements"].as_array().into_iter().flatten() {
        assert_eq!((&planned["node"], &planned["why"]), (&Value::Null, &json!(too_many)));
    }
    n2.post("/v1/vms", batch("fail", "fail")).await.expect(202);
    for vm in ten(n2, "fail", "failed", |vm| vm["status"] == "ERROR").await {
        assert_eq!((why(&vm), &vm["node"]), (too_many, &Value::Null));
    }

    n2.post("/v1/vms", batch("wait", "queue")).await.expect(202);
    for vm in ten(n2, "wait", "waits for a reason", |vm| !vm["fault"].is_null()).await {
        assert_eq!((why(&vm), &vm["status"], &vm["node"]), (too_many, &json!("BUILD"), &Value::Null));
    }
    let explained = n1.get("/v1/vms/wait-1/explain").await.expect(200).json;
    let summary = explained["summary"].as_str().unwrap_or_default();
    assert!(summary.starts_with("waiting with its batch: 6 of the 10"), "{summary}");
    // What is none of it goes past.
    n1.post("/v1/vms", vm("small", json!({}))).await.expect(202);
    n1.until_status("small", "ACTIVE").await;

    for node in NODES {
        narrow(n1, node, 4).await;
    }
    let placed = ten(n1, "wait", "runs", |vm| vm["status"] == "ACTIVE").await;
    let entries: std::collections::BTreeSet<_> =
        placed.iter().filter_map(|vm| vm["decision"]["revision"].as_u64()).collect();
    assert_eq!(entries.len(), 1, "one entry places all");
    for n in [1, 10] {
        let replay = n2.get(&format!("/v1/vms/wait-{n}/replay")).await.expect(200).json;
        assert_eq!(replay["same"], true, "{replay}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_one_that_need_not_come_whole_those_are_created_that_n_plus_one_lets_in() {
    let daemons = room_for_six().await;
    set_policy(&daemons[0], json!({"n_plus_one": "refuse"})).await;
    let batch = |more: Value| {
        let mut body = vm("web", json!({"availability": "failover", "count": 6}));
        body["atomic"] = more;
        body
    };
    let whole = daemons[1].post("/v1/vms", batch(json!(true))).await.expect(409).json;
    assert_eq!(whole["code"], "n_plus_one");
    let foreseen = daemons[1].post("/v1/vms?dry_run=true", batch(json!(false))).await.expect(200).json;
    let made = daemons[1].post("/v1/vms", batch(json!(false))).await.expect(202).json;
    let count = |list: &Value| list.as_array().map_or(0, Vec::len);
    assert_eq!((count(&made["items"]), count(&made["refused"])), (4, 2), "{made}");
    assert_eq!((count(&foreseen["placements"]), &foreseen["refused"]), (4, &made["refused"]));
    assert_eq!(
        (&made["refused"][0]["name"], &made["refused"][0]["code"]),
        (&json!("web-5"), &json!("n_plus_one"))
    );
    let warning = made["warnings"][0].as_str().unwrap_or_default();
    assert!(warning.starts_with("N+1: with one more, without node `n"), "{warning}");
    let verdict = daemons[0].get("/v1/n-plus-one").await.expect(200).json;
    assert_eq!((&verdict["holds"], &verdict["vms"]), (&json!(true), &json!(4)), "{verdict}");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_of_a_batch_is_created_each_reason_is_told() {
    let daemon = one_node(8).await;
    daemon.put("/v1/quotas/default", json!({"limits": {"VMS": 2}})).await.expect(200);
    for name in ["web-1", "web-2"] {
        daemon.post("/v1/vms", vm(name, json!({}))).await.expect(202);
    }
    for target in ["/v1/vms?dry_run=true", "/v1/vms"] {
        let refused = daemon.post(target, vm("web", json!({"count": 7}))).await.expect(409).json;
        let detail = refused["detail"].as_str().unwrap_or_default();
        let expected = "none of the 7 VMs was created: `web-1`: the VM name `web-1` is taken; `web-2`: the VM name `web-2` \
                        is taken; `web-3`, `web-4`, `web-5` and 2 more: the quota of project `default` would be exceeded";
        assert!(detail.starts_with(expected), "{detail}");
        assert_eq!(refused["code"], "name_taken");
    }
}
