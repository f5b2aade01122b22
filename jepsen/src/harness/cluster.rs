//! A cluster of real daemons: started, waited for, and ended with everything it started.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::future::join_all;
use holm_api::{Checkpoint, Cluster as ClusterView, Health, Role};

use super::address::{self, Addresses};
use super::binary;
use super::client::Call;
use super::daemon::{Daemon, Hypervisor};
use super::disk::Disk;
use super::leftovers;
use super::netns::Network;
use super::place::Place;
use super::scratch::Scratch;
use super::wait::wait_for;

/// A daemon serves within this long after its start, elections included.
const START_LIMIT: Duration = Duration::from_secs(30);
const PROBE_LIMIT: Duration = Duration::from_secs(3);

/// What to start.
#[derive(Clone, Debug)]
pub struct Setup {
    pub nodes: usize,
    pub hypervisor: Hypervisor,
    /// `PATH` of the daemons, ours if not given.
    pub search_path: Option<String>,
    /// Bugs the daemons are to have, by name, with a comma between; needs the program that has them.
    pub plant: Option<String>,
    /// By how many millionths each node's clock goes faster; as it should where nothing is said. Needs that program, too.
    pub clock_ppm: Vec<i64>,
}

impl Setup {
    /// `nodes` nodes with the simulated hypervisor.
    pub fn simulated(nodes: usize) -> Self {
        let (search_path, plant, clock_ppm) = (None, None, Vec::new());
        Self { nodes, hypervisor: Hypervisor::Simulated, search_path, plant, clock_ppm }
    }

    /// `nodes` nodes that boot real guests.
    pub fn real(nodes: usize) -> Self {
        Self { hypervisor: Hypervisor::CloudHypervisor, ..Self::simulated(nodes) }
    }

    fn program(&self) -> Result<PathBuf> {
        if self.plant.is_some() { binary::holmd_planted() } else { binary::holmd() }
    }
}

/// Why nodes cannot have networks and disks of their own here, if so.
pub fn isolation_missing() -> Option<String> {
    Network::missing().or_else(|| Disk::missing().map(str::to_owned))
}

/// The daemons. Dropped in this order: each daemon, then what works in their folder, then the folder, then
/// their network.
#[derive(Debug)]
pub struct Cluster {
    pub daemons: Vec<Daemon>,
    pub scratch: Scratch,
    /// Where nodes have networks and disks of their own.
    pub network: Option<Network>,
}

impl Cluster {
    /// Starts the first node, lets the others join, and waits until all are voters and up.
    ///
    /// # Errors
    /// When a daemon does not do what an operator was promised.
    pub async fn start(setup: &Setup) -> Result<Self> {
        leftovers::remove();
        let program = setup.program()?;
        let scratch = Scratch::new()?;
        let mut daemons = Vec::new();
        for (at, addresses) in address::pick(setup.nodes)?.into_iter().enumerate() {
            let name = format!("n{}", at + 1);
            let dir = scratch.path().join(&name);
            daemons.push(Daemon::new(&name, addresses, &dir, &program, setup)?);
        }
        let mut cluster = Self { daemons, scratch, network: None };
        cluster.form(setup.nodes).await?;
        Ok(cluster)
    }

    /// The same, each node with a network namespace and a disk of its own; clients use the Unix sockets.
    ///
    /// # Errors
    /// As [`start`](Self::start), and where there can be none of these (see [`isolation_missing`]).
    pub async fn start_isolated(setup: &Setup) -> Result<Self> {
        let mut cluster = Self::prepare_isolated(setup)?;
        cluster.form(setup.nodes).await?;
        Ok(cluster)
    }

    /// Hosts for such a cluster, without any node on them yet.
    ///
    /// # Errors
    /// Where there can be none.
    pub fn prepare_isolated(setup: &Setup) -> Result<Self> {
        leftovers::remove();
        let program = setup.program()?;
        let network = Network::new(setup.nodes)?;
        let mut scratch = Scratch::new()?;
        let mut daemons = Vec::new();
        for at in 0..setup.nodes {
            let name = format!("n{}", at + 1);
            let dir = scratch.path().join(&name);
            let addresses = Addresses::on(network.address(at).into());
            let mut daemon = Daemon::new(&name, addresses, &dir, &program, setup)?;
            if let Some(ppm) = setup.clock_ppm.get(at).filter(|ppm| **ppm != 0) {
                daemon.run_clock_at(*ppm)?;
            }
            scratch.disks.push(Disk::new(dir.join("disk.img"), daemon.data_dir())?);
            let place = Place::new(network.namespace(at), daemon.data_dir(), &dir)?;
            daemons.push(daemon.at(place));
        }
        Ok(Self { daemons, scratch, network: Some(network) })
    }

    async fn form(&mut self, nodes: usize) -> Result<()> {
        self.daemons[0].init("jepsen")?;
        self.daemons[0].start()?;
        self.wait_ready(0).await?;
        for at in 1..nodes {
            self.daemons[at].join(&self.daemons[0])?;
            self.daemons[at].start()?;
        }
        for at in 1..nodes {
            self.wait_ready(at).await?;
        }
        self.daemons.iter().try_for_each(Daemon::check_clock)?;
        self.wait_whole().await
    }

