//! Bad input: every case is refused with a problem that names the field, and nothing has changed.

mod keep;
mod placement;
mod volumes;

use bytes::Bytes;
use holm_vmm::test_guest;
use hyper::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::daemon::Daemon;

const JSON: &[(&str, &str)] = &[("content-type", "application/json")];
const IMAGE: &str = "/v1/images?name=guest&kind=kernel";
const SHA_OF_NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// One case: the request, and how it is refused.
struct Case {
    method: Method,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Bytes,
    status: u16,
    code: &'static str,
    field: Option<&'static str>,
}

impl Case {
    fn new(method: Method, path: &str, status: u16, code: &'static str, field: Option<&'static str>) -> Self {
        let (path, headers, body) = (path.to_owned(), Vec::new(), Bytes::new());
        Self { method, path, headers, body, status, code, field }
    }

    fn post(path: &str, body: Value, status: u16, code: &'static str, field: Option<&'static str>) -> Self {
        Self::new(Method::POST, path, status, code, field).json(&body.to_string())
    }

    fn json(mut self, body: &str) -> Self {
        self.body = Bytes::copy_from_slice(body.as_bytes());
        self.header("content-type", "application/json")
    }

    fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    fn bytes(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }
}

fn flavor(name: &str, vcpus: i64, memory_mib: i64, disk_gib: i64) -> Value {
    json!({"name": name, "vcpus": vcpus, "memory_mib": memory_mib, "disk_gib": disk_gib})
}

fn vm(name: &str, flavor: &str, image: &str) -> Value {
    json!({"name": name, "flavor": flavor, "image": image})
}

fn names_and_sizes() -> Vec<Case> {
    let flavors = "/v1/flavors";
    let invalid = |body, field| Case::post(flavors, body, 422, "invalid_field", Some(field));
    let long = "a".repeat(64);
    vec![
        invalid(flavor("", 1, 64, 0), "name"),
        invalid(flavor(&long, 1, 64, 0), "name"),
        invalid(flavor("two words", 1, 64, 0), "name"),
        invalid(flavor("-a", 1, 64, 0), "name"),
        invalid(flavor("42", 1, 64, 0), "name"),
        invalid(flavor("héllo", 1, 64, 0), "name"),
        invalid(flavor("01a22c88-f0f8-7341-ad8a-0ee370c136ee", 1, 64, 0), "name"),
        invalid(flavor("a", 0, 64, 0), "vcpus"),
        invalid(flavor("a", -1, 64, 0), "vcpus"),
        invalid(flavor("a", 255, 64, 0), "vcpus"),
        invalid(flavor("a", 1 << 40, 64, 0), "vcpus"),
        invalid(flavor("a", 1, 0, 0), "memory_mib"),
        invalid(flavor("a", 1, -64, 0), "memory_mib"),
        invalid(flavor("a", 1, 65, 0), "memory_mib"),
        invalid(flavor("a", 1, 1 << 60, 0), "memory_mib"),
        invalid(flavor("a", 1, 64, -1), "disk_gib"),
        invalid(flavor("a", 1, 64, 1 << 60), "disk_gib"),
        invalid(json!({"name": 7, "vcpus": 1, "memory_mib": 64}), "name"),
        invalid(json!({"name": "a", "vcpus": 1.5, "memory_mib": 64}), "vcpus"),
        invalid(json!({"name": "a", "vcpus": null, "memory_mib": 64}), "vcpus"),
        Case::post(flavors, json!({"name": "a", "vcpus": 1}), 422, "missing_field", Some("memory_mib")),
        Case::post(
            flavors,
            json!({"name": "a", "vcpus": 1, "memory_mib": 64, "disk": 1}),
            422,
            "unknown_field",
            Some("disk"),
        ),
        Case::post(flavors, flavor("small", 1, 64, 0), 409, "name_taken", Some("name")),
        Case::post("/v1/vms", vm("", "small", "guest"), 422, "invalid_field", Some("name")),
        Case::post("/v1/vms", vm(&long, "small", "guest"), 422, "invalid_field", Some("name")),
        Case::post("/v1/vms", vm("web", "small", "guest"), 409, "name_taken", Some("name")),
    ]
}

