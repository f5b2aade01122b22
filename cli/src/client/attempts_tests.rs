//! The client against real servers that answer, refuse, hang and break.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::client::test_server::{Act, Got, TestServer, nobody};

fn client(addresses: &[SocketAddr]) -> Client {
    let endpoints = addresses.iter().map(|address| Endpoint::parse(&address.to_string()).unwrap());
    Client::new(endpoints.collect()).with_patience(Duration::from_millis(1500))
}

async fn write(client: &Client) -> Result<Value, Error> {
    client.write(Method::POST, "/v1/vms", &json!({"name": "web"}), "holm vm show web").await
}

fn is_health(got: &Got) -> bool {
    got.target == "/health"
}

async fn healthy(act: impl Fn(usize) -> Act + Send + Sync + 'static) -> TestServer {
    TestServer::start(move |before, got| if is_health(got) { Act::health(7) } else { act(before) }).await
}

#[tokio::test]
async fn a_read_goes_to_the_next_endpoint_and_stays_there() {
    let server = healthy(|_| Act::json(200, &json!({"x": 1}))).await;
    let client = client(&[nobody().await, server.address]);
    for _ in 0..2 {
        let read: Value = client.get("/v1/cluster").await.unwrap();
        assert_eq!(read, json!({"x": 1}));
    }
    assert_eq!(client.order().collect::<Vec<_>>(), [1, 0]);
}

#[tokio::test]
async fn a_write_without_an_answer_is_repeated_elsewhere_with_the_same_key_and_revision() {
    let breaking = healthy(|_| Act::Close).await;
    let working = TestServer::start(|_, got| match is_health(got) {
        true => Act::health(99),
        false => Act::json(201, &json!({"ok": true})),
    });
    let working = working.await;
    let client = client(&[breaking.address, working.address]);
    assert_eq!(write(&client).await.unwrap(), json!({"ok": true}));
    let (first, second) = (&breaking.got()[0], &working.got()[0]);
    assert!(first.header(header::IDEMPOTENCY_KEY).is_some_and(|key| key.len() >= 32));
    assert_eq!(first.header(header::IDEMPOTENCY_KEY), second.header(header::IDEMPOTENCY_KEY));
    assert_eq!((first.header(header::SEEN), second.header(header::SEEN)), (Some("7"), Some("7")));
    assert_eq!(first.body, second.body);
}

#[tokio::test]
async fn two_writes_have_two_keys() {
    let server = healthy(|_| Act::json(201, &json!({}))).await;
    let client = client(&[server.address]);
    write(&client).await.unwrap();
    write(&client).await.unwrap();
    let keys: Vec<_> =
        server.got().iter().map(|got| got.header(header::IDEMPOTENCY_KEY).map(str::to_owned)).collect();
    assert_ne!(keys[0], keys[1]);
}

#[tokio::test]
async fn unavailable_and_unknown_are_tried_again_until_there_is_an_answer() {
    let server = healthy(|before| match before {
        0 => Act::problem(503, "unavailable", "no leader"),
        1 => Act::problem(504, "outcome_unknown", "the leader went away"),
        _ => Act::json(201, &json!({"ok": true})),
    });
    let server = server.await;
    assert_eq!(write(&client(&[server.address])).await.unwrap(), json!({"ok": true}));
    assert_eq!(server.got().len(), 3);
}

#[tokio::test]
async fn a_write_that_may_have_happened_ends_as_unknown_with_the_way_to_find_out() {
    let server = healthy(|before| match before {
        0 => Act::Close,
        _ => Act::problem(503, "unavailable", "no leader"),
    });
    let server = server.await;
    let error = write(&client(&[server.address])).await.unwrap_err();
    assert_eq!(error.exit_code(), 3);
    let Error::OutcomeUnknown { hint: Some(hint), .. } = error else { panic!("{error:?}") };
    assert!(hint.contains("`holm vm show web`"), "{hint}");
}

#[tokio::test]
async fn a_write_that_never_left_is_unreachable_not_unknown() {
    let server = healthy(|_| Act::problem(503, "unavailable", "no leader")).await;
    let error = write(&client(&[server.address])).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("no leader"), "{error}");
}

#[tokio::test]
async fn a_hanging_daemon_is_given_up_in_time() {
    let server = TestServer::start(|_, _| Act::Hang).await;
    let error = write(&client(&[server.address])).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "the write was not sent yet: {error:?}");
    let server = healthy(|_| Act::Hang).await;
    let error = write(&client(&[server.address])).await.unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown { .. }), "{error:?}");
}

#[tokio::test]
async fn an_expired_key_after_an_unknown_attempt_stays_unknown() {
    let server = healthy(|before| match before {
        0 => Act::Close,
        _ => Act::problem(409, "expired", "too old"),
    });
    let server = server.await;
    let error = write(&client(&[server.address])).await.unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown { .. }), "{error:?}");
}

