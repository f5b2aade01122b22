//! What goes wrong, until everything is healed: partitions, lossy networks, pauses, frozen machines, crashes,
//! loss of power, replicas that lag, leaders that are replaced.

use holm_node::lease::Holder;

use super::event::{Event, Ix, Ms, Process};
use super::node::Daemon;
use super::sim::{NODES, Sim};

/// A boot takes at least so long, which is longer than any message is on its way: a report of an earlier boot
/// that arrives after one of the next would make the node take itself for a copy of itself.
const BOOT: Ms = 8_000;

impl Sim {
    /// One thing goes wrong, and the next is not far.
    pub fn fault(&mut self) {
        if self.healed_at.is_some() {
            return;
        }
        self.heap.push(self.now + 500 + self.rng.below(12_000), Event::Fault);
        self.figures.faults += 1;
        let node = self.rng.below(NODES as u64) as Ix;
        let long = [300, 2_000, 6_000, 15_000, 40_000][self.rng.below(5) as usize];
        let lasts = 100 + self.rng.below(long);
        match self.rng.below(12) {
            0 => self.isolate(node),
            1 => self.cut_one_way(node),
            2 => self.network.mend(),
            3 => self.disturb(),
            4 => self.pause(node, lasts),
            5 => self.freeze(node, lasts),
            6 | 7 => self.crash(node, lasts),
            8 => self.power_off(node, lasts),
            9 => {
                self.note(|| format!("n{}'s replica lags for {lasts} ms", node + 1));
                self.daemons[node].lags_until = self.now + lasts;
            }
            10 if self.has_majority(node) => self.elect(node),
            _ => self.power_off_all(lasts),
        }
    }

    fn isolate(&mut self, node: Ix) {
        self.note(|| format!("n{} is cut off", node + 1));
        for peer in (0..NODES).filter(|peer| *peer != node) {
            self.network.cut(node, peer);
            self.network.cut(peer, node);
        }
    }

    fn cut_one_way(&mut self, node: Ix) {
        let peer = (node + 1 + self.rng.below(NODES as u64 - 1) as usize) % NODES;
        self.note(|| format!("nothing passes from n{} to n{}", node + 1, peer + 1));
        self.network.cut(node, peer);
    }

    fn disturb(&mut self) {
        self.network.loss = self.rng.below(30);
        self.network.repeat = self.rng.below(20);
        self.network.delay = 1 + self.rng.below(150);
    }

    fn pause(&mut self, node: Ix, lasts: Ms) {
        self.note(|| format!("n{}'s daemon stops for {lasts} ms", node + 1));
        self.daemons[node].paused_until = self.now + lasts;
    }

    fn freeze(&mut self, node: Ix, lasts: Ms) {
        self.note(|| format!("n{} stands still for {lasts} ms", node + 1));
        let until = self.now + lasts;
        self.hosts[node].frozen_until = until;
        // Its clock goes on: the shims look first of all when it does.
        let dirs: Vec<_> = self.hosts[node].dirs.iter().map(|(vm, dir)| (*vm, dir.start)).collect();
        for (vm, start) in dirs {
            self.heap.push(until, Event::LeaseDue { node, vm, start });
        }
    }

    fn crash(&mut self, node: Ix, lasts: Ms) {
        if !self.daemons[node].up {
            return;
        }
        self.note(|| format!("n{}'s daemon is killed", node + 1));
        self.daemons[node].up = false;
        self.daemons[node].lead = None;
        self.heap.push(self.now + lasts, Event::Restart(node));
    }

    fn power_off(&mut self, node: Ix, lasts: Ms) {
        if !self.hosts[node].on {
            return;
        }
        self.note(|| format!("n{} loses power", node + 1));
        self.hosts[node].power_off();
        self.daemons[node].up = false;
        self.daemons[node].lead = None;
        self.heap.push(self.now + lasts.max(BOOT), Event::Restart(node));
    }

    fn power_off_all(&mut self, lasts: Ms) {
        for node in 0..NODES {
            let lasts = lasts + self.rng.below(5_000);
            self.power_off(node, lasts);
        }
    }

    /// The daemon starts, after a boot if need be, with a replica that is as old as chance has it.
    pub fn restart(&mut self, node: Ix) {
        if self.daemons[node].up {
            return;
        }
        if !self.hosts[node].on {
            self.boots += 1;
            let number = self.boots;
            self.hosts[node].power_on(number, self.now);
        }
        let back = if self.rng.percent(50) { 0 } else { self.rng.below(20) };
        let applied = self.daemons[node].applied.saturating_sub(back);
        let state = self.log.states[applied as usize].clone();
        let process = Process { node, number: self.daemons[node].process.number + 1 };
        let lease = self.hosts[node].lease.map(|lease| (lease.id, lease.deadline_ns));
        self.note(|| format!("n{}'s daemon starts at index {applied}", node + 1));
        self.daemons[node] = Daemon::new(process, self.now, state, applied, Holder::new(lease));
        self.daemons[node].term = self.log.term.saturating_sub(1);
        self.wake_daemon(node);
    }

    /// Everything is mended, and from now on nothing breaks.
    pub fn heal(&mut self) {
        if self.healed_at.is_none() {
            self.note(|| "everything is healed".to_owned());
            self.healed_at = Some(self.now);
            self.network.heal();
            for node in 0..NODES {
                let awake = self.now;
                self.daemons[node].paused_until = self.daemons[node].paused_until.min(awake);
                self.daemons[node].lags_until = 0;
                self.restart(node);
            }
        }
        self.take_back();
        let settled = self.unsettled().is_none();
        if settled {
            self.figures.settled_after = self.now - self.healed_at.unwrap_or(self.now) + 1;
        }
        self.heap.push(self.now + 1_000, Event::Heal);
    }
}
