//! One step of the adversary: what somebody does, or what befalls them. A trace is a list of these.

use std::fmt;

use super::replicated::{Availability, NodeIx};

/// One step. Where a node is named it is 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Tick,
    Elect(NodeIx),
    CommitBegin(NodeIx),
    BeginRound(NodeIx),
    ConfirmRound(NodeIx),
    SendGrant(NodeIx, NodeIx),
    DecideFence(NodeIx, NodeIx),
    DecidePlace(NodeIx, NodeIx),
    Commit(usize),
    Lose(usize),
    Request(Availability),
    Freeze,
    Evacuate(NodeIx),
    SendHeartbeat(NodeIx),
    DeliverHeartbeat(NodeIx, usize, NodeIx),
    DeliverGrant(NodeIx, usize),
    Apply(NodeIx),
    DecideStart(NodeIx),
    Exec(NodeIx),
    ShimStarts(NodeIx),
    VmmExits(NodeIx),
    ShimDies(NodeIx),
    Stop(NodeIx),
    MarkReleased(NodeIx),
    ProposeRelease(NodeIx),
    ProposeBuildFailed(NodeIx),
    ForgetMark(NodeIx),
    DeleteDirectory(NodeIx),
    Arm(NodeIx),
    ReportFailover(NodeIx),
    ReportPinned(NodeIx),
    Disarm(NodeIx),
    Unbind(NodeIx),
    ReportClean(NodeIx),
    Crash(NodeIx),
    Restart(NodeIx, u8),
    PowerOff(NodeIx),
    PowerOn(NodeIx),
    Pause(NodeIx),
    Resume(NodeIx),
    PauseShim(NodeIx),
    ResumeShim(NodeIx),
    FreezeMachine(NodeIx),
    ThawMachine(NodeIx),
}

impl Action {
    /// Every step there is, each once.
    pub fn every() -> Vec<Action> {
        let mut all = vec![
            Self::Tick,
            Self::Freeze,
            Self::Request(Availability::Failover),
            Self::Request(Availability::Pinned),
        ];
        for slot in 0..super::world::PROPOSALS {
            all.extend([Self::Commit(slot), Self::Lose(slot)]);
        }
        for node in 0..2 {
            all.extend(Self::of_node(node));
        }
        all
    }

    fn of_node(node: NodeIx) -> Vec<Action> {
        let plain: [fn(NodeIx) -> Action; 32] = [
            Self::Elect,
            Self::CommitBegin,
            Self::BeginRound,
            Self::ConfirmRound,
            Self::Evacuate,
            Self::SendHeartbeat,
            Self::Apply,
            Self::DecideStart,
            Self::Exec,
            Self::ShimStarts,
            Self::VmmExits,
            Self::ShimDies,
            Self::Stop,
            Self::MarkReleased,
            Self::ProposeRelease,
            Self::ProposeBuildFailed,
            Self::ForgetMark,
            Self::DeleteDirectory,
            Self::Arm,
            Self::ReportFailover,
            Self::ReportPinned,
            Self::Disarm,
            Self::Unbind,
            Self::ReportClean,
            Self::Crash,
            Self::PowerOff,
            Self::PowerOn,
            Self::Pause,
            Self::Resume,
            Self::PauseShim,
            Self::ResumeShim,
            Self::FreezeMachine,
        ];
        let mut all: Vec<Action> = plain.iter().map(|action| action(node)).collect();
        all.push(Self::ThawMachine(node));
        all.extend([0, 1, 2, 4, 8].map(|back| Self::Restart(node, back)));
        for other in 0..2 {
            all.extend([
                Self::SendGrant(node, other),
                Self::DecideFence(node, other),
                Self::DecidePlace(node, other),
            ]);
        }
        for slot in 0..super::world::MESSAGES {
            all.push(Self::DeliverGrant(node, slot));
            all.extend([0, 1].map(|to| Self::DeliverHeartbeat(node, slot, to)));
        }
        all
    }

    /// A fault: the walk decides for each kind whether this walk has it at all.
    pub fn is_fault(self) -> bool {
        matches!(
            self,
            Self::Lose(_)
                | Self::VmmExits(_)
                | Self::ShimDies(_)
                | Self::ForgetMark(_)
                | Self::Crash(_)
                | Self::PowerOff(_)
                | Self::Pause(_)
                | Self::PauseShim(_)
                | Self::FreezeMachine(_)
                | Self::Evacuate(_)
                | Self::Freeze
                | Self::Request(_)
                | Self::MarkReleased(_)
                | Self::ProposeBuildFailed(_)
                | Self::Elect(_)
        )
    }
}

