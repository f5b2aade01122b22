//! Restarting the daemon never touches a running VM: twenty real guests, one restart by SIGTERM and one by
//! SIGKILL. Witnesses are the kernel (same processes, same start times) and each VMM itself, which logs every
//! API request it gets. The same with many processes that stand in for VMMs, under real shims:
//! `HOLM_STAND_INS=1000` says how many.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use holm_api::{Vm, VmStatus};
use holm_jepsen::harness::{Client, Cluster, Daemon, Process, Setup, process, real, wait_for};

const VMS: usize = 20;
/// VMs without guests, unless the environment says otherwise.
const STAND_INS: usize = 60;
/// Sets [`STAND_INS`].
const STAND_INS_ENV: &str = "HOLM_STAND_INS";
/// A thousand starts take minutes on a small machine.
const MANY_LIMIT: Duration = Duration::from_secs(600);
const LIMIT: Duration = Duration::from_secs(60);
/// All are adopted within this long after the daemon serves: the promise of the design.
const ADOPTED_LIMIT: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_the_daemon_touches_no_vm() -> Result<()> {
    if real::skipped("a_restart_of_the_daemon_touches_no_vm") {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let search_path = Some(real::path_with_stand_in(&dir.path().join("bin"), &logging_vmm(dir.path()))?);
    let setup = Setup { search_path, ..Setup::real(1) };
    let mut cluster = Cluster::start(&setup).await?;
    allow_many_vms(&mut cluster).await?;
    let mut client = cluster.daemons[0].client();
    client.create_tiny_flavor().await?;
    client.import_kernel("guest", cluster.test_guest("banner")?).await?;
    for vm in 0..VMS {
        client.create_vm(&format!("v{vm}"), "guest").await?;
    }
    for vm in 0..VMS {
        client.wait_status(&format!("v{vm}"), VmStatus::Active, LIMIT).await?;
    }
    let before = cluster.vmms();
    assert_eq!(before.len(), VMS);
    let records = records(&mut client).await?;
    let requests = changing_requests(dir.path())?;
    assert_eq!(requests, VMS * 2, "each VMM was asked to create and to boot its VM, and nothing else");

    for by in ["SIGTERM", "SIGKILL"] {
        end_daemon(&mut cluster, by)?;
        assert_eq!(cluster.vmms(), before, "VMs went on without the daemon");
        restart(&mut cluster, by, VMS).await?;
        // The daemon has looked at every VM again, and still:
        assert_eq!(cluster.vmms(), before, "after {by}");
        assert_eq!(changing_requests(dir.path())?, requests, "a VMM was asked to change its VM after {by}");
        assert_eq!(self::records(&mut client).await?, records, "a record changed after {by}");
        for vm in 0..VMS {
            let log =
                client.raw(holm_jepsen::harness::client::Call::get(format!("/v1/vms/v{vm}/log"))).await?;
            let banners = String::from_utf8_lossy(&log.body).matches("Holm test guest").count();
            assert_eq!(banners, 1, "v{vm} booted once");
        }
    }
    for vm in 0..VMS {
        client.delete_vm(&format!("v{vm}"), LIMIT).await?;
    }
    assert_eq!(cluster.vmms(), []);
    assert_eq!(cluster.shut_down(), Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_the_daemon_touches_none_of_many_vms() -> Result<()> {
    if let Some(why) = no_stand_ins() {
        drop(writeln!(std::io::stderr(), "SKIPPED: a_restart_of_the_daemon_touches_none_of_many_vms: {why}"));
        return Ok(());
    }
    let count = match std::env::var(STAND_INS_ENV) {
        Ok(count) => count.parse().with_context(|| format!("{STAND_INS_ENV}={count} is no number"))?,
        Err(_) => STAND_INS,
    };
    let dir = tempfile::tempdir()?;
    let vmm = dir.path().join(real::VMM);
    std::fs::copy(env!("CARGO_BIN_EXE_stand-in-vmm"), &vmm)?;
    let search_path = Some(format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", dir.path().display()));
    let mut cluster = Cluster::start(&Setup { search_path, ..Setup::real(1) }).await?;
    allow_many_vms(&mut cluster).await?;
    let mut client = cluster.daemons[0].client();
    client.create_tiny_flavor().await?;
    client.import_kernel("guest", cluster.test_guest("banner")?).await?;
    for vm in 0..count {
        client.create_vm(&format!("v{vm}"), "guest").await?;
    }
    for vm in 0..count {
        client.wait_status(&format!("v{vm}"), VmStatus::Active, MANY_LIMIT).await?;
    }
    let before = cluster.vmms();
    let shims: Vec<_> = before.iter().filter_map(|vmm| process::parent(vmm.pid)).collect();
    assert_eq!((before.len(), shims.len()), (count, count));
    let records = records(&mut client).await?;

    for by in ["SIGTERM", "SIGKILL"] {
        end_daemon(&mut cluster, by)?;
        assert_eq!(cluster.vmms(), before, "VMs went on without the daemon");
        restart(&mut cluster, by, count).await?;
        assert_eq!(cluster.vmms(), before, "after {by}");
        assert!(shims.iter().all(Process::is_alive), "a shim ended after {by}");
        assert_eq!(self::records(&mut client).await?, records, "a record changed after {by}");
    }
    let left = client.delete_all(MANY_LIMIT).await;
    assert_eq!(left, Vec::<String>::new());
    assert_eq!(cluster.vmms(), []);
    assert_eq!(cluster.shut_down(), Vec::<String>::new());
    Ok(())
}

/// Why VMMs that are none cannot run here, if they cannot: Holm refuses a host without KVM, whatever the VMM.
fn no_stand_ins() -> Option<String> {
    let kvm = std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm");
    kvm.err().map(|error| format!("/dev/kvm cannot be used: {error}"))
}

fn end_daemon(cluster: &mut Cluster, by: &str) -> Result<()> {
    if by == "SIGTERM" { cluster.daemons[0].stop() } else { cluster.daemons[0].kill() }
}

/// Starts the daemon, and says how long until it served, and until it had adopted all VMs, both from its start.
async fn restart(cluster: &mut Cluster, by: &str, vms: usize) -> Result<()> {
    let told = adopted_lines(&cluster.daemons[0])?.len();
    let began = Instant::now();
    cluster.daemons[0].start()?;
    let daemon = &cluster.daemons[0];
    let line = wait_for("the daemon to say what it adopted", LIMIT, || async {
        Ok(adopted_lines(daemon)?.get(told).cloned())
    })
    .await?;
    let adopted = began.elapsed();
    assert!(line.contains(&format!("running={vms} ")), "{line}");
    cluster.wait_ready(0).await?;
    let (ready, adopted_ms) = (began.elapsed().as_millis(), adopted.as_millis());
    let looked = line.split_whitespace().find_map(|word| word.strip_prefix("after_ms=")).unwrap_or("?");
    println!(
        "after {by}: ready in {ready} ms, {vms} VMs adopted in {adopted_ms} ms, the last {looked} of them to look at each"
    );
    assert!(adopted < ADOPTED_LIMIT, "adopted only after {adopted:?}");
    Ok(())
}

fn adopted_lines(daemon: &Daemon) -> Result<Vec<String>> {
    let log = std::fs::read_to_string(daemon.log_file())?;
    Ok(log.lines().filter(|line| line.contains("VMs of this host adopted")).map(str::to_owned).collect())
}

/// The real VMM, with a log of its API requests by process.
fn logging_vmm(dir: &Path) -> String {
    let program = real::vmm_program().expect("checked before").display().to_string();
    format!(
        "#!/bin/sh\n\
         [ \"$1\" = --version ] && exec {program} --version\n\
         exec {program} -v --log-file {}/requests-$$.log \"$@\"\n",
        dir.display()
    )
}

/// Requests, to all VMMs so far, that are no mere questions.
fn changing_requests(dir: &Path) -> Result<usize> {
    let mut count = 0;
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let log = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let requests = log.lines().filter_map(|line| line.split_once("API request event: "));
            count += requests
                .filter(|(_, what)| !what.starts_with("VmInfo") && !what.starts_with("VmmPing"))
                .count();
        }
    }
    Ok(count)
}

/// Everything the cluster says of each VM.
async fn records(client: &mut Client) -> Result<Vec<Vm>> {
    client.all_vms().await
}

/// More VMs than the CPUs and the memory of a small machine allow by default.
async fn allow_many_vms(cluster: &mut Cluster) -> Result<()> {
    let daemon = &mut cluster.daemons[0];
    daemon.stop()?;
    let file = daemon.data_dir().join("holmd.toml");
    let mut settings = std::fs::read_to_string(&file)?;
    for ratio in ["cpu_allocation_ratio = 4.0", "ram_allocation_ratio = 1.0"] {
        assert!(settings.contains(ratio), "{settings}");
        let (name, _) = ratio.split_once(" = ").context("it names a setting")?;
        settings = settings.replace(ratio, &format!("{name} = 1000.0"));
    }
    std::fs::write(&file, settings)?;
    daemon.start()?;
    cluster.wait_ready(0).await?;
    Ok(())
}
