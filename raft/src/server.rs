//! Answers the other members' calls.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use holm_model::Proposal;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, TransferLeaderResponse, VoteRequest,
    VoteResponse,
};
use tarpc::context::Context;
use tarpc::server::{BaseChannel, Channel};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::core::{Core, deadline_after};
use crate::leases::{Heartbeat, HeartbeatAnswer};
use crate::peers::prepare;
use crate::rpc::{
    Answer, Caller, Chunk, JoinRefused, JoinRequest, Joined, Peer, Proposed, REQUESTS, Refused, Standing,
    transport,
};
use crate::types::{TypeConfig, Vote};
use crate::wire::{Listener, Stream};
use crate::{blocking, snapshot};

/// Longest wait for a forwarded proposal, which goes on after whoever forwarded it gave up.
const PROPOSAL: Duration = Duration::from_secs(60);
/// Largest snapshot accepted.
const SNAPSHOT_BYTES: u64 = 1 << 30;

type SnapshotMeta = openraft::alias::SnapshotMetaOf<TypeConfig>;
type Snapshot = openraft::alias::SnapshotOf<TypeConfig, Bytes>;

/// A snapshot that is being received.
pub(crate) struct Incoming {
    transfer: Uuid,
    bytes: Vec<u8>,
}

/// Serves connections until aborted.
pub(crate) async fn run(core: Arc<Core>, listener: Listener) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(serve(Server(Arc::clone(&core)), stream));
            }
            Err(error) => {
                // Out of file descriptors, most likely; others must get a chance to close theirs.
                tracing::warn!(%error, "cannot accept a peer connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve(server: Server, stream: Stream) {
    if let Err(error) = prepare(&stream) {
        tracing::debug!(%error, "a peer connection closed at once");
        return;
    }
    let channel = BaseChannel::with_defaults(transport(stream)).max_concurrent_requests(REQUESTS);
    channel.execute(server.serve()).for_each(|request| async { drop(tokio::spawn(request)) }).await;
}

#[derive(Clone)]
struct Server(Arc<Core>);

impl Server {
    /// The core, if the call is meant for it.
    fn admit(&self, caller: Caller) -> Answer<&Arc<Core>> {
        let core = &self.0;
        caller.check(core.identity.cluster, core.node())?;
        Ok(core)
    }

    /// The same, if the caller is a member as far as this node knows. A leader that was removed still hands
    /// over; nothing else of a removed node is of use, and it should learn what it is.
    fn admit_member(&self, caller: Caller) -> Answer<&Arc<Core>> {
        let core = self.admit(caller)?;
        let published = core.published.borrow();
        let state = &published.state;
        if caller.from <= state.last_node_id && !state.nodes.contains_key(&caller.from) {
            return Err(Refused::Removed);
        }
        Ok(core)
    }
}

fn failed(error: impl std::fmt::Display) -> Refused {
    Refused::Failed(error.to_string())
}

impl Peer for Server {
    async fn append(
        self,
        _: Context,
        caller: Caller,
        request: AppendEntriesRequest<TypeConfig>,
    ) -> Answer<AppendEntriesResponse<TypeConfig>> {
        self.admit(caller)?.raft.append_entries(request).await.map_err(failed)
    }

    async fn vote(
        self,
        _: Context,
        caller: Caller,
        request: VoteRequest<TypeConfig>,
    ) -> Answer<VoteResponse<TypeConfig>> {
        self.admit_member(caller)?.raft.vote(request).await.map_err(failed)
    }

    async fn pre_vote(
        self,
        _: Context,
        caller: Caller,
        request: VoteRequest<TypeConfig>,
    ) -> Answer<VoteResponse<TypeConfig>> {
        self.admit_member(caller)?.raft.pre_vote(request).await.map_err(failed)
    }

    async fn transfer_leader(
        self,
        _: Context,
        caller: Caller,
        request: TransferLeaderRequest<TypeConfig>,
    ) -> Answer<TransferLeaderResponse<TypeConfig>> {
        self.admit(caller)?.raft.handle_transfer_leader(request).await.map_err(failed)
    }

    async fn snapshot(self, _: Context, caller: Caller, chunk: Chunk) -> Answer<Option<Vote>> {
        let core = self.admit(caller)?;
        let vote = chunk.vote;
        let Some(bytes) = receive(&mut core.incoming.lock(), chunk)? else { return Ok(None) };
        let decoded = bytes.clone();
        let decoded = blocking::run(move || snapshot::decode(&decoded)).await.map_err(failed)?;
        let (header, state) = decoded.map_err(failed)?;
        if let Some(cluster) = snapshot::stranger(&state, core.identity.cluster) {
            return Err(failed(format!("the snapshot belongs to cluster {cluster}")));
        }
        let meta = SnapshotMeta { last_log_id: header.last_log_id, last_membership: header.membership };
        let snapshot = Snapshot { meta, snapshot: bytes };
        let response = core.raft.install_full_snapshot(vote, snapshot).await.map_err(failed)?;
        Ok(Some(response.vote))
    }

    async fn propose(self, _: Context, caller: Caller, proposal: Bytes, timeout_ms: u64) -> Answer<Proposed> {
        let core = Arc::clone(self.admit_member(caller)?);
        let proposal: Proposal = rmp_serde::from_slice(&proposal).map_err(failed)?;
        let deadline = deadline_after(Duration::from_millis(timeout_ms).min(PROPOSAL));
        // Apart from this call, which tarpc drops at its deadline.
        let task = tokio::spawn(async move { core.propose_as_leader(proposal, deadline).await });
        Ok(task.await.unwrap_or_else(|error| Proposed::Unknown(error.to_string())))
    }

    async fn read_index(self, _: Context, caller: Caller) -> Answer<u64> {
        self.admit_member(caller)?.rounds.read_index().await.map_err(failed)
    }

    async fn standing(self, _: Context, caller: Caller) -> Answer<Standing> {
        let core = self.admit_member(caller)?;
        let leader = core.leader();
        let leader_addr = leader.and_then(|leader| core.addr_of(leader));
        Ok(Standing { leader, leader_addr })
    }

    async fn heartbeat(self, _: Context, caller: Caller, beat: Heartbeat) -> Answer<HeartbeatAnswer> {
        self.admit_member(caller)?.grant(caller.from, beat).await
    }

    async fn join(self, _: Context, request: JoinRequest) -> Result<Joined, JoinRefused> {
        let core = self.0;
        let task = tokio::spawn(async move { core.admit_joining(request).await });
        task.await.unwrap_or_else(|error| Err(JoinRefused::Unavailable(error.to_string())))
    }
}

/// Adds a chunk; answers the whole when it is complete.
fn receive(incoming: &mut Option<Incoming>, chunk: Chunk) -> Answer<Option<Bytes>> {
    if chunk.total > SNAPSHOT_BYTES {
        return Err(failed(format!("a snapshot of {} bytes is too large", chunk.total)));
    }
    if chunk.offset == 0 {
        *incoming = Some(Incoming { transfer: chunk.transfer, bytes: Vec::new() });
    }
    let received = incoming
        .as_mut()
        .filter(|incoming| incoming.transfer == chunk.transfer && incoming.bytes.len() as u64 == chunk.offset)
        .ok_or_else(|| failed("a chunk out of order; begin the snapshot again"))?;
    received.bytes.extend_from_slice(&chunk.bytes);
    if (received.bytes.len() as u64) < chunk.total {
        return Ok(None);
    }
    Ok(incoming.take().map(|incoming| incoming.bytes.into()))
}
