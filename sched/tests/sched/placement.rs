//! The placement controller: order, refusals worth recording, giving up.

use holm_model::command::{ReleaseCause, SetClock};
use holm_model::flavor::Size;
use holm_model::policy::BUILD_TIMEOUT_S;
use holm_model::scheduling::Scheduling;
use holm_model::vm::{OnNoHost, VmStatus};
use holm_model::{Command, NodeId, State, Timestamp, VmId};
use holm_sched::controllers::{NO_HOST_MAX, Placement, TOLD_MAX};
use holm_sched::decide_again;
use holm_sched::queue::PLACEMENTS_MAX;
use holm_sched::{Controller, Facts};

use crate::cluster::{Cluster, HostSize, MEDIUM, SMALL_VM};

const BUILD_TIMEOUT_MS: u64 = BUILD_TIMEOUT_S as u64 * 1000;
/// All of a medium host.
const WHOLE: Size = Size { vcpus: 8, memory_mib: 1024, disk_gib: 0 };
const TOO_BIG: Size = Size { vcpus: 200, memory_mib: 1024, disk_gib: 0 };

fn decide(cluster: &Cluster) -> Vec<Command> {
    Placement.decide(&cluster.state, &Facts { now: cluster.now, ..Facts::default() })
}

fn placed(commands: &[Command]) -> Vec<VmId> {
    match commands {
        [Command::PlaceVms(place), ..] => place.placements.iter().map(|placement| placement.vm).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn all_waiting_vms_go_into_one_command_under_the_current_leadership() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    let vms: Vec<VmId> = (0..5).map(|_| cluster.vm(SMALL_VM)).collect();
    let commands = decide(&cluster);
    let [Command::PlaceVms(place)] = commands.as_slice() else { panic!("{commands:?}") };
    assert_eq!(place.leadership, cluster.leadership());
    assert_eq!(placed(&commands), vms);
    cluster.carry_out(commands);
    assert_eq!(decide(&cluster), [], "nothing is left to decide");
}

#[test]
fn the_oldest_vm_gets_the_last_room() {
    let mut cluster = Cluster::of(&[HostSize { vcpus: 1, memory_mib: 4096, disk_gib: 10 }]);
    cluster.now = Timestamp(3_000_000);
    let younger = cluster.vm(SMALL_VM);
    cluster.now = Timestamp(2_000_000);
    let older = cluster.vm(SMALL_VM);
    let commands = decide(&cluster);
    assert_eq!(placed(&commands), [older]);
    let [_, Command::NoHost(no_host)] = commands.as_slice() else { panic!("{commands:?}") };
    assert_eq!(no_host.vm, younger);
}

#[test]
fn a_vm_that_fits_nowhere_does_not_hold_up_the_younger() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    cluster.vm(TOO_BIG);
    let small = cluster.vm(SMALL_VM);
    assert_eq!(placed(&decide(&cluster)), [small]);
}

#[test]
fn refusals_are_recorded_once_and_again_when_another_rule_refuses() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    let vm = cluster.vm(TOO_BIG);
    let commands = decide(&cluster);
    let [Command::NoHost(no_host)] = commands.as_slice() else { panic!("{commands:?}") };
    assert!(!no_host.give_up);
    let said: Vec<_> =
        no_host.refusals.iter().map(|r| (r.node.0, r.by.as_str(), r.message.as_str())).collect();
    let words = "VCPU: 200 wanted, 8 free of 8";
    assert_eq!(said, [(1, "Capacity", words), (2, "Capacity", words)]);
    cluster.carry_out(commands);
    assert_eq!(decide(&cluster), [], "nothing new to say");

    let small = cluster.vm(SMALL_VM);
    let commands = decide(&cluster);
    assert_eq!(placed(&commands), [small]);
    assert_eq!(commands.len(), 1, "fewer free vCPUs are no news");
    cluster.carry_out(commands);
    assert_eq!(decide(&cluster), []);

    cluster.set_up(2, false);
    let commands = decide(&cluster);
    let [Command::NoHost(no_host)] = commands.as_slice() else { panic!("{commands:?}") };
    assert_eq!((no_host.vm, no_host.refusals[1].by.as_str()), (vm, "ComputeStatus"));
}

