//! Bad input about shared volumes. The cluster has the volume `shared` at `/srv/shared`, unguarded, which the
//! VM `duo` has.

use hyper::Method;
use serde_json::{Value, json};

use super::{Case, vm};

pub fn cases() -> Vec<Case> {
    let volumes = "/v1/volumes";
    let invalid = |body: Value, field| Case::post(volumes, body, 422, "invalid_field", Some(field));
    let good = json!({"name": "v", "path": "/dev/disk/by-id/x"});
    let with = |field: &str, value: Value| {
        let mut body = good.clone();
        body[field] = value;
        body
    };
    let with_volumes = |volumes: Value| {
        let mut body = vm("a", "small", "guest");
        body["volumes"] = volumes;
        body
    };
    let of_vm =
        |volumes, status, code, field| Case::post("/v1/vms", with_volumes(volumes), status, code, field);
    vec![
        Case::post(volumes, json!({"path": "/a"}), 422, "missing_field", Some("name")),
        Case::post(volumes, json!({"name": "v"}), 422, "missing_field", Some("path")),
        Case::post(volumes, with("size", json!(1)), 422, "unknown_field", Some("size")),
        invalid(with("name", json!("")), "name"),
        invalid(with("path", json!("")), "path"),
        invalid(with("path", json!("sdb")), "path"),
        invalid(with("path", json!("/dev/../etc/shadow")), "path"),
        invalid(with("path", json!("/".repeat(2000))), "path"),
        invalid(with("path", json!("/srv/shared")), "path"),
        invalid(with("lock", json!("flock")), "lock"),
        invalid(json!({"name": "v", "path": "/srv/x", "lock": "persistent-reservation"}), "path"),
        invalid(
            json!({"name": "v", "path": "/dev/x", "lock": "persistent-reservation", "read_only": true}),
            "lock",
        ),
        Case::post(volumes, with("name", json!("shared")), 409, "name_taken", Some("name")),
        Case::new(Method::DELETE, "/v1/volumes/shared", 409, "in_use", None),
        Case::new(Method::DELETE, "/v1/volumes/nothing", 404, "not_found", None),
        Case::new(Method::DELETE, "/v1/volumes/shared", 412, "revision_mismatch", Some("If-Match"))
            .header("if-match", "\"999\""),
        Case::new(Method::GET, "/v1/volumes?limit=0", 400, "invalid_query", Some("limit")),
        of_vm(json!(["nothing"]), 422, "unknown_reference", Some("volumes")),
        of_vm(json!(["shared"]), 409, "in_use", None),
        of_vm(json!(vec!["shared"; 100]), 422, "invalid_field", Some("volumes")),
    ]
}
