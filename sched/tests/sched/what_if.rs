//! Predictions, and dry runs.

use std::collections::BTreeMap;

use holm_model::command::{DeleteVm, DrainRequest, FenceNode, SetNodeDrain, SetNodeMaintenance};
use holm_model::flavor::Size;
use holm_model::group::GroupPolicy;
use holm_model::node::DrainPinned;
use holm_model::scheduling::Scheduling;
use holm_model::vm::{Availability, DiskLoss, ObservedState, VmStatus, WantPower};
use holm_model::{Actor, Command, NodeId, ResourceClass, State, VmId};
use holm_sched::controllers::Placement;
use holm_sched::explain::Verdict;
use holm_sched::what_if::{Stay, Voters, hindrances_of_any_loss};
use holm_sched::{Controller, Facts, explain_request, what_if};

use crate::cluster::{Cluster, HostSize, MEDIUM, SMALL_VM};
use crate::world::{Dice, world};

const TWO: HostSize = HostSize { vcpus: 2, memory_mib: 8192, disk_gib: 100 };

fn on(cluster: &mut Cluster, node: u64, scheduling: Scheduling) -> VmId {
    on_as(cluster, node, scheduling, Availability::Pinned)
}

fn on_as(cluster: &mut Cluster, node: u64, scheduling: Scheduling, availability: Availability) -> VmId {
    let vm = cluster.create(SMALL_VM, |vm| {
        vm.node = Some(NodeId(node));
        vm.scheduling = scheduling;
        vm.policies.disk_loss = DiskLoss::Recreate;
    });
    assert_eq!(cluster.placed_on(vm), Some(node));
    // It was put there by hand; from now on it may go anywhere.
    let record = cluster.state.vms.get_mut(&vm).expect("it exists");
    (record.spec.node, record.spec.availability) = (None, availability);
    record.claim.iter_mut().for_each(|claim| claim.availability = availability);
    vm
}

#[test]
fn what_if_says_which_vms_fit_where_and_why_the_others_do_not() {
    let mut cluster = Cluster::of(&[TWO; 3]);
    let first = on_as(&mut cluster, 1, Scheduling::default(), Availability::Failover);
    let urgent = Scheduling { priority: 5, ..Scheduling::default() };
    let urgent = on_as(&mut cluster, 1, urgent, Availability::Failover);
    on(&mut cluster, 2, Scheduling::default());
    on(&mut cluster, 2, Scheduling::default());
    on(&mut cluster, 3, Scheduling::default());
    let before = cluster.state.clone();
    for (lose, drain, words) in [
        (vec![NodeId(1)], vec![], "the node is down"),
        (vec![], vec![NodeId(1)], "the node is cordoned: draining"),
    ] {
        let answer = what_if(&cluster.state, &lose, &drain, &Voters::All);
        // One slot is left, on node 3, and the greater priority takes it.
        let moves: Vec<_> = answer.moves.iter().map(|m| (m.vm, m.from.0, m.to.0, m.by_itself)).collect();
        assert_eq!(moves, [(urgent, 1, 3, true)]);
        assert_eq!(answer.hindrances, Vec::<String>::new());
        let [stuck] = answer.stuck.as_slice() else { panic!("{answer:?}") };
        assert_eq!((stuck.vm, stuck.from), (first, NodeId(1)));
        let reasons: Vec<_> = stuck.refusals.iter().map(|r| (r.node.0, r.message.as_str())).collect();
        let full = "VCPU: 1 wanted, 0 free of 2";
        assert_eq!(reasons, [(1, words), (2, full), (3, full)]);
    }
    assert_eq!(cluster.state, before, "asking changes nothing");
}

#[test]
fn what_if_keeps_groups_apart_while_they_move() {
    let mut cluster = Cluster::of(&[MEDIUM; 4]);
    let apart = cluster.group(1, GroupPolicy::AntiAffinity, None);
    for node in 1..=3 {
        on(&mut cluster, node, Scheduling { group: Some(apart), ..Scheduling::default() });
    }
    let answer = what_if(&cluster.state, &[NodeId(1), NodeId(2)], &[], &Voters::All);
    assert_eq!(
        answer.moves.iter().map(|m| m.to.0).collect::<Vec<_>>(),
        [4],
        "the only host without a member"
    );
    assert_eq!(answer.stuck.len(), 1);
    let together = what_if(&cluster.state, &[NodeId(1)], &[NodeId(2), NodeId(3), NodeId(4)], &Voters::All);
    assert!(together.moves.is_empty());
    assert_eq!((together.stuck.len(), together.stays.len()), (1, 2), "pinned VMs are not moved by a drain");
}

