//! Any fault, on nodes with networks and disks of their own: chosen by the seed, verified to have taken hold,
//! held while the others go on, healed, verified to be healed, and the whole cluster back before the next.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::choice::{Extent, Nemesis};
use super::kill::UNAVAILABLE_LIMIT;
use super::observed::{Footprint, Observed};
use super::ways::{self, Ways};
use super::{Progress, Unverified};
use crate::harness::Cluster;
use crate::history::{Fault, FaultKind, Journal};

/// Share of packets lost, per cent.
const LOSS: u8 = 25;
/// Datagrams sent each way to see some of them lost.
const SAMPLE: usize = 60;
/// What a slow node can send: enough for Raft at rest, not for much more.
const SLOW_KBIT: u32 = 400;

/// A node that boots without a quorum starts what it had after a minute; milliseconds.
const AUTOSTART: std::ops::Range<u64> = 55_000..65_000;

/// What is needed to make trouble.
pub struct Nature<'a> {
    pub cluster: &'a mut Cluster,
    pub journal: &'a Journal,
    pub progress: Progress,
    pub rng: &'a mut StdRng,
    /// How long faults are held, in milliseconds, where it is not as usual.
    pub hold: Option<std::ops::Range<u64>>,
}

/// What happened.
#[derive(Debug, Default)]
pub struct Trouble {
    pub faults: Vec<Fault>,
    /// Daemons that ended although nobody asked.
    pub ended: Vec<String>,
    pub observed: Observed,
}

/// Faults of `nemesis` until `extent`. What happened is in `trouble` even if the cluster does not come back.
///
/// # Errors
/// When a fault cannot be made or healed, and when the cluster does not come back from one.
pub async fn run(
    mut nature: Nature<'_>,
    nemesis: Nemesis,
    extent: Extent,
    trouble: &mut Trouble,
) -> Result<()> {
    let began = Instant::now();
    let offset = nature.rng.random_range(0..3);
    nature.hold = nemesis.hold();
    for round in 0.. {
        let over = match extent {
            Extent::Rounds(rounds) => round == rounds,
            Extent::Seconds(seconds) => round > 0 && began.elapsed().as_secs() >= seconds,
        };
        if over {
            break;
        }
        let between = nature.rng.random_range(5..20);
        nature.progress.more(between, UNAVAILABLE_LIMIT).await?;
        trouble.ended.extend(nature.cluster.revive()?);
        // One round in three is on the leader for certain, the first of a short run too.
        let on_leader =
            (round + offset) % 3 == 0 || extent == Extent::Rounds(1) || extent == Extent::Rounds(2);
        let kind = nemesis.draw(nature.rng);
        let done = nature.one(kind, on_leader, trouble).await;
        done.with_context(|| format!("round {round}, {}", trouble.last()))?;
    }
    nature.progress.more(5, UNAVAILABLE_LIMIT).await?;
    trouble.ended.extend(nature.cluster.revive()?);
    Ok(())
}

impl Trouble {
    fn last(&self) -> String {
        self.faults.last().map(|fault| format!("{:?} on {}", fault.kind, fault.node)).unwrap_or_default()
    }
}

fn is_of_host(kind: FaultKind) -> bool {
    use FaultKind::{
        ClockJump, Damage, DiskFull, DiskHung, DiskSlow, KillHost, KillShim, KillVmm, PauseHost, PauseVmm,
        Replace, Rolling, Truncate,
    };
    matches!(
        kind,
        ClockJump
            | KillHost
            | KillShim
            | KillVmm
            | PauseVmm
            | PauseHost
            | DiskFull
            | DiskSlow
            | DiskHung
            | Damage
            | Truncate
            | Replace
            | Rolling
    )
}

/// A majority, `victim` among them.
fn most(nodes: usize, victim: usize, rng: &mut StdRng) -> Vec<usize> {
    let mut others: Vec<_> = (0..nodes).filter(|node| *node != victim).collect();
    others.shuffle(rng);
    others.truncate(nodes / 2);
    others.push(victim);
    others
}

