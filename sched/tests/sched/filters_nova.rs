//! The filters taken from Nova that apply does not ask. Expected values are those of
//! <https://docs.openstack.org/nova/latest/admin/scheduling.html>; where a case goes beyond that page, of
//! Nova's own tests of the filter.

use std::collections::BTreeSet;

use holm_model::command::{CreateAggregate, DeleteImage, RemoveNode, SetSchedulerPolicy, UpdateAggregate};
use holm_model::policy::SchedulerPolicy;
use holm_model::scheduling::Scheduling;
use holm_model::{Command, ImageId, NodeId, Reply, VmId};
use holm_sched::extra_specs::matches;

use crate::cluster::{Cluster, MEDIUM, SMALL_VM};
use crate::filters::{passes, verdicts};

fn refused(message: &str) -> Result<(), String> {
    Err(message.into())
}

/// <https://docs.openstack.org/nova/latest/admin/scheduling.html#computecapabilitiesfilter>, and the cases
/// of Nova's `test_extra_specs_ops.py`.
#[test]
fn the_operators_of_extra_specs_are_novas() {
    let cases = [
        ("1", "1", true),
        ("", "1", false),
        ("3", "1", false),
        ("222", "2", false),
        ("4", ">= 5", false),
        ("123", "= 123", true),
        ("124", "= 123", true),
        ("34", "= 234", false),
        ("34", "=", false),
        ("123", "s== 123", true),
        ("1234", "s== 123", false),
        ("1234", "s!= 123", true),
        ("123", "s!= 123", false),
        ("1000", "s>= 234", false),
        ("234", "s>= 1000", true),
        ("2", "s<= 12", false),
        ("12", "s<= 2", true),
        ("12", "s> 2", false),
        ("2", "s> 12", true),
        ("2", "s< 12", false),
        ("12", "s< 2", true),
        ("12311321", "<in> 11", true),
        ("12310321", "<in> 11", false),
        ("12310321", "<in> 11 <in>", false),
        ("12311321", "<all-in> 11 23", true),
        ("12310321", "<all-in> 11 23", false),
        ("12", "<all-in>", false),
        ("12", "<or> 11 <or> 12", true),
        ("13", "<or> 11 <or> 12", false),
        ("12", "<or> 11 <or>", false),
        ("12", "<or>", false),
        ("2", "<= 10", true),
        ("3", "<= 2", false),
        ("3", ">= 1", true),
        ("2", ">= 3", false),
        ("2", "== 2", true),
        ("2.0", "== 2", true),
        ("3", "!= 2", true),
        ("2", "!= 2", false),
        // What is no number meets no numeric requirement.
        ("fast", ">= 1", false),
        ("1", "!= fast", false),
        ("nan", "!= 1", false),
        // A text with an unknown first word is compared as it stands.
        ("~= 2", "~= 2", true),
        ("x86_64", " x86_64", false),
        ("", "", true),
    ];
    for (value, requirement, expected) in cases {
        assert_eq!(matches(value, requirement), expected, "{value:?} {requirement:?}");
    }
}