#[test]
fn a_vm_that_would_not_wait_goes_to_error_at_once() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    let vm = cluster.vm_with(TOO_BIG, None, OnNoHost::Fail);
    let commands = decide(&cluster);
    cluster.carry_out(commands);
    let record = cluster.record(vm);
    assert_eq!(record.status, VmStatus::Error);
    assert_eq!(record.refusals[0].node, NodeId(1));
    assert_eq!(decide(&cluster), []);
}

#[test]
fn a_queued_vm_waits_until_the_build_time_out() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    let vm = cluster.vm(TOO_BIG);
    let since = cluster.now.0;
    let commands = decide(&cluster);
    cluster.carry_out(commands);
    cluster.now = Timestamp(since + BUILD_TIMEOUT_MS - 1);
    assert_eq!(decide(&cluster), []);
    cluster.now = Timestamp(since + BUILD_TIMEOUT_MS);
    let commands = decide(&cluster);
    cluster.carry_out(commands);
    assert_eq!(cluster.record(vm).status, VmStatus::Error);
}

#[test]
fn a_clock_set_back_does_not_turn_the_queue_round() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    let older = cluster.vm(WHOLE);
    let leadership = cluster.leadership();
    cluster.done(Command::SetClock(SetClock { leadership, by_ms: -500_000 }));
    cluster.now = Timestamp(cluster.now.0 - 499_000);
    let younger = cluster.vm(WHOLE);
    assert_eq!(cluster.placed_on(older), Some(1));
    assert_eq!(cluster.record(younger).claim, None);
    // One that runs keeps its age too, for the day when it comes back to the queue.
    cluster.run(older);
    cluster.done(Command::SetClock(SetClock { leadership, by_ms: 7_000 }));
    let age = |vm| cluster.record(vm).created_at;
    assert_eq!(age(younger).0 - age(older).0, 1_000);
}

/// The next leader's wall clock is an hour ahead, or is set while it leads.
#[test]
fn a_clock_that_is_moved_ends_no_wait_and_prolongs_none() {
    for by_ms in [3_600_000, -500_000] {
        let mut cluster = Cluster::of(&[MEDIUM]);
        let vm = cluster.vm(TOO_BIG);
        let since = cluster.now.0;
        let commands = decide(&cluster);
        cluster.carry_out(commands);
        cluster.now = Timestamp(since + BUILD_TIMEOUT_MS - 1);
        let leadership = cluster.leadership();
        cluster.done(Command::SetClock(SetClock { leadership, by_ms }));
        cluster.now = Timestamp(cluster.now.0.saturating_add_signed(by_ms));
        assert_eq!(decide(&cluster), [], "{by_ms}");
        cluster.now = Timestamp(cluster.now.0 + 1);
        let commands = decide(&cluster);
        cluster.carry_out(commands);
        assert_eq!(cluster.record(vm).status, VmStatus::Error, "{by_ms}");
    }
}

#[test]
fn a_vm_past_its_time_out_is_still_placed_when_room_appears() {
    let mut cluster = Cluster::of(&[HostSize { vcpus: 8, memory_mib: 512, disk_gib: 10 }]);
    let vm = cluster.vm(SMALL_VM);
    cluster.now = Timestamp(cluster.now.0 + BUILD_TIMEOUT_MS);
    cluster.report(1, MEDIUM);
    assert_eq!(placed(&decide(&cluster)), [vm]);
}

#[test]
fn one_decision_is_bounded_and_the_next_goes_on() {
    let huge = HostSize { vcpus: 10_000, memory_mib: 100_000_000, disk_gib: 100_000 };
    let mut cluster = Cluster::of(&[huge; 2]);
    // Each differs, and so do the reasons.
    for n in 0..NO_HOST_MAX as u64 + 1 {
        cluster.vm(Size { vcpus: 254, memory_mib: 1024, disk_gib: 64_000 - n });
    }
    for _ in 0..PLACEMENTS_MAX + 1 {
        cluster.vm(SMALL_VM);
    }
    let mut rounds = Vec::new();
    loop {
        let commands = decide(&cluster);
        if commands.is_empty() {
            break;
        }
        rounds.push((placed(&commands).len(), commands.len()));
        cluster.carry_out(commands);
    }
    // The first decision takes a thousand; two of the big VMs fit, one on each host.
    assert_eq!(rounds[0], (PLACEMENTS_MAX, 1 + NO_HOST_MAX - 1));
    assert_eq!(cluster.state.waiting.len(), NO_HOST_MAX - 1);
}

