//! `catch-up`: a node is away while the others write so much that the log it would need is purged. It comes
//! back, and while a snapshot reaches it and the others write on, its power goes, or that of all nodes. All
//! must end with the same state, and with exactly what was acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use holm_api::{Checkpoint, Cluster as ClusterView, Code, CreateFlavor, Event, Flavor, List};
use hyper::body::Bytes;
use rand::Rng;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::stored::Stored;
use super::{Judged, Running};
use crate::checker::{Verdict, events, faults, replicas, whole};
use crate::harness::client::{Call, Endpoint, Error};
use crate::harness::events::{Follower, Stream, drain};
use crate::harness::{Client, wait_for};
use crate::history::{Fault, FaultKind};
use crate::report::Counts;
use crate::seed;

const WRITERS: usize = 48;
/// The log is purged within so long under full load, also on a slow machine.
const PURGE_LIMIT: Duration = Duration::from_secs(240);
/// A node that comes back has everything within this.
const CATCH_UP_LIMIT: Duration = Duration::from_secs(90);

/// What one writer knows of its one flavor: the numbers it may have now.
type Known = Arc<Mutex<BTreeMap<usize, BTreeSet<u64>>>>;

#[derive(Serialize, Deserialize)]
pub(super) struct Evidence {
    /// Differences between what was acknowledged and what is there.
    lost: Vec<String>,
    /// By node: the events that are still kept.
    streams: Vec<Stream>,
    /// What was wrong with what nodes say of events they no longer keep.
    compaction: Vec<String>,
    written: u64,
    checkpoints: Vec<Checkpoint>,
    figures: Vec<String>,
    ended: Vec<String>,
    left: Vec<String>,
}

pub(super) async fn run(running: &mut Running) -> Result<Evidence> {
    let rounds = running.options.rounds.max(1);
    let mut rng = seed::stream(running.options.seed, "nemesis", 0);
    let known = Known::default();
    let (mut figures, mut ended, mut written) = (Vec::new(), Vec::new(), 0);
    let mut checkpoints: Vec<Checkpoint> = Vec::new();
    for round in 0..rounds {
        let leader = running.cluster.leader().await?;
        let count = running.cluster.daemons.len();
        let victim = if round % 2 == 0 { leader } else { (leader + 1) % count };
        let kind = if rng.random_bool(0.5) { FaultKind::PartitionLeader } else { FaultKind::PowerOne };
        let mut fault = Fault::new(
            kind,
            running.cluster.daemons[victim].name.clone(),
            victim == leader,
            running.journal.now_ns(),
        );
        let had = index(&running.cluster.daemons[victim].client().get::<ClusterView>(STALE).await?);
        cut(running, victim, kind)?;
        fault.took_hold = true;
        running.journal.write(&serde_json::json!({"type": "fault", "fault": fault}));
        let began = Instant::now();
        let writers = Writers::start(running, victim, &known);
        writers.until_purged(had).await?;
        figures.push(format!(
            "round {round}: {kind:?} on {}, the log was purged past index {had} within {:.1} s",
            fault.node,
            began.elapsed().as_secs_f64()
        ));
        heal(running, victim, kind)?;
        // Into the transfer, or the installation, or shortly after; the others write on.
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..1_500))).await;
        let also = match rng.random_range(0..3) {
            0 => Vec::new(),
            1 => vec![victim],
            _ => (0..count).collect(),
        };
        let back = Instant::now();
        running.cluster.power_off(&also)?;
        for at in &also {
            running.cluster.power_on(*at)?;
        }
        for at in 0..count {
            running.cluster.wait_ready(at).await?;
        }
        written += writers.end().await?;
        checkpoints = running.cluster.checkpoints(CATCH_UP_LIMIT).await?;
        figures.push(format!(
            "round {round}: the power of {} more went while it caught up; all were equal after {:.1} s",
            also.len(),
            back.elapsed().as_secs_f64()
        ));
        fault.healed_ns = Some(running.journal.now_ns());
        running.journal.write(&serde_json::json!({"type": "healed", "fault": fault}));
        ended.extend(running.cluster.revive()?);
    }
    running.cluster.wait_whole().await?;
    let mut lost = Vec::new();
    for daemon in &running.cluster.daemons {
        let found: List<Flavor> = daemon.client().get("/v1/flavors?limit=1000").await?;
        let names = found.items.into_iter().map(|flavor| flavor.name).collect();
        lost.extend(differences(&daemon.name, &names, &known));
    }
    let (streams, compaction) = watched(running).await?;
    let left = running.cluster.shut_down();
    Ok(Evidence { streams, compaction, lost, written, checkpoints, figures, ended, left })
}

