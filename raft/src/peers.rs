//! Connections to the other members. Four lanes a peer, so that a heartbeat never waits behind a snapshot
//! or a large entry. A lane connects when it is first used, and again, with growing pauses, after it broke.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holm_model::{ClusterId, NodeId};
use nix::sys::socket::{setsockopt, sockopt};
use tarpc::client::RpcError;
use tarpc::context::Context;
use tokio::sync::{Mutex, Semaphore};

use crate::guarded::Guarded;
use crate::rpc::{Caller, PeerClient, REQUESTS, Refused, transport};
use crate::wire::{Stream, tcp};

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Sent bytes that nobody acknowledges for this long end a connection.
const SILENCE: Duration = Duration::from_secs(4);
/// First and longest pause between two attempts to connect.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(640));
/// Snapshots sent at once.
const SNAPSHOTS: usize = 2;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Heartbeats and votes.
    Pulse,
    Log,
    Snapshot,
    /// Proposals, read indexes and the rest.
    Calls,
}

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// Nothing was sent.
    #[error("cannot connect to node {node} at {addr}: {source}")]
    Connect { node: NodeId, addr: String, source: io::Error },
    #[error("no address of node {0} is known")]
    NoAddress(NodeId),
    /// The peer looked at the envelope only.
    #[error("node {0} refused: {1}")]
    Refused(NodeId, Refused),
    #[error("node {0} did not answer in time")]
    Timeout(NodeId),
    /// It may or may not have been received.
    #[error("the connection to node {0} broke: {1}")]
    Broken(NodeId, RpcError),
}

impl CallError {
    /// The peer certainly did not act on the call.
    pub(crate) fn is_certain(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::NoAddress(_) | Self::Refused(..))
    }
}

/// All other members.
pub(crate) struct Peers {
    cluster: ClusterId,
    node: NodeId,
    peers: Guarded<BTreeMap<NodeId, Arc<Peer>>>,
    removed: Guarded<bool>,
    pub(crate) snapshots: Semaphore,
}

#[derive(Default)]
struct Peer {
    addrs: Guarded<Addrs>,
    lanes: [Mutex<Connection>; 4],
}

/// The replicated state knows best; before it is there, Raft's membership must do.
#[derive(Default)]
struct Addrs {
    state: Option<String>,
    membership: Option<String>,
}

#[derive(Default)]
struct Connection {
    client: Option<(String, PeerClient)>,
    pause: Duration,
    not_before: Option<Instant>,
}

impl Peers {
    pub(crate) fn new(cluster: ClusterId, node: NodeId) -> Self {
        let snapshots = Semaphore::new(SNAPSHOTS);
        Self { cluster, node, peers: Guarded::default(), removed: Guarded::default(), snapshots }
    }

    fn peer(&self, node: NodeId) -> Arc<Peer> {
        Arc::clone(self.peers.lock().entry(node).or_default())
    }

    /// As Raft's membership has it.
    pub(crate) fn learn_from_membership(&self, node: NodeId, addr: &str) {
        self.peer(node).addrs.lock().membership = Some(addr.to_owned());
    }

    /// As the applied state has it.
    pub(crate) fn learn_from_state(&self, node: NodeId, addr: &str) {
        let peer = self.peer(node);
        let mut addrs = peer.addrs.lock();
        if addrs.state.as_deref() != Some(addr) {
            addrs.state = Some(addr.to_owned());
        }
    }

    pub(crate) fn addr(&self, node: NodeId) -> Option<String> {
        let peer = self.peer(node);
        let addrs = peer.addrs.lock();
        addrs.state.clone().or_else(|| addrs.membership.clone())
    }

    /// Whom this node could talk to.
    pub(crate) fn known(&self) -> Vec<NodeId> {
        self.peers.lock().keys().copied().filter(|node| *node != self.node).collect()
    }

    /// A peer said that this node is no member any more.
    pub(crate) fn told_removed(&self) -> bool {
        *self.removed.lock()
    }

