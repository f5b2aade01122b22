//! Members on their hosts, and the time that passes for them. Every process has a runtime of its own, on this one thread:
//! it runs while it has something to do, and time goes on, to the next timer or message, when nobody has. To end a
//! process is to drop its runtime with all that is in it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use holm_raft::simulated::{enter, host};
use holm_raft::{Config, Handle, Timing, init_cluster, join_cluster, start};
use tokio::runtime::{Builder, Runtime};

use crate::below::{self, MS, Ns, now};
use crate::check::Check;
use crate::client::{self, History, Operation, Outcome};
use crate::disk::{Disk, End};
use crate::host::{Process, Speed, World};
use crate::net::{Net, Pace, lock};
use crate::rng::Rng;
use crate::trace::Trace;

/// Where the store is in a data directory.
const STORE: &str = "log";
const JOINING: Duration = Duration::from_secs(30);
/// Begins what a process says that ends because its disk does.
const STORE_REFUSED: &str = "the store cannot be written";

/// What the start of a member came to.
type Started = Arc<Mutex<Option<Result<Handle, String>>>>;

struct Running {
    process: Arc<Process>,
    runtime: Runtime,
    started: Started,
    next_timer: Option<Ns>,
}

/// A host.
struct Node {
    running: Option<Running>,
    has_to_run: bool,
    is_paused: bool,
    /// Its store was lost: it must never start again.
    is_lost: bool,
    wall_offset_ms: i64,
}

/// An operation that has begun.
struct Begun {
    operation: Operation,
    host: usize,
    floor: u64,
}

/// Says that an operation has ended.
type Ended = Arc<Mutex<Vec<(u64, Outcome)>>>;

pub(crate) struct Cluster {
    pub(crate) world: World,
    pub(crate) history: History,
    nodes: Vec<Node>,
    rng: Rng,
    begun: BTreeMap<u64, Begun>,
    ended: Ended,
    next_operation: u64,
    timing: Timing,
}

fn addr(host: usize) -> SocketAddr {
    let last = u8::try_from(host + 1).expect("a handful of hosts");
    SocketAddr::from(([10, 0, 0, last], 7000))
}

fn data_dir(host: usize) -> PathBuf {
    PathBuf::from(format!("/node-{}", host + 1))
}

impl Cluster {
    pub(crate) fn new(seed: u64, hosts: usize, pace: Pace, timing: Timing, trace: Trace) -> Self {
        let addrs = (0..hosts).map(|host| (addr(host), host)).collect();
        let disk = |host| Disk::new(Rng::new(seed, 100 + host as u64));
        let world = World {
            net: Arc::new(Mutex::new(Net::new(Rng::new(seed, 2), addrs, pace))),
            check: Arc::new(Mutex::new(Check::new(hosts, trace))),
            disks: (0..hosts).map(|host| Arc::new(Mutex::new(disk(host)))).collect(),
            speeds: (0..hosts).map(|_| Arc::new(Mutex::new(Speed::Fine))).collect(),
        };
        let node =
            || Node { running: None, has_to_run: false, is_paused: false, is_lost: false, wall_offset_ms: 0 };
        Self {
            world,
            history: History::default(),
            nodes: (0..hosts).map(|_| node()).collect(),
            rng: Rng::new(seed, 3),
            begun: BTreeMap::new(),
            ended: Ended::default(),
            next_operation: 0,
            timing,
        }
    }

