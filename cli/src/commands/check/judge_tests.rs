//! Findings for fixed answers.

use holm_api::{Availability, Checkpoint, Cluster, Health, Member};

use super::super::gather::Answer;
use super::*;
use crate::output::record::fixtures::{
    NOW, active, at, cluster_policy, drained_node, failed, failing_over, fence, freeze, id, leaving, node,
    node_ref, simulated, troubled_node,
};

fn member(id: u64, name: &str) -> Member {
    Member {
        id,
        name: name.into(),
        role: if id == 1 { Role::Leader } else { Role::Voter },
        up: true,
        peer_addr: String::new(),
        api_addr: String::new(),
        silent_ms: None,
        matched_index: None,
    }
}

fn answer(name: &str) -> Answer {
    let health = Health {
        live: true,
        ready: true,
        reason: None,
        node: name.into(),
        node_id: 1,
        leader: Some("n1".into()),
        version: env!("CARGO_PKG_VERSION").into(),
        uptime_s: 60,
        revision: 9,
    };
    Answer { health, clock_ahead_ms: Some(100) }
}

fn checkpoint(node: &str, log_index: u64, hash: &str) -> Checkpoint {
    Checkpoint { node: node.into(), node_id: 1, log_index, revision: 9, state_hash: hash.into() }
}

/// Three nodes, all well.
fn healthy() -> Seen {
    let names = ["n1", "n2", "n3"];
    Seen {
        endpoints: vec![("http://10.0.0.1:7460".into(), Ok(()))],
        quorum: Ok(()),
        cluster: Some(Cluster {
            id: id(1),
            name: "river".into(),
            created_at: at("08:00:00"),
            version: 1,
            leader: Some(node_ref(1, "n1")),
            term: 2,
            members: (1..).zip(names).map(|(id, name)| member(id, name)).collect(),
            node: node_ref(1, "n1"),
            applied_index: 20,
            last_log_index: 20,
            snapshot_index: 0,
            freeze: None,
            revision: 9,
        }),
        nodes: (1..).zip(names).map(|(id, name)| node(id, name)).collect(),
        answers: names.iter().map(|name| ((*name).to_owned(), Ok(answer(name)))).collect(),
        checkpoints: names.iter().map(|name| checkpoint(name, 20, "ab")).collect(),
        warnings: vec![],
        vms: vec![active()],
        policy: Some(cluster_policy()),
        now: NOW,
    }
}

fn of(seen: &Seen, check: &str) -> Vec<(Level, String)> {
    let findings = all(seen).into_iter().filter(|finding| finding.check == check);
    findings.map(|finding| (finding.level, finding.message)).collect()
}

fn answer_of<'a>(seen: &'a mut Seen, name: &str) -> &'a mut Answer {
    let found = seen.answers.iter_mut().find(|(node, _)| node == name);
    found.and_then(|(_, answer)| answer.as_mut().ok()).expect("it answers")
}

#[test]
fn all_is_well() {
    let findings = all(&healthy());
    assert!(findings.iter().all(|finding| finding.level == Level::Ok), "{findings:#?}");
    assert_eq!(
        of(&healthy(), "quorum"),
        [(Level::Ok, "3 of 3 voters answer; writes survive the loss of 1 more".into())]
    );
    assert_eq!(of(&healthy(), "states"), [(Level::Ok, "equal on 3 nodes at index 20".into())]);
}

#[test]
fn a_node_that_does_not_answer_costs_the_spare() {
    let mut seen = healthy();
    seen.answers[2].1 = Err("connection refused".into());
    assert_eq!(
        of(&seen, "nodes"),
        [(Level::Wrong, "n3: its API at 10.0.0.3:7460 does not answer: connection refused".into())]
    );
    assert_eq!(
        of(&seen, "quorum"),
        [(Level::Note, "2 of 3 voters answer; the loss of one more stops writes".into())]
    );
    seen.endpoints.push(("http://10.0.0.3:7460".into(), Err("connection refused".into())));
    let wrong: Vec<_> = all(&seen).into_iter().filter(|finding| finding.level == Level::Wrong).collect();
    assert_eq!(wrong.len(), 1, "one cause is one thing wrong: {wrong:#?}");
}

#[test]
fn what_the_scheduler_warns_of_is_noted() {
    let mut seen = healthy();
    let warning = "N+1: without node `n1`, 1 of its 3 failover VMs would fit nowhere";
    seen.warnings = vec![warning.into()];
    let findings = all(&seen);
    let last = findings.last().unwrap();
    assert_eq!((last.check, last.level, last.message.as_str()), ("scheduler", Level::Note, warning));
}