/// A, B.
pub fn name(node: NodeIx) -> char {
    if node == 0 { 'A' } else { 'B' }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = name;
        match *self {
            Self::Tick => write!(f, "one tick passes"),
            Self::Elect(a) => write!(f, "{} is elected", n(a)),
            Self::CommitBegin(a) => write!(f, "{}'s BeginLeadership is committed", n(a)),
            Self::BeginRound(a) => write!(f, "{} begins a quorum round", n(a)),
            Self::ConfirmRound(a) => write!(f, "a quorum answers {}'s round", n(a)),
            Self::SendGrant(a, b) => write!(f, "{} grants {} a lease", n(a), n(b)),
            Self::DecideFence(a, b) => write!(f, "{} proposes FenceNode({})", n(a), n(b)),
            Self::DecidePlace(a, b) => write!(f, "{} proposes PlaceVms(on {})", n(a), n(b)),
            Self::Commit(slot) => write!(f, "proposal #{slot} is committed"),
            Self::Lose(slot) => write!(f, "proposal #{slot} is lost"),
            Self::Request(availability) => write!(f, "the user asks for {availability:?}"),
            Self::Freeze => write!(f, "the operator freezes fencing"),
            Self::Evacuate(a) => write!(f, "the operator says that {} is off, and evacuates it", n(a)),
            Self::SendHeartbeat(a) => write!(f, "{} sends a heartbeat", n(a)),
            Self::DeliverHeartbeat(a, slot, to) => {
                write!(f, "heartbeat #{slot} of {} arrives at {}", n(a), n(to))
            }
            Self::DeliverGrant(a, slot) => write!(f, "grant #{slot} arrives at {}", n(a)),
            Self::Apply(a) => write!(f, "{} applies the next entry", n(a)),
            Self::DecideStart(a) => write!(f, "{}'s agent decides to start the VM", n(a)),
            Self::Exec(a) => write!(f, "{}'s agent starts the shim", n(a)),
            Self::ShimStarts(a) => write!(f, "{}'s shim goes on to start the VMM", n(a)),
            Self::VmmExits(a) => write!(f, "{}'s VMM exits by itself", n(a)),
            Self::ShimDies(a) => write!(f, "{}'s shim is killed", n(a)),
            Self::Stop(a) => write!(f, "{}'s agent stops the VM as not its own", n(a)),
            Self::MarkReleased(a) => write!(f, "{} marks the epoch released", n(a)),
            Self::ProposeRelease(a) => write!(f, "{} proposes Released", n(a)),
            Self::ProposeBuildFailed(a) => write!(f, "{} reports that the build failed", n(a)),
            Self::ForgetMark(a) => write!(f, "{} deletes the released mark, the directory still there", n(a)),
            Self::DeleteDirectory(a) => write!(f, "{} deletes the VM's directory", n(a)),
            Self::Arm(a) => write!(f, "{} arms its shim", n(a)),
            Self::ReportFailover(a) => write!(f, "{} reports failover", n(a)),
            Self::ReportPinned(a) => write!(f, "{} reports pinned", n(a)),
            Self::Disarm(a) => write!(f, "{} disarms its shim", n(a)),
            Self::Unbind(a) => write!(f, "{} frees the VM's directory from the lease", n(a)),
            Self::ReportClean(a) => write!(f, "{} reports that no lost VMM is alive", n(a)),
            Self::Crash(a) => write!(f, "{}'s daemon is killed", n(a)),
            Self::Restart(a, back) => {
                write!(f, "{}'s daemon starts, its replica {back} entries back", n(a))
            }
            Self::PowerOff(a) => write!(f, "{} loses power", n(a)),
            Self::PowerOn(a) => write!(f, "{} boots", n(a)),
            Self::Pause(a) => write!(f, "{}'s daemon is paused", n(a)),
            Self::Resume(a) => write!(f, "{}'s daemon goes on", n(a)),
            Self::PauseShim(a) => write!(f, "{}'s shim is paused", n(a)),
            Self::ResumeShim(a) => write!(f, "{}'s shim goes on", n(a)),
            Self::FreezeMachine(a) => write!(f, "{} stands still as a whole", n(a)),
            Self::ThawMachine(a) => write!(f, "{} goes on as a whole", n(a)),
        }
    }
}
