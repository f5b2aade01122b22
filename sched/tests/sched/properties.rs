//! For every cluster and every queue: what the scheduler picks, apply accepts; what apply refuses is not
//! picked again; nothing is ever claimed beyond capacity or quota; the same state gives the same decision;
//! and the decision agrees with its explanation and its replay.

use std::collections::{BTreeMap, BTreeSet};

use holm_model::command::{
    CreateVm, CreateVms, PlaceVms, ReleaseCause, SetQuota, SetVmPolicies, UpdateAggregate,
};
use holm_model::group::GroupPolicy;
use holm_model::resources::InventoryOverride;
use holm_model::vm::{Availability, DiskLoss, Recovery, Vm, WantPower};
use holm_model::{
    Actor, AggregateId, Command, GroupId, NodeId, Outcome, Reason, ResourceClass, State, Timestamp, VmId,
    invariant,
};
use holm_sched::controllers::Placement;
use holm_sched::queue::rank;
use holm_sched::request::Placed;
use holm_sched::{
    Batch, Controller, Facts, Host, Policy, Request, decide_again, explain, explain_request, foresee,
    n_plus_one, n_plus_one_after, replay,
};
use proptest::prelude::*;

use crate::cluster::{Cluster, SMALL_VM};
use crate::n_plus_one::{start, to_failover};
use crate::world::{Dice, unheard, wish, world};

fn decide(state: &State) -> Vec<Command> {
    Placement.decide(state, &Facts::default())
}

fn placements(commands: &[Command]) -> Option<&PlaceVms> {
    match commands.first() {
        Some(Command::PlaceVms(place)) => Some(place),
        _ => None,
    }
}

/// Every claim that was made since stays within capacity, and usage that grew within quota. Both may have been lowered
/// under what was there already, which stands.
fn within_limits(before: &State, after: &State) -> Result<(), String> {
    invariant::check(after)?;
    for vm in after.vms.values() {
        let held = before.vms.get(&vm.id).and_then(|vm| vm.claim.as_ref());
        let made = vm.claim.as_ref().filter(|claim| held.is_none_or(|held| held.epoch != claim.epoch));
        for (claim, class) in
            made.iter().flat_map(|claim| claim.resources.0.keys().map(move |class| (claim, class)))
        {
            let node = &after.nodes[&claim.node];
            let capacity = node.inventory.get(class).map_or(0, |inventory| inventory.capacity());
            if node.allocated.get(class) > capacity {
                return Err(format!("{}: {class} beyond {capacity} on {}", vm.name, node.name));
            }
        }
    }
    for (project, limits) in &after.quotas {
        for (class, limit) in &limits.0 {
            let used = |state: &State| state.usage.get(project).map_or(0, |usage| usage.get(class));
            if used(after) > used(before) && used(after) > *limit {
                return Err(format!("{class}: {} of {limit} in quota", used(after)));
            }
        }
    }
    Ok(())
}

/// Something that happens while a decision is on its way.
fn disturb(cluster: &mut Cluster, dice: &mut Dice) {
    let node = 1 + dice.roll(cluster.state.nodes.len() as u64);
    match dice.roll(7) {
        0 => cluster.cordon(node, "meanwhile"),
        1 => cluster.set_up(node, false),
        2 => {
            let commands = decide(&cluster.state);
            if let Some(place) = placements(&commands) {
                let placements = place.placements.iter().take(2).cloned().collect();
                cluster.carry_out(vec![Command::PlaceVms(PlaceVms { placements, ..place.clone() })]);
            }
        }
        3 => cluster.update(node, |node| _ = node.inventory.insert(class(dice), Some(less(dice)))),
        4 => {
            let (project, limit) = ("default".to_owned(), dice.roll(8));
            let limits = [(ResourceClass::Vcpu, Some(limit))].into();
            cluster.done(Command::SetQuota(SetQuota { project, limits }));
        }
        5 => {
            let inventory = [(class(dice), Some(less(dice)))].into();
            let id = AggregateId(uuid::Uuid::from_u128(u128::from(1 + dice.roll(3))));
            let of_all = UpdateAggregate {
                id,
                name: None,
                add_nodes: BTreeSet::new(),
                remove_nodes: BTreeSet::new(),
                metadata: BTreeMap::new(),
                inventory,
                expected: None,
            };
            cluster.done(Command::UpdateAggregate(of_all));
        }
        _ => wish(cluster, dice),
    }
}

