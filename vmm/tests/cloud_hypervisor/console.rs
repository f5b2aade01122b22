//! The console: many readers, one writer, and nobody can hold up the guest or the others.

use holm_model::vm::StopMode;
use holm_vmm::Hypervisor;
use holm_vmm::hypervisor::{Error, InstanceState};
use holm_vmm::test_guest::Variant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::rig::{PATIENCE, Rig, read_until};

/// Current and rotated console log, in bytes.
fn log_sizes(rig: &Rig, vm: holm_model::VmId) -> (u64, u64) {
    let size = |name: &str| std::fs::metadata(rig.vm_dir(vm).join(name)).map_or(0, |meta| meta.len());
    (size("console.log"), size("console.log.1"))
}

#[tokio::test]
async fn a_guest_that_floods_its_console_fills_no_disk() {
    let Some(rig) = Rig::real("console flood").await else { return };
    let spec = rig.spec(Variant::Flood);
    // An earlier run left the log nearly full.
    std::fs::create_dir_all(rig.vm_dir(spec.vm)).expect("directory");
    std::fs::write(rig.vm_dir(spec.vm).join("console.log"), vec![b'.'; (1 << 20) - 32 * 1024]).expect("log");
    rig.driver.start(spec.clone()).await.expect("started");
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let (current, previous) = log_sizes(&rig, spec.vm);
        assert!(current <= 1 << 20 && previous <= 1 << 20, "{current} and {previous} bytes");
        if previous > 0 && current > 16 * 1024 {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{current} and {previous} bytes only");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(rig.instance(spec.vm).await.state, InstanceState::Running);
    let log = rig.driver.log(spec.vm, 4096).await.expect("log");
    assert_eq!(log.len(), 4096);
    rig.driver.stop(spec.vm, StopMode::Force).await.expect("stopped");
    rig.assert_no_leak(spec.vm);
}

#[tokio::test]
async fn a_reader_that_stalls_or_dies_with_unread_output_holds_up_nobody() {
    let Some(rig) = Rig::real("stalled console reader").await else { return };
    let spec = rig.spec(Variant::Flood);
    rig.driver.start(spec.clone()).await.expect("started");
    let stalled = rig.driver.console(spec.vm).await.expect("console");
    let dying = rig.driver.console(spec.vm).await.expect("console");
    let mut reader = rig.driver.console(spec.vm).await.expect("console");
    let mut read = async |bytes: usize| {
        let mut left = bytes;
        let mut buffer = [0; 4096];
        while left > 0 {
            let n = tokio::time::timeout(PATIENCE, reader.read(&mut buffer))
                .await
                .expect("the guest prints")
                .expect("console");
            assert!(n > 0, "the console ended");
            left = left.saturating_sub(n);
        }
    };
    // More than the socket and the queue of a reader hold together.
    read(512 * 1024).await;
    drop(dying);
    read(256 * 1024).await;
    assert_eq!(rig.instance(spec.vm).await.state, InstanceState::Running);

    let mut stalled = stalled;
    read_until(&mut stalled, "bytes left out, this reader was too slow]").await;
    rig.driver.stop(spec.vm, StopMode::Force).await.expect("stopped");
    rig.assert_no_leak(spec.vm);
}

#[tokio::test]
async fn the_first_who_types_is_the_writer_until_he_leaves() {
    let Some(rig) = Rig::real("console writer").await else { return };
    let spec = rig.spec(Variant::Echo);
    rig.driver.start(spec.clone()).await.expect("started");
    let mut first = rig.driver.console(spec.vm).await.expect("console");
    let mut second = rig.driver.console(spec.vm).await.expect("console");
    first.write_all(b"one").await.expect("typed");
    read_until(&mut first, "one").await;
    read_until(&mut second, "one").await;
    second.write_all(b"two").await.expect("typed");
    read_until(&mut second, "this one only reads]").await;
    drop(first);
    // The shim learns that he left when it polls next, which it does before it reads what follows.
    let log = loop {
        second.write_all(b"3").await.expect("typed");
        let log = rig.driver.log(spec.vm, 1 << 16).await.expect("log");
        if log.ends_with(b"3") {
            break String::from_utf8_lossy(&log).into_owned();
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };
    assert!(log.starts_with("Holm test guest\r\none3"), "{log:?}");
    rig.driver.stop(spec.vm, StopMode::Force).await.expect("stopped");
    rig.assert_no_leak(spec.vm);
}

#[tokio::test]
async fn a_vm_that_is_off_has_a_log_and_no_console() {
    let Some(rig) = Rig::real("console of a stopped VM").await else { return };
    let spec = rig.spec(Variant::Banner);
    assert!(matches!(rig.driver.console(spec.vm).await, Err(Error::NotHere)));
    rig.driver.start(spec.clone()).await.expect("started");
    rig.until_printed(spec.vm, "Holm test guest").await;
    rig.driver.stop(spec.vm, StopMode::Force).await.expect("stopped");
    assert!(matches!(rig.driver.console(spec.vm).await, Err(Error::Refused(_))));
    rig.until_printed(spec.vm, "Holm test guest").await;
}