fn references_and_states() -> Vec<Case> {
    let unknown = |body, field| Case::post("/v1/vms", body, 422, "unknown_reference", Some(field));
    let with = |key: &str, value: Value| {
        let mut body = vm("a", "small", "guest");
        body[key] = value;
        body
    };
    let missing = |method, path: &str| Case::new(method, path, 404, "not_found", None);
    vec![
        unknown(vm("a", "huge", "guest"), "flavor"),
        unknown(vm("a", "small", "nothing"), "image"),
        unknown(vm("a", "small", "01a22c88-f0f8-7341-ad8a-0ee370c136ee"), "image"),
        unknown(with("node", json!("n9")), "node"),
        unknown(with("kernel", json!("nothing")), "kernel"),
        Case::post("/v1/vms", with("kernel", json!("guest")), 422, "invalid_field", Some("kernel")),
        Case::post("/v1/vms", with("cmdline", json!("a\nb")), 422, "invalid_field", Some("cmdline")),
        Case::post(
            "/v1/vms",
            with("cmdline", json!("a".repeat(2049))),
            422,
            "invalid_field",
            Some("cmdline"),
        ),
        Case::post("/v1/vms", with("on_no_host", json!("pray")), 422, "invalid_field", Some("on_no_host")),
        Case::post(
            "/v1/vms",
            with("availability", json!("always")),
            422,
            "invalid_field",
            Some("availability"),
        ),
        missing(Method::GET, "/v1/vms/nope"),
        missing(Method::DELETE, "/v1/vms/nope"),
        missing(Method::POST, "/v1/vms/nope/start"),
        missing(Method::GET, "/v1/vms/nope/explain"),
        missing(Method::GET, "/v1/vms/nope/log"),
        missing(Method::GET, "/v1/vms/%ff"),
        missing(Method::GET, "/v1/vms/01a22c88-f0f8-7341-ad8a-0ee370c136ee"),
        missing(Method::DELETE, "/v1/images/nope"),
        missing(Method::DELETE, "/v1/flavors/nope"),
        missing(Method::GET, "/v1/nodes/99"),
        Case::new(Method::POST, "/v1/vms/web/start", 409, "wrong_state", None),
        Case::new(Method::DELETE, "/v1/images/guest", 409, "in_use", None),
        Case::new(Method::DELETE, "/v1/nodes/n1", 409, "wrong_state", None),
        Case::post("/v1/vms/web/stop", json!({"timeout_s": 0}), 422, "invalid_field", Some("timeout_s")),
        Case::post("/v1/vms/web/stop", json!({"timeout_s": 99_999}), 422, "invalid_field", Some("timeout_s")),
        Case::post(
            "/v1/vms/web/stop",
            json!({"force": true, "timeout_s": 5}),
            422,
            "invalid_field",
            Some("timeout_s"),
        ),
        Case::post("/v1/vms/web/reboot", json!({"hard": "yes"}), 422, "invalid_field", Some("hard")),
        Case::new(Method::PATCH, "/v1/nodes/n1", 422, "missing_field", Some("enabled"))
            .json("{\"reason\":\"x\"}"),
        Case::new(Method::PATCH, "/v1/nodes/n1", 422, "invalid_field", Some("reason"))
            .json("{\"enabled\":true,\"reason\":\"x\"}"),
    ]
}

