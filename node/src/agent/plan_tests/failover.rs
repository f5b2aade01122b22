//! Leases and failover, as a table (FENCING.md, rules 11 to 13).

use holm_model::Revision;
use holm_model::vm::{Availability, Fault, ObservedState, Vacate};
use holm_vmm::lease::LeaseId;

use super::*;
use crate::lease;

/// The lease in force, and the one before it.
const LEASE: LeaseId = LeaseId(7);
const ENDED: LeaseId = LeaseId(6);
/// When failover was asked for.
const ASKED: Revision = Revision(30);

fn leased() -> Standing {
    Standing { lease: lease::Standing::Ready(LEASE), ..on() }
}

fn available(asked: Availability, in_force: Availability, mut vm: Vm) -> Vm {
    vm.spec.availability = asked;
    vm.recovery.availability_revision = ASKED;
    vm.claim.as_mut().expect("it is placed").availability = in_force;
    vm
}

/// Placed as failover.
fn failover(vm: Vm) -> Option<Vm> {
    Some(available(Availability::Failover, Availability::Failover, vm))
}

/// Failover was asked for while it was here.
fn becoming(vm: Vm) -> Option<Vm> {
    Some(available(Availability::Failover, Availability::Pinned, vm))
}

fn changed(observed: Observation, change: impl FnOnce(&mut Instance)) -> Observation {
    let Observation::Known(mut instance) = observed else { unreachable!("the tests change what is known") };
    change(&mut instance);
    Observation::Known(instance)
}

fn armed(lease: LeaseId) -> Observation {
    changed(here(10, 1, InstanceState::Running), |here| here.armed = Some(lease))
}

fn bound(observed: Observation) -> Observation {
    changed(observed, |here| here.bound = true)
}

fn told(state: ObservedState) -> Step {
    Step::Report(Report { epoch: epoch(10), run: 1, state, armed_for: Some(ASKED), note: None })
}

fn bind(bound: bool) -> Step {
    Step::Bind { epoch: epoch(10), bound }
}

const NO_LEASE: Step = Step::Wait("a failover VM starts only under a lease, and with all the lease has seen");

#[test]
fn a_failover_vm_starts_only_under_a_lease_with_all_it_has_seen() {
    let ended_with_it = || here(10, 1, ended(ExitCause::LeaseEnded));
    let behind = Standing { lease: lease::Standing::Behind(LEASE), ..on() };
    let fenced = Standing { fenced: true, ..leased() };
    let wait_fenced = Step::Wait("this node is fenced and starts no failover VM");
    let table = [
        ("no lease", on(), failover(record(ME)), Observation::Absent, NO_LEASE),
        ("the replica lags behind it", behind, failover(record(ME)), Observation::Absent, NO_LEASE),
        ("a lease", leased(), failover(record(ME)), Observation::Absent, start(true)),
        ("fenced", fenced, failover(record(ME)), Observation::Absent, wait_fenced),
        ("fenced, but it is pinned", fenced, Some(record(ME)), Observation::Absent, start(true)),
        ("failover only asked for", on(), becoming(active()), bound(ended_with_it()), NO_LEASE),
        ("ended with its lease, no other yet", on(), failover(active()), ended_with_it(), NO_LEASE),
        ("ended with its lease, under the next", leased(), failover(active()), ended_with_it(), start(false)),
        ("runs under the lease", leased(), failover(active()), armed(LEASE), Step::Nothing),
        (
            "its shim does not end it",
            Standing { overdue: true, ..leased() },
            failover(active()),
            armed(ENDED),
            Step::Enforce,
        ),
        ("its shim ends it", leased(), failover(active()), armed(ENDED), Step::Nothing),
        ("the lease has ended, its shim ends it", on(), failover(active()), armed(LEASE), Step::Nothing),
    ];
    for (case, on, vm, observed, expected) in table {
        assert_eq!(plan(on, vm.as_ref(), &observed), expected, "{case}");
    }
}

