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

    fn is_timed(&self) -> bool {
        true
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
    let first = first_deadline(state, vm)?;
    // It is said again only after as long again.
    let said = vm.fault.as_ref().filter(|_| is_said(state, vm)).map(|fault| after(fault.at, allowed_ms(vm)));
    Some(said.unwrap_or(first))
}

/// Whether the record says that the step is late, and the VM is still in it: what may still run on its node is only
/// ended there. Nothing else gives such a VM a fault at so late a moment but a node that says what it waits for.
pub fn is_said(state: &State, vm: &Vm) -> bool {
    let stays = matches!(
        vm.task_state,
        Some(TaskState::Spawning | TaskState::PoweringOff | TaskState::Moving | TaskState::Deleting)
    );
    let late = first_deadline(state, vm);
    stays && vm.fault.as_ref().zip(late).is_some_and(|(fault, late)| fault.at >= late)
}

fn first_deadline(state: &State, vm: &Vm) -> Option<Timestamp> {
    if matches!(vm.task_state?, TaskState::Scheduling | TaskState::Restarting) {
        return None;
    }
    let node = state.nodes.get(&vm.claim.as_ref()?.node).filter(|node| node.up)?;
    let begun = vm.recovery.task_since.unwrap_or(vm.updated_at).max(node.up_changed_at);
    let from = progress(vm).map_or(begun, |told| told.max(begun));
    Some(after(from, allowed_ms(vm)))
}

fn after(from: Timestamp, ms: u64) -> Timestamp {
    Timestamp(from.0.saturating_add(ms))
}

fn allowed_ms(vm: &Vm) -> u64 {
    match vm.task_state {
        Some(TaskState::PoweringOff | TaskState::Rebooting) => guest_ms(vm.power.stop) + STOP_MARGIN_MS,
        Some(TaskState::Moving) => {
            let stop = vm.recovery.vacate.as_ref().map_or(vm.power.stop, |vacate| vacate.stop);
            guest_ms(stop) + LEAVE_MARGIN_MS
        }
        Some(TaskState::Deleting) => DELETE_MS,
        _ => START_MS,
    }
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