/// <https://docs.openstack.org/nova/latest/admin/scheduling.html#samehostfilter> and `#differenthostfilter`
#[test]
fn same_host_and_different_host_look_for_the_named_vms() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    let (db, cache) = (cluster.vm_with(SMALL_VM, Some(1), Default::default()), cluster.vm(SMALL_VM));
    let with =
        |vms: &[VmId]| Scheduling { same_host: vms.iter().copied().collect(), ..Scheduling::default() };
    let apart =
        |vms: &[VmId]| Scheduling { different_host: vms.iter().copied().collect(), ..Scheduling::default() };
    let beside = cluster.vm_like(with(&[db]));
    let nowhere = refused("same host as `vm1`: none has a host yet");
    assert_eq!(verdicts(&cluster, "SameHost", beside), [nowhere.clone(), nowhere]);
    let away = cluster.vm_like(apart(&[db, cache]));
    assert_eq!(passes(&cluster, "DifferentHost", away), [true, true]);

    assert_eq!(cluster.placed_on(db), Some(1));
    assert_eq!(cluster.placed_on(beside), Some(1), "in the same batch, after the VM it names");
    let either = cluster.vm_like(with(&[db, cache]));
    let cache_on = cluster.record(cache).claim.as_ref().expect("it is placed").node.0;
    assert_eq!(passes(&cluster, "SameHost", either), [true, cache_on == 2], "one of them is enough");
    let beside = cluster.vm_like(with(&[db]));
    assert_eq!(
        verdicts(&cluster, "SameHost", beside)[1],
        refused("same host as `vm1`: none of them is here")
    );
    let away = cluster.vm_like(apart(&[db]));
    let here = refused("different host from `vm1`: it is here");
    assert_eq!(verdicts(&cluster, "DifferentHost", away), [here, Ok(())]);
}

/// <https://docs.openstack.org/nova/latest/admin/scheduling.html#aggregateinstanceextraspecsfilter>
#[test]
fn aggregate_extra_specs_compares_with_any_value_of_the_hosts_aggregates() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    cluster.aggregate(1, &[1], &[("ssd", "true"), ("class", "gold, silver")]);
    cluster.aggregate(2, &[1, 2], &[("ssd", "false")]);
    let cases = [
        ("ssd", "true", [true, false, false]),
        ("aggregate_instance_extra_specs:ssd", "false", [true, true, false]),
        ("aggregate_instance_extra_specs:ssd", "<or> true <or> false", [true, true, false]),
        ("class", "silver", [true, false, false]),
        ("capabilities:arch", "x86_64", [true, true, true]),
    ];
    for (key, requirement, expected) in cases {
        let vm = cluster.vm_of(&[(key, requirement)]);
        assert_eq!(passes(&cluster, "AggregateExtraSpecs", vm), expected, "{key}={requirement}");
    }
    let vm = cluster.vm_of(&[("ssd", "true")]);
    let expected = [
        Ok(()),
        refused("extra spec `ssd`: true wanted, its aggregates say false"),
        refused("extra spec `ssd`: true wanted, its aggregates do not say"),
    ];
    assert_eq!(verdicts(&cluster, "AggregateExtraSpecs", vm), expected);
}

/// <https://docs.openstack.org/nova/latest/admin/scheduling.html#aggregateimagepropertiesisolation>: a host in no
/// aggregate takes every image; so does one whose aggregates do not speak of the image's properties, and a property
/// without a value is none (Nova's `aggregate_image_properties_isolation.py`).
#[test]
fn aggregate_image_properties_isolation_compares_only_shared_keys() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    cluster.aggregate(1, &[1], &[("os_distro", "windows")]);
    cluster.aggregate(2, &[2], &[("os_distro", "debian,fedora"), ("ssd", "true")]);
    type Properties = &'static [(&'static str, &'static str)];
    let cases: &[(Properties, [bool; 3])] = &[
        (&[("os_distro", "windows")], [true, false, true]),
        (&[("os_distro", "fedora")], [false, true, true]),
        (&[("os_distro", "")], [true, true, true]),
        (&[("os_version", "12")], [true, true, true]),
        (&[], [true, true, true]),
    ];
    for (n, (properties, expected)) in (10..).zip(cases) {
        let image = cluster.image(n, properties);
        let vm = cluster.create(SMALL_VM, |vm| vm.image = image);
        let got = passes(&cluster, "AggregateImagePropertiesIsolation", vm);
        assert_eq!(got, *expected, "{properties:?}");
    }
    let image = cluster.image(30, &[("os_distro", "arch")]);
    let vm = cluster.create(SMALL_VM, |vm| vm.image = image);
    let words = refused("image property `os_distro`: it is arch, its aggregates take debian, fedora only");
    assert_eq!(verdicts(&cluster, "AggregateImagePropertiesIsolation", vm)[1], words);
}

