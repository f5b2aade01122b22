//! Projects through REST: names, lists, quotas, idempotency keys and placement are a project's; access is not.

use holm_vmm::test_guest;
use hyper::Method;
use serde_json::{Value, json};

use crate::daemon::{Answer, Daemon};

/// A flavor, an image of `default`, the projects `shop` and `ship`.
async fn furnished() -> Daemon {
    let daemon = Daemon::first().await;
    daemon.post("/v1/flavors", json!({"name": "small", "vcpus": 1, "memory_mib": 64})).await.expect(201);
    let kernel = test_guest::elf(test_guest::Variant::Banner);
    daemon.send(Method::POST, "/v1/images?name=guest&kind=kernel", &[], kernel.into()).await.expect(201);
    for name in ["shop", "ship"] {
        daemon.post("/v1/projects", json!({"name": name})).await.expect(201);
    }
    daemon
}

async fn within(daemon: &Daemon, project: &str, method: Method, path: &str, body: Value) -> Answer {
    let headers = [("holm-project", project), ("content-type", "application/json")];
    let body = if body.is_null() { String::new() } else { body.to_string() };
    daemon.send(method, path, &headers, body.into()).await
}

fn vm(name: &str) -> Value {
    json!({"name": name, "flavor": "small", "image": "guest"})
}

