//! Puts what happened in the cluster into this node's log, as applied here: an operator who has only one
//! machine's journal still has the timeline. Nodes and faults at `info`, the rest at `debug`.

use holm_model::event::Since;
use holm_model::{Event, Kind};
use holm_raft::Handle;
use tokio_util::sync::CancellationToken;

/// Runs until cancelled; begins with what happens from now on.
pub async fn run(raft: Handle, stop: CancellationToken) {
    let mut states = raft.watch();
    let mut logged = raft.state().state.revision;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            changed = states.changed() => if changed.is_err() { return },
        }
        let published = states.borrow_and_update().clone();
        if let Since::Events(events) = published.state.events.since(logged) {
            events.iter().for_each(log);
        }
        logged = published.state.revision;
    }
}

fn log(event: &Event) {
    let Event { revision, kind, name, what, message, actor, .. } = event;
    let matters = match kind {
        Kind::Node => what != "reported",
        Kind::Cluster | Kind::Aggregate | Kind::Policy | Kind::Quota | Kind::Project | Kind::Volume => true,
        Kind::Vm => what == "error" || what == "waiting",
        Kind::Flavor | Kind::Image | Kind::Group | Kind::Zone | Kind::Label => false,
    };
    if matters {
        tracing::info!(%revision, %kind, name, what, message, actor, "event");
    } else {
        tracing::debug!(%revision, %kind, name, what, message, actor, "event");
    }
}
