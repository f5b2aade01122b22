//! Commands about placement, as the real binary against a test server: usage, batches, and changes that are
//! made from what was read.

mod program;

use hyper::Method;
use program::test_server::{Act, Got};
use program::{cluster, run};
use serde_json::{Value, json};

#[tokio::test]
async fn wrong_usage_is_exit_code_2_and_names_the_way_out() {
    let create = ["vm", "create", "a", "--flavor", "f", "--image", "i"];
    let with = |more: &[&'static str]| [&create[..], more].concat();
    let cases: [(Vec<&str>, &str); 18] = [
        (with(&["--selector", "disk ~ x"]), "is no selector; write `gpu`"),
        (with(&["--toleration", "gpu:Never"]), "is no toleration; write KEY"),
        (with(&["--atomic"]), "--count <N>"),
        (with(&["--priority", "high"]), "invalid value 'high'"),
        (vec!["node", "taint", "n1", "gpu"], "is no taint; write KEY=VALUE:EFFECT"),
        (vec!["node", "label", "n1", "disk"], "KEY-, which removes it"),
        (vec!["node", "set-inventory", "n1", "VCPU"], "--total <N>"),
        (vec!["node", "set-inventory", "n1", "VCPU", "--ratio", "inf"], "is not a number"),
        (vec!["scheduler", "set"], "--weigher <WEIGHER=MULTIPLIER>"),
        (vec!["scheduler", "set", "--weigher", "Ram=NaN"], "is not a number"),
        (vec!["quota", "set", "VCPU=many"], "is not CLASS=LIMIT"),
        (vec!["cluster", "what-if", "--loose", "n1"], "--lose"),
        (vec!["scheduler", "set", "--n-plus-one", "maybe"], "off, warn, refuse"),
        (vec!["scheduler", "set", "--preemption", "maybe"], "on, off"),
        (vec!["scheduler", "set", "--reserve-after-s", "-1"], "unexpected argument"),
        (vec!["flavor", "candidates"], "<FLAVOR>"),
        (vec!["cluster", "rebalance", "--max-moves", "0"], "1..=100"),
        (vec!["cluster", "rebalance", "--min-gain", "much"], "is not a number"),
    ];
    let long = "a".repeat(65_536);
    let too_long = ["vm", "show", &long];
    let lose = ["cluster", "what-if", "--lose", &long];
    let more = [&too_long[..], &lose].map(|args| (args.to_vec(), "too long to be sent"));
    for (args, expected) in cases.into_iter().chain(more) {
        let (code, stdout, stderr) = run(&args).await;
        assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}");
        assert!(stderr.contains(expected), "{args:?}: {stderr}");
    }
}

fn vm(name: &str) -> Value {
    json!({
        "id": "00000000-0000-0000-0000-000000000017", "name": name, "project": "default", "status": "BUILD",
        "task_state": "scheduling", "node": null, "node_id": null, "node_up": null, "hypervisor": null,
        "epoch": null,
        "flavor": {
            "id": "00000000-0000-0000-0000-000000000002", "name": "small", "vcpus": 1, "memory_mib": 64,
            "disk_gib": 0,
        },
        "image": {"id": "00000000-0000-0000-0000-000000000003", "name": "guest"},
        "kernel": null, "cmdline": null, "requested_node": null, "on_no_host": "queue",
        "availability": "pinned", "power": "on", "run": 1, "fault": null, "observed": null, "excluded": [],
        "refusals": [], "waiting_since": null, "build_deadline": null,
        "created_at": "2026-11-30T12:00:00.000Z", "updated_at": "2026-11-30T12:00:00.000Z", "revision": 40,
    })
}

#[tokio::test]
async fn a_batch_of_which_some_were_refused_shows_both_and_is_exit_code_1() {
    let answer = json!({
        "items": [vm("web-1"), vm("web-2")], "revision": 40,
        "refused": [{"name": "web-3", "code": "quota_exceeded", "detail": "VMS: 2 of 2 in use"}],
    });
    let (server, endpoint) = cluster(move |_, _| Act::json(202, &answer)).await;
    let create = [
        "vm",
        "create",
        "web",
        "--flavor",
        "small",
        "--image",
        "guest",
        "--count",
        "3",
        "--no-wait",
        "--selector",
        "disk in (nvme,ssd)",
        "--toleration",
        "*",
        "--az",
        "left",
        "-o",
        "name",
        "--endpoint",
        &endpoint,
    ];
    let (code, stdout, stderr) = run(&create).await;
    assert_eq!((code, stdout.as_str()), (1, "web-1\nweb-2\n"));
    assert!(stderr.starts_with("error: not created: 1 VM\n  web-3: VMS: 2 of 2 in use\n"), "{stderr}");
    let sent: Value = serde_json::from_slice(&server.got()[0].body).unwrap();
    assert_eq!(sent["node_selector"], json!([{"key": "disk", "operator": "In", "values": ["nvme", "ssd"]}]));
    assert_eq!((&sent["count"], &sent["tolerations"]), (&json!(3), &json!([{}])));
    assert_eq!(sent["availability_zone"], "left");
}

#[tokio::test]
async fn a_taint_is_added_to_those_that_are_there_when_it_is_written() {
    let node = |revision: u64, taints: Value| {
        json!({
            "id": 1, "name": "n1", "peer_addr": "a:1", "api_addr": "a:2", "role": "leader", "up": true,
            "up_changed_at": "2026-11-30T12:00:00.000Z", "enabled": true, "disabled_reason": null, "version": null,
            "hypervisor": null, "inventory": {}, "conditions": {}, "vms": 0, "taints": taints,
            "created_at": "2026-11-30T12:00:00.000Z", "revision": revision,
        })
    };
    let old = json!([{"key": "old", "effect": "NoSchedule"}]);
    // Somebody else is faster once.
    let (server, endpoint) = cluster(move |before, got| match (&got.method, before) {
        (&Method::GET, 0) => Act::json(200, &node(5, json!([]))),
        (&Method::PATCH, 1) => Act::problem(412, "revision_mismatch", "it has changed since"),
        _ => Act::json(200, &node(6, old.clone())),
    })
    .await;
    let (code, stdout, stderr) =
        run(&["node", "taint", "n1", "gpu=yes:NoSchedule", "--endpoint", &endpoint]).await;
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, "node n1 changed\n", ""));
    let writes: Vec<Got> = server.got().into_iter().filter(|got| got.method == Method::PATCH).collect();
    let matches: Vec<_> = writes.iter().map(|got| got.header("if-match").unwrap_or_default()).collect();
    assert_eq!(matches, ["\"5\"", "\"6\""]);
    let keys: Vec<_> = writes.iter().map(|got| got.header("idempotency-key").unwrap_or_default()).collect();
    assert_ne!(keys[0], keys[1], "another body needs another key");
    let sent: Value = serde_json::from_slice(&writes[1].body).unwrap();
    let expected = json!([
        {"key": "old", "value": "", "effect": "NoSchedule"}, {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
    ]);
    assert_eq!(sent["taints"], expected);
}
