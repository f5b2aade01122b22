//! The next step that brings Raft's membership closer to the replicated state: learners first, voters once they
//! have caught up, out when removed. Pure and level-triggered: it reads what is, never what just happened.

use std::collections::{BTreeMap, BTreeSet};

use holm_model::{NodeId, State};
use openraft::ChangeMembers;

use crate::handle::RaftStatus;
use crate::types::{Metrics, Node, node_id};

/// More voters cost every write a slower quorum and protect from little more.
const VOTERS: usize = 5;
/// A learner this close to the end of the log may become a voter, if it answered lately.
const LAG: u64 = 100;
const LATELY_MS: u64 = 2_000;

type Change = ChangeMembers<u64, Node>;

/// One step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Change(Change),
    /// This node was removed: another must lead before it goes.
    HandOver,
}

/// The next step, if one is due.
pub(crate) fn next_step(this: NodeId, state: &State, metrics: &Metrics, status: &RaftStatus) -> Option<Step> {
    state.cluster.as_ref()?;
    let membership = metrics.membership_config.membership();
    // A change under way must end first.
    if metrics.membership_config.log_id() != metrics.committed_membership_config.log_id() {
        return None;
    }
    if membership.get_joint_config().len() > 1 {
        // Its leader went half-way: a change of nothing takes the second half.
        return Some(Step::Change(ChangeMembers::AddVoterIds(BTreeSet::new())));
    }
    let voters: BTreeSet<u64> = membership.voter_ids().collect();
    let present: BTreeMap<u64, &Node> = membership.nodes().map(|(id, node)| (*id, node)).collect();
    let gone: BTreeSet<u64> =
        present.keys().copied().filter(|id| !state.nodes.contains_key(&node_id(*id))).collect();
    let staying = voters.difference(&gone).count();
    if let Some(step) = remove(this, &voters, &gone, staying) {
        return Some(step);
    }
    if let Some(node) = state.nodes.values().find(|node| !present.contains_key(&node.id.0)) {
        return Some(Step::Change(ChangeMembers::AddNodes(BTreeMap::from([(
            node.id.0,
            Node::new(node.peer_addr.clone()),
        )]))));
    }
    if staying < VOTERS
        && let Some(id) = present.keys().find(|id| !voters.contains(id) && is_close(**id, metrics, status))
    {
        return Some(Step::Change(ChangeMembers::AddVoterIds(BTreeSet::from([*id]))));
    }
    let moved =
        state.nodes.values().find(|node| present.get(&node.id.0).is_some_and(|at| at.addr != node.peer_addr));
    moved.map(|node| {
        let node_now = Node::new(node.peer_addr.clone());
        Step::Change(ChangeMembers::SetNodes(BTreeMap::from([(node.id.0, node_now)])))
    })
}

/// Where no voter stays nobody could take over: then a successor must be promoted first, and this waits for it.
fn remove(this: NodeId, voters: &BTreeSet<u64>, gone: &BTreeSet<u64>, staying: usize) -> Option<Step> {
    if staying > 0 {
        if gone.contains(&this.0) {
            return Some(Step::HandOver);
        }
        if let Some(voter) = gone.intersection(voters).next() {
            return Some(Step::Change(ChangeMembers::RemoveVoters(BTreeSet::from([*voter]))));
        }
    }
    let learners: BTreeSet<u64> = gone.difference(voters).copied().collect();
    (!learners.is_empty()).then_some(Step::Change(ChangeMembers::RemoveNodes(learners)))
}

