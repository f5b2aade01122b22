//! Deadlines: a table of steps, what puts a deadline off, and that each is said once.

use holm_model::command::{Command, DeleteVm, ReleaseCause, SetVmPower, TaskOverdue, VacateVms};
use holm_model::vm::{ObservedState, RestartPolicy, StopMode, TaskState, VmStatus, WantPower};
use holm_model::{Timestamp, VmId};
use holm_sched::controllers::Overdue;
use holm_sched::controllers::overdue::is_said;
use holm_sched::{Controller, Facts};

use crate::cluster::{Cluster, MEDIUM, SMALL_VM};

const S: u64 = 1_000;
const MIN: u64 = 60 * S;

fn decide(cluster: &Cluster) -> Vec<(VmId, TaskState)> {
    let said = |command| match command {
        Command::TaskOverdue(TaskOverdue { vm, task_state, .. }) => (vm, task_state),
        other => panic!("unexpected {other:?}"),
    };
    commands(cluster).into_iter().map(said).collect()
}

fn commands(cluster: &Cluster) -> Vec<Command> {
    Overdue.decide(&cluster.state, &Facts { now: cluster.now, ..Facts::default() })
}

fn pass(cluster: &mut Cluster, ms: u64) {
    cluster.now = Timestamp(cluster.now.0 + ms);
}

fn running(cluster: &mut Cluster) -> VmId {
    let vm = cluster.create(SMALL_VM, |vm| vm.policies.disk_loss = holm_model::vm::DiskLoss::Recreate);
    cluster.placed_on(vm);
    cluster.run(vm);
    vm
}

fn power(cluster: &mut Cluster, vm: VmId, want: WantPower, reboot: bool, stop: StopMode) {
    cluster.done(Command::SetVmPower(SetVmPower { vm, want, reboot, stop, admitted: None, expected: None }));
}

fn vacate(cluster: &mut Cluster, vm: VmId, stop: StopMode) {
    let (leadership, reason) = (cluster.leadership(), "test".to_owned());
    cluster.done(Command::VacateVms(VacateVms { leadership, vms: vec![vm], reason, stop }));
}

const GRACE: StopMode = StopMode::Graceful { timeout_s: 90 };

/// Brings a fresh VM into a step.
fn into(cluster: &mut Cluster, step: TaskState) -> VmId {
    if step == TaskState::Spawning {
        let vm = cluster.vm(SMALL_VM);
        cluster.placed_on(vm);
        return vm;
    }
    let vm = running(cluster);
    match step {
        TaskState::PoweringOn => {
            power(cluster, vm, WantPower::Off, false, StopMode::Force);
            cluster.tell(vm, ObservedState::Stopped);
            power(cluster, vm, WantPower::On, false, StopMode::Force);
        }
        TaskState::PoweringOff => power(cluster, vm, WantPower::Off, false, GRACE),
        TaskState::Rebooting => power(cluster, vm, WantPower::On, true, GRACE),
        TaskState::Moving => vacate(cluster, vm, GRACE),
        TaskState::Deleting => {
            cluster.done(Command::DeleteVm(DeleteVm { vm, expected: None }));
        }
        TaskState::Scheduling | TaskState::Restarting | TaskState::Spawning => panic!("not by hand"),
    }
    assert_eq!(cluster.record(vm).task_state, Some(step));
    vm
}

