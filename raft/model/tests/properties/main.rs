//! For any command sequence: claims and their sums agree and stay within capacity, a key acts once,
//! two replicas agree bit for bit, and a snapshot changes nothing.

mod steps;

use std::collections::BTreeMap;

use holm_model::command::*;
use holm_model::feasible::asked_for;
use holm_model::group::GroupPolicy;
use holm_model::image::ImageKind;
use holm_model::*;
use proptest::prelude::*;
use uuid::Uuid;

use steps::*;

/// Of each new claim: the group's rule held when it was made. No usage grows beyond its quota, which may be lowered under
/// it.
fn steering_holds(before: &State, after: &State) -> Result<(), String> {
    for vm in after.vms.values() {
        let was_placed = before.vms.get(&vm.id).is_some_and(|vm| vm.claim.is_some());
        let Some(claim) = vm.claim.as_ref().filter(|_| !was_placed) else { continue };
        let Some(group) = vm.spec.scheduling.group.and_then(|group| after.groups.get(&group)) else {
            continue;
        };
        let mates = after.vms.values().filter(|mate| {
            mate.id != vm.id && mate.spec.scheduling.group == Some(group.id) && mate.claim.is_some()
        });
        let (here, elsewhere): (Vec<_>, Vec<_>) =
            mates.partition(|mate| mate.claim.as_ref().is_some_and(|other| other.node == claim.node));
        let holds = match group.policy {
            GroupPolicy::AntiAffinity => here.len() < group.max_server_per_host.unwrap_or(1) as usize,
            GroupPolicy::Affinity => elsewhere.is_empty() || !here.is_empty(),
            GroupPolicy::SoftAffinity | GroupPolicy::SoftAntiAffinity => true,
        };
        if !holds {
            return Err(format!("VM {}: {:?} of its group is broken", vm.name, group.policy));
        }
    }
    for (project, limits) in &after.quotas {
        for (class, limit) in &limits.0 {
            let used = |state: &State| state.usage.get(project).map_or(0, |usage| usage.get(class));
            if used(after) > used(before) && used(after) > *limit {
                return Err(format!("{class}: {} of {limit}", used(after)));
            }
        }
    }
    for node in after.nodes.values() {
        if after.inventory_of(node.id) != node.inventory {
            return Err(format!("node {}: its inventory is not up to date", node.id));
        }
    }
    Ok(())
}

/// A cluster of two nodes that are up, so that histories reach the interesting states soon.
fn begin() -> State {
    let mut state = State::default();
    let add = |n: u64| AddNode {
        name: format!("node{n}"),
        peer_addr: format!("h{n}:1"),
        api_addr: format!("h{n}:2"),
    };
    let cluster = ClusterId(Uuid::from_u128(1));
    let incarnation = Incarnation(Uuid::from_u128(2));
    let size = flavor::Size { vcpus: 2, memory_mib: 256, disk_gib: 1 };
    let mut commands = vec![
        Command::InitCluster(InitCluster { cluster, name: "c".into(), first_node: add(1) }),
        Command::AddNode(add(2)),
        Command::AddNode(add(3)),
        Command::BeginLeadership(BeginLeadership { node: NodeId(1), term: 1, incarnation }),
        Command::CreateFlavor(CreateFlavor {
            id: flavor_id(0),
            name: "f0".into(),
            size,
            extra_specs: BTreeMap::new(),
        }),
        Command::CreateImage(CreateImage {
            id: image_id(0),
            name: "i0".into(),
            kind: ImageKind::Kernel,
            size_bytes: 10,
            sha256: "a".repeat(64),
            holder: NodeId(1),
            properties: BTreeMap::new(),
        }),
    ];
    for n in 1..=2 {
        commands.push(Command::ReportNode(ReportNode {
            node: NodeId(n),
            sequence: 1,
            peer_addr: format!("h{n}:1"),
            api_addr: format!("h{n}:2"),
            report: report(boot(0), 2, 2000),
        }));
        commands.push(Command::SetNodeUp(SetNodeUp { leadership: Revision(4), node: NodeId(n), up: true }));
    }
    for (n, command) in commands.into_iter().enumerate() {
        let applied = apply(&mut state, &entry(command, None, n as u64, Revision(n as u64)));
        assert!(matches!(applied.reply, Reply::Done(_)), "{applied:?}");
    }
    state
}

fn entry(command: Command, key: Option<IdempotencyKey>, n: u64, seen: Revision) -> Entry {
    Entry::new(Timestamp(1_000_000 + n * 10), Proposal { key, seen, actor: actor(), command })
}

/// Claims that this entry made.
fn made<'a>(before: &'a State, after: &'a State) -> impl Iterator<Item = (&'a vm::Vm, &'a vm::Claim)> {
    after.vms.values().filter_map(|vm| {
        let claim = vm.claim.as_ref()?;
        let held = before.vms.get(&vm.id).and_then(|vm| vm.claim.as_ref());
        held.is_none_or(|held| held.epoch != claim.epoch).then_some((vm, claim))
    })
}

