//! `vm-lifecycle`: four clients create and delete VMs while random nodes are killed; afterwards every node is
//! asked what there is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use holm_api::{Checkpoint, Cluster as ClusterView, Event, List, Node, Vm, VmStatus};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Judged, Running, counts, unavailability};
use crate::checker::{
    self, Verdict, acknowledged, claims, events, faults, lifetimes, once, reads, replicas, settled, spared,
    vacuity, whole,
};
use crate::harness::events::{Follower, Stream};
use crate::harness::witness::{Lifetime, Witness};
use crate::harness::{Hypervisor, wait_for};
use crate::history::{Fault, Recorder};
use crate::nemesis::kill;
use crate::nemesis::trouble::Trouble;
use crate::seed;
use crate::workload::power::{self, Asked};
use crate::workload::vm_lifecycle::{self, Call, IMAGE, Log, Operation};

const CLIENTS: u64 = 4;
/// VMs that are stopped and started, under faults on isolated nodes.
const POWER_CLIENTS: u64 = 2;
/// After healing, everything ends within this long.
const SETTLE_LIMIT: Duration = Duration::from_secs(60);

/// What there is to judge, once the cluster has healed and settled.
struct Evidence {
    operations: Vec<Operation>,
    faults: Vec<Fault>,
    /// By node: the VMs it shows.
    views: Vec<(String, Vec<Vm>)>,
    nodes: Vec<Node>,
    checkpoints: Vec<Checkpoint>,
    streams: Vec<Stream>,
    /// Where real guests ran.
    lifetimes: Option<Vec<Lifetime>>,
    /// From a whole cluster until every VM called ACTIVE had a process.
    running_after: Duration,
    ended: Vec<String>,
    left: Vec<String>,
}

pub(super) async fn run(running: &mut Running) -> Result<Judged> {
    let log: Log = Arc::new(Recorder::new(running.journal.clone()));
    let followers = prepare(running).await?;
    let real = running.options.hypervisor == Hypervisor::CloudHypervisor;
    let folder = running.cluster.scratch.path().to_owned();
    let witness = real.then(|| Witness::start(&folder, running.journal.clone()));
    let (happened, asked) = trouble(running, &log).await?;
    let (figures, unavailable) = (happened.observed.figures(), happened.observed.unavailable);
    let evidence = gather(running, &log, happened.faults, happened.ended, followers, witness).await?;
    let mut judged = judge(running, evidence, &asked, unavailable);
    judged.figures.extend(figures);
    Ok(judged)
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
    let mut happened = Trouble::default();
    let done = match running.trouble {
        Some(of) => running.suffer(of, &mut happened).await,
        None => {
            let (rounds, progress) = (options.rounds, running.progress());
            let mut rng = seed::stream(options.seed, "nemesis", 0);
            let (cluster, journal) = (&mut running.cluster, &running.journal);
            let ended = kill::run(cluster, rounds, journal, progress, &mut rng, &mut happened.faults).await;
            ended.map(|ended| happened.ended = ended)
        }
    };
    stop.cancel();
    while clients.join_next().await.is_some() {}
    // Of a cluster that did not come back nothing more is asked.
    done?;
    Ok((happened, others.join_all().await))
}

async fn gather(
    running: &mut Running,
    log: &Log,
    faults: Vec<Fault>,
    ended: Vec<String>,
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
    let running_after = back.elapsed();
    let checkpoints = cluster.checkpoints(SETTLE_LIMIT).await?;
    let mut views = Vec::new();
    for daemon in &cluster.daemons {
        let vms = daemon.client().all_vms().await.with_context(|| format!("the VMs at {}", daemon.name))?;
        views.push((daemon.name.clone(), vms));
    }
    let mut client = cluster.daemons[0].client();
    let nodes = client.get::<List<Node>>("/v1/nodes").await?.items;
    let lifetimes = witness.map(Witness::finish);
    let streams = drain(&mut client, followers).await?;
    // What does not go is left behind: the checker says so, and the evidence is still judged.
    let mut left = delete_all(&mut client).await;
    left.extend(cluster.shut_down());
    Ok(Evidence {
        operations: log.operations(),
        faults,
        views,
        nodes,
        checkpoints,
        streams,
        lifetimes,
        running_after,
        ended,
        left,
    })
}

