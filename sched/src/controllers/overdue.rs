//! Gives every step of a VM that its node performs a deadline, so that none lasts for ever: one that is late
//! is said so in the record, and where the record can move on without harm it does. The node goes on trying
//! meanwhile; its next report sets the record right again.
//!
//! A node that is down cannot be late: while it is, nothing is judged, and its time counts anew from its return.

use holm_model::command::{Command, TaskOverdue};
use holm_model::vm::{ObservedState, StopMode, TaskState, Vm};
use holm_model::{State, Timestamp};

use crate::controller::{Controller, Facts};

/// Most of one decision; the rest follows in the next.
pub const OVERDUE_AT_ONCE: usize = 100;
/// For a start, since it last said how far it is: an image may be on its way.
pub const START_MS: u64 = 15 * MINUTE_MS;
/// For a stop or a reboot, beyond the guest's own time.
pub const STOP_MARGIN_MS: u64 = 5 * MINUTE_MS;
/// For leaving a node, beyond the guest's own time.
pub const LEAVE_MARGIN_MS: u64 = 10 * MINUTE_MS;
/// For a delete: large disks are slow to go.
pub const DELETE_MS: u64 = 30 * MINUTE_MS;

const MINUTE_MS: u64 = 60_000;

/// Says what is late.
#[derive(Clone, Copy, Debug)]
pub struct Overdue;

impl Controller for Overdue {
    fn name(&self) -> &'static str {
        "overdue"
    }

    fn decide(&self, state: &State, facts: &Facts) -> Vec<Command> {
        let Some(leadership) = state.leadership else { return Vec::new() };
        let late = |vm: &Vm| deadline(state, vm).is_some_and(|deadline| facts.now >= deadline);
        let late = state.vms.values().filter(|vm| vm.task_state.is_some() && late(vm));
        late.take(OVERDUE_AT_ONCE)
            .filter_map(|vm| {
                Some(Command::TaskOverdue(TaskOverdue {
                    leadership: leadership.revision,
                    vm: vm.id,
                    task_state: vm.task_state?,
                    run: vm.power.run,
                }))
            })
            .collect()
    }
}

/// When the step the VM is in is late. None: it is in none, or in one that is not its node's to do
/// (`scheduling` is the placement's, `restarting` the restart controller's), or its node is down.
pub fn deadline(state: &State, vm: &Vm) -> Option<Timestamp> {
    let node = state.nodes.get(&vm.claim.as_ref()?.node).filter(|node| node.up)?;
    let allowed_ms = match vm.task_state? {
        TaskState::Scheduling | TaskState::Restarting => return None,
        TaskState::Spawning | TaskState::PoweringOn => START_MS,
        TaskState::PoweringOff | TaskState::Rebooting => guest_ms(vm.power.stop) + STOP_MARGIN_MS,
        TaskState::Moving => {
            guest_ms(vm.recovery.vacate.as_ref().map_or(vm.power.stop, |vacate| vacate.stop))
                + LEAVE_MARGIN_MS
        }
        TaskState::Deleting => DELETE_MS,
    };
    let begun = vm.recovery.task_since.unwrap_or(vm.updated_at).max(node.up_changed_at);
    let told = [progress(vm), said(vm)].into_iter().flatten().max();
    let from = told.map_or(begun, |told| told.max(begun));
    Some(Timestamp(from.0.saturating_add(allowed_ms)))
}

/// Whether the record says that the step it is in is late; it stays in it, because only its node can end it.
pub fn is_said(vm: &Vm) -> bool {
    said(vm).is_some()
}

fn guest_ms(stop: StopMode) -> u64 {
    match stop {
        StopMode::Graceful { timeout_s } => u64::from(timeout_s) * 1_000,
        StopMode::Force => 0,
    }
}

/// When a start last told how far it is.
fn progress(vm: &Vm) -> Option<Timestamp> {
    let starts = matches!(vm.task_state, Some(TaskState::Spawning | TaskState::PoweringOn));
    let observed = vm.observed.as_ref().filter(|observed| observed.run == vm.power.run)?;
    (starts && matches!(observed.state, ObservedState::Progress { .. })).then_some(observed.at)
}

/// When the record last said that this step is late: it is said again only after as long again. Within
/// these two steps reports do not move the record, so a fault since their beginning is that one.
fn said(vm: &Vm) -> Option<Timestamp> {
    let stays = matches!(vm.task_state, Some(TaskState::Deleting | TaskState::Moving));
    let (fault, since) = (vm.fault.as_ref()?, vm.recovery.task_since?);
    (stays && fault.at > since).then_some(fault.at)
}
