//! Guests, Cloud Hypervisors and processes that go wrong: each ends in a state with a reason an operator
//! understands, and nothing is left behind.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use holm_model::vm::StopMode;
use holm_vmm::Hypervisor;
use holm_vmm::hypervisor::{Error, ExitCause, InstanceState, Observation, StartSpec};
use holm_vmm::test_guest::Variant;
use tokio::io::AsyncWriteExt;

use crate::rig::{Death, PATIENCE, Rig, read_until, signal};

/// Waits for the end of the run and returns why it failed.
async fn failure(rig: &Rig, spec: &StartSpec) -> String {
    match rig.until(spec.vm, |state| matches!(state, InstanceState::Ended(_))).await {
        InstanceState::Ended(ExitCause::Failed { reason }) => reason,
        other => panic!("ended as {other:?}"),
    }
}

#[tokio::test]
async fn a_guest_that_powers_off_at_once_is_off_not_failed() {
    let Some(rig) = Rig::real("guest off at once").await else { return };
    let mut changes = rig.driver.changes();
    // Its end may come before, with or after the answer to its boot.
    for _ in 0..10 {
        let spec = rig.spec(Variant::Poweroff);
        rig.driver.start(spec.clone()).await.expect("it did start");
        // Told by itself, and not only when somebody asks.
        let observed = rig.driver.observe(spec.vm).await;
        if matches!(observed, Observation::Known(instance) if instance.state == InstanceState::Running) {
            let told = async { while changes.recv().await != Some(spec.vm) {} };
            tokio::time::timeout(PATIENCE, told).await.expect("the change is told");
        }
        let state = rig.until(spec.vm, |state| matches!(state, InstanceState::Ended(_))).await;
        assert_eq!(state, InstanceState::Ended(ExitCause::GuestOff));
        rig.assert_no_leak(spec.vm);
    }
}

#[tokio::test]
async fn a_guest_that_resets_in_a_loop_is_ended_with_that_reason() {
    let Some(rig) = Rig::real("reset loop").await else { return };
    let spec = rig.spec(Variant::Reset);
    // It may be over before anybody looks.
    let started = rig.driver.start(spec.clone()).await;
    assert!(matches!(started, Ok(()) | Err(Error::BuildFailed(_))), "{started:?}");
    let reason = failure(&rig, &spec).await;
    assert!(reason.starts_with("guest resets in a loop (11 in "), "{reason}");
    rig.assert_no_leak(spec.vm);
}

#[tokio::test]
async fn a_vcpu_that_dies_is_a_failure_although_the_exit_code_is_0() {
    let Some(rig) = Rig::real("vCPU crash").await else { return };
    let spec = rig.spec(Variant::Crash);
    let started = rig.driver.start(spec.clone()).await;
    assert!(matches!(started, Ok(()) | Err(Error::BuildFailed(_))), "{started:?}");
    let reason = failure(&rig, &spec).await;
    assert!(reason.contains("exit code 0: a vCPU crashed"), "{reason}");
    assert!(reason.contains("Unexpected exit reason on vcpu run"), "{reason}");
    rig.assert_no_leak(spec.vm);
}

#[tokio::test]
async fn a_guest_resets_after_its_image_is_gone_but_not_after_its_own_link_is() {
    let Some(rig) = Rig::real("kernel deleted").await else { return };
    let spec = rig.spec(Variant::ResetOnInput);
    rig.driver.start(spec.clone()).await.expect("started");
    rig.until_printed(spec.vm, "Holm test guest").await;
    let mut console = rig.driver.console(spec.vm).await.expect("console");

    std::fs::remove_file(rig.path().join("ResetOnInput")).expect("image deleted");
    console.write_all(b"x").await.expect("typed");
    rig.until_printed(spec.vm, "Holm test guest\r\nHolm test guest").await;
    assert_eq!(rig.instance(spec.vm).await.state, InstanceState::Running);

    std::fs::remove_file(rig.vm_dir(spec.vm).join("kernel")).expect("link deleted");
    console.write_all(b"x").await.expect("typed");
    let reason = failure(&rig, &spec).await;
    assert!(reason.contains("Cloud Hypervisor ended by itself"), "{reason}");
    assert!(reason.contains("its last words"), "{reason}");
    rig.assert_no_leak(spec.vm);
}