#[test]
fn vms_in_error_are_named() {
    let mut seen = healthy();
    seen.vms = vec![failed(), holm_api::Vm { name: "db".into(), ..failed() }];
    let message = "2 in ERROR: bad, db; `holm vm explain NAME` says why";
    assert_eq!(of(&seen, "vms"), [(Level::Note, message.into())]);
}

#[test]
fn without_a_quorum_it_says_which_nodes_are_needed() {
    let mut seen = healthy();
    seen.quorum = Err("no leader".into());
    seen.answers[1].1 = Err("connection refused".into());
    seen.answers[2].1 = Err("connection refused".into());
    let message = "1 of 3 voters answer, 2 needed: start holmd on n2, n3";
    assert_eq!(of(&seen, "quorum"), [(Level::Wrong, message.into())]);
    assert_eq!(of(&seen, "leader")[0].0, Level::Note);
}

#[test]
fn two_leaders_and_two_versions_are_named() {
    let mut seen = healthy();
    answer_of(&mut seen, "n3").health.leader = Some("n2".into());
    answer_of(&mut seen, "n3").health.version = "0.0.9".into();
    assert_eq!(of(&seen, "leader"), [(Level::Wrong, "n1 says n1, n2; n2 says n3".into())]);
    let own = env!("CARGO_PKG_VERSION");
    assert_eq!(of(&seen, "versions"), [(Level::Wrong, format!("0.0.9 on n3; {own} on n1, n2"))]);
}

#[test]
fn states_that_differ_at_one_index_are_the_worst() {
    let mut seen = healthy();
    seen.checkpoints[1].state_hash = "cd".into();
    assert_eq!(
        of(&seen, "states"),
        [(Level::Wrong, "at index 20 the states of n1, n3 and n2 differ: stop and keep the data".into())]
    );
    seen.checkpoints[1].log_index = 21;
    assert_eq!(of(&seen, "states")[0].0, Level::Note);
}

#[test]
fn clocks_are_compared_with_each_other_first() {
    let mut seen = healthy();
    answer_of(&mut seen, "n2").clock_ahead_ms = Some(5_200);
    assert_eq!(
        of(&seen, "clocks"),
        [(Level::Wrong, "n2 is 5 s ahead of n1: set up time synchronisation".into())]
    );
    for name in ["n1", "n2", "n3"] {
        answer_of(&mut seen, name).clock_ahead_ms = Some(-9_000);
    }
    assert_eq!(of(&seen, "clocks"), [(Level::Note, "nodes agree; this machine is 9 s off".into())]);
}

#[test]
fn simulated_hypervisors_conditions_and_cordons_are_told_apart_from_trouble() {
    let mut seen = healthy();
    seen.nodes[2] = troubled_node();
    assert_eq!(
        of(&seen, "hypervisors"),
        [(Level::Note, "simulated on n3, no guest runs there: /dev/kvm is missing".into())]
    );
    assert_eq!(of(&seen, "conditions"), [(Level::Wrong, "n3: DiskLow: 2 GiB left for the log".into())]);
    let mut harmless = seen.nodes[2].conditions["DiskLow"].clone();
    harmless.message = "restart the daemon to use it".into();
    let harmless = [("BinaryReplaced", harmless.clone()), ("KvmMissing", harmless)];
    seen.nodes[2].conditions = harmless.map(|(name, condition)| (name.into(), condition)).into();
    assert_eq!(
        of(&seen, "conditions"),
        [(Level::Note, "n3: BinaryReplaced: restart the daemon to use it".into())],
        "and a hypervisor that cannot work is told as one"
    );
    assert_eq!(
        of(&seen, "nodes"),
        [(Level::Wrong, "n3: answers, but the leader does not hear from it".into())]
    );
    seen.nodes[2].up = true;
    assert_eq!(of(&seen, "nodes"), [(Level::Note, "n3: is cordoned: disk replaced on Friday".into())]);
    for node in &mut seen.nodes {
        node.hypervisor = Some(simulated());
    }
    assert_eq!(
        of(&seen, "hypervisors"),
        [(Level::Note, "simulated on n1, n2, n3, no guest runs there: /dev/kvm is missing".into())]
    );
}

