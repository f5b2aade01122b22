//! Runs the controllers while this process leads: on every change of the state and on a period, those that
//! only time moves on the period alone; one after another, each decision waiting for the outcome of the one before.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use holm_model::node::Node;
use holm_model::{Command, NodeId, State};
use holm_raft::handle::Handle;
use holm_sched::{Controller, Facts, Rest};
use tokio_util::sync::CancellationToken;

/// Decisions that depend on time are made at least this often.
const PERIOD: Duration = Duration::from_millis(500);
/// A leader that was not scheduled for this long has not been listening: silence counts afresh.
const THAWED: Duration = Duration::from_secs(2);

/// Runs until cancelled.
pub async fn run(raft: Handle, stop: CancellationToken) {
    let controllers = holm_sched::controllers::all();
    let mut status = raft.status();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            led = status.wait_for(|status| status.leading) => if led.is_err() { return },
        }
        tracing::info!(node = %raft.node_id(), "leading");
        tokio::select! {
            () = stop.cancelled() => return,
            () = lead(&raft, &controllers) => tracing::info!(node = %raft.node_id(), "no longer leading"),
        }
    }
}

/// One leadership.
async fn lead(raft: &Handle, controllers: &[Box<dyn Controller>]) {
    let mut states = raft.watch();
    let mut status = raft.status();
    let mut began = Instant::now();
    let mut ticked = Instant::now();
    let mut due = Instant::now();
    let mut rests: Vec<Option<Rest>> = controllers.iter().map(|_| None).collect();
    loop {
        let (leading, term) = {
            let status = status.borrow();
            (status.leading, status.term)
        };
        if !leading {
            return;
        }
        if ticked.elapsed() > THAWED {
            began = Instant::now();
        }
        ticked = Instant::now();
        states.mark_unchanged();
        let is_due = ticked >= due;
        if is_due {
            due = ticked + PERIOD;
        }
        let asked = controllers.iter().zip(&mut rests).filter(|(of, _)| is_due || !of.is_timed());
        for (controller, rest) in asked {
            let state = raft.state().state.clone();
            let facts = facts(&state, raft, began);
            let actor = format!("controller/{}", controller.name());
            for command in controller.decide_unless_at_rest(rest, &state, &facts) {
                let name = command.name();
                let proposed = match command {
                    Command::FenceNode(fence) => raft.propose_fence(fence, &actor).await,
                    command => raft.propose_here(command, &actor).await,
                };
                if let Err(error) = proposed {
                    tracing::debug!(controller = controller.name(), command = name, term, %error, "not decided");
                    break;
                }
            }
        }
        if is_due {
            hand_over(raft).await;
        }
        tokio::select! {
            _ = states.changed() => {}
            () = tokio::time::sleep_until(due.into()) => {}
            lost = status.wait_for(|status| !status.leading) => {
                let _ = lost;
                return;
            }
        }
    }
}

/// A node that is being emptied, or worked on, leads only while no other can.
async fn hand_over(raft: &Handle) {
    let published = raft.state();
    let nodes = &published.state.nodes;
    let goes = |node: &Node| node.drain.is_some() || node.maintenance.is_some();
    if !nodes.get(&raft.node_id()).is_some_and(goes) {
        return;
    }
    for node in nodes.values().filter(|node| node.up && !goes(node)) {
        match raft.transfer_leadership(Some(node.id)).await {
            Ok(to) => return tracing::info!(node = %to, "leads now, because this node is being emptied"),
            Err(error) => tracing::debug!(node = %node.id, %error, "does not take over"),
        }
    }
}

/// How long each node has been silent: by the replication's own acknowledgements, never longer than
/// this leadership has listened.
fn facts(state: &State, raft: &Handle, began: Instant) -> Facts {
    let (me, status) = (raft.node_id(), raft.status());
    let status = status.borrow();
    let listened = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let silent =
        |node: &NodeId| if *node == me { 0 } else { status.silent_ms.get(node).copied().unwrap_or(u64::MAX) };
    let silent_ms: BTreeMap<NodeId, u64> =
        state.nodes.keys().map(|node| (*node, silent(node).min(listened))).collect();
    let unheard = state.nodes.keys().filter(|node| silent(node) > listened).copied().collect();
    let leases = raft.lease_facts();
    Facts {
        now: raft.now(),
        silent_ms,
        unheard,
        fenceable: leases.fenceable,
        longer_leases_ended: leases.longer_leases_ended,
        thawed: leases.thawed,
    }
}
