//! Bad input about keeping VMs running and emptying nodes: policies, evacuation, drains, maintenance, leases,
//! freezes. The cluster is one node with the running VMs `web` and `duo`, both pinned.

use hyper::Method;
use serde_json::{Value, json};

use super::placement::{patch, put};
use super::{Case, vm};

pub fn cases() -> Vec<Case> {
    [policies(), by_hand(), drains(), leases()].into_iter().flatten().collect()
}

fn policies() -> Vec<Case> {
    let with = |key: &str, value: Value| {
        let mut body = vm("a", "small", "guest");
        body[key] = value;
        Case::post("/v1/vms", body, 422, "invalid_field", Some(field_of(key)))
    };
    let change = |body, field| patch("/v1/vms/web", body, 422, "invalid_field", Some(field));
    vec![
        with("availability", json!("always")),
        // There is one node.
        with("availability", json!("failover")),
        with("disk_loss", json!("maybe")),
        with("restart_policy", json!("sometimes")),
        with("start_order", json!("first")),
        with("start_order", json!(1_000_001)),
        with("start_delay_s", json!(3601)),
        with("start_delay_s", json!(-1)),
        change(json!({"availability": "failover"}), "availability"),
        patch("/v1/vms/web", json!({"availability": null}), 422, "missing_field", Some("availability")),
        change(json!({"restart_policy": "sometimes"}), "restart_policy"),
        change(json!({"start_order": -1_000_001}), "start_order"),
        change(json!({"start_delay_s": 3601}), "start_delay_s"),
        patch("/v1/vms/web", json!({}), 422, "missing_field", Some("availability")),
        patch("/v1/vms/web", json!({"name": "b"}), 422, "unknown_field", Some("name")),
        patch("/v1/vms/nope", json!({"start_order": 1}), 404, "not_found", None),
        patch("/v1/vms/web", json!({"start_order": 1}), 412, "revision_mismatch", Some("If-Match"))
            .header("if-match", "\"1\""),
    ]
}

fn field_of(key: &str) -> &'static str {
    ["availability", "disk_loss", "restart_policy", "start_order", "start_delay_s"]
        .into_iter()
        .find(|field| *field == key)
        .expect("one of the fields")
}

fn by_hand() -> Vec<Case> {
    let evacuate = |vm: &str, body, status, code, field| {
        Case::post(&format!("/v1/vms/{vm}/evacuate"), body, status, code, field)
    };
    let unsaid = Some("confirm_node_off");
    vec![
        evacuate("web", json!({}), 422, "invalid_field", unsaid),
        evacuate("web", json!({"confirm_node_off": false}), 422, "invalid_field", unsaid),
        evacuate("web", json!({"confirm_node_off": "yes"}), 422, "invalid_field", unsaid),
        evacuate("web", json!({"force": true}), 422, "unknown_field", Some("force")),
        // Its node is up.
        evacuate("web", json!({"confirm_node_off": true}), 409, "wrong_state", None),
        evacuate("nope", json!({"confirm_node_off": true}), 404, "not_found", None),
        Case::new(Method::POST, "/v1/vms/web/reset-state", 409, "wrong_state", None),
        Case::new(Method::POST, "/v1/vms/nope/reset-state", 404, "not_found", None),
    ]
}

fn drains() -> Vec<Case> {
    let drain = |body, field| Case::post("/v1/nodes/n1/drain", body, 422, "invalid_field", Some(field));
    let maintenance = "/v1/nodes/n1/maintenance";
    let not_there = |method, path: &str| Case::new(method, path, 404, "not_found", None);
    vec![
        drain(json!({"pinned": "shoot"}), "pinned"),
        drain(json!({"timeout_s": 0, "pinned": "keep"}), "timeout_s"),
        drain(json!({"timeout_s": 3601, "pinned": "keep"}), "timeout_s"),
        Case::post("/v1/nodes/n1/drain", json!({}), 422, "missing_field", Some("pinned")),
        Case::post("/v1/nodes/n1/drain?dry_run=true", json!({}), 422, "missing_field", Some("pinned")),
        Case::new(Method::POST, "/v1/nodes/n1/drain?dry_run=perhaps", 400, "invalid_query", Some("dry_run")),
        Case::post("/v1/nodes/n1/drain", json!({"force": true}), 422, "unknown_field", Some("force")),
        Case::post(
            "/v1/nodes/n1/drain",
            json!({"pinned": "keep"}),
            412,
            "revision_mismatch",
            Some("If-Match"),
        )
        .header("if-match", "\"1\""),
        Case::post("/v1/nodes/n9/drain", json!({"pinned": "keep"}), 404, "not_found", None),
        not_there(Method::GET, "/v1/nodes/n1/drain"),
        Case::new(Method::DELETE, "/v1/nodes/n1/drain", 409, "wrong_state", None),
        put(maintenance, json!({}), 422, "missing_field", Some("pinned")),
        put(maintenance, json!({"pinned": "keep", "timeout_s": 0}), 422, "invalid_field", Some("timeout_s")),
        put(maintenance, json!({"pinned": "keep", "reason": "a\nb"}), 422, "invalid_field", Some("reason")),
        put(maintenance, json!({"on": true}), 422, "unknown_field", Some("on")),
        Case::new(Method::DELETE, maintenance, 409, "wrong_state", None),
        Case::new(Method::GET, maintenance, 405, "method_not_allowed", None),
    ]
}

fn leases() -> Vec<Case> {
    let policy = |body, field| patch("/v1/policy", body, 422, "invalid_field", Some(field));
    let freeze = |body, field| put("/v1/freeze", body, 422, "invalid_field", Some(field));
    vec![
        policy(json!({"lease_ttl_ms": 8_399}), "lease_ttl_ms"),
        policy(json!({"lease_ttl_ms": 600_001}), "lease_ttl_ms"),
        policy(json!({"lease_ttl_ms": "15s"}), "lease_ttl_ms"),
        policy(json!({"margin_ms": 1_999}), "margin_ms"),
        policy(json!({"margin_ms": 120_001}), "margin_ms"),
        policy(json!({"autostart_wait_ms": 3_600_001}), "autostart_wait_ms"),
        policy(json!({"autostart_wait_ms": -1}), "autostart_wait_ms"),
        policy(json!({"lease_ttl_ms": 10_000, "margin_ms": 0}), "margin_ms"),
        patch("/v1/policy", json!({}), 422, "missing_field", Some("lease_ttl_ms")),
        patch("/v1/policy", json!({"longest_ttl_ms": 1}), 422, "unknown_field", Some("longest_ttl_ms")),
        patch("/v1/policy", json!({"margin_ms": 5_000}), 412, "revision_mismatch", Some("If-Match"))
            .header("if-match", "\"999\""),
        freeze(json!({"for_ms": 0}), "for_ms"),
        freeze(json!({"for_ms": 86_400_001}), "for_ms"),
        freeze(json!({"for_ms": "30m"}), "for_ms"),
        freeze(json!({"for_ms": 1000, "reason": "a\nb"}), "reason"),
        put("/v1/freeze", json!({}), 422, "missing_field", Some("for_ms")),
        put("/v1/freeze", json!({"for_ms": 1000}), 400, "invalid_header", Some("If-Match"))
            .header("if-match", "\"1\""),
        Case::new(Method::GET, "/v1/freeze", 404, "not_found", None),
        Case::new(Method::DELETE, "/v1/freeze", 409, "wrong_state", None),
    ]
}
