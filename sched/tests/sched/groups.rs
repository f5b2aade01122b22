//! Groups under a crowd: many members created at once.

use std::collections::BTreeMap;

use holm_model::command::PlaceVms;
use holm_model::group::GroupPolicy;
use holm_model::reply::{Reason, Reply};
use holm_model::scheduling::Scheduling;
use holm_model::{Command, GroupId, NodeId, Outcome, VmId, invariant};
use holm_sched::controllers::Placement;
use holm_sched::{Controller, Facts};

use crate::cluster::{Cluster, HostSize, MEDIUM, SMALL_VM};

const BIG: HostSize = HostSize { vcpus: 200, memory_mib: 500_000, disk_gib: 1000 };

fn members(cluster: &mut Cluster, group: GroupId, count: usize) -> Vec<VmId> {
    let one = || Scheduling { group: Some(group), ..Scheduling::default() };
    (0..count).map(|_| cluster.vm_like(one())).collect()
}

fn per_node(cluster: &Cluster, vms: &[VmId]) -> BTreeMap<NodeId, usize> {
    let mut counts = BTreeMap::new();
    for claim in vms.iter().filter_map(|vm| cluster.record(*vm).claim.as_ref()) {
        *counts.entry(claim.node).or_default() += 1;
    }
    counts
}

fn decide(cluster: &Cluster) -> Vec<Command> {
    Placement.decide(&cluster.state, &Facts { now: cluster.now, ..Facts::default() })
}

#[test]
fn affinity_and_anti_affinity_hold_under_a_hundred_concurrent_creates() {
    let mut cluster = Cluster::of(&[BIG; 40]);
    let together = cluster.group(1, GroupPolicy::Affinity, None);
    let apart = cluster.group(2, GroupPolicy::AntiAffinity, None);
    let pairs = cluster.group(3, GroupPolicy::AntiAffinity, Some(2));
    // Interleaved, so that no group has the batch for itself.
    let (mut a, mut b, mut c) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..100 {
        a.extend(members(&mut cluster, together, 1));
        b.extend(members(&mut cluster, apart, 1));
        c.extend(members(&mut cluster, pairs, 1));
    }
    let commands = decide(&cluster);
    cluster.carry_out(commands);
    assert_eq!(per_node(&cluster, &a).into_values().collect::<Vec<_>>(), [100], "all on one host");
    assert_eq!(per_node(&cluster, &b).into_values().collect::<Vec<_>>(), [1; 40], "one on each host");
    assert_eq!(per_node(&cluster, &c).into_values().collect::<Vec<_>>(), [2; 40], "two on each host");
    let waiting = cluster.state.waiting.iter().next().expect("60 of b and 20 of c wait");
    let refusal = &cluster.record(*waiting).refusals[0];
    assert_eq!(refusal.by, "ServerGroup");
}

/// A decision made on an old picture, as by a leader that was just deposed and another that follows it.
#[test]
fn what_apply_refuses_of_a_stale_decision_the_next_does_not_pick_again() {
    let mut cluster = Cluster::of(&[BIG; 3]);
    let apart = cluster.group(1, GroupPolicy::AntiAffinity, None);
    let vms = members(&mut cluster, apart, 3);
    let stale = decide(&cluster);
    // Meanwhile another member took node 1, and node 2 was cordoned.
    let other = cluster.create(SMALL_VM, |vm| {
        vm.node = Some(NodeId(1));
        vm.scheduling.group = Some(apart);
    });
    let leadership = cluster.leadership();
    let placements = vec![holm_model::command::Placement { vm: other, node: NodeId(1), choice: None }];
    cluster.done(Command::PlaceVms(PlaceVms { leadership, placements, atomic: false }));
    cluster.cordon(2, "test");

    let Some(Command::PlaceVms(place)) = stale.into_iter().next() else { panic!("it placed") };
    let done = cluster.done(Command::PlaceVms(place.clone()));
    let Outcome::Placed { refused } = done.outcome else { panic!("{done:?}") };
    assert_eq!(refused.len(), 2, "only node 3 still takes one");
    for _ in 0..2 {
        let commands = decide(&cluster);
        let again = |vm: &VmId| {
            commands.iter().any(|command| {
                matches!(command, Command::PlaceVms(next) if next.placements.iter().any(|p| p.vm == *vm))
            })
        };
        assert!(!refused.iter().any(|(vm, _)| again(vm)), "nothing changed for them");
        cluster.carry_out(commands);
        invariant::check(&cluster.state).expect("it holds");
    }
    assert_eq!(decide(&cluster), [], "and the queue rests");
    assert_eq!(per_node(&cluster, &vms).into_keys().collect::<Vec<_>>(), [NodeId(3)]);
}

/// Nova would take them, and the VM would wait for ever.
#[test]
fn what_a_vm_asks_beside_its_group_must_go_with_the_group() {
    let apart = |vm: VmId| Scheduling { different_host: [vm].into(), ..Scheduling::default() };
    let beside = |vm: VmId| Scheduling { same_host: [vm].into(), ..Scheduling::default() };
    type Asks = fn(VmId) -> Scheduling;
    let cases: [(GroupPolicy, Option<u32>, Asks, Option<&str>); 6] = [
        (GroupPolicy::Affinity, None, apart, Some("different_host")),
        (GroupPolicy::Affinity, None, beside, None),
        (GroupPolicy::AntiAffinity, None, beside, Some("same_host")),
        (GroupPolicy::AntiAffinity, Some(2), beside, None),
        (GroupPolicy::AntiAffinity, None, apart, None),
        (GroupPolicy::SoftAffinity, None, apart, None),
    ];
    for (policy, max, asks, refused) in cases {
        let mut cluster = Cluster::of(&[MEDIUM; 2]);
        let group = Some(cluster.group(1, policy, max));
        let member = cluster.vm_like(Scheduling { group, ..Scheduling::default() });
        let stranger = cluster.vm(SMALL_VM);
        let flavor = cluster.flavor_with(SMALL_VM, &[]);
        for (other, expected) in [(member, refused), (stranger, None)] {
            let scheduling = Scheduling { group, ..asks(other) };
            let request = cluster.request(flavor, |vm| vm.scheduling = scheduling);
            let field = match cluster.apply(Command::CreateVm(request)) {
                Reply::Rejected(Reason::Invalid { field, .. }) => Some(field),
                reply => {
                    assert!(matches!(reply, Reply::Done(_)), "{reply:?}");
                    None
                }
            };
            assert_eq!(field.as_deref(), expected, "{policy:?} {max:?}");
        }
    }
}
