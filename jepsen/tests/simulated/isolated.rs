//! Nodes with networks and disks of their own: one short run, and cases that such runs brought to light.
//! `holm-jepsen matrix` runs the workloads under each kind of fault.

use std::time::Duration;

use anyhow::{Context, Result};
use holm_api::{Image, Vm, VmStatus};
use holm_jepsen::harness::client::Call;
use holm_jepsen::harness::{Cluster, Setup, wait_for};
use holm_jepsen::nemesis::Nemesis;
use holm_jepsen::run::Test;
use serde_json::json;

use crate::isolation;

const LIMIT: Duration = Duration::from_secs(40);

#[tokio::test(flavor = "multi_thread")]
async fn vms_keep_every_promise_while_a_leader_is_cut_off() {
    isolation::run("a_leader_is_cut_off", Test::VmLifecycle, Nemesis::PartitionLeader, 1).await;
}

/// What `holmd init` and `holmd join` wrote was not durable: the node never came back.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_loses_power_right_after_it_was_made_comes_back() -> Result<()> {
    if isolation::skipped("a_node_that_loses_power_right_after_it_was_made") {
        return Ok(());
    }
    let mut cluster = Cluster::start_isolated(&Setup::simulated(3)).await?;
    cluster.power_off(&[0, 1, 2])?;
    for node in [2, 0, 1] {
        cluster.power_on(node)?;
    }
    for node in 0..3 {
        cluster.wait_ready(node).await?;
    }
    cluster.wait_whole().await?;
    assert_eq!(cluster.shut_down(), Vec::<String>::new());
    Ok(())
}

/// A VM was called impossible because for some seconds nobody could give its image.
#[tokio::test(flavor = "multi_thread")]
async fn an_image_whose_holder_cannot_be_reached_is_waited_for() -> Result<()> {
    if isolation::skipped("an_image_whose_holder_cannot_be_reached") {
        return Ok(());
    }
    let mut cluster = Cluster::start_isolated(&Setup::simulated(3)).await?;
    let mut client = cluster.daemons[0].client();
    client.create_tiny_flavor().await?;
    let network = cluster.network.as_ref().context("nodes have networks")?;
    // Bytes cannot be fetched from the one node that will have them; everything else goes on.
    network.close_port(0, cluster.daemons[0].addresses.api.port())?;
    let image: Image = client.import_kernel("guest", cluster.test_guest("banner")?).await?;
    assert_eq!(image.holders.len(), 1);
    let vm = json!({"name": "a", "flavor": "tiny", "image": "guest", "node": "n2"});
    client.call::<Vm>(Call::post("/v1/vms", &vm)).await?;
    let endpoint = cluster.daemons[0].endpoint();
    let tried = wait_for("the VM to say that it waits for its image", LIMIT, || async {
        let vm: Vm = holm_jepsen::harness::Client::new(endpoint).get("/v1/vms/a").await?;
        let says = serde_json::to_string(&vm)?.contains("waiting for its image");
        Ok((says || vm.status == VmStatus::Error).then_some(vm))
    });
    assert_eq!(tried.await?.status, VmStatus::Build);
    network.heal()?;
    client.wait_status("a", VmStatus::Active, LIMIT).await?;
    client.delete_vm("a", LIMIT).await?;
    assert_eq!(cluster.shut_down(), Vec::<String>::new());
    Ok(())
}
