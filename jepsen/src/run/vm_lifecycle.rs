//! `vm-lifecycle`: four clients create and delete VMs while random nodes are killed; afterwards every node is
//! asked what there is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use holm_api::{Checkpoint, Cluster as ClusterView, List, Node, Vm, VmStatus};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::measure::{counts, unavailability};
use super::stored::Stored;
use super::{Aftermath, Judged, OwnFaults, Running};
use crate::checker::{
    self, Verdict, acknowledged, claims, epochs, events, faults, leaders, lifetimes, once, reads, replicas,
    settled, spared, states, unique, vacuity, whole,
};
use crate::harness::events::{Follower, Stream, drain};
use crate::harness::witness::{Lifetime, Witness};
use crate::harness::{Hypervisor, wait_for};
use crate::history::Recorder;
use crate::nemesis::trouble::Trouble;
use crate::seed;
use crate::workload::power::{self, Asked};
use crate::workload::vm_lifecycle::{self, Answer, Call, IMAGE, Log};

const CLIENTS: u64 = 4;
/// VMs that are stopped and started, under faults on isolated nodes.
const POWER_CLIENTS: u64 = 2;
/// After healing, everything ends within this long.
const SETTLE_LIMIT: Duration = Duration::from_secs(60);

/// What there is to judge, once the cluster has healed and settled.
#[derive(Serialize, Deserialize)]
pub(super) struct Evidence {
    /// By node: the VMs it shows.
    views: Vec<(String, Vec<Vm>)>,
    nodes: Vec<Node>,
    checkpoints: Vec<Checkpoint>,
    streams: Vec<Stream>,
    /// Where real guests ran.
    lifetimes: Option<Vec<Lifetime>>,
    /// From a whole cluster until every VM called ACTIVE had a process.
    running_after_ms: u64,
    asked: Vec<Asked>,
    aftermath: Aftermath,
}

pub(super) async fn run(running: &mut Running) -> Result<Evidence> {
    let log: Log = Arc::new(Recorder::new(running.journal.clone()));
    let followers = prepare(running).await?;
    let real = running.options.hypervisor == Hypervisor::CloudHypervisor;
    let folder = running.cluster.scratch.path().to_owned();
    let witness = real.then(|| Witness::start(&folder, running.journal.clone()));
    let (happened, asked) = trouble(running, &log).await?;
    gather(running, happened, asked, followers, witness).await
}

/// Image and flavor, and a follower of the events at every node, from one revision on.
async fn prepare(running: &Running) -> Result<Vec<Follower>> {
    let daemons = &running.cluster.daemons;
    let mut client = daemons[0].client();
    client.import_kernel(IMAGE, running.cluster.test_guest("banner")?).await?;
    client.create_tiny_flavor().await?;
    let since = client.get::<ClusterView>("/v1/cluster").await?.revision;
    Ok(daemons.iter().map(|daemon| Follower::start(&daemon.name, daemon.endpoint(), since)).collect())
}

/// Clients and nemesis at the same time; the clients have ended when this does.
async fn trouble(running: &mut Running, log: &Log) -> Result<(Trouble, Vec<Asked>)> {
    let options = running.options.clone();
    let stop = CancellationToken::new();
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let rng = seed::stream(options.seed, "client", client);
        let (targets, log) = (running.targets(), log.clone());
        clients.spawn(vm_lifecycle::client((client, CLIENTS), targets, log, rng, stop.clone()));
    }
    let mut others = JoinSet::new();
    for client in 0..if running.trouble.is_some() { POWER_CLIENTS } else { 0 } {
        let rng = seed::stream(options.seed, "power", client);
        others.spawn(power::client(client, running.targets(), rng, stop.clone()));
    }
    let happened = running.endure(OwnFaults::Kills, clients, stop).await?;
    Ok((happened, others.join_all().await))
}

