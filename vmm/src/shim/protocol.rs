//! What daemon and shim say to each other over `shim.sock`: one JSON object a line. A request is answered
//! by one status line, a watch by one at once and one for each change; the end of the stream means that
//! the shim is gone. Stays readable for ever, because shims outlive upgrades of the daemon: operations and
//! fields are added, never changed, and unknown fields are ignored.

use std::path::PathBuf;

use holm_model::Epoch;
use serde::{Deserialize, Serialize};

use crate::lease::LeaseId;
use crate::vm_state::Phase;

/// Version of the protocol.
pub const VERSION: u32 = 1;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub v: u32,
    #[serde(flatten)]
    pub op: Op,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum Op {
    /// How things are; asks the VMM first if that was not done within the last second.
    Status,
    /// Answers when the guest runs, or the run has ended.
    AwaitStart,
    /// Power button, then power off after `timeout_s`. Answers once begun.
    Stop { timeout_s: u32 },
    /// Power off. Answers once begun.
    Kill,
    /// A status now and after every change.
    Watch,
    /// The run ends with this lease of the node's lease file. Answers once that is in force; the status has
    /// an error where it is not. A shim that does not know this operation answers with an error too.
    Arm { file: PathBuf, lease: LeaseId },
    /// The run needs no lease any more.
    Disarm,
}

/// How things are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub v: u32,
    pub epoch: Epoch,
    pub run: u64,
    pub phase: Phase,
    pub vmm_pid: u32,
    /// How often the guest reset itself in this run.
    pub resets: u64,
    /// The call that the VMM has not answered yet, if that takes longer than it should.
    pub unanswered: Option<Unanswered>,
    /// The lease the run ends with.
    #[serde(default)]
    pub armed: Option<LeaseId>,
    /// Why the request was not understood or refused; the rest is true all the same.
    #[serde(default)]
    pub error: Option<String>,
}

/// A call without an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unanswered {
    pub call: String,
    pub for_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hypervisor::ExitCause;

    #[test]
    fn lines_of_the_first_version_stay_readable() {
        let cases = [
            (r#"{"v":1,"op":"status"}"#, Op::Status),
            (r#"{"v":1,"op":"await-start"}"#, Op::AwaitStart),
            (r#"{"v":1,"op":"stop","timeout_s":60}"#, Op::Stop { timeout_s: 60 }),
            (r#"{"v":1,"op":"kill"}"#, Op::Kill),
            (r#"{"v":1,"op":"watch","later":true}"#, Op::Watch),
            (
                r#"{"v":1,"op":"arm","file":"/run/holm/lease","lease":7}"#,
                Op::Arm { file: "/run/holm/lease".into(), lease: LeaseId(7) },
            ),
            (r#"{"v":1,"op":"disarm"}"#, Op::Disarm),
        ];
        for (line, op) in cases {
            assert_eq!(serde_json::from_str::<Request>(line).expect(line), Request { v: 1, op });
        }
        let status: Status = serde_json::from_str(
            r#"{"v":1,"epoch":7,"run":2,"phase":{"ending":"guest-off"},"vmm_pid":3,"resets":0,"unanswered":null}"#,
        )
        .expect("status");
        assert_eq!(status.phase, Phase::Ending(ExitCause::GuestOff));
        assert_eq!(status.armed, None, "an older shim says nothing of leases");
        let failed = ExitCause::Failed { reason: "why".into() };
        let phases = [
            (r#""starting""#, Phase::Starting),
            (r#""running""#, Phase::Running),
            (r#""paused""#, Phase::Paused),
            (r#"{"ending":"lease-ended"}"#, Phase::Ending(ExitCause::LeaseEnded)),
            (r#"{"stopping":"requested"}"#, Phase::Stopping(ExitCause::Requested)),
            (r#"{"ending":"host-lost"}"#, Phase::Ending(ExitCause::HostLost)),
            (r#"{"ended":{"failed":{"reason":"why"}}}"#, Phase::Ended(failed)),
        ];
        for (text, phase) in phases {
            assert_eq!(serde_json::from_str::<Phase>(text).expect(text), phase);
        }
    }
}
