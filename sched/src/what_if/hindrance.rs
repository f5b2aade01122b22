//! What keeps VMs from coming back by themselves, whatever room there is: no majority to decide it, or no fence to free
//! them. Judged by the nodes that are up as far as the state tells, and by those that vote, if they are known.

use std::collections::BTreeSet;

use holm_model::feasible::may_be_fenced;
use holm_model::node::Node;
use holm_model::{NodeId, State};

use super::moves_by_itself;

/// Those that vote, as far as is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Voters {
    /// Every node of the cluster.
    #[default]
    All,
    Known(BTreeSet<NodeId>),
}

/// How many vote, and how many of them are up.
struct Votes {
    all: usize,
    up: usize,
}

impl Votes {
    fn of(state: &State, voters: &Voters, without: &BTreeSet<NodeId>) -> Self {
        let votes = |node: &&Node| match voters {
            Voters::All => true,
            Voters::Known(known) => known.contains(&node.id),
        };
        let is_up = |node: &Node| node.up && !without.contains(&node.id);
        state.nodes.values().filter(votes).fold(Self { all: 0, up: 0 }, |votes, node| Self {
            all: votes.all + 1,
            up: votes.up + usize::from(is_up(node)),
        })
    }

    fn least(&self) -> usize {
        self.all / 2 + 1
    }
}

/// Why nothing at all happens without the nodes of `lost`, if they are any.
pub fn without_majority(state: &State, lost: &BTreeSet<NodeId>, voters: &Voters) -> Option<String> {
    let votes = Votes::of(state, voters, lost);
    if lost.is_empty() || votes.up >= votes.least() {
        return None;
    }
    let stays = |node: &&Node| node.up && !lost.contains(&node.id);
    let stops = state.nodes.values().filter(stays).flat_map(|node| state.vms_on(node.id));
    let stops = stops.filter(|vm| moves_by_itself(vm)).count();
    let too = if stops > 0 { format!(", {stops} of them on nodes that stay") } else { String::new() };
    let Votes { all, up } = votes;
    Some(format!(
        "no majority is left, {up} of {all} voters: nothing comes back, and VMs that fail over stop{too}"
    ))
}

/// Why no fence of `node` frees the VMs that fail over from it, if it has any.
pub fn without_fence(state: &State, node: &Node) -> Option<String> {
    let vms = state.vms_on(node.id).filter(|vm| moves_by_itself(vm)).count();
    let why = may_be_fenced(state, node).err().filter(|_| vms > 0 && node.fence.is_none())?;
    Some(format!("{why}: its VMs that fail over ({vms} on `{}`) would wait for it", node.name))
}

/// What keeps failover VMs from coming back, whichever node is lost next: a sentence each. Who admits a VM asks for room
/// only, since a VM takes no majority away.
pub fn hindrances_of_any_loss(state: &State, voters: &Voters) -> Vec<String> {
    if !state.vms.values().any(moves_by_itself) {
        return Vec::new();
    }
    let votes = Votes::of(state, voters, &BTreeSet::new());
    let majority = (votes.up <= votes.least()).then(|| {
        let (up, all) = (votes.up, votes.all);
        format!("{up} of {all} voters are up: without one more no majority is left, and nothing fails over")
    });
    let up = state.nodes.values().filter(|node| node.up);
    majority.into_iter().chain(up.filter_map(|node| without_fence(state, node))).collect()
}
