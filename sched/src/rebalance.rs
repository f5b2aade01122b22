//! A better balance: which VMs to move where, and what each move gains.
//!
//! Balance is how evenly hosts are used: per class the variance, over the hosts that take VMs, of the share of
//! capacity that is claimed; weighted by the multipliers of the weighers Ram, Cpu and Disk. Where a multiplier is
//! negative the policy packs, and unevenness is what it wants. The imbalance is the square root of that, in
//! millionths of the capacity. Shares, not the free amounts that Nova weighs: those of hosts of different sizes cannot
//! be even.
//!
//! Greedy: the move that gains most, then the next on the picture it leaves; each VM once. Every move gains at least
//! what was asked for, so a plan ends, and one that was carried out has no plan after it that undoes it. VMs that are
//! on their way by an earlier plan count where they go.

mod due;

use std::collections::BTreeMap;

use holm_model::vm::{Vm, VmStatus};
use holm_model::{NodeId, ResourceClass, Resources, State, VmId, feasible};
use serde::{Deserialize, Serialize};

pub use self::due::{MOVES_AT_ONCE, due, under_way};
use crate::host::Host;
use crate::policy::Policy;
use crate::request::{Placed, Request};

/// Bounds of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub max_moves: usize,
    /// The least a move must gain, in millionths.
    pub min_gain: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { max_moves: 10, min_gain: 10_000 }
    }
}

/// Moves, in the order in which they gain most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Imbalance now, in millionths; negative where hosts are to be packed and are.
    pub before: i64,
    /// The same once all moves are made.
    pub after: i64,
    pub moves: Vec<Move>,
    /// VMs that stay whatever it would gain, and why, by id.
    pub fixed: Vec<Fixed>,
}

/// One move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    pub vm: VmId,
    pub name: String,
    pub from: NodeId,
    pub to: NodeId,
    /// By how much it lowers the imbalance, those before it made, in millionths.
    pub gain: u64,
}

/// A VM that cannot be moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fixed {
    pub vm: VmId,
    pub name: String,
    pub node: NodeId,
    pub why: String,
}

/// The plan for `state`.
pub fn rebalance(state: &State, policy: &Policy, bounds: Bounds) -> Plan {
    let mut picture = Picture::of(state, policy);
    under_way(state).for_each(|(vm, to)| _ = picture.make(vm, to));
    let before = picture.imbalance();
    let mut plan = Plan { before, after: before, ..Plan::default() };
    let mut movable: Vec<&Vm> = Vec::new();
    for vm in state.vms.values().filter(|vm| vm.status != VmStatus::Deleting) {
        let Some(claim) = &vm.claim else { continue };
        match vm.may_move() {
            Ok(()) => movable.push(vm),
            Err(why) => plan.fixed.push(Fixed { vm: vm.id, name: vm.name.clone(), node: claim.node, why }),
        }
    }
    while plan.moves.len() < bounds.max_moves {
        let Some((at, to, gain)) = picture.best(&movable, bounds.min_gain.max(1)) else { break };
        let (vm, to) = (movable.remove(at), picture.hosts[to].id());
        let Some(from) = vm.claim.as_ref().map(|claim| claim.node) else { break };
        picture.make(vm, to);
        plan.moves.push(Move { vm: vm.id, name: vm.name.clone(), from, to, gain });
    }
    plan.after = picture.imbalance();
    plan
}

/// The hosts as the moves so far leave them.
struct Picture<'a> {
    state: &'a State,
    policy: &'a Policy,
    hosts: Vec<Host<'a>>,
    /// Whether a host takes VMs, and counts.
    takes: Vec<bool>,
    classes: Vec<Class>,
    placed: Placed,
}

/// How one class is used.
#[derive(Clone)]
struct Class {
    class: ResourceClass,
    multiplier: i128,
    /// How many hosts have any and take VMs.
    hosts: i128,
    /// By host. Shares are worked out from it anew: sums of rounded ones would drift from what is then measured.
    claimed: Vec<u64>,
    capacity: Vec<u64>,
    sum: i128,
    sum_of_squares: i128,
}

const ONE: i128 = 1_000_000;

impl Class {
    /// The variance over the hosts, times the multiplier.
    fn weighted(&self, sum: i128, sum_of_squares: i128) -> i128 {
        let n = self.hosts.max(1);
        self.multiplier * (n * sum_of_squares - sum * sum) / (n * n)
    }

    fn share(&self, host: usize, amount: u64) -> i128 {
        match self.capacity[host] {
            0 => 0,
            capacity => i128::from(amount) * ONE / i128::from(capacity),
        }
    }

    /// The sums with this much moved; from nowhere if it has left its host already.
    fn moved(&self, from: Option<usize>, to: usize, takes: &[bool], amount: u64) -> (i128, i128) {
        let (mut sum, mut squares) = (self.sum, self.sum_of_squares);
        let less = from.map(|from| (from, self.claimed[from].saturating_sub(amount)));
        let more = (to, self.claimed[to].saturating_add(amount));
        for (host, claimed) in less.into_iter().chain([more]) {
            if takes[host] && self.capacity[host] > 0 {
                let (now, then) = (self.share(host, self.claimed[host]), self.share(host, claimed));
                sum += then - now;
                squares += then * then - now * now;
            }
        }
        (sum, squares)
    }
}