#[tokio::test]
async fn a_vmm_that_is_killed_is_a_failure() {
    let Some(rig) = Rig::real("VMM killed").await else { return };
    let spec = rig.spec(Variant::Banner);
    rig.driver.start(spec.clone()).await.expect("started");
    signal(rig.processes(spec.vm).1, libc::SIGKILL);
    let reason = failure(&rig, &spec).await;
    assert!(reason.contains("signal 9"), "{reason}");
    rig.assert_no_leak(spec.vm);
}

#[tokio::test]
async fn a_vmm_that_exits_with_0_unasked_is_a_failure() {
    let Some(rig) = Rig::real("VMM exits").await else { return };
    let spec = rig.spec(Variant::Banner);
    rig.driver.start(spec.clone()).await.expect("started");
    signal(rig.processes(spec.vm).1, libc::SIGTERM);
    let reason = failure(&rig, &spec).await;
    assert!(reason.contains("exit code 0"), "{reason}");
    rig.assert_no_leak(spec.vm);
}

#[tokio::test]
async fn a_shim_that_is_killed_takes_its_vmm_with_it() {
    let Some(rig) = Rig::real("shim killed").await else { return };
    let mut spec = rig.spec(Variant::Banner);
    let mut changes = rig.driver.changes();
    rig.driver.start(spec.clone()).await.expect("started");
    let (shim, _) = rig.processes(spec.vm);
    signal(shim, libc::SIGKILL);
    assert_eq!(changes.recv().await, Some(spec.vm));
    let reason = failure(&rig, &spec).await;
    assert!(reason.contains("shim") && reason.contains("killed"), "{reason}");

    spec.run = 2;
    rig.driver.start(spec.clone()).await.expect("what is left does not hinder the next run");
    rig.driver.stop(spec.vm, StopMode::Force).await.expect("stopped");
    rig.assert_no_leak(spec.vm);
}

#[tokio::test]
async fn a_vmm_that_hangs_is_unresponsive_is_not_restarted_and_can_be_killed() {
    let Some(rig) = Rig::real("VMM hangs").await else { return };
    let spec = rig.spec(Variant::Banner);
    rig.driver.start(spec.clone()).await.expect("started");
    let before = rig.processes(spec.vm);
    signal(before.1, libc::SIGSTOP);
    let hanging = |state: &InstanceState| matches!(state, InstanceState::Unresponsive { reason } if reason.contains("has not answered vm.info"));
    rig.until(spec.vm, hanging).await;
    assert_eq!(rig.processes(spec.vm), before);

    signal(before.1, libc::SIGCONT);
    rig.until(spec.vm, |state| *state == InstanceState::Running).await;
    assert_eq!(rig.processes(spec.vm), before);

    signal(before.1, libc::SIGSTOP);
    rig.driver.stop(spec.vm, StopMode::Force).await.expect("killed");
    let state = rig.instance(spec.vm).await.state;
    assert_eq!(state, InstanceState::Ended(ExitCause::Requested));
    rig.assert_no_leak(spec.vm);
}

#[tokio::test]
async fn a_shim_that_hangs_is_unresponsive_and_can_be_killed_with_its_vmm() {
    let Some(rig) = Rig::real("shim hangs").await else { return };
    let spec = rig.spec(Variant::Banner);
    rig.driver.start(spec.clone()).await.expect("started");
    signal(rig.processes(spec.vm).0, libc::SIGSTOP);
    let state = rig.instance(spec.vm).await.state;
    assert!(matches!(&state, InstanceState::Unresponsive { reason } if reason.contains("shim")), "{state:?}");
    rig.driver.stop(spec.vm, StopMode::Force).await.expect("killed");
    let state = rig.instance(spec.vm).await.state;
    assert_eq!(state, InstanceState::Ended(ExitCause::Requested));
}

