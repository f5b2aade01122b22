//! Which ways of the network a fault cuts: ordered pairs of nodes, by number.

use std::collections::BTreeSet;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use crate::history::FaultKind;

/// From one node to another.
pub type Ways = BTreeSet<(usize, usize)>;

/// What `kind` cuts of the network of `nodes` nodes when `victim` is to suffer, and whom it cuts off: those
/// who cannot have a quorum. None: it is no fault of the network.
pub fn cut(kind: FaultKind, nodes: usize, victim: usize, rng: &mut StdRng) -> Option<(Ways, Vec<usize>)> {
    match kind {
        FaultKind::PartitionHalves => {
            let minority = minority(nodes, victim, rng);
            Some((between(nodes, &minority), minority))
        }
        FaultKind::PartitionLeader | FaultKind::PartitionKill | FaultKind::PartitionPower => {
            Some((between(nodes, &[victim]), vec![victim]))
        }
        FaultKind::PartitionOneWay => {
            let deaf = rng.random_bool(0.5);
            let others = (0..nodes).filter(|node| *node != victim);
            let ways = others.map(|other| if deaf { (other, victim) } else { (victim, other) });
            Some((ways.collect(), vec![victim]))
        }
        FaultKind::PartitionBridge => Some((bridge(nodes, victim, rng), Vec::new())),
        FaultKind::PartitionRing => Some((ring(nodes, rng), Vec::new())),
        FaultKind::Loss | FaultKind::Slow => Some((all(nodes), Vec::new())),
        FaultKind::Kill
        | FaultKind::Restart
        | FaultKind::Pause
        | FaultKind::PowerOne
        | FaultKind::PowerMost
        | FaultKind::PowerAll
        | FaultKind::Wipe
        | FaultKind::KillHost
        | FaultKind::KillShim
        | FaultKind::KillVmm
        | FaultKind::PauseVmm
        | FaultKind::DiskFull
        | FaultKind::DiskSlow
        | FaultKind::DiskHung
        | FaultKind::Damage
        | FaultKind::Truncate
        | FaultKind::Replace
        | FaultKind::Rolling
        | FaultKind::ClockJump
        | FaultKind::PartitionClients
        | FaultKind::PauseAgain
        | FaultKind::PauseHost => None,
    }
}

fn minority(nodes: usize, victim: usize, rng: &mut StdRng) -> Vec<usize> {
    let mut others: Vec<_> = (0..nodes).filter(|node| *node != victim).collect();
    others.shuffle(rng);
    others.truncate((nodes - 1) / 2 - 1);
    others.push(victim);
    others
}

fn all(nodes: usize) -> Ways {
    (0..nodes).flat_map(|from| (0..nodes).filter(move |to| *to != from).map(move |to| (from, to))).collect()
}

fn between(nodes: usize, side: &[usize]) -> Ways {
    all(nodes).into_iter().filter(|(from, to)| side.contains(from) != side.contains(to)).collect()
}

/// The others in two halves that do not reach each other; `victim` reaches both.
fn bridge(nodes: usize, victim: usize, rng: &mut StdRng) -> Ways {
    let mut others: Vec<_> = (0..nodes).filter(|node| *node != victim).collect();
    others.shuffle(rng);
    let (one, _) = others.split_at(others.len() / 2);
    let side = |node: &usize| one.contains(node);
    all(nodes)
        .into_iter()
        .filter(|(from, to)| *from != victim && *to != victim && side(from) != side(to))
        .collect()
}

/// Each node keeps the way to enough neighbours on a ring that it counts a majority with itself.
fn ring(nodes: usize, rng: &mut StdRng) -> Ways {
    let mut order: Vec<_> = (0..nodes).collect();
    order.shuffle(rng);
    let mut cut = all(nodes);
    // Three nodes on a ring would be whole: a line is what comes closest.
    let (reach, closed) = if nodes == 3 { (1, false) } else { ((nodes / 2).div_ceil(2), true) };
    for at in 0..nodes {
        for step in 1..=reach {
            if closed || at + step < nodes {
                let (one, other) = (order[at], order[(at + step) % nodes]);
                cut.remove(&(one, other));
                cut.remove(&(other, one));
            }
        }
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed;

    fn reached(ways: &Ways, nodes: usize, from: usize) -> Vec<usize> {
        (0..nodes).filter(|to| !ways.contains(&(from, *to))).collect()
    }

    #[test]
    fn halves_leave_a_majority_whole_and_cut_the_victim_off() {
        for nodes in 3..=7 {
            let mut rng = seed::stream(1, "ways", nodes as u64);
            let (ways, cut_off) = cut(FaultKind::PartitionHalves, nodes, 1, &mut rng).unwrap();
            assert!(cut_off.contains(&1) && cut_off.len() * 2 < nodes, "{nodes}: {cut_off:?}");
            for node in (0..nodes).filter(|node| !cut_off.contains(node)) {
                assert_eq!(reached(&ways, nodes, node).len(), nodes - cut_off.len());
            }
        }
    }

    #[test]
    fn on_a_ring_of_five_everyone_reaches_a_majority_and_no_two_the_same() {
        let ways = ring(5, &mut seed::stream(1, "ways", 0));
        let seen: BTreeSet<_> = (0..5).map(|node| reached(&ways, 5, node)).collect();
        assert!(seen.iter().all(|reached| reached.len() == 3));
        assert_eq!(seen.len(), 5);
    }

    #[test]
    fn a_bridge_reaches_both_halves_and_they_not_each_other() {
        let (ways, _) = cut(FaultKind::PartitionBridge, 5, 2, &mut seed::stream(1, "ways", 0)).unwrap();
        assert_eq!(reached(&ways, 5, 2).len(), 5);
        assert!((0..5).filter(|node| *node != 2).all(|node| reached(&ways, 5, node).len() == 3));
    }

    #[test]
    fn one_way_leaves_the_other_open() {
        let (ways, _) = cut(FaultKind::PartitionOneWay, 3, 0, &mut seed::stream(1, "ways", 0)).unwrap();
        assert_eq!(ways.len(), 2);
        assert!(ways.iter().all(|(from, to)| !ways.contains(&(*to, *from))));
    }
}