fn requests_as_such() -> Vec<Case> {
    let create = |code, status| Case::new(Method::POST, "/v1/vms", status, code, None);
    let query = |path: &str, field| Case::new(Method::GET, path, 400, "invalid_query", Some(field));
    let header = |name: &'static str, value: &str, field| {
        let case = Case::post("/v1/vms/web/stop", json!({}), 400, "invalid_header", Some(field));
        case.header(name, value)
    };
    let method = |method, path: &str| Case::new(method, path, 405, "method_not_allowed", None);
    let large = format!("{{\"name\":\"{}\"}}", "a".repeat(300 * 1024));
    vec![
        create("malformed_json", 400).json("{\"name\": "),
        create("malformed_json", 400).json("hello"),
        create("malformed_json", 400).json(r#"{"name": "a", "flavor": "small", "image": "guest"} {}"#),
        create("malformed_json", 400).json(""),
        create("malformed_json", 400).bytes(&b"{\"name\":\"\xff\xfe\"}"[..]).header(JSON[0].0, JSON[0].1),
        create("malformed_json", 400).json(r#"["a", "small", "guest"]"#),
        create("malformed_json", 400).json(&"[".repeat(100_000)),
        Case::new(Method::POST, "/v1/vms", 415, "unsupported_media_type", Some("Content-Type"))
            .bytes(vm("a", "small", "guest").to_string()),
        create("body_too_large", 413).json(&large),
        method(Method::PUT, "/v1/vms"),
        method(Method::DELETE, "/v1/vms"),
        method(Method::POST, "/v1/vms/web"),
        method(Method::GET, "/v1/vms/web/stop"),
        method(Method::PATCH, "/v1/flavors/small"),
        Case::new(Method::GET, "/v2/vms", 404, "no_such_route", None),
        Case::new(Method::GET, "/v1/vms/web/console", 426, "upgrade_required", Some("Upgrade")),
        query("/v1/vms?limit=0", "limit"),
        query("/v1/vms?limit=1001", "limit"),
        query("/v1/vms?limit=ten", "limit"),
        query("/v1/vms?limit=-1", "limit"),
        query("/v1/vms?marker=x", "marker"),
        query("/v1/vms?status=active", "status"),
        query("/v1/vms?node=n9", "node"),
        query("/v1/vms?colour=red", "colour"),
        query("/v1/vms?consistency=sloppy", "consistency"),
        query("/v1/vms/web/log?bytes=0", "bytes"),
        query("/v1/events?since=x", "since"),
        query("/v1/events?limit=3", "limit"),
        Case::new(
            Method::DELETE,
            "/v1/nodes/n1?confirm_node_off=perhaps",
            400,
            "invalid_query",
            Some("confirm_node_off"),
        ),
        header("if-match", "7", "If-Match"),
        header("if-match", "*", "If-Match"),
        header("holm-seen", "soon", "Holm-Seen"),
        header("holm-seen", "999999999", "Holm-Seen"),
        Case::post("/v1/flavors", flavor("other", 1, 64, 0), 400, "invalid_header", Some("Holm-Seen"))
            .header("holm-seen", "18446744073709551615"),
        header("holm-project", "other", "Holm-Project"),
        header("idempotency-key", &"k".repeat(129), "Idempotency-Key"),
        header("idempotency-key", "two words", "Idempotency-Key"),
        Case::post("/v1/vms", vm("a", "small", "guest"), 400, "invalid_header", Some("If-Match"))
            .header("if-match", "\"1\""),
        Case::new(Method::DELETE, "/v1/vms/web", 412, "revision_mismatch", Some("If-Match"))
            .header("if-match", "\"1\""),
        Case::new(Method::DELETE, "/v1/flavors/small", 412, "revision_mismatch", Some("If-Match"))
            .header("if-match", "\"1\""),
        Case::post("/v1/flavors", flavor("other", 1, 64, 0), 422, "key_reused", Some("Idempotency-Key"))
            .header("idempotency-key", "the-flavor"),
        Case::new(Method::DELETE, "/v1/vms/web", 422, "key_reused", Some("Idempotency-Key"))
            .header("idempotency-key", "the-flavor"),
    ]
}

fn images() -> Vec<Case> {
    let upload = |query: &str, status, code, field| {
        Case::new(Method::POST, &format!("/v1/images?{query}"), status, code, field).bytes(kernel())
    };
    vec![
        upload("kind=kernel", 400, "invalid_query", Some("name")),
        upload("name=a", 400, "invalid_query", Some("kind")),
        upload("name=a&kind=floppy", 400, "invalid_query", Some("kind")),
        upload("name=&kind=kernel", 422, "invalid_field", Some("name")),
        upload("name=guest&kind=kernel", 409, "name_taken", Some("name")),
        upload("name=a&kind=qcow2-disk", 422, "invalid_field", Some("kind")),
        upload("name=a&kind=kernel", 422, "checksum_mismatch", Some("Holm-Sha256"))
            .header("holm-sha256", SHA_OF_NOTHING),
        upload("name=a&kind=kernel", 400, "invalid_header", Some("Holm-Sha256")).header("holm-sha256", "abc"),
        upload("name=a&kind=kernel", 400, "invalid_header", Some("Holm-Seen"))
            .header("holm-seen", "999999999"),
        upload("name=a&kind=kernel", 422, "invalid_field", Some("kind")).bytes("not a kernel"),
        upload("name=a&kind=kernel", 422, "invalid_field", Some("body")).bytes(""),
        upload("name=guest&kind=kernel", 409, "name_taken", Some("name")).bytes(vec![0; 4 << 20]),
        Case::new(Method::GET, "/v1/images/guest/data", 416, "range_not_satisfiable", Some("Range"))
            .header("range", "bytes=9999999-"),
        Case::new(Method::GET, "/v1/images/nope/data", 404, "not_found", None),
    ]
}

fn kernel() -> Bytes {
    test_guest::elf(test_guest::Variant::Banner).into()
}

/// What a user can see of the cluster, without what changes by itself.
async fn visible(daemon: &Daemon) -> Value {
    let items = async |path: &str| daemon.get(path).await.expect(200).json["items"].clone();
    let nodes = items("/v1/nodes").await;
    let nodes: Vec<_> = nodes
        .as_array()
        .into_iter()
        .flatten()
        .map(|node| {
            json!([
                node["id"],
                node["name"],
                node["enabled"],
                node["inventory"]["VCPU"],
                node["labels"],
                node["taints"],
                node["drain"],
                node["maintenance"]
            ])
        })
        .collect();
    let (vms, flavors, images) =
        (items("/v1/vms").await, items("/v1/flavors").await, items("/v1/images").await);
    let policy = daemon.get("/v1/scheduler").await.expect(200).json;
    let leases = daemon.get("/v1/policy").await.expect(200).json;
    let freeze = daemon.get("/v1/cluster").await.expect(200).json["freeze"].clone();
    let (aggregates, groups, quotas) =
        (items("/v1/aggregates").await, items("/v1/server-groups").await, items("/v1/quotas").await);
    let volumes = items("/v1/volumes").await;
    json!({
        "vms": vms, "flavors": flavors, "images": images, "nodes": nodes,
        "aggregates": aggregates, "groups": groups, "quotas": quotas, "policy": policy, "leases": leases,
        "freeze": freeze, "volumes": volumes,
    })
}

fn stored(daemon: &Daemon) -> usize {
    let images = daemon.path().join("data/images");
    walk(&images)
}

fn walk(dir: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { walk(&entry.path()) } else { 1 }).sum()
}

