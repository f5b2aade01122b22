//! One failover, step by step, with three real daemons and real guests: the operating system says when the VMM of
//! a host without a daemon died, and that the one on the next host began after that. Then the host comes back.

use std::time::{Duration, Instant};

use anyhow::Result;
use holm_api::vm::Availability;
use holm_api::{ClusterPolicy, CreateVm, Node, PatchClusterPolicy, Vm, VmStatus};
use holm_jepsen::harness::client::Call;
use holm_jepsen::harness::vms::tiny_vm;
use holm_jepsen::harness::{Cluster, Daemon, Process, Setup, process, real, wait_for};
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(60);
/// The shortest that may be.
const TTL: Duration = Duration::from_millis(8_400);
const MARGIN: Duration = Duration::from_millis(2_000);
/// Leases given before it was set last this long.
const LONGEST: Duration = Duration::from_secs(15);
/// A shim notices within milliseconds; a loaded machine is given more.
const KILL: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_vm_ends_with_its_lease_and_runs_elsewhere_and_its_host_comes_back() -> Result<()> {
    if real::skipped("a_failover_vm_ends_with_its_lease_and_runs_elsewhere_and_its_host_comes_back") {
        return Ok(());
    }
    let mut cluster = cluster().await?;
    // Not the leader: that is another story.
    let leader = cluster.leader().await?;
    let lost = (leader + 1) % cluster.daemons.len();
    let lost_name = cluster.daemons[lost].name.clone();
    let [pinned, failover] = place(&cluster, lost).await?;
    wait_for("the longer leases of before to end", LIMIT, || async {
        Ok((lease_left(&cluster.daemons[lost])? <= TTL).then_some(()))
    })
    .await?;
    // Whatever was renewed last, was renewed before this.
    let killed = Instant::now();
    cluster.daemons[lost].kill()?;

    // The daemon renewed up to the kill: its lease lasts at most the ttl from there.
    let ended = wait_for("the VMM to end with its lease", TTL + KILL, || async {
        Ok((!failover.is_alive()).then(Instant::now))
    })
    .await?;
    assert!(
        ended - killed > TTL - Duration::from_millis(2_500),
        "the lease was cut short: {:?}",
        ended - killed
    );
    assert!(pinned.is_alive(), "a pinned VM needs no lease");

    let mut client = cluster.daemons[leader].client();
    let moved = wait_for("the VM to run elsewhere", TTL + MARGIN + LIMIT, || async {
        let vm: Vm = cluster.daemons[leader].client().get("/v1/vms/moves").await?;
        let runs = vm.status == VmStatus::Active && vm.node.as_ref().is_some_and(|node| *node != lost_name);
        Ok(runs.then_some(Instant::now()))
    })
    .await?;
    println!(
        "lease ended {} ms after the kill of the daemon, ACTIVE elsewhere after {} ms",
        (ended - killed).as_millis(),
        (moved - killed).as_millis()
    );
    let node: Node = client.get(&format!("/v1/nodes/{lost_name}")).await?;
    assert!(node.fence.is_some(), "its VMs are taken from a node only by a fence");

    cluster.daemons[lost].start()?;
    cluster.wait_ready(lost).await?;
    wait_for("the node to be let back", LIMIT, || async {
        let node: Node = cluster.daemons[leader].client().get(&format!("/v1/nodes/{lost_name}")).await?;
        Ok((node.fence.is_none() && node.up).then_some(()))
    })
    .await?;
    assert!(pinned.is_alive(), "nothing touched the pinned VM");
    assert_eq!(cluster.vmms().len(), 2);
    end(cluster).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_vm_is_bound_to_its_lease_freed_again_and_moved_by_a_drain() -> Result<()> {
    if real::skipped("a_running_vm_is_bound_to_its_lease_freed_again_and_moved_by_a_drain") {
        return Ok(());
    }
    let cluster = cluster().await?;
    let mut client = cluster.daemons[0].client();
    let vm = client.create_vm("a", "guest").await?;
    client.wait_status("a", VmStatus::Active, LIMIT).await?;
    let (at, vmm) = only_vmm(&cluster);
    // What a shim writes down before it says that it is armed.
    let armed = cluster.daemons[at].run_dir().join(vm.id.to_string()).join("armed.json");
    assert!(!armed.exists());
    for availability in [Availability::Failover, Availability::Pinned, Availability::Failover] {
        let body = json!({"availability": availability});
        client.call::<Vm>(Call::patch("/v1/vms/a", &body)).await?;
        let wanted = availability == Availability::Failover;
        wait_for(&format!("the VM to be {availability:?}"), LIMIT, || async {
            let vm: Vm = cluster.daemons[0].client().get("/v1/vms/a").await?;
            let in_force = vm.availability_in_force == Some(availability);
            assert!(
                !in_force || !wanted || armed.exists(),
                "failover is in force, and the shim is not armed"
            );
            Ok((in_force && armed.exists() == wanted).then_some(()))
        })
        .await?;
        assert!(vmm.is_alive(), "nothing touched the VM");
    }

    let node = cluster.daemons[at].name.clone();
    client.post::<serde_json::Value>(&format!("/v1/nodes/{node}/drain"), json!({"timeout_s": 1})).await?;
    let moved = wait_for("the VM to run elsewhere", LIMIT, || async {
        let vm: Vm = cluster.daemons[0].client().get("/v1/vms/a").await?;
        assert!(vm.node.as_ref() == Some(&node) || !vmm.is_alive(), "placed anew while its VMM lived");
        let elsewhere = vm.node.as_ref().is_some_and(|on| *on != node);
        Ok((elsewhere && vm.status == VmStatus::Active).then_some(vm))
    })
    .await?;
    assert_eq!(moved.availability_in_force, Some(Availability::Failover), "{moved:#?}");
    assert_ne!(only_vmm(&cluster).0, at);
    let dir = cluster.daemons[at].data_dir().join("vms").join(vm.id.to_string());
    wait_for("the VM's directory to go", LIMIT, || async { Ok((!dir.exists()).then_some(())) }).await?;
    end(cluster).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_slept_through_its_lease_starts_nothing_it_lost() -> Result<()> {
    if real::skipped("a_daemon_that_slept_through_its_lease_starts_nothing_it_lost") {
        return Ok(());
    }
    let cluster = cluster().await?;
    let leader = cluster.leader().await?;
    let lost = (leader + 1) % cluster.daemons.len();
    let [pinned, failover] = place(&cluster, lost).await?;
    let asleep = Stopped::new(cluster.daemons[lost].pid().expect("it runs"))?;
    wait_for("the VM to run elsewhere", LIMIT, || async {
        let vm: Vm = cluster.daemons[leader].client().get("/v1/vms/moves").await?;
        assert!(vm.status != VmStatus::Build || !failover.is_alive(), "placed anew while its VMM lived");
        let elsewhere = vm.node.as_ref().is_some_and(|node| *node != cluster.daemons[lost].name);
        Ok((elsewhere && vm.status == VmStatus::Active).then_some(()))
    })
    .await?;
    drop(asleep);
    wait_for("the node to be let back", LIMIT, || async {
        assert!(cluster.vmms_of(lost).len() <= 1, "it started what it had lost");
        let path = format!("/v1/nodes/{}", cluster.daemons[lost].name);
        let node: Node = cluster.daemons[leader].client().get(&path).await?;
        Ok((node.fence.is_none() && node.up).then_some(()))
    })
    .await?;
    assert_eq!(cluster.vmms_of(lost).into_iter().map(|(_, vmm)| vmm).collect::<Vec<_>>(), [pinned]);
    end(cluster).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_daemon_ends_what_a_shim_that_hangs_does_not_and_starts_it_again() -> Result<()> {
    if real::skipped("the_daemon_ends_what_a_shim_that_hangs_does_not_and_starts_it_again") {
        return Ok(());
    }
    let cluster = cluster().await?;
    let at = cluster.leader().await?;
    let [pinned, failover] = place(&cluster, at).await?;
    let shim = process::parent(failover.pid).expect("a VMM has a shim");
    let hangs = Stopped::new(shim.pid)?;
    let others = (0..cluster.daemons.len()).filter(|other| *other != at);
    let asleep: Vec<_> = others
        .map(|other| Stopped::new(cluster.daemons[other].pid().expect("it runs")))
        .collect::<Result<_>>()?;
    // Nobody grants a lease now; the daemon looks every few seconds, and gives a shim some time.
    wait_for("the daemon to end the VM", LONGEST + Duration::from_secs(15), || async {
        Ok((!failover.is_alive()).then_some(()))
    })
    .await?;
    assert!(pinned.is_alive());
    drop((hangs, asleep));
    let vm = wait_for("the VM to run again", LIMIT, || async {
        let vm: Vm = cluster.daemons[at].client().get("/v1/vms/moves").await?;
        let runs = vm.status == VmStatus::Active && cluster.vmms_of(at).iter().any(|(id, _)| *id == vm.id);
        Ok(runs.then_some(vm))
    })
    .await?;
    assert_eq!(vm.run, 1, "its lease ended, which is nobody's failure: {vm:#?}");
    assert!(pinned.is_alive());
    end(cluster).await
}

/// A process under SIGSTOP; goes on when this is dropped.
struct Stopped(nix::unistd::Pid);

impl Stopped {
    fn new(pid: i32) -> Result<Self> {
        let pid = nix::unistd::Pid::from_raw(pid);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP)?;
        Ok(Self(pid))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = nix::sys::signal::kill(self.0, nix::sys::signal::Signal::SIGCONT);
    }
}

/// Deletes what there is and finds nothing left.
async fn end(mut cluster: Cluster) -> Result<()> {
    let left = cluster.daemons[0].client().delete_all(LIMIT).await;
    assert_eq!(left, Vec::<String>::new());
    assert_eq!(cluster.vmms(), []);
    assert_eq!(cluster.shut_down(), Vec::<String>::new());
    Ok(())
}

/// The only VMM, and the node it runs on.
fn only_vmm(cluster: &Cluster) -> (usize, Process) {
    let all: Vec<_> = (0..cluster.daemons.len())
        .flat_map(|at| cluster.vmms_of(at).into_iter().map(move |(_, vmm)| (at, vmm)))
        .collect();
    assert_eq!(all.len(), 1, "{all:?}");
    all.into_iter().next().expect("just counted")
}

/// How long the node's lease lasts, as its lease file says.
fn lease_left(daemon: &Daemon) -> Result<Duration> {
    let file = std::fs::read(daemon.run_dir().join("lease"))?;
    let deadline_ns = u64::from_le_bytes(file[40..48].try_into()?);
    // The same clock: since boot, suspend included.
    let uptime = std::fs::read_to_string("/proc/uptime")?;
    let uptime_s: f64 = uptime.split(' ').next().unwrap_or_default().parse()?;
    Ok(Duration::from_nanos(deadline_ns).saturating_sub(Duration::from_secs_f64(uptime_s)))
}

/// Three nodes that boot real guests, with leases as short as may be.
async fn cluster() -> Result<Cluster> {
    let cluster = Cluster::start(&Setup::real(3)).await?;
    let mut client = cluster.daemons[0].client();
    let policy = PatchClusterPolicy {
        lease_ttl_ms: Some(TTL.as_millis() as u64),
        margin_ms: Some(MARGIN.as_millis() as u64),
        ..PatchClusterPolicy::default()
    };
    client.call::<ClusterPolicy>(Call::patch("/v1/policy", &policy)).await?;
    client.create_tiny_flavor().await?;
    client.import_kernel("guest", cluster.test_guest("banner")?).await?;
    Ok(cluster)
}

/// The VMMs of `stays`, which is pinned, and of `moves`, which may fail over, both on node `at`.
async fn place(cluster: &Cluster, at: usize) -> Result<[Process; 2]> {
    let mut client = cluster.daemons[at].client();
    let others: Vec<_> = (0..cluster.daemons.len()).filter(|other| *other != at).collect();
    for other in &others {
        set_enabled(cluster, *other, false).await?;
    }
    let mut vmms = Vec::new();
    for (name, availability) in [("stays", Availability::Pinned), ("moves", Availability::Failover)] {
        let vm = CreateVm { availability, ..tiny_vm(name, "guest") };
        client.call::<Vm>(Call::post("/v1/vms", &vm)).await?;
        let vm = client.wait_status(name, VmStatus::Active, LIMIT).await?;
        assert_eq!(vm.availability_in_force, Some(availability));
        let found = cluster.vmms_of(at).into_iter().find(|(id, _)| *id == vm.id);
        vmms.push(found.expect("an ACTIVE VM has a VMM where it was placed").1);
    }
    for other in &others {
        set_enabled(cluster, *other, true).await?;
    }
    Ok([vmms.remove(0), vmms.remove(0)])
}

async fn set_enabled(cluster: &Cluster, at: usize, enabled: bool) -> Result<()> {
    let path = format!("/v1/nodes/{}", cluster.daemons[at].name);
    cluster.daemons[at].client().call::<Node>(Call::patch(path, &json!({"enabled": enabled}))).await?;
    Ok(())
}
