//! A VM with a lease ends with it, by its shim's doing alone: nothing here asks the driver for it, and what
//! counts is when the kernel says that the process was gone.

use std::time::{Duration, Instant};

use holm_model::vm::StopMode;
use holm_vmm::hypervisor::{Error, ExitCause, InstanceState, Observation, StartSpec};
use holm_vmm::lease::{Lease, LeaseFile, LeaseId};
use holm_vmm::test_guest::Variant;
use holm_vmm::{Hypervisor, host, watchdog};

use crate::rig::{Death, PATIENCE, Rig, random_vm, signal};

const SECOND: u64 = 1_000_000_000;
/// Time enough to start guests on a busy host, and soon over.
const SOON: u64 = 5 * SECOND;
/// Far longer than any test.
const LONG: u64 = 1000 * SECOND;
/// From the deadline to the end of the process. The rest of the margin is for hosts that are busier.
const PROMPT: Duration = Duration::from_millis(500);

fn from_now(ns: u64) -> u64 {
    host::boottime_ns() + ns
}

impl Rig {
    fn lease_file(&self) -> LeaseFile {
        LeaseFile::open_or_create(&self.path().join("lease")).expect("lease file")
    }

    /// Starts `specs` at once under lease 1, renewed for `ttl` until all run, however long that takes; answers its end.
    async fn start_renewing(&self, file: &LeaseFile, ttl: u64, specs: &[StartSpec]) -> u64 {
        let starts = futures::future::join_all(specs.iter().map(|spec| self.driver.start(spec.clone())));
        tokio::pin!(starts);
        let mut renew = tokio::time::interval(Duration::from_millis(200));
        let mut deadline = from_now(ttl);
        file.grant(LeaseId(1), deadline).expect("granted");
        let started = loop {
            tokio::select! {
                started = &mut starts => break started,
                _ = renew.tick() => {
                    deadline = from_now(ttl);
                    file.grant(LeaseId(1), deadline).expect("renewed");
                }
            }
        };
        assert!(started.iter().all(Result::is_ok), "{started:?}");
        deadline
    }

    fn lease(&self, id: u64) -> Lease {
        Lease { file: self.path().join("lease"), id: LeaseId(id) }
    }

    fn leased_spec(&self, id: u64) -> StartSpec {
        StartSpec { lease: Some(self.lease(id)), ..self.spec(Variant::Banner) }
    }
}

/// The VMM has died by itself, after `deadline_ns` and at once; says how late.
async fn assert_dies_with(death: Death, deadline_ns: u64, what: &str) {
    let died_ns = death.seen().await;
    assert!(died_ns >= deadline_ns, "{what}: died {} ns before its lease ended", deadline_ns - died_ns);
    let late = Duration::from_nanos(died_ns - deadline_ns);
    println!("{what}: the VMM was gone {late:?} after the deadline");
    assert!(late < PROMPT, "{what}: {late:?} late");
}

#[tokio::test]
async fn a_vm_whose_lease_is_not_renewed_is_gone_with_the_deadline_and_may_run_again() {
    let Some(rig) = Rig::real("lease not renewed").await else { return };
    let file = rig.lease_file();
    let deadline = from_now(SOON);
    file.grant(LeaseId(1), deadline).expect("granted");
    let spec = rig.leased_spec(1);
    rig.driver.start(spec.clone()).await.expect("started");
    assert_eq!(rig.instance(spec.vm).await.armed, Some(LeaseId(1)));
    let death = Death::of(rig.processes(spec.vm).1);
    assert_dies_with(death, deadline, "lease not renewed").await;
    let state = rig.until(spec.vm, |state| matches!(state, InstanceState::Ended(_))).await;
    assert_eq!(state, InstanceState::Ended(ExitCause::LeaseEnded));
    rig.assert_no_leak(spec.vm);

    file.grant(LeaseId(2), from_now(LONG)).expect("granted");
    let stale = rig.driver.start(spec.clone()).await;
    assert!(matches!(&stale, Err(Error::NoLease(why)) if why.contains("lease 1")), "{stale:?}");
    rig.driver.start(StartSpec { lease: Some(rig.lease(2)), ..spec.clone() }).await.expect("the same run");
    assert_eq!(rig.instance(spec.vm).await.armed, Some(LeaseId(2)));
    rig.driver.stop(spec.vm, StopMode::Force).await.expect("stopped");
    rig.assert_no_leak(spec.vm);
}

