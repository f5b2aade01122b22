//! A VM's console and its log, from the node that holds the VM. Found by this node's own copy of the state
//! where possible, so that an operator reaches a guest while the cluster has no leader.

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt, stream};
use holm_api::header::CONSOLE_PROTOCOL;
use holm_api::{Code, LogQuery};
use holm_model::node::Node;
use holm_model::{State as Model, VmId};
use holm_vmm::hypervisor;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{Named, Query};
use super::openapi::ProjectHeader;
use super::problem::{Failure, Result};
use super::project::Project;
use super::proxy::forward;
use super::read::READ_TIMEOUT;
use super::vms::find;
use crate::app::{App, Shared};

/// What is shown of a log unless asked otherwise, and at most.
const LOG_BYTES: u64 = 64 * 1024;
const LOG_BYTES_MAX: u64 = 16 * 1024 * 1024;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(log)).routes(routes!(console))
}

/// Where a VM is.
enum Place {
    Here(VmId),
    There(Box<Node>),
}

async fn place(app: &App, project: &Project, name: &str) -> Result<Place> {
    let local = app.raft.state();
    if find(&local.state, project, name).is_ok_and(|vm| vm.claim.is_some()) {
        return placed(app, &local.state, project, name);
    }
    placed(app, &app.raft.read(READ_TIMEOUT).await?.state, project, name)
}

fn placed(app: &App, state: &Model, project: &Project, name: &str) -> Result<Place> {
    let vm = find(state, project, name)?;
    let Some(claim) = &vm.claim else {
        return Err(Failure::new(Code::WrongState, format!("VM `{}` is on no node", vm.name))
            .hint(format!("`holm vm explain {}` says why", vm.name)));
    };
    if claim.node == app.raft.node_id() {
        return Ok(Place::Here(vm.id));
    }
    match state.nodes.get(&claim.node) {
        Some(node) => Ok(Place::There(Box::new(node.clone()))),
        None => Err(Failure::new(Code::Internal, format!("VM `{}` is on a node that was removed", vm.name))),
    }
}

/// The end of what the guest printed, as raw bytes.
#[utoipa::path(get, path = "/v1/vms/{vm}/log", tag = "vms",
    params(("vm" = String, Path, description = "Name or id"), LogQuery, ProjectHeader),
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream")))]
async fn log(
    State(app): State<Shared>,
    project: Project,
    Named(name): Named,
    Query(query): Query<LogQuery>,
    request: Request,
) -> Result<Response> {
    let bytes = query.bytes.unwrap_or(LOG_BYTES);
    if !(1..=LOG_BYTES_MAX).contains(&bytes) {
        let detail = format!("is {bytes}, must be 1 to {LOG_BYTES_MAX}");
        return Err(Failure::new(Code::InvalidQuery, detail).field("bytes"));
    }
    let vm = match place(&app, &project, &name).await? {
        Place::Here(vm) => vm,
        Place::There(node) => return forward(&app, &node, request).await,
    };
    // Connected before the log is read, so that what is printed in between is in one of the two. A VM that
    // does not run has no console; its log simply ends.
    let live = if query.follow { app.hypervisor.console(vm).await.ok() } else { None };
    let printed = match app.hypervisor.log(vm, bytes).await {
        Ok(printed) => printed,
        Err(hypervisor::Error::NotHere) => Vec::new(),
        Err(error) => return Err(refused(error)),
    };
    let body = match live {
        Some(live) => {
            let stopping = app.stopping.clone().cancelled_owned();
            Body::from_stream(follow(printed, live).take_until(stopping))
        }
        None => Body::from(printed),
    };
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], body).into_response())
}

fn refused(error: hypervisor::Error) -> Failure {
    let detail = crate::app::chain(&error);
    match error {
        hypervisor::Error::NotHere
        | hypervisor::Error::Refused(_)
        | hypervisor::Error::NoLease(_)
        | hypervisor::Error::BuildFailed(_) => {
            Failure::new(Code::WrongState, detail).hint("a console is there while the VM runs")
        }
        hypervisor::Error::Unknown(_) | hypervisor::Error::NotYet(_) => {
            Failure::new(Code::Unavailable, detail).hint("try again")
        }
        hypervisor::Error::Io { .. } => Failure::new(Code::Internal, detail),
    }
}

