//! What leases assume, broken on purpose, with real daemons and guests: a host that stands still as a whole and goes on,
//! and a daemon and its shims that are stopped while the VMM runs. The operating system says for how long a VM ran
//! twice; each case prints it. Where a watchdog is fed, the test plays the device: what is not fed resets its host.
//! `HOLM_JEPSEN_ROUNDS` repeats each.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use holm_api::vm::Availability;
use holm_api::{ClusterPolicy, CreateVm, Node, PatchClusterPolicy, Vm, VmStatus};
use holm_jepsen::harness::client::Call;
use holm_jepsen::harness::process::Stopped;
use holm_jepsen::harness::vms::tiny_vm;
use holm_jepsen::harness::{Cluster, Process, Setup, binary, process, real, wait_for};

const LIMIT: Duration = Duration::from_secs(90);
/// The shortest that may be.
const TTL_MS: u64 = 8_400;
/// Longer than the shortest by what the quickest watchdog needs.
const MARGIN_MS: u64 = 3_000;
const WATCHDOG_S: u64 = 2;
/// From the thaw to the end of the VMM. A shim looks at its lease before anything else.
const PROMPT: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_stood_still_ends_its_vm_at_once_when_it_goes_on() -> Result<()> {
    if real::skipped("a_host_that_stood_still_ends_its_vm_at_once_when_it_goes_on") {
        return Ok(());
    }
    let cluster = cluster().await?;
    for round in 0..rounds() {
        let (at, here) = started(&cluster).await?;
        let frozen = stop_all(&cluster, at, |_| true)?;
        let (_, elsewhere) = moved(&cluster, at).await?;
        ensure!(here.is_alive() && elsewhere.is_alive(), "one stands still, one runs");
        let thawed = Instant::now();
        drop(frozen);
        let overlap = until_gone(&here, thawed).await?;
        println!(
            "whole host frozen, round {round}: the VM ran twice for {} ms after the thaw",
            overlap.as_millis()
        );
        ensure!(overlap < PROMPT, "it ran on for {overlap:?}");
        ensure!(elsewhere.is_alive(), "nothing touched the one that is right");
        settle(&cluster, at).await?;
    }
    end(cluster).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vmm_whose_daemon_and_shim_are_stopped_is_ended_by_the_watchdog_or_when_they_go_on() -> Result<()> {
    if real::skipped("a_vmm_whose_daemon_and_shim_are_stopped_is_ended_by_the_watchdog_or_when_they_go_on") {
        return Ok(());
    }
    let mut cluster = cluster().await?;
    for round in 0..rounds() {
        let (at, here) = started(&cluster).await?;
        let stopped = stop_all(&cluster, at, |process| !is_vmm(process))?;
        let (began, elsewhere) = moved(&cluster, at).await?;
        ensure!(here.is_alive() && elsewhere.is_alive(), "nobody is there who could end the old one");
        let thawed = Instant::now();
        drop(stopped);
        let after = until_gone(&here, thawed).await?;
        println!(
            "daemon and shims stopped, no watchdog, round {round}: the VM ran twice for {} ms, until {} ms after they \
             went on",
            began.elapsed().as_millis(),
            after.as_millis()
        );
        ensure!(after < PROMPT, "it ran on for {after:?}");
        settle(&cluster, at).await?;

        let (at, here) = started(&cluster).await?;
        let device = cluster.daemons[at].dir().join("watchdog");
        let watchdog = Watchdog::start(&cluster, at, &device)?;
        let stopped = stop_all(&cluster, at, |process| !is_vmm(process) && process.pid != watchdog.pid())?;
        let reset = wait_for("the watchdog to starve", LIMIT, || async { starved(&device) }).await?;
        reset_host(&mut cluster, at)?;
        ensure!(!here.is_alive(), "its host was reset");
        ensure!(vmm_elsewhere(&cluster, at).is_none(), "it ran elsewhere before its host was reset");
        drop((watchdog, stopped));
        let (began, _) = moved(&cluster, at).await?;
        println!(
            "daemon and shims stopped, watchdog of {WATCHDOG_S} s, round {round}: its host was reset {} ms before the \
             VM ran elsewhere",
            began.saturating_duration_since(reset).as_millis()
        );
        cluster.daemons[at].start()?;
        cluster.wait_ready(at).await?;
        settle(&cluster, at).await?;
    }
    end(cluster).await
}

/// `holmd watchdog` of a node, ended with this.
struct Watchdog(Child);

impl Watchdog {
    fn start(cluster: &Cluster, at: usize, device: &Path) -> Result<Self> {
        std::fs::write(device, "")?;
        let mut command = Command::new(binary::holmd()?);
        command.arg("watchdog").arg("--timeout").arg(WATCHDOG_S.to_string()).arg("--device").arg(device);
        command.arg("--run-dir").arg(cluster.daemons[at].run_dir()).stderr(Stdio::null());
        let watchdog = Self(command.spawn()?);
        let began = Instant::now();
        while device.metadata()?.len() == 0 {
            ensure!(began.elapsed() < LIMIT, "it feeds nothing");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(watchdog)
    }

    fn pid(&self) -> i32 {
        self.0.id().cast_signed()
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// When the device would have reset the host, once it would.
fn starved(device: &Path) -> Result<Option<Instant>> {
    let fed = SystemTime::now().duration_since(device.metadata()?.modified()?).unwrap_or_default();
    Ok((fed >= Duration::from_secs(WATCHDOG_S)).then(Instant::now))
}

/// What a reset does to processes.
fn reset_host(cluster: &mut Cluster, at: usize) -> Result<()> {
    cluster.daemons[at].kill()?;
    process::of_folder(cluster.daemons[at].dir()).iter().try_for_each(Process::kill)
}

fn is_vmm(process: &Process) -> bool {
    std::fs::read_link(format!("/proc/{}/exe", process.pid)).is_ok_and(|exe| exe.ends_with(real::VMM))
}

/// Those processes of a node stand still until this is dropped.
fn stop_all(cluster: &Cluster, at: usize, which: impl Fn(&Process) -> bool) -> Result<Vec<Stopped>> {
    let found = process::of_folder(cluster.daemons[at].dir());
    // One that has ended since it was found need not be stopped.
    let stopped = found.iter().filter(|one| which(one) && one.is_alive()).map(Process::stop);
    stopped.collect()
}

async fn until_gone(vmm: &Process, since: Instant) -> Result<Duration> {
    wait_for("the VMM to end", LIMIT, || async { Ok((!vmm.is_alive()).then(|| since.elapsed())) }).await
}

/// The only VM, ACTIVE and bound to a lease: the node it runs on, and its VMM.
async fn started(cluster: &Cluster) -> Result<(usize, Process)> {
    wait_for("the VM to run under a lease", LIMIT, || async {
        let asked = cluster.daemons[0].client().get::<Vm>("/v1/vms/a").await?;
        let settled = asked.status == VmStatus::Active && asked.task_state.is_none();
        let found = (0..cluster.daemons.len())
            .find_map(|at| cluster.vmms_of(at).into_iter().next().map(|(_, vmm)| (at, vmm)));
        Ok(found.filter(|(at, _)| {
            let armed = cluster.daemons[*at].run_dir().join(asked.id.to_string()).join("armed.json");
            settled && armed.exists()
        }))
    })
    .await
}

/// Waits for a VMM on another node than `lost`: when it was first seen, and which it is.
async fn moved(cluster: &Cluster, lost: usize) -> Result<(Instant, Process)> {
    wait_for("the VM to run elsewhere", LIMIT, || async {
        Ok(vmm_elsewhere(cluster, lost).map(|vmm| (Instant::now(), vmm)))
    })
    .await
}

fn vmm_elsewhere(cluster: &Cluster, lost: usize) -> Option<Process> {
    let others = (0..cluster.daemons.len()).filter(|at| *at != lost);
    others.flat_map(|at| cluster.vmms_of(at)).next().map(|(_, vmm)| vmm)
}

/// The node is let back, and the VM runs once.
async fn settle(cluster: &Cluster, at: usize) -> Result<()> {
    let other = (at + 1) % cluster.daemons.len();
    wait_for("the node to be let back", LIMIT, || async {
        let path = format!("/v1/nodes/{}", cluster.daemons[at].name);
        let node: Node = match cluster.daemons[other].client().get(&path).await {
            Ok(node) => node,
            // An election is under way.
            Err(_) => return Ok(None),
        };
        Ok((node.fence.is_none() && node.up).then_some(()))
    })
    .await?;
    let vmms = cluster.vmms();
    ensure!(vmms.len() == 1, "it runs once: {vmms:?}");
    Ok(())
}

async fn cluster() -> Result<Cluster> {
    let cluster = Cluster::start(&Setup::real(3)).await?;
    let mut client = cluster.daemons[0].client();
    let policy = PatchClusterPolicy {
        lease_ttl_ms: Some(TTL_MS),
        margin_ms: Some(MARGIN_MS),
        ..PatchClusterPolicy::default()
    };
    client.call::<ClusterPolicy>(Call::patch("/v1/policy", &policy)).await?;
    client.create_tiny_flavor().await?;
    client.import_kernel("guest", cluster.test_guest("banner")?).await?;
    let vm = CreateVm { availability: Availability::Failover, ..tiny_vm("a", "guest") };
    client.call::<Vm>(Call::post("/v1/vms", &vm)).await?;
    Ok(cluster)
}

async fn end(mut cluster: Cluster) -> Result<()> {
    let left = cluster.daemons[0].client().delete_all(LIMIT).await;
    assert_eq!(left, Vec::<String>::new());
    assert_eq!(cluster.vmms(), []);
    assert_eq!(cluster.shut_down(), Vec::<String>::new());
    Ok(())
}

fn rounds() -> usize {
    match std::env::var("HOLM_JEPSEN_ROUNDS") {
        Ok(rounds) => rounds.parse().context("HOLM_JEPSEN_ROUNDS is no number").unwrap(),
        Err(_) => 1,
    }
}