#[test]
fn a_member_that_is_being_deleted_holds_no_group_to_the_lost_node() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    let together = cluster.group(1, GroupPolicy::Affinity, None);
    let [going, stays] = [(); 2].map(|()| {
        cluster.create(SMALL_VM, |vm| {
            vm.availability = Availability::Failover;
            vm.policies.disk_loss = DiskLoss::Recreate;
            vm.scheduling.group = Some(together);
        })
    });
    let lost = NodeId(cluster.placed_on(going).expect("there is room"));
    cluster.run(going);
    cluster.run(stays);
    cluster.done(Command::DeleteVm(DeleteVm { vm: going, expected: None }));
    // Named twice, it is lost once.
    let answer = what_if(&cluster.state, &[lost, lost], &[], &Voters::All);
    let [moved] = answer.moves.as_slice() else { panic!("{answer:?}") };
    assert_eq!((moved.vm, answer.stuck), (stays, vec![]));
    let leadership = cluster.leadership();
    cluster.done(Command::FenceNode(FenceNode { leadership, node: lost }));
    assert_eq!(cluster.placed_on(stays), Some(moved.to.0));
    assert!(!cluster.state.vms.contains_key(&going));
}

#[test]
fn what_if_of_nodes_without_vms_is_empty() {
    let cluster = Cluster::of(&[MEDIUM; 2]);
    let nothing = what_if(&cluster.state, &[NodeId(1)], &[NodeId(99)], &Voters::All);
    assert_eq!((nothing.moves, nothing.stuck), (vec![], vec![]));
}

#[test]
fn what_if_answers_for_every_vm_of_random_clusters_and_moves_none_to_a_lost_node() {
    for seed in 0..200 {
        let cluster = world(seed);
        let lost = NodeId(1);
        let answer = what_if(&cluster.state, &[lost], &[], &Voters::All);
        let staying = |vm: &&holm_model::vm::Vm| vm.status != VmStatus::Deleting;
        let vms = cluster.state.vms_on(lost).filter(staying).count();
        assert_eq!(answer.moves.len() + answer.stuck.len(), vms, "seed {seed}");
        assert!(answer.moves.iter().all(|m| m.to != lost && m.from == lost), "seed {seed}");
    }
}

#[test]
fn waiting_vms_take_part_in_the_order_of_the_queue() {
    let mut cluster = Cluster::of(&[TWO; 2]);
    let resident = on(&mut cluster, 1, Scheduling::default());
    on(&mut cluster, 2, Scheduling::default());
    let mut wait = |vcpus, priority| {
        cluster.create(Size { vcpus, ..SMALL_VM }, |vm| {
            vm.scheduling = Scheduling { priority, ..vm.scheduling.clone() }
        })
    };
    let (first, last) = (wait(1, 5), wait(1, -5));
    let answer = what_if(&cluster.state, &[NodeId(1)], &[], &Voters::Known([NodeId(2)].into()));
    let waiting: Vec<_> = answer.waiting.iter().map(|w| (w.vm, w.to.map(|node| node.0))).collect();
    assert_eq!(waiting, [(first, Some(2)), (last, None)]);
    assert_eq!(answer.stuck.iter().map(|stuck| stuck.vm).collect::<Vec<_>>(), [resident]);
}

