//! What goes wrong, one thing at a time or several at once, and what puts it right again.

use crate::below::{MS, Ns, now};
use crate::cluster::Cluster;
use crate::disk::End;
use crate::host::Speed;
use crate::net::{Pace, lock};
use crate::rng::Rng;

/// Something that is due later.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Repair {
    Start(usize),
    GoOn(usize),
    Links,
    Disk(usize),
    Pace(Pace),
}

impl Repair {
    pub(crate) fn perform(self, cluster: &mut Cluster) {
        match self {
            Self::Start(host) if !cluster.is_running(host) => cluster.start(host),
            Self::Start(_) => {}
            Self::GoOn(host) => cluster.pause(host, false),
            Self::Links => {
                cluster.note(format_args!("all links work"));
                lock(&cluster.world.net).heal();
            }
            Self::Disk(host) => set_speed(cluster, host, Speed::Fine),
            Self::Pace(pace) => {
                cluster.note(format_args!("the network is as before"));
                lock(&cluster.world.net).pace = pace;
            }
        }
    }
}

fn set_speed(cluster: &Cluster, host: usize, speed: Speed) {
    cluster.note(format_args!("the disk of node {} is {speed:?}", host + 1));
    *lock(&cluster.world.speeds[host]) = speed;
}

/// Breaks something. Answers what puts it right, and when.
pub(crate) fn any(cluster: &mut Cluster, rng: &mut Rng) -> Vec<(Ns, Repair)> {
    let host = rng.index(cluster.hosts());
    match rng.below(100) {
        0..15 => isolate(cluster, rng, host),
        15..25 => cut_one_way(cluster, rng, host),
        25..32 => halve(cluster, rng),
        32..44 => end(cluster, rng, host, End::Process),
        44..58 => end(cluster, rng, host, End::Power),
        58..64 => end_all(cluster, rng),
        64..72 => pause(cluster, rng, host),
        72..80 => slow_disk(cluster, rng, host),
        80..86 => break_disk(cluster, rng, host),
        86..92 => slow_network(cluster, rng),
        92..95 => set_clock(cluster, rng, host),
        95..98 => hand_over(cluster, host),
        _ => lose_store(cluster, host),
    }
}

fn later(rng: &mut Rng, longest_ms: u64) -> Ns {
    now() + rng.between(50..longest_ms) * MS
}

fn isolate(cluster: &Cluster, rng: &mut Rng, host: usize) -> Vec<(Ns, Repair)> {
    cluster.note(format_args!("node {} is cut off", host + 1));
    let mut net = lock(&cluster.world.net);
    for other in (0..cluster.hosts()).filter(|other| *other != host) {
        net.cut(host, other);
        net.cut(other, host);
    }
    vec![(later(rng, 8_000), Repair::Links)]
}

fn cut_one_way(cluster: &Cluster, rng: &mut Rng, host: usize) -> Vec<(Ns, Repair)> {
    let to = (host + 1 + rng.index(cluster.hosts() - 1)) % cluster.hosts();
    cluster.note(format_args!("nothing of node {} reaches node {}", host + 1, to + 1));
    lock(&cluster.world.net).cut(host, to);
    vec![(later(rng, 8_000), Repair::Links)]
}

fn halve(cluster: &Cluster, rng: &mut Rng) -> Vec<(Ns, Repair)> {
    let sides: Vec<bool> = (0..cluster.hosts()).map(|_| rng.percent(50)).collect();
    cluster.note(format_args!("the network falls apart: {sides:?}"));
    let mut net = lock(&cluster.world.net);
    for (one, side) in sides.iter().enumerate() {
        for other in (0..sides.len()).filter(|other| sides[*other] != *side) {
            net.cut(one, other);
        }
    }
    vec![(later(rng, 6_000), Repair::Links)]
}

fn end(cluster: &mut Cluster, rng: &mut Rng, host: usize, how: End) -> Vec<(Ns, Repair)> {
    cluster.end(host, how);
    back(rng, host, 5_000)
}

/// A host that has lost its store is started, too: it has to refuse.
fn back(rng: &mut Rng, host: usize, longest_ms: u64) -> Vec<(Ns, Repair)> {
    vec![(later(rng, longest_ms), Repair::Start(host))]
}

fn end_all(cluster: &mut Cluster, rng: &mut Rng) -> Vec<(Ns, Repair)> {
    let mut repairs = Vec::new();
    for host in 0..cluster.hosts() {
        cluster.end(host, End::Power);
        repairs.extend(back(rng, host, 1_500));
    }
    repairs
}

fn pause(cluster: &mut Cluster, rng: &mut Rng, host: usize) -> Vec<(Ns, Repair)> {
    cluster.pause(host, true);
    vec![(later(rng, 6_000), Repair::GoOn(host))]
}

fn slow_disk(cluster: &Cluster, rng: &mut Rng, host: usize) -> Vec<(Ns, Repair)> {
    let speed = if rng.percent(70) { Speed::Slow } else { Speed::Hanging };
    set_speed(cluster, host, speed);
    vec![(later(rng, 8_000), Repair::Disk(host))]
}

/// The next write, or fsync, fails, and the process with it.
fn break_disk(cluster: &Cluster, rng: &mut Rng, host: usize) -> Vec<(Ns, Repair)> {
    let mut disk = lock(&cluster.world.disks[host]);
    if rng.percent(50) {
        cluster.note(format_args!("the next fsync of node {} fails", host + 1));
        disk.fails_fsync = true;
    } else {
        cluster.note(format_args!("the next write of node {} finds no room", host + 1));
        disk.is_full = true;
    }
    back(rng, host, 5_000)
}

fn slow_network(cluster: &Cluster, rng: &mut Rng) -> Vec<(Ns, Repair)> {
    let mut net = lock(&cluster.world.net);
    let before = net.pace;
    net.pace = Pace { fastest: MS, slowest: rng.between(10..250) * MS, lost_percent: rng.below(20) };
    cluster.note(format_args!("the network is slow: {:?}", net.pace));
    vec![(later(rng, 5_000), Repair::Pace(before))]
}

fn set_clock(cluster: &mut Cluster, rng: &mut Rng, host: usize) -> Vec<(Ns, Repair)> {
    let by_ms = i64::try_from(rng.below(7_200_000)).expect("two hours in milliseconds fit") - 3_600_000;
    cluster.set_wall_offset_ms(host, by_ms);
    Vec::new()
}

fn hand_over(cluster: &mut Cluster, host: usize) -> Vec<(Ns, Repair)> {
    let Some(handle) = cluster.handle(host) else { return Vec::new() };
    cluster.note(format_args!("node {} is asked to hand over", host + 1));
    cluster.spawn(host, async move { drop(handle.transfer_leadership(None).await) });
    Vec::new()
}

/// Of a minority, for ever.
fn lose_store(cluster: &mut Cluster, host: usize) -> Vec<(Ns, Repair)> {
    let lost = (0..cluster.hosts()).filter(|host| cluster.is_lost(*host)).count();
    if (lost + 1) * 2 >= cluster.hosts() {
        return Vec::new();
    }
    cluster.lose_store(host);
    vec![(now() + 500 * MS, Repair::Start(host))]
}