/// <https://docs.openstack.org/nova/latest/admin/scheduling.html#aggregatemultitenancyisolation>
#[test]
fn aggregate_multi_tenancy_isolation_keeps_other_projects_out() {
    let mut cluster = Cluster::of(&[MEDIUM; 4]);
    cluster.aggregate(1, &[1, 3], &[("filter_tenant_id", "blue, green")]);
    cluster.aggregate(2, &[2, 3], &[("filter_tenant_id", "default")]);
    let vm = cluster.vm(SMALL_VM);
    let other = refused("project `default`: its aggregates are for blue, green only");
    // Node 3 is in both: one that names the project is enough. Node 4 is in none.
    let got = verdicts(&cluster, "AggregateMultiTenancyIsolation", vm);
    assert_eq!(got, [other, Ok(()), Ok(()), Ok(())]);
}

/// Nova's `aggregate_multitenancy_isolation.py`: every key that begins with `filter_tenant_id` counts, since a value is
/// bounded at 255 characters. Projects are named by id there.
#[test]
fn aggregate_multi_tenancy_isolation_reads_every_key_that_begins_so() {
    let mut cluster = Cluster::of(&[MEDIUM; 5]);
    let default = holm_model::ProjectId::default().to_string();
    cluster.aggregate(1, &[1], &[("filter_tenant_id", "blue"), ("filter_tenant_id2", "green, default")]);
    cluster.aggregate(2, &[2], &[("filter_tenant_id", "blue"), ("filter_tenant_id_more", "green")]);
    cluster.aggregate(3, &[3], &[("filter_tenant_id3", "blue")]);
    cluster.aggregate(4, &[4], &[("filter_tenant_id", &default)]);
    cluster.aggregate(5, &[5], &[("no_filter_tenant_id", "blue")]);
    let vm = cluster.vm(SMALL_VM);
    assert_eq!(passes(&cluster, "AggregateMultiTenancyIsolation", vm), [true, false, false, true, true]);
    let words = refused("project `default`: its aggregates are for blue, green only");
    assert_eq!(verdicts(&cluster, "AggregateMultiTenancyIsolation", vm)[1], words);
}

/// <https://docs.openstack.org/nova/latest/admin/scheduling.html#isolatedhostsfilter>; images are compared by id there.
#[test]
fn isolated_hosts_keep_isolated_images_and_nothing_else() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    let image = cluster.image(2, &[]);
    let isolated = cluster.create(SMALL_VM, |vm| vm.image = image);
    let plain = cluster.vm(SMALL_VM);
    assert_eq!(passes(&cluster, "IsolatedHosts", isolated), [true; 3], "nothing is isolated");
    cluster.policy(|policy| {
        // A name is one of the time when names were stored.
        policy.isolated_images = vec!["guest2".into()];
        policy.isolated_nodes = vec!["n1".into(), "2".into()];
    });
    let elsewhere = refused("isolated: image `guest2` runs on isolated nodes only");
    assert_eq!(verdicts(&cluster, "IsolatedHosts", isolated), [Ok(()), Ok(()), elsewhere]);
    let kept = refused("isolated: the node is for isolated images only");
    assert_eq!(verdicts(&cluster, "IsolatedHosts", plain), [kept.clone(), kept, Ok(())]);
    cluster.policy(|policy| policy.isolated_images = vec![image.to_string()]);
    assert_eq!(passes(&cluster, "IsolatedHosts", isolated), [true, true, false], "by id too");
    cluster.policy(|policy| policy.isolated_images.clear());
    assert_eq!(passes(&cluster, "IsolatedHosts", isolated), [false, false, true]);
}