#[test]
fn a_drain_moves_what_fails_over_stops_or_keeps_what_is_pinned_and_leaves_what_is_off() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    let web = on_as(&mut cluster, 1, Scheduling::default(), Availability::Failover);
    let db = on(&mut cluster, 1, Scheduling::default());
    let off = on(&mut cluster, 1, Scheduling::default());
    [web, db, off].into_iter().for_each(|vm| cluster.run(vm));
    let record = cluster.state.vms.get_mut(&off).expect("it exists");
    record.power.want = WantPower::Off;
    record.observed.iter_mut().for_each(|observed| observed.state = ObservedState::Stopped);
    let fates = |state: &State| {
        let answer = what_if(state, &[], &[NodeId(1)], &Voters::All);
        let moves: Vec<_> = answer.moves.iter().map(|m| (m.vm, m.by_itself)).collect();
        assert_eq!((moves, answer.stuck), (vec![(web, true)], vec![]));
        answer.stays.iter().map(|stays| (stays.vm, stays.how)).collect::<Vec<_>>()
    };
    assert_eq!(fates(&cluster.state), [(db, Stay::StopsOrKept), (off, Stay::Off)]);
    for (pinned, how) in [(DrainPinned::Stop, Stay::Stops), (DrainPinned::Keep, Stay::Kept)] {
        let drain = Some(DrainRequest { stop_timeout_s: 60, pinned });
        cluster.done(Command::SetNodeDrain(SetNodeDrain { node: NodeId(1), drain, expected: None }));
        assert_eq!(fates(&cluster.state), [(db, how), (off, Stay::Off)]);
    }
    cluster.set_up(1, false);
    let answer = what_if(&cluster.state, &[], &[NodeId(1)], &Voters::All);
    assert_eq!(answer.hindrances, ["node `n1` is down: nothing is moved or stopped there before it is up"]);
    assert!(!answer.moves[0].by_itself);
}

#[test]
fn without_a_majority_nothing_comes_back_and_what_fails_over_stops() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    for node in 1..=3 {
        on_as(&mut cluster, node, Scheduling::default(), Availability::Failover);
    }
    let late = cluster.create(Size { vcpus: 99, ..SMALL_VM }, |_| {});
    let known = |voters: &[u64]| Voters::Known(voters.iter().map(|node| NodeId(*node)).collect());
    let none = |up: usize, all: usize, stop: &str| {
        format!(
            "no majority is left, {up} of {all} voters: nothing comes back, and VMs that fail over stop{stop}"
        )
    };
    let lose = |cluster: &Cluster, lose: &[u64], voters: &Voters| {
        let lose: Vec<NodeId> = lose.iter().map(|node| NodeId(*node)).collect();
        what_if(&cluster.state, &lose, &[], voters)
    };
    assert_eq!(hindrances_of_any_loss(&cluster.state, &Voters::All), Vec::<String>::new());
    let one = lose(&cluster, &[2], &Voters::All);
    assert_eq!((one.hindrances.len(), one.moves[0].by_itself), (0, true));
    let two = lose(&cluster, &[2, 3], &Voters::All);
    assert_eq!(two.hindrances, [none(1, 3, ", 1 of them on nodes that stay")]);
    assert!(two.moves.iter().all(|moved| !moved.by_itself), "{two:?}");
    // Those that are no voters may be lost.
    assert_eq!(lose(&cluster, &[2, 3], &known(&[1])).hindrances, Vec::<String>::new());
    assert_eq!(lose(&cluster, &[1], &known(&[1])).hindrances, [none(0, 1, ", 2 of them on nodes that stay")]);

    cluster.set_up(3, false);
    let second = lose(&cluster, &[2], &Voters::All);
    assert_eq!(second.hindrances, [none(1, 3, ", 1 of them on nodes that stay")]);
    assert!(second.waiting.iter().all(|waiting| waiting.vm == late && waiting.to.is_none()));
    let sentence = "2 of 3 voters are up: without one more no majority is left, and nothing fails over";
    assert_eq!(hindrances_of_any_loss(&cluster.state, &Voters::All), [sentence]);
}

#[test]
fn what_no_fence_frees_stays_with_its_node() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    on_as(&mut cluster, 1, Scheduling::default(), Availability::Failover);
    let mut small = Cluster::of(&[MEDIUM; 2]);
    on_as(&mut small, 1, Scheduling::default(), Availability::Failover);
    let mut tended = cluster.clone();
    tended.done(Command::SetNodeMaintenance(SetNodeMaintenance {
        node: NodeId(1),
        on: true,
        reason: None,
        drain: None,
        expected: None,
    }));
    for (cluster, why) in
        [(&tended, "node `n1` is in maintenance"), (&small, "no majority is left, 1 of 2 voters")]
    {
        let answer = what_if(&cluster.state, &[NodeId(1)], &[], &Voters::All);
        assert!(answer.hindrances[0].starts_with(why), "{answer:?}");
        assert_eq!((answer.moves.len(), answer.moves[0].by_itself), (1, false));
    }
    let sentence = "node `n1` is in maintenance: its VMs that fail over (1 on `n1`) would wait for it";
    assert_eq!(hindrances_of_any_loss(&tended.state, &Voters::All), [sentence]);
}