/// A watcher that asks for events of long ago is told that they are gone, and from where on it can go on; it does,
/// at every node, and gets the same everywhere.
async fn watched(running: &Running) -> Result<(Vec<Stream>, Vec<String>)> {
    let (mut followers, mut wrong) = (Vec::new(), Vec::new());
    for daemon in &running.cluster.daemons {
        let call = Call::get("/v1/events?follow=false&since=1");
        match daemon.client().call::<List<Event>>(call).await {
            Err(Error::Refused(problem)) if problem.code == Code::Compacted => {
                let oldest = problem.detail.rsplit(' ').next().and_then(|word| word.parse().ok());
                let oldest = oldest.with_context(|| format!("no revision in {:?}", problem.detail))?;
                followers.push(Follower::start(&daemon.name, daemon.endpoint(), oldest));
            }
            other => wrong.push(format!("{}: events after revision 1: {other:?}", daemon.name)),
        }
    }
    let streams = drain(&mut running.cluster.daemons[0].client(), followers, CATCH_UP_LIMIT).await?;
    Ok((streams, wrong))
}

pub(super) fn judge(stored: &Stored<Evidence>) -> Result<Judged> {
    let (evidence, faults) = (&stored.evidence, stored.faults()?);
    let until = evidence.streams.iter().map(|stream| stream.at).max().unwrap_or_default();
    let verdicts = vec![
        Verdict::of("kept", evidence.lost.clone(), format!("{} writes acknowledged", evidence.written)),
        replicas::check(stored.parameters.nodes, &evidence.checkpoints),
        Verdict::of(
            "compaction",
            evidence.compaction.clone(),
            "old events are refused with a way on".to_owned(),
        ),
        events::check(stored.parameters.nodes, until, &evidence.streams),
        faults::check(stored.parameters.expected(&faults), &faults),
        whole::check(&evidence.ended, &evidence.left),
    ];
    let counts = Counts { faults: faults.len(), ok: evidence.written, ..Counts::default() };
    Ok(Judged { verdicts, figures: evidence.figures.clone(), counts })
}

const STALE: &str = "/v1/cluster?consistency=stale";

fn index(view: &ClusterView) -> u64 {
    view.applied_index
}

fn cut(running: &mut Running, victim: usize, kind: FaultKind) -> Result<()> {
    if kind == FaultKind::PowerOne {
        return running.cluster.power_off(&[victim]);
    }
    let nodes = running.cluster.daemons.len();
    let network = running.cluster.network.as_ref().context("the nodes have no network of their own")?;
    let others: Vec<_> = (0..nodes).filter(|node| *node != victim).collect();
    network.drop_at(victim, &others, 100)?;
    others.iter().try_for_each(|other| network.drop_at(*other, &[victim], 100))?;
    ensure!(network.is_as(|from, to| (from == victim) != (to == victim))?, "the cut is not as wanted");
    Ok(())
}

fn heal(running: &mut Running, victim: usize, kind: FaultKind) -> Result<()> {
    if kind == FaultKind::PowerOne {
        return running.cluster.power_on(victim);
    }
    let network = running.cluster.network.as_ref().context("the nodes have no network of their own")?;
    network.heal()?;
    ensure!(network.is_as(|_, _| false)?, "the network was not healed");
    Ok(())
}

/// Writers at all nodes but the victim.
struct Writers {
    others: Vec<Endpoint>,
    stop: Arc<AtomicBool>,
    tasks: JoinSet<u64>,
}

