//! From a proposal to its answer. The leader stamps, commits and applies; any other node forwards to it and
//! waits until it has applied the entry too. A try whose fate is uncertain is repeated only under a key, for
//! which apply acts once; otherwise it is reported as *unknown*, never as failed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holm_model::planted::{Plant, planted};
use holm_model::quota::VMS;
use holm_model::{Command, Entry, NodeId, Proposal, Reason, Reply, ResourceClass};
use openraft::errors::{ClientWriteError, ForwardReason, RaftError};
use tokio::time::{Instant, timeout_at};

use crate::core::{Core, deadline_after};
use crate::handle::{Committed, ProposeError};
use crate::peers::{CallError, Lane};
use crate::rpc::{PROPOSAL_BYTES, Proposed};
use crate::types::Data;

/// Pause before a try is repeated.
const PAUSE: Duration = Duration::from_millis(20);
/// The leader gives up this much before whoever forwarded, so that its answer still arrives.
const HEAD_START: Duration = Duration::from_millis(50);

impl Core {
    /// Proposes from any node.
    pub(crate) async fn propose(
        self: &Arc<Self>,
        proposal: Proposal,
        timeout: Duration,
    ) -> Result<Committed, ProposeError> {
        let deadline = deadline_after(timeout);
        let bytes = Bytes::from(rmp_serde::to_vec_named(&proposal).expect("plain data always encodes"));
        if bytes.len() > PROPOSAL_BYTES {
            let length = bytes.len();
            return Err(ProposeError::Unavailable(format!("a proposal of {length} bytes is too large")));
        }
        let mut unknown = None;
        loop {
            let (certain, why) = match self.try_once(&proposal, &bytes, deadline).await {
                Proposed::Committed { log_index, reply } => {
                    // The answer stands even when this replica lags.
                    self.wait_applied(log_index, deadline).await;
                    return Ok(Committed { log_index, reply });
                }
                Proposed::NotLeader(_) => (true, "the leader is changing".to_owned()),
                Proposed::Unavailable(why) => (true, why),
                Proposed::Unknown(why) => (false, why),
            };
            if !certain && planted(Plant::UnknownAsRefused) {
                return Err(ProposeError::Unavailable(why));
            }
            if !certain {
                if proposal.key.is_none() {
                    return Err(ProposeError::Unknown(why));
                }
                unknown = Some(why.clone());
            }
            if Instant::now() + PAUSE >= deadline || self.is_leaving() {
                return Err(match unknown {
                    Some(why) => ProposeError::Unknown(why),
                    None => ProposeError::Unavailable(why),
                });
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn try_once(self: &Arc<Self>, proposal: &Proposal, bytes: &Bytes, deadline: Instant) -> Proposed {
        if self.is_leader() {
            return self.propose_as_leader(proposal.clone(), deadline).await;
        }
        match self.find_leader(deadline).await {
            Ok(leader) if leader == self.node() => Proposed::NotLeader(None),
            Ok(leader) => self.forward(leader, bytes.clone(), deadline).await,
            Err(why) => Proposed::Unavailable(why),
        }
    }

    async fn forward(&self, leader: NodeId, bytes: Bytes, deadline: Instant) -> Proposed {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout_ms = u64::try_from(left.saturating_sub(HEAD_START).as_millis()).unwrap_or(u64::MAX);
        let answer = self.peers.call(leader, Lane::Calls, left, |client, context, caller| async move {
            client.propose(context, caller, bytes, timeout_ms).await
        });
        match self.while_leader(leader, answer).await {
            Some(Ok(proposed)) => proposed,
            Some(Err(error)) if error.is_certain() => Proposed::Unavailable(error.to_string()),
            Some(Err(error)) => Proposed::Unknown(error.to_string()),
            None => Proposed::Unknown(format!("node {leader} was replaced as leader before it answered")),
        }
    }

    /// Proposes here and waits until it is applied here; never forwards.
    pub(crate) async fn propose_as_leader(&self, proposal: Proposal, deadline: Instant) -> Proposed {
        loop {
            if !self.wait_leading(deadline).await {
                return Proposed::NotLeader(self.leader().filter(|leader| *leader != self.node()));
            }
            if planted(Plant::QuotaAtLeader)
                && let Some(refused) = self.over_quota(&proposal)
            {
                return refused;
            }
            match self.commit(proposal.clone(), deadline).await {
                // The lease is renewed by the next heartbeat.
                Proposed::Unavailable(_) if Instant::now() + PAUSE < deadline => {
                    tokio::time::sleep(PAUSE).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// What [`Plant::QuotaAtLeader`] checks instead of apply: the state as it is here and now.
    fn over_quota(&self, proposal: &Proposal) -> Option<Proposed> {
        let published = self.state();
        let (state, project) = (&published.state, proposal.actor.project.clone());
        let class = ResourceClass::Custom(VMS.to_owned());
        let limit = *state.quotas.get(&project)?.0.get(&class)?;
        let used = state.usage.get(&project).map_or(0, |usage| usage.get(&class));
        let wanted = match &proposal.command {
            Command::CreateVm(_) => 1,
            Command::CreateVms(batch) => batch.items.len() as u64,
            _ => return None,
        };
        let over = used + wanted > limit;
        let reason = Reason::Quota { project, class: VMS.to_owned(), wanted, used, limit };
        let (log_index, reply) = (published.log_index, Reply::Rejected(reason));
        over.then_some(Proposed::Committed { log_index, reply })
    }

    /// One try, with `BeginLeadership` applied or not.
    pub(crate) async fn commit(&self, proposal: Proposal, deadline: Instant) -> Proposed {
        match timeout_at(deadline, self.stamping.read()).await {
            Ok(_stamping) => self.stamp_and_commit(proposal, deadline).await,
            Err(_) => Proposed::Unavailable("the clock is being set".to_owned()),
        }
    }

    /// The same, for whoever holds [`Core::stamping`] already.
    pub(crate) async fn stamp_and_commit(&self, proposal: Proposal, deadline: Instant) -> Proposed {
        let name = proposal.command.name();
        let data = Data::encode(&Entry::new(self.stamps.now(), proposal));
        let written = match timeout_at(deadline, self.raft.client_write(data)).await {
            Ok(written) => written,
            Err(_) => return Proposed::Unknown(format!("{name} was not committed in time")),
        };
        match written {
            Ok(response) => match response.data {
                Some(reply) => Proposed::Committed { log_index: response.log_id.index, reply },
                None => Proposed::Unknown(format!("{name} was applied without an answer")),
            },
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(forward))) => match forward.reason {
                ForwardReason::LeaseExpired => Proposed::Unavailable("the leader has no quorum".to_owned()),
                _ => Proposed::NotLeader(forward.leader_id.map(NodeId)),
            },
            Err(error) => Proposed::Unknown(error.to_string()),
        }
    }

    /// The leader this node hears, or else the one another member hears: a node whose address changed hears
    /// nobody until it has said so.
    pub(crate) async fn find_leader(&self, deadline: Instant) -> Result<NodeId, String> {
        if let Some(leader) = self.leader() {
            return Ok(leader);
        }
        let mut why = "no leader is known".to_owned();
        for node in self.peers.known() {
            let left = deadline.saturating_duration_since(Instant::now()).min(Duration::from_secs(1));
            let answer = self.peers.call(node, Lane::Calls, left, |client, context, caller| async move {
                client.standing(context, caller).await
            });
            match answer.await {
                Ok(standing) => {
                    if let (Some(leader), Some(addr)) = (standing.leader, standing.leader_addr) {
                        self.peers.learn_from_membership(leader, &addr);
                        return Ok(leader);
                    }
                }
                Err(CallError::Refused(_, refused)) => why = refused.to_string(),
                Err(_) => {}
            }
        }
        Err(why)
    }
}