#[tokio::test]
async fn renewals_keep_a_vm_alive_and_the_last_one_counts() {
    let Some(rig) = Rig::real("lease renewed").await else { return };
    let file = rig.lease_file();
    let ttl = SECOND / 2;
    let mut deadline = from_now(4 * ttl);
    file.grant(LeaseId(1), deadline).expect("granted");
    let spec = rig.leased_spec(1);
    rig.driver.start(spec.clone()).await.expect("started");
    let vmm = rig.processes(spec.vm).1;
    let death = Death::of(vmm);
    let mut renew = tokio::time::interval(Duration::from_millis(100));
    for _ in 0..40 {
        renew.tick().await;
        deadline = deadline.max(from_now(ttl));
        file.grant(LeaseId(1), deadline).expect("renewed");
    }
    assert!(!death.has_come(), "it ran through eight periods");
    assert_eq!(rig.processes(spec.vm).1, vmm);
    assert_dies_with(death, deadline, "renewals end").await;
    rig.until(spec.vm, |state| *state == InstanceState::Ended(ExitCause::LeaseEnded)).await;
    rig.assert_no_leak(spec.vm);
}

#[tokio::test]
async fn another_lease_id_and_an_early_end_kill_within_the_second_in_which_shims_look() {
    let Some(rig) = Rig::real("lease replaced").await else { return };
    type Change = fn(&LeaseFile);
    let replaced: Change = |file| file.grant(LeaseId(9), from_now(LONG)).expect("granted");
    let ended: Change = LeaseFile::end;
    for (id, change) in [(1, replaced), (2, ended)] {
        let file = rig.lease_file();
        file.grant(LeaseId(id), from_now(LONG)).expect("granted");
        let spec = rig.leased_spec(id);
        rig.driver.start(spec.clone()).await.expect("started");
        let death = Death::of(rig.processes(spec.vm).1);
        let at = host::boottime_ns();
        change(&file);
        let late = Duration::from_nanos(death.seen().await - at);
        println!("lease {id} taken away: the VMM was gone after {late:?}");
        assert!(late < Duration::from_secs(1) + PROMPT, "{late:?}");
        rig.until(spec.vm, |state| *state == InstanceState::Ended(ExitCause::LeaseEnded)).await;
        rig.assert_no_leak(spec.vm);
    }
}

#[tokio::test]
async fn a_pinned_vm_does_not_care_about_leases_and_its_shim_sleeps() {
    let Some(rig) = Rig::real("pinned VM").await else { return };
    let file = rig.lease_file();
    file.grant(LeaseId(1), from_now(LONG)).expect("granted");
    let (pinned, leased) = (rig.spec(Variant::Banner), rig.leased_spec(1));
    for spec in [&pinned, &leased] {
        rig.driver.start(spec.clone()).await.expect("started");
    }
    // Memory is locked a second after the start; the wait for it is over when the kernel says so.
    for spec in [&pinned, &leased] {
        rig.until_memory_is_locked(spec.vm).await;
    }
    let wakes = |spec: &StartSpec| context_switches(rig.processes(spec.vm).0);
    let begun = Instant::now();
    loop {
        let before = [wakes(&pinned), wakes(&leased)];
        tokio::time::sleep(Duration::from_secs(3)).await;
        let woken = [wakes(&pinned) - before[0], wakes(&leased) - before[1]];
        println!("wakes in 3 s: a pinned VM's shim {}, one with a lease {}", woken[0], woken[1]);
        if woken[0] <= 1 && woken[1] <= 5 {
            break;
        }
        // What it did just before is not over at once where other tests have the CPUs.
        assert!(begun.elapsed() < PATIENCE, "{woken:?}");
    }

    file.end();
    rig.until(leased.vm, |state| *state == InstanceState::Ended(ExitCause::LeaseEnded)).await;
    let here = rig.instance(pinned.vm).await;
    assert_eq!((here.state, here.armed, here.can_arm), (InstanceState::Running, None, true));
    rig.driver.stop(pinned.vm, StopMode::Force).await.expect("stopped");
    rig.assert_no_leak(pinned.vm);
}

