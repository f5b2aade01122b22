//! Starts a member: opens what it has on disk, joins Raft, serves its peers and runs its tasks.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use holm_model::Incarnation;
use holm_model::planted::{Plant, planted};
use openraft::SnapshotPolicy;
use tokio::sync::{RwLock, watch};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::core::Core;
use crate::fatal::essential;
use crate::guarded::Guarded;
use crate::handle::{Handle, RaftStatus};
use crate::identity::{self, Identity};
use crate::leases::{self, Leases};
use crate::network::{Factory, SNAPSHOT_TIMEOUT};
use crate::peers::Peers;
use crate::state_machine::StateMachine;
use crate::store::LogStore;
use crate::types::{Node, Raft};
use crate::wire::Listener;
use crate::{blocking, leadership, member, reserve, rounds, server, snapshot, stall, status, store};

/// How to run a member.
#[derive(Clone, Debug)]
pub struct Config {
    pub data_dir: PathBuf,
    /// Where peers are served; port 0 takes any.
    pub listen: SocketAddr,
    /// `host:port` at which the others reach this node. Empty: the address it listens on.
    pub advertise: String,
    /// The data directory was moved here from another machine, and is used nowhere else.
    pub moved: bool,
    pub timing: Timing,
}

/// The pace of Raft. The defaults suit a local network; tests may go faster.
#[derive(Clone, Debug)]
pub struct Timing {
    pub heartbeat: Duration,
    pub election_min: Duration,
    pub election_max: Duration,
    /// Entries between two snapshots.
    pub snapshot_every: u64,
    /// Entries kept behind a snapshot, so that a follower that was away for a while needs none.
    pub keep: u64,
}

impl Default for Timing {
    fn default() -> Self {
        let often = planted(Plant::SnapshotOften);
        Self {
            heartbeat: Duration::from_millis(250),
            election_min: Duration::from_millis(500),
            election_max: Duration::from_millis(900),
            snapshot_every: if often { 60 } else { 5_000 },
            keep: if often { 20 } else { 10_000 },
        }
    }
}

/// Why a member did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Identity(#[from] identity::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Snapshot(#[from] snapshot::Error),
    #[error("cannot listen for peers on {0}")]
    Listen(SocketAddr, #[source] std::io::Error),
    #[error("the timing is not usable: {0}")]
    Timing(String),
    #[error("Raft did not start: {0}")]
    Raft(String),
}

/// Starts the node in `config.data_dir`.
///
/// # Errors
/// When what it has on disk cannot be trusted, or its address cannot be had.
pub async fn start(config: Config) -> Result<Handle, StartError> {
    let raft_config = Arc::new(raft_config(&config.timing)?);
    let stopping = Arc::new(AtomicBool::new(false));
    let (identity, store, snapshot_file, state_machine) =
        open(config.data_dir.clone(), config.moved, Arc::clone(&stopping)).await?;
    let listener =
        Listener::bind(config.listen).await.map_err(|source| StartError::Listen(config.listen, source))?;
    let peer_addr = listener.local_addr().map_err(|source| StartError::Listen(config.listen, source))?;
    let advertise = if config.advertise.is_empty() { peer_addr.to_string() } else { config.advertise };

    let peers = Arc::new(Peers::new(identity.cluster, identity.node));
    let (published, waiting) = (state_machine.watch(), state_machine.waiting());
    let snapshot_problem = state_machine.snapshot_problem();
    let stamps = state_machine.stamps();
    let factory = Factory { peers: Arc::clone(&peers), node: identity.node.0 };
    let node = identity.node.0;
    let raft = Raft::new(node, raft_config, factory, store.clone(), state_machine)
        .await
        .map_err(|error| StartError::Raft(error.to_string()))?;
    if identity.bootstrap.is_some() {
        bootstrap(&raft, node, advertise).await?;
    }

    let (rounds, queue) = rounds::new();
    let core = Arc::new(Core {
        identity,
        incarnation: Incarnation(Uuid::new_v4()),
        raft,
        store,
        peers,
        published,
        waiting,
        status: watch::Sender::new(RaftStatus::default()),
        stamps,
        stamping: RwLock::default(),
        snapshot_file,
        snapshot_problem,
        rounds,
        leases: Leases::default(),
        incoming: Guarded::default(),
        stopping,
        yielding: AtomicBool::new(false),
    });
    let tasks = tasks(&core, listener, queue);
    Ok(Handle::new(core, tasks, peer_addr))
}