impl Writers {
    fn start(running: &Running, victim: usize, known: &Known) -> Self {
        let daemons = running.cluster.daemons.iter().enumerate();
        let others: Vec<_> =
            daemons.filter(|(at, _)| *at != victim).map(|(_, daemon)| daemon.endpoint()).collect();
        let (stop, mut tasks) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
        for writer in 0..WRITERS {
            let (at, known, stop) = (others[writer % others.len()], known.clone(), stop.clone());
            tasks.spawn(write(writer, at, known, stop));
        }
        Self { others, stop, tasks }
    }

    /// Each of the others has purged what a node at index `had` would need next.
    async fn until_purged(&self, had: u64) -> Result<()> {
        wait_for("the log to be purged", PURGE_LIMIT, || async {
            let mut least = u64::MAX;
            for at in &self.others {
                least = least.min(purged_index(*at).await.unwrap_or(0));
            }
            // Not again at once: it is a whole page each time.
            tokio::time::sleep(Duration::from_millis(200)).await;
            Ok((least > had + 1).then_some(()))
        })
        .await
    }

    /// What was acknowledged. Nothing is left unknown.
    async fn end(mut self) -> Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        let mut written = 0;
        while let Some(done) = self.tasks.join_next().await {
            written += done?;
        }
        Ok(written)
    }
}

async fn purged_index(at: Endpoint) -> Option<u64> {
    let text: Bytes = Client::new(at).raw(Call::get("/metrics")).await.ok()?.body;
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = text.lines().find(|line| line.starts_with("holm_raft_purged_index "))?;
    line.split(' ').nth(1)?.parse().ok()
}

/// Replaces its one flavor again and again: the next is added, then the one before removed.
async fn write(writer: usize, at: Endpoint, known: Known, stop: Arc<AtomicBool>) -> u64 {
    let mut client = Client::new(at);
    let mut number = newest(&known, writer).map_or(0, |number| number + 1);
    let mut written = 0;
    while !stop.load(Ordering::Relaxed) {
        // It may be there from before it is asked for.
        note(&known, writer, |of| of.insert(number));
        let wanted = CreateFlavor {
            name: name(writer, number),
            vcpus: 1,
            memory_mib: 64,
            disk_gib: 0,
            extra_specs: Default::default(),
        };
        let key = format!("add-{writer}-{number}");
        while !done(client.raw(Call::post("/v1/flavors", &wanted).key(&key)).await) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        written += 1;
        for old in all(&known, writer).into_iter().filter(|old| *old != number) {
            let path = format!("/v1/flavors/{}", name(writer, old));
            while !done(client.raw(Call::delete(&path).key(format!("remove-{writer}-{old}"))).await) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            written += 1;
            note(&known, writer, |of| of.remove(&old));
        }
        number += 1;
    }
    written
}

/// It has taken effect. Not found: an earlier try has.
fn done<T>(result: Result<T, Error>) -> bool {
    match result {
        Ok(_) => true,
        Err(error) => error.code() == Some(Code::NotFound),
    }
}

fn name(writer: usize, number: u64) -> String {
    format!("w{writer}-{number}")
}

fn note(known: &Known, writer: usize, change: impl FnOnce(&mut BTreeSet<u64>) -> bool) {
    change(known.lock().unwrap_or_else(PoisonError::into_inner).entry(writer).or_default());
}

fn all(known: &Known, writer: usize) -> Vec<u64> {
    let known = known.lock().unwrap_or_else(PoisonError::into_inner);
    known.get(&writer).into_iter().flatten().copied().collect()
}

fn newest(known: &Known, writer: usize) -> Option<u64> {
    all(known, writer).into_iter().max()
}

/// Writers have ended with everything acknowledged: there is exactly what they know of.
fn differences(node: &str, found: &BTreeSet<String>, known: &Known) -> Vec<String> {
    let known = known.lock().unwrap_or_else(PoisonError::into_inner);
    let wanted: BTreeSet<_> =
        known.iter().flat_map(|(writer, of)| of.iter().map(|number| name(*writer, *number))).collect();
    let lost = wanted.difference(found).map(|name| format!("{name} was acknowledged and is not at {node}"));
    let back = found.difference(&wanted).map(|name| format!("{name} was removed and is at {node}"));
    lost.chain(back).collect()
}
