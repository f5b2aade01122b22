//! One seed, one run: a cluster forms, serves clients while things go wrong, is healed and must then work as a whole and
//! hold all it acknowledged; and again after the power of every host failed at once.

use std::collections::BTreeMap;

use holm_raft::Timing;

use crate::below::{self, MS, Ns, now};
use crate::client::Operation;
use crate::cluster::Cluster;
use crate::disk::End;
use crate::faults::{self, Repair};
use crate::host::Speed;
use crate::net::{Pace, lock};
use crate::rng::Rng;
use crate::trace::Trace;

const SECOND: Ns = 1_000 * MS;
/// How long forming, and healing, may take.
const PATIENCE: Ns = 90 * SECOND;

/// What happens in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plan {
    /// Anything, as the seed has it.
    #[default]
    Faults,
    /// One member is set back to an earlier copy of its data.
    SetBack,
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Report {
    pub violation: Option<String>,
    /// Lines of the trace, and a sum over them: equal for equal runs.
    pub trace: String,
    pub figures: String,
}

/// Runs `seed` on a thread of its own, which is simulated from its first breath. Once a process: tokio counts its
/// runtimes, and draws its chance from that.
///
/// # Panics
/// When the simulation itself fails.
pub fn run(seed: u64, plan: Plan, prints: bool) -> Report {
    let thread = std::thread::Builder::new().name("simulation".to_owned()).stack_size(16 << 20);
    let simulated = thread.spawn(move || {
        below::take_over(seed);
        Scenario::new(seed, prints).run(plan)
    });
    simulated.expect("a thread can be had").join().expect("a simulation does not panic")
}

struct Scenario {
    cluster: Cluster,
    rng: Rng,
    /// What one client is at.
    clients: Vec<Option<u64>>,
    next_number: u64,
    repairs: BTreeMap<(Ns, u64), Repair>,
    faults: u64,
}

impl Scenario {
    fn new(seed: u64, prints: bool) -> Self {
        let mut rng = Rng::new(seed, 5);
        let hosts = if rng.percent(25) { 5 } else { 3 };
        let slowest = rng.between(1..8) * MS;
        let pace = Pace { fastest: MS / 5, slowest, lost_percent: rng.below(3) };
        let timing =
            Timing { snapshot_every: rng.between(15..80), keep: rng.between(5..40), ..Timing::default() };
        let trace = Trace::new(prints);
        let cluster = Cluster::new(seed, hosts, pace, timing, trace);
        let clients = vec![None; rng.index(3) + 1];
        Self { cluster, rng, clients, next_number: 1, repairs: BTreeMap::new(), faults: 0 }
    }

    fn run(mut self, plan: Plan) -> Report {
        self.form();
        match plan {
            Plan::Faults => {
                let until = now() + self.rng.between(10..25) * SECOND;
                self.break_things(until);
                self.heal("after the faults");
                self.lose_all_power();
                self.heal("after the power of all failed");
            }
            Plan::SetBack => self.set_back(),
        }
        let cluster = &self.cluster;
        let check = lock(&cluster.world.check);
        let counts: Vec<String> =
            cluster.history.counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
        let figures = format!(
            "{} hosts, {} faults, {} commits, {} terms; {}",
            cluster.hosts(),
            self.faults,
            check.commits(),
            check.terms(),
            counts.join(", ")
        );
        Report { violation: check.violation().map(str::to_owned), trace: check.trace.summary(), figures }
    }

    fn form(&mut self) {
        let until = now() + PATIENCE;
        self.cluster.found();
        self.expect(until, "the first node leads", |cluster| leader(cluster).is_some());
        for host in 1..self.cluster.hosts() {
            self.cluster.join(host);
            self.expect(until, "a node becomes a voter", |cluster| voters(cluster, host + 1));
        }
    }

    fn expect(&mut self, until: Ns, what: &str, condition: impl Fn(&Cluster) -> bool) {
        if !self.cluster.run_until(until, condition) && !self.cluster.is_violated() {
            self.cluster.violated(format!("not in time: {what}"));
        }
    }

    /// Things go wrong while clients go on.
    fn break_things(&mut self, until: Ns) {
        let mut next_fault = now() + self.rng.between(200..3_000) * MS;
        while now() < until && !self.cluster.is_violated() {
            self.work();
            if now() >= next_fault {
                self.faults += 1;
                for (at, repair) in faults::any(&mut self.cluster, &mut self.rng) {
                    self.repairs.insert((at, self.faults * 16 + self.repairs.len() as u64), repair);
                }
                next_fault = now() + self.rng.between(100..4_000) * MS;
            }
            self.repair();
            let pause = self.rng.between(2..80) * MS;
            self.cluster.run(now() + pause);
        }
    }

    /// Every client that waits for nothing begins something.
    fn work(&mut self) {
        for client in 0..self.clients.len() {
            if self.clients[client].is_some_and(|operation| self.cluster.is_under_way(operation)) {
                continue;
            }
            let host = self.rng.index(self.cluster.hosts());
            let operation = Operation::any(&mut self.rng, self.next_number);
            self.next_number += 1;
            self.clients[client] = self.cluster.begin(host, operation);
        }
    }

