//! Bad input about placement: the scheduler's policy, aggregates, groups, quotas, selectors, batches,
//! questions. The cluster has the VM `duo` in the group `pair` and the zone `rack-a` of the aggregate `rack`.

use hyper::Method;
use serde_json::{Value, json};

use super::{Case, vm};

pub fn cases() -> Vec<Case> {
    [policy(), nodes_and_aggregates(), groups_and_quotas(), vms(), questions()]
        .into_iter()
        .flatten()
        .collect()
}

pub fn put(path: &str, body: Value, status: u16, code: &'static str, field: Option<&'static str>) -> Case {
    Case::new(Method::PUT, path, status, code, field).json(&body.to_string())
}

pub fn patch(path: &str, body: Value, status: u16, code: &'static str, field: Option<&'static str>) -> Case {
    Case::new(Method::PATCH, path, status, code, field).json(&body.to_string())
}

fn policy() -> Vec<Case> {
    let invalid = |body, field| put("/v1/scheduler", body, 422, "invalid_field", Some(field));
    let unknown = |body, field| put("/v1/scheduler", body, 422, "unknown_reference", Some(field));
    vec![
        Case::new(Method::PUT, "/v1/scheduler", 422, "invalid_field", Some("weighers.Ram"))
            .json(r#"{"weighers": {"Ram": 1, "Ram": 2}}"#),
        invalid(json!({"filters": ["Horoscope"]}), "filters"),
        invalid(json!({"filters": ["ComputeStatus"]}), "filters"),
        invalid(json!({"filters": []}), "filters"),
        invalid(json!({"filters": ["DedicatedCpu"]}), "filters"),
        invalid(json!({"filters": "Capacity"}), "filters"),
        invalid(json!({"weighers": {"Horoscope": 1}}), "weighers"),
        invalid(json!({"weighers": {"Ram": null}}), "weighers.Ram"),
        invalid(json!({"weighers": {"Ram": "NaN"}}), "weighers.Ram"),
        invalid(json!({"weighers": {"Ram": 1e300}}), "weighers.Ram"),
        invalid(json!({"weighers": {"Ram": 1_000_001}}), "weighers"),
        invalid(json!({"weighers": {"Ram": 0.0001}}), "weighers.Ram"),
        invalid(json!({"filters": ["Capacity", "Capacity"]}), "filters"),
        invalid(json!({"n_plus_one": "maybe"}), "n_plus_one"),
        invalid(json!({"preemption": "perhaps"}), "preemption"),
        invalid(json!({"reserve_after_s": 1_000_000}), "reserve_after_s"),
        invalid(json!({"reserve_after_s": -1}), "reserve_after_s"),
        invalid(json!({"build_timeout_s": 0}), "build_timeout_s"),
        invalid(json!({"build_timeout_s": 3_000_000}), "build_timeout_s"),
        // A host would be kept for a VM that waits no longer.
        invalid(json!({"build_timeout_s": 20}), "reserve_after_s"),
        invalid(json!({"max_instances_per_host": 0}), "max_instances_per_host"),
        invalid(json!({"max_io_ops_per_host": -1}), "max_io_ops_per_host"),
        unknown(json!({"isolated_images": ["guets"]}), "isolated_images"),
        unknown(json!({"isolated_images": ["nobody/guest"]}), "isolated_images"),
        unknown(json!({"isolated_images": ["01890000-0000-7000-8000-000000000000"]}), "isolated_images"),
        unknown(json!({"isolated_nodes": ["n9"]}), "isolated_nodes"),
        unknown(json!({"isolated_nodes": ["99"]}), "isolated_nodes"),
        invalid(
            json!({"restrict_isolated_hosts_to_isolated_images": "no"}),
            "restrict_isolated_hosts_to_isolated_images",
        ),
        put("/v1/scheduler", json!({"filter": []}), 422, "unknown_field", Some("filter")),
        put("/v1/scheduler", json!({}), 412, "revision_mismatch", Some("If-Match"))
            .header("if-match", "\"999\""),
        Case::new(Method::PUT, "/v1/scheduler", 400, "malformed_json", None)
            .json("{\"weighers\":{\"Ram\":1e400}}"),
        Case::new(Method::PUT, "/v1/scheduler", 400, "malformed_json", None)
            .json("{\"weighers\":{\"Ram\":NaN}}"),
    ]
}

fn nodes_and_aggregates() -> Vec<Case> {
    let node = |body, field| patch("/v1/nodes/n1", body, 422, "invalid_field", Some(field));
    let aggregates = "/v1/aggregates";
    let in_use = |body| patch("/v1/aggregates/rack", body, 409, "in_use", None);
    let flavor = |key: &str, value: &str| {
        let specs = json!({"name": "odd", "vcpus": 1, "memory_mib": 64, "extra_specs": {key: value}});
        Case::post("/v1/flavors", specs, 422, "invalid_field", Some("extra_specs"))
    };
    vec![
        node(json!({"labels": {"a b": "x"}}), "labels"),
        node(json!({"labels": {"a": "x\ny"}}), "labels"),
        node(json!({"labels": {"a".repeat(65_536): "x"}}), "labels"),
        node(json!({"labels": {"a": "x".repeat(65_536)}}), "labels"),
        node(json!({"labels": {"größe": "x"}}), "labels"),
        node(json!({"taints": [{"key": "a".repeat(65_536), "effect": "NoSchedule"}]}), "taints"),
        node(json!({"inventory": {"A".repeat(65_536): {"total": 1}}}), "inventory"),
        node(json!({"labels": {"a": "x"}, "enabled": true}), "labels"),
        node(json!({"taints": [{"key": "a", "effect": "NoExecute"}]}), "taints[0].effect"),
        node(json!({"taints": [{"key": "", "effect": "NoSchedule"}]}), "taints"),
        node(json!({"traits": ["a b"]}), "traits"),
        node(json!({"inventory": {"gpu": {"total": 1}}}), "inventory"),
        node(json!({"inventory": {"CUSTOM_": {"total": 1}}}), "inventory"),
        node(json!({"inventory": {"VCPU": {"total": -1}}}), "inventory.VCPU.total"),
        node(json!({"inventory": {"VCPU": {"allocation_ratio": 0}}}), "inventory.VCPU.allocation_ratio"),
        node(json!({"inventory": {"VCPU": {"allocation_ratio": -4.0}}}), "inventory.VCPU.allocation_ratio"),
        node(json!({"inventory": {"VCPU": {"allocation_ratio": 1e9}}}), "inventory"),
        node(json!({"inventory": {"VCPU": {"min_unit": 4, "max_unit": 2}}}), "inventory"),
        node(json!({"inventory": {"VCPU": {"step_size": 0}}}), "inventory"),
        patch("/v1/nodes/n1", json!({}), 422, "missing_field", Some("enabled")),
        patch("/v1/nodes/n9", json!({"labels": {"a": "b"}}), 404, "not_found", None),
        Case::post(aggregates, json!({"name": "rack"}), 409, "name_taken", Some("name")),
        Case::post(aggregates, json!({"name": "a b"}), 422, "invalid_field", Some("name")),
        Case::post(aggregates, json!({}), 422, "missing_field", Some("name")),
        Case::post(
            aggregates,
            json!({"name": "a", "nodes": ["n9"]}),
            422,
            "unknown_reference",
            Some("nodes"),
        ),
        Case::post(
            aggregates,
            json!({"name": "a", "metadata": {"availability_zone": "a b"}}),
            422,
            "invalid_field",
            Some("metadata.availability_zone"),
        ),
        Case::post(
            aggregates,
            json!({"name": "a", "nodes": ["n1"], "metadata": {"availability_zone": "rack-b"}}),
            422,
            "invalid_field",
            Some("nodes"),
        ),
        Case::post(
            aggregates,
            json!({"name": "a", "metadata": {"ram_weight_multiplier": "1e3"}}),
            422,
            "invalid_field",
            Some("metadata.ram_weight_multiplier"),
        ),
        patch(
            "/v1/aggregates/rack",
            json!({"metadata": {"max_instances_per_host": "many"}}),
            422,
            "invalid_field",
            Some("metadata.max_instances_per_host"),
        ),
        flavor("hw:numa_nodes", "1"),
        flavor("hw:cpu_policy", "pinned"),
        flavor("pci_passthrough:alias", "gpu:4294967295,gpu:1"),
        flavor("resources1:CUSTOM_GPU", "1"),
        flavor("group_policy", "isolate"),
        in_use(json!({"remove_nodes": ["n1"]})),
        in_use(json!({"metadata": {"availability_zone": "rack-b"}})),
        in_use(json!({"metadata": {"availability_zone": null}})),
        Case::new(Method::DELETE, "/v1/aggregates/rack", 409, "in_use", None),
        Case::new(Method::DELETE, "/v1/aggregates/nope", 404, "not_found", None),
    ]
}

fn groups_and_quotas() -> Vec<Case> {
    let groups = "/v1/server-groups";
    let invalid = |body, field| Case::post(groups, body, 422, "invalid_field", Some(field));
    let quota = |body, field| put("/v1/quotas/default", body, 422, "invalid_field", Some(field));
    vec![
        invalid(json!({"name": "a", "policy": "nearby"}), "policy"),
        invalid(json!({"name": "a b", "policy": "affinity"}), "name"),
        invalid(json!({"name": "a", "policy": "affinity", "max_server_per_host": 2}), "max_server_per_host"),
        invalid(
            json!({"name": "a", "policy": "anti-affinity", "max_server_per_host": 0}),
            "max_server_per_host",
        ),
        Case::post(groups, json!({"name": "a"}), 422, "missing_field", Some("policy")),
        Case::post(groups, json!({"name": "pair", "policy": "affinity"}), 409, "name_taken", Some("name")),
        patch("/v1/server-groups/pair", json!({"policy": "affinity"}), 422, "unknown_field", Some("policy")),
        Case::new(Method::DELETE, "/v1/server-groups/pair", 409, "in_use", None),
        Case::new(Method::GET, "/v1/server-groups/nope", 404, "not_found", None),
        quota(json!({"limits": {"GPU": 1}}), "limits"),
        quota(json!({"limits": {"VCPU": -1}}), "limits.VCPU"),
        quota(json!({"limits": {"VMS": 1.5}}), "limits.VMS"),
        put("/v1/quotas/default", json!({}), 422, "missing_field", Some("limits")),
        quota(json!({"limits": {"VCPU": 1e30}}), "limits.VCPU"),
        put("/v1/quotas/other", json!({"limits": {}}), 404, "not_found", Some("project")),
        Case::post("/v1/projects", json!({"name": "default"}), 409, "name_taken", Some("name")),
        Case::new(Method::DELETE, "/v1/projects/default", 422, "invalid_field", Some("project")),
        patch("/v1/projects/default", json!({"name": "ours"}), 422, "unknown_field", Some("name")),
    ]
}

fn vms() -> Vec<Case> {
    let with = |key: &str, value: Value| {
        let mut body = vm("a", "small", "guest");
        body[key] = value;
        body
    };
    let invalid =
        |key, value, field| Case::post("/v1/vms", with(key, value), 422, "invalid_field", Some(field));
    let unknown = |key, value| Case::post("/v1/vms", with(key, value), 422, "unknown_reference", Some(key));
    let selector = |value, field| invalid("node_selector", json!([value]), field);
    let mut both = with("same_host", json!(["web"]));
    both["different_host"] = json!(["web"]);
    let mut torn = with("group", json!("pair"));
    torn["different_host"] = json!(["duo"]);
    let mut crowd = vm(&"a".repeat(62), "small", "guest");
    crowd["count"] = json!(10);
    vec![
        selector(json!("disk ~ nvme"), "node_selector[0]"),
        selector(json!("disk in nvme"), "node_selector[0]"),
        selector(json!("cores > many"), "node_selector"),
        selector(json!(7), "node_selector[0]"),
        selector(json!({"key": "disk", "operator": "Like"}), "node_selector[0].operator"),
        selector(json!({"key": "disk", "operator": "In"}), "node_selector"),
        selector(json!({"key": "disk", "operator": "Exists", "values": ["x"]}), "node_selector"),
        invalid("tolerations", json!([{"value": "yes"}]), "tolerations"),
        invalid("tolerations", json!([{"effect": "NoExecute"}]), "tolerations[0].effect"),
        invalid("availability_zone", json!("mars"), "availability_zone"),
        invalid("near", json!("10.1.0.0"), "near"),
        invalid("near", json!("10.1.0.0/33"), "near"),
        invalid("priority", json!(1_000_001), "priority"),
        invalid("priority", json!("high"), "priority"),
        invalid("count", json!(0), "count"),
        invalid("count", json!(1001), "count"),
        invalid("atomic", json!(true), "atomic"),
        invalid("different_host", json!(vec!["web"; 65]), "different_host"),
        Case::post("/v1/vms", both, 422, "invalid_field", Some("same_host")),
        Case::post("/v1/vms", torn, 422, "invalid_field", Some("different_host")),
        Case::post("/v1/vms", crowd, 422, "invalid_field", Some("name")),
        unknown("group", json!("nope")),
        unknown("different_host", json!(["nope"])),
        unknown("same_host", json!(["nope"])),
        Case::post(
            "/v1/vms?dry_run=true",
            with("group", json!("nope")),
            422,
            "unknown_reference",
            Some("group"),
        ),
        Case::post("/v1/vms?dry_run=true", vm("web", "small", "guest"), 409, "name_taken", Some("name")),
        Case::post(
            "/v1/vms?dry_run=perhaps",
            vm("a", "small", "guest"),
            400,
            "invalid_query",
            Some("dry_run"),
        ),
    ]
}

fn questions() -> Vec<Case> {
    let query = |path: &str, field| Case::new(Method::GET, path, 400, "invalid_query", Some(field));
    vec![
        query("/v1/what-if", "lose"),
        query("/v1/rebalance?max_moves=x", "max_moves"),
        query("/v1/n-plus-one?of=n1", "of"),
        query("/v1/what-if?lose=n9", "lose"),
        query("/v1/what-if?drain=n9", "drain"),
        query("/v1/what-if?lose=n1&drain=n1", "drain"),
        query("/v1/what-if?lose=n1&loose=n1", "loose"),
        query("/v1/allocation-candidates", "flavor"),
        query("/v1/allocation-candidates?flavor=nope", "flavor"),
        query("/v1/allocation-candidates?flavor=nope&resources=VCPU:1", "resources"),
        query("/v1/allocation-candidates?resources=VCPU:0", "resources"),
        query("/v1/allocation-candidates?resources=VCPU:1&resources=VCPU:1", "resources"),
        query("/v1/allocation-candidates?resources=GPU:1", "resources"),
        query("/v1/allocation-candidates?resources=VCPU:1&required=A,!A", "required"),
        query("/v1/allocation-candidates?resources=VCPU:1&member_of=nope", "member_of"),
        query("/v1/allocation-candidates?resources=VCPU:1&limit=0", "limit"),
        query("/v1/allocation-candidates?resources=VCPU:1&in_tree=n1", "in_tree"),
        Case::new(
            Method::POST,
            "/v1/images?name=a&kind=kernel&property=x",
            400,
            "invalid_query",
            Some("property"),
        )
        .bytes("x"),
        Case::new(
            Method::POST,
            "/v1/images?name=a&kind=kernel&property=x=1&property=x=2",
            400,
            "invalid_query",
            Some("property"),
        )
        .bytes("x"),
        Case::new(
            Method::POST,
            "/v1/images?name=a&kind=kernel&property=a%20b=1",
            422,
            "invalid_field",
            Some("property"),
        )
        .bytes("x"),
    ]
}