    /// Waits until the node serves linearizable reads.
    ///
    /// # Errors
    /// When it ends, or does not in time.
    pub async fn wait_ready(&mut self, at: usize) -> Result<Duration> {
        let began = std::time::Instant::now();
        let daemon = &mut self.daemons[at];
        let mut client = daemon.client();
        loop {
            let health = client.call::<Health>(Call::get("/health").limit(PROBE_LIMIT)).await;
            if health.is_ok_and(|health| health.body.ready) {
                return Ok(began.elapsed());
            }
            if let Some(status) = daemon.ended_by_itself() {
                bail!("{} ended while it started ({status}):\n{}", daemon.name, daemon.last_words());
            }
            if began.elapsed() > START_LIMIT {
                bail!(
                    "{} is not ready within {} s:\n{}",
                    daemon.name,
                    START_LIMIT.as_secs(),
                    daemon.last_words()
                );
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until every node is a voter and up, as every node sees it.
    ///
    /// # Errors
    /// When that does not happen in time.
    pub async fn wait_whole(&self) -> Result<()> {
        for daemon in &self.daemons {
            wait_for(
                &format!("all nodes to be voters and up, as {} sees it", daemon.name),
                START_LIMIT,
                || async {
                    let view = daemon
                        .client()
                        .call::<ClusterView>(Call::get("/v1/cluster").limit(PROBE_LIMIT))
                        .await;
                    let Ok(view) = view else { return Ok(None) };
                    let members = &view.body.members;
                    let good = |role| matches!(role, Role::Leader | Role::Voter);
                    let whole = members.len() == self.daemons.len()
                        && members.iter().all(|member| member.up && good(member.role));
                    Ok(whole.then_some(()))
                },
            )
            .await?;
        }
        Ok(())
    }

    /// The node that leads, as a quorum of the running ones agrees.
    ///
    /// # Errors
    /// When there is none in time.
    pub async fn leader(&self) -> Result<usize> {
        wait_for("a leader", START_LIMIT, || async {
            let asked = self.daemons.iter().map(|daemon| async move {
                let call = Call::get("/v1/cluster?consistency=stale").limit(PROBE_LIMIT);
                daemon.client().call::<ClusterView>(call).await.ok().map(|view| view.body)
            });
            let views: Vec<_> = join_all(asked).await.into_iter().flatten().collect();
            let leader = views.iter().max_by_key(|view| view.term).and_then(|view| view.leader.clone());
            let Some(leader) = leader else { return Ok(None) };
            let agreed = views.iter().filter(|view| view.leader.as_ref() == Some(&leader)).count();
            let at = self.daemons.iter().position(|daemon| daemon.name == leader.name);
            Ok(at.filter(|at| agreed * 2 > self.daemons.len() && self.daemons[*at].pid().is_some()))
        })
        .await
    }

    /// What each node has applied, asked until all are at the same log index.
    ///
    /// # Errors
    /// When they never are.
    pub async fn checkpoints(&self, limit: Duration) -> Result<Vec<Checkpoint>> {
        wait_for("all nodes to be at one log index", limit, || async {
            let asked = self.daemons.iter().map(|daemon| async move {
                let call = Call::get("/v1/cluster/checkpoint").limit(PROBE_LIMIT);
                daemon.client().call::<Checkpoint>(call).await.ok().map(|reply| reply.body)
            });
            let found: Option<Vec<_>> = join_all(asked).await.into_iter().collect();
            Ok(found.filter(|all| all.windows(2).all(|pair| pair[0].log_index == pair[1].log_index)))
        })
        .await
    }

    /// Daemons that ended although nobody asked, in words; they are started again.
    ///
    /// # Errors
    /// When one cannot be started.
    pub fn revive(&mut self) -> Result<Vec<String>> {
        let mut ended = Vec::new();
        for daemon in &mut self.daemons {
            if let Some(status) = daemon.ended_by_itself() {
                ended.push(format!("{} ended by itself ({status}):\n{}", daemon.name, daemon.last_words()));
                daemon.start()?;
            }
        }
        Ok(ended)
    }

    /// Stops every daemon in order and says what is left of the cluster: nothing should be.
    pub fn shut_down(&mut self) -> Vec<String> {
        let mut left = Vec::new();
        for daemon in &mut self.daemons {
            if daemon.pid().is_some()
                && let Err(error) = daemon.stop()
            {
                left.push(format!("{error:#}"));
            }
        }
        left.extend(self.scratch.leftovers());
        left
    }

    /// Copies the daemons' logs.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn save_logs(&self, to: &Path) -> Result<()> {
        for daemon in &self.daemons {
            let copy = to.join(format!("{}.log", daemon.name));
            std::fs::copy(daemon.log_file(), &copy)
                .with_context(|| format!("cannot write {}", copy.display()))?;
        }
        Ok(())
    }

    /// A built-in test guest as an image file's bytes.
    ///
    /// # Errors
    /// When `holmd` cannot make it.
    pub fn test_guest(&self, variant: &str) -> Result<Vec<u8>> {
        let file = self.scratch.path().join(format!("{variant}.elf"));
        let status =
            Command::new(binary::holmd()?).args(["test-guest", "--variant", variant]).arg(&file).status()?;
        if !status.success() {
            bail!("holmd test-guest --variant {variant} failed ({status})");
        }
        Ok(std::fs::read(&file)?)
    }
}
