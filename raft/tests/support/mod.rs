//! Real members in this process: real stores, real sockets, a faster pace.
#![allow(dead_code, reason = "every test binary uses its own part")]

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use holm_model::command::{CreateFlavor, ReportNode, SetNodeUp};
use holm_model::flavor::Size;
use holm_model::node::{HypervisorFacts, HypervisorKind, NodeReport};
use holm_model::{Actor, BootId, Command, FlavorId, IdempotencyKey, NodeId, Proposal, Reply};
use holm_raft::{Config, Handle, Timing, init_cluster, join_cluster, start};
use tempfile::TempDir;
use uuid::Uuid;

/// Long enough for a slow machine; nothing waits this long when all is well.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A node's place: its directory and address outlive its runs.
pub struct Place {
    pub dir: PathBuf,
    /// Deletes the directory; none when somebody else does.
    _temporary: Option<TempDir>,
    pub addr: SocketAddr,
    pub timing: Timing,
}

pub struct Cluster {
    pub places: Vec<Place>,
    pub nodes: Vec<Option<Handle>>,
}

pub fn quick() -> Timing {
    Timing {
        heartbeat: Duration::from_millis(100),
        election_min: Duration::from_millis(250),
        election_max: Duration::from_millis(450),
        ..Timing::default()
    }
}

/// An address nobody listens on at present.
pub fn free_addr() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Where the node at `addr` would serve REST; nobody does here.
fn api_addr(addr: SocketAddr) -> String {
    format!("127.0.0.2:{}", addr.port())
}

impl Place {
    pub fn new(timing: Timing) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().join("data");
        Self { dir, _temporary: Some(temporary), addr: free_addr(), timing }
    }

    pub fn data_dir(&self) -> &Path {
        &self.dir
    }

    pub async fn start(&self) -> Handle {
        start(self.config()).await.unwrap()
    }

    pub fn config(&self) -> Config {
        Config {
            data_dir: self.dir.clone(),
            listen: self.addr,
            advertise: self.addr.to_string(),
            moved: false,
            timing: self.timing.clone(),
        }
    }
}

impl Cluster {
    /// One node that leads itself.
    pub async fn one(timing: Timing) -> Self {
        Self::first(Place::new(timing)).await
    }

    /// The same in `dir`, where it may have been before.
    pub async fn one_in(dir: &Path, timing: Timing) -> Self {
        Self::first(Place { dir: dir.join("data"), _temporary: None, addr: free_addr(), timing }).await
    }

    async fn first(place: Place) -> Self {
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
        let addr = place.addr.to_string();
        if !place.data_dir().join("node.json").exists() {
            init_cluster(place.data_dir(), "test", "node-1", &addr, &api_addr(place.addr)).unwrap();
        }
        let node = place.start().await;
        eventually("the first node leads", || node.status().borrow().leading).await;
        Self { places: vec![place], nodes: vec![Some(node)] }
    }

    /// `count` voters.
    pub async fn new(count: usize, timing: Timing) -> Self {
        let mut cluster = Self::one(timing.clone()).await;
        for _ in 1..count {
            cluster.join(timing.clone()).await;
        }
        cluster.voters(count).await;
        cluster
    }

    pub async fn join(&mut self, timing: Timing) -> usize {
        let place = Place::new(timing);
        let seeds: Vec<String> = self.places.iter().map(|place| place.addr.to_string()).collect();
        let name = format!("node-{}", self.places.len() + 1);
        let addr = place.addr.to_string();
        let api = api_addr(place.addr);
        join_cluster(place.data_dir(), &seeds, &name, &addr, &api, PATIENCE).await.unwrap();
        self.nodes.push(Some(place.start().await));
        self.places.push(place);
        self.nodes.len() - 1
    }

    pub async fn voters(&self, count: usize) {
        eventually("all are voters", || {
            self.running().all(|node| node.status().borrow().voters.len() == count)
        })
        .await;
    }

    pub fn running(&self) -> impl Iterator<Item = &Handle> {
        self.nodes.iter().flatten()
    }

    pub fn node(&self, at: usize) -> &Handle {
        self.nodes[at].as_ref().unwrap()
    }