impl Nature<'_> {
    async fn one(&mut self, kind: FaultKind, on_leader: bool, trouble: &mut Trouble) -> Result<()> {
        let nodes = self.cluster.daemons.len();
        let leader = self.cluster.leader().await?;
        let always = matches!(kind, FaultKind::Restart | FaultKind::PartitionLeader | FaultKind::ClockJump);
        let victim = if on_leader || always { leader } else { self.rng.random_range(0..nodes) };
        let everyone = matches!(
            kind,
            FaultKind::PowerAll
                | FaultKind::Loss
                | FaultKind::Slow
                | FaultKind::PartitionRing
                | FaultKind::PartitionBridge
                | FaultKind::Rolling
        );
        let cut = ways::cut(kind, nodes, victim, self.rng);
        let hit = match &cut {
            _ if everyone => (0..nodes).collect(),
            Some((_, cut_off)) => cut_off.clone(),
            None if kind == FaultKind::PowerMost => most(nodes, victim, self.rng),
            None if kind == FaultKind::PartitionClients => {
                (0..nodes).filter(|node| *node == victim || self.rng.random_bool(0.5)).collect()
            }
            None => vec![victim],
        };
        let names: Vec<_> = hit.iter().map(|at| self.cluster.daemons[*at].name.clone()).collect();
        trouble.faults.push(Fault::new(kind, names.join(","), hit.contains(&leader), self.journal.now_ns()));
        let at = trouble.faults.len() - 1;
        self.journal.write(&serde_json::json!({"type": "begins", "fault": trouble.faults[at]}));
        match cut {
            Some((ways, cut_off)) => self.network(kind, &ways, &cut_off, at, trouble).await?,
            None if kind == FaultKind::PartitionClients => self.clients(&hit, at, trouble).await?,
            None if is_of_host(kind) => self.host(kind, victim, at, trouble).await?,
            None => self.process(kind, &hit, at, trouble).await?,
        }
        let healing = Instant::now();
        for node in 0..nodes {
            self.cluster.wait_ready(node).await?;
        }
        trouble.observed.recovered(kind, healing.elapsed());
        trouble.faults[at].healed_ns = Some(self.journal.now_ns());
        self.journal.write(&serde_json::json!({"type": "healed", "fault": trouble.faults[at]}));
        Ok(())
    }

    pub(super) fn took_hold(&self, at: usize, trouble: &mut Trouble) {
        trouble.faults[at].took_hold = true;
        self.journal.write(&serde_json::json!({"type": "fault", "fault": trouble.faults[at]}));
    }

    async fn network(
        &mut self,
        kind: FaultKind,
        ways: &Ways,
        cut_off: &[usize],
        at: usize,
        trouble: &mut Trouble,
    ) -> Result<()> {
        let nodes = self.cluster.daemons.len();
        let network = self.cluster.network.as_ref().context("the nodes have no network of their own")?;
        match kind {
            FaultKind::Slow => {
                for node in 0..nodes {
                    network.slow_down(node, SLOW_KBIT)?;
                }
            }
            _ => {
                let percent = if kind == FaultKind::Loss { LOSS } else { 100 };
                for to in 0..nodes {
                    let from: Vec<_> = ways.iter().filter(|way| way.1 == to).map(|way| way.0).collect();
                    network.drop_at(to, &from, percent)?;
                }
            }
        }
        if matches!(kind, FaultKind::Loss | FaultKind::Slow) {
            for (from, to) in ways {
                let bytes = if kind == FaultKind::Slow { 1_400 } else { 1 };
                let arrived = network.delivered(*from, *to, SAMPLE, bytes)?;
                // A way that is slow may have no room left for any.
                let least = usize::from(kind == FaultKind::Loss);
                if !(least..SAMPLE).contains(&arrived) {
                    return Err(Unverified(format!("{arrived} of {SAMPLE} datagrams arrived")).into());
                }
            }
        } else if !network.is_as(|from, to| ways.contains(&(from, to)))? {
            return Err(Unverified(format!("the network, of which is to be cut {ways:?}")).into());
        }
        self.took_hold(at, trouble);
        let before: Vec<_> = cut_off.iter().map(|node| Footprint::of(&self.cluster.daemons[*node])).collect();
        if kind == FaultKind::PartitionKill {
            let victim = cut_off[0];
            self.pause_for(500..3_000).await;
            self.cluster.daemons[victim].kill()?;
            self.cluster.daemons[victim].start()?;
        }
        if kind == FaultKind::PartitionPower {
            self.cluster.power_off(cut_off)?;
            self.cluster.power_on(cut_off[0])?;
            self.hold(AUTOSTART).await;
        }
        self.hold(3_000..9_000).await;
        let majority = matches!(
            kind,
            FaultKind::PartitionHalves
                | FaultKind::PartitionLeader
                | FaultKind::PartitionKill
                | FaultKind::PartitionPower
        );
        if majority {
            self.others_go_on().await?;
        }
        for (node, before) in cut_off.iter().zip(before) {
            trouble.observed.cut_off(&before, &Footprint::of(&self.cluster.daemons[*node]));
        }
        self.cluster.heal_network()
    }

    /// Requests to these nodes are lost, or their answers, or both.
    async fn clients(&mut self, hit: &[usize], at: usize, trouble: &mut Trouble) -> Result<()> {
        let nodes = self.cluster.daemons.len();
        let (requests, answers) = [(true, false), (false, true), (true, true)][self.rng.random_range(0..3)];
        let network = self.cluster.network.as_ref().context("the nodes have no network of their own")?;
        let clients = network.clients();
        if requests {
            hit.iter().try_for_each(|node| network.drop_at(*node, &[clients], 100))?;
        }
        if answers {
            network.drop_at(clients, hit, 100)?;
        }
        let is_cut = |from: usize, to: usize| {
            requests && from == clients && hit.contains(&to)
                || answers && to == clients && hit.contains(&from)
        };
        if !network.is_as(is_cut)? {
            return Err(Unverified(format!("the network, of which clients are to lose {hit:?}")).into());
        }
        self.took_hold(at, trouble);
        self.hold(3_000..9_000).await;
        if hit.len() < nodes {
            self.others_go_on().await?;
        }
        self.cluster.heal_network()
    }

    async fn process(
        &mut self,
        kind: FaultKind,
        hit: &[usize],
        at: usize,
        trouble: &mut Trouble,
    ) -> Result<()> {
        let victim = hit[0];
        match kind {
            FaultKind::Restart => self.cluster.daemons[victim].kill()?,
            FaultKind::Kill => self.cluster.daemons[victim].kill()?,
            FaultKind::Pause | FaultKind::PauseAgain => self.cluster.pause(victim)?,
            FaultKind::PowerOne | FaultKind::PowerMost | FaultKind::PowerAll => {
                self.cluster.power_off(hit)?
            }
            _ => unreachable!("a fault of the network"),
        }
        self.took_hold(at, trouble);
        if kind == FaultKind::PauseAgain {
            self.hold(500..6_000).await;
            self.cluster.resume(victim)?;
            self.pause_for(3_000..4_000).await;
            self.cluster.pause(victim)?;
            self.pause_for(9_000..11_000).await;
        } else if kind == FaultKind::PowerMost {
            self.pause_for(1_000..6_000).await;
        } else if !matches!(kind, FaultKind::Restart | FaultKind::PowerAll) {
            match (kind, &self.hold) {
                (FaultKind::Pause, _) => self.hold(500..6_000).await,
                (_, Some(_)) => self.hold(0..1).await,
                (_, None) => {}
            }
            self.others_go_on().await?;
        }
        match kind {
            FaultKind::Pause | FaultKind::PauseAgain => self.cluster.resume(victim),
            FaultKind::PowerOne => self.cluster.power_on(victim),
            FaultKind::PowerMost | FaultKind::PowerAll => self.power_on(hit).await,
            _ => self.cluster.daemons[victim].start(),
        }
    }

    /// In random order.
    async fn power_on(&mut self, nodes: &[usize]) -> Result<()> {
        let mut order = nodes.to_vec();
        order.shuffle(self.rng);
        for node in order {
            self.cluster.power_on(node)?;
            self.pause_for(0..2_000).await;
        }
        Ok(())
    }

    /// Some writes are acknowledged. Few: clients wait long at whoever does not answer.
    pub(super) async fn others_go_on(&mut self) -> Result<()> {
        let count = self.rng.random_range(3..8);
        self.progress.more(count, 2 * UNAVAILABLE_LIMIT).await
    }

    /// Holds the fault: for as long as the nemesis wants, or else as usual.
    pub(super) async fn hold(&mut self, usual_ms: std::ops::Range<u64>) {
        self.pause_for(self.hold.clone().unwrap_or(usual_ms)).await;
    }

    /// How long a fault lasts is part of the fault.
    pub(super) async fn pause_for(&mut self, ms: std::ops::Range<u64>) {
        tokio::time::sleep(Duration::from_millis(self.rng.random_range(ms))).await;
    }
}
