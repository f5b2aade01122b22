//! Where VMs that wait would go: the decisions to come, made on a copy of the state until none is left to make. Who
//! would have to be evicted first is said, and not counted on.

use std::collections::BTreeSet;

use holm_model::vm::Vm;
use holm_model::{NodeId, State, VmId};

use crate::imagine::settle;
use crate::policy::Policy;
use crate::preempt::Eviction;
use crate::queue;
use crate::select::Reasons;

/// What would become of some VMs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Foresight {
    /// Each with its host, or why it has none once all others have theirs; in the order they were asked about.
    pub vms: Vec<(VmId, Result<NodeId, Reasons>)>,
    /// Whom a decision made then would evict, and for which of them.
    pub eviction: Option<(VmId, Eviction)>,
}

/// What would become of `vms`, which wait in `state`.
pub fn foresee(state: &State, vms: &[VmId]) -> Foresight {
    let mut settled = state.clone();
    let placed = settle(&mut settled);
    let policy = Policy::of(&settled.scheduler);
    // Nothing fits any more: the hosts that are kept for some are kept from those behind them.
    let queue::Run { batch, unplaced, short, .. } = queue::run(&settled, &policy, &BTreeSet::new());
    let records = vms.iter().filter_map(|id| settled.vms.get(id));
    let outcome = |vm: &Vm| placed.get(&vm.id).copied();
    let why = |vm: &Vm| {
        let of_batch = vm.batch.and_then(|batch| short.get(&batch)).cloned();
        of_batch.unwrap_or_else(|| batch.reasons(vm))
    };
    let foreseen = records.map(|vm| (vm.id, outcome(vm).ok_or_else(|| why(vm))));
    // One at a time: where another that waits is ahead, it is not for these.
    let eviction = batch.eviction(&unplaced).filter(|(vm, _)| vms.contains(vm));
    Foresight { vms: foreseen.collect(), eviction }
}
