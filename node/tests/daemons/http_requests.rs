//! What REST promises beyond single requests: repeated writes, preconditions, pages, events, and that every
//! node answers for the whole cluster.

use std::time::Duration;

use bytes::Bytes;
use holm_vmm::test_guest;
use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::daemon::{self, Daemon, PATIENCE};

async fn small(daemon: &Daemon) {
    let flavor = json!({"name": "small", "vcpus": 1, "memory_mib": 64});
    daemon.post("/v1/flavors", flavor).await.expect(201);
    let image = "/v1/images?name=guest&kind=kernel";
    daemon.send(Method::POST, image, &[], kernel()).await.expect(201);
}

fn kernel() -> Bytes {
    test_guest::elf(test_guest::Variant::Banner).into()
}

fn vm(name: &str) -> Value {
    json!({"name": name, "flavor": "small", "image": "guest"})
}

async fn keyed(daemon: &Daemon, method: Method, path: &str, key: &str, body: &Value) -> daemon::Answer {
    let headers = [("content-type", "application/json"), ("idempotency-key", key)];
    daemon.send(method, path, &headers, body.to_string().into()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_write_has_one_effect_and_the_first_answer() {
    let daemon = Daemon::first().await;
    small(&daemon).await;
    let first = keyed(&daemon, Method::POST, "/v1/vms", "k1", &vm("web")).await.expect(202);
    let again = keyed(&daemon, Method::POST, "/v1/vms", "k1", &vm("web")).await.expect(202);
    assert_eq!(again.json["id"], first.json["id"]);
    assert_eq!((first.header("holm-duplicate"), again.header("holm-duplicate")), ("", "true"));
    assert_eq!(daemon.get("/v1/vms").await.json["items"].as_array().map(Vec::len), Some(1));
    daemon.until_status("web", "ACTIVE").await;

    // By name, although the name has no owner when it is repeated.
    let gone = keyed(&daemon, Method::DELETE, "/v1/vms/web", "k2", &json!({})).await.expect(202);
    daemon
        .until("web is gone", async |daemon| (daemon.get("/v1/vms/web").await.status == 404).then_some(()))
        .await;
    let again = keyed(&daemon, Method::DELETE, "/v1/vms/web", "k2", &json!({})).await.expect(202);
    assert_eq!(again.json["id"], gone.json["id"]);
    assert_eq!(again.header("holm-duplicate"), "true");
    keyed(&daemon, Method::DELETE, "/v1/vms/web", "k3", &json!({})).await.expect(404);
    // What was created is not created again, and says so.
    let late = keyed(&daemon, Method::POST, "/v1/vms", "k1", &vm("web")).await.expect(404);
    assert!(late.json["detail"].as_str().is_some_and(|detail| detail.contains("deleted since")));

    // A refusal by the cluster stands, for its key, when what it was about has changed.
    let small = json!({"name": "small", "vcpus": 1, "memory_mib": 64});
    let taken = keyed(&daemon, Method::POST, "/v1/flavors", "k6", &small).await.expect(409);
    daemon.send(Method::DELETE, "/v1/flavors/small", &[], Default::default()).await.expect(202);
    let again = keyed(&daemon, Method::POST, "/v1/flavors", "k6", &small).await.expect(409);
    assert_eq!((taken.header("holm-duplicate"), again.header("holm-duplicate")), ("", "true"));
    keyed(&daemon, Method::POST, "/v1/flavors", "k7", &small).await.expect(201);

    // One that this node made by itself is not remembered: the same request may be right later.
    keyed(&daemon, Method::POST, "/v1/vms", "k4", &json!({"name": "b", "flavor": "big", "image": "guest"}))
        .await
        .expect(422);
    let big = json!({"name": "big", "vcpus": 2, "memory_mib": 64});
    daemon.post("/v1/flavors", big).await.expect(201);
    keyed(&daemon, Method::POST, "/v1/vms", "k4", &json!({"name": "b", "flavor": "big", "image": "guest"}))
        .await
        .expect(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_goes_through_its_life_and_tells_where_it_is() {
    let daemon = Daemon::first().await;
    small(&daemon).await;
    let created = daemon.post("/v1/vms", vm("web")).await.expect(202);
    assert_eq!(created.header("location"), format!("/v1/vms/{}", created.json["id"].as_str().unwrap()));
    assert_eq!(created.header("etag"), format!("\"{}\"", created.json["revision"]));
    let active = daemon.until_status("web", "ACTIVE").await;
    assert_eq!((&active["node"], &active["node_up"]), (&json!("n1"), &json!(true)));
    assert_eq!(active["hypervisor"]["kind"], "simulated");
    assert_eq!(active["hypervisor"]["reason"], "asked for by configuration");

    let etag = daemon.get("/v1/vms/web").await.header("etag").to_owned();
    let stop = async |path: &str, etag: &str| {
        let headers = [("content-type", "application/json"), ("if-match", etag)];
        daemon.send(Method::POST, path, &headers, "{\"force\":true}".into()).await
    };
    stop("/v1/vms/web/stop", "\"1\"").await.expect(412);
    stop("/v1/vms/web/stop", &etag).await.expect(202);
    daemon.until_status("web", "SHUTOFF").await;
    daemon.post("/v1/vms/web/stop", json!({})).await.expect(409);
    daemon.post("/v1/vms/web/start", json!({})).await.expect(202);
    daemon.until_status("web", "ACTIVE").await;
    let reboot = daemon.post("/v1/vms/web/reboot", json!({"hard": true})).await.expect(202);
    assert_eq!(reboot.json["run"], 3);

    let explained = daemon.get("/v1/vms/web/explain").await.expect(200).json;
    assert_eq!(explained["hosts"][0]["verdict"], "holds");
    let used = &daemon.get("/v1/nodes/n1").await.json["inventory"]["VCPU"]["used"];
    assert_eq!(used, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_that_fits_nowhere_shows_why_on_every_host() {
    let daemon = Daemon::first().await;
    small(&daemon).await;
    let cordon = json!({"enabled": false, "reason": "new disk"}).to_string();
    let headers = [("content-type", "application/json")];
    daemon.send(Method::PATCH, "/v1/nodes/n1", &headers, cordon.into()).await.expect(200);
    daemon.post("/v1/vms", vm("web")).await.expect(202);
    let refused = daemon
        .until("the refusal is shown", async |daemon| {
            let vm = daemon.get("/v1/vms/web").await.json;
            vm["refusals"].as_array().is_some_and(|hosts| !hosts.is_empty()).then_some(vm)
        })
        .await;
    assert_eq!(refused["status"], "BUILD");
    assert_eq!(refused["refusals"][0]["message"], "the node is cordoned: new disk");
    assert!(refused["build_deadline"].is_string());
    let explained = daemon.get("/v1/vms/web/explain").await.expect(200).json;
    assert_eq!(explained["hosts"][0]["by"], "ComputeStatus");
    daemon.get("/v1/vms/web/log").await.expect(409);
    let uncordon = json!({"enabled": true}).to_string();
    daemon.send(Method::PATCH, "/v1/nodes/n1", &headers, uncordon.into()).await.expect(200);
    daemon.until_status("web", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_page_and_filter() {
    let daemon = Daemon::first().await;
    small(&daemon).await;
    for n in 0..5 {
        daemon.post("/v1/vms", vm(&format!("vm{n}"))).await.expect(202);
    }
    let mut names = Vec::new();
    let mut path = "/v1/vms?limit=2".to_owned();
    loop {
        let page = daemon.get(&path).await.expect(200).json;
        names.extend(page["items"].as_array().unwrap().iter().map(|vm| vm["name"].clone()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/vms?limit=2&marker={next}");
    }
    assert_eq!(names, ["vm0", "vm1", "vm2", "vm3", "vm4"], "oldest first, each once");
    for n in 0..5 {
        daemon.until_status(&format!("vm{n}"), "ACTIVE").await;
    }
    let count =
        async |query: &str| daemon.get(query).await.expect(200).json["items"].as_array().unwrap().len();
    assert_eq!(count("/v1/vms?name=vm3").await, 1);
    assert_eq!(count("/v1/vms?node=n1&status=ACTIVE").await, 5);
    assert_eq!(count("/v1/vms?status=SHUTOFF").await, 0);
    let stale = daemon.get("/v1/vms?consistency=stale").await.expect(200);
    assert_eq!(stale.header("holm-consistency"), "stale");
}

/// Reads `body` until what came contains `wanted`.
async fn read_until(body: &mut Incoming, wanted: &str) -> String {
    let mut text = String::new();
    let read = async {
        while !text.contains(wanted) {
            let frame = body.frame().await.expect("the stream goes on").expect("the stream is whole");
            text.push_str(&String::from_utf8_lossy(frame.data_ref().map_or(&[][..], |data| data)));
        }
    };
    let read = tokio::time::timeout(PATIENCE, read).await;
    assert!(read.is_ok(), "waited in vain for {wanted:?} in {text:?}");
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_followed_resumed_and_waited_for() {
    let daemon = Daemon::first().await;
    let list = daemon.get("/v1/events?follow=false&since=0").await.expect(200).json;
    assert_eq!(list["items"][0]["what"], "added");
    let now = list["revision"].as_u64().unwrap();

    let path = format!("/v1/events?since={now}");
    let mut stream = daemon.open(Method::GET, &path, &[], Bytes::new()).await.unwrap().into_body();
    small(&daemon).await;
    let text = read_until(&mut stream, "\"name\":\"guest\"").await;
    let flavor = text.lines().find(|line| line.contains("\"name\":\"small\"")).expect("the flavor came too");
    let flavor: Value = serde_json::from_str(flavor.strip_prefix("data: ").unwrap()).unwrap();
    drop(stream);

    // Comes back with the id it saw last: the flavor is not repeated, the image is.
    let last = flavor["revision"].to_string();
    let headers = [("last-event-id", last.as_str())];
    let mut stream =
        daemon.open(Method::GET, "/v1/events", &headers, Bytes::new()).await.unwrap().into_body();
    let text = read_until(&mut stream, "\"name\":\"guest\"").await;
    assert!(!text.contains("\"name\":\"small\""), "{text}");

    let future = daemon.get("/v1/cluster").await.json["revision"].as_u64().unwrap() + 3;
    let path = format!("/v1/events?since={future}");
    let mut stream = daemon.open(Method::GET, &path, &[], Bytes::new()).await.unwrap().into_body();
    for n in 0..6 {
        daemon
            .post("/v1/flavors", json!({"name": format!("f{n}"), "vcpus": 1, "memory_mib": 64}))
            .await
            .expect(201);
    }
    let text = read_until(&mut stream, "\"name\":\"f5\"").await;
    assert!(!text.contains("\"name\":\"f0\""), "what lies before `since` is not sent: {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn image_bytes_come_back_whole_and_in_parts() {
    let daemon = Daemon::first().await;
    small(&daemon).await;
    let whole = daemon.get("/v1/images/guest/data").await.expect(200);
    assert_eq!(whole.bytes, kernel());
    let image = daemon.get("/v1/images/guest").await.expect(200).json;
    assert_eq!(image["holders"], json!([{"id": 1, "name": "n1"}]));
    assert_eq!(whole.header("etag"), format!("\"{}\"", image["sha256"].as_str().unwrap()));
    let part = daemon
        .send(Method::GET, "/v1/images/guest/data", &[("range", "bytes=100-109")], Bytes::new())
        .await
        .expect(206);
    assert_eq!(part.bytes, kernel()[100..110]);
    assert_eq!(part.header("content-range"), format!("bytes 100-109/{}", kernel().len()));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_answers_for_the_whole_cluster() {
    let first = Daemon::first().await;
    let second = Daemon::joined("n2", &first).await;
    small(&first).await;
    // Read your writes on another node, image bytes included.
    second.get("/v1/flavors/small").await.expect(200);
    assert_eq!(second.get("/v1/images/guest/data").await.expect(200).bytes, kernel());

    for (name, on) in [("a", "n1"), ("b", "n2")] {
        let mut body = vm(name);
        body["node"] = json!(on);
        second.post("/v1/vms", body).await.expect(202);
        assert_eq!(first.until_status(name, "ACTIVE").await["node"], on);
    }
    for daemon in [&first, &second] {
        for name in ["a", "b"] {
            console_echoes(daemon, name).await;
            let log = daemon.get(&format!("/v1/vms/{name}/log")).await.expect(200);
            assert!(!log.bytes.is_empty(), "{name} through {}", daemon.name);
        }
    }
    let cluster = second.get("/v1/cluster").await.expect(200).json;
    assert_eq!(cluster["leader"]["name"], "n1");
    assert_eq!(cluster["node"]["name"], "n2");
    same_hash(&first, &second).await;
}

/// Types into the console and reads it back: the simulated guest echoes.
async fn console_echoes(daemon: &Daemon, vm: &str) {
    let path = format!("/v1/vms/{vm}/console");
    let headers = [("connection", "upgrade"), ("upgrade", "holm-console")];
    let mut response = daemon.open(Method::GET, &path, &headers, Bytes::new()).await.unwrap();
    assert_eq!(response.status(), 101, "{vm} through {}", daemon.name);
    let upgraded = hyper::upgrade::on(&mut response).await.expect("the connection is ours");
    let mut console = TokioIo::new(upgraded);
    console.write_all(b"ping\r").await.unwrap();
    let mut text = Vec::new();
    let read = async {
        let mut buffer = [0; 256];
        while !String::from_utf8_lossy(&text).contains("ping") {
            let length = console.read(&mut buffer).await.expect("the console answers");
            assert_ne!(length, 0, "the console stays open");
            text.extend_from_slice(&buffer[..length]);
        }
    };
    assert!(tokio::time::timeout(PATIENCE, read).await.is_ok(), "{vm} through {}: no echo", daemon.name);
}

/// Two nodes at the same log index have the same state.
async fn same_hash(one: &Daemon, other: &Daemon) {
    one.until("both are at the same index", async |one| {
        let ours = one.get("/v1/cluster/checkpoint").await.expect(200).json;
        let theirs = other.get("/v1/cluster/checkpoint").await.expect(200).json;
        let met = ours["log_index"] == theirs["log_index"];
        assert!(!met || ours["state_hash"] == theirs["state_hash"], "{ours} {theirs}");
        met.then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_followed() {
    let daemon = Daemon::first().await;
    small(&daemon).await;
    daemon.post("/v1/vms", vm("web")).await.expect(202);
    daemon.until_status("web", "ACTIVE").await;
    let path = "/v1/vms/web/log?follow=true";
    let mut stream = daemon.open(Method::GET, path, &[], Bytes::new()).await.unwrap().into_body();
    let log = daemon.get("/v1/vms/web/log").await.expect(200);
    read_until(&mut stream, String::from_utf8_lossy(&log.bytes).as_ref()).await;
    console_echoes(&daemon, "web").await;
    read_until(&mut stream, "ping").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_quorum_reads_and_writes_say_so_and_stale_reads_work() {
    let first = Daemon::first().await;
    let second = Daemon::joined("n2", &first).await;
    small(&first).await;
    second.get("/v1/flavors/small").await.expect(200);
    second
        .until("it votes", async |second| {
            let members = second.get("/v1/cluster").await.json["members"].clone();
            (members[1]["role"] == "voter").then_some(())
        })
        .await;
    drop(first);
    let begun = std::time::Instant::now();
    let read = second.get("/v1/flavors").await.expect(503);
    assert!(begun.elapsed() < Duration::from_secs(10), "bounded");
    assert_eq!(read.json["code"], "unavailable");
    assert_eq!(read.header("retry-after"), "1");
    second.get("/v1/flavors?consistency=stale").await.expect(200);
    let health = second.get("/health").await.expect(503);
    assert_eq!((&health.json["live"], &health.json["ready"]), (&json!(true), &json!(false)));
    let write = second.post("/v1/flavors", json!({"name": "f", "vcpus": 1, "memory_mib": 64})).await;
    assert!(["unavailable", "outcome_unknown"].contains(&write.json["code"].as_str().unwrap_or_default()));
}
