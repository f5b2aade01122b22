//! The plan as a table: what the record says, what is here, what is done.

use holm_model::flavor::Size;
use holm_model::vm::{
    Availability, Claim, Observed, ObservedState, OnNoHost, Power, StopMode, TaskState, Vm, VmSpec, VmStatus,
    WantPower,
};
use holm_model::{BootId, ClusterId, Epoch, FlavorId, ImageId, NodeId, Resources, Revision, Timestamp, VmId};
use holm_vmm::hypervisor::{ExitCause, Instance, InstanceState, Observation};
use uuid::Uuid;

use super::{NOT_ITS_TURN, Report, Standing, Step, plan};
use crate::lease;

#[path = "plan_tests/failover.rs"]
mod failover;
#[path = "plan_tests/rules.rs"]
mod rules;

const ME: NodeId = NodeId(1);

fn boot() -> BootId {
    BootId(Uuid::from_u128(1))
}

fn on() -> Standing {
    Standing {
        me: ME,
        cluster: ClusterId(Uuid::from_u128(50)),
        boot: boot(),
        applied: Revision(100),
        caught_up: true,
        waited: false,
        removed: false,
        held: false,
        allowed_again: false,
        fenced: false,
        lease: lease::Standing::None,
        overdue: false,
        turn: true,
    }
}

pub fn epoch(n: u64) -> Epoch {
    Epoch(Revision(n))
}

/// Placed on `node` at epoch 10, run 1, spawning.
pub fn record(node: NodeId) -> Vm {
    Vm {
        id: VmId(Uuid::from_u128(7)),
        project: "default".into(),
        name: "a".into(),
        spec: VmSpec {
            flavor: FlavorId(Uuid::nil()),
            flavor_name: "small".into(),
            size: Size { vcpus: 1, memory_mib: 64, disk_gib: 0 },
            image: ImageId(Uuid::nil()),
            kernel: None,
            cmdline: None,
            node: None,
            availability: Availability::Pinned,
            policies: Default::default(),
            on_no_host: OnNoHost::Queue,
            volumes: Vec::new(),
            scheduling: Default::default(),
            extra_specs: Default::default(),
            image_properties: Default::default(),
        },
        power: Power { want: WantPower::On, run: 1, stop: StopMode::Force },
        status: VmStatus::Build,
        task_state: Some(TaskState::Spawning),
        fault: None,
        claim: Some(Claim {
            node,
            epoch: epoch(10),
            resources: Resources::default(),
            parts: Default::default(),
            availability: Availability::Pinned,
        }),
        observed: None,
        decision: None,
        excluded: vec![],
        refusals: vec![],
        batch: None,
        reserved: None,
        waiting_since: None,
        recovery: Default::default(),
        created_at: Timestamp(0),
        updated_at: Timestamp(0),
        revision: Revision(10),
    }
}

fn active() -> Vm {
    let observed =
        Observed { boot_id: boot(), sequence: 1, run: 1, state: ObservedState::Running, at: Timestamp(0) };
    Vm { status: VmStatus::Active, task_state: None, observed: Some(observed), ..record(ME) }
}

fn off(task_state: Option<TaskState>) -> Vm {
    let power = Power { want: WantPower::Off, ..record(ME).power };
    let told = if task_state.is_none() { ObservedState::Stopped } else { ObservedState::Running };
    let observed = active().observed.map(|observed| Observed { state: told, ..observed });
    Vm { power, status: VmStatus::Active, task_state, observed, ..active() }
}

fn forgotten() -> Vm {
    Vm { status: VmStatus::Error, observed: None, ..off(None) }
}

fn deleting() -> Vm {
    Vm { status: VmStatus::Deleting, task_state: Some(TaskState::Deleting), ..off(None) }
}

fn run(n: u64) -> Vm {
    Vm { power: Power { run: n, ..record(ME).power }, task_state: Some(TaskState::Rebooting), ..active() }
}

fn here(epoch_n: u64, run: u64, state: InstanceState) -> Observation {
    Observation::Known(Instance {
        epoch: epoch(epoch_n),
        released: false,
        run,
        boot_id: Some(boot()),
        armed: None,
        can_arm: true,
        cluster: None,
        bound: false,
        state,
    })
}

fn last_boot(cause: ExitCause) -> Observation {
    Observation::Known(Instance {
        epoch: epoch(10),
        released: false,
        run: 1,
        boot_id: Some(BootId(Uuid::from_u128(99))),
        armed: None,
        can_arm: true,
        cluster: None,
        bound: false,
        state: ended(cause),
    })
}

fn released(epoch_n: u64) -> Observation {
    Observation::Known(Instance {
        epoch: epoch(epoch_n),
        released: true,
        run: 0,
        boot_id: None,
        armed: None,
        can_arm: true,
        cluster: None,
        bound: false,
        state: InstanceState::Prepared,
    })
}

