//! What a cluster does all day, as runs of steps to put together: lead, grant, place, start, fence. Whoever
//! takes them skips the steps that are not possible, so a piece need not know where a message lies.

use super::action::Action;
use super::replicated::{Availability, NodeIx};
use super::world::{MESSAGES, PROPOSALS};

/// `node` has applied whatever is committed.
pub fn catch_up(node: NodeIx) -> Vec<Action> {
    vec![Action::Apply(node); 24]
}

/// Whatever is proposed is committed.
pub fn commit() -> Vec<Action> {
    (0..PROPOSALS).rev().map(Action::Commit).collect()
}

/// `leader` is elected and serves.
pub fn lead(leader: NodeIx) -> Vec<Action> {
    [vec![Action::Elect(leader), Action::CommitBegin(leader)], catch_up(leader)].concat()
}

/// A heartbeat of `node` reaches `leader`.
pub fn beat(node: NodeIx, leader: NodeIx) -> Vec<Action> {
    let arrive = (0..MESSAGES).map(|slot| Action::DeliverHeartbeat(node, slot, leader));
    [Action::SendHeartbeat(node)].into_iter().chain(arrive).collect()
}

/// `leader` sends what it may, and it arrives.
pub fn grant(node: NodeIx, leader: NodeIx) -> Vec<Action> {
    let arrive = (0..MESSAGES).rev().map(|slot| Action::DeliverGrant(node, slot));
    [Action::SendGrant(leader, node)].into_iter().chain(arrive).collect()
}

/// `node` gets a lease, or a longer one.
pub fn lease(node: NodeIx, leader: NodeIx) -> Vec<Action> {
    let round = vec![Action::BeginRound(leader), Action::ConfirmRound(leader)];
    [beat(node, leader), round, grant(node, leader)].concat()
}

/// The leader places the VM on `node`.
pub fn place(node: NodeIx, leader: NodeIx) -> Vec<Action> {
    [vec![Action::DecidePlace(leader, node)], commit(), catch_up(leader)].concat()
}

/// `node` starts the VM, as far as its replica lets it.
pub fn start(node: NodeIx) -> Vec<Action> {
    vec![Action::DecideStart(node), Action::Exec(node), Action::ShimStarts(node)]
}

/// The leader fences `node`.
pub fn fence(node: NodeIx, leader: NodeIx) -> Vec<Action> {
    [vec![Action::DecideFence(leader, node)], commit(), catch_up(leader)].concat()
}

/// The VM is placed on `node`, which starts it.
pub fn run(node: NodeIx, leader: NodeIx) -> Vec<Action> {
    [place(node, leader), lease(node, leader), catch_up(node), start(node)].concat()
}

/// `node` reports that nothing lost lives, and is let back.
pub fn unfence(node: NodeIx, leader: NodeIx) -> Vec<Action> {
    [catch_up(node), vec![Action::ReportClean(node)], commit(), catch_up(leader)].concat()
}

/// The user asks for failover, and `node` makes it so.
pub fn to_failover(node: NodeIx, leader: NodeIx) -> Vec<Action> {
    let request = vec![Action::Request(Availability::Failover)];
    let report = vec![Action::Arm(node), Action::ReportFailover(node)];
    [request, catch_up(node), lease(node, leader), report].concat()
}

/// Time passes.
pub fn ticks(count: usize) -> Vec<Action> {
    vec![Action::Tick; count]
}