/// What runs until the node stops.
fn tasks(core: &Arc<Core>, listener: Listener, queue: rounds::Queue) -> JoinSet<()> {
    let share = || Arc::clone(core);
    let mut tasks = JoinSet::new();
    let mut spawn = |name, task: BoxFuture<'static, ()>| {
        let core = share();
        tasks.spawn(async move { essential(name, || core.is_stopping(), task).await });
    };
    spawn("peer service", server::run(share(), listener).boxed());
    spawn("quorum rounds", rounds::run(share(), queue).boxed());
    spawn("leases", leases::run(share()).boxed());
    spawn("leadership", leadership::run(share()).boxed());
    spawn("membership", member::run(share()).boxed());
    spawn("addresses of members", member::follow(share()).boxed());
    spawn("status", status::publish(share()).boxed());
    spawn("watch over Raft", status::watch(share()).boxed());
    spawn("watch over the disk", stall::run(share()).boxed());
    tasks
}

/// Reads, and checks, all of what is on disk.
async fn open(
    data_dir: PathBuf,
    moved: bool,
    stopping: Arc<AtomicBool>,
) -> Result<(Identity, LogStore, snapshot::File, StateMachine), StartError> {
    let opened = blocking::run(move || -> Result<_, StartError> {
        let mut identity = Identity::load(&data_dir)?;
        let settled = identity.settle(&data_dir, identity::machine_id(), moved)?;
        reserve::adjust(&data_dir);
        let store = store::open(&data_dir, &identity)?;
        if settled {
            // Only now: the store's lock says that no other process writes it.
            identity.save(&data_dir)?;
        }
        let file = snapshot::File::open(&data_dir)?;
        let state_machine = StateMachine::open(file.clone(), identity.cluster, store.purged(), stopping)?;
        Ok((identity, store, file, state_machine))
    });
    opened.await.map_err(|error| StartError::Raft(error.to_string()))?
}

/// The first start of the first node; repeated, it does nothing.
async fn bootstrap(raft: &Raft, node: u64, advertise: String) -> Result<(), StartError> {
    let failed = |error: String| StartError::Raft(error);
    if raft.is_initialized().await.map_err(|error| failed(error.to_string()))? {
        return Ok(());
    }
    let members = std::collections::BTreeMap::from([(node, Node::new(advertise))]);
    raft.initialize(members).await.map_err(|error| failed(error.to_string()))
}

fn raft_config(timing: &Timing) -> Result<openraft::Config, StartError> {
    let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let config = openraft::Config {
        cluster_name: "holm".to_owned(),
        heartbeat_interval: ms(timing.heartbeat),
        election_timeout_min: ms(timing.election_min),
        election_timeout_max: ms(timing.election_max),
        // Waiting for more writes would hold up Raft's core, answers of followers included; those that come while the disk
        // is busy share the next fsync anyway.
        api_batch_linger_ms: 0,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(timing.snapshot_every),
        max_in_snapshot_log_to_keep: timing.keep,
        replication_lag_threshold: 100,
        install_snapshot_timeout: ms(SNAPSHOT_TIMEOUT),
        enable_pre_vote: Some(true),
        // A leader that restarts must be elected again: its state may lag its own log.
        enable_leader_restore: Some(planted(Plant::NoBeginLeadership)),
        // A member whose log is shorter than it said (a damaged disk, a restored copy of its folder) is given the entries
        // again. What it did not keep counts no less without this, but openraft ends the leader, or leaves the member
        // behind for as long as that leader lives.
        allow_log_reversion: Some(true),
        // Short, since the lanes have a pause of their own.
        backoff: "50ms 100ms 200ms ..500ms".to_owned(),
        ..openraft::Config::default()
    };
    config.validate().map_err(|error| StartError::Timing(error.to_string()))
}
