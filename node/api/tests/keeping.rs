//! Shapes about keeping VMs running and emptying nodes, as they are on the wire.

use holm_api::*;
use insta::assert_json_snapshot;
use serde_json::json;
use uuid::Uuid;

fn at(second: u32) -> Timestamp {
    Timestamp(format!("2026-11-30T12:00:{second:02}.000Z"))
}

#[test]
fn drain_and_policy() {
    let left = |next, to: Option<&str>| LeftVm {
        name: "web".to_owned(),
        id: Uuid::from_u128(1),
        availability: Availability::Failover,
        next,
        to: to.map(str::to_owned),
        refusals: vec![],
    };
    let drain = DrainProgress {
        node: "n1".to_owned(),
        node_id: 1,
        node_up: true,
        since: Some(at(8)),
        maintenance: true,
        stop_timeout_s: 60,
        pinned: DrainPinned::Keep,
        done: false,
        left: vec![left(NextForVm::Moves, Some("n2")), left(NextForVm::Kept, None)],
        dry_run: false,
        revision: 9,
    };
    let bounded = |value, least, most| Bounded { value, least, most };
    let policy = ClusterPolicy {
        lease_ttl_ms: bounded(15_000, 8_400, 600_000),
        margin_ms: bounded(5_000, 2_000, 120_000),
        autostart_wait_ms: bounded(60_000, 0, 3_600_000),
        fence_after_ms: 20_000,
        fences_at_once: 1,
        failover_possible: true,
        revision: 0,
    };
    let freeze = Freeze { since: at(1), until: at(31), reason: None, over: true, revision: 8 };
    assert_json_snapshot!((drain, policy, freeze));
}

#[test]
fn requests_take_their_defaults() {
    let drain: DrainNode = serde_json::from_value(json!({"pinned": "stop"})).unwrap();
    let maintenance: BeginMaintenance = serde_json::from_value(json!({})).unwrap();
    let keep: PatchVm = serde_json::from_value(json!({"availability": "failover"})).unwrap();
    let evacuate: EvacuateVm = serde_json::from_value(json!({})).unwrap();
    let leases: PatchClusterPolicy = serde_json::from_value(json!({"margin_ms": 5000})).unwrap();
    let freeze: BeginFreeze = serde_json::from_value(json!({"for_ms": 60000})).unwrap();
    assert_json_snapshot!((drain, maintenance, keep, evacuate, leases, freeze));
}
