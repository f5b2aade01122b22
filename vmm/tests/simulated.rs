//! The simulated driver keeps the same promises about epochs, runs and restarts as the real one.

use holm_model::node::HypervisorKind;
use holm_model::vm::StopMode;
use holm_model::{Epoch, Revision, VmId};
use holm_vmm::hypervisor::{Boot, Error, ExitCause, InstanceState, Observation, StartSpec};
use holm_vmm::lease::{Lease, LeaseFile, LeaseId};
use holm_vmm::{Hypervisor, Simulated, host};
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
        lease: None,
        cpu_affinity: Vec::new(),
        pci_devices: Vec::new(),
        volumes: Vec::new(),
        cluster: None,
        start_order: 0,
        again: false,
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

const SECOND: u64 = 1_000_000_000;

fn lease_file(dir: &tempfile::TempDir) -> LeaseFile {
    LeaseFile::open_or_create(&dir.path().join("lease")).expect("lease file")
}

fn lease(file: &LeaseFile, id: u64) -> Option<Lease> {
    Some(Lease { file: file.path().to_owned(), id: LeaseId(id) })
}

async fn armed(driver: &Simulated, vm: VmId) -> Option<LeaseId> {
    match driver.observe(vm).await {
        Observation::Known(instance) => instance.armed,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_vm_ends_with_its_lease_without_being_looked_at_and_may_begin_again_under_another() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let file = lease_file(&dir);
    let driver = driver(&dir);
    let mut changes = driver.changes();
    let bound = StartSpec { lease: lease(&file, 1), ..spec(1) };
    assert!(matches!(driver.start(bound.clone()).await, Err(Error::NoLease(_))), "none was granted");
    assert_eq!(driver.observe(bound.vm).await, Observation::Absent, "the run was not begun");

    file.grant(LeaseId(1), host::boottime_ns() + SECOND / 5).expect("granted");
    driver.start(bound.clone()).await.expect("started");
    assert_eq!(armed(&driver, bound.vm).await, Some(LeaseId(1)));
    assert_eq!(changes.recv().await, Some(bound.vm));
    assert!(Lease { file: file.path().to_owned(), id: LeaseId(1) }.deadline().is_err(), "not before its end");
    assert_eq!(state(&driver, bound.vm).await, InstanceState::Ended(ExitCause::LeaseEnded));

    file.grant(LeaseId(2), host::boottime_ns() + 1000 * SECOND).expect("granted");
    let again = StartSpec { lease: lease(&file, 2), ..bound };
    driver.start(again.clone()).await.expect("the same run, under the new lease");
    assert_eq!(state(&driver, again.vm).await, InstanceState::Running);
}

#[tokio::test]
async fn a_vm_is_armed_and_disarmed_as_it_runs_and_a_restart_of_the_daemon_knows() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let file = lease_file(&dir);
    let (first, spec) = (driver(&dir), spec(1));
    first.start(spec.clone()).await.expect("started");
    let one = lease(&file, 1).expect("lease");
    assert!(matches!(first.arm(spec.vm, one.clone()).await, Err(Error::NoLease(_))));
    assert_eq!(armed(&first, spec.vm).await, None, "a refusal changes nothing");
    file.grant(LeaseId(1), host::boottime_ns() + 1000 * SECOND).expect("granted");
    first.arm(spec.vm, one.clone()).await.expect("armed");
    drop(first);

    let second = driver(&dir);
    assert_eq!(armed(&second, spec.vm).await, Some(LeaseId(1)));
    second.disarm(spec.vm).await.expect("disarmed");
    file.end();
    assert_eq!(state(&second, spec.vm).await, InstanceState::Running);
    assert!(matches!(second.arm(self::spec(2).vm, one).await, Err(Error::NoLease(_))));
}

#[tokio::test]
async fn the_next_daemon_ends_what_lost_its_lease_meanwhile() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let file = lease_file(&dir);
    file.grant(LeaseId(1), host::boottime_ns() + 1000 * SECOND).expect("granted");
    let bound = StartSpec { lease: lease(&file, 1), ..spec(1) };
    let first = driver(&dir);
    first.start(bound.clone()).await.expect("started");
    drop(first);
    // Another lease is in force: the one of before has lapsed, whatever its deadline was.
    file.grant(LeaseId(2), host::boottime_ns() + 1000 * SECOND).expect("granted");
    let second = driver(&dir);
    assert_eq!(state(&second, bound.vm).await, InstanceState::Ended(ExitCause::LeaseEnded));
}
