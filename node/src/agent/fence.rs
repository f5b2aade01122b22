//! The way back of a fenced node (FENCING.md, rules 3 and 20): its workers stop what it no longer owns, and
//! once nothing of that is alive, as a linearizable read of the present state says, it asks to be let back.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use holm_model::command::{Command, UnfenceNode};
use holm_model::node::Fence;
use holm_model::{BootId, ClusterId, NodeId, Reply, State, VmId};
use holm_vmm::hypervisor::Observation;
use tokio_util::sync::CancellationToken;

use super::plan::{alive, is_foreign};
use super::report::{PROPOSE_TIMEOUT, propose};
use crate::app::{Shared, chain};

/// Between two looks at what is still alive.
const PERIOD: Duration = Duration::from_millis(500);
/// Between two proposals, each of which is an entry of the log.
const RETRY: Duration = Duration::from_secs(2);
/// The same after a refusal.
const REFUSED: Duration = Duration::from_secs(10);

/// Runs until cancelled.
pub async fn run(app: Shared, boot_id: BootId, stop: CancellationToken) {
    let mut states = app.raft.watch();
    loop {
        let fenced = states.wait_for(|published| app.is_fenced(&published.state));
        tokio::select! {
            () = stop.cancelled() => return,
            fenced = fenced => if fenced.is_err() { return },
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = come_back(&app, boot_id) => {}
        }
    }
}

/// From one fence to its end.
async fn come_back(app: &Shared, boot_id: BootId) {
    let me = app.raft.node_id();
    // Of what was lost, what was seen here at any time since.
    let mut found = BTreeSet::new();
    let mut told = None;
    loop {
        let published = match app.raft.read(PROPOSE_TIMEOUT).await {
            Ok(published) => published,
            Err(_) => {
                tokio::time::sleep(PERIOD).await;
                continue;
            }
        };
        let Some(fence) = published.state.nodes.get(&me).and_then(|node| node.fence.clone()) else { return };
        if told != Some(fence.revision) {
            tracing::warn!(lost = fence.lost.len(), fence = %fence.revision, "this node was fenced");
            (found, told) = (BTreeSet::new(), Some(fence.revision));
        }
        // After the read: what is not alive now, at an epoch that the state has ended, never starts again.
        let here = match look(app).await {
            Ok(here) => here,
            Err(error) => {
                tracing::error!(error, "cannot tell what is left on this host, so it stays fenced");
                tokio::time::sleep(RETRY).await;
                continue;
            }
        };
        found.extend(here.iter().filter(|(vm, seen)| is_of(&fence, *vm, seen)).map(|(vm, _)| *vm));
        let cluster = app.raft.identity().cluster;
        let pause = match not_ours(&published.state, cluster, me, &fence, &here) {
            left if left.is_empty() => unfence(app, boot_id, &fence, &found).await,
            left => {
                let left = left.join("; ");
                tracing::info!(left, "still fenced: what this node lost is being stopped");
                PERIOD
            }
        };
        tokio::time::sleep(pause).await;
    }
}

async fn look(app: &Shared) -> Result<Vec<(VmId, Observation)>, String> {
    let vms = app.hypervisor.vms().await.map_err(|error| chain(&error))?;
    let seen = join_all(vms.iter().map(|vm| app.hypervisor.observe(*vm))).await;
    Ok(vms.into_iter().zip(seen).collect())
}

/// VMs of which a VMM is, or may be, alive here that no claim of this node covers, and what is known of each. What
/// another cluster placed was never lost by this one; what the fence left here may be as it likes.
fn not_ours(
    state: &State,
    cluster: ClusterId,
    me: NodeId,
    fence: &Fence,
    here: &[(VmId, Observation)],
) -> Vec<String> {
    let left = |(vm, seen): &(VmId, Observation)| {
        let claim = state.vms.get(vm).and_then(|vm| vm.claim.as_ref()).filter(|claim| claim.node == me);
        match seen {
            Observation::Absent => None,
            Observation::Unknown { .. } if claim.is_some() && !fence.lost.contains_key(vm) => None,
            Observation::Unknown { reason } => Some(format!("{vm}: {reason}")),
            Observation::Known(instance) => {
                let ours = claim.is_some_and(|claim| claim.epoch == instance.epoch);
                let harmless = ours || !alive(&instance.state) || is_foreign(cluster, instance);
                (!harmless).then(|| format!("{vm}: epoch {} runs", instance.epoch))
            }
        }
    };
    here.iter().filter_map(left).collect()
}

