//! Root disks and identities that the real Cloud Hypervisor accepts, under its own sandbox.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use holm_model::vm::StopMode;
use holm_vmm::Hypervisor;
use holm_vmm::cloud_hypervisor::VmmUser;
use holm_vmm::hypervisor::{Boot, DiskFormat, Error, ExitCause, InstanceState, SharedVolume, StartSpec};
use holm_vmm::test_guest::Variant;
use tokio::io::AsyncWriteExt;

use crate::rig::{Rig, random_vm, read_until};

async fn boots(rig: &Rig, spec: &StartSpec) {
    rig.driver.start(spec.clone()).await.expect("started");
    rig.until_printed(spec.vm, "Holm test guest").await;
    rig.driver.stop(spec.vm, StopMode::Force).await.expect("stopped");
    rig.assert_no_leak(spec.vm);
}

/// A qcow2 disk of 1 GiB with nothing in it: header, reference counts, first-level table.
fn empty_qcow2() -> Vec<u8> {
    const CLUSTER: usize = 1 << 16;
    let mut image = vec![0; 4 * CLUSTER];
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"QFI\xfb");
    put(4, &3u32.to_be_bytes());
    put(20, &16u32.to_be_bytes());
    put(24, &(1u64 << 30).to_be_bytes());
    put(36, &2u32.to_be_bytes()); // first-level entries
    put(40, &(3 * CLUSTER as u64).to_be_bytes());
    put(48, &(CLUSTER as u64).to_be_bytes()); // reference count table
    put(56, &1u32.to_be_bytes());
    put(96, &4u32.to_be_bytes()); // 16 bits a count
    put(100, &104u32.to_be_bytes()); // header length
    put(CLUSTER, &(2 * CLUSTER as u64).to_be_bytes());
    for cluster in 0..4 {
        put(2 * CLUSTER + 2 * cluster, &1u16.to_be_bytes());
    }
    image
}

#[tokio::test]
async fn a_kernel_with_a_disk_gets_a_blank_one_that_stays_through_its_epoch() {
    let Some(rig) = Rig::real("blank disk").await else { return };
    let mut spec = rig.spec(Variant::Banner);
    spec.disk_gib = 1;
    boots(&rig, &spec).await;
    let disk = rig.vm_dir(spec.vm).join("root.img");
    let meta = std::fs::metadata(&disk).expect("disk");
    assert_eq!(meta.len(), 1 << 30);
    assert!(meta.blocks() * 512 < 1 << 20, "it is sparse, not {} blocks", meta.blocks());
    std::fs::write(&disk, b"what the guest wrote").expect("written");

    spec.run = 2;
    boots(&rig, &spec).await;
    assert_eq!(std::fs::read(&disk).expect("disk"), b"what the guest wrote");

    rig.driver.release(spec.vm, spec.epoch).await.expect("released");
    rig.driver.delete_disks(spec.vm).await.expect("deleted");
    assert!(!disk.exists());
    assert!(rig.instance(spec.vm).await.released, "the mark stays");
}

#[tokio::test]
async fn disk_images_are_copied_grown_and_typed() {
    let Some(rig) = Rig::real("disk images").await else { return };
    let raw = rig.path().join("raw");
    std::fs::write(&raw, vec![7; 1 << 20]).expect("image");
    let qcow2 = rig.path().join("qcow2");
    std::fs::write(&qcow2, empty_qcow2()).expect("image");
    let kernel = rig.image(Variant::Banner);
    for (source, format) in [(raw, DiskFormat::Raw), (qcow2, DiskFormat::Qcow2)] {
        let before = std::fs::read(&source).expect("image");
        let boot = Boot::Disk { source: source.clone(), format, kernel: Some(kernel.clone()) };
        let spec = StartSpec { vm: random_vm(), disk_gib: 10, boot, ..rig.spec(Variant::Banner) };
        boots(&rig, &spec).await;
        assert_eq!(std::fs::read(&source).expect("image"), before, "the image is only read");
    }
}

#[tokio::test]
async fn a_disk_image_without_a_kernel_boots_through_the_firmware() {
    let with_firmware = |root: &std::path::Path, settings: &mut holm_vmm::cloud_hypervisor::Settings| {
        // To Cloud Hypervisor, firmware is one more program with a PVH entry.
        let path = root.join("firmware");
        std::fs::write(&path, holm_vmm::test_guest::elf(Variant::Banner)).expect("firmware");
        settings.firmware = Some(path);
    };
    let Some(rig) = Rig::real_with("firmware", with_firmware).await else { return };
    let source = rig.path().join("raw");
    std::fs::write(&source, vec![7; 1 << 20]).expect("image");
    let boot = Boot::Disk { source, format: DiskFormat::Raw, kernel: None };
    boots(&rig, &StartSpec { boot, ..rig.spec(Variant::Banner) }).await;
}