/// The same page, `restrict_isolated_hosts_to_isolated_images`, and Nova's `isolated_hosts_filter.py`: isolated images
/// and nothing else on isolated hosts, or isolated images on isolated hosts and the others anywhere.
#[test]
fn isolated_hosts_take_other_images_too_unless_restricted() {
    // Restricted, an isolated image exists, the isolated VM on n1 (isolated) and n2, the plain VM likewise.
    let cases = [
        (true, true, [true, false], [false, true]),
        (false, true, [true, false], [true, true]),
        (true, false, [false, true], [false, true]),
        (false, false, [true, true], [true, true]),
    ];
    for (restrict, some, expected_isolated, expected_plain) in cases {
        let mut cluster = Cluster::of(&[MEDIUM; 2]);
        let image = cluster.image(2, &[]);
        let isolated = cluster.create(SMALL_VM, |vm| vm.image = image);
        let plain = cluster.vm(SMALL_VM);
        cluster.policy(|policy| {
            policy.isolated_images = some.then(|| image.to_string()).into_iter().collect();
            policy.isolated_nodes = vec!["1".into()];
            policy.restrict_isolated_hosts_to_isolated_images = restrict;
        });
        assert_eq!(passes(&cluster, "IsolatedHosts", isolated), expected_isolated, "{restrict} {some}");
        assert_eq!(passes(&cluster, "IsolatedHosts", plain), expected_plain, "{restrict} {some}");
    }
}

/// Names are unique within a project only: an image of the same name is another image.
#[test]
fn an_image_of_the_same_name_is_not_isolated_with_it() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    let (image, other) = (cluster.image(2, &[]), cluster.image(3, &[]));
    cluster.state.images.get_mut(&other).expect("it exists").name = "guest2".into();
    let [isolated, namesake] = [image, other].map(|image| cluster.create(SMALL_VM, |vm| vm.image = image));
    cluster.policy(|policy| {
        policy.isolated_images = vec![image.to_string()];
        policy.isolated_nodes = vec!["1".into()];
    });
    assert_eq!(passes(&cluster, "IsolatedHosts", isolated), [true, false]);
    assert_eq!(passes(&cluster, "IsolatedHosts", namesake), [false, true]);
}

#[test]
fn what_the_policy_isolates_exists_and_stays() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    let image = cluster.image(2, &[]);
    let reason = |cluster: &mut Cluster, command| match cluster.apply(command) {
        Reply::Rejected(reason) => reason.to_string(),
        other => panic!("{other:?}"),
    };
    let set = |images: &[String], nodes: &[&str]| {
        let policy = SchedulerPolicy {
            isolated_images: images.to_vec(),
            isolated_nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
            ..SchedulerPolicy::default()
        };
        Command::SetSchedulerPolicy(SetSchedulerPolicy { policy: Some(policy), expected: None })
    };
    let gone = ImageId(uuid::Uuid::from_u128(9)).to_string();
    let before = cluster.state.scheduler.clone();
    let said = reason(&mut cluster, set(std::slice::from_ref(&gone), &[]));
    assert_eq!(said, format!("isolated_images: there is no image `{gone}`"));
    assert_eq!(reason(&mut cluster, set(&[], &["9"])), "isolated_nodes: there is no node `9`");
    assert_eq!(cluster.state.scheduler, before, "nothing changed");

    // By id, and by names stored since before.
    for (images, nodes) in [(image.to_string(), "2"), ("guest2".to_owned(), "n2")] {
        cluster.done(set(&[images], &[nodes]));
        let delete = Command::DeleteImage(DeleteImage { id: image, expected: None });
        let kept = "the image `guest2` is in use by the scheduler's policy (isolated images)";
        assert_eq!(reason(&mut cluster, delete), kept);
        let remove = Command::RemoveNode(RemoveNode { node: NodeId(2), confirm_node_off: true });
        let kept = "the node `n2` is in use by the scheduler's policy (isolated nodes)";
        assert_eq!(reason(&mut cluster, remove), kept);
    }
    cluster.done(set(&[], &[]));
    cluster.done(Command::DeleteImage(DeleteImage { id: image, expected: None }));
}

