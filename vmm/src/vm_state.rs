//! The life of one run of a VM, as its shim sees it. Pure: what happened goes in, the next phase and what
//! to do come out; the shim performs it.
//!
//! ```text
//!              booted             paused
//!   Starting ─────────► Running ◄────────► Paused
//!      │                   │  resumed        │
//!      │                   ├─────────────────┤
//!      │  start failed,    │  graceful stop  ▼
//!      │  stop, kill       │            Stopping(cause) ── power button pressed, waiting for the guest
//!      │                   │                 │ guest off, grace over, kill
//!      │                   │ guest off,      │
//!      │                   │ reset loop      │
//!      ▼                   ▼                 ▼
//!   Ending(cause) ── VMM told to exit, then killed ── VMM exited ──► Ended(cause)
//!
//!   lease ended, in any phase ──► Ending, and the VMM is killed at once
//!   any other exit of the VMM ──► Ended(Failed): an exit nobody asked for is a failure, whatever its code
//! ```

use serde::{Deserialize, Serialize};

use crate::hypervisor::ExitCause;

/// Where a run is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The VMM was forked; the guest does not run yet.
    Starting,
    Running,
    Paused,
    /// The guest was asked to power off and has time to do so.
    Stopping(ExitCause),
    /// The VMM is being ended.
    Ending(ExitCause),
    Ended(ExitCause),
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    Booted,
    /// The VMM refused to create or boot the VM.
    StartFailed {
        reason: String,
    },
    Paused,
    Resumed,
    /// The guest powered itself off.
    GuestOff,
    ResetLoop {
        reason: String,
    },
    /// Somebody asked for a stop: power button first.
    Stop,
    /// Somebody asked for a stop at once.
    Kill,
    /// The host is going down.
    HostStopping,
    /// The lease this run depends on has ended.
    LeaseEnded,
    /// The time the guest had to power off is over.
    GraceOver,
    VmmExited {
        reason: String,
    },
}

/// What the shim has to do after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Nothing,
    /// Press the power button and start the grace period.
    PressPowerButton,
    /// Tell the VMM to exit; kill it if it does not.
    EndVmm,
    /// Kill the VMM, now and without a word before.
    KillVmm,
    /// The run is over: write it down.
    RecordExit,
}