    pub(crate) fn hosts(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn note(&self, what: std::fmt::Arguments<'_>) {
        lock(&self.world.check).trace.line(what);
    }

    pub(crate) fn violated(&self, what: String) {
        lock(&self.world.check).violated(what);
    }

    pub(crate) fn is_violated(&self) -> bool {
        lock(&self.world.check).violation().is_some()
    }

    // Processes.

    /// Makes the first node, and lets it run.
    pub(crate) fn found(&mut self) {
        self.boot(0, |data_dir, addr| async move {
            let addr = addr.to_string();
            init_cluster(&data_dir, "simulated", "node-1", &addr, &addr).map_err(|error| chain(&error))
        });
    }

    /// Lets a new node join.
    pub(crate) fn join(&mut self, host: usize) {
        let seeds: Vec<String> = (0..host).map(|seed| addr(seed).to_string()).collect();
        self.boot(host, move |data_dir, addr| async move {
            let (name, addr) = (format!("node-{}", host + 1), addr.to_string());
            join_cluster(&data_dir, &seeds, &name, &addr, &addr, JOINING).await.map_err(|error| chain(&error))
        });
    }

    /// Starts a node that is one.
    pub(crate) fn start(&mut self, host: usize) {
        self.boot(host, |_, _| async { Ok(()) });
    }

    fn boot<T, F>(&mut self, host: usize, prepare: impl FnOnce(PathBuf, SocketAddr) -> F + Send + 'static)
    where
        F: Future<Output = Result<T, String>> + Send + 'static,
        T: Send + 'static,
    {
        self.note(format_args!("node {} starts", host + 1));
        lock(&self.world.net).power_up(host);
        let process = Process::new(&self.world, host, Rng::new(self.rng.next_u64(), 4));
        let config = Config {
            data_dir: data_dir(host),
            listen: addr(host),
            advertise: String::new(),
            moved: false,
            timing: self.timing.clone(),
        };
        let runtime =
            Builder::new_current_thread().enable_all().build().expect("the simulation opens few descriptors");
        let started = Started::default();
        let told = Arc::clone(&started);
        runtime.spawn(async move {
            let answer = match prepare(config.data_dir.clone(), config.listen).await {
                Ok(_) => start(config).await.map_err(|error| chain(&error)),
                Err(why) => Err(why),
            };
            *lock(&told) = Some(answer);
        });
        let node = &mut self.nodes[host];
        node.running = Some(Running { process, runtime, started, next_timer: None });
        node.has_to_run = true;
        node.is_paused = false;
    }

    /// Ends the process on `host`, as a kill does or a loss of power.
    pub(crate) fn end(&mut self, host: usize, how: End) {
        let Some(running) = self.nodes[host].running.take() else { return };
        self.note(format_args!("node {} ends: {how:?}", host + 1));
        running.process.end();
        match how {
            End::Process => lock(&self.world.net).end_process(host),
            End::Power => lock(&self.world.net).lose_power(host),
        }
        let process: Arc<dyn host::Host> = running.process;
        enter(Some(process));
        drop(running.started);
        drop(running.runtime);
        enter(None);
        self.begun.retain(|_, begun| begun.host != host);
        self.settle_disk(host, how);
    }

    fn settle_disk(&self, host: usize, how: End) {
        let mut disk = lock(&self.world.disks[host]);
        disk.end(how);
        let records = disk.records(&data_dir(host).join(STORE));
        lock(&self.world.check).ended(host, records.into_iter());
    }

    /// The power of a host fails on which no process runs.
    pub(crate) fn lose_store(&mut self, host: usize) {
        self.end(host, End::Power);
        self.note(format_args!("node {} loses its store", host + 1));
        lock(&self.world.disks[host]).lose_stores();
        self.nodes[host].is_lost = true;
    }

    /// What is on the disk of `host` now.
    pub(crate) fn copy_disk(&self, host: usize) -> Disk {
        lock(&self.world.disks[host]).clone()
    }

    /// The process on `host` ends, and the next one finds what was there at some time before.
    pub(crate) fn set_back(&mut self, host: usize, copy: Disk) {
        self.end(host, End::Process);
        self.note(format_args!("node {} is set back to a copy", host + 1));
        *lock(&self.world.disks[host]) = copy;
        self.settle_disk(host, End::Process);
    }

    pub(crate) fn is_lost(&self, host: usize) -> bool {
        self.nodes[host].is_lost
    }

    pub(crate) fn is_running(&self, host: usize) -> bool {
        self.nodes[host].running.is_some()
    }

    pub(crate) fn pause(&mut self, host: usize, is_paused: bool) {
        self.note(format_args!("node {} {}", host + 1, if is_paused { "stands still" } else { "goes on" }));
        self.nodes[host].is_paused = is_paused;
        self.nodes[host].has_to_run = true;
    }

    pub(crate) fn set_wall_offset_ms(&mut self, host: usize, by_ms: i64) {
        self.note(format_args!("the clock on the wall of node {} is {by_ms} ms off", host + 1));
        self.nodes[host].wall_offset_ms = by_ms;
    }

    pub(crate) fn handle(&self, host: usize) -> Option<Handle> {
        let started = &self.nodes[host].running.as_ref()?.started;
        lock(started).as_ref()?.as_ref().ok().cloned()
    }

    /// Why the node on `host` did not start, if it did not.
    fn start_error(&self, host: usize) -> Option<String> {
        let started = &self.nodes[host].running.as_ref()?.started;
        lock(started).as_ref()?.as_ref().err().cloned()
    }

    // Time.

    /// Lets time go on until `until`, or something is violated.
    pub(crate) fn run(&mut self, until: Ns) {
        while !self.is_violated() {
            let timers = self.nodes.iter().filter(|node| !node.is_paused).filter_map(|node| {
                let running = node.running.as_ref()?;
                if node.has_to_run { Some(now()) } else { running.next_timer }
            });
            let next = timers.chain(lock(&self.world.net).next_at()).min().unwrap_or(until);
            below::set_now(next.clamp(now(), until.max(now())));
            for host in lock(&self.world.net).run() {
                self.nodes[host].has_to_run = true;
            }
            for host in 0..self.hosts() {
                self.run_host(host);
            }
            self.take_answers();
            if next >= until {
                return;
            }
        }
    }

    /// The same, until `condition` holds. False when it does not before `until`.
    pub(crate) fn run_until(&mut self, until: Ns, condition: impl Fn(&Self) -> bool) -> bool {
        while now() < until && !self.is_violated() {
            if condition(self) {
                return true;
            }
            self.run(now() + 20 * MS);
        }
        false
    }

    fn run_host(&mut self, host: usize) {
        let node = &mut self.nodes[host];
        let Some(running) = node.running.as_mut().filter(|_| !node.is_paused) else { return };
        let is_due = running.next_timer.is_some_and(|at| at <= now());
        if !node.has_to_run && !is_due {
            return;
        }
        node.has_to_run = false;
        let process: Arc<dyn host::Host> = Arc::clone(&running.process) as _;
        enter(Some(process));
        below::set_wall_offset_ms(node.wall_offset_ms);
        running.next_timer = below::run_until_idle(&running.runtime);
        enter(None);
        if let Some(reason) = running.process.ended_itself() {
            self.note(format_args!("node {} ends itself: {reason}", host + 1));
            self.end(host, End::Process);
            // A restart would heal most bugs that end a process: only a disk that takes nothing is a reason.
            if !reason.starts_with(STORE_REFUSED) {
                self.violated(format!("node {} ended itself: {reason}", host + 1));
            }
        } else if self.nodes[host].is_lost && self.handle(host).is_some() {
            self.violated(format!("node {} started without the store it lost", host + 1));
        } else if let Some(why) = self.start_error(host) {
            self.refused(host, &why);
        }
    }

    /// A node that has lost its store must not start, and every other one must.
    fn refused(&mut self, host: usize, why: &str) {
        self.note(format_args!("node {} does not start: {why}", host + 1));
        self.end(host, End::Process);
        if !self.nodes[host].is_lost {
            self.violated(format!("node {} does not start: {why}", host + 1));
        }
    }

    // Clients.

    /// Begins an operation on `host`, if a member runs there.
    pub(crate) fn begin(&mut self, host: usize, operation: Operation) -> Option<u64> {
        let handle = self.handle(host)?;
        let id = self.next_operation;
        self.next_operation += 1;
        self.note(format_args!("client {id} at node {}: {}", host + 1, operation.words()));
        let ended = Arc::clone(&self.ended);
        let performed = operation.clone();
        self.spawn(host, async move {
            let outcome = client::perform(handle, performed).await;
            lock(&ended).push((id, outcome));
        });
        self.begun.insert(id, Begun { operation, host, floor: self.history.floor() });
        Some(id)
    }

    /// Lets the process on `host` do something more.
    pub(crate) fn spawn(&mut self, host: usize, work: impl Future<Output = ()> + Send + 'static) {
        let node = &mut self.nodes[host];
        if let Some(running) = &node.running {
            running.runtime.spawn(work);
            node.has_to_run = true;
        }
    }

    pub(crate) fn is_under_way(&self, operation: u64) -> bool {
        self.begun.contains_key(&operation)
    }

    fn take_answers(&mut self) {
        let ended = std::mem::take(&mut *lock(&self.ended));
        for (id, outcome) in ended {
            // Whoever it ran with may have died at the same moment.
            let Some(begun) = self.begun.remove(&id) else { continue };
            self.note(format_args!("client {id}: {outcome:?}"));
            if let Some(what) = self.history.ended(id, &begun.operation, begun.floor, &outcome) {
                self.violated(format!("client {id} at node {}: {what}", begun.host + 1));
            }
        }
    }
}

/// An error with what caused it.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |words, cause| format!("{words}: {cause}"))
}