fn names(list: &Value) -> Vec<String> {
    let name = |item: &Value| item["name"].as_str().unwrap_or_default().to_owned();
    list["items"].as_array().into_iter().flatten().map(name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_is_described_and_goes_when_nothing_belongs_to_it() {
    let daemon = furnished().await;
    let created =
        daemon.post("/v1/projects", json!({"name": "lab", "description": "trials"})).await.expect(201);
    assert_eq!(created.header("location"), "/v1/projects/lab");
    let projects = daemon.get("/v1/projects").await.expect(200).json;
    assert_eq!(names(&projects), ["default", "lab", "ship", "shop"]);
    let page = daemon.get("/v1/projects?limit=2").await.expect(200).json;
    assert_eq!(
        (names(&page), page["next"].clone()),
        (vec!["default".to_owned(), "lab".to_owned()], json!("lab"))
    );
    let changed = daemon.patch("/v1/projects/lab", json!({"description": ""})).await.expect(200).json;
    assert_eq!(changed["description"], "");
    daemon.patch("/v1/projects/default", json!({"description": "ours"})).await.expect(200);
    assert_eq!(daemon.get("/v1/projects/default").await.json["description"], "ours");

    within(&daemon, "lab", Method::POST, "/v1/vms", vm("a")).await.expect(202);
    let group = json!({"name": "pair", "policy": "affinity"});
    within(&daemon, "lab", Method::POST, "/v1/server-groups", group).await.expect(201);
    daemon.put("/v1/quotas/lab", json!({"limits": {"VCPU": 4}})).await.expect(200);
    let refused = daemon.delete("/v1/projects/lab").await.expect(409).json;
    assert_eq!(refused["code"], "in_use");
    assert_eq!(refused["detail"], "the project `lab` is in use by VM a, server group pair, its quota");
    daemon.put("/v1/quotas/lab", json!({"limits": {"VCPU": null}})).await.expect(200);
    within(&daemon, "lab", Method::DELETE, "/v1/server-groups/pair", Value::Null).await.expect(202);
    within(&daemon, "lab", Method::DELETE, "/v1/vms/a", Value::Null).await.expect(202);
    daemon
        .until("nothing is in lab", async |daemon| {
            (daemon.get("/v1/projects/lab").await.json["vms"] == 0).then_some(())
        })
        .await;
    daemon.delete("/v1/projects/lab").await.expect(202);
    daemon.get("/v1/projects/lab").await.expect(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_keys_lists_and_quotas_are_a_projects() {
    let daemon = furnished().await;
    daemon.put("/v1/quotas/shop", json!({"limits": {"VMS": 1}})).await.expect(200);
    let mut ids = Vec::new();
    for project in ["default", "shop", "ship"] {
        let headers =
            [("holm-project", project), ("idempotency-key", "one"), ("content-type", "application/json")];
        for duplicate in ["", "true"] {
            let body = vm("web").to_string();
            let answer = daemon.send(Method::POST, "/v1/vms", &headers, body.into()).await.expect(202);
            assert_eq!(answer.header("holm-duplicate"), duplicate, "{project}");
            assert_eq!(answer.json["project"], project);
            ids.push(answer.json["id"].as_str().unwrap_or_default().to_owned());
        }
    }
    ids.dedup();
    assert_eq!(ids.len(), 3, "three VMs of one name: {ids:?}");
    let refused = within(&daemon, "shop", Method::POST, "/v1/vms", vm("till")).await.expect(409).json;
    assert_eq!(
        refused["quota"],
        json!({"project": "shop", "class": "VMS", "wanted": 1, "used": 1, "limit": 1})
    );
    within(&daemon, "ship", Method::POST, "/v1/vms", vm("engine")).await.expect(202);

    let list = async |project: &str, query: &str| {
        let path = format!("/v1/vms{query}");
        names(&within(&daemon, project, Method::GET, &path, Value::Null).await.expect(200).json)
    };
    assert_eq!(list("default", "").await, ["web"]);
    assert_eq!(list("ship", "").await, ["web", "engine"]);
    assert_eq!(list("shop", "?all_projects=true").await, ["web", "web", "web", "engine"]);
    daemon.get("/v1/vms/engine").await.expect(404);
    // An id is the cluster's.
    let other = daemon.get(&format!("/v1/vms/{}", ids[1])).await.expect(200).json;
    assert_eq!(other["project"], "shop");
    daemon.delete(&format!("/v1/vms/{}", ids[1])).await.expect(202);
    daemon
        .until("the quota is free again", async |daemon| {
            let quota = daemon.get("/v1/quotas/shop").await.expect(200).json;
            (quota["classes"]["VMS"] == json!({"used": 0, "limit": 1})).then_some(())
        })
        .await;
    let quotas = daemon.get("/v1/quotas").await.expect(200).json;
    let of: Vec<_> =
        quotas["items"].as_array().into_iter().flatten().map(|quota| quota["project"].clone()).collect();
    assert_eq!(of, ["default", "ship", "shop"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn images_of_default_are_shared_and_an_aggregate_may_be_for_one_project() {
    let daemon = furnished().await;
    let kernel = || test_guest::elf(test_guest::Variant::Banner).into();
    let path = "/v1/images?name=till&kind=kernel";
    daemon.send(Method::POST, path, &[("holm-project", "shop")], kernel()).await.expect(201);
    let images = async |project: &str| {
        names(&within(&daemon, project, Method::GET, "/v1/images", Value::Null).await.expect(200).json)
    };
    assert_eq!(images("shop").await, ["guest", "till"]);
    assert_eq!(images("ship").await, ["guest"]);
    let foreign = json!({"name": "a", "flavor": "small", "image": "till"});
    let refused = within(&daemon, "ship", Method::POST, "/v1/vms", foreign).await.expect(422).json;
    assert_eq!(
        (refused["code"].clone(), refused["field"].clone()),
        (json!("unknown_reference"), json!("image"))
    );
    within(&daemon, "ship", Method::DELETE, "/v1/images/guest", Value::Null).await.expect(404);

    let filters = daemon.get("/v1/scheduler").await.json["filters"].clone();
    let mut filters = filters.as_array().cloned().unwrap_or_default();
    filters.push(json!("AggregateMultiTenancyIsolation"));
    daemon.put("/v1/scheduler", json!({"filters": filters})).await.expect(200);
    let metadata = json!({"filter_tenant_id": "shop"});
    daemon
        .post("/v1/aggregates", json!({"name": "tills", "nodes": ["n1"], "metadata": metadata}))
        .await
        .expect(201);
    within(&daemon, "shop", Method::POST, "/v1/vms", vm("till")).await.expect(202);
    let dry = within(&daemon, "ship", Method::POST, "/v1/vms?dry_run=true", vm("a")).await.expect(200).json;
    assert_eq!(dry["hosts"][0]["by"], "AggregateMultiTenancyIsolation");
    assert_eq!(dry["hosts"][0]["message"], "project `ship`: its aggregates are for shop only");
    let path = "/v1/allocation-candidates?flavor=small";
    let candidates = within(&daemon, "ship", Method::GET, path, Value::Null).await.expect(200).json;
    assert_eq!(candidates["refusals"][0]["by"], "AggregateMultiTenancyIsolation");
    let candidates = within(&daemon, "shop", Method::GET, path, Value::Null).await.expect(200).json;
    assert_eq!(candidates["candidates"][0]["node"], "n1");
    let lost = daemon
        .until("the VM is on the node that may be lost", async |daemon| {
            let lost = daemon.get("/v1/what-if?lose=n1").await.expect(200).json;
            lost["vms"][0].is_object().then_some(lost)
        })
        .await;
    assert_eq!(lost["vms"][0]["vm"], "shop/till");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_that_is_not_there_is_refused_everywhere_with_the_way_to_make_it() {
    let daemon = furnished().await;
    for (method, path, body) in [
        (Method::GET, "/v1/vms", Value::Null),
        (Method::GET, "/v1/vms/web", Value::Null),
        (Method::GET, "/v1/vms/web/explain", Value::Null),
        (Method::GET, "/v1/vms/web/log", Value::Null),
        (Method::GET, "/v1/server-groups", Value::Null),
        (Method::GET, "/v1/images/guest", Value::Null),
        (Method::GET, "/v1/allocation-candidates?flavor=small", Value::Null),
        (Method::POST, "/v1/vms", vm("web")),
        (Method::POST, "/v1/vms?dry_run=true", vm("web")),
        (Method::POST, "/v1/server-groups", json!({"name": "g", "policy": "affinity"})),
        (Method::POST, "/v1/flavors", json!({"name": "f", "vcpus": 1, "memory_mib": 64})),
        (Method::DELETE, "/v1/vms/web", Value::Null),
    ] {
        let refused = within(&daemon, "nobody", method.clone(), path, body).await.expect(400).json;
        assert_eq!(refused["code"], "invalid_header", "{method} {path}");
        assert_eq!(refused["field"], "Holm-Project", "{method} {path}");
        assert!(
            refused["hint"].as_str().unwrap_or_default().contains("holm project create nobody"),
            "{refused}"
        );
    }
    for path in ["/v1/projects/nobody", "/v1/quotas/nobody"] {
        let missing = daemon.get(path).await.expect(404).json;
        assert_eq!(missing["field"], "project", "{missing}");
        assert!(missing["hint"].as_str().unwrap_or_default().contains("holm project create"), "{missing}");
    }
    // It may be chosen before it is made.
    within(&daemon, "nobody", Method::POST, "/v1/projects", json!({"name": "nobody"})).await.expect(201);
    within(&daemon, "nobody", Method::GET, "/v1/vms", Value::Null).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_about_projects_changes_nothing() {
    let daemon = furnished().await;
    let (long, text) = ("p".repeat(64), "d".repeat(1025));
    for (body, status, code, field) in [
        (json!({"name": "shop"}), 409, "name_taken", "name"),
        (json!({"name": "default"}), 409, "name_taken", "name"),
        (json!({"name": ""}), 422, "invalid_field", "name"),
        (json!({"name": "a b"}), 422, "invalid_field", "name"),
        (json!({"name": "17"}), 422, "invalid_field", "name"),
        (json!({"name": long}), 422, "invalid_field", "name"),
        (json!({"name": -1}), 422, "invalid_field", "name"),
        (json!({}), 422, "missing_field", "name"),
        (json!({"name": "x", "description": text}), 422, "invalid_field", "description"),
        (json!({"name": "x", "colour": "red"}), 422, "unknown_field", "colour"),
    ] {
        let refused = daemon.post("/v1/projects", body.clone()).await.expect(status).json;
        assert_eq!(
            (refused["code"].clone(), refused["field"].clone()),
            (json!(code), json!(field)),
            "{body}"
        );
    }
    let stays = daemon.delete("/v1/projects/default").await.expect(422).json;
    assert_eq!(stays["field"], "project");
    let headers = [("if-match", "\"1\""), ("content-type", "application/json")];
    daemon.send(Method::DELETE, "/v1/projects/shop", &headers, Default::default()).await.expect(412);
    let negative = daemon.put("/v1/quotas/shop", json!({"limits": {"VCPU": -1}})).await.expect(422).json;
    assert_eq!(negative["field"], "limits.VCPU");
    assert_eq!(names(&daemon.get("/v1/projects").await.json), ["default", "ship", "shop"]);
}
