//! For every cluster and every queue: what the scheduler picks, apply accepts; nothing is ever claimed
//! beyond capacity; the same state gives the same decision; and the decision agrees with its explanation.

use holm_model::flavor::Size;
use holm_model::vm::OnNoHost;
use holm_model::{Command, State, VmId};
use holm_sched::controllers::Placement;
use holm_sched::request::Placed;
use holm_sched::{Batch, Controller, Facts, Host, Policy, Request, explain};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::cluster::{Cluster, HostSize};

#[derive(Clone, Debug)]
struct VmAsk {
    size: Size,
    /// Index into the hosts, for VMs that ask for one.
    node: Option<usize>,
    fail: bool,
}

/// Few sizes, so that hosts are often equal and every claim turns the choice.
fn host() -> impl Strategy<Value = (HostSize, bool, bool)> {
    let of = |vcpus, memory_mib, disk_gib| HostSize { vcpus, memory_mib, disk_gib };
    let sizes = vec![of(8, 9000, 40), of(8, 9000, 40), of(16, 9000, 20), of(3, 4000, 10), of(0, 0, 0)];
    (prop::sample::select(sizes), prop::bool::weighted(0.9), prop::bool::weighted(0.9))
}

fn vm() -> impl Strategy<Value = VmAsk> {
    // Few sizes, as in life: VMs of one shape share what is kept about the hosts.
    let size = (1u32..3, 0u64..2).prop_map(|(vcpus, big)| Size {
        vcpus,
        memory_mib: 500 + big * 1000,
        disk_gib: big * 5,
    });
    (size, prop::option::weighted(0.05, 0usize..8), prop::bool::weighted(0.2))
        .prop_map(|(size, node, fail)| VmAsk { size, node, fail })
}

/// A cluster with a queue, and the builds that are to fail after the first decision.
fn cluster() -> impl Strategy<Value = Cluster> {
    (vec(host(), 1..8), vec(vm(), 0..60), vec(any::<bool>(), 30)).prop_map(|(hosts, vms, fails)| {
        let sizes: Vec<HostSize> = hosts.iter().map(|(size, ..)| *size).collect();
        let mut cluster = Cluster::of(&sizes);
        for (n, (_, up, enabled)) in (1..).zip(&hosts) {
            if !up {
                cluster.set_up(n, false);
            }
            if !enabled {
                cluster.cordon(n, "test");
            }
        }
        let (early, late) = vms.split_at(vms.len() / 2);
        early.iter().for_each(|vm| create(&mut cluster, vm, hosts.len()));
        let commands = decide(&cluster.state);
        cluster.carry_out(commands);
        let placed: Vec<VmId> =
            cluster.state.vms.values().filter(|vm| vm.claim.is_some()).map(|vm| vm.id).collect();
        for (vm, fails) in placed.into_iter().zip(fails) {
            if fails {
                cluster.fail_build(vm, "test");
            }
        }
        late.iter().for_each(|vm| create(&mut cluster, vm, hosts.len()));
        cluster
    })
}

fn create(cluster: &mut Cluster, ask: &VmAsk, hosts: usize) {
    let on_no_host = if ask.fail { OnNoHost::Fail } else { OnNoHost::Queue };
    cluster.vm_with(ask.size, ask.node.map(|node| (node % hosts + 1) as u64), on_no_host);
}

fn decide(state: &State) -> Vec<Command> {
    Placement.decide(state, &Facts::default())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn apply_accepts_every_decision_and_nothing_is_over_capacity(mut cluster in cluster()) {
        let commands = decide(&cluster.state);
        // Panics when apply refuses any of it.
        cluster.carry_out(commands);
        for node in cluster.state.nodes.values() {
            for (class, held) in &node.allocated.0 {
                prop_assert!(*held <= node.inventory[class].capacity(), "{class} on node {}", node.id);
            }
        }
    }

    #[test]
    fn a_vm_left_waiting_truly_fits_nowhere(mut cluster in cluster()) {
        let commands = decide(&cluster.state);
        cluster.carry_out(commands);
        let policy = Policy::default();
        for id in &cluster.state.waiting {
            let vm = cluster.record(*id);
            prop_assert_eq!(vm.refusals.len(), cluster.state.nodes.len());
            let request = Request::new(&cluster.state, &Placed::new(), vm);
            for host in Host::all(&cluster.state) {
                prop_assert!(!policy.passes(&request, &host), "{} fits on {}", vm.name, host.node.name);
            }
        }
        prop_assert_eq!(decide(&cluster.state), []);
    }

    #[test]
    fn the_same_state_gives_the_same_decision(cluster in cluster()) {
        prop_assert_eq!(decide(&cluster.state), decide(&cluster.state.clone()));
    }

    #[test]
    fn kept_verdicts_change_no_choice(mut cluster in cluster()) {
        let state = cluster.state.clone();
        let policy = Policy::default();
        let mut batch = Batch::new(&state, &policy);
        let commands = decide(&state);
        let Some(Command::PlaceVms(place)) = commands.first() else { return Ok(()) };
        for placement in &place.placements {
            // One VM at a time on a fresh batch is the definition; the long batch is the optimisation.
            let record = cluster.record(placement.vm);
            prop_assert_eq!(Batch::new(&cluster.state, &policy).place(record).map(|chosen| chosen.node), Some(placement.node));
            prop_assert_eq!(explain(&cluster.state, &policy, record).best, Some(placement.node));
            prop_assert_eq!(batch.place(&state.vms[&placement.vm]).map(|chosen| chosen.node), Some(placement.node));
            let mut one = place.clone();
            one.placements = vec![placement.clone()];
            cluster.carry_out(vec![Command::PlaceVms(one)]);
        }
    }
}