#[test]
fn every_step_of_a_node_has_its_deadline() {
    for (step, deadline_ms) in [
        (TaskState::Spawning, 15 * MIN),
        (TaskState::PoweringOn, 15 * MIN),
        (TaskState::PoweringOff, 90 * S + 5 * MIN),
        (TaskState::Rebooting, 90 * S + 5 * MIN),
        (TaskState::Moving, 90 * S + 10 * MIN),
        (TaskState::Deleting, 30 * MIN),
    ] {
        let mut cluster = Cluster::of(&[MEDIUM]);
        let vm = into(&mut cluster, step);
        pass(&mut cluster, deadline_ms - 1);
        assert_eq!(decide(&cluster), [], "{step:?} is not late yet");
        pass(&mut cluster, 1);
        assert_eq!(decide(&cluster), [(vm, step)]);
        let commands = commands(&cluster);
        cluster.carry_out(commands);
        assert_eq!(decide(&cluster), [], "{step:?}: it is said once");

        let record = cluster.record(vm);
        let stays = !matches!(step, TaskState::PoweringOn | TaskState::Rebooting);
        assert_eq!(record.task_state, stays.then_some(step), "{step:?}: only its node ends these");
        assert_eq!(record.status == VmStatus::Error, !stays, "{step:?}: is {:?}", record.status);
        assert!(record.fault.as_ref().is_some_and(|fault| fault.message.contains("not finished in time")));
        pass(&mut cluster, deadline_ms);
        assert_eq!(decide(&cluster).len(), usize::from(stays), "{step:?}: it is said again after as long");
    }
}

#[test]
fn a_start_that_tells_how_far_it_is_is_not_late() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    let vm = into(&mut cluster, TaskState::Spawning);
    pass(&mut cluster, 14 * MIN);
    cluster.tell(vm, ObservedState::Progress { step: "fetching image 40 %".into() });
    pass(&mut cluster, 14 * MIN);
    assert_eq!(decide(&cluster), []);
    pass(&mut cluster, MIN);
    assert_eq!(decide(&cluster), [(vm, TaskState::Spawning)]);
}

#[test]
fn a_node_that_is_down_is_not_late_and_has_its_time_anew_when_it_is_back() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    let vm = into(&mut cluster, TaskState::PoweringOff);
    cluster.set_up(1, false);
    pass(&mut cluster, 24 * 60 * MIN);
    assert_eq!(decide(&cluster), []);
    cluster.set_up(1, true);
    pass(&mut cluster, 6 * MIN);
    assert_eq!(decide(&cluster), []);
    pass(&mut cluster, MIN);
    assert_eq!(decide(&cluster), [(vm, TaskState::PoweringOff)]);
}

#[test]
fn what_controllers_do_has_deadlines_of_its_own() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    let waiting = cluster.vm(SMALL_VM);
    let restarting = cluster.create(SMALL_VM, |vm| vm.policies.restart_policy = RestartPolicy::Always);
    cluster.placed_on(restarting);
    let placed = cluster.record(waiting).claim.is_some();
    assert!(placed, "the test wants both placed");
    cluster.fail_build(waiting, "no luck");
    cluster.run(restarting);
    cluster.tell(restarting, ObservedState::GuestOff);
    assert_eq!(cluster.record(restarting).task_state, Some(TaskState::Restarting));
    pass(&mut cluster, 24 * 60 * MIN);
    assert_eq!(decide(&cluster), []);
}

#[test]
fn a_report_that_comes_late_sets_the_record_right() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    let vm = into(&mut cluster, TaskState::PoweringOn);
    pass(&mut cluster, 15 * MIN);
    let commands = commands(&cluster);
    cluster.carry_out(commands);
    cluster.run(vm);
    assert_eq!((cluster.record(vm).status, cluster.record(vm).fault.clone()), (VmStatus::Active, None));

    let stopping = into(&mut cluster, TaskState::PoweringOff);
    pass(&mut cluster, 60 * MIN);
    let commands = self::commands(&cluster);
    cluster.carry_out(commands);
    assert!(is_said(&cluster.state, cluster.record(stopping)));
    cluster.tell(stopping, ObservedState::Stopped);
    let record = cluster.record(stopping);
    assert_eq!((record.status, record.task_state), (VmStatus::Shutoff, None));
    assert!(!is_said(&cluster.state, record));

    let moving = into(&mut cluster, TaskState::Moving);
    pass(&mut cluster, 60 * MIN);
    let commands = self::commands(&cluster);
    cluster.carry_out(commands);
    cluster.release(moving, ReleaseCause::Vacated);
    assert_eq!(cluster.record(moving).task_state, Some(TaskState::Scheduling));
}
