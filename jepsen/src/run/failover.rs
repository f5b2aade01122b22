//! `failover`: VMs that may fail over and pinned ones, on real guests, while their nodes are hit. The operating
//! system says what ran where and when; leases are as short as the product allows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use holm_api::vm::{Availability, RestartPolicy};
use holm_api::{Cluster as ClusterView, ClusterPolicy, CreateVm, PatchClusterPolicy, Vm, VmStatus};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::measure::{counts, unavailability};
use super::stored::Stored;
use super::{Aftermath, Judged, OwnFaults, Running};
use crate::checker::failover::{self, Kept, Terms};
use crate::checker::{epochs, events, faults, leaders, vacuity, whole};
use crate::harness::client::Call as Request;
use crate::harness::events::{Follower, Stream, drain};
use crate::harness::vms::tiny_vm;
use crate::harness::wait_for;
use crate::harness::witness::{Lifetime, Witness};
use crate::history::Recorder;
use crate::nemesis::Nemesis;
use crate::seed;
use crate::workload::flavor_set::{self, Answer, Call, Shared};

/// VMs of each kind: a few on every node, and room for all of them on what is left when one is lost.
const FAILOVER: usize = 6;
const PINNED: usize = 3;
const WRITERS: u64 = 2;
/// The shortest that may be.
const TERMS: Terms = Terms { ttl_ms: 8_400, margin_ms: 2_000 };
/// Less than hosts that boot without a quorum are left alone.
const AUTOSTART_WAIT_MS: u64 = 5_000;
const START_LIMIT: Duration = Duration::from_secs(60);
/// A node that was fenced is let back, what waited is placed, and everything runs by then.
const SETTLE_LIMIT: Duration = Duration::from_secs(90);
const IMAGE: &str = "guest";

#[derive(Serialize, Deserialize)]
pub(super) struct Evidence {
    lifetimes: Vec<Lifetime>,
    vms: Vec<Kept>,
    /// Of one node, from before the first VM.
    stream: Stream,
    aftermath: Aftermath,
}

pub(super) async fn run(running: &mut Running) -> Result<Evidence> {
    let mut client = running.cluster.daemons[0].client();
    let since = client.get::<ClusterView>("/v1/cluster").await?.revision;
    let follower = Follower::start(&running.cluster.daemons[0].name, client.address(), since);
    prepare(running).await?;
    let folder = running.cluster.scratch.path().to_owned();
    let witness = Witness::start(&folder, running.journal.clone());
    let log = Arc::new(Recorder::new(running.journal.clone()));
    let (shared, stop) = (Arc::new(Shared::default()), CancellationToken::new());
    let mut clients = JoinSet::new();
    for writer in 0..WRITERS {
        let (targets, shared, log) = (running.targets(), shared.clone(), log.clone());
        let rng = seed::stream(running.options.seed, "writer", writer);
        clients.spawn(flavor_set::writer(writer, targets, shared, log, rng, stop.clone()));
    }
    let happened = running.endure(OwnFaults::Kills, clients, stop).await?;
    running.cluster.wait_whole().await?;
    let vms = settled(running, &witness).await?;
    let lifetimes = witness.finish();
    let stream = drain(&mut client, vec![follower], SETTLE_LIMIT).await?.remove(0);
    let undeleted = client.delete_all(SETTLE_LIMIT).await;
    let mut aftermath = running.aftermath(happened);
    aftermath.left.extend(undeleted);
    Ok(Evidence { lifetimes, vms, stream, aftermath })
}