fn is_close(id: u64, metrics: &Metrics, status: &RaftStatus) -> bool {
    let lately = status.silent_ms.get(&node_id(id)).is_some_and(|silent_ms| *silent_ms < LATELY_MS);
    let matched = metrics.replication.as_ref().and_then(|matched| matched.get(&id).cloned().flatten());
    lately && matched.is_some_and(|log_id| log_id.index + LAG >= metrics.last_log_index.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use holm_model::command::{AddNode, InitCluster};
    use holm_model::{Actor, ClusterId, Command, Entry, Proposal, Timestamp};
    use openraft::testing::log_id;
    use openraft::{Membership, StoredMembership};

    use super::*;
    use crate::types::TypeConfig;

    const LAST: u64 = 1_000;

    fn addr(node: u64) -> String {
        format!("10.0.0.{node}:1")
    }

    /// A state with nodes 1 to `count`, but not those `removed`.
    fn state(count: u64, removed: &[u64]) -> State {
        let mut state = State::default();
        let mut perform = |command| {
            let actor = Actor { name: "test".to_owned(), project: String::new() };
            let proposal = Proposal { key: None, seen: Default::default(), actor, command };
            holm_model::apply(&mut state, &Entry::new(Timestamp(1), proposal));
        };
        let node =
            |node: u64| AddNode { name: format!("n{node}"), peer_addr: addr(node), api_addr: addr(node) };
        let cluster = ClusterId(uuid::Uuid::from_u128(1));
        perform(Command::InitCluster(InitCluster { cluster, name: "c".to_owned(), first_node: node(1) }));
        (2..=count).for_each(|n| perform(Command::AddNode(node(n))));
        for id in removed {
            state.nodes.remove(&node_id(*id)).unwrap();
        }
        state
    }

    /// Metrics of leader 1 with these configurations, other nodes learners; all have matched the whole log.
    fn metrics(configs: &[&[u64]], nodes: &[u64]) -> Metrics {
        let configs = configs.iter().map(|config| config.iter().copied().collect()).collect();
        let nodes: BTreeMap<u64, Node> = nodes.iter().map(|id| (*id, Node::new(addr(*id)))).collect();
        let matched = nodes.keys().map(|id| (*id, Some(log_id::<TypeConfig>(1, 1, LAST)))).collect();
        let membership = Membership::new(configs, nodes).unwrap();
        let stored = Arc::new(StoredMembership::new(Some(log_id::<TypeConfig>(1, 1, 5)), membership));
        let mut metrics = Metrics::new_initial(1);
        metrics.membership_config = Arc::clone(&stored);
        metrics.committed_membership_config = stored;
        metrics.last_log_index = Some(LAST);
        metrics.replication = Some(matched);
        metrics
    }

    fn all_answer() -> RaftStatus {
        RaftStatus { silent_ms: (1..10).map(|id| (node_id(id), 10)).collect(), ..RaftStatus::default() }
    }

    fn step(state: &State, metrics: &Metrics) -> Option<Step> {
        next_step(node_id(1), state, metrics, &all_answer())
    }

    #[test]
    fn nothing_is_due_when_all_is_as_it_should_be() {
        assert_eq!(step(&state(3, &[]), &metrics(&[&[1, 2, 3]], &[1, 2, 3])), None);
    }

    #[test]
    fn a_new_node_becomes_a_learner_first() {
        let add = ChangeMembers::AddNodes([(2, Node::new(addr(2)))].into());
        assert_eq!(step(&state(2, &[]), &metrics(&[&[1]], &[1])), Some(Step::Change(add)));
    }

    #[test]
    fn a_learner_becomes_a_voter_when_it_has_caught_up_and_answers() {
        let (state, mut metrics) = (state(2, &[]), metrics(&[&[1]], &[1, 2]));
        let promote = Some(Step::Change(ChangeMembers::AddVoterIds([2].into())));
        assert_eq!(step(&state, &metrics), promote);
        assert_eq!(next_step(node_id(1), &state, &metrics, &RaftStatus::default()), None);
        metrics.replication = Some([(2, Some(log_id::<TypeConfig>(1, 1, LAST - LAG - 1)))].into());
        assert_eq!(step(&state, &metrics), None);
    }

    #[test]
    fn five_voters_are_enough() {
        assert_eq!(step(&state(6, &[]), &metrics(&[&[1, 2, 3, 4, 5]], &[1, 2, 3, 4, 5, 6])), None);
    }

    #[test]
    fn removed_nodes_go_voters_first() {
        let state = state(4, &[2, 4]);
        let voter = ChangeMembers::RemoveVoters([2].into());
        assert_eq!(step(&state, &metrics(&[&[1, 2, 3]], &[1, 2, 3, 4])), Some(Step::Change(voter)));
        let learner = ChangeMembers::RemoveNodes([4].into());
        assert_eq!(step(&state, &metrics(&[&[1, 3]], &[1, 3, 4])), Some(Step::Change(learner)));
    }

    #[test]
    fn a_removed_leader_hands_over_if_there_is_anybody() {
        let state = state(2, &[1]);
        assert_eq!(step(&state, &metrics(&[&[1, 2]], &[1, 2])), Some(Step::HandOver));
        let nobody_answers = RaftStatus::default();
        assert_eq!(next_step(node_id(1), &state, &metrics(&[&[1]], &[1, 2]), &nobody_answers), None);
    }

    #[test]
    fn where_all_voters_are_removed_a_learner_is_promoted_first() {
        let promote = |id| Some(Step::Change(ChangeMembers::AddVoterIds([id].into())));
        let add = |id| Some(Step::Change(ChangeMembers::AddNodes([(id, Node::new(addr(id)))].into())));
        assert_eq!(step(&state(2, &[1]), &metrics(&[&[1]], &[1, 2])), promote(2));
        assert_eq!(step(&state(2, &[1]), &metrics(&[&[1]], &[1])), add(2), "and added before that");
        let state_of_3 = state(3, &[1, 2]);
        assert_eq!(step(&state_of_3, &metrics(&[&[1, 2]], &[1, 2, 3])), promote(3));
        assert_eq!(step(&state_of_3, &metrics(&[&[1, 2, 3]], &[1, 2, 3])), Some(Step::HandOver));
        let state_of_6 = state(6, &[1, 2, 3, 4, 5]);
        assert_eq!(step(&state_of_6, &metrics(&[&[1, 2, 3, 4, 5]], &[1, 2, 3, 4, 5, 6])), promote(6));
    }

    #[test]
    fn removed_learners_go_though_no_voter_stays() {
        let learner = ChangeMembers::RemoveNodes([3].into());
        assert_eq!(step(&state(3, &[1, 3]), &metrics(&[&[1]], &[1, 2, 3])), Some(Step::Change(learner)));
    }

    #[test]
    fn a_node_that_moved_gets_its_new_address() {
        let mut state = state(2, &[]);
        state.nodes.get_mut(&node_id(2)).unwrap().peer_addr = "10.9.9.9:1".to_owned();
        let set = ChangeMembers::SetNodes([(2, Node::new("10.9.9.9:1"))].into());
        assert_eq!(step(&state, &metrics(&[&[1, 2]], &[1, 2])), Some(Step::Change(set)));
    }

    #[test]
    fn a_change_its_leader_left_half_way_is_finished() {
        let finish = ChangeMembers::AddVoterIds(BTreeSet::new());
        let mut half = metrics(&[&[1, 2], &[1, 2, 3]], &[1, 2, 3]);
        assert_eq!(step(&state(3, &[]), &half), Some(Step::Change(finish)));
        half.committed_membership_config = Arc::new(StoredMembership::default());
        assert_eq!(step(&state(3, &[]), &half), None, "not while it is under way");
    }
}
