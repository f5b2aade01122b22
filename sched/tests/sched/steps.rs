//! What nodes and operators do to VMs and nodes on the way through drains, restarts and deadlines.

use holm_model::command::{
    DrainRequest, ReleaseCause, Released, ReportVms, SetNodeDrain, SetVmPower, VmReport,
};
use holm_model::node::DrainPinned;
use holm_model::vm::{ObservedState, StopMode, WantPower};
use holm_model::{BootId, Command, NodeId, Reply, Revision, VmId};
use uuid::Uuid;

use crate::cluster::Cluster;

impl Cluster {
    /// The node of a placed VM says how it is.
    pub fn tell(&mut self, vm: VmId, state: ObservedState) {
        let record = self.record(vm);
        let claim = record.claim.as_ref().expect("it is placed");
        let report =
            VmReport { vm, epoch: claim.epoch, run: record.power.run, state, armed_for: None, note: None };
        let boot_id = BootId(Uuid::from_u128(1));
        let sequence = self.state.revision.0;
        let command = ReportVms { node: claim.node, boot_id, sequence, reports: vec![report] };
        self.done(Command::ReportVms(command));
    }

    /// The node of a placed VM gives it back, for this cause.
    pub fn release(&mut self, vm: VmId, cause: ReleaseCause) {
        let claim = self.record(vm).claim.clone().expect("it is placed");
        self.done(Command::Released(Released { node: claim.node, vm, epoch: claim.epoch, cause }));
    }

    pub fn drain(&mut self, n: u64, pinned: DrainPinned) {
        let drain = Some(DrainRequest { stop_timeout_s: 30, pinned });
        self.done(Command::SetNodeDrain(SetNodeDrain { node: NodeId(n), drain, expected: None }));
    }

    /// The node takes VMs again.
    pub fn uncordon(&mut self, n: u64) {
        self.done(Command::SetNodeEnabled(holm_model::command::SetNodeEnabled {
            node: NodeId(n),
            enabled: true,
            reason: None,
            expected: None,
        }));
    }

    /// Asks for a VM to be on or off, by a judgement of N+1 where that is asked for.
    pub fn power(&mut self, vm: VmId, want: WantPower, admitted: Option<Revision>) -> Reply {
        let (reboot, stop) = (false, StopMode::Force);
        self.apply(Command::SetVmPower(SetVmPower { vm, want, reboot, stop, admitted, expected: None }))
    }

    /// A placed VM is off, as its owner wanted.
    pub fn switch_off(&mut self, vm: VmId) {
        assert!(matches!(self.power(vm, WantPower::Off, None), Reply::Done(_)));
        self.tell(vm, ObservedState::Stopped);
    }
}
