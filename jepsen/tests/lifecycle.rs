//! One real daemon and real guests, through REST: a VM's whole life, and every way in which a guest or its VMM
//! misbehaves, each ending in a status with a reason an operator understands and with nothing left behind.

use std::time::Duration;

use anyhow::{Context, Result};
use holm_api::vm::{ObservedState, Power};
use holm_api::{Node, Vm, VmStatus};
use holm_jepsen::harness::client::Call;
use holm_jepsen::harness::{Client, Cluster, Setup, real, wait_for};
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(30);
const BANNER: &str = "Holm test guest";

/// A one-node cluster with a flavor and one guest imported as `guest`.
async fn cluster(variant: &str) -> Result<(Cluster, Client)> {
    let cluster = Cluster::start(&Setup::real(1)).await?;
    let mut client = cluster.daemons[0].client();
    client.create_tiny_flavor().await?;
    client.import_kernel("guest", cluster.test_guest(variant)?).await?;
    Ok((cluster, client))
}

/// A one-node cluster whose daemon finds `script` when it looks for the VMM.
async fn cluster_with_stand_in(script: &str) -> Result<(Cluster, Client, tempfile::TempDir)> {
    let dir = tempfile::tempdir()?;
    let search_path = Some(real::path_with_stand_in(dir.path(), script)?);
    let setup = Setup { search_path, ..Setup::real(1) };
    let cluster = Cluster::start(&setup).await?;
    let mut client = cluster.daemons[0].client();
    client.create_tiny_flavor().await?;
    client.import_kernel("guest", cluster.test_guest("banner")?).await?;
    Ok((cluster, client, dir))
}

/// Deletes what there is, stops the daemon, and finds nothing left.
async fn end(mut cluster: Cluster, mut client: Client) -> Result<()> {
    for vm in client.all_vms().await? {
        let gone = client.delete_vm(&vm.name, LIMIT).await;
        gone.with_context(|| format!("the end of the daemon's log:\n{}", cluster.daemons[0].last_words()))?;
    }
    assert_eq!(cluster.vmms(), [], "a VMM outlived its VM");
    let sockets: Vec<_> = std::fs::read_dir(cluster.daemons[0].run_dir())?
        .filter_map(|entry| Some(entry.ok()?.file_name()))
        .filter(|name| name != "api.sock" && name != "lease")
        .collect();
    assert!(sockets.is_empty(), "left in the run directory: {sockets:?}");
    let nodes = client.get::<Node>("/v1/nodes/n1").await?;
    assert_eq!(nodes.inventory["VCPU"].used, 0, "a claim leaked");
    assert_eq!(cluster.shut_down(), Vec::<String>::new());
    Ok(())
}

async fn log(client: &mut Client, vm: &str) -> Result<String> {
    let log = client.raw(Call::get(format!("/v1/vms/{vm}/log"))).await?;
    Ok(String::from_utf8_lossy(&log.body).into_owned())
}

fn reason(vm: &Vm) -> &str {
    vm.fault.as_ref().map_or("", |fault| fault.message.as_str())
}

