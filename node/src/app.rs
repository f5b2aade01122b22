//! What the daemon's parts share: the replicated state's handle, the hypervisor, the image store.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use holm_model::{State, VmId};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::agent::orphans::Orphans;
use crate::guests;
use crate::lease::Current;

/// Made once, by the wiring.
pub struct App {
    pub raft: holm_raft::handle::Handle,
    pub hypervisor: Arc<dyn holm_vmm::hypervisor::Hypervisor>,
    pub images: Arc<holm_vmm::image_store::ImageStore>,
    pub started_at: std::time::Instant,
    /// This node's lease, kept by its keeper.
    pub lease: Current,
    pub orphans: Orphans,
    /// Cancelled when the daemon stops: answers without an end are ended then.
    pub stopping: CancellationToken,
    /// Held by a creation that N+1 has to be judged for again, so that those of this node take turns.
    pub admission: tokio::sync::Mutex<()>,
    /// Held while a state of the past is made anew: each is as large as the cluster's.
    pub replaying: tokio::sync::Mutex<()>,
    caught_up: watch::Sender<bool>,
    run_dir: PathBuf,
}

/// The app as handlers and tasks hold it.
pub type Shared = Arc<App>;

impl App {
    /// Puts the parts together.
    pub fn new(
        raft: holm_raft::handle::Handle,
        hypervisor: Arc<dyn holm_vmm::hypervisor::Hypervisor>,
        images: Arc<holm_vmm::image_store::ImageStore>,
        run_dir: &Path,
    ) -> Self {
        Self {
            raft,
            hypervisor,
            images,
            started_at: std::time::Instant::now(),
            lease: Current::new(run_dir),
            orphans: Orphans::default(),
            stopping: CancellationToken::new(),
            admission: tokio::sync::Mutex::new(()),
            replaying: tokio::sync::Mutex::new(()),
            caught_up: watch::Sender::new(false),
            run_dir: run_dir.to_owned(),
        }
    }

    /// Whether a linearizable read has succeeded since this process started.
    pub fn caught_up(&self) -> bool {
        *self.caught_up.borrow()
    }

    /// The same, to be waited for.
    pub fn watch_caught_up(&self) -> watch::Receiver<bool> {
        self.caught_up.subscribe()
    }

    /// A linearizable read has succeeded.
    pub fn set_caught_up(&self) {
        self.caught_up.send_replace(true);
    }

    /// Whether the guests of this host are held off for its shutdown.
    pub fn held(&self) -> bool {
        guests::hold_file(&self.run_dir).exists()
    }

    /// Whether this run was ended for a shutdown of the host which did not come.
    pub fn is_allowed_again(&self, vm: VmId, run: u64) -> bool {
        guests::is_allowed_again(&self.run_dir, vm, run)
    }

    /// Whether this node is fenced, as `state` says.
    pub fn is_fenced(&self, state: &State) -> bool {
        state.nodes.get(&self.raft.node_id()).is_some_and(|node| node.fence.is_some())
    }

    /// Whether the cluster said that this node is no longer a member.
    pub fn removed(&self) -> bool {
        self.raft.status().borrow().removed
    }
}

/// An error with its causes, in one line, for logs and reasons.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