async fn furnished() -> Daemon {
    let daemon = Daemon::first().await;
    let headers = [JSON[0], ("idempotency-key", "the-flavor")];
    let body = flavor("small", 1, 64, 0).to_string().into();
    daemon.send(Method::POST, "/v1/flavors", &headers, body).await.expect(201);
    daemon.send(Method::POST, IMAGE, &[], kernel()).await.expect(201);
    daemon.post("/v1/vms", vm("web", "small", "guest")).await.expect(202);
    let rack = json!({"name": "rack", "nodes": ["n1"], "metadata": {"availability_zone": "rack-a"}});
    daemon.post("/v1/aggregates", rack).await.expect(201);
    daemon.post("/v1/server-groups", json!({"name": "pair", "policy": "affinity"})).await.expect(201);
    daemon.post("/v1/volumes", json!({"name": "shared", "path": "/srv/shared"})).await.expect(201);
    let mut duo = vm("duo", "small", "guest");
    (duo["group"], duo["availability_zone"]) = (json!("pair"), json!("rack-a"));
    duo["volumes"] = json!(["shared"]);
    daemon.post("/v1/vms", duo).await.expect(202);
    daemon.until_status("web", "ACTIVE").await;
    daemon.until_status("duo", "ACTIVE").await;
    daemon
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_refused_by_name_and_changes_nothing() {
    let daemon = furnished().await;
    let before = visible(&daemon).await;
    let groups = [
        names_and_sizes(),
        references_and_states(),
        requests_as_such(),
        images(),
        placement::cases(),
        keep::cases(),
        volumes::cases(),
    ];
    let mut wrong = Vec::new();
    for case in groups.into_iter().flatten() {
        wrong.extend(tried(&daemon, case, &before).await);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is wrong with the answer to `case`, if anything.
async fn tried(daemon: &Daemon, case: Case, before: &Value) -> Option<String> {
    let headers: Vec<_> = case.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let shown = String::from_utf8_lossy(&case.body[..case.body.len().min(80)]).into_owned();
    let what = format!("{} {} {headers:?} {shown}", case.method, case.path);
    let answer = match daemon.try_send(case.method, &case.path, &headers, case.body).await {
        Ok(answer) => answer,
        Err(error) => return Some(format!("{what}: no answer: {error}")),
    };
    let problem = &answer.json;
    let got = (answer.status.as_u16(), problem["code"].as_str(), problem["field"].as_str());
    if got != (case.status, Some(case.code), case.field) {
        return Some(format!("{what}: {problem}"));
    }
    let whole = answer.header("content-type") == "application/problem+json"
        && problem["status"] == case.status
        && problem["request_id"].as_str() == Some(answer.header("holm-request-id"))
        && problem["detail"].as_str().is_some_and(|detail| !detail.is_empty() && detail.len() < 2000);
    if !whole {
        return Some(format!("{what}: not a whole problem: {answer:?}"));
    }
    let after = visible(daemon).await;
    (after != *before).then(|| format!("{what}: it changed {before} to {after}"))
}

/// Sends raw bytes, then ends its side; the answer, if one comes.
async fn raw(daemon: &Daemon, request: &str, body: &[u8]) -> String {
    let mut stream = TcpStream::connect(&daemon.api).await.expect("the daemon listens");
    stream.write_all(request.as_bytes()).await.expect("the head is sent");
    stream.write_all(body).await.expect("the body is sent");
    stream.shutdown().await.expect("our side ends");
    let mut answer = Vec::new();
    // A reset instead of an answer is fine: the client is the one that broke off.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_breaks_off_leaves_nothing() {
    let daemon = furnished().await;
    let (before, files) = (visible(&daemon).await, stored(&daemon));
    let path = "/v1/images?name=half&kind=raw-disk";
    let half = vec![7; 100_000];
    for framing in ["content-length: 200000\r\n\r\n", "transfer-encoding: chunked\r\n\r\n20000\r\n"] {
        let head = format!("POST {path} HTTP/1.1\r\nhost: {}\r\n{framing}", daemon.api);
        let answer = raw(&daemon, &head, &half).await;
        assert!(answer.is_empty() || answer.contains("truncated_upload"), "{framing}: {answer}");
        daemon.until("the half is gone", async |daemon| (stored(daemon) == files).then_some(())).await;
        assert_eq!(visible(&daemon).await, before, "{framing}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_http_harms_nobody() {
    let daemon = furnished().await;
    let before = visible(&daemon).await;
    for junk in ["\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\u{16}\u{3}\u{1}\u{2}\u{0}"] {
        let answer = raw(&daemon, junk, &[]).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{junk:?}: {answer}");
    }
    let long = format!("GET /v1/vms/{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(100_000));
    raw(&daemon, &long, &[]).await;
    assert_eq!(visible(&daemon).await, before);
}
