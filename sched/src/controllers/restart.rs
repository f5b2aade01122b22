//! Begins the next run of VMs whose restart policy asked for one, once the pause the record names is over.
//! How often, and after which pause, is decided where the end of the run is recorded (apply).

use holm_model::State;
use holm_model::command::{Command, RestartVm};
use holm_model::vm::TaskState;

use crate::controller::{Controller, Facts};

/// Most restarts of one decision; the rest follows in the next.
pub const RESTARTS_AT_ONCE: usize = 100;

/// Restarts what is due.
#[derive(Clone, Copy, Debug)]
pub struct Restart;

impl Controller for Restart {
    fn name(&self) -> &'static str {
        "restart"
    }

    fn is_timed(&self) -> bool {
        true
    }

    fn decide(&self, state: &State, facts: &Facts) -> Vec<Command> {
        let Some(leadership) = state.leadership else { return Vec::new() };
        let due = state.vms.values().filter(|vm| {
            vm.task_state == Some(TaskState::Restarting)
                && vm.recovery.next_restart_at.is_none_or(|at| facts.now >= at)
        });
        due.take(RESTARTS_AT_ONCE)
            .map(|vm| {
                let leadership = leadership.revision;
                Command::RestartVm(RestartVm { leadership, vm: vm.id, run: vm.power.run })
            })
            .collect()
    }
}
