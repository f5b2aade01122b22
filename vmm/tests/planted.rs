//! Known bugs, planted one at a time: what `cloud_hypervisor/leases.rs` asserts must fail with each of them, or
//! it proves nothing. `cargo test -p holm-vmm --features planted --test planted`.

#[path = "cloud_hypervisor/rig.rs"]
#[allow(dead_code)]
mod rig;

use std::path::Path;
use std::time::Duration;

use holm_model::planted::{Plant, plant};
use holm_vmm::cloud_hypervisor::{Settings, VmmUser};
use holm_vmm::hypervisor::{InstanceState, StartSpec};
use holm_vmm::lease::{Lease, LeaseFile, LeaseId};
use holm_vmm::test_guest::Variant;
use holm_vmm::{Hypervisor, host};

use crate::rig::{Death, Rig, script, signal, skipped};

const SECOND: u64 = 1_000_000_000;
/// Twice what the test of the promise allows.
const LATE: Duration = Duration::from_secs(1);

/// Shims with this bug.
fn with_bug(name: &'static str) -> impl FnOnce(&Path, &mut Settings) {
    move |root, settings| {
        let text = format!("#!/bin/sh\nHOLM_PLANT={name} exec {} \"$@\"\n", settings.shim.exe.display());
        settings.shim.exe = script(root, "shim-with-bug", &text);
    }
}

fn lease(rig: &Rig, ttl_ns: u64) -> Option<Lease> {
    let file = LeaseFile::open_or_create(&rig.path().join("lease")).expect("lease file");
    file.grant(LeaseId(1), host::boottime_ns() + ttl_ns).expect("granted");
    Some(Lease { file: file.path().to_owned(), id: LeaseId(1) })
}

#[tokio::test]
async fn a_shim_that_leaves_leases_to_the_daemon_lets_its_vm_outlive_them() {
    let Some(rig) = Rig::real_with("planted: shim ignores lease", with_bug("shim-ignores-lease")).await
    else {
        return;
    };
    let spec = StartSpec { lease: lease(&rig, 5 * SECOND), ..rig.spec(Variant::Banner) };
    rig.driver.start(spec.clone()).await.expect("started");
    let death = Death::of(rig.processes(spec.vm).1);
    tokio::time::sleep(Duration::from_secs(5) + LATE).await;
    assert!(spec.lease.expect("lease").deadline().is_err(), "the lease has ended");
    assert!(!death.has_come(), "the bug is there: nobody killed it");
}

#[tokio::test]
async fn a_lease_file_that_counts_in_any_boot_lets_a_vm_run_after_a_reboot() {
    plant(vec![Plant::LeaseOfAnyBoot]);
    let Some(rig) = Rig::real_with("planted: lease of any boot", with_bug("lease-of-any-boot")).await else {
        return;
    };
    let spec = StartSpec { lease: lease(&rig, 1000 * SECOND), ..rig.spec(Variant::Banner) };
    let path = rig.path().join("lease");
    let mut bytes = std::fs::read(&path).expect("file");
    bytes[16] ^= 1;
    std::fs::write(&path, bytes).expect("written");
    rig.driver.start(spec.clone()).await.expect("the bug is there: it runs under a lease of another boot");
    assert_eq!(rig.instance(spec.vm).await.state, InstanceState::Running);
}

#[tokio::test]
async fn a_death_signal_that_is_set_before_the_user_is_lost() {
    // SAFETY: a plain system call.
    if unsafe { libc::geteuid() } != 0 {
        skipped("planted: death signal first", "only root can give a process another user");
        return;
    }
    let other_user = |root: &Path, settings: &mut Settings| {
        with_bug("death-signal-first")(root, settings);
        settings.vmm_user = Some(VmmUser { uid: 65534, gid: 65534 });
        let waits = "#!/bin/sh\n[ \"$1\" = --version ] && { echo cloud-hypervisor v53.0.0; exit 0; }\nexec sleep 1000\n";
        settings.vmm_binary = Some(script(root, "waits", waits));
    };
    let Some(rig) = Rig::fake_with("planted: death signal first", other_user) else { return };
    let spec = rig.spec(Variant::Banner);
    let cut_short = tokio::time::timeout(Duration::from_secs(1), rig.driver.start(spec.clone())).await;
    assert!(cut_short.is_err(), "{cut_short:?}");
    let (shim, vmm) = rig.processes(spec.vm);
    let (shim_death, death) = (Death::of(shim), Death::of(vmm));
    signal(shim, libc::SIGKILL);
    shim_death.seen().await;
    tokio::time::sleep(LATE).await;
    assert!(!death.has_come(), "the bug is there: it outlived its shim");
}
