//! The simulation itself: what there is, the loop over events, and what came of it.

use std::fmt::Write;

use holm_model::{ClusterId, VmId};
use holm_node::lease::Holder;
use holm_sched::Controller;
use uuid::Uuid;

use super::client::Client;
use super::event::{Event, Heap, Ix, Message, Ms, Process};
use super::figures::Figures;
use super::host::Host;
use super::log::Log;
use super::network::Network;
use super::node::Daemon;
use crate::rng::Rng;

/// Nodes of the cluster.
pub const NODES: usize = 3;
/// Faults go on for so long.
const FAULTS_FOR: std::ops::Range<Ms> = 40_000..140_000;
/// How long a healed cluster may take to be as asked: leases and fences run out, restarts back off.
const SETTLE: Ms = 240_000;

/// Something broken on purpose, to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Bug {
    /// Shims let VMs go on when their lease ends.
    ShimIgnoresLease,
    /// The leader grants without asking a quorum.
    GrantWithoutQuorum,
    /// The leader fences who is silent for two seconds.
    FenceWithoutWait,
    /// Starts look at no lease and no replica's age.
    StartWithoutLicence,
    /// The released mark does not survive the daemon.
    MarkNotDurable,
    /// One replica applies something else.
    ImpureApply,
    /// What is placed is not reported, once in a while.
    ReportLost,
}

/// What to run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub seed: u64,
    pub bug: Option<Bug>,
    /// Keep every event as a line.
    pub trace: bool,
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What was violated, and when.
    pub violation: Option<String>,
    /// Lines, if they were asked for.
    pub trace: String,
    pub figures: Figures,
}

/// Everything there is.
pub struct Sim {
    pub now: Ms,
    pub heap: Heap,
    pub rng: Rng,
    pub options: Options,
    pub network: Network,
    pub log: Log,
    pub hosts: Vec<Host>,
    pub daemons: Vec<Daemon>,
    pub client: Client,
    pub controllers: Vec<Box<dyn Controller>>,
    pub healed_at: Option<Ms>,
    pub boots: u128,
    pub starts: u64,
    pub figures: Figures,
    pub violation: Option<String>,
    pub trace: String,
}

/// Runs one seed to its end.
pub fn run(options: Options) -> Outcome {
    let mut sim = Sim::new(options);
    sim.begin();
    while sim.violation.is_none() && !sim.is_over() {
        let Some((at, event)) = sim.heap.pop() else { break };
        sim.now = at;
        sim.figures.events += 1;
        sim.handle(event);
    }
    sim.figures.entries = sim.log.committed();
    Outcome { violation: sim.violation, trace: sim.trace, figures: sim.figures }
}

impl Sim {
    fn new(options: Options) -> Self {
        let mut rng = Rng::new(options.seed);
        let hosts: Vec<Host> =
            (0..NODES).map(|n| Host::new(1 + n as u128, 980_000 + rng.below(40_000))).collect();
        let daemons = (0..NODES)
            .map(|node| {
                let process = Process { node, number: 0 };
                Daemon::new(process, 0, Default::default(), 0, Holder::default())
            })
            .collect();
        Self {
            now: 0,
            heap: Heap::default(),
            network: Network::new(NODES),
            log: Log::new(),
            hosts,
            daemons,
            client: Client::default(),
            controllers: holm_sched::controllers::all(),
            healed_at: None,
            boots: NODES as u128 + 1,
            starts: 0,
            figures: Figures::default(),
            violation: None,
            trace: String::new(),
            rng,
            options,
        }
    }

    fn begin(&mut self) {
        self.client.prepare(&mut self.log);
        for node in 0..NODES {
            self.wake_daemon(node);
        }
        self.heap.push(0, Event::Election);
        self.heap.push(3_000, Event::Client);
        self.heap.push(5_000 + self.rng.below(5_000), Event::Fault);
        if self.rng.percent(50) {
            self.heap.push(6_000 + self.rng.below(10_000), Event::Operator);
        }
        let faults_until = FAULTS_FOR.start + self.rng.below(FAULTS_FOR.end - FAULTS_FOR.start);
        self.heap.push(faults_until, Event::Heal);
    }

    /// The periodic tasks of a daemon that has just started.
    pub fn wake_daemon(&mut self, node: Ix) {
        let process = self.daemons[node].process;
        let at = self.now + self.rng.below(200);
        self.heap.push(at, Event::Beat(process));
        self.heap.push(at, Event::Look(process));
    }

    fn is_over(&mut self) -> bool {
        let Some(healed_at) = self.healed_at else { return false };
        if self.figures.settled_after > 0 {
            return true;
        }
        if self.now > healed_at + SETTLE {
            let why = self.unsettled().unwrap_or_else(|| "nothing is left to wait for".to_owned());
            self.violate(format!("{} s after the healing: {why}", SETTLE / 1_000));
            return true;
        }
        false
    }

