//! Commands about keeping VMs running and emptying nodes, as the real binary against a test server: usage, the word on
//! pinned VMs, waits that end well and badly.

mod program;

use hyper::Method;
use program::test_server::Act;
use program::{cluster, run};
use serde_json::{Value, json};

#[tokio::test]
async fn wrong_usage_is_exit_code_2_and_names_the_way_out() {
    let create = ["vm", "create", "a", "--flavor", "f", "--image", "i"];
    let with = |more: &[&'static str]| [&create[..], more].concat();
    let cases: [(Vec<&str>, &str); 13] = [
        (with(&["--availability", "always"]), "possible values: pinned, failover"),
        (with(&["--restart", "sometimes"]), "possible values: always, on-failure, never"),
        (with(&["--start-delay", "soon"]), "is not a duration"),
        (vec!["vm", "set", "a"], "--availability <AVAILABILITY>"),
        (vec!["vm", "evacuate", "a"], "--confirm-node-off"),
        (vec!["vm", "evacuate", "--confirm-node-off"], "<VM|--node <NODE>>"),
        (vec!["node", "drain", "n1", "--pinned", "shoot"], "possible values: stop, keep"),
        (vec!["node", "drain", "n1", "--cancel", "--pinned", "stop"], "cannot be used with"),
        (vec!["node", "maintenance", "n1"], "<SWITCH>"),
        (vec!["cluster", "freeze"], "--for <DURATION>|--end"),
        (vec!["cluster", "freeze", "--end", "--reason", "x"], "cannot be used with"),
        (vec!["cluster", "policy", "set"], "--lease-ttl <DURATION>"),
        (vec!["cluster", "policy", "set", "--margin", "1.5s"], "is not a duration"),
    ];
    for (args, expected) in cases {
        let (code, stdout, stderr) = run(&args).await;
        assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}: {stderr}");
        assert!(stderr.contains(expected), "{args:?}: {stderr}");
    }
    let (code, _, stderr) = run(&["node", "maintenance", "n1", "off", "--reason", "x"]).await;
    assert_eq!(code, 2);
    assert!(stderr.contains("go with `on` only"), "{stderr}");
}

fn vm(name: &str, availability: &str, power: &str) -> Value {
    json!({
        "id": "00000000-0000-0000-0000-000000000017", "name": name, "project": "default", "status": "ACTIVE",
        "task_state": null, "node": "n1", "node_id": 1, "node_up": true, "hypervisor": null, "epoch": 9,
        "flavor": {
            "id": "00000000-0000-0000-0000-000000000002", "name": "small", "vcpus": 1, "memory_mib": 64,
            "disk_gib": 0,
        },
        "image": {"id": "00000000-0000-0000-0000-000000000003", "name": "guest"},
        "kernel": null, "cmdline": null, "requested_node": null, "on_no_host": "queue",
        "availability": availability, "availability_in_force": availability, "power": power, "run": 1,
        "fault": null, "observed": null, "excluded": [], "refusals": [], "waiting_since": null,
        "build_deadline": null, "created_at": "2026-11-30T12:00:00.000Z",
        "updated_at": "2026-11-30T12:00:00.000Z", "revision": 40,
    })
}

fn drain(left: Value, done: bool) -> Value {
    json!({
        "node": "n1", "node_id": 1, "node_up": true, "since": "2026-11-30T12:00:00.000Z", "stop_timeout_s": 60,
        "pinned": "keep", "done": done, "left": left, "dry_run": false, "revision": 40,
    })
}

fn left(name: &str, next: &str, refusals: Value) -> Value {
    json!({
        "name": name, "id": "00000000-0000-0000-0000-000000000017", "availability": "failover", "next": next,
        "to": null, "refusals": refusals,
    })
}

