//! Faults of one host: its processes, its disk, the bytes of its log, its place in the cluster.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rand::Rng;
use rand::seq::IndexedRandom;
use uuid::Uuid;

use super::trouble::{Nature, Trouble};
use crate::harness::process::{self, Process};
use crate::harness::{Cluster, wait_for};
use crate::history::FaultKind;

/// A VMM whose shim is gone ends by then, and a daemon that will not start has said so.
const LIMIT: Duration = Duration::from_secs(30);
/// A disk that is slow waits for so long, and then goes on for so long.
const HELD: Duration = Duration::from_millis(400);
const FREE: Duration = Duration::from_millis(100);

impl Nature<'_> {
    /// Makes the fault, holds it, and heals it; the caller waits for the cluster.
    pub(super) async fn host(
        &mut self,
        kind: FaultKind,
        victim: usize,
        at: usize,
        trouble: &mut Trouble,
    ) -> Result<()> {
        match kind {
            FaultKind::KillHost => {
                self.cluster.kill_host(victim)?;
                self.took_hold(at, trouble);
                self.hold(500..4_000).await;
                self.others_go_on().await?;
                self.cluster.daemons[victim].start()
            }
            FaultKind::PauseHost => {
                let frozen = self.cluster.freeze_host(victim)?;
                self.took_hold(at, trouble);
                self.hold(500..6_000).await;
                self.others_go_on().await?;
                frozen.go_on()
            }
            FaultKind::KillShim | FaultKind::KillVmm => self.kill_one(kind, victim, at, trouble).await,
            FaultKind::PauseVmm => {
                let (_, vmm) = self.some_vmm(victim)?;
                let stopped = vmm.stop()?;
                self.took_hold(at, trouble);
                self.hold(2_000..8_000).await;
                stopped.go_on()
            }
            FaultKind::DiskFull => self.fill(victim, at, trouble).await,
            FaultKind::DiskSlow | FaultKind::DiskHung => self.freeze(kind, victim, at, trouble).await,
            FaultKind::Damage | FaultKind::Truncate => self.damage(kind, victim, at, trouble).await,
            FaultKind::Replace => {
                self.cluster.daemons[victim].kill()?;
                self.took_hold(at, trouble);
                let other = (victim + 1) % self.cluster.daemons.len();
                self.cluster.replace(victim, other).await
            }
            FaultKind::ClockJump => self.set_clock(victim, at, trouble).await,
            FaultKind::Rolling => {
                self.took_hold(at, trouble);
                for node in 0..self.cluster.daemons.len() {
                    self.cluster.daemons[node].stop()?;
                    self.pause_for(0..1_500).await;
                    self.cluster.daemons[node].start()?;
                    self.cluster.wait_ready(node).await?;
                }
                Ok(())
            }
            _ => unreachable!("no fault of a host"),
        }
    }

    /// Ends the VMM or the shim of some VM there.
    async fn kill_one(
        &mut self,
        kind: FaultKind,
        victim: usize,
        at: usize,
        trouble: &mut Trouble,
    ) -> Result<()> {
        let (vm, vmm) = self.some_vmm(victim)?;
        let target = if kind == FaultKind::KillVmm {
            vmm.clone()
        } else {
            process::parent(vmm.pid).context("a VMM without a shim")?
        };
        trouble.faults[at].vms = vec![vm];
        target.kill()?;
        self.took_hold(at, trouble);
        wait_for("the VMM to end", LIMIT, || async { Ok((!vmm.is_alive()).then_some(())) }).await?;
        self.others_go_on().await
    }

    /// A VMM on this node, with its VM; on another one where it has none at the moment.
    fn some_vmm(&mut self, victim: usize) -> Result<(Uuid, Process)> {
        let nodes = self.cluster.daemons.len();
        let order = (0..nodes).map(|step| (victim + step) % nodes);
        let vmms = order.map(|node| self.cluster.vmms_of(node)).find(|vmms| !vmms.is_empty());
        let vmms = vmms.context("no VM runs on any node")?;
        Ok(vmms.choose(self.rng).context("there is one")?.clone())
    }

    /// The leader's wall clock is set, and set right again. Seen at the time that the node says it is.
    async fn set_clock(&mut self, victim: usize, at: usize, trouble: &mut Trouble) -> Result<()> {
        let minutes = [-120, -10, 11, 60, 600];
        let by_ms = minutes.choose(self.rng).copied().unwrap_or(60) * 60_000;
        let file = self.cluster.daemons[victim].clock_file();
        std::fs::write(&file, by_ms.to_string())?;
        self.clock_is(victim, by_ms).await?;
        self.took_hold(at, trouble);
        self.hold(4_000..9_000).await;
        self.others_go_on().await?;
        std::fs::write(&file, "0")?;
        self.clock_is(victim, 0).await
    }

    /// The daemon has said that its clock is wrong by so much.
    async fn clock_is(&self, victim: usize, by_ms: i64) -> Result<()> {
        let seen = self.cluster.daemons[victim].clock_file().with_extension("seen");
        wait_for("the wall clock to be set", LIMIT, || async {
            Ok((std::fs::read_to_string(&seen).unwrap_or_default() == by_ms.to_string()).then_some(()))
        })
        .await
    }

    async fn fill(&mut self, victim: usize, at: usize, trouble: &mut Trouble) -> Result<()> {
        let disk = self.cluster.scratch.disks.get(victim).context("the node has no disk of its own")?;
        disk.fill()?;
        self.took_hold(at, trouble);
        self.hold(3_000..8_000).await;
        self.others_go_on().await?;
        self.cluster.scratch.disks[victim].make_room()?;
        // A store that cannot be written ends its daemon; the service manager starts it again.
        let daemon = &mut self.cluster.daemons[victim];
        if let Some(status) = daemon.ended_by_itself() {
            ensure!(
                status.code() == Some(70),
                "{} ended with {status}: {}",
                daemon.name,
                daemon.last_words()
            );
            daemon.start()?;
        }
        Ok(())
    }

    async fn freeze(
        &mut self,
        kind: FaultKind,
        victim: usize,
        at: usize,
        trouble: &mut Trouble,
    ) -> Result<()> {
        let disk = self.cluster.scratch.disks.get(victim).context("the node has no disk of its own")?;
        let frozen = disk.freeze()?;
        frozen.verify()?;
        self.took_hold(at, trouble);
        if kind == FaultKind::DiskHung {
            self.hold(3_000..9_000).await;
            return frozen.thaw();
        }
        frozen.thaw()?;
        for _ in 0..self.rng.random_range(6..16) {
            tokio::time::sleep(FREE).await;
            let disk = self.cluster.scratch.disks.get(victim).context("the node has no disk of its own")?;
            let frozen = disk.freeze()?;
            tokio::time::sleep(HELD).await;
            frozen.thaw()?;
        }
        Ok(())
    }

    /// The node either does not start and says how to come back, which is then done, or is none the worse for it.
    async fn damage(
        &mut self,
        kind: FaultKind,
        victim: usize,
        at: usize,
        trouble: &mut Trouble,
    ) -> Result<()> {
        self.cluster.daemons[victim].kill()?;
        let share = self.rng.random_range(0.3..0.95);
        self.cluster.daemons[victim].damage_log(share, kind == FaultKind::Truncate)?;
        self.took_hold(at, trouble);
        self.cluster.daemons[victim].start()?;
        let began = std::time::Instant::now();
        loop {
            let daemon = &mut self.cluster.daemons[victim];
            if daemon.ended_by_itself().is_some() {
                let words = daemon.last_words();
                ensure!(
                    words.contains("holmd join"),
                    "{} does not say how to come back:\n{words}",
                    daemon.name
                );
                let other = (victim + 1) % self.cluster.daemons.len();
                return self.cluster.replace(victim, other).await;
            }
            let call = crate::harness::client::Call::get("/health").limit(Duration::from_secs(1));
            let health = daemon.client().call::<holm_api::Health>(call).await;
            if health.is_ok_and(|health| health.body.ready) {
                return Ok(());
            }
            if began.elapsed() > LIMIT {
                bail!("{} neither ends nor serves:\n{}", daemon.name, daemon.last_words());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Cluster {
    /// Ends daemon, shims and VMMs of a node at once. Verified.
    fn kill_host(&mut self, at: usize) -> Result<()> {
        let folder = self.daemons[at].dir().to_owned();
        if self.daemons[at].pid().is_some() {
            self.daemons[at].kill()?;
        }
        for _ in 0..10 {
            let found = process::of_folder(&folder);
            if found.is_empty() {
                return Ok(());
            }
            found.iter().try_for_each(Process::kill)?;
        }
        bail!("processes of {} go on: {:?}", self.daemons[at].name, process::of_folder(&folder))
    }
}
