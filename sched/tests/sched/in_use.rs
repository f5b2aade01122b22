//! What is in use keeps its name and stays, and the refusal names the users.

use std::collections::BTreeMap;

use holm_model::command::{Command, DeleteAggregate, UpdateAggregate, UpdateGroup, UpdateNode};
use holm_model::group::GroupPolicy;
use holm_model::scheduling::{Operator, Requirement, Scheduling};
use holm_model::vm::WantPower;
use holm_model::{AggregateId, GroupId, NodeId, Reply};
use uuid::Uuid;

use crate::cluster::{Cluster, MEDIUM};

fn refusal(reply: Reply) -> String {
    match reply {
        Reply::Rejected(reason) => reason.to_string(),
        other => panic!("{other:?}"),
    }
}

fn update(n: u128) -> UpdateAggregate {
    UpdateAggregate {
        id: AggregateId(Uuid::from_u128(n)),
        name: None,
        add_nodes: Default::default(),
        remove_nodes: Default::default(),
        metadata: BTreeMap::new(),
        inventory: BTreeMap::new(),
        expected: None,
    }
}

#[test]
fn a_group_is_renamed_only_while_it_is_empty() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    let id = cluster.group(1, GroupPolicy::Affinity, None);
    let rename = |name: &str| {
        let name = Some(name.to_owned());
        Command::UpdateGroup(UpdateGroup { id, name, max_server_per_host: None, expected: None })
    };
    cluster.done(rename("web"));
    let scheduling = || Scheduling { group: Some::<GroupId>(id), ..Scheduling::default() };
    let vm = cluster.vm_like(scheduling());
    let refused = refusal(cluster.apply(rename("shop")));
    assert_eq!(refused, "the server group `web` is in use by vm1");
    cluster.done(rename("web"));
    cluster.delete(vm);
    cluster.done(rename("shop"));
}

#[test]
fn an_aggregate_is_renamed_only_while_it_has_no_nodes() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    cluster.aggregate(1, &[1, 2], &[]);
    let rename = || Command::UpdateAggregate(UpdateAggregate { name: Some("rack".into()), ..update(1) });
    assert_eq!(refusal(cluster.apply(rename())), "the aggregate `aggregate1` is in use by n1, n2");
    let remove_nodes = [NodeId(1), NodeId(2)].into();
    cluster.done(Command::UpdateAggregate(UpdateAggregate { remove_nodes, ..update(1) }));
    cluster.done(rename());
}

#[test]
fn the_last_aggregate_of_a_zone_stays_while_a_vm_asks_for_it_off_or_waiting_too() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    cluster.aggregate(1, &[1], &[("availability_zone", "aft")]);
    cluster.aggregate(2, &[], &[("availability_zone", "bow")]);
    let of = |zone: &str| Scheduling { availability_zone: Some(zone.into()), ..Scheduling::default() };
    let waiting = cluster.vm_like(of("bow"));
    assert_eq!(cluster.placed_on(waiting), None);
    let off = cluster.vm_like(of("aft"));
    assert_eq!(cluster.placed_on(off), Some(1));
    cluster.run(off);
    cluster.switch_off(off);
    let metadata = |zone: Option<&str>| [("availability_zone".to_owned(), zone.map(str::to_owned))].into();
    let zone = |n, zone| Command::UpdateAggregate(UpdateAggregate { metadata: metadata(zone), ..update(n) });
    let delete = |n| {
        let id = AggregateId(Uuid::from_u128(n));
        Command::DeleteAggregate(DeleteAggregate { id, expected: None })
    };
    for (command, words) in [
        (zone(2, Some("stern")), "the zone `bow` is in use by vm1"),
        (zone(2, None), "the zone `bow` is in use by vm1"),
        (delete(2), "the zone `bow` is in use by vm1"),
        (zone(1, Some("stern")), "the zone `aft` is in use by vm2"),
    ] {
        assert_eq!(refusal(cluster.apply(command)), words);
    }
    // With another aggregate of that zone it may go.
    cluster.aggregate(3, &[2], &[("availability_zone", "bow")]);
    cluster.done(delete(2));
    assert_eq!(cluster.placed_on(waiting), Some(2));
    cluster.delete(off);
    cluster.done(zone(1, None));
    assert!(matches!(cluster.power(waiting, WantPower::On, None), Reply::Rejected(_)), "it is on");
}

/// Nova's documentation, "Availability Zones": an aggregate's zone does not change while its hosts have instances.
#[test]
fn a_zone_is_not_renamed_or_left_under_vms_that_did_not_ask_for_it() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    let vm = cluster.vm_like(Scheduling::default());
    assert_eq!(cluster.placed_on(vm), Some(1));
    // Into a zone comes who asked for none.
    cluster.aggregate(1, &[1], &[("availability_zone", "aft")]);
    let metadata = |zone: Option<&str>| [("availability_zone".to_owned(), zone.map(str::to_owned))].into();
    let zone = |zone| Command::UpdateAggregate(UpdateAggregate { metadata: metadata(zone), ..update(1) });
    let leave = UpdateAggregate { remove_nodes: [NodeId(1)].into(), ..update(1) };
    for change in [zone(Some("stern")), zone(None), Command::UpdateAggregate(leave)] {
        assert_eq!(refusal(cluster.apply(change)), "the zone `aft` is in use by vm1");
    }
    cluster.delete(vm);
    cluster.done(zone(Some("stern")));
}

#[test]
fn who_waits_for_the_host_of_a_vm_that_is_gone_is_told_so() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    let mate = cluster.vm_like(Scheduling::default());
    let vm = cluster.vm_like(Scheduling { same_host: [mate].into(), ..Scheduling::default() });
    cluster.delete(mate);
    assert_eq!(cluster.placed_on(vm), None);
    let refusals = &cluster.record(vm).refusals;
    assert_eq!(refusals[0].message, "same host as a VM that was deleted: it never has a host again");
}

#[test]
fn a_label_stays_while_a_vm_is_on_the_node_that_selected_it_by_that() {
    let label = |value: Option<&str>, other: &str| {
        let other = ("other".to_owned(), Some(other.to_owned()));
        Command::UpdateNode(UpdateNode {
            node: NodeId(1),
            labels: [("disk".to_owned(), value.map(str::to_owned)), other].into(),
            taints: None,
            traits: None,
            inventory: BTreeMap::new(),
            expected: None,
        })
    };
    let mut cluster = Cluster::of(&[MEDIUM]);
    cluster.done(label(Some("ssd"), "a"));
    let values = vec!["ssd".to_owned()];
    let selects = Requirement { key: "disk".to_owned(), operator: Operator::In, values };
    let vm = cluster.vm_like(Scheduling { node_selector: vec![selects], ..Scheduling::default() });
    assert_eq!(cluster.placed_on(vm), Some(1));
    for value in [None, Some("hdd")] {
        assert_eq!(refusal(cluster.apply(label(value, "b"))), "the label `disk` is in use by vm1");
    }
    // What nobody selected changes.
    cluster.done(label(Some("ssd"), "b"));
    cluster.delete(vm);
    cluster.done(label(None, "b"));
}
