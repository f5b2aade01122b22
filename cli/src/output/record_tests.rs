//! What every record looks like in every format, kept as golden files: a change shows in review.

use holm_api::{
    Aggregate, AllocationCandidates, AvailabilityZone, Candidate, ClassSummary, Cluster, Decision, Deleted,
    Event, EventKind, Eviction, Explanation, Flavor, Freeze, GroupMember, GroupPolicy, HostVerdict, Image,
    ImageKind, Member, Move, NPlusOneVerdict, Node, NodeLoss, Planned, PlannedMove, Project, ProviderSummary,
    Quota, QuotaClass, Rebalance, Refusal, RefusedVm, Replay, Role, ServerGroup, Stay, Staying, Verdict,
    VmStatus, Volume, VolumeLock, Weight, WhatIf,
};

use super::fixtures::*;
use super::*;
use crate::args::Format;
use crate::output::Output;

/// A list and its first item, in all four formats, as one text.
fn all_formats<R: Record>(records: &[R]) -> String {
    let mut text = String::new();
    for format in [Format::Table, Format::Name, Format::Yaml, Format::Json] {
        let output = Output { format, now: NOW };
        text += &format!("--- list, {format:?}\n{}", output.render_list(records));
        text += &format!("--- one, {format:?}\n{}", output.render_one(&records[0]));
    }
    text
}

#[test]
fn vms() {
    insta::assert_snapshot!(all_formats(&[active(), building(), unreachable_and_simulated(), failed()]));
}