/// How often a process went to sleep of its own accord.
fn context_switches(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
    let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches:")).expect("field");
    line.split_whitespace().nth(1).expect("value").parse().expect("number")
}

#[tokio::test]
async fn a_running_vm_is_armed_and_disarmed_and_the_next_daemon_knows() {
    let Some(mut rig) = Rig::real("arm and disarm").await else { return };
    let file = rig.lease_file();
    let spec = rig.spec(Variant::Banner);
    let one = rig.lease(1);
    let absent = rig.driver.arm(spec.vm, one.clone()).await;
    assert!(matches!(absent, Err(Error::NoLease(_))), "{absent:?}");
    file.grant(LeaseId(1), from_now(LONG)).expect("granted");
    assert!(matches!(rig.driver.arm(spec.vm, one.clone()).await, Err(Error::NotHere)));

    rig.driver.start(spec.clone()).await.expect("started");
    rig.driver.arm(spec.vm, one.clone()).await.expect("armed");
    rig.driver.arm(spec.vm, one.clone()).await.expect("armed already");
    rig.restart();
    let here = rig.instance(spec.vm).await;
    assert_eq!((here.armed, here.can_arm), (Some(LeaseId(1)), true));
    // A shim that cannot be asked has left word.
    let shim = rig.processes(spec.vm).0;
    signal(shim, libc::SIGSTOP);
    let here = rig.instance(spec.vm).await;
    assert!(matches!(here.state, InstanceState::Unresponsive { .. }), "{here:?}");
    assert_eq!(here.armed, Some(LeaseId(1)));
    signal(shim, libc::SIGCONT);

    rig.driver.disarm(spec.vm).await.expect("disarmed");
    rig.driver.disarm(spec.vm).await.expect("disarmed already");
    assert_eq!(rig.instance(spec.vm).await.armed, None);
    file.end();
    let refused = rig.driver.arm(spec.vm, one).await;
    assert!(matches!(refused, Err(Error::NoLease(_))), "{refused:?}");
    assert_eq!(rig.instance(spec.vm).await.state, InstanceState::Running, "a refusal kills nobody");

    let deadline = from_now(SOON);
    file.grant(LeaseId(2), deadline).expect("granted");
    let death = Death::of(rig.processes(spec.vm).1);
    rig.driver.arm(spec.vm, rig.lease(2)).await.expect("armed");
    assert_dies_with(death, deadline, "armed as it ran").await;
    rig.until(spec.vm, |state| *state == InstanceState::Ended(ExitCause::LeaseEnded)).await;
    assert!(matches!(rig.driver.disarm(spec.vm).await, Err(Error::Refused(_))), "it does not run");
    rig.assert_no_leak(spec.vm);
}

#[tokio::test]
async fn a_shim_older_than_leases_is_told_as_such_and_its_vm_is_not_armed() {
    let Some(rig) = Rig::real("older shim").await else { return };
    let file = rig.lease_file();
    file.grant(LeaseId(1), from_now(LONG)).expect("granted");
    let spec = rig.spec(Variant::Banner);
    rig.driver.start(spec.clone()).await.expect("started");
    let path = rig.vm_dir(spec.vm).join("shim.json");
    let mut record: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).expect("shim.json")).expect("json");
    // As the shims of before wrote it.
    record.as_object_mut().expect("object").remove("can_arm").expect("the field");
    std::fs::write(&path, record.to_string()).expect("written");
    let here = rig.instance(spec.vm).await;
    assert_eq!((here.armed, here.can_arm), (None, false));
    let refused = rig.driver.arm(spec.vm, rig.lease(1)).await;
    assert!(matches!(&refused, Err(Error::Refused(why)) if why.contains("stop and start")), "{refused:?}");
    rig.driver.stop(spec.vm, StopMode::Force).await.expect("stopped");
    assert!(rig.instance(spec.vm).await.can_arm, "what is started next can be");
}

