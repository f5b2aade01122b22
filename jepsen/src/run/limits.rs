//! `limits`: bursts of creates beyond quota and capacity; neither is ever exceeded, at no revision.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use holm_api::{
    Cluster as ClusterView, CreateFlavor, Event, EventKind, Flavor, List, Node, Quota, SetQuota, Vm,
};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::measure::{counts, unavailability};
use super::stored::Stored;
use super::{Aftermath, Judged, OwnFaults, Running};
use crate::checker::{Verdict, capacity, claims, events, faults, leaders, quota, unique, vacuity, whole};
use crate::harness::client::Call as Request;
use crate::harness::events::{Follower, Stream, drain};
use crate::harness::wait_for;
use crate::history::{Outcome, Recorder};
use crate::seed;
use crate::workload::burst::{self, FLAVOR};
use crate::workload::vm_lifecycle::{Answer, Call, IMAGE, Log};

const CLIENTS: u64 = 8;
/// VMs of one node.
const A_NODE: u64 = 2;
const SETTLE_LIMIT: Duration = Duration::from_secs(60);

#[derive(Serialize, Deserialize)]
pub(super) struct Evidence {
    vcpus: u64,
    capacity: BTreeMap<String, u64>,
    quota: u64,
    streams: Vec<Stream>,
    nodes: Vec<Node>,
    vms: Vec<Vm>,
    aftermath: Aftermath,
}

pub(super) async fn run(running: &mut Running) -> Result<Evidence> {
    let mut client = running.cluster.daemons[0].client();
    client.import_kernel(IMAGE, running.cluster.test_guest("banner")?).await?;
    let nodes = client.get::<List<Node>>("/v1/nodes").await?.items;
    let vcpu = |node: &Node| node.inventory.get("VCPU").map(|class| (node.name.clone(), class.capacity));
    let capacity: BTreeMap<String, u64> = nodes.iter().filter_map(vcpu).collect();
    let vcpus = capacity.values().min().context("no node has vCPUs")? / A_NODE;
    let flavor = CreateFlavor {
        name: FLAVOR.to_owned(),
        vcpus: u32::try_from(vcpus)?,
        memory_mib: 64,
        disk_gib: 0,
        extra_specs: Default::default(),
    };
    client.call::<Flavor>(Request::post("/v1/flavors", &flavor)).await?;
    // More than there is room for, fewer than the clients want.
    let quota = A_NODE * nodes.len() as u64 + 2;
    let limits = BTreeMap::from([("VMS".to_owned(), Some(quota))]);
    let set = Request::new(hyper::Method::PUT, "/v1/quotas/default").json(&SetQuota { limits });
    client.call::<Quota>(set).await?;
    let since = client.get::<ClusterView>("/v1/cluster").await?.revision;
    let followers = |daemon: &crate::harness::Daemon| Follower::start(&daemon.name, daemon.endpoint(), since);
    let followers: Vec<_> = running.cluster.daemons.iter().map(followers).collect();

    let log: Log = Arc::new(Recorder::new(running.journal.clone()));
    let stop = CancellationToken::new();
    let mut clients = JoinSet::new();
    for index in 0..CLIENTS {
        let rng = seed::stream(running.options.seed, "client", index);
        clients.spawn(burst::client((index, CLIENTS), running.targets(), log.clone(), rng, stop.clone()));
    }
    let rng = seed::stream(running.options.seed, "crowd", 0);
    clients.spawn(burst::crowd(running.targets(), rng, stop.clone()));
    let happened = running.endure(OwnFaults::Kills, clients, stop).await?;

    running.cluster.wait_whole().await?;
    let (nodes, vms) = at_rest(running).await?;
    let mut client = running.cluster.daemons[0].client();
    let streams = drain(&mut client, followers, SETTLE_LIMIT).await?;
    let undeleted = client.delete_all(SETTLE_LIMIT).await;
    let mut aftermath = running.aftermath(happened);
    aftermath.left.extend(undeleted);
    Ok(Evidence { vcpus, capacity, quota, streams, nodes, vms, aftermath })
}

/// Nodes and VMs of one state, once no VM is deleted or built any more. VMs that wait for room go on waiting.
async fn at_rest(running: &Running) -> Result<(Vec<Node>, Vec<Vm>)> {
    let endpoint = running.cluster.daemons[0].endpoint();
    wait_for("nothing to be under way", SETTLE_LIMIT, || async {
        let mut client = crate::harness::Client::new(endpoint);
        let before = client.all_vms().await?;
        let nodes = client.get::<List<Node>>("/v1/nodes").await?.items;
        let vms = client.all_vms().await?;
        let rests = |vm: &Vm| vm.task_state.is_none() || (vm.node.is_none() && vm.revision > 0);
        Ok((before == vms && vms.iter().all(rests)).then_some((nodes, vms)))
    })
    .await
}

pub(super) fn judge(stored: &Stored<Evidence>) -> Result<Judged> {
    let (operations, faults) = (stored.operations::<Call, Answer>()?, stored.faults()?);
    let Evidence { vcpus, capacity, quota, streams, nodes, vms, aftermath } = &stored.evidence;
    let kind = |call: &Call| if matches!(call, Call::Delete { .. }) { "delete" } else { "create" };
    let refused = operations.iter().filter(
        |operation| matches!(&operation.outcome, Outcome::Fail(refusal) if refusal.code == "quota_exceeded"),
    );
    let refused: BTreeSet<_> = refused.map(|operation| operation.call.name()).collect();
    let until = streams.iter().map(|stream| stream.at).max().unwrap_or_default();
    let all = streams.first().map(|stream| stream.events.as_slice()).unwrap_or_default();
    let broken = streams.iter().any(|stream| stream.broken.is_some());
    let replayed = |verdict: Verdict| match broken {
        true => Verdict::unknown(verdict.checker, "an event stream could not go on"),
        false => verdict,
    };
    let verdicts = vec![
        replayed(quota::check(*quota, refused.len() as u64, all)),
        replayed(capacity::check(*vcpus, capacity, all)),
        claims::check(nodes, vms),
        patience(all),
        events::check(stored.parameters.nodes, until, streams),
        replayed(leaders::check(all)),
        replayed(unique::check(all)),
        faults::check(stored.parameters.expected(&faults), &faults),
        vacuity::check(&operations, kind, &["create", "delete"], &aftermath.nodes),
        whole::check(&aftermath.ended, &aftermath.left),
    ];
    let gap = unavailability("a fault", faults.iter(), &operations, |_| true);
    let figures = gap.into_iter().chain(aftermath.figures.clone()).collect();
    Ok(Judged { verdicts, figures, counts: counts(&faults, &operations, aftermath.unavailable_ms) })
}

/// A VM waits for room as long as was promised, which is longer than any run: none is given up, whatever wall clocks
/// say meanwhile.
fn patience(events: &[Event]) -> Verdict {
    let vms = || events.iter().filter(|event| event.kind == EventKind::Vm);
    let given_up = vms().filter(|event| event.what == "error");
    let given_up =
        given_up.map(|event| format!("{} at revision {}: {}", event.name, event.revision, event.message));
    let waited = vms().filter(|event| event.what == "waiting").count();
    Verdict::of("patience", given_up.collect(), format!("{waited} times a VM waited"))
}