fn ended(cause: ExitCause) -> InstanceState {
    InstanceState::Ended(cause)
}

fn failed() -> ExitCause {
    ExitCause::Failed { reason: "it died".into() }
}

fn report(state: ObservedState) -> Step {
    Step::Report(Report { epoch: epoch(10), run: 1, state, armed_for: None, note: None })
}

fn start(confirm: bool) -> Step {
    Step::Start { epoch: epoch(10), run: 1, confirm }
}

#[test]
fn the_next_step_follows_from_record_and_host() {
    use InstanceState::{Prepared, Running};
    let unknown = Observation::Unknown { reason: "no answer".into() };
    let died = ObservedState::Failed { reason: "it died".into() };
    let start_2 = Step::Start { epoch: epoch(10), run: 2, confirm: false };
    let give_up = Step::GiveUp { epoch: epoch(10), run: 1, reason: "it died".into() };
    let lost = ObservedState::Failed {
        reason: "its host gave this placement back; its disk is still there, but it cannot start again"
            .into(),
    };
    let lags = Step::Wait("the replica lags");
    let table: Vec<(&str, Option<Vm>, Observation, Step)> = vec![
        ("unknown is never absent", Some(record(ME)), unknown, Step::Wait("what is here cannot be told")),
        ("placed here, nothing here", Some(record(ME)), Observation::Absent, start(true)),
        ("prepared before", Some(record(ME)), here(10, 0, Prepared), start(false)),
        ("runs, to be told", Some(record(ME)), here(10, 1, Running), report(ObservedState::Running)),
        ("runs, told", Some(active()), here(10, 1, Running), Step::Nothing),
        ("runs on, the replica lags", Some(active()), here(10, 2, Running), lags.clone()),
        ("a newer epoch is waited for", Some(active()), here(11, 1, Running), lags.clone()),
        ("an older epoch is ended", Some(active()), here(9, 1, Running), Step::Stop(StopMode::Force)),
        ("an older epoch is marked", Some(active()), here(9, 1, Prepared), Step::Release(epoch(9))),
        ("an older epoch is removed", Some(active()), released(9), Step::Forget),
        ("a released epoch never starts", Some(record(ME)), released(10), give_back()),
        ("reboot ends the run", Some(run(2)), here(10, 1, Running), Step::Stop(StopMode::Force)),
        ("reboot begins the next", Some(run(2)), here(10, 1, ended(ExitCause::Requested)), start_2),
        ("the host went down", Some(active()), here(10, 1, ended(ExitCause::HostLost)), start(false)),
        ("powered off with the host", Some(active()), last_boot(ExitCause::Requested), start(false)),
        (
            "the guest went off",
            Some(active()),
            here(10, 1, ended(ExitCause::GuestOff)),
            report(ObservedState::GuestOff),
        ),
        ("the VMM died", Some(active()), here(10, 1, ended(failed())), report(died)),
        ("the VMM died building", Some(record(ME)), here(10, 1, ended(failed())), give_up),
        ("a stop this replica has not seen", Some(off(None)), here(10, 2, Running), lags.clone()),
        ("given back, but it had run", Some(active()), released(10), report(lost)),
        ("given back, off and told", Some(off(None)), released(10), Step::Nothing),
        (
            "stopped by a record the replica has not seen",
            Some(active()),
            here(10, 1, ended(ExitCause::Requested)),
            report(ObservedState::Stopped),
        ),
        (
            "to stop",
            Some(off(Some(TaskState::PoweringOff))),
            here(10, 1, Running),
            Step::Stop(StopMode::Force),
        ),
        (
            "stopped, to be told",
            Some(off(Some(TaskState::PoweringOff))),
            here(10, 1, ended(ExitCause::Requested)),
            report(ObservedState::Stopped),
        ),
        ("off and told", Some(off(None)), here(10, 1, ended(ExitCause::GuestOff)), Step::Nothing),
        ("off and nothing here", Some(off(None)), Observation::Absent, Step::Nothing),
        (
            "off, and the record does not know how it is",
            Some(forgotten()),
            here(10, 1, ended(failed())),
            report(ObservedState::Stopped),
        ),
        ("delete ends it", Some(deleting()), here(10, 1, Running), Step::Stop(StopMode::Force)),
        (
            "delete marks it",
            Some(deleting()),
            here(10, 1, ended(ExitCause::Requested)),
            Step::Release(epoch(10)),
        ),
        ("delete marks even what never was", Some(deleting()), Observation::Absent, Step::Release(epoch(10))),
        ("delete gives it back", Some(deleting()), released(10), Step::FinishDelete(epoch(10))),
        ("deleted, removed", None, released(10), Step::Forget),
        ("elsewhere now, ended", Some(record(NodeId(2))), here(9, 1, Running), Step::Stop(StopMode::Force)),
        ("not ours, nothing here", Some(record(NodeId(2))), Observation::Absent, Step::Nothing),
        ("of a future the replica has not seen", None, here(101, 1, Running), lags),
    ];
    for (case, vm, observed, expected) in table {
        assert_eq!(plan(on(), vm.as_ref(), &observed), expected, "{case}");
    }
}