#[tokio::test]
async fn a_lease_file_kept_over_a_reboot_lets_nothing_run() {
    let Some(rig) = Rig::real("lease of another boot").await else { return };
    let file = rig.lease_file();
    file.grant(LeaseId(1), from_now(LONG)).expect("granted");
    let spec = rig.spec(Variant::Banner);
    rig.driver.start(spec.clone()).await.expect("started");
    // The same file, as if this boot were another.
    let mut bytes = std::fs::read(file.path()).expect("file");
    bytes[16] ^= 1;
    std::fs::remove_file(file.path()).expect("removed");
    std::fs::write(file.path(), bytes).expect("written");
    let refused = rig.driver.arm(spec.vm, rig.lease(1)).await;
    assert!(matches!(&refused, Err(Error::NoLease(why)) if why.contains("earlier boot")), "{refused:?}");
    let bound = StartSpec { vm: random_vm(), ..rig.leased_spec(1) };
    let refused = rig.driver.start(bound.clone()).await;
    assert!(matches!(&refused, Err(Error::NoLease(why)) if why.contains("earlier boot")), "{refused:?}");
    assert_eq!(rig.driver.observe(bound.vm).await, Observation::Absent);
    rig.driver.stop(spec.vm, StopMode::Force).await.expect("stopped");
}

/// A program that leaves a mark when it is run as a VMM.
const MARKING: &str = r#"#!/bin/sh
if [ "$1" = --version ]; then echo "cloud-hypervisor v53.0.0"; exit 0; fi
: > "$(dirname "$0")/started"
exec sleep 1000
"#;

#[tokio::test]
async fn a_lease_that_ends_on_the_way_to_the_shim_starts_no_vmm() {
    let slow_shim = |root: &std::path::Path, settings: &mut holm_vmm::cloud_hypervisor::Settings| {
        let script = format!("#!/bin/sh\nsleep 0.5\nexec {} \"$@\"\n", settings.shim.exe.display());
        settings.shim.exe = crate::rig::script(root, "slow-shim", &script);
        settings.vmm_binary = Some(crate::rig::script(root, "marking", MARKING));
    };
    let Some(rig) = Rig::fake_with("lease ends before exec", slow_shim) else { return };
    let file = rig.lease_file();
    file.grant(LeaseId(1), from_now(SECOND * 2 / 5)).expect("granted");
    let spec = rig.leased_spec(1);
    let refused = rig.driver.start(spec.clone()).await;
    assert!(matches!(&refused, Err(Error::NoLease(why)) if why.contains("lease 1")), "{refused:?}");
    assert!(!rig.path().join("started").exists(), "no VMM was started");
    assert_eq!(rig.instance(spec.vm).await.state, InstanceState::Prepared, "the run was not begun");
    assert!(!rig.run_dir(spec.vm).exists(), "nothing is left");
}

#[tokio::test]
async fn a_vmm_that_hangs_at_its_start_dies_with_the_lease_too() {
    let marking = |root: &std::path::Path, settings: &mut holm_vmm::cloud_hypervisor::Settings| {
        settings.vmm_binary = Some(crate::rig::script(root, "marking", MARKING));
    };
    let Some(rig) = Rig::fake_with("lease ends at start", marking) else { return };
    let file = rig.lease_file();
    let deadline = from_now(2 * SECOND);
    file.grant(LeaseId(1), deadline).expect("granted");
    let spec = rig.leased_spec(1);
    let started = rig.driver.start(spec.clone()).await;
    assert!(matches!(started, Err(Error::NoLease(_))), "{started:?}");
    assert!(rig.path().join("started").exists(), "the VMM was started");
    assert!(host::boottime_ns() >= deadline);
    assert_eq!(rig.instance(spec.vm).await.state, InstanceState::Ended(ExitCause::LeaseEnded));
    rig.assert_no_leak(spec.vm);
}