#[tokio::test]
async fn a_scribe_that_is_killed_costs_the_log_and_nothing_else() {
    let Some(rig) = Rig::real("scribe killed").await else { return };
    let spec = rig.spec(Variant::Echo);
    rig.driver.start(spec.clone()).await.expect("started");
    rig.until_printed(spec.vm, "Holm test guest").await;
    let (shim, vmm) = rig.processes(spec.vm);
    let children = std::fs::read_to_string(format!("/proc/{shim}/task/{shim}/children")).expect("children");
    let scribe = children.split_whitespace().map(|pid| pid.parse().expect("pid")).find(|pid| *pid != vmm);
    let death = Death::of(scribe.expect("the scribe"));
    signal(scribe.expect("the scribe"), libc::SIGKILL);
    death.seen().await;

    let mut console = rig.driver.console(spec.vm).await.expect("console");
    console.write_all(b"still here").await.expect("typed");
    read_until(&mut console, "still here").await;
    assert_eq!(rig.instance(spec.vm).await.state, InstanceState::Running);
    console.write_all(b"q").await.expect("typed");
    let state = rig.until(spec.vm, |state| matches!(state, InstanceState::Ended(_))).await;
    assert_eq!(state, InstanceState::Ended(ExitCause::GuestOff), "its shim wrote it down");
    rig.assert_no_leak(spec.vm);
}

#[tokio::test]
async fn a_host_that_goes_down_powers_guests_off_and_their_run_may_begin_again() {
    let Some(rig) = Rig::real("host shutdown").await else { return };
    let spec = rig.spec(Variant::Banner);
    rig.driver.start(spec.clone()).await.expect("started");
    let (shim, vmm) = rig.processes(spec.vm);
    // As the init system does it: everybody gets SIGTERM.
    signal(shim, libc::SIGTERM);
    signal(vmm, libc::SIGTERM);
    let state = rig.until(spec.vm, |state| matches!(state, InstanceState::Ended(_))).await;
    assert_eq!(state, InstanceState::Ended(ExitCause::HostLost));
    rig.assert_no_leak(spec.vm);
    rig.driver.start(spec.clone()).await.expect("begun again");
    rig.driver.stop(spec.vm, StopMode::Force).await.expect("stopped");
}

#[tokio::test]
async fn a_kernel_that_does_not_fit_is_refused_in_the_words_of_cloud_hypervisor() {
    let Some(rig) = Rig::real("kernel too large").await else { return };
    let mut spec = rig.spec(Variant::Banner);
    let mut kernel = holm_vmm::test_guest::elf(Variant::Banner);
    // The one segment is to be loaded at 3 GiB, into a guest of 64 MiB.
    kernel[64 + 24..64 + 32].copy_from_slice(&(3u64 << 30).to_le_bytes());
    let path = rig.path().join("large");
    std::fs::write(&path, kernel).expect("written");
    spec.boot = holm_vmm::hypervisor::Boot::Kernel { kernel: path };
    let refused = rig.driver.start(spec.clone()).await;
    assert!(
        matches!(&refused, Err(Error::BuildFailed(why)) if why.starts_with("Cloud Hypervisor refused vm.boot: ")),
        "{refused:?}"
    );
    rig.until(spec.vm, |state| matches!(state, InstanceState::Ended(ExitCause::Failed { .. }))).await;
    rig.assert_no_leak(spec.vm);
}

#[tokio::test]
async fn what_is_no_kernel_is_refused_before_cloud_hypervisor_sees_it() {
    let Some(rig) = Rig::real("no kernel").await else { return };
    let mut spec = rig.spec(Variant::Banner);
    let path = rig.path().join("script");
    std::fs::write(&path, "#!/bin/sh").expect("written");
    spec.boot = holm_vmm::hypervisor::Boot::Kernel { kernel: path };
    let refused = rig.driver.start(spec.clone()).await;
    assert!(matches!(&refused, Err(Error::BuildFailed(why)) if why.contains("bzImage")), "{refused:?}");
    let missing = rig.path().join("missing");
    spec.vm = rig.spec(Variant::Banner).vm;
    spec.boot = holm_vmm::hypervisor::Boot::Kernel { kernel: missing };
    let refused = rig.driver.start(spec.clone()).await;
    assert!(matches!(&refused, Err(Error::BuildFailed(why)) if why.contains("is missing")), "{refused:?}");
}