    /// Position of the node that leads, once one does.
    pub async fn leader(&self) -> usize {
        let leading = || {
            self.nodes
                .iter()
                .position(|node| node.as_ref().is_some_and(|node| node.status().borrow().leading))
        };
        eventually("some node leads", || leading().is_some()).await;
        leading().unwrap()
    }

    pub async fn stop(&mut self, at: usize) {
        self.nodes[at].take().unwrap().stop().await;
    }

    pub async fn start(&mut self, at: usize) {
        self.nodes[at] = Some(self.places[at].start().await);
    }

    /// Every running node is up, as its report and the leader say.
    pub async fn all_up(&self) {
        let leader = self.node(self.leader().await);
        for (node, place) in self.nodes.iter().zip(&self.places) {
            let Some(node) = node else { continue };
            let reported = node.propose(report(node, place.addr), PATIENCE).await.unwrap();
            assert!(done(&reported.reply), "{:?}", reported.reply);
            let leadership = leader.state().state.leadership.unwrap().revision;
            let up = Command::SetNodeUp(SetNodeUp { leadership, node: id(node), up: true });
            let committed = leader.propose_here(up, "test").await.unwrap();
            assert!(done(&committed.reply), "{:?}", committed.reply);
        }
    }

    /// All running nodes hold the same state.
    pub async fn converge(&self) {
        eventually("all replicas are equal", || {
            let mut hashes = self.running().map(|node| holm_model::snapshot::hash(&node.state().state));
            let first = hashes.next();
            hashes.all(|hash| Some(hash) == first)
        })
        .await;
    }

    pub async fn stop_all(&mut self) {
        for node in self.nodes.iter_mut().filter_map(Option::take) {
            node.stop().await;
        }
    }
}

/// Waits until `condition` holds.
pub async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "not in {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub fn actor() -> Actor {
    Actor { name: "test".to_owned(), project: "default".to_owned() }
}

/// Creates a flavor: a write with an effect that can be looked up, of about `bytes` more than its name.
pub fn flavor(name: &str, bytes: usize) -> Command {
    const LINE: usize = 255;
    let lines = bytes / LINE;
    Command::CreateFlavor(CreateFlavor {
        id: FlavorId(Uuid::new_v4()),
        name: name.to_owned(),
        size: Size { vcpus: 1, memory_mib: 64, disk_gib: 0 },
        extra_specs: (0..lines).map(|line| (format!("padding-{line}"), "x".repeat(LINE))).collect(),
    })
}

/// What `node`, at `addr`, says of itself after a boot.
pub fn report(node: &Handle, addr: SocketAddr) -> Proposal {
    let hypervisor =
        HypervisorFacts { kind: HypervisorKind::Simulated, version: String::new(), reason: String::new() };
    let report = NodeReport {
        boot_id: BootId(Uuid::new_v4()),
        version: "test".to_owned(),
        hypervisor,
        inventory: [].into(),
        conditions: [].into(),
        capabilities: [].into(),
        traits: [].into(),
        load_thousandths: 0,
        orphans: Default::default(),
        offer: Default::default(),
    };
    let command = Command::ReportNode(ReportNode {
        node: node.node_id(),
        peer_addr: addr.to_string(),
        api_addr: api_addr(addr),
        sequence: 1,
        report,
    });
    Proposal { key: None, seen: node.state().state.revision, actor: actor(), command }
}

/// A proposal as a client makes it: with a key.
pub fn keyed(node: &Handle, command: Command) -> Proposal {
    let key = IdempotencyKey { key: Uuid::new_v4().to_string(), fingerprint: "f".repeat(64) };
    Proposal { key: Some(key), seen: node.state().state.revision, actor: actor(), command }
}

pub fn done(reply: &Reply) -> bool {
    match reply {
        Reply::Done(_) => true,
        Reply::Duplicate(original) => done(original),
        Reply::Rejected(_) => false,
    }
}

pub fn has_flavor(node: &Handle, name: &str) -> bool {
    node.state().state.find_flavor(name).is_some()
}

pub fn id(node: &Handle) -> NodeId {
    node.node_id()
}

pub fn remove(path: &Path) {
    if path.is_dir() { std::fs::remove_dir_all(path).unwrap() } else { std::fs::remove_file(path).unwrap() }
}
