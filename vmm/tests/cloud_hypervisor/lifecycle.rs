//! A VM's life as the agent sees it: start, observe, restart of the daemon, stop, release, forget.

use holm_model::vm::StopMode;
use holm_model::{Epoch, Revision};
use holm_vmm::Hypervisor;
use holm_vmm::hypervisor::{Error, ExitCause, InstanceState, Observation, StartSpec, VcpuAffinity};
use holm_vmm::test_guest::Variant;
use tokio::io::AsyncWriteExt;

use crate::rig::{Rig, random_vm, read_until};

#[tokio::test]
async fn a_vm_starts_prints_its_banner_and_stops_without_a_trace() {
    let Some(rig) = Rig::real("start and stop").await else { return };
    let spec = rig.spec(Variant::Banner);
    assert_eq!(rig.driver.observe(spec.vm).await, Observation::Absent);

    rig.driver.start(spec.clone()).await.expect("started");
    rig.until_printed(spec.vm, "Holm test guest").await;
    let running = rig.instance(spec.vm).await;
    assert_eq!((running.epoch, running.run, running.state), (spec.epoch, 1, InstanceState::Running));

    rig.driver.stop(spec.vm, StopMode::Force).await.expect("stopped");
    let stopped = rig.instance(spec.vm).await;
    assert_eq!(stopped.state, InstanceState::Ended(ExitCause::Requested));
    rig.assert_no_leak(spec.vm);
    assert_eq!(rig.driver.vms().await.expect("list"), [spec.vm]);
}

#[tokio::test]
async fn a_guest_that_ignores_the_power_button_is_powered_off_when_its_time_is_over() {
    let Some(rig) = Rig::real("graceful stop").await else { return };
    let spec = rig.spec(Variant::Banner);
    rig.driver.start(spec.clone()).await.expect("started");
    let begun = std::time::Instant::now();
    rig.driver.stop(spec.vm, StopMode::Graceful { timeout_s: 1 }).await.expect("stopped");
    assert!(begun.elapsed().as_millis() >= 1000, "{:?}", begun.elapsed());
    let state = rig.instance(spec.vm).await.state;
    assert_eq!(state, InstanceState::Ended(ExitCause::Requested));
    rig.assert_no_leak(spec.vm);
}

#[tokio::test]
async fn a_guest_that_powers_off_ends_as_guest_off_and_the_change_is_told() {
    let Some(rig) = Rig::real("guest off").await else { return };
    let mut changes = rig.driver.changes();
    let spec = rig.spec(Variant::Echo);
    rig.driver.start(spec.clone()).await.expect("started");
    let mut console = rig.driver.console(spec.vm).await.expect("console");
    console.write_all(b"abc").await.expect("typed");
    read_until(&mut console, "abc").await;
    console.write_all(b"q").await.expect("typed");
    assert_eq!(changes.recv().await, Some(spec.vm));
    let state = rig.until(spec.vm, |s| matches!(s, InstanceState::Ended(_))).await;
    assert_eq!(state, InstanceState::Ended(ExitCause::GuestOff));
    rig.assert_no_leak(spec.vm);
}

#[tokio::test]
async fn a_new_driver_adopts_a_running_vm_without_touching_it() {
    let Some(mut rig) = Rig::real("adoption").await else { return };
    let spec = rig.spec(Variant::Banner);
    rig.driver.start(spec.clone()).await.expect("started");
    let before = rig.processes(spec.vm);

    rig.restart();
    assert_eq!(rig.instance(spec.vm).await.state, InstanceState::Running);
    rig.driver.start(spec.clone()).await.expect("starting the run that goes on joins it");
    assert_eq!(rig.processes(spec.vm), before);

    let mut changes = rig.driver.changes();
    rig.driver.stop(spec.vm, StopMode::Force).await.expect("stopped");
    assert_eq!(changes.recv().await, Some(spec.vm));
    rig.assert_no_leak(spec.vm);
}

#[tokio::test]
async fn shim_and_vmm_keep_nothing_that_the_daemon_was_given() {
    let Some(rig) = Rig::real("inherited descriptors").await else { return };
    let (mut reader, writer) = std::io::pipe().expect("pipe");
    // As a shell's pipeline does: it is open in the daemon and not closed on exec.
    // SAFETY: the descriptor is open.
    unsafe { libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&writer), libc::F_SETFD, 0) };
    let spec = rig.spec(Variant::Banner);
    rig.driver.start(spec.clone()).await.expect("started");
    drop(writer);
    let read = tokio::task::spawn_blocking(move || std::io::Read::read(&mut reader, &mut [0; 1]));
    let ended = tokio::time::timeout(crate::rig::PATIENCE, read).await;
    assert_eq!(ended.expect("nobody else holds the pipe").expect("read").expect("end"), 0);
    assert_eq!(rig.instance(spec.vm).await.state, InstanceState::Running);
    rig.driver.stop(spec.vm, StopMode::Force).await.expect("stopped");
}

