//! What is measured: clusters of many sizes and queues of many kinds, each with its target.

use holm_model::group::GroupPolicy;
use holm_model::scheduling::Scheduling;
use holm_model::vm::Vm;
use holm_model::{GroupId, NodeId, State};
use holm_sched::controllers::Placement;
use holm_sched::{Controller, Facts};
use uuid::Uuid;

use crate::cluster::Cluster;

const ONE: &str = "one VM";
const NOWHERE: &str = "one VM that fits nowhere";
const DOWN: &str = "the first filter refuses every host";

/// The cases whose growth is measured.
pub const GROWING: [&str; 3] = [ONE, NOWHERE, DOWN];

/// The design's budget, in microseconds a VM.
const BUDGET_US: u64 = 100;

/// One line of the output.
pub struct Case {
    pub hosts: u64,
    pub label: &'static str,
    /// In the queue.
    pub vms: u64,
    pub target_us: Option<u64>,
    /// Rather than per VM.
    pub per_decision: bool,
    pub expect: Expect,
    pub note: &'static str,
    /// Done to the cluster before its queue is made.
    furnish: fn(&mut Cluster),
    /// Done to each VM of the queue.
    ask: fn(u64, &mut Vm),
    /// Done to the state at last.
    then: fn(&mut State),
}

/// What a decision must come to.
pub enum Expect {
    AllPlaced,
    /// So many VMs that fit nowhere are told why.
    NewsOf(usize),
}

impl Case {
    fn of(hosts: u64, label: &'static str, vms: u64) -> Self {
        Self {
            hosts,
            label,
            vms,
            target_us: None,
            per_decision: false,
            expect: Expect::AllPlaced,
            note: "default filters and weighers, 10 VMs on each host",
            furnish: |_| {},
            ask: |_, _| {},
            then: |_| {},
        }
    }

    pub fn state(&self) -> State {
        let mut cluster = Cluster::of(self.hosts);
        (self.furnish)(&mut cluster);
        let mut state = cluster.with_queue(self.vms, self.ask);
        (self.then)(&mut state);
        state
    }
}

fn target(hosts: u64) -> Option<u64> {
    (hosts == 1000).then_some(BUDGET_US)
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for hosts in [100, 1000, 10_000] {
        let case = |label, vms| Case { target_us: target(hosts), ..Case::of(hosts, label, vms) };
        cases.push(case(ONE, 1));
        let nowhere = |label| Case { expect: Expect::NewsOf(1), ..case(label, 1) };
        cases.push(Case { ask: too_big, ..nowhere(NOWHERE) });
        cases.push(Case { furnish: Cluster::down, note: "default filters, all nodes down", ..nowhere(DOWN) });
    }
    for hosts in [100, 1000] {
        let case = |label, vms| Case { target_us: target(hosts), ..Case::of(hosts, label, vms) };
        cases.push(case("batch of 1000, one shape", 1000));
        cases.push(Case { ask: shapes, ..case("batch of 1000, 100 shapes", 1000) });
    }
    let case = |label, vms| Case { target_us: target(1000), ..Case::of(1000, label, vms) };
    let in_one = |label, vms, furnish| Case {
        furnish,
        ask: in_one_group,
        note: "default filters and weighers, all in one group",
        ..case(label, vms)
    };
    let refused = |label, furnish, note| Case { furnish, note, expect: Expect::NewsOf(1), ..case(label, 1) };
    cases.extend([
        Case { furnish: Cluster::group_all, ask: grouped, ..case("batch of 1000 in 200 groups", 1000) },
        Case { furnish: Cluster::group_all, ask: grouped, ..case("one VM beside 200 groups", 1) },
        in_one("batch of 1000 in one soft anti-affinity group", 1000, |cluster| {
            cluster.group(GroupPolicy::SoftAntiAffinity, None)
        }),
        in_one("batch of 1000 in one soft affinity group", 1000, |cluster| {
            cluster.group(GroupPolicy::SoftAffinity, None)
        }),
        in_one("batch of 1000 in one anti-affinity group, 3 a host", 1000, |cluster| {
            cluster.group(GroupPolicy::AntiAffinity, Some(3))
        }),
        in_one("batch of 30 in one affinity group", 30, |cluster| cluster.group(GroupPolicy::Affinity, None)),
        Case {
            furnish: Cluster::preemptible,
            ask: too_big_of_many_shapes,
            expect: Expect::NewsOf(100),
            target_us: None,
            note: "preemption is on, 10 VMs on each host may be evicted, and that helps nobody",
            ..case("1000 VMs of 1000 shapes that fit nowhere, preempting", 1000)
        },
        Case {
            ask: too_big,
            ..refused(
                "the last filter refuses every host",
                |_| {},
                "default filters, no host is large enough",
            )
        },
        Case {
            furnish: Cluster::every_filter,
            target_us: None,
            note: "every filter is switched on, has something to compare, and none refuses",
            ..case("one VM past every filter", 1)
        },
        Case {
            furnish: Cluster::offer_parts,
            ask: with_parts,
            note: "4 dedicated CPUs of one NUMA node and a GPU; 10 VMs on each host hold some",
            ..case("one VM with dedicated CPUs and a PCI device", 1)
        },
        Case {
            furnish: Cluster::offer_parts,
            note: "of hosts with dedicated CPUs and GPUs; 10 VMs on each hold some",
            ..case("one VM that asks for no parts", 1)
        },
    ]);
    cases.extend(full_queues());
    cases
}

/// Thousands that fit nowhere: what each decision costs and writes.
fn full_queues() -> [Case; 3] {
    let case = |label, expect, then| Case {
        per_decision: true,
        ask: too_big,
        expect,
        then,
        ..Case::of(100, label, 10_000)
    };
    [
        case("10000 VMs that fit nowhere, all new", Expect::NewsOf(1000), |_| {}),
        case("10000 VMs that fit nowhere, all told", Expect::NewsOf(0), tell_all),
        case("10000 VMs that fit nowhere, and a node goes down", Expect::NewsOf(100), |state| {
            tell_all(state);
            state.nodes.get_mut(&NodeId(1)).expect("it exists").up = false;
        }),
    ]
}

/// Applies decisions until nothing is left to record.
fn tell_all(state: &mut State) {
    loop {
        let commands = Placement.decide(state, &Facts::default());
        if commands.is_empty() {
            return;
        }
        commands.into_iter().for_each(|command| crate::cluster::apply_to(state, command));
    }
}

fn too_big(_: u64, vm: &mut Vm) {
    vm.spec.size.memory_mib = 1 << 30;
}

fn too_big_of_many_shapes(n: u64, vm: &mut Vm) {
    vm.spec.size.memory_mib = (1 << 30) + n;
    vm.spec.scheduling.priority = 1;
}

fn in_one_group(_: u64, vm: &mut Vm) {
    grouped(0, vm);
}

fn shapes(n: u64, vm: &mut Vm) {
    vm.spec.size.memory_mib += n % 100 * 2;
}

fn grouped(n: u64, vm: &mut Vm) {
    let group = Some(GroupId(Uuid::from_u128(u128::from(n % 200))));
    vm.spec.scheduling = Scheduling { group, ..Scheduling::default() };
}

fn with_parts(_: u64, vm: &mut Vm) {
    vm.spec.size.vcpus = 4;
    let specs = [("hw:cpu_policy", "dedicated"), ("hw:numa_nodes", "1"), ("pci_passthrough:alias", "gpu:1")];
    vm.spec.extra_specs = specs.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
}
