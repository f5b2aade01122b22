//! The scheduler's decisions against those of the reference, over thousands of random clusters.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use holm_model::command::Placement as Placed;
use holm_model::parts::Parts;
use holm_model::vm::Vm;
use holm_model::{Command, NodeId, State, VmId};
use holm_sched::controllers::Placement;
use holm_sched::{Controller, Facts};

use super::{Plain, place};
use crate::world::{unheard, world};

fn decided(state: &State, unheard: BTreeSet<NodeId>) -> Vec<Placed> {
    let facts = Facts { unheard, ..Facts::default() };
    let placing = Placement.decide(state, &facts).into_iter().filter_map(|command| match command {
        Command::PlaceVms(place) => Some(place),
        _ => None,
    });
    let mut placements = Vec::new();
    for place in placing {
        let batches: BTreeSet<_> =
            place.placements.iter().map(|placed| state.vms[&placed.vm].batch).collect();
        assert_eq!(batches.len(), 1, "an entry of one batch, or of VMs that are in none");
        assert_eq!(place.atomic, !batches.contains(&None));
        placements.extend(place.placements);
    }
    placements
}

/// The best host by the definition: the greatest score, among equals the greatest number that SplitMix64's finaliser
/// draws over the ids, among equals of that the last.
fn best(scores: &BTreeMap<NodeId, i128>, vm: VmId) -> Option<NodeId> {
    fn mix(value: u64) -> u64 {
        let z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    let (high, low) = vm.0.as_u64_pair();
    let draw = |node: NodeId| mix(mix(mix(high) ^ low) ^ node.0);
    scores.iter().max_by_key(|(node, score)| (**score, draw(**node), **node)).map(|(node, _)| *node)
}

fn agrees(seed: u64) {
    let cluster = world(seed);
    let state = &cluster.state;
    let withheld = unheard(seed);
    let decided = decided(state, withheld.clone());
    let mut decided: BTreeMap<VmId, Placed> = decided.into_iter().map(|p| (p.vm, p)).collect();
    let (given, parts, left) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
    let mut plain = Plain { state, given, withheld, parts, left };
    let mut queue: Vec<&Vm> = state.waiting.iter().map(|id| &state.vms[id]).collect();
    queue.sort_by_key(|vm| place(vm));
    let mut had_its_turn = BTreeSet::new();
    let mut ordered: Vec<&Vm> = Vec::new();
    for vm in &queue {
        let with_it = queue.iter().filter(|other| other.batch == vm.batch && vm.batch.is_some());
        let turn: Vec<&Vm> = std::iter::once(*vm).chain(with_it.copied()).collect();
        ordered.extend(turn.into_iter().filter(|vm| had_its_turn.insert(vm.id)));
    }
    for vm in ordered.iter().copied() {
        let first = ordered.iter().find(|other| other.batch == vm.batch && vm.batch.is_some());
        if first.is_some_and(|first| first.id == vm.id) {
            let members: Vec<&Vm> = ordered.iter().copied().filter(|other| other.batch == vm.batch).collect();
            let fits = plain.fits_as_a_whole(&members);
            for member in members {
                assert_eq!(
                    decided.contains_key(&member.id),
                    fits,
                    "seed {seed}: {} and its batch",
                    member.name
                );
                if !fits {
                    plain.left.insert(member.id);
                }
            }
        }
        if vm.batch.is_some() && plain.left.contains(&vm.id) {
            continue;
        }
        let scores = plain.scores(vm);
        let placement = decided.remove(&vm.id);
        assert_eq!(placement.is_some(), !scores.is_empty(), "seed {seed}: {} of {scores:?}", vm.name);
        let Some(Placed { node, choice, .. }) = placement else {
            plain.left.insert(vm.id);
            continue;
        };
        let choice = choice.expect("every placement says how it was chosen");
        assert_eq!(choice.candidates as usize, scores.len(), "seed {seed}: {}", vm.name);
        let mut greatest: Vec<i128> = scores.values().copied().collect();
        greatest.sort_by_key(|score| Reverse(*score));
        greatest.truncate(4);
        let kept: Vec<i128> = choice.scores.iter().map(|score| i128::from(score.score_millionths)).collect();
        assert_eq!(kept, greatest, "seed {seed}: {}", vm.name);
        for score in &choice.scores {
            assert_eq!(scores.get(&score.node), Some(&i128::from(score.score_millionths)), "seed {seed}");
        }
        assert_eq!(choice.scores[0].node, node);
        if vm.recovery.move_to.is_none() {
            assert_eq!(Some(node), best(&scores, vm.id), "seed {seed}: {} among equals", vm.name);
        }
        plain.give(vm, node);
    }
    assert_eq!(decided, BTreeMap::new(), "seed {seed}: placed, but not waiting");
}

impl Plain<'_> {
    fn give(&mut self, vm: &Vm, node: NodeId) {
        let record = &self.state.nodes[&node];
        let cpus = self.cpus_for(vm, record).expect("it passed");
        let devices = self.devices_for(vm, record).expect("it passed");
        self.parts.insert(vm.id, Parts { cpus, devices });
        self.given.insert(vm.id, node);
    }

    /// Whether these find hosts one after another; as if nobody had tried.
    fn fits_as_a_whole(&mut self, vms: &[&Vm]) -> bool {
        let (given, parts) = (self.given.clone(), self.parts.clone());
        let fit = vms.iter().all(|vm| match best(&self.scores(vm), vm.id) {
            Some(node) => {
                self.give(vm, node);
                true
            }
            None => false,
        });
        (self.given, self.parts) = (given, parts);
        fit
    }
}