#[test]
fn a_fence_follows_from_a_node_that_is_not_heard_and_should_not_last_when_it_is() {
    let mut seen = healthy();
    seen.nodes[2].fence = Some(fence());
    (seen.nodes[2].up, seen.nodes[2].up_changed_at) = (false, at("11:58:00"));
    assert_eq!(of(&seen, "failover"), [(Level::Note, "n3: fenced for 90s, 2 VMs taken from it".into())]);
    (seen.nodes[2].up, seen.nodes[2].up_changed_at) = (true, at("11:59:30"));
    assert_eq!(of(&seen, "failover")[0].0, Level::Note, "it has just come back");
    seen.nodes[2].up_changed_at = at("11:58:50");
    let message = "n3: is heard, but fenced for 90s: it has not shown that what it lost is gone";
    assert_eq!(of(&seen, "failover"), [(Level::Wrong, message.into())]);
}

#[test]
fn more_silent_nodes_than_may_be_fenced_are_for_a_person() {
    let mut seen = healthy();
    let there = |name: &str, node: u64| holm_api::Vm {
        name: name.into(),
        node_id: Some(node),
        availability_in_force: Some(Availability::Failover),
        ..active()
    };
    seen.vms = vec![there("a", 2), there("b", 3)];
    for node in &mut seen.nodes[1..] {
        (node.up, node.up_changed_at) = (false, at("11:59:20"));
    }
    let message = "n2, n3 silent for longer than 20 s and not fenced, at most 1 at once: look whether it is the \
                   network; if the machines are off, `holm vm evacuate NAME --confirm-node-off`";
    assert_eq!(of(&seen, "failover"), [(Level::Wrong, message.into())]);
    seen.nodes[1].up_changed_at = at("11:59:40");
    seen.nodes[2].up_changed_at = at("11:59:40");
    assert_eq!(of(&seen, "failover")[0].0, Level::Ok, "not yet");
}

#[test]
fn a_freeze_is_told_with_what_it_means() {
    let mut seen = healthy();
    seen.cluster.as_mut().unwrap().freeze = Some(freeze());
    let message = "a freeze (new switch) is in force for 18m more: failover VMs run on without contact, and no node is \
                   fenced, so those of a machine that dies meanwhile wait";
    assert_eq!(of(&seen, "failover"), [(Level::Note, message.into())]);
}

#[test]
fn where_some_nodes_have_a_watchdog_those_that_should_and_have_none_are_told() {
    let mut seen = healthy();
    seen.vms = vec![holm_api::Vm {
        availability: Availability::Failover,
        availability_in_force: Some(Availability::Failover),
        node_id: Some(2),
        ..active()
    }];
    assert_eq!(of(&seen, "failover")[0].0, Level::Ok, "an operator who uses none has decided so");
    seen.nodes[0].capabilities.insert("watchdog".into(), "4 s".into());
    let message = "no watchdog guards n2: a VM there whose daemon and shim are both stopped by hand outlives its lease; \
                   enable holm-watchdog, with a --timeout below the margin";
    assert_eq!(of(&seen, "failover"), [(Level::Note, message.into())]);
    seen.nodes[1].capabilities.insert("watchdog".into(), "4 s".into());
    assert_eq!(of(&seen, "failover")[0].0, Level::Ok);
}

#[test]
fn failover_takes_three_nodes() {
    let mut seen = healthy();
    seen.vms = vec![holm_api::Vm { availability: Availability::Failover, ..active() }];
    assert_eq!(of(&seen, "failover")[0].0, Level::Ok);
    seen.nodes.pop();
    seen.answers.pop();
    let message = "1 failover VM, but 2 nodes: no node can be fenced with fewer than 3";
    assert_eq!(of(&seen, "failover"), [(Level::Wrong, message.into())]);
}

#[test]
fn vms_that_wait_after_a_fence_and_those_that_take_too_long_are_named() {
    let mut seen = healthy();
    seen.vms = vec![failing_over()];
    let message = "1 VM left a node and fit on no other: web; `holm vm explain NAME` says why";
    assert_eq!(of(&seen, "failover"), [(Level::Wrong, message.into())]);
    seen.vms[0].refusals.clear();
    assert_eq!(of(&seen, "failover"), [(Level::Note, "on the way to another node: web".into())]);

    seen.vms = vec![leaving()];
    seen.vms[0].recovery.overdue = true;
    let message = "1 in a step for too long: web; `holm vm show NAME` says in which, and where";
    assert_eq!(of(&seen, "vms"), [(Level::Wrong, message.into())]);
}

#[test]
fn a_drain_is_an_operators_own_doing() {
    let mut seen = healthy();
    seen.nodes[1] = drained_node();
    assert_eq!(of(&seen, "nodes"), [(Level::Note, "n2: is being drained, 3 VMs left".into())]);
}
