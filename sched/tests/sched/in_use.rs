//! What is in use keeps its name and stays, and the refusal names the users.

use std::collections::BTreeMap;

use holm_model::command::{Command, DeleteAggregate, UpdateAggregate, UpdateGroup};
use holm_model::group::GroupPolicy;
use holm_model::scheduling::Scheduling;
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
        (zone(2, Some("stern")), "availability_zone=bow` is in use by vm1"),
        (zone(2, None), "availability_zone=bow` is in use by vm1"),
        (delete(2), "availability_zone=bow` is in use by vm1"),
        (zone(1, Some("stern")), "availability_zone=aft` is in use by vm2"),
    ] {
        let refused = refusal(cluster.apply(command));
        assert!(refused.ends_with(words), "{refused}");
    }
    // With another aggregate of that zone it may go.
    cluster.aggregate(3, &[2], &[("availability_zone", "bow")]);
    cluster.done(delete(2));
    assert_eq!(cluster.placed_on(waiting), Some(2));
    cluster.delete(off);
    cluster.done(zone(1, None));
    assert!(matches!(cluster.power(waiting, WantPower::On, None), Reply::Rejected(_)), "it is on");
}
