//! What an operator is told about each host.

use holm_model::NodeId;
use holm_sched::controllers::Placement;
use holm_sched::explain::{HostVerdict, Verdict};
use holm_sched::{Controller, Facts, Policy, explain};

use crate::cluster::{Cluster, HostSize, MEDIUM, SMALL_VM};

#[test]
fn each_host_has_its_refusal_or_its_score_by_weigher() {
    let big = HostSize { vcpus: 16, memory_mib: 16384, disk_gib: 100 };
    let mut cluster = Cluster::of(&[MEDIUM, big, big]);
    cluster.cordon(3, "upgrade");
    cluster.policy(|policy| {
        policy.weighers.retain(|name, _| ["Ram", "Cpu"].contains(&name.as_str()));
        policy.weighers.insert("Health".into(), 0);
        policy.weighers.insert("Pci".into(), 0);
    });
    let vm = cluster.vm(SMALL_VM);
    let policy = Policy::of(&cluster.state.scheduler);
    let explanation = explain(&cluster.state, &policy, cluster.record(vm));
    assert_eq!((explanation.placed_on, explanation.best), (None, Some(NodeId(2))));
    let scores: Vec<_> = explanation
        .hosts
        .iter()
        .map(|host| match &host.verdict {
            Verdict::Fits { score_millionths, weights } => {
                let weights: Vec<_> =
                    weights.iter().map(|w| (w.weigher.as_str(), w.raw, w.normalised_millionths)).collect();
                format!("{} {score_millionths} {weights:?}", host.name)
            }
            Verdict::Refused { by, message, .. } => format!("{} {by}: {message}", host.name),
        })
        .collect();
    let expected = [
        r#"n1 1000000 [("Ram", 8192, 500000), ("Cpu", 8, 500000)]"#,
        r#"n2 2000000 [("Ram", 16384, 1000000), ("Cpu", 16, 1000000)]"#,
        "n3 ComputeStatus: the node is cordoned: upgrade",
    ];
    assert_eq!(scores, expected);
}

#[test]
fn a_placed_vm_is_explained_as_if_its_own_claim_were_free() {
    let one_slot = HostSize { vcpus: 1, memory_mib: 1040, disk_gib: 1 };
    let mut cluster = Cluster::of(&[one_slot]);
    let vm = cluster.vm(SMALL_VM);
    let commands = Placement.decide(&cluster.state, &Facts::default());
    cluster.carry_out(commands);
    let explanation = explain(&cluster.state, &Policy::default(), cluster.record(vm));
    assert_eq!((explanation.placed_on, explanation.best), (Some(NodeId(1)), Some(NodeId(1))));
}

/// Who mends what refuses first is to know what refuses next.
#[test]
fn a_host_that_several_filters_refuse_names_them_all_in_order() {
    let mut cluster = Cluster::of(&[HostSize { vcpus: 1, memory_mib: 64, disk_gib: 100 }, MEDIUM]);
    cluster.cordon(1, "upgrade");
    let vm = cluster.vm_of(&[("trait:CUSTOM_GPU", "required")]);
    let explanation = explain(&cluster.state, &Policy::default(), cluster.record(vm));
    let refusals = |host: &HostVerdict| match &host.verdict {
        Verdict::Refused { by, message, also } => {
            let also = also.iter().map(|further| format!("{}: {}", further.by, further.message));
            std::iter::once(format!("{by}: {message}")).chain(also).collect()
        }
        Verdict::Fits { .. } => Vec::new(),
    };
    let of_first: Vec<String> = refusals(&explanation.hosts[0]);
    let lacks = "Traits: trait `CUSTOM_GPU`: required, the node lacks it";
    assert_eq!(of_first[..2], ["ComputeStatus: the node is cordoned: upgrade", lacks]);
    assert!(of_first[2].starts_with("Capacity: MEMORY_MB: "), "{of_first:?}");
    assert_eq!((of_first.len(), refusals(&explanation.hosts[1])), (3, vec![lacks.to_owned()]));
}

#[test]
fn verdicts_read_well_as_json() {
    let host = HostVerdict {
        node: NodeId(3),
        name: "n3".into(),
        verdict: Verdict::Refused {
            by: "Capacity".into(),
            message: "VCPU: 4 wanted, 2 free of 8".into(),
            also: Vec::new(),
        },
    };
    let json = r#"{"node":3,"name":"n3","verdict":{"refused":{"by":"Capacity","message":"VCPU: 4 wanted, 2 free of 8"}}}"#;
    assert_eq!(serde_json::to_string(&host).expect("it serialises"), json);
}
