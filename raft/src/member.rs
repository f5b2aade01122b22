//! Who is a member. The replicated state says who should be; the leader makes Raft's membership match it, one
//! step at a time ([`crate::membership`]); every member learns where the others are, and that it was removed.

use std::sync::Arc;
use std::time::Duration;

use holm_model::command::AddNode;
use holm_model::{Actor, Command, IdempotencyKey, NodeId, Outcome, Proposal, Reply};
use openraft::async_runtime::WatchReceiver;
use sha2::{Digest, Sha256};
use tokio::time::{sleep, timeout};

use crate::core::Core;
use crate::faults;
use crate::handle::ProposeError;
use crate::membership::{Step, next_step};
use crate::peers::Lane;
use crate::rpc::{JoinRefused, JoinRequest, Joined};

/// Longest wait for one change of membership.
const CHANGE: Duration = Duration::from_secs(10);
/// Pause between two looks, when nothing woke the task.
const PERIOD: Duration = Duration::from_millis(500);
/// Longest wait of a joining node for its place.
const JOIN: Duration = Duration::from_secs(10);

/// Makes Raft's membership match the state, while this process leads.
pub(crate) async fn run(core: Arc<Core>) {
    let mut published = core.published.clone();
    loop {
        if let Ok(Err(_)) = timeout(PERIOD, published.changed()).await {
            return core.await_the_end().await;
        }
        if !core.is_leading() {
            continue;
        }
        let step = next_step(core.node(), &core.state().state, &core.metrics(), &core.status.borrow());
        match step {
            None => {}
            Some(Step::HandOver) => {
                if let Err(error) = core.transfer_leadership(None).await {
                    tracing::debug!(%error, "a removed node cannot hand over yet");
                    sleep(PERIOD).await;
                }
            }
            Some(Step::Change(change)) => {
                tracing::info!(?change, "changes the membership");
                match timeout(CHANGE, core.raft.change_membership(change, false)).await {
                    Ok(Ok(_)) => continue,
                    Ok(Err(error)) => {
                        tracing::warn!(%error, "the membership did not change; it is tried again");
                    }
                    Err(_) => tracing::warn!("a change of membership takes too long; it is tried again"),
                }
                // Under load the state is published all the time: what failed must not be tried as often.
                sleep(PERIOD).await;
            }
        }
    }
}

/// Keeps addresses current, and notices that this node was removed: nobody tells a removed node, so one that
/// hears no leader asks.
pub(crate) async fn follow(core: Arc<Core>) {
    let mut published = core.published.clone();
    loop {
        faults::in_a_task();
        for node in core.state().state.nodes.values() {
            core.peers.learn_from_state(node.id, &node.peer_addr);
        }
        if let Ok(Err(_)) = timeout(4 * PERIOD, published.changed()).await {
            return core.await_the_end().await;
        }
        let removed_here = {
            let state = &core.state().state;
            state.cluster.is_some()
                && core.node() <= state.last_node_id
                && !state.nodes.contains_key(&core.node())
        };
        if removed_here {
            core.peers.note_removed();
        } else if !core.is_leader() && core.raft.metrics().borrow_watched().current_leader.is_none() {
            ask_around(&core).await;
        }
    }
}

/// A refusal says it; [`crate::peers::Peers`] keeps that.
async fn ask_around(core: &Core) {
    for node in core.peers.known() {
        let asked = core.peers.call(node, Lane::Calls, 2 * PERIOD, |client, context, caller| async move {
            client.standing(context, caller).await
        });
        let _ = asked.await;
    }
}

impl Core {
    /// Where `node` listens, as far as this node knows.
    pub(crate) fn addr_of(&self, node: NodeId) -> Option<String> {
        if let Some(known) = self.state().state.nodes.get(&node) {
            return Some(known.peer_addr.clone());
        }
        let metrics = self.metrics();
        metrics.membership_config.membership().get_node(&node.0).map(|node| node.addr.clone())
    }

    /// Gives a new node its place, here or at the leader.
    pub(crate) async fn admit_joining(self: &Arc<Self>, request: JoinRequest) -> Result<Joined, JoinRefused> {
        let command = Command::AddNode(AddNode {
            name: request.name.clone(),
            peer_addr: request.peer_addr.clone(),
            api_addr: request.api_addr.clone(),
        });
        let asked = format!("{}\n{}\n{}", request.name, request.peer_addr, request.api_addr);
        let fingerprint = Sha256::digest(asked).iter().map(|byte| format!("{byte:02x}")).collect();
        let proposal = Proposal {
            key: Some(IdempotencyKey { key: format!("join-{}", request.token), fingerprint }),
            seen: self.state().state.revision,
            actor: Actor { name: format!("node/{}", request.name), project: String::new() },
            command,
        };
        let committed = self
            .propose(proposal, JOIN)
            .await
            .map_err(|error: ProposeError| JoinRefused::Unavailable(error.to_string()))?;
        joined(self.identity.cluster, committed.reply)
    }
}

fn joined(cluster: holm_model::ClusterId, reply: Reply) -> Result<Joined, JoinRefused> {
    match reply {
        Reply::Done(done) => match done.outcome {
            Outcome::Node(node) => Ok(Joined { cluster, node }),
            other => Err(JoinRefused::Unavailable(format!("the cluster answered {other:?}"))),
        },
        Reply::Duplicate(original) => joined(cluster, *original),
        Reply::Rejected(reason) => Err(JoinRefused::Rejected(reason.to_string())),
    }
}