/// Whether this is something the fence took away.
fn is_of(fence: &Fence, vm: VmId, seen: &Observation) -> bool {
    match seen {
        Observation::Known(instance) => fence.lost.get(&vm) == Some(&instance.epoch),
        Observation::Absent | Observation::Unknown { .. } => false,
    }
}

/// Asks to be let back; how long to wait for what comes of it.
async fn unfence(app: &Shared, boot_id: BootId, fence: &Fence, found: &BTreeSet<VmId>) -> Duration {
    let node = app.raft.node_id();
    let count = u32::try_from(found.len()).unwrap_or(u32::MAX);
    let command = Command::UnfenceNode(UnfenceNode { node, boot_id, fence: fence.revision, found: count });
    match propose(&app.raft, command).await {
        Some(Reply::Done(_)) => {
            tracing::info!(
                lost = fence.lost.len(),
                ?found,
                "let back: nothing of what this node lost runs here"
            );
            Duration::ZERO
        }
        // The report of this boot is not applied yet; each refusal is an entry of the log.
        Some(_) => REFUSED,
        None => RETRY,
    }
}

#[cfg(test)]
mod tests {
    use holm_model::{Epoch, Revision};
    use holm_vmm::hypervisor::{ExitCause, Instance, InstanceState};
    use uuid::Uuid;

    use super::super::plan::tests::{epoch, record};
    use super::*;

    const ME: NodeId = NodeId(1);
    const CLUSTER: ClusterId = ClusterId(Uuid::nil());

    fn foreign((vm, seen): (VmId, Observation)) -> (VmId, Observation) {
        let Observation::Known(instance) = seen else { unreachable!("it is known") };
        let cluster = Some(ClusterId(Uuid::from_u128(51)));
        (vm, Observation::Known(Instance { cluster, ..instance }))
    }

    fn here(epoch: Epoch, state: InstanceState) -> (VmId, Observation) {
        let instance = Instance {
            epoch,
            released: false,
            cluster: None,
            bound: false,
            run: 1,
            boot_id: None,
            armed: None,
            can_arm: true,
            state,
        };
        (record(ME).id, Observation::Known(instance))
    }

    #[test]
    fn a_node_comes_back_only_when_nothing_it_lost_may_be_alive() {
        let mut state = State::default();
        let vm = record(ME);
        let id = vm.id;
        let running = || InstanceState::Running;
        let ended = InstanceState::Ended(ExitCause::LeaseEnded);
        state.vms.insert(id, vm);
        let unknown = |id| (id, Observation::Unknown { reason: "no answer".into() });
        let stranger = VmId(Uuid::from_u128(99));
        let other = (stranger, here(epoch(10), running()).1);
        let fence = |lost: &[VmId]| Fence {
            at: holm_model::Timestamp(0),
            revision: Revision(20),
            lost: lost.iter().map(|vm| (*vm, epoch(10))).collect(),
        };
        let table = [
            ("its own runs", here(epoch(10), running()), 0),
            ("an epoch before runs", here(epoch(9), running()), 1),
            ("an epoch before has ended", here(epoch(9), ended), 0),
            ("its own may be alive", unknown(id), 0),
            ("what is not its own may be alive", unknown(stranger), 1),
            ("what is in no record runs", other.clone(), 1),
            ("another cluster's runs", foreign(other), 0),
        ];
        for (case, seen, left) in table {
            assert_eq!(not_ours(&state, CLUSTER, ME, &fence(&[]), &[seen]).len(), left, "{case}");
        }
        // Lost, and placed here once more: which of the two may be alive cannot be told.
        assert_eq!(
            not_ours(&state, CLUSTER, ME, &fence(&[id]), &[unknown(id)]),
            [format!("{id}: no answer")]
        );
        state.vms.insert(id, record(NodeId(2)));
        let elsewhere = not_ours(&state, CLUSTER, ME, &fence(&[]), &[here(epoch(10), running())]);
        assert_eq!(elsewhere.len(), 1, "it was placed elsewhere");
        assert!(not_ours(&state, CLUSTER, ME, &fence(&[]), &[]).is_empty());
    }

    #[test]
    fn what_the_fence_took_is_told_from_the_rest() {
        let at = holm_model::Timestamp(0);
        let lost = [(record(ME).id, epoch(10))].into();
        let fence = Fence { at, revision: Revision(20), lost };
        let (vm, seen) = here(epoch(10), InstanceState::Prepared);
        assert!(is_of(&fence, vm, &seen));
        assert!(!is_of(&fence, vm, &here(epoch(9), InstanceState::Prepared).1));
        assert!(!is_of(&fence, vm, &Observation::Absent));
    }
}
