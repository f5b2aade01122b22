//! Restarts by policy: when they are due, and that the pauses grow until the policy gives up.

use holm_model::vm::{ObservedState, RESTARTS_MAX, RestartPolicy, TaskState, VmStatus};
use holm_model::{Command, State, Timestamp, VmId};
use holm_sched::controllers::Restart;
use holm_sched::{Controller, Facts};

use crate::cluster::{Cluster, MEDIUM, SMALL_VM};

fn decide(cluster: &Cluster) -> Vec<Command> {
    Restart.decide(&cluster.state, &Facts { now: cluster.now, ..Facts::default() })
}

fn running(cluster: &mut Cluster, policy: RestartPolicy) -> VmId {
    let vm = cluster.create(SMALL_VM, |vm| vm.policies.restart_policy = policy);
    cluster.placed_on(vm);
    cluster.run(vm);
    vm
}

fn fails(cluster: &mut Cluster, vm: VmId) {
    cluster.tell(vm, ObservedState::Failed { reason: "it panicked".into() });
}

#[test]
fn a_restart_is_decided_when_its_pause_is_over_and_once() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    let vm = running(&mut cluster, RestartPolicy::OnFailure);
    fails(&mut cluster, vm);
    assert_eq!(cluster.record(vm).task_state, Some(TaskState::Restarting));
    assert_eq!(decide(&cluster), [], "the first pause is 1 s");

    cluster.now = Timestamp(cluster.now.0 + 1_000);
    let commands = decide(&cluster);
    assert_eq!(commands.len(), 1);
    cluster.carry_out(commands);
    let record = cluster.record(vm);
    assert_eq!((record.power.run, record.task_state), (2, Some(TaskState::PoweringOn)));
    assert_eq!(decide(&cluster), [], "it is at rest");
}

#[test]
fn pauses_double_until_the_policy_gives_up() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    let vm = running(&mut cluster, RestartPolicy::Always);
    let mut pauses = Vec::new();
    for _ in 0..RESTARTS_MAX {
        fails(&mut cluster, vm);
        let due = cluster.record(vm).recovery.next_restart_at.expect("it is to be restarted");
        pauses.push(due.0 - cluster.now.0);
        cluster.now = due;
        let commands = decide(&cluster);
        cluster.carry_out(commands);
        cluster.run(vm);
    }
    assert_eq!(pauses, [1_000, 2_000, 4_000, 8_000, 16_000]);
    fails(&mut cluster, vm);
    assert_eq!((cluster.record(vm).status, cluster.record(vm).task_state), (VmStatus::Error, None));
    cluster.now = Timestamp(cluster.now.0 + 60_000);
    assert_eq!(decide(&cluster), []);
}

#[test]
fn a_policy_that_asks_for_none_gets_none() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    let never = running(&mut cluster, RestartPolicy::Never);
    fails(&mut cluster, never);
    let on_failure = running(&mut cluster, RestartPolicy::OnFailure);
    cluster.tell(on_failure, ObservedState::GuestOff);
    cluster.now = Timestamp(cluster.now.0 + 60_000);
    assert_eq!(decide(&cluster), []);
}

#[test]
fn without_a_leadership_nothing_is_decided() {
    assert_eq!(Restart.decide(&State::default(), &Facts::default()), []);
}