/// Shares of the same work, so that it runs on every core.
macro_rules! agree {
    ($($name:ident: $seeds:expr;)*) => {
        $(
            #[test]
            fn $name() {
                $seeds.for_each(agrees);
            }
        )*
    };
}

agree! {
    the_scheduler_agrees_with_the_definitions_on_clusters_0_to_500: 0..500;
    the_scheduler_agrees_with_the_definitions_on_clusters_500_to_1000: 500..1000;
    the_scheduler_agrees_with_the_definitions_on_clusters_1000_to_1500: 1000..1500;
    the_scheduler_agrees_with_the_definitions_on_clusters_1500_to_2000: 1500..2000;
}

/// A differential test is worth what its inputs reach.
#[test]
fn the_random_clusters_make_every_filter_refuse_and_many_vms_fit() {
    let mut refusing = BTreeSet::new();
    let (mut placed, mut kept, mut holding, mut evicting) = (0, 0, 0, 0);
    for seed in 0..200 {
        let cluster = world(seed);
        placed += decided(&cluster.state, BTreeSet::new()).len();
        for vm in cluster.state.vms.values() {
            kept += usize::from(vm.reserved.is_some());
            let evicted = vm.reserved.as_ref().map(|reserved| &reserved.evicted);
            let evicted = evicted.or(vm.decision.as_ref().map(|decision| &decision.evicted));
            evicting += usize::from(evicted.is_some_and(|evicted| !evicted.is_empty()));
            holding += usize::from(vm.claim.as_ref().is_some_and(|claim| !claim.parts.is_empty()));
        }
        let policy = holm_sched::Policy::of(&cluster.state.scheduler);
        for vm in cluster.state.waiting.iter().map(|id| cluster.record(*id)) {
            for host in holm_sched::explain(&cluster.state, &policy, vm).hosts {
                if let holm_sched::explain::Verdict::Refused { by, .. } = host.verdict {
                    refusing.insert(by);
                }
            }
        }
    }
    let listed = holm_model::policy::FILTERS.iter().map(|(name, _)| *name);
    let all: BTreeSet<String> =
        listed.chain(holm_model::policy::ALWAYS.iter().copied()).map(str::to_owned).collect();
    assert_eq!(refusing, all);
    assert!(placed > 250, "{placed} VMs found a host");
    assert!(kept > 15, "{kept} VMs have a host kept for them");
    assert!(holding > 30, "{holding} VMs hold parts of their host");
    assert!(evicting > 15, "others were evicted for {evicting} VMs");
}