fn give_back() -> Step {
    Step::GiveBack {
        epoch: epoch(10),
        reason: "it could not be built, and the daemon was restarted since".into(),
    }
}

#[test]
fn a_cold_node_starts_what_it_had_only_with_a_quorum_or_after_waiting() {
    let had = here(10, 1, InstanceState::Ended(ExitCause::HostLost));
    let cold = Standing { caught_up: false, ..on() };
    let waited = Standing { waited: true, ..cold };
    let removed = Standing { removed: true, ..waited };
    let vm = Some(active());
    assert!(matches!(plan(cold, vm.as_ref(), &had), Step::Wait(_)));
    assert_eq!(plan(waited, vm.as_ref(), &had), start(false));
    assert!(matches!(plan(removed, vm.as_ref(), &had), Step::Wait(_)));
    // What it never had needs a current state, however long it waited.
    assert_eq!(plan(waited, vm.as_ref(), &Observation::Absent), start(true));
}

#[test]
fn nothing_starts_or_is_told_as_stopped_while_the_host_goes_down() {
    let held = Standing { held: true, ..on() };
    let vm = Some(active());
    for state in [ended(ExitCause::Requested), ended(ExitCause::HostLost), InstanceState::Prepared] {
        assert!(matches!(plan(held, vm.as_ref(), &here(10, 1, state.clone())), Step::Wait(_)), "{state:?}");
    }
    assert!(matches!(plan(held, vm.as_ref(), &Observation::Absent), Step::Wait(_)));
}

#[test]
fn a_host_that_was_down_starts_its_vms_in_turn() {
    let not_yet = Standing { turn: false, ..on() };
    let wait = Step::Wait(NOT_ITS_TURN);
    let vm = Some(active());
    for cause in [ExitCause::HostLost, ExitCause::Requested, ExitCause::LeaseEnded] {
        assert_eq!(plan(not_yet, vm.as_ref(), &last_boot(cause.clone())), wait, "{cause:?}");
        assert_eq!(plan(on(), vm.as_ref(), &last_boot(cause.clone())), start(false), "{cause:?}");
    }
    // Powered off for a shutdown that did not come.
    let again = Standing { allowed_again: true, ..on() };
    let ended_now = here(10, 1, ended(ExitCause::Requested));
    assert_eq!(plan(again, vm.as_ref(), &ended_now), start(false));
    assert_eq!(plan(Standing { turn: false, ..again }, vm.as_ref(), &ended_now), wait);
    assert_eq!(
        plan(Standing { turn: false, ..on() }, vm.as_ref(), &ended_now),
        report(ObservedState::Stopped)
    );
    // Asked for now, not lost then.
    let again = Step::Start { epoch: epoch(10), run: 2, confirm: false };
    assert_eq!(plan(not_yet, Some(&run(2)), &last_boot(ExitCause::Requested)), again);
}

#[test]
fn what_was_told_is_not_told_again() {
    let told = |state: ObservedState, task_state| {
        let mut vm = active();
        vm.observed.as_mut().expect("it was told").state = state;
        Some(Vm { task_state, ..vm })
    };
    let hangs = || InstanceState::Unresponsive { reason: "it hangs".into() };
    let unknown = || ObservedState::Unknown { reason: "it hangs".into() };
    let died = || ObservedState::Failed { reason: "it died".into() };
    let table = [
        ("it hangs", told(unknown(), None), hangs(), Step::Nothing),
        (
            "it hangs while a reboot is asked for",
            told(unknown(), Some(TaskState::Rebooting)),
            hangs(),
            Step::Nothing,
        ),
        ("its policy restarts it", told(died(), Some(TaskState::Restarting)), ended(failed()), Step::Nothing),
        ("no policy restarts it", told(died(), None), ended(failed()), Step::Nothing),
        (
            "it was asked for again",
            told(died(), Some(TaskState::PoweringOn)),
            ended(failed()),
            report(died()),
        ),
    ];
    for (case, vm, state, expected) in table {
        assert_eq!(plan(on(), vm.as_ref(), &here(10, 1, state)), expected, "{case}");
    }
    // The leader has begun the next run.
    let next = Step::Start { epoch: epoch(10), run: 2, confirm: false };
    assert_eq!(plan(on(), Some(&run(2)), &here(10, 1, ended(failed()))), next);
}