/// <https://docs.openstack.org/nova/latest/admin/scheduling.html#numinstancesfilter> and `#ioopsfilter`
#[test]
fn num_instances_and_io_ops_count_vms_and_builds() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    let placed: Vec<VmId> = (0..2).map(|_| cluster.vm_with(SMALL_VM, Some(1), Default::default())).collect();
    placed.iter().for_each(|vm| assert_eq!(cluster.placed_on(*vm), Some(1)));
    let vm = cluster.vm(SMALL_VM);
    for (max, expected) in [(3, Ok(())), (2, refused("VMs: 2 here, 2 allowed"))] {
        cluster.policy(|policy| policy.max_instances_per_host = max);
        assert_eq!(verdicts(&cluster, "NumInstances", vm), [expected, Ok(())]);
    }
    for (max, expected) in [(3, Ok(())), (2, refused("VMs being built: 2 here, 2 allowed"))] {
        cluster.policy(|policy| policy.max_io_ops_per_host = max);
        assert_eq!(verdicts(&cluster, "IoOps", vm), [expected, Ok(())]);
    }
    cluster.run(placed[0]);
    assert_eq!(passes(&cluster, "IoOps", vm), [true, true], "what runs is not being built");
    assert_eq!(passes(&cluster, "NumInstances", vm), [false, true]);
}

/// <https://docs.openstack.org/nova/latest/admin/scheduling.html#aggregatenuminstancesfilter> and
/// `#aggregateioopsfilter`: the aggregates' value, of several the least, else the policy's; and the policy's where one is
/// no number (Nova's `num_instances_filter.py`).
#[test]
fn num_instances_and_io_ops_take_the_aggregates_number() {
    let cases: &[(&[&str], bool)] = &[
        (&[], true),
        (&["2"], false),
        (&["3"], true),
        (&["3", "2"], false),
        (&["many"], true),
        (&["2", "many"], true),
        (&[" 2 "], false),
    ];
    for (filter, key) in [("NumInstances", "max_instances_per_host"), ("IoOps", "max_io_ops_per_host")] {
        for (values, expected) in cases {
            let mut cluster = Cluster::of(&[MEDIUM; 2]);
            for vm in [(); 2].map(|()| cluster.vm_with(SMALL_VM, Some(1), Default::default())) {
                assert_eq!(cluster.placed_on(vm), Some(1));
            }
            for (n, value) in (1..).zip(*values) {
                cluster.aggregate_of_old(n, &[1], &[(key, value)]);
            }
            let vm = cluster.vm(SMALL_VM);
            assert_eq!(passes(&cluster, filter, vm), [*expected, true], "{filter}: {values:?}");
        }
    }
}

