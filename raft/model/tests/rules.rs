//! What landed stays as it was judged: an entry of before the rules were counted is applied by the rules of its time, so
//! that a replica that replays it ends where one is that has it in its snapshot.

use std::collections::{BTreeMap, BTreeSet};

use holm_model::aggregate::ZONE_KEY;
use holm_model::command::*;
use holm_model::flavor::Size;
use holm_model::group::GroupPolicy;
use holm_model::image::ImageKind;
use holm_model::policy::{NPlusOne, SchedulerPolicy};
use holm_model::resources::{InventoryField, InventoryOverride};
use holm_model::scheduling::{Effect, Scheduling, Taint};
use holm_model::version::RULES;
use holm_model::vm::{Availability, DiskLoss, OnNoHost, VmPolicies};
use holm_model::*;
use uuid::Uuid;

/// Applies `command` as accepted under `rules`; answers why it was refused.
fn tell(state: &mut State, rules: u32, command: Command) -> Result<(), String> {
    let actor = Actor { name: "admin".into(), project: "default".into() };
    let proposal = Proposal { key: None, seen: state.revision, actor, command };
    let reply = apply(state, &Entry { rules, ..Entry::new(Timestamp(1_000_000), proposal) }).reply;
    invariant::check(state).unwrap();
    match reply {
        Reply::Done(_) => Ok(()),
        Reply::Rejected(reason) => Err(reason.to_string()),
        Reply::Duplicate(_) => unreachable!("no keys here"),
    }
}

fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

fn flavor(n: u128, specs: &[(&str, &str)]) -> Command {
    let extra_specs = specs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let size = Size { vcpus: 1, memory_mib: 64, disk_gib: 0 };
    Command::CreateFlavor(CreateFlavor { id: FlavorId(id(n)), name: format!("f{n}"), size, extra_specs })
}

fn vm(n: u128, scheduling: Scheduling) -> Command {
    Command::CreateVm(CreateVm {
        admitted: None,
        id: VmId(id(n)),
        name: format!("vm{n}"),
        flavor: FlavorId(id(1)),
        image: ImageId(id(1)),
        kernel: None,
        cmdline: None,
        node: None,
        availability: Availability::Pinned,
        policies: Default::default(),
        on_no_host: OnNoHost::Queue,
        scheduling,
        volumes: Vec::new(),
    })
}

fn in_group(different_host: &[u128]) -> Scheduling {
    Scheduling {
        group: Some(GroupId(id(1))),
        different_host: different_host.iter().map(|n| VmId(id(*n))).collect(),
        ..Scheduling::default()
    }
}

/// A node in a zone, a flavor, an image, and a VM of an affinity group that asks for the zone.
fn cluster() -> State {
    let first_node = AddNode { name: "n1".into(), peer_addr: "h1:1".into(), api_addr: "h1:2".into() };
    let metadata = BTreeMap::from([(ZONE_KEY.to_owned(), "left".to_owned())]);
    let asks = Scheduling { availability_zone: Some("left".into()), ..in_group(&[]) };
    let mut state = State::default();
    for command in [
        Command::InitCluster(InitCluster { cluster: ClusterId(id(1)), name: "c".into(), first_node }),
        flavor(1, &[]),
        Command::CreateImage(CreateImage {
            id: ImageId(id(1)),
            name: "i".into(),
            kind: ImageKind::Kernel,
            size_bytes: 10,
            sha256: "a".repeat(64),
            holder: NodeId(1),
            properties: BTreeMap::new(),
        }),
        Command::CreateAggregate(CreateAggregate {
            id: AggregateId(id(1)),
            name: "a".into(),
            metadata,
            nodes: BTreeSet::from([NodeId(1)]),
        }),
        Command::CreateGroup(CreateGroup {
            id: GroupId(id(1)),
            name: "g".into(),
            policy: GroupPolicy::Affinity,
            max_server_per_host: None,
        }),
        vm(1, asks),
    ] {
        tell(&mut state, 0, command).unwrap();
    }
    state
}