async fn prepare(running: &Running) -> Result<()> {
    let mut client = running.cluster.daemons[0].client();
    let policy = PatchClusterPolicy {
        lease_ttl_ms: Some(TERMS.ttl_ms),
        margin_ms: Some(TERMS.margin_ms),
        autostart_wait_ms: Some(AUTOSTART_WAIT_MS),
    };
    client.call::<ClusterPolicy>(Request::patch("/v1/policy", &policy)).await?;
    client.import_kernel(IMAGE, running.cluster.test_guest("banner")?).await?;
    client.create_tiny_flavor().await?;
    let of = |kind: Availability, count: usize| {
        (0..count).map(move |number| CreateVm {
            availability: kind,
            restart_policy: RestartPolicy::Always,
            ..tiny_vm(&format!("{}-{number}", kind.as_str()), IMAGE)
        })
    };
    let all: Vec<_> = of(Availability::Failover, FAILOVER).chain(of(Availability::Pinned, PINNED)).collect();
    for vm in &all {
        client.call::<Vm>(Request::post("/v1/vms", vm)).await?;
    }
    for vm in &all {
        let endpoint = client.address();
        wait_for(&format!("{} to run", vm.name), START_LIMIT, || async {
            let path = format!("/v1/vms/{}", vm.name);
            let record: Vm = crate::harness::Client::new(endpoint).get(&path).await?;
            let runs = record.status == VmStatus::Active && record.task_state.is_none();
            Ok((runs && record.availability_in_force == Some(vm.availability)).then_some(()))
        })
        .await?;
    }
    Ok(())
}

/// The records once every VM is ACTIVE and has a process where it is said to be; or what they are when the time is
/// up, for the checker to say.
async fn settled(running: &Running, witness: &Witness) -> Result<Vec<Kept>> {
    let endpoint = running.cluster.daemons[0].endpoint();
    let runs = |vm: &Vm, alive: &[(Uuid, String)]| {
        let here = (vm.id, vm.node.clone().unwrap_or_default());
        vm.status == VmStatus::Active && vm.task_state.is_none() && alive.contains(&here)
    };
    let all = wait_for("every VM to run", SETTLE_LIMIT, || async {
        let vms = crate::harness::Client::new(endpoint).all_vms().await?;
        let alive = witness.alive();
        Ok((vms.iter().all(|vm| runs(vm, &alive)) && alive.len() == vms.len()).then_some(vms))
    });
    let vms = match all.await {
        Ok(vms) => vms,
        Err(_) => crate::harness::Client::new(endpoint).all_vms().await?,
    };
    let kept = |vm: Vm| Kept {
        failover: vm.availability == Availability::Failover,
        node: vm.node.filter(|_| vm.status == VmStatus::Active),
        name: vm.name,
        id: vm.id,
    };
    Ok(vms.into_iter().map(kept).collect())
}

pub(super) fn judge(stored: &Stored<Evidence>) -> Result<Judged> {
    use clap::ValueEnum;
    let (operations, faults) = (stored.operations::<Call, Answer>()?, stored.faults()?);
    let Evidence { lifetimes, vms, stream, aftermath } = &stored.evidence;
    let nemesis = stored.parameters.nemesis.as_ref().and_then(|name| Nemesis::from_str(name, false).ok());
    let must_move = nemesis.is_some_and(Nemesis::outlasts_leases);
    let kind = |call: &Call| if matches!(call, Call::Add(_)) { "add" } else { "read" };
    let verdicts = vec![
        failover::check(lifetimes, &faults, vms, TERMS, must_move),
        events::check(1, stream.at, std::slice::from_ref(stream)),
        epochs::check(lifetimes, &stream.events),
        leaders::check(&stream.events),
        faults::check(stored.parameters.expected(&faults), &faults),
        vacuity::check(&operations, kind, &["add"], &aftermath.nodes),
        whole::check(&aftermath.ended, &aftermath.left),
    ];
    let gap = unavailability("a fault", faults.iter(), &operations, |call| matches!(call, Call::Add(_)));
    let mut by_kind = BTreeMap::new();
    faults.iter().for_each(|fault| *by_kind.entry(fault.kind).or_insert(0) += 1);
    let mix =
        by_kind.into_iter().map(|(kind, count)| format!("{count} × {kind:?}")).collect::<Vec<_>>().join(", ");
    let figures =
        [format!("faults: {mix}")].into_iter().chain(gap).chain(aftermath.figures.clone()).collect();
    Ok(Judged { verdicts, figures, counts: counts(&faults, &operations, aftermath.unavailable_ms) })
}