#[tokio::test]
async fn a_disk_image_needs_a_kernel_or_firmware_and_must_be_what_it_is_said_to_be() {
    let Some(rig) = Rig::real("no firmware").await else { return };
    let source = rig.path().join("disk");
    std::fs::write(&source, vec![7; 1 << 20]).expect("image");
    let boot = Boot::Disk { source: source.clone(), format: DiskFormat::Raw, kernel: None };
    let refused = rig.driver.start(StartSpec { boot, ..rig.spec(Variant::Banner) }).await;
    assert!(matches!(&refused, Err(Error::BuildFailed(why)) if why.contains("no firmware")), "{refused:?}");

    let kernel = Some(rig.image(Variant::Banner));
    let boot = Boot::Disk { source: source.clone(), format: DiskFormat::Qcow2, kernel: kernel.clone() };
    let refused = rig.driver.start(StartSpec { boot, ..rig.spec(Variant::Banner) }).await;
    assert!(matches!(&refused, Err(Error::BuildFailed(why)) if why.contains("not a qcow2")), "{refused:?}");

    std::fs::File::options().write(true).open(&source).expect("open").set_len(2 << 30).expect("grown");
    let boot = Boot::Disk { source, format: DiskFormat::Raw, kernel };
    let refused = rig.driver.start(StartSpec { boot, disk_gib: 1, ..rig.spec(Variant::Banner) }).await;
    assert!(matches!(&refused, Err(Error::BuildFailed(why)) if why.contains("larger flavor")), "{refused:?}");
}

#[tokio::test]
async fn a_full_disk_loses_neither_the_guest_nor_how_it_ended() {
    let Some(mut rig) = Rig::real("full disk").await else { return };
    if let Err(e) = rig.shrink_vm_dir("size=1m") {
        // Past libtest's capture, which hides what passing tests print.
        drop(std::io::Write::write_fmt(
            &mut std::io::stderr(),
            format_args!("SKIPPED: full disk: cannot mount a small tmpfs: {e}\n"),
        ));
        return;
    }
    let spec = rig.spec(Variant::Echo);
    rig.driver.start(spec.clone()).await.expect("started");
    let mut console = rig.driver.console(spec.vm).await.expect("console");
    let mut filler = std::fs::File::create(rig.path().join("vms/filler")).expect("filler");
    while std::io::Write::write_all(&mut filler, &[0; 4096]).is_ok() {}

    console.write_all(b"still here").await.expect("typed");
    read_until(&mut console, "still here").await;
    console.write_all(b"q").await.expect("typed");
    let state = rig.until(spec.vm, |state| matches!(state, InstanceState::Ended(_))).await;
    assert_eq!(state, InstanceState::Ended(ExitCause::GuestOff));
    rig.assert_no_leak(spec.vm);

    let full = rig.driver.start(StartSpec { vm: random_vm(), ..rig.spec(Variant::Banner) }).await;
    assert!(full.is_err(), "{full:?}");
}

#[tokio::test]
async fn a_vmm_runs_as_its_own_user_without_privileges() {
    const NOBODY: VmmUser = VmmUser { uid: 65534, gid: 65534 };
    // SAFETY: a plain system call.
    if unsafe { libc::geteuid() } != 0 {
        // Past libtest's capture, which hides what passing tests print.
        drop(std::io::Write::write_fmt(
            &mut std::io::stderr(),
            format_args!("SKIPPED: VMM user: only root can give a process another user\n"),
        ));
        return;
    }
    let Some(rig) = Rig::real_with("VMM user", |_, settings| settings.vmm_user = Some(NOBODY)).await else {
        return;
    };
    let kvm = std::fs::metadata("/dev/kvm").expect("kvm");
    if kvm.permissions().mode() & 0o006 != 0o006
        && (kvm.gid() == 0 || kvm.permissions().mode() & 0o060 != 0o060)
    {
        // Past libtest's capture, which hides what passing tests print.
        drop(std::io::Write::write_fmt(
            &mut std::io::stderr(),
            format_args!("SKIPPED: VMM user: /dev/kvm is for root only on this host\n"),
        ));
        return;
    }
    let mut spec = rig.spec(Variant::Banner);
    spec.disk_gib = 1;
    rig.driver.start(spec.clone()).await.expect("started");
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", rig.processes(spec.vm).1)).expect("status");
    assert!(status.contains("Uid:\t65534\t65534\t65534\t65534"), "{status}");
    assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
    assert!(status.contains("NoNewPrivs:\t1"), "{status}");
    rig.driver.stop(spec.vm, StopMode::Force).await.expect("stopped");
}

#[tokio::test]
async fn shared_volumes_are_opened_and_one_that_cannot_be_is_told_by_name() {
    let Some(rig) = Rig::real("shared volumes").await else { return };
    let volume = |name: &str, read_only, reserved| SharedVolume {
        id: holm_model::VolumeId::default(),
        name: name.to_owned(),
        path: rig.path().join(name),
        read_only,
        reserved,
    };
    for name in ["data", "tools"] {
        let file = std::fs::File::create(rig.path().join(name)).expect("file");
        file.set_len(1 << 20).expect("size");
    }
    let with = |volumes| StartSpec { vm: random_vm(), volumes, ..rig.spec(Variant::Banner) };
    let (data, tools) = (volume("data", false, false), volume("tools", true, false));
    boots(&rig, &with(vec![data, tools])).await;
    let file = with(vec![volume("data", false, true)]);
    let words = "is a file: `lock: persistent-reservation` needs a whole SCSI disk";
    let error = rig.driver.start(file.clone()).await.expect_err("refused");
    assert!(matches!(&error, Error::BuildFailed(reason) if reason.contains(words)), "{error}");
    assert!(!rig.run_dir(file.vm).exists(), "no run was begun");

    let late = with(vec![volume("late", false, false)]);
    let error = rig.driver.start(late.clone()).await.expect_err("not there yet");
    let words = "volume `late`: there is no";
    assert!(matches!(&error, Error::NotYet(reason) if reason.contains(words)), "{error}");
    assert!(!rig.run_dir(late.vm).exists(), "no run was begun");
    std::fs::write(rig.path().join("late"), vec![0; 1 << 20]).expect("connected");
    boots(&rig, &late).await;
}
