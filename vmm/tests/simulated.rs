//! The simulated driver keeps the same promises about epochs, runs and restarts as the real one.

use holm_model::node::HypervisorKind;
use holm_model::vm::StopMode;
use holm_model::{Epoch, Revision, VmId};
use holm_vmm::hypervisor::{Boot, Error, ExitCause, InstanceState, Observation, StartSpec};
use holm_vmm::{Hypervisor, Simulated};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn spec(n: u128) -> StartSpec {
    StartSpec {
        vm: VmId(uuid::Uuid::from_u128(n)),
        name: format!("vm-{n}"),
        epoch: Epoch(Revision(7)),
        run: 1,
        vcpus: 1,
        memory_mib: 64,
        disk_gib: 0,
        boot: Boot::Kernel { kernel: "/none".into() },
        cmdline: None,
    }
}

fn driver(dir: &tempfile::TempDir) -> Simulated {
    Simulated::new(dir.path().to_owned(), "no /dev/kvm".to_owned()).expect("driver")
}

async fn state(driver: &Simulated, vm: VmId) -> InstanceState {
    match driver.observe(vm).await {
        Observation::Known(instance) => instance.state,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn it_says_that_it_is_simulated_and_why() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let facts = driver(&dir).facts().await;
    assert_eq!((facts.kind, facts.reason.as_str()), (HypervisorKind::Simulated, "no /dev/kvm"));
}

#[tokio::test]
async fn a_vm_runs_through_a_restart_of_the_daemon_until_it_is_stopped() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let spec = spec(1);
    let first = driver(&dir);
    assert_eq!(first.observe(spec.vm).await, Observation::Absent);
    first.start(spec.clone()).await.expect("started");
    first.start(spec.clone()).await.expect("the same run is joined");
    drop(first);

    let second = driver(&dir);
    assert_eq!(state(&second, spec.vm).await, InstanceState::Running);
    let log = second.log(spec.vm, 100).await.expect("log");
    assert_eq!(String::from_utf8_lossy(&log), "Holm simulated guest vm-1\r\n");
    second.stop(spec.vm, StopMode::Force).await.expect("stopped");
    assert_eq!(state(&second, spec.vm).await, InstanceState::Ended(ExitCause::Requested));
    assert_eq!(second.vms().await.expect("list"), [spec.vm]);
}

#[tokio::test]
async fn a_run_begins_once_and_a_released_epoch_never() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let driver = driver(&dir);
    let mut spec = spec(1);
    driver.start(spec.clone()).await.expect("started");
    assert!(matches!(driver.release(spec.vm, spec.epoch).await, Err(Error::Refused(_))));
    driver.stop(spec.vm, StopMode::Force).await.expect("stopped");
    assert!(matches!(driver.start(spec.clone()).await, Err(Error::Refused(_))));
    driver.release(spec.vm, spec.epoch).await.expect("released");
    spec.run = 2;
    assert!(matches!(driver.start(spec.clone()).await, Err(Error::Refused(_))));
    assert!(matches!(driver.console(spec.vm).await, Err(Error::Refused(_))));
    driver.delete_disks(spec.vm).await.expect("deleted");
    driver.forget(spec.vm).await.expect("forgotten");
    driver.forget(spec.vm).await.expect("forgotten again");
    assert_eq!(driver.observe(spec.vm).await, Observation::Absent);
}

#[tokio::test]
async fn an_epoch_that_never_came_here_can_be_released_before_it_does() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let driver = driver(&dir);
    let spec = spec(1);
    driver.release(spec.vm, spec.epoch).await.expect("released");
    assert!(matches!(driver.start(spec).await, Err(Error::Refused(_))));
}

#[tokio::test]
async fn the_console_echoes_and_q_powers_the_guest_off() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let driver = driver(&dir);
    let mut changes = driver.changes();
    let spec = spec(1);
    driver.start(spec.clone()).await.expect("started");
    let mut console = driver.console(spec.vm).await.expect("console");
    console.write_all(b"abc").await.expect("typed");
    let mut echo = [0; 3];
    console.read_exact(&mut echo).await.expect("echo");
    assert_eq!(&echo, b"abc");
    console.write_all(b"q").await.expect("typed");
    assert_eq!(changes.recv().await, Some(spec.vm));
    assert_eq!(state(&driver, spec.vm).await, InstanceState::Ended(ExitCause::GuestOff));
    assert_eq!(console.read(&mut echo).await.expect("end"), 0);
}

#[tokio::test]
async fn absurd_sizes_are_refused_like_by_the_real_one() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let driver = driver(&dir);
    let refused = driver.start(StartSpec { vcpus: 0, ..spec(1) }).await;
    assert!(matches!(&refused, Err(Error::BuildFailed(why)) if why.starts_with("vcpus")), "{refused:?}");
    assert_eq!(driver.observe(spec(1).vm).await, Observation::Absent);
}
