//! How a node comes to be: the first of a cluster by itself, every other by asking a member. Both make an
//! identity and an empty store, once.

use std::io;
use std::path::Path;
use std::time::Duration;

use holm_model::command::{AddNode, InitCluster};
use holm_model::{Actor, ClusterId, Command, Entry, NodeId, Proposal, Reply, Revision, State, limits};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::core::deadline_after;
use crate::identity::{Error as IdentityError, Identity};
use crate::peers::{connect, context};
use crate::rpc::{JoinRefused, JoinRequest, Joined};
use crate::stamps::wall;
use crate::{durable, files, snapshot, store};

/// Holds the token of a join that is under way, so that a second attempt is the same attempt.
const TOKEN_FILE: &str = "join.json";
/// Longest wait for one member.
const TRY: Duration = Duration::from_secs(12);
const CONNECT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(200);

/// Why a node did not join.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("the cluster refused this node: {0}")]
    Rejected(String),
    #[error("no member let this node in within {0:?}: {1}")]
    Unavailable(Duration, String),
}

/// Makes the first node of a new cluster. Its first start does the rest.
///
/// # Errors
/// When a name is not allowed, `data_dir` already holds a node, or it cannot be written.
pub fn init_cluster(
    data_dir: &Path,
    cluster_name: &str,
    node_name: &str,
    peer_addr: &str,
    api_addr: &str,
) -> Result<Identity, IdentityError> {
    check_name("cluster name", cluster_name)?;
    check(node_name, peer_addr, api_addr)?;
    let cluster = ClusterId(Uuid::new_v4());
    let first_node = AddNode {
        name: node_name.to_owned(),
        peer_addr: peer_addr.to_owned(),
        api_addr: api_addr.to_owned(),
    };
    let init = InitCluster { cluster, name: cluster_name.to_owned(), first_node };
    rehearse(&init)?;
    prepare(data_dir)?;
    let identity = Identity::new(cluster, NodeId(1), node_name.to_owned(), Some(init));
    store::create(data_dir, &identity)?;
    identity.save(data_dir)?;
    Ok(identity)
}

/// The first start proposes `init`, where a refusal would reach nobody: so apply has its say here.
fn rehearse(init: &InitCluster) -> Result<(), IdentityError> {
    let actor = Actor { name: "init".to_owned(), project: String::new() };
    let command = Command::InitCluster(init.clone());
    let proposal = Proposal { key: None, seen: Revision(0), actor, command };
    match holm_model::apply(&mut State::default(), &Entry::new(wall(), proposal)).reply {
        Reply::Rejected(reason) => {
            Err(IdentityError::Invalid { field: "first node", message: reason.to_string() })
        }
        _ => Ok(()),
    }
}

/// Asks the members at `seeds`, in turn until `timeout`, for a place in their cluster.
///
/// # Errors
/// When a name is not allowed, `data_dir` already holds a node, the cluster refuses, or nobody answers.
pub async fn join_cluster(
    data_dir: &Path,
    seeds: &[String],
    node_name: &str,
    peer_addr: &str,
    api_addr: &str,
    timeout: Duration,
) -> Result<Identity, Error> {
    check(node_name, peer_addr, api_addr)?;
    prepare(data_dir)?;
    let request = JoinRequest {
        token: token(data_dir)?,
        name: node_name.to_owned(),
        peer_addr: peer_addr.to_owned(),
        api_addr: api_addr.to_owned(),
    };
    let joined = ask(seeds, &request, timeout).await?;
    let identity = Identity::new(joined.cluster, joined.node, node_name.to_owned(), None);
    store::create(data_dir, &identity).map_err(IdentityError::from)?;
    identity.save(data_dir)?;
    // Only a leftover from here on.
    let _ = files::remove_file(data_dir.join(TOKEN_FILE));
    Ok(identity)
}

async fn ask(seeds: &[String], request: &JoinRequest, timeout: Duration) -> Result<Joined, Error> {
    let deadline = deadline_after(timeout);
    let mut why = "no address of a member was given".to_owned();
    loop {
        for seed in seeds {
            let left = deadline.saturating_duration_since(Instant::now()).min(TRY);
            let client = match connect(seed, left.min(CONNECT)).await {
                Ok(client) => client,
                Err(error) => {
                    why = format!("cannot connect to {seed}: {error}");
                    continue;
                }
            };
            match client.join(context(left), request.clone()).await {
                Ok(Ok(joined)) => return Ok(joined),
                Ok(Err(JoinRefused::Rejected(reason))) => return Err(Error::Rejected(reason)),
                Ok(Err(JoinRefused::Unavailable(reason))) => why = format!("{seed}: {reason}"),
                Err(error) => why = format!("{seed}: {error}"),
            }
        }
        if Instant::now() + PAUSE >= deadline {
            return Err(Error::Unavailable(timeout, why));
        }
        sleep(PAUSE).await;
    }
}

fn check(node_name: &str, peer_addr: &str, api_addr: &str) -> Result<(), IdentityError> {
    check_name("node name", node_name)?;
    check_addr("peer address", peer_addr)?;
    check_addr("API address", api_addr)
}

fn check_name(field: &'static str, name: &str) -> Result<(), IdentityError> {
    limits::name(field, name).map_err(|reason| {
        let message = reason.to_string();
        let message =
            message.strip_prefix(field).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&message);
        IdentityError::Invalid { field, message: message.to_owned() }
    })
}

/// `host:port` that others can connect to.
fn check_addr(field: &'static str, addr: &str) -> Result<(), IdentityError> {
    let invalid = |message: String| Err(IdentityError::Invalid { field, message });
    let Some((host, port)) = addr.rsplit_once(':') else {
        return invalid(format!("`{addr}` has no port; write host:port"));
    };
    if host.is_empty() || matches!(host, "0.0.0.0" | "[::]") {
        return invalid(format!("`{addr}` is not an address that other nodes can reach; name this host"));
    }
    if port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Ok(());
    }
    invalid(format!("`{addr}` has no usable port; write host:port"))
}

fn prepare(data_dir: &Path) -> Result<(), IdentityError> {
    if Identity::exists(data_dir) {
        return Err(IdentityError::Exists(data_dir.to_owned()));
    }
    // Before a member is asked, which would give away a place.
    snapshot::refuse_leftover(data_dir)?;
    store::clear_unused(data_dir)?;
    files::create_dir_all(data_dir)
        .and_then(|()| durable::sync_parent(data_dir))
        .map_err(|source| IdentityError::Write(data_dir.to_owned(), source))
}

fn token(data_dir: &Path) -> Result<Uuid, IdentityError> {
    let path = data_dir.join(TOKEN_FILE);
    match files::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|source| IdentityError::Parse(path, source)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let token = Uuid::new_v4();
            let bytes = serde_json::to_vec(&token).expect("plain data always encodes into memory");
            durable::replace(&path, &bytes).map_err(|source| IdentityError::Write(path, source))?;
            Ok(token)
        }
        Err(error) => Err(IdentityError::Read(path, error)),
    }
}