    /// The product's name of the cluster.
    pub fn cluster(&self) -> ClusterId {
        ClusterId(Uuid::from_u128(1))
    }

    /// Records what must not be; the first one counts.
    pub fn violate(&mut self, what: String) {
        self.note(|| format!("VIOLATION: {what}"));
        let at = self.now;
        self.violation.get_or_insert_with(|| format!("at {at} ms: {what}"));
    }

    /// Adds a line to the trace, if there is one.
    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if self.options.trace {
            let _ = writeln!(self.trace, "{:>7} {}", self.now, line());
        }
    }

    /// Whether `bug` was asked for.
    pub fn has(&self, bug: Bug) -> bool {
        self.options.bug == Some(bug)
    }

    /// Whether the daemon of `node` takes steps now.
    pub fn runs(&self, node: Ix) -> bool {
        let daemon = &self.daemons[node];
        self.hosts[node].on && daemon.up && self.awake_at(node) <= self.now
    }

    /// When a daemon that was stopped goes on.
    fn awake_at(&self, node: Ix) -> Ms {
        self.daemons[node].paused_until.max(self.hosts[node].frozen_until)
    }

    /// Whether `node` and a majority, itself included, hear each other.
    pub fn has_majority(&self, node: Ix) -> bool {
        let peers = (0..NODES).filter(|peer| *peer != node);
        let joined = peers.filter(|peer| self.runs(*peer) && self.network.joined(node, *peer)).count();
        self.runs(node) && joined + 1 > NODES / 2
    }

    /// Sends a message on its way.
    pub fn send(&mut self, from: Ix, to: Ix, message: Message) {
        for at in self.network.arrivals(from, to, self.now, &mut self.rng) {
            self.heap.push(at, Event::Deliver { from, to, message: message.clone() });
        }
    }

    fn is_current(&self, process: Process) -> bool {
        let daemon = &self.daemons[process.node];
        daemon.up && daemon.process == process
    }

    fn handle(&mut self, event: Event) {
        let process = match &event {
            Event::Beat(p) | Event::Look(p) | Event::Lead(p) => Some(*p),
            Event::Work(p, _) | Event::Performed(p, ..) | Event::GaveUpWaiting(p, _) => Some(*p),
            Event::Round { process, .. } => Some(*process),
            Event::Deliver { to, .. } => Some(self.daemons[*to].process),
            _ => None,
        };
        if let Some(process) = process {
            if !self.is_current(process) {
                return;
            }
            let awake_at = self.awake_at(process.node);
            if awake_at > self.now {
                return self.heap.push(awake_at, event);
            }
        }
        if let Event::ShimReady { node, .. } | Event::LeaseDue { node, .. } | Event::Killed { node, .. } =
            event
        {
            let thaws_at = self.hosts[node].frozen_until;
            if thaws_at > self.now {
                return self.heap.push(thaws_at, event);
            }
        }
        self.happen(event);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Deliver { from, to, message } => self.deliver(from, to, message),
            Event::Beat(process) => self.beat(process),
            Event::Look(process) => self.look(process),
            Event::Lead(process) => self.lead(process),
            Event::Work(process, vm) => self.work(process, vm),
            Event::Performed(process, vm, step) => self.performed(process, vm, step),
            Event::GaveUpWaiting(process, id) => self.gave_up_waiting(process, id),
            Event::ShimReady { node, vm, start } => self.shim_ready(node, vm, start),
            Event::LeaseDue { node, vm, start } => self.lease_due(node, vm, start),
            Event::Killed { node, vm, start, cause } | Event::GuestEnds { node, vm, start, cause } => {
                self.ended(node, vm, start, cause);
            }
            Event::Round { process, term, round } => self.round(process, term, round),
            Event::Commit { term } => self.commit(term),
            Event::Election => self.election(),
            Event::Client => self.ask(),
            Event::Operator => self.operate(),
            Event::Fault => self.fault(),
            Event::Restart(node) => self.restart(node),
            Event::Heal => self.heal(),
        }
    }

    /// Looks for a VM that runs on two hosts.
    pub fn look_for_two(&mut self, vm: VmId) {
        let on: Vec<Ix> = (0..NODES).filter(|node| self.hosts[*node].runs(vm, self.now)).collect();
        if on.len() > 1 {
            let on: Vec<String> = on.iter().map(|node| format!("n{}", node + 1)).collect();
            self.violate(format!("VM {} runs on {}", short(vm), on.join(" and ")));
        }
    }
}

/// A VM's id in few letters.
pub fn short(vm: VmId) -> u128 {
    vm.0.as_u128()
}