fn update_node(inventory: &[(&str, Option<InventoryOverride>)]) -> UpdateNode {
    let inventory =
        inventory.iter().map(|(class, change)| (ResourceClass::from((*class).to_owned()), change.clone()));
    UpdateNode {
        node: NodeId(1),
        labels: BTreeMap::new(),
        taints: None,
        traits: None,
        inventory: inventory.collect(),
        expected: None,
    }
}

/// The overrides of `VCPU` after these changes, made under `rules`.
fn overridden(rules: u32, changes: &[Option<InventoryOverride>]) -> Option<InventoryOverride> {
    let mut state = cluster();
    for change in changes {
        let update = Command::UpdateNode(update_node(&[("VCPU", change.clone())]));
        tell(&mut state, rules, update).unwrap();
    }
    state.nodes.get(&NodeId(1)).unwrap().inventory_overrides.get(&ResourceClass::Vcpu).cloned()
}

#[test]
fn an_override_is_changed_where_it_took_the_place_of_the_whole_one_before() {
    let none = InventoryOverride::default;
    let total = InventoryOverride { total: Some(10), ..none() };
    let ratio = InventoryOverride { allocation_ratio_thousandths: Some(2000), ..none() };
    let both = InventoryOverride { total: Some(10), ..ratio.clone() };
    let back = |field| InventoryOverride { taken_back: BTreeSet::from([field]), ..none() };
    let [total, ratio] = [Some(total), Some(ratio)];
    assert_eq!(overridden(1, &[total.clone(), ratio.clone()]), ratio);
    assert_eq!(overridden(2, &[total.clone(), ratio.clone()]), Some(both));
    let taken = [total.clone(), ratio.clone(), Some(back(InventoryField::Total))];
    assert_eq!(overridden(2, &taken), ratio);
    assert_eq!(overridden(2, &[total.clone(), Some(back(InventoryField::Total))]), None);
    assert_eq!(overridden(2, &[total, ratio, None]), None);
}

#[test]
fn what_a_change_makes_of_an_override_is_judged() {
    let mut state = cluster();
    let least = |n| InventoryOverride { min_unit: Some(n), ..InventoryOverride::default() };
    let most = |n| InventoryOverride { max_unit: Some(n), ..InventoryOverride::default() };
    let vcpus = |change| Command::UpdateNode(update_node(&[("VCPU", Some(change))]));
    tell(&mut state, RULES, vcpus(least(4))).unwrap();
    let refused = tell(&mut state, RULES, vcpus(most(2))).unwrap_err();
    assert!(refused.contains("min_unit is greater than max_unit"), "{refused}");
    let pcpus = InventoryOverride { total: Some(4), ..InventoryOverride::default() };
    let command = Command::UpdateNode(update_node(&[("PCPU", Some(pcpus))]));
    assert_eq!(tell(&mut state, 1, command.clone()), Ok(()));
    let refused = tell(&mut state, RULES, command).unwrap_err();
    assert!(refused.contains("the host sets apart"), "{refused}");
}

