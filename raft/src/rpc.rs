//! The peer service: what members say to each other, over tarpc, in MessagePack frames of bounded length.
//! Every call names the cluster, who calls and who is meant, so that a stranger's node, or one whose
//! address was given to another, is refused. Nothing here decides; it hands over to [`crate::core`].

use bytes::Bytes;
use holm_model::{ClusterId, NodeId, Reply};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, TransferLeaderResponse, VoteRequest,
    VoteResponse,
};
use serde::{Deserialize, Serialize};
use tarpc::serde_transport::Transport;
use tarpc::tokio_util::codec::LengthDelimitedCodec;
use tokio_serde::formats::MessagePack;
use uuid::Uuid;

use crate::leases::{Heartbeat, HeartbeatAnswer};
use crate::types::{TypeConfig, Vote};
use crate::wire::Stream;

/// Longest frame. Entries of 1 MiB and ranges of 256 KiB fit with room to spare; snapshots go in chunks.
pub(crate) const FRAME_BYTES: usize = 8 << 20;
/// What a chunk of a snapshot carries.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;
/// Longest proposal.
pub(crate) const PROPOSAL_BYTES: usize = 1 << 20;
/// Requests served at once on one connection.
pub(crate) const REQUESTS: usize = 4096;
/// Peers of another protocol are refused.
const PROTOCOL: u32 = 1;

/// Opens every call between members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Caller {
    protocol: u32,
    pub(crate) cluster: ClusterId,
    pub(crate) from: NodeId,
    /// Whom the caller believes to reach.
    pub(crate) to: NodeId,
}

/// Why a call was not even looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub(crate) enum Refused {
    #[error("it speaks peer protocol {0}, this binary speaks {PROTOCOL}")]
    Protocol(u32),
    #[error("it belongs to cluster {0}")]
    WrongCluster(ClusterId),
    #[error("it is node {0}")]
    WrongNode(NodeId),
    #[error("this node was removed from the cluster")]
    Removed,
    #[error("{0}")]
    Failed(String),
}

pub(crate) type Answer<T> = Result<T, Refused>;

impl Caller {
    pub(crate) fn new(cluster: ClusterId, from: NodeId, to: NodeId) -> Self {
        Self { protocol: PROTOCOL, cluster, from, to }
    }

    /// Checks that the call is meant for `node` of `cluster`.
    pub(crate) fn check(&self, cluster: ClusterId, node: NodeId) -> Answer<()> {
        if self.protocol != PROTOCOL {
            return Err(Refused::Protocol(PROTOCOL));
        }
        if self.cluster != cluster {
            return Err(Refused::WrongCluster(cluster));
        }
        if self.to != node {
            return Err(Refused::WrongNode(node));
        }
        Ok(())
    }
}

/// Part of a snapshot. A chunk at offset 0 begins a transfer, the one that reaches `total` ends it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Chunk {
    pub(crate) transfer: Uuid,
    pub(crate) vote: Vote,
    pub(crate) offset: u64,
    pub(crate) total: u64,
    pub(crate) bytes: Bytes,
}

/// What a forwarded proposal came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Proposed {
    Committed {
        log_index: u64,
        reply: Reply,
    },
    /// Certainly not proposed; the leader, if known.
    NotLeader(Option<NodeId>),
    /// Certainly not proposed.
    Unavailable(String),
    Unknown(String),
}

/// What a member knows of Raft, for one that lost contact.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Standing {
    pub(crate) leader: Option<NodeId>,
    pub(crate) leader_addr: Option<String>,
}

/// A node that would like to be a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JoinRequest {
    /// Random, kept until the join is done: a repeated request gives the same node id.
    pub(crate) token: Uuid,
    pub(crate) name: String,
    pub(crate) peer_addr: String,
    pub(crate) api_addr: String,
}

/// A member by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Joined {
    pub(crate) cluster: ClusterId,
    pub(crate) node: NodeId,
}

/// No member, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum JoinRefused {
    /// The cluster says no; asking again changes nothing.
    Rejected(String),
    /// Ask again, or ask another member.
    Unavailable(String),
}

#[tarpc::service]
pub(crate) trait Peer {
    async fn append(
        caller: Caller,
        request: AppendEntriesRequest<TypeConfig>,
    ) -> Answer<AppendEntriesResponse<TypeConfig>>;
    async fn vote(caller: Caller, request: VoteRequest<TypeConfig>) -> Answer<VoteResponse<TypeConfig>>;
    async fn pre_vote(caller: Caller, request: VoteRequest<TypeConfig>) -> Answer<VoteResponse<TypeConfig>>;
    async fn transfer_leader(
        caller: Caller,
        request: TransferLeaderRequest<TypeConfig>,
    ) -> Answer<TransferLeaderResponse<TypeConfig>>;
    /// Answers the receiver's vote after the last chunk, when the snapshot is installed or outvoted.
    async fn snapshot(caller: Caller, chunk: Chunk) -> Answer<Option<Vote>>;
    /// `proposal` is MessagePack with named fields.
    async fn propose(caller: Caller, proposal: Bytes, timeout_ms: u64) -> Answer<Proposed>;
    /// The log index a read must have applied that begins now.
    async fn read_index(caller: Caller) -> Answer<u64>;
    async fn standing(caller: Caller) -> Answer<Standing>;
    async fn join(request: JoinRequest) -> Result<Joined, JoinRefused>;
    async fn heartbeat(caller: Caller, beat: Heartbeat) -> Answer<HeartbeatAnswer>;
}

/// A connection as tarpc sees it.
pub(crate) fn transport<Item, SinkItem>(
    stream: Stream,
) -> Transport<Stream, Item, SinkItem, MessagePack<Item, SinkItem>>
where
    Item: for<'de> Deserialize<'de>,
    SinkItem: Serialize,
{
    let framed = LengthDelimitedCodec::builder().max_frame_length(FRAME_BYTES).new_framed(stream);
    tarpc::serde_transport::new(framed, MessagePack::default())
}
