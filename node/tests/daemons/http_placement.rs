//! Placement through REST on one node: what operators say of nodes, quotas, batches, dry runs, the policy.

use holm_vmm::test_guest;
use hyper::Method;
use serde_json::{Value, json};

use crate::daemon::Daemon;

async fn furnished() -> Daemon {
    let daemon = Daemon::first().await;
    daemon.post("/v1/flavors", json!({"name": "small", "vcpus": 1, "memory_mib": 64})).await.expect(201);
    let kernel = test_guest::elf(test_guest::Variant::Banner);
    let image = "/v1/images?name=guest&kind=kernel&property=hw_architecture=amd64&property=img_hv_requested_version=%3E%3D1";
    daemon.send(Method::POST, image, &[], kernel.into()).await.expect(201);
    daemon
}

fn vm(name: &str, more: Value) -> Value {
    let mut body = json!({"name": name, "flavor": "small", "image": "guest"});
    for (key, value) in more.as_object().into_iter().flatten() {
        body[key] = value.clone();
    }
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_operator_says_of_a_node_counts_and_can_be_taken_back() {
    let daemon = furnished().await;
    let node = daemon
        .patch(
            "/v1/nodes/n1",
            json!({
                "labels": {"disk": "nvme", "rack": "a"},
                "taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}],
                "traits": ["CUSTOM_QUIET"],
                "inventory": {"VCPU": {"total": 3, "allocation_ratio": 1.5, "max_unit": 2}, "CUSTOM_GPU": {"total": 2}},
            }),
        )
        .await
        .expect(200)
        .json;
    assert_eq!(node["labels"], json!({"disk": "nvme", "rack": "a"}));
    assert_eq!(node["inventory"]["VCPU"]["capacity"], 4);
    assert_eq!(node["inventory"]["VCPU"]["max_unit"], 2);
    assert_eq!(node["inventory"]["CUSTOM_GPU"]["capacity"], 2);
    assert_eq!(node["capabilities"]["hypervisor_type"], "simulated");
    assert_eq!(node["traits"], json!(["CUSTOM_QUIET"]));

    let untolerated = daemon.post("/v1/vms?dry_run=true", vm("a", json!({}))).await.expect(200).json;
    assert_eq!(untolerated["hosts"][0]["by"], "Taints");
    let tolerated =
        vm("a", json!({"tolerations": [{"key": "gpu"}], "node_selector": ["disk in (nvme,ssd)"]}));
    daemon.post("/v1/vms", tolerated).await.expect(202);
    let placed = daemon.until_status("a", "ACTIVE").await;
    assert_eq!(
        placed["scheduling"]["node_selector"],
        json!([{"key": "disk", "operator": "In", "values": ["nvme", "ssd"]}])
    );
    assert_eq!(placed["decision"]["chosen"], "n1");
    assert_eq!(placed["allocations"], json!({"MEMORY_MB": 80, "VCPU": 1}));
    assert!(placed["decision"]["seen"].as_u64() < placed["decision"]["revision"].as_u64());

    let selected = daemon.patch("/v1/nodes/n1", json!({"labels": {"disk": null}})).await.expect(409).json;
    assert_eq!(selected["detail"], "the label `disk` is in use by a");
    daemon.send(Method::DELETE, "/v1/vms/a", &[], Default::default()).await.expect(202);
    daemon
        .until("a is gone", async |daemon| (daemon.get("/v1/vms/a").await.status == 404).then_some(()))
        .await;
    let node = daemon
        .patch(
            "/v1/nodes/n1",
            json!({"labels": {"disk": null}, "taints": [], "traits": [], "inventory": {"VCPU": null, "CUSTOM_GPU": null}}),
        )
        .await
        .expect(200)
        .json;
    assert_eq!(node["labels"], json!({"rack": "a"}));
    assert_eq!((node["taints"].clone(), node["inventory_overrides"].clone()), (json!([]), json!({})));
    assert_eq!(node["inventory"].get("CUSTOM_GPU"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_is_refused_with_its_numbers_and_a_batch_takes_what_there_is() {
    let daemon = furnished().await;
    let quota =
        daemon.put("/v1/quotas/default", json!({"limits": {"VMS": 3, "VCPU": 8}})).await.expect(200).json;
    assert_eq!(quota["classes"]["VMS"], json!({"used": 0, "limit": 3}));

    let all = vm("web", json!({"count": 5, "atomic": true}));
    let refused = daemon.post("/v1/vms", all).await.expect(409).json;
    assert_eq!(refused["code"], "quota_exceeded");
    assert_eq!(
        refused["quota"],
        json!({"project": "default", "class": "VMS", "wanted": 1, "used": 3, "limit": 3})
    );
    assert_eq!(daemon.get("/v1/vms").await.json["items"], json!([]));

    let headers = [("content-type", "application/json"), ("idempotency-key", "batch")];
    let some = vm("web", json!({"count": 5})).to_string();
    for duplicate in ["", "true"] {
        let answer = daemon.send(Method::POST, "/v1/vms", &headers, some.clone().into()).await.expect(202);
        let names = |list: &Value| -> Vec<String> {
            let items = list.as_array().into_iter().flatten();
            items.map(|item| item["name"].as_str().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(names(&answer.json["items"]), ["web-1", "web-2", "web-3"]);
        assert_eq!(names(&answer.json["refused"]), ["web-4", "web-5"]);
        assert_eq!(answer.json["refused"][0]["code"], "quota_exceeded");
        assert_eq!(answer.header("holm-duplicate"), duplicate);
    }
    let quota = daemon.get("/v1/quotas").await.json["items"][0].clone();
    assert_eq!(quota["classes"]["VMS"], json!({"used": 3, "limit": 3}));

    let lifted = daemon.put("/v1/quotas/default", json!({"limits": {"VMS": null}})).await.expect(200).json;
    assert_eq!(lifted["classes"]["VMS"], json!({"used": 3, "limit": null}));
    daemon.post("/v1/vms", vm("more", json!({}))).await.expect(202);
}

/// Two of five are over the quota, and for one of the rest there is no room: said beforehand, and so it comes.
#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_of_a_batch_says_of_each_what_then_becomes_of_it() {
    let daemon = furnished().await;
    daemon.put("/v1/quotas/default", json!({"limits": {"VMS": 3}})).await.expect(200);
    let room = json!({"inventory": {"VCPU": {"total": 2, "reserved": 0, "allocation_ratio": 1}}});
    daemon.patch("/v1/nodes/n1", room).await.expect(200);

    let body = vm("web", json!({"count": 5}));
    let dry = daemon.post("/v1/vms?dry_run=true", body.clone()).await.expect(200).json;
    let why = "no node fits it (1 × Capacity)";
    let planned = json!([
        {"vm": "web-1", "node": "n1"}, {"vm": "web-2", "node": "n1"}, {"vm": "web-3", "node": null, "why": why},
    ]);
    assert_eq!(dry["placements"], planned);
    let summary = dry["summary"].as_str().unwrap_or_default();
    assert!(
        summary.starts_with("2 of 5 VMs would be placed now;")
            && summary.contains("1 would wait, `web-3` since no node fits it")
            && summary.contains("2 would not be created, `web-4` since the quota of project"),
        "{summary}"
    );
    let atomic = daemon.post("/v1/vms?dry_run=true", vm("web", json!({"count": 5, "atomic": true}))).await;
    assert_eq!(atomic.expect(409).json["code"], "quota_exceeded", "all or none");
    assert_eq!(daemon.get("/v1/vms").await.json["items"], json!([]));

    let made = daemon.post("/v1/vms", body).await.expect(202).json;
    assert_eq!(made["refused"], dry["refused"]);
    for planned in dry["placements"].as_array().into_iter().flatten() {
        let name = planned["vm"].as_str().unwrap_or_default().to_owned();
        daemon
            .until(&format!("{name} is where it was said, or waits"), async |daemon| {
                let vm = daemon.get(&format!("/v1/vms/{name}")).await.json;
                let waits = planned["node"].is_null() && vm["fault"]["message"] == planned["why"];
                (vm["node"] == planned["node"] && (waits || !planned["node"].is_null())).then_some(())
            })
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_explains_and_creates_nothing() {
    let daemon = furnished().await;
    let revision = daemon.get("/v1/vms").await.json["revision"].clone();
    let fits = daemon.post("/v1/vms?dry_run=true", vm("a", json!({"count": 2}))).await.expect(200).json;
    assert_eq!((fits["dry_run"].clone(), fits["hosts"][0]["verdict"].clone()), (json!(true), json!("fits")));
    assert_eq!(fits["placements"], json!([{"vm": "a-1", "node": "n1"}, {"vm": "a-2", "node": "n1"}]));
    assert_eq!((fits.get("refused"), fits.get("warnings")), (None, None));
    assert_eq!(daemon.get("/v1/vms").await.json["items"], json!([]));
    assert_eq!(daemon.get("/v1/vms").await.json["revision"], revision);

    // A class that nobody has is explained, not refused; what is created waits, and says why.
    let gpu =
        json!({"name": "gpu", "vcpus": 1, "memory_mib": 64, "extra_specs": {"resources:CUSTOM_GPU": "1"}});
    daemon.post("/v1/flavors", gpu).await.expect(201);
    let body = vm("g", json!({"flavor": "gpu"}));
    let explained = daemon.post("/v1/vms?dry_run=true", body.clone()).await.expect(200).json;
    assert_eq!(explained["hosts"][0]["by"], "Capacity");
    assert_eq!(explained["hosts"][0]["message"], "CUSTOM_GPU: the node has none");
    let candidates = daemon.get("/v1/allocation-candidates?flavor=gpu").await.expect(200).json;
    assert_eq!(
        (candidates["candidates"].clone(), candidates["refusals"][0]["by"].clone()),
        (json!([]), json!("Capacity"))
    );
    let candidates = daemon.get("/v1/allocation-candidates?flavor=small").await.expect(200).json;
    assert_eq!(candidates["claim"], json!({"VCPU": 1, "MEMORY_MB": 80}));
    assert_eq!(candidates["candidates"][0]["node"], "n1");

    daemon.post("/v1/vms", body).await.expect(202);
    daemon
        .until("it says why it waits", async |daemon| {
            let vm = daemon.get("/v1/vms/g").await.json;
            (vm["refusals"][0]["message"] == "CUSTOM_GPU: the node has none").then_some(())
        })
        .await;
    daemon.patch("/v1/nodes/n1", json!({"inventory": {"CUSTOM_GPU": {"total": 1}}})).await.expect(200);
    daemon.until_status("g", "ACTIVE").await;
}

/// <https://docs.openstack.org/api-ref/placement/#list-allocation-candidates>
#[tokio::test(flavor = "multi_thread")]
async fn candidates_are_asked_for_by_amounts_traits_and_aggregates() {
    let daemon = furnished().await;
    let ask =
        async |query: &str| daemon.get(&format!("/v1/allocation-candidates?{query}")).await.expect(200).json;
    let nobody = ask("resources=CUSTOM_GPU:1").await;
    assert_eq!(nobody["candidates"], json!([]));
    assert_eq!(nobody["refusals"][0]["message"], "CUSTOM_GPU: the node has none");
    let warning = nobody["warnings"][0].as_str().unwrap_or_default();
    assert!(warning.starts_with("no node has any CUSTOM_GPU; "), "{warning}");

    let inventory =
        json!({"VCPU": {"total": 2, "reserved": 1, "allocation_ratio": 4.0}, "CUSTOM_GPU": {"total": 3}});
    let body = json!({"traits": ["CUSTOM_SSD"], "inventory": inventory});
    daemon.patch("/v1/nodes/n1", body).await.expect(200);
    daemon.post("/v1/aggregates", json!({"name": "fast", "nodes": ["n1"]})).await.expect(201);
    daemon.post("/v1/aggregates", json!({"name": "slow"})).await.expect(201);
    daemon.post("/v1/vms", vm("one", json!({}))).await.expect(202);
    daemon.until_status("one", "ACTIVE").await;

    let found = ask("resources=VCPU:1,MEMORY_MB:64,CUSTOM_GPU:2").await;
    assert_eq!(found["flavor"], Value::Null);
    assert_eq!(found["requested"], json!({"CUSTOM_GPU": 2, "MEMORY_MB": 64, "VCPU": 1}));
    let candidate = &found["candidates"][0];
    assert_eq!(candidate["allocations"], json!({"CUSTOM_GPU": 2, "MEMORY_MB": 80, "VCPU": 1}));
    assert_eq!(candidate["count"], 1);
    let traits = candidate["summary"]["traits"].as_array().cloned().unwrap_or_default();
    assert!(traits.contains(&json!("CUSTOM_SSD")), "beside those the node reports: {traits:?}");
    let resources = &candidate["summary"]["resources"];
    assert_eq!(resources["VCPU"], json!({"capacity": 4, "used": 1}));
    assert_eq!(resources["CUSTOM_GPU"], json!({"capacity": 3, "used": 0}));
    assert!(resources.get("DISK_GB").is_some(), "every class of the node is summed up: {resources}");

    for (query, by) in [
        ("resources=CUSTOM_GPU:3", None),
        ("resources=CUSTOM_GPU:4", Some("Capacity")),
        ("resources=VCPU:4", Some("Capacity")),
        ("resources=VCPU:1&required=CUSTOM_SSD", None),
        ("resources=VCPU:1&required=!CUSTOM_SSD", Some("Traits")),
        ("resources=VCPU:1&required=CUSTOM_SSD,CUSTOM_X", Some("Traits")),
        ("resources=VCPU:1&required=in:CUSTOM_SSD,CUSTOM_X", None),
        ("resources=VCPU:1&required=in:CUSTOM_Y,CUSTOM_X", Some("Traits")),
        ("resources=VCPU:1&required=CUSTOM_SSD&required=!CUSTOM_X", None),
        ("flavor=small&required=CUSTOM_SSD&member_of=fast", None),
        ("flavor=small&member_of=slow", Some("MemberOf")),
        ("flavor=small&member_of=in:slow,fast&member_of=!slow", None),
        ("flavor=small&member_of=!in:slow,fast", Some("MemberOf")),
    ] {
        let found = ask(query).await;
        let (fit, refused) = if by.is_none() { (1, 0) } else { (0, 1) };
        let lengths = ["candidates", "refusals"].map(|of| found[of].as_array().map_or(0, Vec::len));
        assert_eq!(lengths, [fit, refused], "{query}: {found}");
        assert_eq!(found["refusals"][0]["by"].as_str(), by, "{query}");
        assert_eq!(found["refused"], by.map_or(json!({}), |by| json!({by: 1})), "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_is_replaced_as_a_whole_and_reset() {
    let daemon = furnished().await;
    let before = daemon.get("/v1/scheduler").await.expect(200);
    assert_eq!(before.json["always_filters"], json!(["DedicatedCpu", "PciDevices", "Reserved"]));
    let mut filters: Vec<Value> = before.json["filters"].as_array().cloned().unwrap_or_default();
    filters.push(json!("NumInstances"));
    let body = json!({"filters": filters, "weighers": {"Ram": -1.5}, "max_instances_per_host": 1});
    let set = daemon.put("/v1/scheduler", body.clone()).await.expect(200).json;
    assert_eq!(set["weighers"], json!({"Ram": -1.5}));
    let stale = [("content-type", "application/json"), ("if-match", before.header("etag"))];
    daemon.send(Method::PUT, "/v1/scheduler", &stale, body.to_string().into()).await.expect(412);

    daemon.post("/v1/vms", vm("one", json!({}))).await.expect(202);
    daemon.until_status("one", "ACTIVE").await;
    let second = daemon.post("/v1/vms?dry_run=true", vm("two", json!({}))).await.expect(200).json;
    assert_eq!(second["hosts"][0]["by"], "NumInstances");

    let reset = daemon.send(Method::DELETE, "/v1/scheduler", &[], Default::default()).await.expect(200).json;
    assert_eq!(reset["filters"], before.json["filters"]);
    assert_eq!(reset["weighers"], before.json["weighers"]);
}

/// Names are unique within a project only; what is meant is settled when the policy is set.
#[tokio::test(flavor = "multi_thread")]
async fn images_are_isolated_by_id_and_kept_while_the_policy_names_them() {
    let daemon = furnished().await;
    daemon.post("/v1/projects", json!({"name": "blue"})).await.expect(201);
    let kernel = test_guest::elf(test_guest::Variant::Banner);
    let (image, blue) = ("/v1/images?name=guest&kind=kernel", [("holm-project", "blue")]);
    daemon.send(Method::POST, image, &blue, kernel.into()).await.expect(201);
    let mut filters: Vec<Value> =
        daemon.get("/v1/scheduler").await.json["filters"].as_array().cloned().unwrap_or_default();
    filters.push(json!("IsolatedHosts"));
    let body = json!({"filters": filters, "isolated_images": ["guest"], "isolated_nodes": ["n1"]});
    let set = daemon.put("/v1/scheduler", body.clone()).await.expect(200).json;
    assert_eq!(set["isolated_images"], json!(["default/guest"]));
    assert_eq!(set["isolated_nodes"], json!(["n1"]));
    assert_eq!(set["restrict_isolated_hosts_to_isolated_images"], true);
    // What is shown can be sent back, by whatever project.
    let shown = json!({"filters": filters, "isolated_images": ["default/guest"], "isolated_nodes": ["n1"]});
    let headers = [("content-type", "application/json"), ("holm-project", "blue")];
    let again = daemon.send(Method::PUT, "/v1/scheduler", &headers, shown.to_string().into()).await;
    assert_eq!(again.expect(200).json["isolated_images"], json!(["default/guest"]));

    let dry = |project: &'static str| {
        let headers = [("content-type", "application/json"), ("holm-project", project)];
        let body = vm("a", json!({})).to_string();
        let daemon = &daemon;
        async move {
            daemon.send(Method::POST, "/v1/vms?dry_run=true", &headers, body.into()).await.expect(200).json
        }
    };
    assert_eq!(dry("default").await["hosts"][0]["verdict"], "fits");
    let namesake = dry("blue").await;
    assert_eq!(namesake["hosts"][0]["message"], "isolated: the node is for isolated images only");
    let refused =
        daemon.send(Method::DELETE, "/v1/images/guest", &[], Default::default()).await.expect(409).json;
    assert_eq!(refused["code"], "in_use");
    assert_eq!(refused["detail"], "the image `guest` is in use by the scheduler's policy (isolated images)");

    let mut open = body;
    open["restrict_isolated_hosts_to_isolated_images"] = json!(false);
    daemon.put("/v1/scheduler", open).await.expect(200);
    assert_eq!(dry("blue").await["hosts"][0]["verdict"], "fits");
    daemon.send(Method::DELETE, "/v1/scheduler", &[], Default::default()).await.expect(200);
    daemon.send(Method::DELETE, "/v1/images/guest", &[], Default::default()).await.expect(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_of_a_filter_that_is_off_is_warned_of() {
    let daemon = furnished().await;
    let words = "it asks for a node near `10.0.0.0/8`, which nobody looks at: the filter SimpleCidrAffinity is off; \
                 `holm scheduler set --enable SimpleCidrAffinity`";
    let near = |name: &str| vm(name, json!({"near": "10.0.0.0/8"}));
    let dry = daemon.post("/v1/vms?dry_run=true", near("a")).await.expect(200).json;
    assert_eq!(dry["warnings"], json!([words]));
    let created = daemon.post("/v1/vms", near("a")).await.expect(202).json;
    assert_eq!(created["warnings"], json!([words]));
    let mut many = near("b");
    many["count"] = json!(2);
    let created = daemon.post("/v1/vms", many).await.expect(202).json;
    assert_eq!(created["warnings"], json!([words]), "once for the batch");
    let explained = daemon.get("/v1/vms/a/explain").await.expect(200).json;
    assert_eq!(explained["warnings"], json!([words]));
    let plain = daemon.post("/v1/vms", vm("c", json!({}))).await.expect(202).json;
    assert_eq!(plain.get("warnings"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_helps_is_said_wherever_a_refusal_is_and_a_zone_is_shown_by_name() {
    let daemon = furnished().await;
    let rack = json!({"name": "rack", "nodes": ["n1"], "metadata": {"availability_zone": "left"}});
    daemon.post("/v1/aggregates", rack).await.expect(201);
    let zone = daemon.get("/v1/availability-zones/left").await.expect(200).json;
    assert_eq!((&zone["nodes"][0]["name"], &zone["aggregates"]), (&json!("n1"), &json!(["rack"])));
    let missing = daemon.get("/v1/availability-zones/right").await.expect(404).json;
    assert!(missing["hint"].as_str().is_some_and(|hint| hint.contains("`holm az list`")), "{missing}");

    daemon.patch("/v1/nodes/n1", json!({"enabled": false})).await.expect(200);
    daemon.post("/v1/vms", vm("late", json!({}))).await.expect(202);
    let cordoned =
        json!([{"by": "ComputeStatus", "nodes": ["n1"], "fix": "open it again: `holm node uncordon n1`"}]);
    let shown = daemon
        .until("it is refused", async |daemon| {
            let shown = daemon.get("/v1/vms/late").await.expect(200).json;
            shown["refusals"][0].is_object().then_some(shown)
        })
        .await;
    let dry = daemon.post("/v1/vms?dry_run=true", vm("b", json!({}))).await.expect(200).json;
    let mut answers = vec![shown, dry];
    for path in ["/v1/vms/late/explain", "/v1/allocation-candidates?flavor=small"] {
        answers.push(daemon.get(path).await.expect(200).json);
    }
    for answer in answers {
        assert_eq!(answer["advice"], cordoned, "{answer}");
    }
}