fn class(dice: &mut Dice) -> ResourceClass {
    dice.pick(&[ResourceClass::Vcpu, ResourceClass::MemoryMb, ResourceClass::DiskGb])
}

/// Of a class there is less than was, perhaps less than is claimed, or more reserved than there is.
fn less(dice: &mut Dice) -> InventoryOverride {
    let (total, reserved) = (Some(dice.roll(4)), Some(dice.roll(8)));
    let ratio = dice.once_in(2).then_some(500);
    InventoryOverride { total, reserved, allocation_ratio_thousandths: ratio, ..InventoryOverride::default() }
}

/// Decides until there is nothing more to decide.
fn come_to_rest(cluster: &mut Cluster) {
    for _ in 0..100 {
        let commands = decide(&cluster.state);
        if commands.is_empty() {
            return;
        }
        cluster.carry_out(commands);
    }
    panic!("it does not come to rest");
}

/// Those that are to leave their node are gone from it.
fn leave(cluster: &mut Cluster) {
    let leaving = cluster.state.vms.values().filter(|vm| vm.recovery.vacate.is_some());
    let leaving: Vec<VmId> = leaving.map(|vm| vm.id).collect();
    leaving.into_iter().for_each(|vm| cluster.release(vm, ReleaseCause::Vacated));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn apply_accepts_every_decision_within_capacity_and_quota_at_every_index(seed: u64) {
        let mut cluster = world(seed);
        for command in decide(&cluster.state) {
            let before = cluster.state.clone();
            // Panics when apply refuses any of it.
            cluster.carry_out(vec![command]);
            within_limits(&before, &cluster.state).map_err(TestCaseError::fail)?;
        }
    }

    #[test]
    fn what_apply_refuses_is_not_picked_again_without_a_change(seed: u64) {
        let mut cluster = world(seed);
        let mut dice = Dice(seed ^ 1);
        let stale = decide(&cluster.state);
        for _ in 0..3 {
            disturb(&mut cluster, &mut dice);
        }
        let before = cluster.state.clone();
        let Some(place) = placements(&stale) else { return Ok(()) };
        let done = cluster.done(Command::PlaceVms(place.clone()));
        within_limits(&before, &cluster.state).map_err(TestCaseError::fail)?;
        let Outcome::Placed { refused } = done.outcome else { panic!("{done:?}") };
        let chosen: BTreeMap<VmId, NodeId> = place.placements.iter().map(|p| (p.vm, p.node)).collect();
        let next = decide(&cluster.state);
        let again = placements(&next).into_iter().flat_map(|place| &place.placements).find(|next| {
            // Those of a batch are refused for the sake of one that changed.
            let itself = |reason: &Reason| !matches!(reason, Reason::BatchRefused);
            refused.iter().any(|(vm, reason)| *vm == next.vm && itself(reason))
                && chosen.get(&next.vm) == Some(&next.node)
        });
        prop_assert_eq!(again, None, "refused: {:?}", refused);
        cluster.carry_out(next);
    }

    #[test]
    fn a_vm_left_waiting_truly_fits_nowhere(seed: u64) {
        let mut cluster = world(seed);
        come_to_rest(&mut cluster);
        let policy = Policy::of(&cluster.state.scheduler);
        for id in &cluster.state.waiting {
            let vm = cluster.record(*id);
            prop_assert_eq!(vm.refusals.len(), cluster.state.nodes.len());
            if vm.batch.is_some() {
                // One alone may fit; that not all do, the reference says.
                continue;
            }
            let request = Request::new(&cluster.state, &Placed::new(), vm);
            for mut host in Host::all(&cluster.state) {
                host.keep();
                prop_assert!(!policy.passes(&request, &host), "{} fits on {}", vm.name, host.node.name);
            }
        }
    }

    #[test]
    fn the_same_state_gives_the_same_decision_and_its_replay(seed: u64) {
        let mut cluster = world(seed);
        let mut dice = Dice(seed ^ 2);
        for round in 0..3 {
            let seen = cluster.state.clone();
            let unheard = if round == 0 { unheard(seed) } else { BTreeSet::new() };
            let commands = Placement.decide(&seen, &Facts { now: cluster.now, unheard, ..Facts::default() });
            let snapshot = holm_model::snapshot::decode(&holm_model::snapshot::encode(&seen)).expect("its own");
            cluster.carry_out(commands);
            for vm in cluster.state.vms.values() {
                let Some(decision) = vm.decision.as_ref().filter(|decision| decision.seen == seen.revision)
                else {
                    continue;
                };
                // From the record alone, on a replica that restored a snapshot.
                prop_assert_eq!(&decide_again(&snapshot, vm.id, decision), decision);
                let node = replay(&snapshot, &decision.withheld, vm.id).map(|placement| placement.node);
                prop_assert_eq!(node, vm.claim.as_ref().map(|claim| claim.node));
                prop_assert_eq!(node, decision.scores.first().map(|score| score.node));
            }
            // The evicted leave, others come, and hosts are kept for those that have waited.
            leave(&mut cluster);
            (0..4).for_each(|_| wish(&mut cluster, &mut dice));
            cluster.now = Timestamp(cluster.now.0 + 40_000);
        }
    }

    /// Whichever id it gets, a VM goes to one of the hosts that its dry run calls equally good.
    #[test]
    fn a_dry_run_says_where_the_vm_then_goes(seed: u64) {
        let mut cluster = world(seed);
        come_to_rest(&mut cluster);
        cluster.policy(|policy| policy.preemption = false);
        let mut dice = Dice(seed ^ 3);
        let flavor = cluster.flavor_with(SMALL_VM, &[]);
        let actor = Actor { name: "test".into(), project: "default".into() };
        for _ in 0..4 {
            let imagined = cluster.request(flavor, |vm| vm.scheduling.priority = dice.pick(&[0, 10]));
            let Ok(foreseen) = explain_request(&cluster.state, cluster.now, &actor, &imagined) else { continue };
            let equal = foreseen.equal_best();
            prop_assert_eq!(equal.is_empty(), foreseen.best.is_none());
            // The real one has another id.
            let id = VmId(uuid::Uuid::from_u128(u128::from(dice.roll(u64::MAX)) << 64));
            cluster.done(Command::CreateVm(CreateVm { id, ..imagined }));
            let node = cluster.placed_on(id).map(NodeId);
            prop_assert_eq!(node.is_none(), equal.is_empty(), "{:?} of {:?}", node, equal);
            prop_assert!(node.is_none_or(|node| equal.contains(&node)), "{:?} of {:?}", node, equal);
        }
    }

    /// Of a batch, every VM: with the same ids exactly where it was said, with others as many of them. What is refused,
    /// is refused alike.
    #[test]
    fn a_dry_run_of_a_batch_says_where_each_then_goes(seed: u64) {
        let mut cluster = world(seed);
        cluster.policy(|policy| policy.preemption = false);
        come_to_rest(&mut cluster);
        let mut dice = Dice(seed ^ 5);
        let flavor = cluster.flavor_with(SMALL_VM, &[]);
        let group = dice.once_in(3).then(|| GroupId(uuid::Uuid::from_u128(u128::from(1 + dice.roll(3)))));
        let priority = dice.pick(&[0, 10]);
        let items: Vec<CreateVm> = (0..1 + dice.roll(20)).map(|_| cluster.request(flavor, |vm| {
            (vm.scheduling.group, vm.scheduling.priority) = (group, priority);
        })).collect();
        let ids: Vec<VmId> = items.iter().map(|item| item.id).collect();
        let atomic = dice.once_in(2);
        let command = Command::CreateVms(CreateVms { items: items.clone(), atomic });
        let mut imagined = cluster.clone();
        let answer = imagined.apply(command.clone());
        let foreseen = foresee(&imagined.state, &ids);
        let mut other = cluster.clone();
        prop_assert_eq!(cluster.apply(command), answer);
        come_to_rest(&mut cluster);
        for (vm, outcome) in &foreseen.vms {
            let record = cluster.record(*vm);
            prop_assert_eq!(outcome.as_ref().ok(), record.claim.as_ref().map(|claim| &claim.node));
            if let Err(reasons) = outcome {
                prop_assert_eq!(reasons.message(), record.fault.as_ref().map(|fault| fault.message.clone()).unwrap_or_default());
            }
        }
        // The real ones have other ids, and so draw other hosts among equally good ones.
        let kept_together = |group: &GroupId| cluster.state.groups[group].policy == GroupPolicy::Affinity;
        if !group.as_ref().is_some_and(kept_together) {
            let others = items.iter().map(|item| {
                CreateVm { id: VmId(uuid::Uuid::from_u128(item.id.0.as_u128() << 64)), ..item.clone() }
            });
            other.apply(Command::CreateVms(CreateVms { items: others.collect(), atomic }));
            come_to_rest(&mut other);
            let placed = other.state.vms.values().filter(|vm| items.iter().any(|item| item.name == vm.name));
            let placed = placed.filter(|vm| vm.claim.is_some()).count();
            let said = foreseen.vms.iter().filter(|(_, outcome)| outcome.is_ok()).count();
            if foreseen.vms.len() == items.len() {
                prop_assert_eq!(placed, said);
            }
        }
    }

    /// Whatever brings a VM that is to be held, a creation, a start, a change of what is asked of it: with what N+1 would
    /// hold, it then holds, and not only once the node says that it is bound to its lease.
    #[test]
    fn n_plus_one_holds_with_what_it_was_asked_about(seed: u64) {
        let mut cluster = world(seed);
        cluster.policy(|policy| policy.preemption = false);
        come_to_rest(&mut cluster);
        let flavor = cluster.flavor_with(SMALL_VM, &[]);
        let actor = Actor { name: "test".into(), project: "default".into() };
        let mut dice = Dice(seed ^ 6);
        for _ in 0..4 {
            let placed: Vec<VmId> =
                cluster.state.vms.values().filter(|vm| vm.claim.is_some() && vm.recovery == Recovery::default())
                    .map(|vm| vm.id).collect();
            let command = match (dice.roll(3), placed.as_slice()) {
                (0, [_, ..]) => to_failover(dice.pick(&placed)),
                (1, [_, ..]) => {
                    let vm = dice.pick(&placed);
                    if cluster.record(vm).power.want == WantPower::On {
                        cluster.switch_off(vm);
                    }
                    cluster.apply(to_failover(vm));
                    start(vm)
                }
                _ => Command::CreateVm(cluster.request(flavor, |vm| {
                    vm.availability = Availability::Failover;
                    vm.policies.disk_loss = DiskLoss::Recreate;
                })),
            };
            let Ok(foreseen) = n_plus_one_after(&cluster.state, cluster.now, &actor, &command) else { continue };
            cluster.done(command.clone());
            come_to_rest(&mut cluster);
            prop_assert_eq!(n_plus_one(&cluster.state).holds(), foreseen.verdict.holds());
            if let Command::SetVmPolicies(SetVmPolicies { vm, .. }) = command && cluster.record(vm).claim.is_some() {
                cluster.tell_armed(vm, cluster.record(vm).recovery.availability_revision);
                prop_assert_eq!(n_plus_one(&cluster.state).holds(), foreseen.verdict.holds());
            }
        }
    }

    #[test]
    fn kept_verdicts_change_no_choice(seed: u64) {
        let mut cluster = world(seed);
        let state = cluster.state.clone();
        let policy = Policy::of(&state.scheduler);
        let mut batch = Batch::new(&state, &policy);
        let commands = decide(&state);
        let Some(place) = placements(&commands) else { return Ok(()) };
        let mut queue: Vec<&Vm> = state.waiting.iter().map(|id| &state.vms[id]).collect();
        queue.sort_by_key(|vm| rank(vm));
        let mut left: Vec<&Vm> = Vec::new();
        for vm in queue {
            let Some(placement) = place.placements.iter().find(|placement| placement.vm == vm.id) else {
                batch.keep_host_of(vm);
                left.push(vm);
                continue;
            };
            // One VM at a time on a fresh batch is the definition; the long batch is the optimisation.
            let record = cluster.record(placement.vm);
            let mut fresh = Batch::new(&cluster.state, &policy);
            left.iter().for_each(|vm| fresh.keep_host_of(vm));
            let alone = fresh.place(record).expect("it fits");
            prop_assert_eq!(alone.node, placement.node);
            prop_assert_eq!(explain(&cluster.state, &policy, record).best, Some(placement.node));
            prop_assert_eq!(batch.place(&state.vms[&placement.vm]), Some(alone));
            let mut one = place.clone();
            one.placements = vec![placement.clone()];
            cluster.carry_out(vec![Command::PlaceVms(one)]);
        }
    }
}