async fn gather(
    running: &mut Running,
    happened: Trouble,
    asked: Vec<Asked>,
    followers: Vec<Follower>,
    witness: Option<Witness>,
) -> Result<Evidence> {
    let cluster = &mut running.cluster;
    cluster.wait_whole().await?;
    let address = cluster.daemons[0].endpoint();
    let settled = wait_for("all VMs to settle", SETTLE_LIMIT, || async {
        let vms = crate::harness::Client::new(address).all_vms().await?;
        Ok(settled::is_settled(&vms).then_some(()))
    });
    // What has not settled is for the checker to say.
    let _ = settled.await;
    let back = Instant::now();
    if let Some(witness) = &witness {
        // A host that booted starts its VMs again by itself, some time after it is back; the record says ACTIVE
        // all the while. Those that do not come are for the checker to say.
        let _ = wait_for("processes of all VMs", SETTLE_LIMIT, || async {
            let (vms, alive) = (crate::harness::Client::new(address).all_vms().await?, witness.alive());
            let mut active = vms.into_iter().filter(|vm| vm.status == VmStatus::Active);
            let runs = active.all(|vm| alive.contains(&(vm.id, vm.node.unwrap_or_default())));
            Ok(runs.then_some(()))
        })
        .await;
    }
    let running_after_ms = u64::try_from(back.elapsed().as_millis()).unwrap_or(u64::MAX);
    let checkpoints = cluster.checkpoints(SETTLE_LIMIT).await?;
    let mut views = Vec::new();
    for daemon in &cluster.daemons {
        let vms = daemon.client().all_vms().await.with_context(|| format!("the VMs at {}", daemon.name))?;
        views.push((daemon.name.clone(), vms));
    }
    let mut client = cluster.daemons[0].client();
    let nodes = client.get::<List<Node>>("/v1/nodes").await?.items;
    let lifetimes = witness.map(Witness::finish);
    let streams = drain(&mut client, followers, SETTLE_LIMIT).await?;
    // What does not go is left behind: the checker says so, and the evidence is still judged.
    let undeleted = client.delete_all(SETTLE_LIMIT).await;
    let mut aftermath = running.aftermath(happened);
    aftermath.left.extend(undeleted);
    Ok(Evidence { views, nodes, checkpoints, streams, lifetimes, running_after_ms, asked, aftermath })
}

pub(super) fn judge(stored: &Stored<Evidence>) -> Result<Judged> {
    let Evidence { views, nodes, checkpoints, streams, lifetimes, running_after_ms, asked, aftermath } =
        &stored.evidence;
    let (operations, faults) = (stored.operations::<Call, Answer>()?, stored.faults()?);
    let all = views.first().map(|(_, vms)| vms.clone()).unwrap_or_default();
    let is_busy = |vm: &Vm| vm.name.starts_with(power::PREFIX);
    let views: Vec<(String, Vec<Vm>)> = views
        .iter()
        .map(|(node, vms)| (node.clone(), vms.iter().filter(|vm| !is_busy(vm)).cloned().collect()))
        .collect();
    let names: Vec<_> = views
        .iter()
        .map(|(node, vms)| acknowledged::View {
            node: node.clone(),
            vms: vms.iter().map(|vm| (vm.name.clone(), vm.id.to_string())).collect(),
        })
        .collect();
    let count = stored.parameters.nodes;
    let vms = views.first().map(|(_, vms)| vms.as_slice()).unwrap_or_default();
    let kind = |call: &Call| match call {
        Call::Create { .. } => "create",
        Call::Replay { .. } => "replay",
        Call::Delete { .. } => "delete",
        Call::Read { .. } => "read",
    };
    let until = streams.iter().map(|stream| stream.at).max().unwrap_or_default();
    let once: Verdict = match streams.first() {
        Some(stream) => once::check(&operations, &stream.events),
        None => Verdict::unknown("once", "no node was followed"),
    };
    let stream = streams.first().map(|stream| stream.events.as_slice()).unwrap_or_default();
    let mut verdicts = vec![
        acknowledged::check(&operations, &names),
        once,
        reads::check(&operations),
        states::check(&operations),
        settled::check(vms),
        claims::check(nodes, &all),
        replicas::check(count, checkpoints),
        events::check(count, until, streams),
        leaders::check(stream),
        unique::check(stream),
        faults::check(stored.parameters.expected(&faults), &faults),
        vacuity::check(&operations, kind, &["create", "replay", "delete", "read"], &aftermath.nodes),
        whole::check(&aftermath.ended, &aftermath.left),
    ];
    if let Some(lifetimes) = lifetimes {
        verdicts.push(lifetimes::check(lifetimes, &faults, &all));
        verdicts.push(epochs::check(lifetimes, stream));
    }
    if stored.parameters.isolated {
        verdicts.push(spared::check(vms));
        verdicts.push(checker::power::check(asked, &all));
    }
    let is_write = |call: &Call| matches!(call, Call::Create { .. } | Call::Delete { .. });
    let of = |leader: bool| faults.iter().filter(move |fault| fault.was_leader == leader);
    let figures = [
        unavailability("a fault on the leader", of(true), &operations, is_write),
        unavailability("a fault elsewhere", of(false), &operations, is_write),
    ];
    let mut figures: Vec<_> = figures.into_iter().flatten().collect();
    if lifetimes.is_some() {
        figures.push(format!(
            "every VM called ACTIVE had a process {running_after_ms} ms after the cluster was whole"
        ));
    }
    figures.extend(aftermath.figures.clone());
    Ok(Judged { verdicts, figures, counts: counts(&faults, &operations, aftermath.unavailable_ms) })
}
