//! The power of a whole cluster goes at one moment, and comes back in random order, one node missing: pinned VMs of the
//! nodes that are there run again without a person, what failed over from the missing one runs elsewhere after its
//! fence, and the operating system has seen no VM twice. `HOLM_JEPSEN_SEED` repeats an order.

mod isolation;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use holm_api::vm::Availability;
use holm_api::{ClusterPolicy, CreateVm, PatchClusterPolicy, Vm, VmStatus};
use holm_jepsen::harness::client::Call;
use holm_jepsen::harness::vms::tiny_vm;
use holm_jepsen::harness::witness::{Lifetime, Witness};
use holm_jepsen::harness::{Cluster, Setup, real, wait_for};
use holm_jepsen::history::Journal;
use holm_jepsen::seed;
use rand::Rng;
use rand::seq::SliceRandom;
use uuid::Uuid;

const NODES: usize = 3;
/// Of each kind: some on every node, and room for all on two of them.
const VMS: usize = 4;
const LIMIT: Duration = Duration::from_secs(90);
const POLICY: PatchClusterPolicy = PatchClusterPolicy {
    lease_ttl_ms: Some(8_400),
    margin_ms: Some(2_000),
    // Longer than these daemons need to find each other.
    autostart_wait_ms: Some(20_000),
};

#[tokio::test(flavor = "multi_thread")]
async fn after_a_power_cut_of_all_what_should_run_runs_once_with_one_node_missing() -> Result<()> {
    let name = "after_a_power_cut_of_all_what_should_run_runs_once_with_one_node_missing";
    if real::skipped(name) || isolation::skipped(name) {
        return Ok(());
    }
    let seed = match std::env::var("HOLM_JEPSEN_SEED") {
        Ok(seed) => seed.parse().context("HOLM_JEPSEN_SEED is no number")?,
        Err(_) => rand::random(),
    };
    let mut rng = seed::stream(seed, "power", 0);
    let mut order: Vec<usize> = (0..NODES).collect();
    order.shuffle(&mut rng);
    let (missing, present) = order.split_last().context("there are nodes")?;

    let mut cluster = Cluster::start_isolated(&Setup::real(NODES)).await?;
    let journal =
        Arc::new(Journal::create(&cluster.scratch.path().join("history.jsonl"), &serde_json::json!({}))?);
    let placed = place(&mut cluster).await?;
    let witness = Witness::start(cluster.scratch.path(), journal);
    wait_for("the witness to see every VM", LIMIT, || async {
        Ok((witness.alive().len() == placed.len()).then_some(()))
    })
    .await?;

    cluster.power_off(&order)?;
    wait_for("nothing to run", LIMIT, || async { Ok(cluster.vmms().is_empty().then_some(())) }).await?;
    let began = Instant::now();
    for at in present {
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..3_000))).await;
        cluster.power_on(*at)?;
    }
    let lost = cluster.daemons[*missing].name.clone();
    let (stay, _): (Vec<_>, Vec<_>) =
        placed.iter().partition(|(_, (kind, node))| *kind == Availability::Failover || *node != lost);
    let running = || async {
        let alive = witness.alive();
        let whole = stay.iter().all(|(vm, (kind, node))| {
            alive.iter().any(|(id, at)| id == *vm && (*kind == Availability::Failover || at == node))
        });
        Ok((whole && alive.len() == stay.len()).then_some(()))
    };
    wait_for("what is left to run", LIMIT, running).await.with_context(|| {
        format!("HOLM_JEPSEN_SEED={seed}: {lost} missing, {:?} of {placed:?} run", witness.alive())
    })?;
    println!(
        "HOLM_JEPSEN_SEED={seed}, without {lost}: {} VMs run again {} ms after the first node had power",
        stay.len(),
        began.elapsed().as_millis()
    );

    cluster.power_on(*missing)?;
    cluster.wait_ready(*missing).await?;
    cluster.wait_whole().await?;
    wait_for("all to run", LIMIT, || async {
        let alive = witness.alive();
        let pinned_at_home = placed.iter().filter(|(_, (kind, _))| *kind == Availability::Pinned);
        let home = pinned_at_home.clone().all(|(vm, (_, node))| alive.contains(&(*vm, node.clone())));
        Ok((home && alive.len() == placed.len()).then_some(()))
    })
    .await?;
    let lifetimes = witness.finish();
    let twice = twice(&lifetimes);
    ensure!(twice.is_empty(), "HOLM_JEPSEN_SEED={seed}: {twice:?}");
    let left = cluster.daemons[0].client().delete_all(LIMIT).await;
    assert_eq!(left, Vec::<String>::new());
    assert_eq!(cluster.shut_down(), Vec::<String>::new());
    Ok(())
}

