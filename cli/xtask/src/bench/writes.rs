//! Replicated writes through the REST API of three daemons, each one log entry, fsynced by a majority
//! before it is acknowledged. Clients are spread over the nodes, so two in three writes are forwarded.

use std::time::Duration;

use serde_json::json;

use super::load::Writer;
use crate::client::Client;
use crate::dev_cluster::DevCluster;

/// `count` clients, spread over the nodes.
///
/// # Errors
/// When the cluster's nodes cannot be read.
pub fn writers(cluster: &DevCluster, count: usize) -> anyhow::Result<Vec<Box<dyn Writer>>> {
    let nodes = cluster.nodes()?;
    let writer = |n: usize| {
        let client = Client::new(&nodes[n % nodes.len()].endpoint(), Duration::from_secs(10));
        Box::new(CreateAndDelete { client, name: format!("load-{count}-{n}"), created: false })
            as Box<dyn Writer>
    };
    Ok((0..count).map(writer).collect())
}

/// A flavor created and deleted in turn: both are writes.
struct CreateAndDelete {
    client: Client,
    name: String,
    created: bool,
}

impl Writer for CreateAndDelete {
    fn write(&mut self) -> anyhow::Result<()> {
        self.created = !self.created;
        if self.created {
            self.client.post("/v1/flavors", &json!({ "name": self.name, "vcpus": 1, "memory_mib": 16 }))?;
        } else {
            self.client.delete(&format!("/v1/flavors/{}", self.name))?;
        }
        Ok(())
    }
}