#[tokio::test]
async fn twenty_vms_start_at_once_are_adopted_at_once_and_stop_at_once() {
    let Some(mut rig) = Rig::real("twenty VMs").await else { return };
    let specs: Vec<_> = (0..20).map(|_| rig.spec(Variant::Banner)).collect();
    let starts = specs.iter().map(|spec| rig.driver.start(spec.clone()));
    for started in futures::future::join_all(starts).await {
        started.expect("started");
    }
    let before: Vec<_> = specs.iter().map(|spec| rig.processes(spec.vm)).collect();

    rig.restart();
    let adopted = futures::future::join_all(specs.iter().map(|spec| rig.instance(spec.vm))).await;
    assert!(adopted.iter().all(|instance| instance.state == InstanceState::Running), "{adopted:?}");
    assert_eq!(specs.iter().map(|spec| rig.processes(spec.vm)).collect::<Vec<_>>(), before);

    let stops = specs.iter().map(|spec| rig.driver.stop(spec.vm, StopMode::Force));
    for stopped in futures::future::join_all(stops).await {
        stopped.expect("stopped");
    }
    for spec in &specs {
        rig.assert_no_leak(spec.vm);
    }
}

#[tokio::test]
async fn a_run_is_started_once_and_a_released_epoch_never_again() {
    let Some(rig) = Rig::real("release").await else { return };
    let mut spec = rig.spec(Variant::Banner);
    rig.driver.start(spec.clone()).await.expect("started");
    let refused = rig.driver.release(spec.vm, spec.epoch).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    rig.driver.stop(spec.vm, StopMode::Force).await.expect("stopped");

    let again = rig.driver.start(spec.clone()).await;
    assert!(matches!(&again, Err(Error::Refused(why)) if why.contains("run 1")), "{again:?}");
    spec.run = 2;
    rig.driver.start(spec.clone()).await.expect("the next run");
    rig.driver.stop(spec.vm, StopMode::Force).await.expect("stopped");

    rig.driver.release(spec.vm, spec.epoch).await.expect("released");
    assert!(rig.instance(spec.vm).await.released);
    spec.run = 3;
    let released = rig.driver.start(spec.clone()).await;
    assert!(matches!(&released, Err(Error::Refused(why)) if why.contains("released")), "{released:?}");

    spec.epoch = Epoch(Revision(9));
    spec.run = 1;
    rig.driver.start(spec.clone()).await.expect("a later epoch");
    assert_eq!(rig.instance(spec.vm).await.epoch, Epoch(Revision(9)));
    rig.driver.stop(spec.vm, StopMode::Force).await.expect("stopped");
    let not_released = rig.driver.forget(spec.vm).await;
    assert!(matches!(not_released, Err(Error::Refused(_))), "{not_released:?}");
    rig.driver.release(spec.vm, spec.epoch).await.expect("released");
    rig.driver.delete_disks(spec.vm).await.expect("disks deleted");
    rig.driver.forget(spec.vm).await.expect("forgotten");
    assert_eq!(rig.driver.observe(spec.vm).await, Observation::Absent);
    assert!(!rig.vm_dir(spec.vm).exists());
}

#[tokio::test]
async fn a_vcpu_runs_on_the_host_cpu_it_is_bound_to() {
    let Some(rig) = Rig::real("CPU affinity").await else { return };
    let last = *holm_vmm::host::online_cpus().expect("CPUs").last().expect("a CPU");
    let mut spec = rig.spec(Variant::Banner);
    spec.cpu_affinity = vec![VcpuAffinity { vcpu: 0, host_cpus: vec![last] }];
    rig.driver.start(spec.clone()).await.expect("started");
    let tasks = format!("/proc/{}/task", rig.processes(spec.vm).1);
    let allowed = std::fs::read_dir(tasks).expect("threads").filter_map(|task| {
        let status = std::fs::read_to_string(task.ok()?.path().join("status")).ok()?;
        let field = |name: &str| {
            status.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
        };
        Some((field("Name:")?, field("Cpus_allowed_list:")?))
    });
    let allowed: std::collections::BTreeMap<_, _> = allowed.collect();
    assert_eq!(allowed.get("vcpu0"), Some(&last.to_string()), "{allowed:?}");

    rig.driver.stop(spec.vm, StopMode::Force).await.expect("stopped");
    rig.assert_no_leak(spec.vm);

    let elsewhere = VcpuAffinity { vcpu: 0, host_cpus: vec![4095] };
    let missing = StartSpec { vm: random_vm(), cpu_affinity: vec![elsewhere], ..spec.clone() };
    let refused = rig.driver.start(missing).await;
    assert!(matches!(&refused, Err(Error::BuildFailed(why)) if why.contains("4095")), "{refused:?}");
    let device = "ffff:ff:1f.7".parse().expect("address");
    let missing = StartSpec { vm: random_vm(), pci_devices: vec![device], ..spec };
    let refused = rig.driver.start(missing).await;
    assert!(matches!(&refused, Err(Error::BuildFailed(why)) if why.contains("lspci")), "{refused:?}");
}