/// VMs of both kinds, ACTIVE, and where each is.
async fn place(cluster: &mut Cluster) -> Result<BTreeMap<Uuid, (Availability, String)>> {
    let mut client = cluster.daemons[0].client();
    client.call::<ClusterPolicy>(Call::patch("/v1/policy", &POLICY)).await?;
    client.create_tiny_flavor().await?;
    client.import_kernel("guest", cluster.test_guest("banner")?).await?;
    let mut names = Vec::new();
    for availability in [Availability::Pinned, Availability::Failover] {
        for n in 0..VMS {
            let name = format!("{}-{n}", availability.as_str());
            let vm = CreateVm { availability, ..tiny_vm(&name, "guest") };
            client.call::<Vm>(Call::post("/v1/vms", &vm)).await?;
            names.push(name);
        }
    }
    let mut placed = BTreeMap::new();
    for name in names {
        let vm = client.wait_status(&name, VmStatus::Active, LIMIT).await?;
        placed.insert(vm.id, (vm.availability, vm.node.context("an ACTIVE VM has a node")?));
    }
    Ok(placed)
}

/// Pairs of processes of one VM that were seen at one moment.
fn twice(lifetimes: &[Lifetime]) -> Vec<(&Lifetime, &Lifetime)> {
    let pairs = lifetimes.iter().enumerate().flat_map(|(at, one)| {
        let others = lifetimes[at + 1..].iter().filter(move |other| other.vm == one.vm);
        others.map(move |other| (one, other))
    });
    pairs.filter(|(one, other)| one.from_ns <= other.until_ns && other.from_ns <= one.until_ns).collect()
}

/// What the two systemd units do: guests stop from the last start order to the first, the daemon stops, the host is off.
/// After the boot only the daemon is started.
#[tokio::test(flavor = "multi_thread")]
async fn after_an_orderly_shutdown_and_a_boot_guests_come_back_in_their_order() -> Result<()> {
    let name = "after_an_orderly_shutdown_and_a_boot_guests_come_back_in_their_order";
    if real::skipped(name) || isolation::skipped(name) {
        return Ok(());
    }
    let mut cluster = Cluster::start_isolated(&Setup::real(1)).await?;
    let mut client = cluster.daemons[0].client();
    client.create_tiny_flavor().await?;
    client.import_kernel("guest", cluster.test_guest("banner")?).await?;
    let mut ids = Vec::new();
    for (name, start_order) in [("web", 7), ("database", 0), ("storage", -5)] {
        let vm = CreateVm { start_order, ..tiny_vm(name, "guest") };
        client.call::<Vm>(Call::post("/v1/vms", &vm)).await?;
        ids.insert(0, client.wait_status(name, VmStatus::Active, LIMIT).await?.id);
    }

    let daemon = &cluster.daemons[0];
    let place = daemon.place().context("the node has a place of its own")?;
    let mut stop = place.command(&holm_jepsen::harness::binary::holmd()?);
    stop.args(["stop-guests", "--timeout", "1", "--data-dir"]).arg(daemon.data_dir());
    let output = stop.arg("--run-dir").arg(daemon.run_dir()).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(cluster.vmms(), []);
    cluster.daemons[0].stop()?;
    cluster.power_off(&[0])?;

    cluster.power_on(0)?;
    let vmms = wait_for("the guests to run again", LIMIT, || async {
        let all = cluster.vmms_of(0);
        Ok((all.len() == ids.len()).then_some(all))
    })
    .await?;
    let began = |id: &Uuid| vmms.iter().find(|(vm, _)| vm == id).map(|(_, vmm)| vmm.start_ticks);
    let began: Vec<_> = ids.iter().map(began).collect();
    ensure!(began[0] < began[1] && began[1] < began[2], "not in their order: {began:?}");
    cluster.wait_ready(0).await?;
    for name in ["storage", "database", "web"] {
        let vm = cluster.daemons[0].client().wait_status(name, VmStatus::Active, LIMIT).await?;
        assert_eq!(vm.run, 1, "the same run goes on");
    }
    let left = cluster.daemons[0].client().delete_all(LIMIT).await;
    assert_eq!(left, Vec::<String>::new());
    assert_eq!(cluster.shut_down(), Vec::<String>::new());
    Ok(())
}