/// How many VMs each entry speaks of.
fn told(commands: &[Command]) -> Vec<usize> {
    let told = |command: &Command| match command {
        Command::NoHost(no_host) => Some(1 + no_host.also.len()),
        _ => None,
    };
    commands.iter().filter_map(told).collect()
}

#[test]
fn one_entry_says_of_all_that_are_alike_why_they_fit_nowhere() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    let big = Size { vcpus: 9, ..SMALL_VM };
    let wait: Vec<VmId> = (0..TOLD_MAX).map(|_| cluster.vm(big)).collect();
    let fail = cluster.vm_with(big, None, OnNoHost::Fail);
    let commands = decide(&cluster);
    assert_eq!(told(&commands), [TOLD_MAX], "one decision is bounded");
    let seen = cluster.state.clone();
    // One that goes meanwhile takes nobody's reasons with it.
    cluster.delete(wait[0]);
    let before = cluster.state.revision.0;
    cluster.carry_out(commands);
    assert_eq!(cluster.state.revision.0, before + 1);
    for vm in &wait[1..] {
        let record = cluster.record(*vm);
        let why = record.fault.as_ref().map(|fault| fault.message.as_str());
        assert_eq!((why, record.refusals.len()), (Some("no node fits it (3 × Capacity)"), 3));
        let made = record.decision.as_ref().expect("it is kept");
        assert_eq!(&decide_again(&seen, *vm, made), made);
    }
    let commands = decide(&cluster);
    assert_eq!(told(&commands), [1]);
    cluster.carry_out(commands);
    assert_eq!(cluster.record(fail).status, VmStatus::Error);
    assert_eq!(decide(&cluster), []);
    // Not of those that would not wait what is said of those that do.
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    for on_no_host in [OnNoHost::Fail, OnNoHost::Queue, OnNoHost::Fail] {
        cluster.vm_with(big, None, on_no_host);
    }
    assert_eq!(told(&decide(&cluster)), [2, 1]);
}

#[test]
fn nothing_is_placed_on_a_node_that_may_be_dead_and_nothing_is_given_up_for_it() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    for _ in 0..6 {
        cluster.vm(SMALL_VM);
    }
    cluster.vm_with(SMALL_VM, Some(3), OnNoHost::Fail);
    let facts = Facts {
        now: cluster.now,
        silent_ms: [(NodeId(1), 0), (NodeId(2), 2_001), (NodeId(3), 40)].into(),
        unheard: [NodeId(3)].into(),
        ..Facts::default()
    };
    let commands = Placement.decide(&cluster.state, &facts);
    let [Command::PlaceVms(place)] = commands.as_slice() else { panic!("{commands:?}") };
    assert_eq!(place.placements.len(), 6);
    assert!(place.placements.iter().all(|placement| placement.node == NodeId(1)), "{place:?}");
    cluster.carry_out(commands);

    cluster.set_up(3, false);
    let commands = Placement.decide(&cluster.state, &facts);
    let [Command::NoHost(no_host)] = commands.as_slice() else { panic!("{commands:?}") };
    assert!(no_host.give_up, "now that it is surely down");
}

#[test]
fn without_a_leadership_nothing_is_decided() {
    assert_eq!(Placement.decide(&State::default(), &Facts::default()), []);
}

#[test]
fn the_queue_goes_by_priority_then_age_then_id() {
    let one_slot = HostSize { vcpus: 1, memory_mib: 4096, disk_gib: 10 };
    let mut cluster = Cluster::of(&[one_slot; 4]);
    let mut at = |now, priority| {
        cluster.now = Timestamp(now);
        cluster.vm_like(Scheduling { priority, ..Scheduling::default() })
    };
    let low = at(1_000_000, -1);
    let young = at(3_000_000, 0);
    let old = at(2_000_000, 0);
    let same_age = at(2_000_000, 0);
    let urgent = at(4_000_000, 7);
    assert_eq!(placed(&decide(&cluster)), [urgent, old, same_age, young]);
    assert!(old < same_age);
    let commands = decide(&cluster);
    cluster.carry_out(commands);
    assert!(cluster.record(low).claim.is_none(), "the least urgent waits, however old");
}