#[test]
fn what_if_predicts_what_a_fence_then_does_vm_by_vm() {
    let mut moved = 0;
    for seed in 0..250 {
        let mut cluster = world(seed);
        if cluster.state.nodes.len() < 3 {
            continue;
        }
        let mut dice = Dice(seed ^ 2);
        let all: Vec<VmId> = cluster.state.vms.keys().copied().collect();
        for id in all.into_iter().filter(|_| !dice.once_in(3)) {
            let vm = cluster.state.vms.get_mut(&id).expect("it is there");
            vm.spec.availability = Availability::Failover;
            vm.claim.iter_mut().for_each(|claim| claim.availability = Availability::Failover);
        }
        let nodes = cluster.state.nodes.keys().copied();
        let lost = nodes.max_by_key(|node| cluster.state.vms_on(*node).count()).expect("there are three");
        let foreseen = what_if(&cluster.state, &[lost], &[], &Voters::All);
        let expected: BTreeMap<VmId, NodeId> =
            foreseen.moves.iter().filter(|m| m.by_itself).map(|m| (m.vm, m.to)).collect();
        let leadership = cluster.leadership();
        cluster.done(Command::FenceNode(FenceNode { leadership, node: lost }));
        let facts = Facts { now: cluster.now, ..Facts::default() };
        let commands = Placement.decide(&cluster.state, &facts);
        cluster.carry_out(commands);
        for (vm, to) in &expected {
            let claim = cluster.record(*vm).claim.as_ref().map(|claim| claim.node);
            assert_eq!(claim, Some(*to), "seed {seed}: {}", cluster.record(*vm).name);
            moved += 1;
        }
        for stuck in foreseen.stuck.iter().filter(|stuck| stuck.by_itself) {
            assert_eq!(cluster.record(stuck.vm).claim, None, "seed {seed}: {}", stuck.name);
        }
    }
    assert!(moved > 50, "only {moved} VMs moved");
}

fn actor() -> Actor {
    Actor { name: "test".into(), project: "default".into() }
}

#[test]
fn a_dry_run_explains_a_vm_that_does_not_exist_and_leaves_nothing_behind() {
    let mut cluster = Cluster::of(&[MEDIUM, TWO]);
    let flavor = cluster.flavor_with(holm_model::flavor::Size { vcpus: 4, ..SMALL_VM }, &[]);
    let request = cluster.request(flavor, |_| {});
    let before = cluster.state.clone();
    let explanation =
        explain_request(&cluster.state, cluster.now, &actor(), &request).expect("it may be created");
    assert_eq!((explanation.best, explanation.placed_on), (Some(NodeId(1)), None));
    let message = "VCPU: 4 wanted, 2 free of 2".to_owned();
    let refused = Verdict::Refused { by: "Capacity".into(), message, also: Vec::new() };
    assert_eq!(explanation.hosts[1].verdict, refused);
    assert_eq!(cluster.state, before);
    cluster.done(Command::CreateVm(request.clone()));
    assert_eq!(cluster.placed_on(request.id), Some(1), "and so it goes");
}

#[test]
fn a_dry_run_is_refused_as_the_creation_would_be() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    cluster.done(Command::SetQuota(holm_model::command::SetQuota {
        project: "default".into(),
        limits: [(ResourceClass::Vcpu, Some(0))].into(),
    }));
    let flavor = cluster.flavor_with(SMALL_VM, &[]);
    let request = cluster.request(flavor, |_| {});
    let reason = explain_request(&cluster.state, cluster.now, &actor(), &request).expect_err("quota is 0");
    assert!(reason.to_string().contains("quota"), "{reason}");
}