impl Phase {
    /// The table. Every pair has an answer; an input that means nothing in a phase changes nothing.
    pub fn next(self, input: Input) -> (Phase, Action) {
        use {Action::*, ExitCause::*, Phase::*};
        match (self, input) {
            // The VMM's exit ends every phase; only an asked-for one is not a failure.
            (Starting | Running | Paused, Input::VmmExited { reason }) => {
                (Ended(Failed { reason }), RecordExit)
            }
            (Stopping(cause) | Ending(cause), Input::VmmExited { .. }) => (Ended(cause), RecordExit),

            // Somebody else may run this VM from now on. What was being ended anyway keeps its cause.
            (Starting | Running | Paused, Input::LeaseEnded) => (Ending(LeaseEnded), KillVmm),
            (Stopping(cause) | Ending(cause), Input::LeaseEnded) => (Ending(cause), KillVmm),

            (Starting, Input::Booted) => (Running, Nothing),
            (Starting, Input::StartFailed { reason }) => (Ending(Failed { reason }), EndVmm),
            (Running, Input::Paused) => (Paused, Nothing),
            (Paused, Input::Resumed) => (Running, Nothing),

            (Running | Paused, Input::GuestOff) => (Ending(GuestOff), EndVmm),
            (Running | Paused, Input::ResetLoop { reason }) => (Ending(Failed { reason }), EndVmm),
            (Stopping(cause), Input::GuestOff | Input::GraceOver | Input::Kill | Input::ResetLoop { .. }) => {
                (Ending(cause), EndVmm)
            }

            // A guest that does not run yet has nothing to shut down.
            (Starting, Input::Stop) => (Ending(Requested), EndVmm),
            (Running | Paused, Input::Stop) => (Stopping(Requested), PressPowerButton),
            (Starting | Running | Paused, Input::Kill) => (Ending(Requested), EndVmm),
            (Starting, Input::HostStopping) => (Ending(HostLost), EndVmm),
            (Running | Paused, Input::HostStopping) => (Stopping(HostLost), PressPowerButton),

            // Repeated or late news.
            (
                phase @ Starting,
                Input::Paused | Input::Resumed | Input::GuestOff | Input::ResetLoop { .. } | Input::GraceOver,
            )
            | (
                phase @ Running,
                Input::Booted | Input::StartFailed { .. } | Input::Resumed | Input::GraceOver,
            )
            | (
                phase @ Paused,
                Input::Booted | Input::StartFailed { .. } | Input::Paused | Input::GraceOver,
            )
            | (
                phase @ Stopping(_),
                Input::Booted
                | Input::StartFailed { .. }
                | Input::Paused
                | Input::Resumed
                | Input::Stop
                | Input::HostStopping,
            )
            | (
                phase @ Ending(_),
                Input::Booted
                | Input::StartFailed { .. }
                | Input::Paused
                | Input::Resumed
                | Input::GuestOff
                | Input::ResetLoop { .. }
                | Input::Stop
                | Input::Kill
                | Input::HostStopping
                | Input::GraceOver,
            )
            | (phase @ Ended(_), _) => (phase, Nothing),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(inputs: impl IntoIterator<Item = Input>) -> (Phase, Action) {
        inputs.into_iter().fold((Phase::Starting, Action::Nothing), |(phase, _), input| phase.next(input))
    }

    fn exited() -> Input {
        Input::VmmExited { reason: "exit code 0".into() }
    }

    #[test]
    fn an_exit_nobody_asked_for_is_a_failure_whatever_its_code() {
        let failed = Phase::Ended(ExitCause::Failed { reason: "exit code 0".into() });
        assert_eq!(run([exited()]), (failed.clone(), Action::RecordExit));
        assert_eq!(run([Input::Booted, exited()]), (failed, Action::RecordExit));
    }

    #[test]
    fn a_guest_that_powers_off_ends_as_guest_off() {
        assert_eq!(
            run([Input::Booted, Input::GuestOff, exited()]),
            (Phase::Ended(ExitCause::GuestOff), Action::RecordExit)
        );
    }

    #[test]
    fn a_graceful_stop_presses_the_button_and_ends_the_vmm_when_grace_is_over() {
        assert_eq!(
            run([Input::Booted, Input::Stop]),
            (Phase::Stopping(ExitCause::Requested), Action::PressPowerButton)
        );
        assert_eq!(
            run([Input::Booted, Input::Stop, Input::GraceOver]),
            (Phase::Ending(ExitCause::Requested), Action::EndVmm)
        );
    }

    #[test]
    fn a_guest_off_during_a_stop_counts_as_requested() {
        assert_eq!(
            run([Input::Booted, Input::Stop, Input::GuestOff, exited()]).0,
            Phase::Ended(ExitCause::Requested)
        );
    }

    #[test]
    fn the_end_of_a_lease_kills_in_every_phase_and_nothing_gets_in_between() {
        let ended = (Phase::Ended(ExitCause::LeaseEnded), Action::RecordExit);
        let begun = [vec![], vec![Input::Booted], vec![Input::Booted, Input::Paused]];
        for before in begun {
            let (phase, action) = run(before.iter().cloned().chain([Input::LeaseEnded]));
            assert_eq!((&phase, action), (&Phase::Ending(ExitCause::LeaseEnded), Action::KillVmm));
            assert_eq!(run(before.into_iter().chain([Input::LeaseEnded, exited()])), ended);
        }
        let stopping = [Input::Booted, Input::Stop, Input::LeaseEnded];
        assert_eq!(run(stopping), (Phase::Ending(ExitCause::Requested), Action::KillVmm));
        let ending = [Input::Booted, Input::Kill, Input::LeaseEnded];
        assert_eq!(run(ending), (Phase::Ending(ExitCause::Requested), Action::KillVmm));
    }

    #[test]
    fn a_repeated_stop_does_not_press_again() {
        assert_eq!(run([Input::Booted, Input::Stop, Input::Stop]).1, Action::Nothing);
    }

    #[test]
    fn an_ended_run_stays_ended() {
        let inputs = [Input::Booted, Input::Kill, exited()];
        for late in [Input::Booted, Input::Kill, Input::GuestOff, exited(), Input::Stop] {
            let (phase, action) = run(inputs.clone().into_iter().chain([late]));
            assert_eq!((phase, action), (Phase::Ended(ExitCause::Requested), Action::Nothing));
        }
    }
}