#[tokio::test]
async fn a_missing_an_old_and_a_strange_binary_are_told_with_the_next_step() {
    let missing = Rig::with_binary(Some(PathBuf::from("/nonexistent/cloud-hypervisor")));
    let reason = missing.driver.facts().await.reason;
    assert!(reason.contains("/nonexistent/cloud-hypervisor") && reason.contains("install"), "{reason}");
    let refused = missing.driver.start(missing.spec(Variant::Banner)).await;
    assert!(matches!(refused, Err(Error::BuildFailed(_))), "{refused:?}");

    let cases = [
        ("echo cloud-hypervisor v38.0.0", "is v38.0.0; Holm needs v53.0 or later"),
        ("echo bash 5.2", "is it Cloud Hypervisor?"),
        ("echo no libc >&2; exit 127", "no libc"),
    ];
    for (script, expected) in cases {
        let Some(rig) = Rig::fake("strange binary", &format!("#!/bin/sh\n{script}\n")).await else { return };
        let reason = rig.driver.facts().await.reason;
        assert!(reason.contains(expected), "{reason:?} should say {expected:?}");
        let spec = rig.spec(Variant::Banner);
        let refused = rig.driver.start(spec.clone()).await;
        assert!(matches!(&refused, Err(Error::BuildFailed(why)) if *why == reason), "{refused:?}");
        assert_eq!(rig.driver.observe(spec.vm).await, Observation::Absent);
    }
}

const VERSION: &str = r#"#!/bin/sh
if [ "$1" = --version ]; then echo "cloud-hypervisor v53.0.0"; exit 0; fi
"#;

#[tokio::test]
async fn a_vmm_that_crashes_at_start_is_quoted() {
    let script = format!("{VERSION}echo 'Error: no such device: /dev/boom' >&2\nexit 3\n");
    let Some(rig) = Rig::fake("crash at start", &script).await else { return };
    let spec = rig.spec(Variant::Banner);
    let refused = rig.driver.start(spec.clone()).await;
    let expected =
        "Cloud Hypervisor ended by itself (exit code 3); its last words: Error: no such device: /dev/boom";
    assert!(matches!(&refused, Err(Error::BuildFailed(why)) if why == expected), "{refused:?}");
    assert_eq!(failure(&rig, &spec).await, expected);
    rig.assert_no_leak(spec.vm);
}

#[tokio::test]
async fn a_vmm_that_cannot_be_executed_is_told() {
    let script = format!("{VERSION}rm -f \"$0\"\n");
    let Some(rig) = Rig::fake("not executable", &script).await else { return };
    let spec = rig.spec(Variant::Banner);
    // The version is asked once more at each start, so the file must go between that and the fork.
    let fake = rig.path().join("fake-hypervisor");
    std::fs::write(&fake, "#!/nonexistent/interpreter\n").expect("written");
    let refused = rig.driver.start(spec.clone()).await;
    assert!(matches!(&refused, Err(Error::BuildFailed(why)) if why.contains("cannot be run")), "{refused:?}");
}

#[tokio::test]
async fn a_vmm_that_never_answers_is_unresponsive_from_its_start_and_can_be_stopped() {
    let script = format!("{VERSION}exec sleep 1000\n");
    let Some(mut rig) = Rig::fake("API hangs", &script).await else { return };
    let spec = rig.spec(Variant::Banner);
    // The daemon dies while it waits for the start.
    let cut_short = tokio::time::timeout(Duration::from_secs(2), rig.driver.start(spec.clone())).await;
    assert!(cut_short.is_err(), "{cut_short:?}");
    let before = rig.processes(spec.vm);
    rig.restart();
    let hanging = |state: &InstanceState| matches!(state, InstanceState::Unresponsive { reason } if reason.contains("has not answered vm.create"));
    rig.until(spec.vm, hanging).await;
    assert_eq!(rig.processes(spec.vm), before);

    let begun = Instant::now();
    rig.driver.stop(spec.vm, StopMode::Graceful { timeout_s: 60 }).await.expect("stopped");
    assert!(begun.elapsed() < Duration::from_secs(10), "a guest that never ran has no power button");
    let state = rig.instance(spec.vm).await.state;
    assert_eq!(state, InstanceState::Ended(ExitCause::Requested));
    rig.assert_no_leak(spec.vm);
}