#[tokio::test]
async fn a_graceful_stop_does_not_last_longer_than_the_lease() {
    let Some(rig) = Rig::real("lease ends in a stop").await else { return };
    let file = rig.lease_file();
    let deadline = from_now(SOON);
    file.grant(LeaseId(1), deadline).expect("granted");
    let spec = rig.leased_spec(1);
    rig.driver.start(spec.clone()).await.expect("started");
    let death = Death::of(rig.processes(spec.vm).1);
    let stop = rig.driver.stop(spec.vm, StopMode::Graceful { timeout_s: 60 });
    let (stopped, ()) = tokio::join!(stop, assert_dies_with(death, deadline, "lease ends in a stop"));
    stopped.expect("stopped");
    let state = rig.instance(spec.vm).await.state;
    assert_eq!(state, InstanceState::Ended(ExitCause::Requested), "it was being stopped");
    rig.assert_no_leak(spec.vm);
}

#[tokio::test]
async fn a_shim_that_was_asleep_over_the_deadline_kills_before_it_hears_anything() {
    let Some(rig) = Rig::real("shim asleep").await else { return };
    let file = rig.lease_file();
    let deadline = from_now(SOON);
    file.grant(LeaseId(1), deadline).expect("granted");
    let spec = rig.leased_spec(1);
    rig.driver.start(spec.clone()).await.expect("started");
    let (shim, vmm) = rig.processes(spec.vm);
    let death = Death::of(vmm);
    // Daemon and shim stopped together: the one case that a lease alone does not cover.
    signal(shim, libc::SIGSTOP);
    while host::boottime_ns() < deadline + SECOND / 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!death.has_come(), "nobody was there to kill it");
    let sight = watchdog::look(&rig.path().join("run"));
    assert!(!sight.is_safe() && sight.bound == 1, "the watchdog sees it: {sight:?}");
    file.grant(LeaseId(2), from_now(LONG)).expect("granted");
    // A new lease is offered while it sleeps: that does not save the run of the old one.
    let arm = tokio::spawn({
        let (driver, vm, lease) = (rig.driver.clone(), spec.vm, rig.lease(2));
        async move { driver.arm(vm, lease).await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let woken_ns = host::boottime_ns();
    signal(shim, libc::SIGCONT);
    let died_ns = death.seen().await;
    println!(
        "daemon and shim stopped: the VMM ran {:?} beyond its lease, until {:?} after the shim woke",
        Duration::from_nanos(died_ns - deadline),
        Duration::from_nanos(died_ns - woken_ns)
    );
    assert!(Duration::from_nanos(died_ns - woken_ns) < PROMPT);
    assert!(arm.await.expect("task").is_err());
    assert_eq!(watchdog::look(&rig.path().join("run")), watchdog::Sight::default());
    rig.until(spec.vm, |state| *state == InstanceState::Ended(ExitCause::LeaseEnded)).await;
    rig.assert_no_leak(spec.vm);
}

#[tokio::test]
async fn a_shim_that_is_killed_takes_a_vmm_of_another_user_with_it() {
    // SAFETY: a plain system call.
    if unsafe { libc::geteuid() } != 0 {
        crate::rig::skipped("shim of a VMM user killed", "only root can give a process another user");
        return;
    }
    let other_user = |root: &std::path::Path, settings: &mut holm_vmm::cloud_hypervisor::Settings| {
        let user = holm_vmm::cloud_hypervisor::VmmUser { uid: 65534, gid: 65534 };
        settings.vmm_user = Some(user);
        let waiting = MARKING.replace(": > \"$(dirname \"$0\")/started\"\n", "");
        settings.vmm_binary = Some(crate::rig::script(root, "waiting", &waiting));
    };
    let Some(rig) = Rig::fake_with("shim of a VMM user killed", other_user) else { return };
    let spec = rig.spec(Variant::Banner);
    let cut_short = tokio::time::timeout(Duration::from_secs(1), rig.driver.start(spec.clone())).await;
    assert!(cut_short.is_err(), "{cut_short:?}");
    let (shim, vmm) = rig.processes(spec.vm);
    let status = std::fs::read_to_string(format!("/proc/{vmm}/status")).expect("status");
    assert!(status.contains("Uid:\t65534\t65534\t65534\t65534"), "{status}");
    let death = Death::of(vmm);
    signal(shim, libc::SIGKILL);
    tokio::time::timeout(PATIENCE, death.seen()).await.expect("it died with its shim");
}

#[tokio::test]
async fn a_disk_that_hangs_does_not_hold_up_the_kill_and_how_it_ended_is_told_once_it_is_back() {
    let Some(mut rig) = Rig::real("disk hangs").await else { return };
    if let Err(why) = rig.put_vms_on_a_disk() {
        crate::rig::skipped("disk hangs", &why);
        return;
    }
    let file = rig.lease_file();
    // It prints all the time, so the log is written to all the time, and one that echoes.
    let flood = StartSpec { boot: rig.spec(Variant::Flood).boot, ..rig.leased_spec(1) };
    let quiet = rig.leased_spec(1);
    let ttl = 3 * SECOND;
    rig.start_renewing(&file, ttl, &[flood.clone(), quiet.clone()]).await;
    // The file of the lease is on another disk, so it is renewed up to the moment at which this one hangs.
    let deadline = from_now(ttl);
    file.grant(LeaseId(1), deadline).expect("renewed");
    let deaths = [&flood, &quiet].map(|spec| Death::of(rig.processes(spec.vm).1));
    let thaw = rig.freeze_disk();
    assert!(host::boottime_ns() < deadline, "frozen in time");
    for (death, what) in deaths.into_iter().zip(["disk hangs, guest prints", "disk hangs, guest is quiet"]) {
        assert_dies_with(death, deadline, what).await;
    }
    // The shim waits for the disk to write down the end, and says so meanwhile.
    for spec in [&flood, &quiet] {
        rig.until(spec.vm, |state| *state == InstanceState::Ended(ExitCause::LeaseEnded)).await;
        assert!(rig.run_dir(spec.vm).exists(), "its shim still waits");
    }
    drop(thaw);
    for spec in [&flood, &quiet] {
        rig.until_ended_on_disk(spec.vm).await;
        let state = rig.instance(spec.vm).await.state;
        assert_eq!(state, InstanceState::Ended(ExitCause::LeaseEnded));
        rig.assert_no_leak(spec.vm);
    }
}

#[tokio::test]
async fn all_vms_of_a_node_are_gone_with_its_lease_at_the_same_moment() {
    let Some(rig) = Rig::real("twenty VMs lose their lease").await else { return };
    let file = rig.lease_file();
    let ttl = 3 * SECOND;
    let specs: Vec<_> = (0..20).map(|_| rig.leased_spec(1)).collect();
    let deadline = rig.start_renewing(&file, ttl, &specs).await;
    let deaths: Vec<_> = specs.iter().map(|spec| Death::of(rig.processes(spec.vm).1)).collect();
    let died = futures::future::join_all(deaths.into_iter().map(Death::seen)).await;
    let mut late: Vec<_> =
        died.iter().map(|ns| Duration::from_nanos(ns.checked_sub(deadline).expect("not before"))).collect();
    late.sort();
    println!(
        "twenty VMs: gone {:?} after the deadline at the median, {:?} at the latest",
        late[10], late[19]
    );
    assert!(late[19] < 2 * PROMPT, "{late:?}");
    for spec in &specs {
        rig.until(spec.vm, |state| *state == InstanceState::Ended(ExitCause::LeaseEnded)).await;
        rig.assert_no_leak(spec.vm);
    }
}