    fn repair(&mut self) {
        while let Some(entry) = self.repairs.first_entry().filter(|entry| entry.key().0 <= now()) {
            entry.remove().perform(&mut self.cluster);
        }
    }

    /// A member that was set back to a copy of its data ends nobody, and is given what it lacks.
    fn set_back(&mut self) {
        let Some(leader) = leader(&self.cluster) else {
            return self.cluster.violated("nobody leads".to_owned());
        };
        let host = (leader + 1) % self.cluster.hosts();
        let before = self.rng.between(500..3_000) * MS;
        self.work_for(before);
        let copy = self.cluster.copy_disk(host);
        self.work_for(2 * SECOND);
        self.cluster.set_back(host, copy);
        self.cluster.start(host);
        self.work_for(4 * SECOND);
        self.heal("after a member was set back");
    }

    fn work_for(&mut self, time: Ns) {
        let until = now() + time;
        while now() < until && !self.cluster.is_violated() {
            self.work();
            self.cluster.run(now() + 20 * MS);
        }
    }

    fn lose_all_power(&mut self) {
        if self.cluster.is_violated() {
            return;
        }
        // In the middle of something.
        for _ in 0..4 {
            self.work();
            let pause = self.rng.between(0..30) * MS;
            self.cluster.run(now() + pause);
        }
        for host in 0..self.cluster.hosts() {
            self.cluster.end(host, End::Power);
        }
    }

    /// Everything works again, and so must the cluster.
    fn heal(&mut self, when: &str) {
        if self.cluster.is_violated() {
            return;
        }
        self.cluster.note(format_args!("all is healed {when}"));
        self.repairs.clear();
        {
            let mut net = lock(&self.cluster.world.net);
            net.heal();
            net.pace = Pace { fastest: MS / 5, slowest: 3 * MS, lost_percent: 0 };
        }
        for host in 0..self.cluster.hosts() {
            *lock(&self.cluster.world.speeds[host]) = Speed::Fine;
            let mut disk = lock(&self.cluster.world.disks[host]);
            (disk.fails_fsync, disk.is_full) = (false, false);
        }
        for host in 0..self.cluster.hosts() {
            self.cluster.pause(host, false);
            if !self.cluster.is_running(host) && !self.cluster.is_lost(host) {
                self.cluster.start(host);
            }
        }
        let until = now() + PATIENCE;
        self.expect(until, "the cluster works again", |cluster| leader(cluster).is_some());
        for host in 0..self.cluster.hosts() {
            self.serves(host, until);
        }
        self.expect(until, "all have applied the same", |cluster| {
            let mut applied = members(cluster).map(|(_, handle)| handle.state().log_index);
            let first = applied.next();
            applied.all(|index| Some(index) == first)
        });
        self.judge();
    }

    /// The member on `host` takes a write and a read.
    fn serves(&mut self, host: usize, until: Ns) {
        if self.cluster.is_lost(host) {
            return;
        }
        for is_write in [true, false] {
            let mut served = false;
            while !served && now() < until && !self.cluster.is_violated() {
                // A try that was told that it had no effect must have none, whatever comes of the next.
                let number = self.next_number;
                self.next_number += 1;
                let write = Operation::Write { number, keyed: true, lines: 0 };
                let begun = self.cluster.begin(host, if is_write { write } else { Operation::Read });
                let ended = |cluster: &Cluster| begun.is_none_or(|begun| !cluster.is_under_way(begun));
                let pause = now() + 50 * MS;
                self.cluster.run(pause);
                self.cluster.run_until(until, ended);
                served = begun.is_some_and(|begun| self.cluster.history.was_served(begun));
            }
            if !served && !self.cluster.is_violated() {
                let what = if is_write { "write" } else { "read" };
                self.cluster.violated(format!("not in time: node {} answers a {what}", host + 1));
            }
        }
    }

    fn judge(&self) {
        for (host, handle) in members(&self.cluster) {
            let published = handle.state();
            lock(&self.cluster.world.check).holds(host, published.log_index, &published.state);
            if let Some(what) = self.cluster.history.judge(&published.state) {
                self.cluster.violated(format!("at node {}: {what}", host + 1));
            }
        }
    }
}

fn members(cluster: &Cluster) -> impl Iterator<Item = (usize, holm_raft::Handle)> {
    (0..cluster.hosts()).filter_map(|host| cluster.handle(host).map(|handle| (host, handle)))
}

fn leader(cluster: &Cluster) -> Option<usize> {
    members(cluster).find(|(_, handle)| handle.status().borrow().leading).map(|(host, _)| host)
}

fn voters(cluster: &Cluster, count: usize) -> bool {
    let agrees = |handle: &holm_raft::Handle| handle.status().borrow().voters.len() == count;
    members(cluster).filter(|(_, handle)| agrees(handle)).count() == count
}