/// Waits for ERROR, or SHUTOFF, with nothing under way.
async fn wait_ended(cluster: &Cluster, vm: &str, status: VmStatus) -> Result<Vm> {
    let path = format!("/v1/vms/{vm}");
    wait_for(&format!("{vm} to be {status}"), LIMIT, || async {
        let vm: Vm = cluster.daemons[0].client().get(&path).await?;
        Ok((vm.status == status && vm.task_state.is_none()).then_some(vm))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_boots_stops_starts_reboots_and_goes() -> Result<()> {
    if real::skipped("a_vm_boots_stops_starts_reboots_and_goes") {
        return Ok(());
    }
    let (cluster, mut client) = cluster("banner").await?;
    client.create_vm("a", "guest").await?;
    client.wait_status("a", VmStatus::Active, LIMIT).await?;
    wait_for("the banner", LIMIT, || async {
        Ok(log(&mut cluster.daemons[0].client(), "a").await?.contains(BANNER).then_some(()))
    })
    .await?;
    let first = cluster.vmms();
    assert_eq!(first.len(), 1);

    client.post::<Vm>("/v1/vms/a/stop", json!({"force": true})).await?;
    let vm = client.wait_status("a", VmStatus::Shutoff, LIMIT).await?;
    assert_eq!(vm.power, Power::Off);
    assert_eq!(cluster.vmms(), []);

    client.post::<Vm>("/v1/vms/a/start", json!({})).await?;
    client.wait_status("a", VmStatus::Active, LIMIT).await?;
    let second = cluster.vmms();
    assert_eq!(second.len(), 1);

    client.post::<Vm>("/v1/vms/a/reboot", json!({"hard": true})).await?;
    let vm = client.wait_status("a", VmStatus::Active, LIMIT).await?;
    assert_eq!((vm.run, vm.observed.map(|observed| observed.run)), (3, Some(3)));
    let third = cluster.vmms();
    assert_eq!(third.len(), 1);
    assert!(first != second && second != third, "each power-on is a process of its own");
    end(cluster, client).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_powers_off_at_once_is_shutoff_with_the_reason() -> Result<()> {
    if real::skipped("a_guest_that_powers_off_at_once_is_shutoff_with_the_reason") {
        return Ok(());
    }
    let (cluster, mut client) = cluster("poweroff").await?;
    client.create_vm("a", "guest").await?;
    let vm = wait_ended(&cluster, "a", VmStatus::Shutoff).await?;
    assert!(reason(&vm).contains("guest"), "{:?}", vm.fault);
    assert_eq!(cluster.vmms(), []);
    end(cluster, client).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_resets_in_a_loop_is_in_error_with_the_reason() -> Result<()> {
    if real::skipped("a_guest_that_resets_in_a_loop_is_in_error_with_the_reason") {
        return Ok(());
    }
    let (cluster, mut client) = cluster("reset").await?;
    client.create_vm("a", "guest").await?;
    let vm = wait_ended(&cluster, "a", VmStatus::Error).await?;
    assert!(reason(&vm).contains("resets in a loop"), "{:?}", vm.fault);
    assert_eq!(cluster.vmms(), []);
    end(cluster, client).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vmm_that_is_killed_leaves_an_error_and_starts_again_when_asked() -> Result<()> {
    if real::skipped("a_vmm_that_is_killed_leaves_an_error_and_starts_again_when_asked") {
        return Ok(());
    }
    let (cluster, mut client) = cluster("banner").await?;
    client.create_vm("a", "guest").await?;
    client.wait_status("a", VmStatus::Active, LIMIT).await?;
    cluster.vmms().first().expect("one VMM runs").kill()?;
    let vm = wait_ended(&cluster, "a", VmStatus::Error).await?;
    assert!(reason(&vm).contains("signal 9") || reason(&vm).contains("SIGKILL"), "{:?}", vm.fault);
    client.post::<Vm>("/v1/vms/a/start", json!({})).await?;
    client.wait_status("a", VmStatus::Active, LIMIT).await?;
    end(cluster, client).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vmm_that_does_not_answer_is_not_restarted_for_that() -> Result<()> {
    if real::skipped("a_vmm_that_does_not_answer_is_not_restarted_for_that") {
        return Ok(());
    }
    let (cluster, mut client) = cluster("banner").await?;
    client.create_vm("a", "guest").await?;
    client.wait_status("a", VmStatus::Active, LIMIT).await?;
    let before = cluster.vmms();
    let stopped = Stopped::new(before[0].pid)?;
    let daemon = &cluster.daemons[0];
    let observed = |wanted: ObservedState| async move {
        wait_for(&format!("the node to say {wanted:?}"), LIMIT, || async {
            let vm: Vm = daemon.client().get("/v1/vms/a").await?;
            Ok(vm.observed.as_ref().is_some_and(|observed| observed.state == wanted).then_some(vm))
        })
        .await
    };
    let vm = observed(ObservedState::Unknown).await?;
    assert_eq!(vm.status, VmStatus::Active, "the last known status stands");
    assert!(vm.observed.is_some_and(|observed| observed.reason.is_some_and(|reason| !reason.is_empty())));
    drop(stopped);
    observed(ObservedState::Running).await?;
    assert_eq!(cluster.vmms(), before);
    end(cluster, client).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vmm_that_crashes_at_start_is_quoted_in_the_error() -> Result<()> {
    if real::skipped("a_vmm_that_crashes_at_start_is_quoted_in_the_error") {
        return Ok(());
    }
    let script = "#!/bin/sh\n\
        [ \"$1\" = --version ] && { echo cloud-hypervisor v53.0; exit 0; }\n\
        echo 'the flux capacitor is missing' >&2\n\
        exit 1\n";
    let (cluster, mut client, _dir) = cluster_with_stand_in(script).await?;
    client.create_vm("a", "guest").await?;
    let vm = wait_ended(&cluster, "a", VmStatus::Error).await?;
    assert!(reason(&vm).contains("the flux capacitor is missing"), "{:?}", vm.fault);
    assert_eq!(vm.excluded.len(), 1, "the only host was tried: {:?}", vm.excluded);
    assert_eq!((vm.node, vm.epoch), (None, None), "the claim was given back");
    end(cluster, client).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_too_old_a_vmm_or_none_takes_no_vms_and_says_why() -> Result<()> {
    if real::skipped("a_node_with_too_old_a_vmm_or_none_takes_no_vms_and_says_why") {
        return Ok(());
    }
    let old = "#!/bin/sh\necho cloud-hypervisor v40.0\n";
    let (cluster, client, _dir) = cluster_with_stand_in(old).await?;
    takes_no_vms(cluster, client, &["v40.0", "v53.0"]).await?;

    let empty = tempfile::tempdir()?;
    let search_path = Some(empty.path().display().to_string());
    let setup = Setup { search_path, ..Setup::real(1) };
    let cluster = Cluster::start(&setup).await?;
    let mut client = cluster.daemons[0].client();
    client.create_tiny_flavor().await?;
    client.import_kernel("guest", cluster.test_guest("banner")?).await?;
    takes_no_vms(cluster, client, &["not on PATH"]).await
}

/// The node and a refused VM both give the reason, with these words.
async fn takes_no_vms(cluster: Cluster, mut client: Client, words: &[&str]) -> Result<()> {
    let node = wait_for("the node's report", LIMIT, || async {
        let node: Node = cluster.daemons[0].client().get("/v1/nodes/n1").await?;
        Ok(node.hypervisor.is_some().then_some(node))
    })
    .await?;
    let why = node.hypervisor.expect("just waited for").reason;
    assert!(words.iter().all(|word| why.contains(word)), "{why}");
    let body = json!({"name": "a", "flavor": "tiny", "image": "guest", "on_no_host": "fail"});
    client.post::<Vm>("/v1/vms", body).await?;
    let vm = wait_ended(&cluster, "a", VmStatus::Error).await?;
    assert!(vm.refusals.iter().any(|refusal| refusal.message.contains(words[0])), "{:?}", vm.refusals);
    end(cluster, client).await
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