#[test]
fn what_runs_is_bound_before_anybody_is_told_so() {
    use ObservedState::{Running, Stopped};
    let running = || here(10, 1, InstanceState::Running);
    let old = || changed(bound(running()), |here| here.can_arm = false);
    let off_now = || off(None);
    let table = [
        ("the need is written down", leased(), becoming(active()), running(), bind(true)),
        ("then it is armed", leased(), becoming(active()), bound(running()), Step::Arm(LEASE)),
        ("without a lease it stays pinned", on(), becoming(active()), bound(running()), Step::Nothing),
        ("then it is told", leased(), becoming(active()), bound(armed(LEASE)), told(Running)),
        (
            "armed with a lease that has ended",
            leased(),
            becoming(active()),
            bound(armed(ENDED)),
            Step::Nothing,
        ),
        (
            "off: the need is written down",
            leased(),
            becoming(off_now()),
            here(10, 1, ended(ExitCause::GuestOff)),
            bind(true),
        ),
        (
            "off: told, nothing runs",
            leased(),
            becoming(off_now()),
            bound(here(10, 1, ended(ExitCause::GuestOff))),
            told(Stopped),
        ),
        ("off and never here: told", leased(), becoming(off_now()), Observation::Absent, told(Stopped)),
        (
            "an end that counts is not told twice",
            leased(),
            becoming(failed_and_told()),
            bound(here(10, 1, ended(failed()))),
            Step::Nothing,
        ),
        (
            "its shim is too old: said",
            leased(),
            becoming(active()),
            old(),
            Step::Report(Report {
                epoch: epoch(10),
                run: 1,
                state: Running,
                armed_for: None,
                note: Some(TOO_OLD.to_owned()),
            }),
        ),
        ("said once", leased(), becoming(noted()), old(), Step::Nothing),
        ("in force and not bound: bound", leased(), failover(active()), running(), Step::Arm(LEASE)),
        (
            "in force, and it cannot be bound",
            leased(),
            failover(active()),
            changed(running(), |here| here.can_arm = false),
            Step::Stop(StopMode::Force),
        ),
        ("in force and no lease", on(), failover(active()), running(), Step::Stop(StopMode::Force)),
    ];
    for (case, on, vm, observed, expected) in table {
        assert_eq!(plan(on, vm.as_ref(), &observed), expected, "{case}");
    }
}

const TOO_OLD: &str = "it was started by an earlier version of Holm, which knows no leases: it stays pinned until it \
    is stopped and started once";

fn noted() -> Vm {
    let fault = Fault { message: TOO_OLD.to_owned(), node: Some(ME), at: Timestamp(0) };
    Vm { fault: Some(fault), ..active() }
}

fn failed_and_told() -> Vm {
    let mut vm = active();
    vm.status = VmStatus::Error;
    vm.observed.as_mut().expect("it was told").state = ObservedState::Failed { reason: "it died".into() };
    vm
}

#[test]
fn a_vm_is_freed_only_by_a_replica_that_has_caught_up() {
    let cold = Standing { caught_up: false, waited: true, ..leased() };
    let ended_here = || bound(here(10, 1, ended(ExitCause::HostLost)));
    let unsure = Step::Wait("a quorum is waited for: it may have been failed over");
    let table = [
        ("freed", leased(), armed(LEASE), Step::Disarm),
        ("the replica may be old", cold, armed(LEASE), Step::Nothing),
        ("then the need goes", leased(), bound(here(10, 1, InstanceState::Running)), bind(false)),
        ("the need goes before it starts", leased(), ended_here(), bind(false)),
        ("an old replica does not start it without a lease", cold, ended_here(), unsure),
        ("what was never bound starts", cold, here(10, 1, ended(ExitCause::HostLost)), start(false)),
    ];
    for (case, on, observed, expected) in table {
        assert_eq!(plan(on, Some(&active()), &observed), expected, "{case}");
    }
}

#[test]
fn a_vm_that_is_to_leave_is_stopped_marked_and_given_back() {
    let stop = StopMode::Graceful { timeout_s: 30 };
    let mut vm = active();
    vm.task_state = Some(TaskState::Moving);
    vm.recovery.vacate = Some(Vacate { since: Timestamp(0), reason: "drain".into(), stop, to: None });
    let mut off_vm = vm.clone();
    off_vm.power.want = WantPower::Off;
    let table = [
        ("it runs", here(10, 1, InstanceState::Running), Step::Stop(stop)),
        ("it has stopped", here(10, 1, ended(ExitCause::Requested)), Step::Release(epoch(10))),
        ("it ended by itself", here(10, 1, ended(failed())), Step::Release(epoch(10))),
        ("it never was here", Observation::Absent, Step::Release(epoch(10))),
        ("it is marked", released(10), Step::FinishVacate(epoch(10))),
    ];
    for (case, observed, expected) in table {
        assert_eq!(plan(on(), Some(&vm), &observed), expected, "{case}");
        assert_eq!(plan(on(), Some(&off_vm), &observed), expected, "{case}, off");
    }
    // Its directory goes when the claim has ended.
    vm.claim = None;
    assert_eq!(plan(on(), Some(&vm), &released(10)), Step::Forget);
}

#[test]
fn what_another_cluster_placed_is_left_alone() {
    let foreign = |observed| changed(observed, |here| here.cluster = Some(ClusterId(Uuid::from_u128(51))));
    for observed in [here(10, 1, InstanceState::Running), here(500, 1, ended(failed())), released(10)] {
        assert_eq!(plan(on(), None, &foreign(observed.clone())), Step::Nothing);
        let in_the_way = Step::Wait("a VM of another cluster is where this one belongs");
        assert_eq!(plan(on(), Some(&record(ME)), &foreign(observed)), in_the_way);
    }
    let own = |observed| changed(observed, |here| here.cluster = Some(on().cluster));
    assert_eq!(plan(on(), None, &own(here(10, 1, InstanceState::Running))), Step::Stop(StopMode::Force));
}