#[tokio::test]
async fn a_refusal_is_final() {
    let server = healthy(|_| Act::problem(409, "name_taken", "the VM name `web` is taken")).await;
    let error = write(&client(&[server.address])).await.unwrap_err();
    assert_eq!((error.exit_code(), error.to_string()), (1, "the VM name `web` is taken".into()));
    assert_eq!(server.got().len(), 1);
}

#[tokio::test]
async fn nobody_there_is_said_at_once() {
    let (first, second) = (nobody().await, nobody().await);
    let error = client(&[first, second]).get::<Value>("/v1/cluster").await.unwrap_err();
    let expected = format!(
        "cannot reach Holm (http://{first}: connection refused; http://{second}: connection refused)"
    );
    assert_eq!((error.exit_code(), error.to_string()), (3, expected));
}

#[tokio::test]
async fn another_service_is_recognised() {
    let web = TestServer::start(|_, _| Act::Answer(404, "text/html", "<html>".into())).await;
    let error = client(&[web.address]).get::<Value>("/v1/cluster").await.unwrap_err();
    assert!(error.to_string().starts_with("this is not the API of a Holm node"), "{error}");
    let error = write(&client(&[web.address])).await.unwrap_err();
    assert!(error.to_string().starts_with("this is not the API of a Holm node"), "{error}");
    assert_eq!(
        web.got().iter().filter(|got| got.method == Method::POST).count(),
        0,
        "nothing is written there"
    );
}

#[tokio::test]
async fn a_tls_port_is_recognised() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 1024]).await;
            // A TLS alert: fatal, unexpected message.
            let _ = stream.write_all(&[0x15, 0x03, 0x01, 0x00, 0x02, 0x02, 0x0a]).await;
        }
    });
    let error = client(&[address]).get::<Value>("/v1/cluster").await.unwrap_err();
    serving.abort();
    assert!(error.to_string().contains("does not speak HTTP"), "{error}");
}

#[tokio::test]
async fn a_list_is_read_to_its_last_page() {
    let server = TestServer::start(|_, got| match got.target.contains("marker=b") {
        false => Act::json(200, &json!({"items": [1, 2], "next": "b", "revision": 3})),
        true => Act::json(200, &json!({"items": [3], "next": null, "revision": 3})),
    });
    let server = server.await;
    let items: Vec<u32> = client(&[server.address]).list("/v1/vms", &json!({})).await.unwrap();
    assert_eq!(items, [1, 2, 3]);
}

#[tokio::test]
async fn events_go_on_after_a_broken_stream_without_a_gap_or_a_repetition() {
    let event = |revision: u64, n: u32| {
        let event = json!({
            "revision": revision, "n": n, "at": "2026-11-30T12:00:00.000Z", "kind": "vm", "id": "i",
            "name": "web", "what": "created", "message": "", "actor": "admin",
        });
        format!("id: {revision}\ndata: {event}\n\n")
    };
    let server = TestServer::start(move |before, _| {
        let body = match before {
            0 => event(5, 0) + &event(6, 0),
            1 => event(6, 0) + &event(6, 1) + &event(7, 0),
            _ => return Act::Hang,
        };
        Act::Answer(200, "text/event-stream", body)
    });
    let server = server.await;
    let client = client(&[server.address]);
    let mut events = crate::client::events::Events::new(&client, Some(4));
    let mut places = Vec::new();
    for _ in 0..4 {
        let event = events.next().await.unwrap();
        places.push((event.revision, event.n));
    }
    assert_eq!(places, [(5, 0), (6, 0), (6, 1), (7, 0)]);
    let asked: Vec<_> = server.got().into_iter().map(|got| got.target).collect();
    assert_eq!(asked[..2], ["/v1/events?follow=true&since=4", "/v1/events?follow=true&since=5"]);
}

#[tokio::test]
async fn a_broken_upload_is_begun_again_on_the_next_endpoint_with_the_same_key() {
    let breaking = healthy(|_| Act::Close).await;
    let working = healthy(|_| Act::json(201, &json!({"ok": true}))).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("disk");
    std::fs::write(&file, vec![7; 600_000]).unwrap();
    let upload = crate::client::upload::Upload {
        target: "/v1/images?name=x".into(),
        file: &file,
        size_bytes: 600_000,
        sha256: "ab".into(),
        look: "holm image show x".into(),
        sent_bytes: std::sync::Arc::default(),
    };
    let client = client(&[breaking.address, working.address]);
    let answer: Value = client.upload(&upload).await.unwrap();
    assert_eq!(answer, json!({"ok": true}));
    let (first, second) = (&breaking.got()[0], &working.got()[0]);
    assert_eq!(first.header(header::IDEMPOTENCY_KEY), second.header(header::IDEMPOTENCY_KEY));
    assert_eq!((second.body.len(), second.header(header::SHA256)), (600_000, Some("ab")));
    assert_eq!(upload.sent_bytes.load(std::sync::atomic::Ordering::Relaxed), 600_000);
}