/// Deletes every VM and says which could not be.
async fn delete_all(client: &mut crate::harness::Client) -> Vec<String> {
    let deadline = Instant::now() + SETTLE_LIMIT;
    let vms = match client.all_vms().await {
        Ok(vms) => vms,
        Err(error) => return vec![format!("{error:#}")],
    };
    let mut left = Vec::new();
    for vm in vms {
        let limit = deadline.saturating_duration_since(Instant::now());
        if let Err(error) = client.delete_vm(&vm.name, limit).await {
            left.push(format!("{error:#}"));
        }
    }
    left
}

/// Waits until every follower has got what the cluster has now.
async fn drain(client: &mut crate::harness::Client, followers: Vec<Follower>) -> Result<Vec<Stream>> {
    let behind = followers.iter().map(Follower::at).min().unwrap_or_default();
    let mut target = behind;
    loop {
        let page: List<Event> =
            client.get(&format!("/v1/events?follow=false&limit=1000&since={target}")).await?;
        target = page.items.last().map_or(target, |event| event.revision);
        if page.next.is_none() {
            break;
        }
    }
    // A stream that never gets there is for the checker to show.
    let _ = wait_for("all event streams", SETTLE_LIMIT, || async {
        Ok(followers.iter().all(|follower| follower.at() >= target).then_some(()))
    })
    .await;
    let mut streams: Vec<_> = followers.into_iter().map(Follower::finish).collect();
    for stream in &mut streams {
        // Later ones may have reached some nodes only.
        stream.events.retain(|event| event.revision <= target);
    }
    Ok(streams)
}

fn judge(running: &Running, evidence: Evidence, asked: &[Asked], unavailable: Duration) -> Judged {
    let Evidence {
        operations,
        faults,
        views,
        nodes,
        checkpoints,
        streams,
        lifetimes,
        running_after,
        ended,
        left,
    } = evidence;
    let all = views.first().map(|(_, vms)| vms.clone()).unwrap_or_default();
    let is_busy = |vm: &Vm| vm.name.starts_with(power::PREFIX);
    let views: Vec<(String, Vec<Vm>)> = views
        .into_iter()
        .map(|(node, vms)| (node, vms.into_iter().filter(|vm| !is_busy(vm)).collect()))
        .collect();
    let names: Vec<_> = views
        .iter()
        .map(|(node, vms)| acknowledged::View {
            node: node.clone(),
            vms: vms.iter().map(|vm| (vm.name.clone(), vm.id.to_string())).collect(),
        })
        .collect();
    let count = running.cluster.daemons.len();
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
    let mut verdicts = vec![
        acknowledged::check(&operations, &names),
        once,
        reads::check(&operations),
        settled::check(vms),
        claims::check(&nodes, &all),
        replicas::check(count, &checkpoints),
        events::check(count, until, &streams),
        faults::check(running.expected(&faults), &faults),
        vacuity::check(&operations, kind, &["create", "replay", "delete", "read"], &running.nodes()),
        whole::check(&ended, &left),
    ];
    if let Some(lifetimes) = &lifetimes {
        verdicts.push(lifetimes::check(lifetimes, &faults, &all));
    }
    if running.trouble.is_some() {
        verdicts.push(spared::check(vms));
        verdicts.push(checker::power::check(asked, &all));
    }
    let is_write = |call: &Call| matches!(call, Call::Create { .. } | Call::Delete { .. });
    let of = |leader: bool| faults.iter().filter(move |fault| fault.was_leader == leader).cloned();
    let figures = [
        unavailability("a fault on the leader", of(true), &operations, is_write),
        unavailability("a fault elsewhere", of(false), &operations, is_write),
    ];
    let counts = counts(&faults, &operations, unavailable);
    let mut figures: Vec<_> = figures.into_iter().flatten().collect();
    if lifetimes.is_some() {
        let ms = running_after.as_millis();
        figures.push(format!("every VM called ACTIVE had a process {ms} ms after the cluster was whole"));
    }
    Judged { verdicts, figures, counts }
}