#[test]
fn a_placed_vm_keeps_how_its_host_was_chosen() {
    let mut cluster = Cluster::of(&[MEDIUM, MEDIUM, HostSize { vcpus: 16, ..MEDIUM }]);
    cluster.cordon(2, "test");
    cluster.policy(|policy| policy.weighers = [("Cpu".to_owned(), 2000)].into());
    let vm = cluster.vm(SMALL_VM);
    let seen = cluster.state.revision;
    assert_eq!(cluster.placed_on(vm), Some(3));
    let decision = cluster.record(vm).decision.as_ref().expect("it was decided");
    let scores: Vec<_> = decision.scores.iter().map(|score| (score.node.0, score.score_millionths)).collect();
    assert_eq!((decision.candidates, scores), (2, vec![(3, 2_000_000), (1, 1_000_000)]));
    assert_eq!((decision.seen, decision.policy), (seen, cluster.state.scheduler.revision));
}

#[test]
fn a_decision_names_the_policy_it_was_made_by_though_another_is_in_force_when_it_is_carried_out() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    let by = cluster.state.scheduler.revision;
    let vm = cluster.vm(SMALL_VM);
    let commands = decide(&cluster);
    cluster.policy(|policy| policy.weighers = [("Cpu".to_owned(), 2000)].into());
    cluster.carry_out(commands);
    let decision = cluster.record(vm).decision.clone().expect("it was decided");
    assert!(cluster.record(vm).claim.is_some());
    assert_eq!(decision.policy, by);
    assert!(cluster.state.scheduler.revision > by);
}

#[test]
fn a_decision_that_found_no_host_takes_the_place_of_the_one_before_and_can_be_made_again() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    cluster.cordon(2, "test");
    let vm = cluster.vm(SMALL_VM);
    let empty = cluster.state.clone();
    assert_eq!(cluster.placed_on(vm), Some(1));
    let placed = cluster.record(vm).decision.clone().expect("it was decided");
    cluster.release(vm, ReleaseCause::BuildFailed { reason: "no disk".to_owned() });
    let seen = cluster.state.clone();
    assert_eq!(cluster.placed_on(vm), None);
    let decision = cluster.record(vm).decision.clone().expect("it was decided");
    assert_eq!((decision.candidates, decision.scores.as_slice()), (0, &[][..]));
    assert_eq!((decision.seen, decision.policy), (seen.revision, seen.scheduler.revision));
    assert!(decision.revision > placed.revision);
    assert_eq!(holm_sched::replay(&seen, &decision.withheld, vm), None);
    assert_eq!(decide_again(&seen, vm, &decision), decision);
    let on_another = decide_again(&empty, vm, &decision);
    assert_eq!((on_another.seen, on_another.scores.len()), (placed.seen, 1));
}

#[test]
fn how_long_a_vm_waits_is_the_policys_to_say() {
    let mut cluster = Cluster::of(&[]);
    cluster.policy(|policy| policy.build_timeout_s = 60);
    let vm = cluster.vm(SMALL_VM);
    assert_eq!(cluster.placed_on(vm), None);
    let since = cluster.record(vm).waiting_since.expect("it waits").0;
    cluster.now = Timestamp(since + 59_999);
    assert_eq!(cluster.placed_on(vm), None);
    assert_eq!(cluster.record(vm).status, VmStatus::Build);
    cluster.now = Timestamp(since + 60_000);
    assert_eq!(cluster.placed_on(vm), None);
    assert_eq!(cluster.record(vm).status, VmStatus::Error);
}

#[test]
fn a_change_of_policy_counts_from_the_next_decision_on() {
    let mut cluster = Cluster::of(&[MEDIUM, HostSize { vcpus: 16, ..MEDIUM }]);
    for (multiplier, expected) in [(1000, 2), (-1000, 1)] {
        cluster.policy(|policy| policy.weighers = [("Cpu".to_owned(), multiplier)].into());
        let vm = cluster.vm(SMALL_VM);
        assert_eq!(cluster.placed_on(vm), Some(expected));
    }
}