#[test]
fn everything_about_vms_in_trouble() {
    let output = Output { format: Format::Table, now: NOW };
    let texts = [building(), unreachable_and_simulated(), failed()].map(|vm| output.render_one(&vm));
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn vms_on_their_way_back() {
    let output = Output { format: Format::Table, now: NOW };
    let texts = [failing_over(), leaving(), restarting()].map(|vm| output.render_one(&vm));
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn nodes_that_are_emptied_or_fenced() {
    let fenced = Node { up: false, fence: Some(fence()), ..node(3, "n3") };
    let orphans: Vec<_> = drained_node()
        .orphans
        .into_iter()
        .map(|orphan| orphan::OrphanOn { node: "n2".into(), orphan })
        .collect();
    let output = Output { format: Format::Table, now: NOW };
    let nodes = [drained_node(), fenced];
    insta::assert_snapshot!(
        output.render_list(&nodes)
            + &nodes.map(|node| output.render_one(&node)).join("\n")
            + &all_formats(&orphans)
            + &all_formats(&[drain()])
    );
}

#[test]
fn leases_and_freezes() {
    let over = Freeze { over: true, ..freeze() };
    insta::assert_snapshot!(all_formats(&[cluster_policy()]) + &all_formats(&[freeze(), over]));
}

#[test]
fn nodes() {
    insta::assert_snapshot!(all_formats(&[troubled_node(), node(1, "n1")]));
}

#[test]
fn flavors() {
    let flavor = Flavor {
        id: id(2),
        name: "small".into(),
        vcpus: 2,
        memory_mib: 512,
        disk_gib: 4,
        extra_specs: [("hw:numa_nodes".to_owned(), "1".to_owned())].into(),
        created_at: at("11:00:00"),
        revision: 7,
    };
    insta::assert_snapshot!(all_formats(&[flavor]));
}

#[test]
fn images() {
    let image = Image {
        id: id(3),
        name: "debian-13".into(),
        project: "default".into(),
        kind: ImageKind::Qcow2Disk,
        size_bytes: 440_401_920,
        sha256: "ab".repeat(32),
        properties: [("hw_architecture".to_owned(), "x86_64".to_owned())].into(),
        holders: vec![node_ref(1, "n1"), node_ref(2, "n2")],
        created_at: at("11:00:00"),
        revision: 8,
    };
    insta::assert_snapshot!(all_formats(&[image]));
}

#[test]
fn clusters() {
    let member = |id, name: &str, role, silent_ms, matched_index| Member {
        id,
        name: name.into(),
        role,
        up: id != 3,
        peer_addr: format!("10.0.0.{id}:7461"),
        api_addr: format!("10.0.0.{id}:7460"),
        silent_ms,
        matched_index,
    };
    let cluster = Cluster {
        id: id(1),
        name: "river".into(),
        created_at: at("08:00:00"),
        version: 1,
        leader: Some(node_ref(1, "n1")),
        term: 4,
        members: vec![
            member(1, "n1", Role::Leader, None, None),
            member(2, "n2", Role::Voter, Some(120), Some(90)),
            member(3, "n3", Role::Learner, Some(95_000), Some(71)),
        ],
        node: node_ref(1, "n1"),
        applied_index: 90,
        last_log_index: 90,
        snapshot_index: 50,
        freeze: None,
        revision: 84,
    };
    insta::assert_snapshot!(all_formats(&[cluster]));
}

#[test]
fn events() {
    let event = |revision, what: &str, message: &str| Event {
        revision,
        n: 0,
        at: at("11:59:30"),
        kind: EventKind::Vm,
        id: id(0x17).to_string(),
        name: "web".into(),
        what: what.into(),
        message: message.into(),
        actor: "admin".into(),
    };
    let events = [event(40, "created", ""), event(41, "placed", "on n1 at epoch 41")];
    insta::assert_snapshot!(
        all_formats(&events) + "--- stream\n" + &events.map(|event| event_line(&event)).concat()
    );
}

/// Of a VM that waits, without the hosts.
fn waiting() -> Explanation {
    Explanation {
        vm: "web".into(),
        vm_id: id(0x17),
        status: VmStatus::Build,
        task_state: Some(holm_api::vm::TaskState::Scheduling),
        node: None,
        summary: "1 of 2 nodes would take it; it is placed with the next decision".into(),
        hosts: vec![],
        placements: vec![],
        refused: vec![],
        decision: Some(decision()),
        eviction: Some(Eviction { node: "n1".into(), victims: vec!["batch".into()] }),
        advice: advice(),
        warnings: vec!["it asks for a node near `10.0.0.0/8`, which nobody looks at".into()],
        dry_run: false,
    }
}

#[test]
fn explanations() {
    let weight = |weigher: &str, score: f64| Weight {
        weigher: weigher.into(),
        score,
        raw: 7000,
        normalised: score,
        multiplier: 1.0,
    };
    let host = |node: &str, node_id, verdict, by: Option<&str>, message: Option<&str>, score| HostVerdict {
        node: node.into(),
        node_id,
        verdict,
        by: by.map(Into::into),
        message: message.map(Into::into),
        also: by
            .map(|_| Refusal { by: "Capacity".into(), message: "VCPU: 4 wanted, 2 free of 8".into() })
            .into_iter()
            .collect(),
        score,
        weights: score.map(|score| weight("Ram", score)).into_iter().collect(),
    };
    let hosts = vec![
        host("n1", 1, Verdict::Fits, None, None, Some(0.875)),
        host("n2", 2, Verdict::Refuses, Some("ComputeStatus"), Some("the node is down"), None),
    ];
    let explanation = Explanation { hosts, ..waiting() };
    let planned = |vm: &str, node: Option<&str>| Planned {
        vm: vm.into(),
        node: node.map(Into::into),
        why: node.is_none().then(|| "no node fits it (1 × Capacity, 1 × ComputeStatus)".into()),
    };
    let dry = Explanation {
        decision: None,
        placements: vec![planned("web-1", Some("n1")), planned("web-2", None)],
        refused: vec![RefusedVm {
            name: "web-3".into(),
            code: holm_api::Code::QuotaExceeded,
            detail: "the quota of project `default` would be exceeded: VMS: 1 more wanted, 2 of 2 in use"
                .into(),
        }],
        dry_run: true,
        ..explanation.clone()
    };
    let output = Output { format: Format::Table, now: NOW };
    insta::assert_snapshot!(all_formats(&[explanation]) + "--- dry run\n" + &output.render_one(&dry));
}

#[test]
fn a_hundred_hosts_are_told_by_the_best_and_by_filter() {
    let host = |n: u64, fits: bool| HostVerdict {
        node: format!("lab-{n:03}"),
        node_id: n,
        verdict: if fits { Verdict::Fits } else { Verdict::Refuses },
        by: (!fits).then(|| if n.is_multiple_of(9) { "ComputeStatus" } else { "Capacity" }.to_owned()),
        message: (!fits).then(|| format!("VCPU: 12 wanted, {n} free")),
        also: vec![],
        score: fits.then_some(2.0 - n as f64 / 100.0),
        weights: vec![],
    };
    let hosts = (0..30).map(|n| host(n, true)).chain((30..100).map(|n| host(n, false))).collect();
    let explanation = Explanation { hosts, ..waiting() };
    let output = Output { format: Format::Table, now: NOW };
    let brief = output.render_one(&explanation);
    let full = output.render_one(&explain::InFull(&explanation));
    assert!(full.contains("lab-099  refuses"), "{full}");
    let json = Output { format: Format::Json, now: NOW };
    assert_eq!(json.render_one(&explain::InFull(&explanation)), json.render_one(&explanation));
    insta::assert_snapshot!(brief);
}

#[test]
fn aggregates_and_zones() {
    let aggregate = Aggregate {
        id: id(6),
        name: "rack-a".into(),
        nodes: vec![node_ref(1, "n1"), node_ref(2, "n2")],
        availability_zone: Some("rack-a".into()),
        metadata: [("availability_zone".to_owned(), "rack-a".to_owned())].into(),
        inventory: [("VCPU".to_owned(), over())].into(),
        created_at: at("11:00:00"),
        revision: 9,
    };
    let zone = AvailabilityZone {
        name: "rack-a".into(),
        available: true,
        nodes: aggregate.nodes.clone(),
        aggregates: vec!["rack-a".into()],
        vms: 3,
    };
    insta::assert_snapshot!(all_formats(&[aggregate]) + &all_formats(&[zone]));
}

#[test]
fn groups() {
    let member = |name: &str, node: Option<&str>| GroupMember {
        id: id(0x17),
        name: name.into(),
        node: node.map(Into::into),
    };
    let group = ServerGroup {
        id: id(7),
        name: "web".into(),
        project: "default".into(),
        policy: GroupPolicy::AntiAffinity,
        max_server_per_host: Some(2),
        members: vec![member("web-1", Some("n1")), member("web-2", None)],
        created_at: at("11:00:00"),
        revision: 9,
    };
    insta::assert_snapshot!(all_formats(&[group]));
}

#[test]
fn volumes() {
    let data = Volume {
        id: id(8),
        name: "data".into(),
        project: "default".into(),
        path: "/dev/disk/by-id/wwn-0x5000c500a0b1c2d3".into(),
        read_only: false,
        lock: VolumeLock::PersistentReservation,
        vms: vec!["db".into()],
        created_at: at("11:00:00"),
        revision: 9,
    };
    let tools = Volume {
        name: "tools".into(),
        path: "/srv/tools.iso".into(),
        read_only: true,
        lock: VolumeLock::None,
        vms: vec!["web-1".into(), "web-2".into()],
        ..data.clone()
    };
    insta::assert_snapshot!(all_formats(&[data, tools]));
}

#[test]
fn projects() {
    let project = |name: &str, description: &str| Project {
        id: id(9),
        name: name.into(),
        description: description.into(),
        vms: 2,
        server_groups: 1,
        images: 0,
        volumes: 0,
        created_at: at("11:00:00"),
        revision: 12,
    };
    insta::assert_snapshot!(all_formats(&[project("default", ""), project("shop", "tills")]));
}

#[test]
fn policy_and_quota() {
    let used = |used, limit| QuotaClass { used, limit };
    let classes = [("VCPU".to_owned(), used(2, Some(8))), ("VMS".to_owned(), used(1, None))];
    let quota = Quota { project: "default".into(), classes: classes.into() };
    insta::assert_snapshot!(all_formats(&[policy()]) + &all_formats(&[quota]));
}

#[test]
fn what_ifs() {
    let moved = |vm: &str, to: Option<&str>| Move {
        vm: vm.into(),
        vm_id: id(0x17),
        from: "n1".into(),
        to: to.map(Into::into),
        by_itself: to.is_some(),
        stays: None,
        refusals: if to.is_some() { vec![] } else { building().refusals },
        refused: if to.is_some() { [].into() } else { [("Capacity".to_owned(), 2)].into() },
    };
    let pinned =
        Move { stays: Some(Stay::StopsOrKept), refusals: vec![], refused: [].into(), ..moved("old", None) };
    let what_if = WhatIf {
        lose: vec![],
        drain: vec!["n1".into()],
        summary: "1 of 2 VMs would fit nowhere; 1 stay with their node".into(),
        hindrances: vec![],
        vms: vec![moved("web", Some("n2")), moved("db", None), pinned],
        waiting: vec![Planned { vm: "late".into(), node: None, why: None }],
        advice: advice(),
        fits: 1,
        stranded: 1,
        revision: 40,
    };
    insta::assert_snapshot!(all_formats(&[what_if]));
    let loss = NodeLoss {
        node: "n1".into(),
        node_id: 1,
        vms: 3,
        stuck: vec!["db".into()],
        missing: [("VCPU".to_owned(), 2)].into(),
    };
    let verdict = NPlusOneVerdict {
        policy: holm_api::NPlusOne::Warn,
        holds: false,
        summary: "the cluster cannot do without 1 of its nodes".into(),
        vms: 9,
        waiting: vec![],
        losses: vec![loss],
        sentences: vec![
            "without node `n1`, 1 of its 3 failover VMs would fit nowhere; they claim 2 VCPU".into(),
        ],
        revision: 40,
    };
    insta::assert_snapshot!("n_plus_one", all_formats(&[verdict]));
    let candidates = AllocationCandidates {
        flavor: Some("small".into()),
        requested: [("VCPU".to_owned(), 1)].into(),
        claim: [("VCPU".to_owned(), 1)].into(),
        candidates: vec![Candidate {
            node: "n1".into(),
            node_id: 1,
            score: 2.5,
            allocations: [("VCPU".to_owned(), 1)].into(),
            free: [("VCPU".to_owned(), 7)].into(),
            count: 7,
            summary: ProviderSummary {
                resources: [("VCPU".to_owned(), ClassSummary { capacity: 16, used: 9 })].into(),
                traits: vec!["CUSTOM_SSD".into()],
            },
        }],
        more: 3,
        refusals: building().refusals,
        refused: [("Capacity".to_owned(), 4)].into(),
        advice: advice(),
        warnings: vec!["no node has the trait `CUSTOM_A`".into()],
        revision: 40,
    };
    let amounts = AllocationCandidates { flavor: None, more: 0, candidates: vec![], ..candidates.clone() };
    let output = Output { format: Format::Table, now: NOW };
    let amounts = output.render_one(&amounts);
    insta::assert_snapshot!("candidates", all_formats(&[candidates]) + "--- of amounts\n" + &amounts);
}

/// Of a decision that chose and of one that found no host, which another state would have given otherwise.
#[test]
fn replays() {
    let none = Decision { chosen: None, candidates: 0, scores: vec![], evicted: vec![], ..decision() };
    let same = Replay {
        vm: "web".into(),
        same: true,
        differences: vec![],
        decision: none.clone(),
        again: none.clone(),
    };
    let differences = vec!["node: none then, n1 now".into(), "nodes that fitted: 0 then, 2 now".into()];
    let another = Replay { same: false, differences, again: decision(), ..same.clone() };
    let output = Output { format: Format::Table, now: NOW };
    insta::assert_snapshot!([same, another].map(|replay| output.render_one(&replay)).join("\n"));
}

#[test]
fn rebalances() {
    let moved =
        PlannedMove { vm: "web".into(), vm_id: id(0x17), from: "n1".into(), to: "n2".into(), gain: 8.35 };
    let why = "it runs and is pinned, and there is no live migration: stop it first";
    let plan = Rebalance {
        imbalance: 35.36,
        imbalance_after: 27.01,
        moves: vec![moved],
        planned: 1,
        under_way: 0,
        staying: vec![Staying { why: why.into(), count: 2, vms: vec!["a".into(), "b".into()] }],
        applied: false,
        refused: vec![],
        revision: 40,
    };
    let begun = Rebalance { applied: true, planned: 12, under_way: 3, ..plan.clone() };
    insta::assert_snapshot!(all_formats(&[plan]));
    let detail = begun.detail(NOW);
    assert!(
        detail.contains("1 of 12 moves begun; run it again when those under way have arrived"),
        "{detail}"
    );
    // Nothing would arrive to wait for.
    let none = Rebalance { moves: vec![], under_way: 0, ..begun };
    let detail = none.detail(NOW);
    assert!(
        detail.contains(
            "12 moves, none begun: no host has room for one now beside what waits (`holm vm list`)"
        ),
        "{detail}"
    );
}

#[test]
fn deletions() {
    insta::assert_snapshot!(all_formats(&[Deleted { id: id(0x17).to_string(), name: None, revision: 50 }]));
}