/// No claim is made above capacity, nor of an amount the inventory does not take. Capacity may shrink under what is
/// claimed (a failed DIMM, an override): that stands until it ends, and nothing is added to it.
fn claims_fit(before: &State, after: &State) -> Result<(), String> {
    for (vm, claim) in made(before, after) {
        let node = &after.nodes[&claim.node];
        for (class, amount) in claim.resources.0.iter().filter(|(_, amount)| **amount > 0) {
            let Some(inventory) = node.inventory.get(class) else {
                return Err(format!("VM {}: {class} on node {}, which has none", vm.name, node.id));
            };
            let (held, capacity) = (node.allocated.get(class), inventory.capacity());
            if held > capacity || !inventory.takes(asked_for(class, *amount)) {
                return Err(format!("VM {}: {class} {held} of {capacity} on node {}", vm.name, node.id));
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_keeps_the_invariants(steps in proptest::collection::vec(step(), 1..200)) {
        let mut state = begin();
        let mut other = state.clone();
        for (n, step) in steps.iter().enumerate() {
            let n = n as u64 + 100;
            let before = state.clone();
            let mut entry = entry(command_of(step, &state, n), None, n, state.revision);
            entry.proposal.actor = actor_of(n);
            let applied = apply(&mut state, &entry);
            prop_assert_eq!(state.revision.0, before.revision.0 + 1);
            invariant::check(&state).map_err(|e| TestCaseError::fail(format!("{e} after {entry:?}")))?;
            claims_fit(&before, &state).map_err(TestCaseError::fail)?;
            steering_holds(&before, &state).map_err(|e| TestCaseError::fail(format!("{e} after {entry:?}")))?;
            if matches!(applied.reply, Reply::Rejected(_)) {
                let unchanged = State { revision: before.revision, ..state.clone() };
                prop_assert_eq!(&unchanged, &before, "a refusal changed something");
            }
            // A replica that restored a snapshot in between holds the same bytes.
            if n.is_multiple_of(17) {
                other = snapshot::decode(&snapshot::encode(&other)).expect("own snapshot");
            }
            prop_assert_eq!(apply(&mut other, &entry), applied);
        }
        prop_assert_eq!(snapshot::hash(&state), snapshot::hash(&other));
    }

    #[test]
    fn a_key_acts_once_and_only_for_its_own_body(
        steps in proptest::collection::vec((step(), 0..3u8, 0..2u8), 1..60)
    ) {
        let mut state = begin();
        let mut first: BTreeMap<u8, (u8, Reply)> = BTreeMap::new();
        for (n, (step, key, body)) in steps.iter().enumerate() {
            let n = n as u64 + 100;
            let id = IdempotencyKey { key: format!("k{key}"), fingerprint: format!("b{body}") };
            let before = state.clone();
            let entry = entry(command_of(step, &state, n), Some(id), n, state.revision);
            let reply = apply(&mut state, &entry).reply;
            let unchanged = State { revision: before.revision, ..state.clone() };
            match first.get(key) {
                Some((b, original)) => {
                    prop_assert_eq!(&unchanged, &before, "a repeated key changed something");
                    let expected = if b == body {
                        Reply::Duplicate(Box::new(original.clone()))
                    } else {
                        Reply::Rejected(Reason::KeyReused)
                    };
                    prop_assert_eq!(reply, expected);
                }
                None => {
                    if matches!(reply, Reply::Rejected(_)) {
                        let unchanged = State { window: before.window.clone(), ..unchanged };
                        prop_assert_eq!(&unchanged, &before, "a refusal changed something");
                    }
                    // Whoever gets that judges anew and asks again.
                    if !matches!(reply, Reply::Rejected(Reason::Unadmitted { .. })) {
                        first.insert(*key, (*body, reply));
                    }
                }
            }
        }
    }
}

#[test]
fn a_key_that_left_the_window_is_refused_and_creates_nothing() {
    let mut state = begin();
    let create = |n: u8| Command::CreateVm(create(n));
    let key = || Some(IdempotencyKey { key: "k".into(), fingerprint: "b".into() });
    let seen = state.revision;
    assert!(matches!(apply(&mut state, &entry(create(1), key(), 1, seen)).reply, Reply::Done(_)));
    let delete = Command::DeleteVm(DeleteVm { vm: vm_id(1), expected: None });
    apply(&mut state, &entry(delete, None, 2, seen));
    let filler = Command::DeleteImage(DeleteImage { id: image_id(9), expected: None });
    let last_kept = state.revision.0 - 1 + window::WINDOW;
    while state.revision.0 < last_kept - 1 {
        apply(&mut state, &entry(filler.clone(), None, 3, seen));
    }
    assert!(matches!(apply(&mut state, &entry(create(2), key(), 4, seen)).reply, Reply::Duplicate(_)));
    assert_eq!(state.window.len(), 1);
    apply(&mut state, &entry(filler, None, 5, seen));
    let reply = apply(&mut state, &entry(create(2), key(), 6, seen)).reply;
    assert!(matches!(reply, Reply::Rejected(Reason::Expired { .. })), "{reply:?}");
    assert_eq!((state.vms.len(), state.window.len()), (0, 0));
}