#[tokio::test]
async fn a_drain_that_would_have_to_choose_for_the_operator_lists_the_pinned_vms_and_the_two_choices() {
    let (server, endpoint) = cluster(|_, got| match (&got.method, got.target.as_str()) {
        (&Method::POST, "/v1/nodes/n1/drain") => Act::Answer(
            422,
            "application/problem+json",
            json!({
                "type": "urn:holm:problem:missing_field", "title": "A field is missing", "status": 422,
                "code": "missing_field", "detail": "`pinned` is missing", "field": "pinned", "request_id": "r",
                "hint": null,
            })
            .to_string(),
        ),
        (_, target) if target.starts_with("/v1/vms?") => Act::json(
            200,
            &json!({
                "items": [vm("db", "pinned", "on"), vm("off", "pinned", "off"), vm("web", "failover", "on")],
                "next": null, "revision": 40,
            }),
        ),
        other => panic!("unexpected {other:?}"),
    })
    .await;
    let (code, stdout, stderr) = run(&["--endpoint", &endpoint, "node", "drain", "n1"]).await;
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    assert_eq!(
        stderr,
        "error: 1 VM on n1 is pinned: nothing was changed, say what becomes of it\n  db (ACTIVE)\n  hint: \
         --pinned stop shuts them down until the node is uncordoned; --pinned keep lets them run on, so the machine \
         cannot be switched off\n"
    );
    drop(server);
}

#[tokio::test]
async fn a_drain_is_waited_for_until_the_last_has_gone() {
    let (server, endpoint) = cluster(|before, got| match got.method {
        Method::POST => Act::json(202, &drain(json!([left("web", "moves", json!([]))]), false)),
        _ if before < 3 => Act::json(200, &drain(json!([left("web", "leaving", json!([]))]), false)),
        _ => Act::json(200, &drain(json!([]), true)),
    })
    .await;
    let (code, stdout, stderr) = run(&["--endpoint", &endpoint, "node", "drain", "n1"]).await;
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.starts_with("node n1 is drained after"), "{stdout}");
    assert!(stdout.contains("nothing runs there any more"), "{stdout}");
    drop(server);
}

#[tokio::test]
async fn a_drain_with_nowhere_to_go_ends_the_wait_with_the_reasons_and_goes_on() {
    let refusals = json!([
        {"node": "n2", "node_id": 2, "by": "Capacity", "message": "MEMORY_MB: 80 wanted, 0 free of 64"},
    ]);
    let (server, endpoint) =
        cluster(move |_, _| Act::json(200, &drain(json!([left("web", "stuck", refusals.clone())]), false)))
            .await;
    let (code, stdout, stderr) = run(&["--endpoint", &endpoint, "node", "drain", "n1"]).await;
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(
        stderr.contains("web fits on no other node and runs on\n    n2: Capacity: MEMORY_MB"),
        "{stderr}"
    );
    assert!(stderr.contains("`holm node drain n1 --cancel` calls it off"), "{stderr}");
    drop(server);
}

#[tokio::test]
async fn a_drain_that_somebody_calls_off_is_told() {
    let (server, endpoint) = cluster(|_, got| match got.method {
        Method::POST => Act::json(202, &drain(json!([left("web", "moves", json!([]))]), false)),
        _ => Act::problem(404, "not_found", "node `n1` is not being drained"),
    })
    .await;
    let (code, _, stderr) = run(&["--endpoint", &endpoint, "node", "drain", "n1"]).await;
    assert_eq!(code, 1);
    assert!(stderr.contains("the drain of n1 was called off meanwhile"), "{stderr}");
    drop(server);
}

#[tokio::test]
async fn evacuating_a_node_names_its_pinned_vms_and_one_refusal_does_not_keep_the_others() {
    let (server, endpoint) = cluster(|_, got| match (&got.method, got.target.as_str()) {
        (&Method::GET, target) if target.starts_with("/v1/vms?") => Act::json(
            200,
            &json!({
                "items": [vm("db", "pinned", "on"), vm("web", "failover", "on")], "next": null, "revision": 40,
            }),
        ),
        (&Method::POST, target) if target.ends_with("/evacuate") => {
            Act::problem(409, "wrong_state", "node `n1` is up; drain it instead")
        }
        other => panic!("unexpected {other:?}"),
    })
    .await;
    let all = ["--endpoint", &endpoint, "vm", "evacuate", "--node", "n1", "--confirm-node-off"];
    let (code, _, stderr) = run(&all).await;
    assert_eq!((code, stderr.matches("drain it instead").count()), (1, 1), "{stderr}");
    let two = ["--endpoint", &endpoint, "vm", "evacuate", "a", "b", "--confirm-node-off"];
    let (code, _, stderr) = run(&two).await;
    assert_eq!((code, stderr.matches("drain it instead").count()), (1, 2), "{stderr}");
    drop(server);
}