/// The log, then what is printed from now on.
fn follow(printed: Vec<u8>, live: UnixStream) -> impl Stream<Item = std::io::Result<Bytes>> {
    let tail = printed.clone();
    let first = (!printed.is_empty()).then(|| Bytes::from(printed));
    let state = (first, Some(tail), live);
    stream::unfold(state, |(first, tail, mut live)| async move {
        if let Some(first) = first {
            return Some((Ok(first), (None, tail, live)));
        }
        let mut tail = tail;
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let length = match live.read(&mut buffer).await {
                Ok(0) | Err(_) => return None,
                Ok(length) => length,
            };
            let fresh = match tail.take() {
                Some(tail) => &buffer[overlap(&tail, &buffer[..length])..length],
                None => &buffer[..length],
            };
            if !fresh.is_empty() {
                return Some((Ok(Bytes::copy_from_slice(fresh)), (None, None, live)));
            }
        }
    })
}

/// How many bytes at the start of `live` end `printed` already.
fn overlap(printed: &[u8], live: &[u8]) -> usize {
    let most = printed.len().min(live.len());
    (0..=most).rev().find(|length| printed.ends_with(&live[..*length])).unwrap_or(0)
}

/// The guest's serial console: upgrades the connection to `holm-console`, then raw bytes both ways.
#[utoipa::path(get, path = "/v1/vms/{vm}/console", tag = "vms",
    params(
        ("vm" = String, Path, description = "Name or id"),
        ProjectHeader,
        ("Upgrade" = String, Header, description = "`holm-console`"),
        ("Connection" = String, Header, description = "`upgrade`"),
    ),
    responses((status = 101, description = "The console follows")))]
async fn console(
    State(app): State<Shared>,
    project: Project,
    Named(name): Named,
    mut request: Request,
) -> Result<Response> {
    if !wants_console(request.headers()) {
        let failure = Failure::new(Code::UpgradeRequired, "this path only speaks the console protocol");
        return Err(failure.field("Upgrade").hint(format!(
            "use `holm vm console {name}`, or send `Connection: upgrade` and `Upgrade: {CONSOLE_PROTOCOL}`"
        )));
    }
    let vm = match place(&app, &project, &name).await? {
        Place::Here(vm) => vm,
        Place::There(node) => return forward(&app, &node, request).await,
    };
    let mut guest = app.hypervisor.console(vm).await.map_err(refused)?;
    let client = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        if let Ok(client) = client.await {
            // Either end may go at any time; the other is closed then.
            let _ = tokio::io::copy_bidirectional(&mut TokioIo::new(client), &mut guest).await;
        }
    });
    let headers = [
        (header::CONNECTION, HeaderValue::from_static("upgrade")),
        (header::UPGRADE, HeaderValue::from_static(CONSOLE_PROTOCOL)),
    ];
    Ok((StatusCode::SWITCHING_PROTOCOLS, headers).into_response())
}

fn wants_console(headers: &HeaderMap) -> bool {
    let lists = |name: header::HeaderName, word: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(word))
    };
    lists(header::CONNECTION, "upgrade") && lists(header::UPGRADE, CONSOLE_PROTOCOL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_log_and_console_both_have_is_shown_once() {
        assert_eq!(overlap(b"boot\nlogin", b"login: "), 5);
        assert_eq!(overlap(b"boot\n", b"login: "), 0);
        assert_eq!(overlap(b"", b"x"), 0);
        assert_eq!(overlap(b"abc", b"abc"), 3);
    }

    #[test]
    fn the_upgrade_must_be_asked_for() {
        let headers = |connection: &str, upgrade: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONNECTION, connection.parse().unwrap());
            headers.insert(header::UPGRADE, upgrade.parse().unwrap());
            headers
        };
        assert!(wants_console(&headers("keep-alive, Upgrade", "Holm-Console")));
        assert!(!wants_console(&headers("keep-alive", "holm-console")));
        assert!(!wants_console(&headers("upgrade", "websocket")));
    }
}