#[test]
fn what_was_accepted_before_a_rule_was_is_accepted_for_ever() {
    let aggregate = |name: Option<&str>, metadata: &[(&str, &str)]| {
        let set = metadata.iter().map(|(key, value)| ((*key).to_owned(), Some((*value).to_owned())));
        Command::UpdateAggregate(UpdateAggregate {
            id: AggregateId(id(1)),
            name: name.map(str::to_owned),
            metadata: set.collect(),
            inventory: BTreeMap::new(),
            add_nodes: BTreeSet::new(),
            remove_nodes: BTreeSet::new(),
            expected: None,
        })
    };
    let node = |traits: &[&str], gpu: &[&str]| {
        let taint =
            |value: &&str| Taint { key: "gpu".into(), value: (*value).into(), effect: Effect::NoSchedule };
        Command::UpdateNode(UpdateNode {
            traits: Some(traits.iter().map(|name| (*name).to_owned()).collect()),
            taints: Some(gpu.iter().map(taint).collect()),
            ..update_node(&[])
        })
    };
    let cases = [
        (flavor(2, &[("hw:numa_nodes", "1")]), "hw:numa_nodes"),
        (flavor(2, &[("resources1:CUSTOM_GPU", "1")]), "request groups"),
        (vm(2, in_group(&[1])), "stays on one host"),
        (aggregate(Some("b"), &[]), "in use by n1"),
        (aggregate(None, &[("ram_weight_multiplier", "much")]), "ram_weight_multiplier"),
        (aggregate(None, &[("foo_weight_multiplier", "1")]), "is no weigher's"),
        (aggregate(None, &[("cpu_allocation_ratio", "4")]), "set-inventory AGGREGATE VCPU --ratio"),
        (flavor(2, &[("hw:mem_page_size", "large")]), "nothing in Holm reads it"),
        (flavor(2, &[("capabilities:numa_nodes", "< 2")]), "`<` is no operator"),
        (flavor(2, &[("trait:custom_quiet", "required")]), "is no trait"),
        (node(&["FOO"], &[]), "\"FOO\" is no trait"),
        (node(&[], &["yes", "no"]), "has `gpu` twice"),
        (
            Command::UpdateGroup(UpdateGroup {
                id: GroupId(id(1)),
                name: Some("h".into()),
                max_server_per_host: None,
                expected: None,
            }),
            "in use by vm1",
        ),
    ];
    for (command, refusal) in cases {
        assert_eq!(tell(&mut cluster(), 0, command.clone()), Ok(()), "{command:?}");
        let refused = tell(&mut cluster(), RULES, command.clone()).unwrap_err();
        assert!(refused.contains(refusal), "{refused}");
    }
}

#[test]
fn what_was_refused_before_a_rule_was_is_refused_for_ever() {
    let kept = InventoryOverride { reserved: Some(1), ..InventoryOverride::default() };
    let command = Command::UpdateAggregate(UpdateAggregate {
        id: AggregateId(id(1)),
        name: None,
        metadata: BTreeMap::new(),
        inventory: BTreeMap::from([(ResourceClass::Custom("PCPU".into()), Some(kept))]),
        add_nodes: BTreeSet::new(),
        remove_nodes: BTreeSet::new(),
        expected: None,
    });
    assert!(tell(&mut cluster(), 0, command.clone()).unwrap_err().contains("PCPU"));
    assert_eq!(tell(&mut cluster(), RULES, command), Ok(()));
}

#[test]
fn a_clock_moved_no_age_before() {
    for (rules, created_at, updated_at) in
        [(0, 1_000_000, 1_000_000), (1, 1_060_000, 1_000_000), (RULES, 1_060_000, 1_060_000)]
    {
        let mut state = cluster();
        let leads = BeginLeadership { node: NodeId(1), term: 1, incarnation: Incarnation(id(1)) };
        tell(&mut state, rules, Command::BeginLeadership(leads)).unwrap();
        let leadership = state.revision;
        tell(&mut state, rules, Command::SetClock(SetClock { leadership, by_ms: 60_000 })).unwrap();
        let vm = &state.vms[&VmId(id(1))];
        assert_eq!((vm.created_at, vm.updated_at), (Timestamp(created_at), Timestamp(updated_at)));
    }
}

fn isolating(images: &[String], nodes: &[&str]) -> Command {
    let policy = SchedulerPolicy {
        isolated_images: images.to_vec(),
        isolated_nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
        ..SchedulerPolicy::default()
    };
    Command::SetSchedulerPolicy(SetSchedulerPolicy { policy: Some(policy), expected: None })
}

/// Whoever changes something else has not written what a policy of before holds.
#[test]
fn of_what_is_isolated_only_what_is_new_must_exist() {
    let gone = id(9).to_string();
    for stored in [isolating(&[], &["7"]), isolating(std::slice::from_ref(&gone), &[])] {
        let mut state = cluster();
        assert!(tell(&mut state, 1, stored.clone()).unwrap_err().contains("there is no"));
        assert!(tell(&mut state, RULES, stored.clone()).unwrap_err().contains("there is no"));
        tell(&mut state, 0, stored.clone()).unwrap();
        assert!(tell(&mut state, 1, stored.clone()).unwrap_err().contains("there is no"), "as it was judged");
        assert_eq!(tell(&mut state, RULES, stored), Ok(()));
        let another = tell(&mut state, RULES, isolating(std::slice::from_ref(&gone), &["7", "8"]));
        assert!(another.unwrap_err().contains("there is no"));
    }
}