/// What the policy would not take, an aggregate does not take in its place.
#[test]
fn numbers_of_aggregates_are_checked_like_those_of_the_policy() {
    let multiplier = "must be a number within ±1000000, such as 1.5, with at most three decimals";
    let count = "must be a whole number from 1 to 4294967295";
    let cases = [
        ("ram_weight_multiplier", "nan", Some(multiplier)),
        ("ram_weight_multiplier", "1e3", Some(multiplier)),
        ("ram_weight_multiplier", "9999999999999", Some(multiplier)),
        ("ram_weight_multiplier", "-1000000.001", Some(multiplier)),
        ("soft_anti_affinity_weight_multiplier", "0.0001", Some(multiplier)),
        ("health_weight_multiplier", "", Some(multiplier)),
        ("ram_weight_multiplier", "-1000000", None),
        ("pci_weight_multiplier", " 0.125 ", None),
        ("max_instances_per_host", "0", Some(count)),
        ("max_instances_per_host", "-1", Some(count)),
        ("max_io_ops_per_host", "many", Some(count)),
        ("max_io_ops_per_host", "4294967296", Some(count)),
        ("max_io_ops_per_host", "8", None),
    ];
    for (key, value, wrong) in cases {
        let mut cluster = Cluster::of(&[MEDIUM]);
        cluster.aggregate(1, &[1], &[]);
        let before = cluster.state.aggregates.clone();
        let id = |n| holm_model::AggregateId(uuid::Uuid::from_u128(n));
        let metadata = crate::cluster::strings(&[(key, value)]);
        let changes = metadata.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
        let create = Command::CreateAggregate(CreateAggregate {
            id: id(2),
            name: "two".into(),
            nodes: BTreeSet::new(),
            metadata,
        });
        let update = Command::UpdateAggregate(UpdateAggregate {
            id: id(1),
            name: None,
            add_nodes: BTreeSet::new(),
            remove_nodes: BTreeSet::new(),
            metadata: changes,
            inventory: Default::default(),
            expected: None,
        });
        for command in [create, update] {
            let reply = cluster.apply(command);
            let Some(wrong) = wrong else {
                assert!(matches!(reply, Reply::Done(_)), "{key}={value}: {reply:?}");
                continue;
            };
            let Reply::Rejected(reason) = reply else { panic!("{key}={value}: {reply:?}") };
            assert_eq!(reason.to_string(), format!("metadata.{key}: is {value:?}, {wrong}"));
            assert_eq!(cluster.state.aggregates, before, "nothing changed");
        }
    }
}

#[test]
fn num_instances_and_io_ops_count_the_batch_too() {
    for filter in ["NumInstances", "IoOps"] {
        let mut cluster = Cluster::of(&[MEDIUM; 2]);
        cluster.policy(|policy| {
            policy.filters.push(filter.into());
            policy.max_instances_per_host = 2;
            policy.max_io_ops_per_host = 2;
        });
        let vms: Vec<VmId> = (0..5).map(|_| cluster.vm(SMALL_VM)).collect();
        cluster.placed_on(vms[0]);
        assert_eq!(cluster.state.waiting.len(), 1, "{filter}: two on each of two");
    }
}

/// <https://docs.openstack.org/nova/latest/admin/scheduling.html#simplecidraffinityfilter>
#[test]
fn simple_cidr_affinity_compares_the_nodes_address_with_the_network() {
    let addresses = ["10.1.2.3:7460", "10.2.0.1:7460", "[fd00::7]:7460", "node4.example:7460"];
    let mut cluster = Cluster::of(&[MEDIUM; 4]);
    for (n, address) in (1..).zip(addresses) {
        cluster.state.nodes.get_mut(&holm_model::NodeId(n)).expect("it exists").api_addr = address.into();
    }
    let cases = [
        ("10.1.0.0/16", [true, false, false, false]),
        // Bits behind the prefix do not count.
        ("10.1.99.99/16", [true, false, false, false]),
        ("10.0.0.0/8", [true, true, false, false]),
        ("0.0.0.0/0", [true, true, false, false]),
        ("10.1.2.3/32", [true, false, false, false]),
        ("fd00::/8", [false, false, true, false]),
        ("::/0", [false, false, true, false]),
        ("fd00::7/128", [false, false, true, false]),
    ];
    for (near, expected) in cases {
        let vm = cluster.vm_like(Scheduling { near: Some(near.into()), ..Scheduling::default() });
        assert_eq!(passes(&cluster, "SimpleCidrAffinity", vm), expected, "{near}");
    }
    let vm = cluster.vm_like(Scheduling { near: Some("10.1.0.0/16".into()), ..Scheduling::default() });
    let words = verdicts(&cluster, "SimpleCidrAffinity", vm);
    assert_eq!(words[1], refused("near `10.1.0.0/16`: the node's address is 10.2.0.1"));
    assert_eq!(words[3], refused("near `10.1.0.0/16`: the node's address `node4.example:7460` is no IP"));
}