impl<'a> Picture<'a> {
    fn of(state: &'a State, policy: &'a Policy) -> Self {
        let hosts = Host::all(state);
        let takes: Vec<bool> = hosts.iter().map(|host| feasible::compute_status(host.node).is_ok()).collect();
        let weighers =
            [("Cpu", ResourceClass::Vcpu), ("Ram", ResourceClass::MemoryMb), ("Disk", ResourceClass::DiskGb)];
        let class = |(weigher, class): (&str, ResourceClass)| {
            let multiplier = policy.multiplier_thousandths(weigher);
            let capacity: Vec<u64> = hosts
                .iter()
                .map(|host| host.node.inventory.get(&class).map_or(0, |inventory| inventory.capacity()))
                .collect();
            let mut class = Class {
                class,
                multiplier: i128::from(multiplier),
                hosts: 0,
                claimed: Vec::new(),
                capacity,
                sum: 0,
                sum_of_squares: 0,
            };
            class.claimed = hosts.iter().map(|host| host.claimed().get(&class.class)).collect();
            for at in (0..hosts.len()).filter(|at| takes[*at] && class.capacity[*at] > 0) {
                let used = class.share(at, class.claimed[at]);
                class.hosts += 1;
                class.sum += used;
                class.sum_of_squares += used * used;
            }
            (multiplier != 0).then_some(class)
        };
        let classes = weighers.into_iter().filter_map(class).collect();
        Self { state, policy, hosts, takes, classes, placed: Placed::new() }
    }

    fn imbalance(&self) -> i64 {
        self.root(self.classes.iter().map(|class| class.weighted(class.sum, class.sum_of_squares)).sum())
    }

    /// Signed square root of the weighted mean of the variances.
    fn root(&self, weighted: i128) -> i64 {
        let weights: i128 = self.classes.iter().map(|class| class.multiplier.abs()).sum();
        let mean = weighted / weights.max(1);
        let root = mean.unsigned_abs().isqrt() as i64;
        if mean < 0 { -root } else { root }
    }

    /// The move that gains most: which of `vms`, to which host, how much.
    fn best(&self, vms: &[&Vm], min_gain: u64) -> Option<(usize, usize, u64)> {
        let now = self.imbalance();
        let mut best: Option<(usize, usize, u64)> = None;
        for (at, vm) in vms.iter().enumerate() {
            let Some(claim) = &vm.claim else { continue };
            let Some(from) = self.place_of(claim.node) else { continue };
            let mut asked = None;
            for to in (0..self.hosts.len()).filter(|to| *to != from && self.takes[*to]) {
                let gain = u64::try_from(now - self.after(&claim.resources, Some(from), to)).unwrap_or(0);
                if gain < min_gain || best.is_some_and(|(.., most)| gain <= most) {
                    continue;
                }
                let request = asked.get_or_insert_with(|| Request::new(self.state, &self.placed, vm));
                if self.policy.passes(request, &self.hosts[to]) {
                    best = Some((at, to, gain));
                }
            }
        }
        best
    }

    fn after(&self, claim: &Resources, from: Option<usize>, to: usize) -> i64 {
        let moved = self.classes.iter().map(|class| {
            let (sum, squares) = class.moved(from, to, &self.takes, claim.get(&class.class));
            class.weighted(sum, squares)
        });
        self.root(moved.sum())
    }

    fn place_of(&self, node: NodeId) -> Option<usize> {
        self.hosts.binary_search_by_key(&node, Host::id).ok()
    }

    /// By how much a move lowers the imbalance; none if it cannot be made.
    fn gain(&self, vm: &Vm, to: NodeId) -> Option<i64> {
        let claim = vm.claim.as_ref()?;
        let from = self.place_of(claim.node)?;
        Some(self.imbalance() - self.after(&claim.resources, Some(from), self.place_of(to)?))
    }

    /// Makes a move; of a VM that has left its host already, the rest of it.
    fn make(&mut self, vm: &Vm, to: NodeId) -> Option<()> {
        let to = self.place_of(to)?;
        let from = vm.claim.as_ref().and_then(|claim| self.place_of(claim.node));
        let claim = vm.claim.as_ref().map_or_else(|| feasible::claim_of(&vm.spec), |c| c.resources.clone());
        for class in &mut self.classes {
            let amount = claim.get(&class.class);
            (class.sum, class.sum_of_squares) = class.moved(from, to, &self.takes, amount);
            if let Some(from) = from {
                class.claimed[from] = class.claimed[from].saturating_sub(amount);
            }
            class.claimed[to] = class.claimed[to].saturating_add(amount);
        }
        if let Some(from) = from {
            self.hosts[from].without(vm);
        }
        self.hosts[to].claim(&claim);
        self.hosts[to].take_parts(vm);
        self.placed.insert(vm.id, Some(self.hosts[to].id()));
        Some(())
    }
}

impl Plan {
    /// How many VMs stay for each reason.
    pub fn reasons(&self) -> BTreeMap<&str, usize> {
        let mut reasons = BTreeMap::new();
        self.fixed.iter().for_each(|fixed| *reasons.entry(fixed.why.as_str()).or_default() += 1);
        reasons
    }
}