#[test]
fn what_is_isolated_stays_since_there_is_a_rule() {
    for rules in [0, RULES] {
        let mut state = cluster();
        let image = CreateImage {
            id: ImageId(id(2)),
            name: "j".into(),
            kind: ImageKind::Kernel,
            size_bytes: 10,
            sha256: "b".repeat(64),
            holder: NodeId(1),
            properties: BTreeMap::new(),
        };
        tell(&mut state, rules, Command::CreateImage(image)).unwrap();
        let listed = ImageId(id(2)).to_string();
        tell(&mut state, rules, isolating(&[listed], &["1"])).unwrap();
        let deleted =
            tell(&mut state, rules, Command::DeleteImage(DeleteImage { id: ImageId(id(2)), expected: None }));
        assert_eq!(deleted.is_err_and(|why| why.contains("isolated images")), rules > 0);
    }
}

#[test]
fn an_entry_says_its_rules_and_one_of_before_has_none() {
    let actor = Actor { name: "admin".into(), project: "default".into() };
    let proposal = Proposal { key: None, seen: Revision(1), actor, command: flavor(1, &[]) };
    for rules in [0, RULES] {
        let entry = Entry { rules, ..Entry::new(Timestamp(1), proposal.clone()) };
        let bytes = rmp_serde::to_vec_named(&entry).unwrap();
        assert_eq!(rmp_serde::from_slice::<Entry>(&bytes).unwrap(), entry);
        assert_eq!(bytes.windows(5).any(|window| window == b"rules"), rules > 0);
    }
}

/// One name is taken, and one flavor is not there.
#[test]
fn a_batch_of_which_nothing_is_created_was_refused_for_the_first_reason() {
    let batch = |atomic| {
        let [Command::CreateVm(taken), Command::CreateVm(unknown)] =
            [1, 2].map(|n| vm(n, Scheduling::default()))
        else {
            unreachable!()
        };
        let taken = CreateVm { id: VmId(id(7)), ..taken };
        Command::CreateVms(CreateVms {
            items: vec![taken, CreateVm { flavor: FlavorId(id(9)), ..unknown }],
            atomic,
        })
    };
    let first = Err("the VM name `vm1` is taken".to_owned());
    for (rules, atomic) in [(0, false), (1, false), (0, true), (RULES, true)] {
        assert_eq!(tell(&mut cluster(), rules, batch(atomic)), first, "{rules}, {atomic}");
    }
    let mut state = cluster();
    assert_eq!(tell(&mut state, RULES, batch(false)), Ok(()), "each is told its own");
    assert_eq!(state.vms.len(), 1);
}

/// The first of a batch was judged not to break N+1, the second was not judged.
#[test]
fn a_batch_with_one_that_is_not_admitted_was_refused_as_a_whole() {
    for (rules, created) in [(1, 0), (RULES, 1)] {
        let mut state = cluster();
        for n in [2, 3] {
            let (peer_addr, api_addr) = (format!("h{n}:1"), format!("h{n}:2"));
            tell(&mut state, rules, Command::AddNode(AddNode { name: format!("n{n}"), peer_addr, api_addr }))
                .unwrap();
        }
        let policy = SchedulerPolicy { n_plus_one: NPlusOne::Refuse, ..state.scheduler.clone() };
        let set = Command::SetSchedulerPolicy(SetSchedulerPolicy { policy: Some(policy), expected: None });
        tell(&mut state, rules, set).unwrap();
        let judged =
            [(2, state.revision), (3, Revision(0))].map(|(n, at)| match vm(n, Scheduling::default()) {
                Command::CreateVm(vm) => CreateVm {
                    availability: Availability::Failover,
                    policies: VmPolicies { disk_loss: DiskLoss::Recreate, ..VmPolicies::default() },
                    admitted: Some(at),
                    ..vm
                },
                _ => unreachable!(),
            });
        let batch = CreateVms { items: judged.into(), atomic: false };
        let told = tell(&mut state, rules, Command::CreateVms(batch));
        assert_eq!(told.is_ok(), created > 0, "{rules}: {told:?}");
        assert_eq!(state.vms.len(), 1 + created, "{rules}");
    }
}
