//! openraft's way to the other members. A client is only a name: it connects when first used.

use std::time::Duration;

use bytes::Bytes;
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable};
use openraft::network::{RPCOption, RPCTypes, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use std::sync::Arc;
use uuid::Uuid;

use crate::peers::{CallError, Lane, Peers};
use crate::rpc::{CHUNK_BYTES, Chunk};
use crate::types::{Node, TypeConfig, Vote, node_id};

type Snapshot = openraft::alias::SnapshotOf<TypeConfig, Bytes>;

/// Longest transfer and installation of one snapshot.
pub(crate) const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest wait for a follower to make entries durable.
const APPEND_TIMEOUT: Duration = Duration::from_secs(3);

/// Makes clients.
pub(crate) struct Factory {
    pub(crate) peers: Arc<Peers>,
    pub(crate) node: u64,
}

/// One use of one peer.
pub(crate) struct Client {
    peers: Arc<Peers>,
    node: u64,
    target: u64,
    append_lane: Lane,
}

impl Factory {
    fn client(&self, target: u64, node: &Node, append_lane: Lane) -> Client {
        self.peers.learn_from_membership(node_id(target), &node.addr);
        Client { peers: Arc::clone(&self.peers), node: self.node, target, append_lane }
    }
}

impl RaftNetworkFactory<TypeConfig> for Factory {
    type Network = Client;

    async fn new_client(&mut self, target: u64, node: &Node) -> Client {
        self.client(target, node, Lane::Log)
    }

    async fn new_heartbeat_client(&mut self, target: u64, node: &Node) -> Client {
        self.client(target, node, Lane::Pulse)
    }
}

impl Client {
    fn error(&self, action: RPCTypes, timeout: Duration, error: CallError) -> RPCError<TypeConfig> {
        match error {
            CallError::Timeout(_) => {
                RPCError::Timeout(Timeout { action, id: self.node, target: self.target, timeout })
            }
            CallError::Broken(..) => RPCError::Network(NetworkError::from_string(error)),
            _ => RPCError::Unreachable(Unreachable::from_string(error)),
        }
    }

    async fn send_snapshot(
        &self,
        vote: Vote,
        bytes: Bytes,
    ) -> Result<SnapshotResponse<TypeConfig>, CallError> {
        let _permit = self.peers.snapshots.acquire().await;
        let transfer = Uuid::new_v4();
        let total = bytes.len() as u64;
        let mut offset = 0;
        loop {
            let end = bytes.len().min(offset + CHUNK_BYTES);
            let chunk =
                Chunk { transfer, vote, offset: offset as u64, total, bytes: bytes.slice(offset..end) };
            let answer = self.peers.call(
                node_id(self.target),
                Lane::Snapshot,
                SNAPSHOT_TIMEOUT,
                |client, context, caller| async move { client.snapshot(context, caller, chunk).await },
            );
            if let Some(vote) = answer.await? {
                return Ok(SnapshotResponse::new(vote));
            }
            offset = end;
        }
    }
}

impl RaftNetworkV2<TypeConfig> for Client {
    type SnapshotData = Bytes;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        let timeout = match self.append_lane {
            // A follower whose disk stalls for a moment need not be sent the same entries again.
            Lane::Log => option.hard_ttl().max(APPEND_TIMEOUT),
            _ => option.soft_ttl(),
        };
        self.peers
            .call(node_id(self.target), self.append_lane, timeout, |client, context, caller| async move {
                client.append(context, caller, request).await
            })
            .await
            .map_err(|error| self.error(RPCTypes::AppendEntries, timeout, error))
    }

    async fn vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        let timeout = option.soft_ttl();
        self.peers
            .call(node_id(self.target), Lane::Pulse, timeout, |client, context, caller| async move {
                client.vote(context, caller, request).await
            })
            .await
            .map_err(|error| self.error(RPCTypes::Vote, timeout, error))
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        let timeout = option.soft_ttl();
        self.peers
            .call(node_id(self.target), Lane::Pulse, timeout, |client, context, caller| async move {
                client.pre_vote(context, caller, request).await
            })
            .await
            .map_err(|error| self.error(RPCTypes::Vote, timeout, error))
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, RPCError<TypeConfig>> {
        let timeout = option.soft_ttl();
        self.peers
            .call(node_id(self.target), Lane::Pulse, timeout, |client, context, caller| async move {
                client.transfer_leader(context, caller, request).await
            })
            .await
            .map_err(|error| self.error(RPCTypes::TransferLeader, timeout, error))
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let sent = tokio::time::timeout(SNAPSHOT_TIMEOUT, self.send_snapshot(vote, snapshot.snapshot));
        tokio::select! {
            closed = cancel => Err(StreamingError::Closed(closed)),
            sent = sent => match sent {
                Ok(result) => {
                    result.map_err(|error| self.error(RPCTypes::InstallSnapshot, SNAPSHOT_TIMEOUT, error).into())
                }
                Err(_) => Err(StreamingError::Timeout(Timeout {
                    action: RPCTypes::InstallSnapshot,
                    id: self.node,
                    target: self.target,
                    timeout: SNAPSHOT_TIMEOUT,
                })),
            },
        }
    }
}