    /// The applied state says that this node is no member any more.
    pub(crate) fn note_removed(&self) {
        *self.removed.lock() = true;
    }

    /// Calls `node` on `lane`; `call` is given the client, the context and the envelope.
    pub(crate) async fn call<T, F>(
        &self,
        node: NodeId,
        lane: Lane,
        timeout: Duration,
        call: impl FnOnce(PeerClient, Context, Caller) -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = Result<Result<T, Refused>, RpcError>>,
    {
        let begun = Instant::now();
        let peer = self.peer(node);
        let addr = self.addr(node).ok_or(CallError::NoAddress(node))?;
        let connected = tokio::time::timeout(timeout, peer.lanes[lane as usize].lock()).await;
        let client = match connected {
            Ok(mut connection) => connection.client(&addr, timeout).await,
            Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut)),
        };
        let client = client.map_err(|source| CallError::Connect { node, addr: addr.clone(), source })?;
        let left = timeout.saturating_sub(begun.elapsed());
        let caller = Caller::new(self.cluster, self.node, node);
        match call(client.clone(), context(left), caller).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(refused)) => {
                if refused == Refused::Removed {
                    self.note_removed();
                }
                Err(CallError::Refused(node, refused))
            }
            Err(RpcError::DeadlineExceeded) => {
                // Raft's own calls have short deadlines and are repeated: a fresh connection finds the way
                // back after a partition sooner. Other calls may simply be slow, and share theirs.
                if lane != Lane::Calls {
                    peer.lanes[lane as usize].lock().await.client = None;
                }
                Err(CallError::Timeout(node))
            }
            Err(error) => {
                peer.lanes[lane as usize].lock().await.client = None;
                Err(CallError::Broken(node, error))
            }
        }
    }
}

impl Connection {
    async fn client(&mut self, addr: &str, timeout: Duration) -> io::Result<PeerClient> {
        if let Some((connected_to, client)) = &self.client
            && connected_to == addr
        {
            return Ok(client.clone());
        }
        self.client = None;
        if self.not_before.is_some_and(|at| Instant::now() < at) {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "it could not be reached a moment ago"));
        }
        match connect(addr, timeout.min(CONNECT_TIMEOUT)).await {
            Ok(client) => {
                self.pause = Duration::ZERO;
                self.not_before = None;
                self.client = Some((addr.to_owned(), client.clone()));
                Ok(client)
            }
            Err(error) => {
                self.pause = (self.pause * 2).clamp(PAUSE.0, PAUSE.1);
                self.not_before = Some(Instant::now() + self.pause);
                Err(error)
            }
        }
    }
}

/// A connection to whoever listens on `addr`.
pub(crate) async fn connect(addr: &str, timeout: Duration) -> io::Result<PeerClient> {
    let stream = tokio::time::timeout(timeout, Stream::connect(addr))
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    prepare(&stream)?;
    let mut config = tarpc::client::Config::default();
    config.max_in_flight_requests = REQUESTS;
    Ok(PeerClient::new(config, transport(stream)).spawn())
}

/// A dead peer must be noticed by the connection, without traffic too.
pub(crate) fn prepare(stream: &Stream) -> io::Result<()> {
    let Some(stream) = tcp(stream) else { return Ok(()) };
    let silence_ms = u32::try_from(SILENCE.as_millis()).expect("a few seconds");
    stream.set_nodelay(true)?;
    setsockopt(stream, sockopt::TcpUserTimeout, &silence_ms)?;
    setsockopt(stream, sockopt::KeepAlive, &true)?;
    setsockopt(stream, sockopt::TcpKeepIdle, &2)?;
    setsockopt(stream, sockopt::TcpKeepInterval, &1)?;
    setsockopt(stream, sockopt::TcpKeepCount, &3)?;
    Ok(())
}

/// A call that ends after `timeout`, here and there.
pub(crate) fn context(timeout: Duration) -> Context {
    let mut context = tarpc::context::current();
    context.deadline = Instant::now() + timeout;
    context
}
