//! Members that go and come: a node whose data is lost leaves the cluster and joins it as a new one. And nodes
//! that are cut off by hand, where a test and not a nemesis decides when.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holm_api::{Deleted, Node};

use super::client::Call;
use super::cluster::Cluster;
use super::wait::wait_for;

/// The cluster has noticed that a node is down by then.
const DOWN_LIMIT: Duration = Duration::from_secs(30);

impl Cluster {
    /// Removes a node that does not run, wipes its host, and lets it join again as a new member, all through the
    /// node `by`. Images and disks it held are lost.
    ///
    /// # Errors
    /// When the cluster refuses.
    pub async fn replace(&mut self, at: usize, by: usize) -> Result<()> {
        let (name, through) = (self.daemons[at].name.clone(), self.daemons[by].endpoint());
        let before = wait_for(&format!("{name} to be down"), DOWN_LIMIT, || async {
            let node: Node = super::Client::new(through).get(&format!("/v1/nodes/{name}")).await?;
            Ok((!node.up).then_some(node.id))
        })
        .await?;
        let remove = Call::delete(format!("/v1/nodes/{name}?confirm_node_off=true"));
        self.daemons[by]
            .client()
            .call::<Deleted>(remove)
            .await
            .with_context(|| format!("removing {name}"))?;
        self.daemons[at].wipe()?;
        self.daemons[at].join(&self.daemons[by])?;
        self.daemons[at].start()?;
        self.wait_ready(at).await?;
        let after: Node = self.daemons[by].client().get(&format!("/v1/nodes/{name}")).await?;
        ensure!(after.id > before, "{name} was node {before} and is now node {}", after.id);
        self.wait_whole().await
    }

    /// Nobody reaches this node, and it reaches nobody. Verified.
    ///
    /// # Errors
    /// When the network is not as wanted.
    pub fn cut_off(&self, at: usize) -> Result<()> {
        let network = self.network.as_ref().context("the nodes have no network of their own")?;
        let others: Vec<_> = (0..self.daemons.len()).filter(|node| *node != at).collect();
        network.drop_at(at, &others, 100)?;
        others.iter().try_for_each(|other| network.drop_at(*other, &[at], 100))?;
        let clients = network.clients();
        let is_cut = |from, to| (from == at) != (to == at) && from != clients && to != clients;
        ensure!(network.is_as(is_cut)?, "the cut is not as wanted");
        Ok(())
    }

    /// Everybody reaches everybody. Verified.
    ///
    /// # Errors
    /// When the network is not as wanted.
    pub fn heal_network(&self) -> Result<()> {
        let network = self.network.as_ref().context("the nodes have no network of their own")?;
        network.heal()?;
        ensure!(network.is_as(|_, _| false)?, "the network was not healed");
        Ok(())
    }
}
