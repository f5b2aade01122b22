//! The filters that compare a flavor or an image with what a host is: capabilities, traits, properties of the image.
//! Expected values are those of <https://docs.openstack.org/nova/latest/admin/scheduling.html>.

use std::collections::BTreeSet;

use holm_model::command::CreateImage;
use holm_model::flavor::Size;
use holm_model::image::ImageKind;
use holm_model::{Command, ImageId, NodeId, VmId};
use uuid::Uuid;

use crate::cluster::{Cluster, HostSize, MEDIUM, SMALL_VM};
use crate::filters::{passes, verdicts};

fn refused(message: &str) -> Result<(), String> {
    Err(message.into())
}

/// <https://docs.openstack.org/nova/latest/admin/scheduling.html#computecapabilitiesfilter>, and Nova's
/// `compute_capabilities_filter.py`: a key without a scope that the host does not have is skipped.
#[test]
fn compute_capabilities_compares_scoped_and_unscoped_keys() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    cluster.report_with(1, |report| {
        report.capabilities = crate::cluster::strings(&[("arch", "x86_64"), ("cpu_info:cores", "8")]);
    });
    let none = |capability: &str, wanted: &str| {
        refused(&format!("capability `{capability}`: {wanted} wanted, the node reports none"))
    };
    let cases = [
        ("capabilities:arch", "x86_64", Ok(()), none("arch", "x86_64")),
        ("arch", "<or> aarch64 <or> x86_64", Ok(()), Ok(())),
        ("arch", "aarch64", refused("capability `arch`: aarch64 wanted, it is x86_64"), Ok(())),
        ("quota", "gold", Ok(()), Ok(())),
        ("capabilities:quota", "gold", none("quota", "gold"), none("quota", "gold")),
        ("capabilities:cpu_info:cores", ">= 8", Ok(()), none("cpu_info:cores", ">= 8")),
        (
            "capabilities:cpu_info:cores",
            ">= 9",
            refused("capability `cpu_info:cores`: >= 9 wanted, it is 8"),
            none("cpu_info:cores", ">= 9"),
        ),
        // Other scopes belong to others.
        ("hw:cpu_policy", "dedicated", Ok(()), Ok(())),
        ("aggregate_instance_extra_specs:ssd", "true", Ok(()), Ok(())),
    ];
    for (key, requirement, first, second) in cases {
        let vm = cluster.vm_of(&[(key, requirement)]);
        let got = verdicts(&cluster, "ComputeCapabilities", vm);
        assert_eq!(got, [first, second], "{key} {requirement}");
    }
}

/// The same page: the attributes that can be used as keys.
#[test]
fn compute_capabilities_answers_the_pages_keys_from_the_host() {
    let host = HostSize { vcpus: 8, memory_mib: 8192, disk_gib: 100 };
    let mut cluster = Cluster::of(&[host; 2]);
    cluster.report_with(1, |report| report.hypervisor.version = "v53.0-246-g1b".into());
    cluster.report_with(2, |report| report.hypervisor.version = "51.1.0".into());
    // 2 vCPUs, 1024 MiB and 16 MiB of the VMM's, 20 GiB; still being built.
    let size = Size { vcpus: 2, memory_mib: 1024, disk_gib: 20 };
    let placed = cluster.vm_with(size, Some(1), Default::default());
    assert_eq!(cluster.placed_on(placed), Some(1));
    let cases = [
        ("free_ram_mb", ">= 7152", [true, true]),
        ("free_ram_mb", ">= 7153", [false, true]),
        ("free_disk_mb", ">= 81920", [true, true]),
        ("free_disk_mb", ">= 81921", [false, true]),
        ("host", "<in> n", [true, true]),
        ("host", "s== n2", [false, true]),
        ("hypervisor_version", ">= 53000000", [true, false]),
        ("hypervisor_version", "== 51001000", [false, true]),
        ("num_instances", "<= 0", [false, true]),
        ("num_io_ops", "<= 0", [false, true]),
        ("vcpus_total", "= 8", [true, true]),
        ("vcpus_total", "= 9", [false, false]),
        ("vcpus_used", "== 2", [true, false]),
        ("vcpus_used", "<= 1", [false, true]),
    ];
    for (key, requirement, expected) in cases {
        for key in [key.to_owned(), format!("capabilities:{key}")] {
            let vm = cluster.vm_of(&[(&key, requirement)]);
            assert_eq!(passes(&cluster, "ComputeCapabilities", vm), expected, "{key} {requirement}");
        }
    }
    let vm = cluster.vm_of(&[("free_ram_mb", ">= 7153")]);
    let words = refused("capability `free_ram_mb`: >= 7153 wanted, it is 7152");
    assert_eq!(verdicts(&cluster, "ComputeCapabilities", vm)[0], words);
}

#[test]
fn compute_capabilities_count_the_batch_too() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    let vms: Vec<VmId> = (0..5).map(|_| cluster.vm_of(&[("capabilities:num_instances", "<= 1")])).collect();
    cluster.placed_on(vms[0]);
    assert_eq!(cluster.state.waiting.len(), 1, "two on each of two");
}

/// <https://docs.openstack.org/nova/latest/configuration/extra-specs.html>, `trait:`, and
/// <https://docs.openstack.org/glance/latest/admin/useful-image-properties.html>
#[test]
fn traits_are_required_or_forbidden_by_flavor_and_image() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    cluster.report_with(1, |report| report.traits = BTreeSet::from(["HW_CPU_X86_AVX2".into()]));
    cluster.update(2, |node| node.traits = Some(BTreeSet::from(["CUSTOM_FAST".into()])));
    let cases = [
        ("trait:HW_CPU_X86_AVX2", "required", [true, false]),
        ("trait:HW_CPU_X86_AVX2", "forbidden", [false, true]),
        ("trait:CUSTOM_FAST", "required", [false, true]),
        ("trait:CUSTOM_NOBODY", "required", [false, false]),
        ("trait:CUSTOM_NOBODY", "forbidden", [true, true]),
    ];
    for (n, (key, demand, expected)) in (10..).zip(cases) {
        let by_flavor = cluster.vm_of(&[(key, demand)]);
        assert_eq!(passes(&cluster, "Traits", by_flavor), expected, "{key}={demand}");
        let image = cluster.image(n, &[(key, demand)]);
        let by_image = cluster.create(SMALL_VM, |vm| vm.image = image);
        assert_eq!(passes(&cluster, "Traits", by_image), expected, "{key}={demand} by image");
    }
    let words = |cluster: &mut Cluster, demand| {
        let vm = cluster.vm_of(&[("trait:CUSTOM_FAST", demand)]);
        verdicts(cluster, "Traits", vm)
    };
    assert_eq!(
        words(&mut cluster, "required")[0],
        refused("trait `CUSTOM_FAST`: required, the node lacks it")
    );
    assert_eq!(
        words(&mut cluster, "forbidden")[1],
        refused("trait `CUSTOM_FAST`: forbidden, the node has it")
    );
    // Apply refuses such a flavor; should one ever get through, it is refused in words.
    let vm = cluster.vm(SMALL_VM);
    let record = cluster.state.vms.get_mut(&vm).expect("it exists");
    record.spec.extra_specs = crate::cluster::strings(&[("trait:CUSTOM_FAST", "maybe")]);
    let neither = refused("trait `CUSTOM_FAST`: `maybe` is neither `required` nor `forbidden`");
    assert_eq!(verdicts(&cluster, "Traits", vm), [neither.clone(), neither]);
}

/// <https://docs.openstack.org/nova/latest/admin/scheduling.html#imagepropertiesfilter>
#[test]
fn image_properties_want_architecture_hypervisor_and_firmware() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    cluster.report_with(1, |report| {
        report.capabilities = crate::cluster::strings(&[
            ("arch", "x86_64"),
            ("hypervisor_type", "cloud-hypervisor"),
            ("firmware", "bios,uefi"),
        ]);
    });
    let no = |property: &str, wanted: &str, detail: &str| {
        refused(&format!("image property `{property}`: {wanted} wanted, the node {detail}"))
    };
    let cases = [
        ("hw_architecture", "x86_64", Ok(())),
        ("hw_architecture", "amd64", Ok(())),
        ("hw_architecture", "aarch64", no("hw_architecture", "aarch64", "has x86_64")),
        ("img_hv_type", "Cloud-Hypervisor", Ok(())),
        ("img_hv_type", "qemu", no("img_hv_type", "qemu", "has cloud-hypervisor")),
        ("hw_firmware_type", "uefi", Ok(())),
        ("hw_firmware", "coreboot", no("hw_firmware", "coreboot", "has bios,uefi")),
    ];
    for (n, (property, value, expected)) in (10..).zip(cases) {
        let image = cluster.image(n, &[(property, value)]);
        let vm = cluster.create(SMALL_VM, |vm| vm.image = image);
        let silent = no(property, value, "does not say");
        assert_eq!(verdicts(&cluster, "ImageProperties", vm), [expected, silent], "{property}={value}");
    }
    let image = cluster.image(30, &[("os_distro", "debian")]);
    let vm = cluster.create(SMALL_VM, |vm| vm.image = image);
    assert_eq!(passes(&cluster, "ImageProperties", vm), [true, true], "other properties do not matter");
}

fn disk(cluster: &mut Cluster, n: u128, kind: ImageKind) -> ImageId {
    let id = ImageId(Uuid::from_u128(n));
    cluster.done(Command::CreateImage(CreateImage {
        id,
        name: format!("disk{n}"),
        kind,
        size_bytes: 1000,
        sha256: "0".repeat(64),
        holder: NodeId(1),
        properties: [].into(),
    }));
    id
}

/// Without firmware a node boots kernels only: a disk image that brings none would fail to build there.
#[test]
fn a_disk_without_a_kernel_wants_firmware() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    for (n, firmware) in [(1, "none"), (2, "uefi")] {
        cluster.report_with(n, |report| {
            report.capabilities = crate::cluster::strings(&[("firmware", firmware)]);
        });
    }
    let kernel = cluster.image(10, &[]);
    for (n, kind) in [(11, ImageKind::RawDisk), (12, ImageKind::Qcow2Disk)] {
        let disk = disk(&mut cluster, n, kind);
        let bare = cluster.create(SMALL_VM, |vm| vm.image = disk);
        let refused = refused("the node has no firmware to boot a disk image");
        assert_eq!(verdicts(&cluster, "ImageProperties", bare), [refused, Ok(()), Ok(())]);
        assert_eq!(passes(&cluster, "ImageProperties", bare), [false, true, true]);
        let booted = cluster.create(SMALL_VM, |vm| (vm.image, vm.kernel) = (disk, Some(kernel)));
        assert_eq!(passes(&cluster, "ImageProperties", booted), [true; 3]);
    }
    let guest = cluster.create(SMALL_VM, |vm| vm.image = kernel);
    assert_eq!(passes(&cluster, "ImageProperties", guest), [true; 3]);
}

/// The same page, `hw_vm_mode` and `img_hv_requested_version`, and Nova's `image_props_filter.py`: properties without a
/// value are skipped, and so is the version where the host has none.
#[test]
fn image_properties_want_machine_mode_and_version_and_skip_what_is_empty() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    for (n, version) in [(1, "v53.0"), (2, "52.1.0"), (3, "")] {
        cluster.report_with(n, |report| {
            report.capabilities = crate::cluster::strings(&[("vm_mode", "hvm")]);
            report.hypervisor.version = version.into();
        });
    }
    let cases = [
        ("hw_vm_mode", "hvm", [true, true, true]),
        ("hw_vm_mode", "xen", [false, false, false]),
        ("hw_vm_mode", "", [true, true, true]),
        ("hw_architecture", "", [true, true, true]),
        ("img_hv_requested_version", ">=53.0", [true, false, true]),
        ("img_hv_requested_version", ">=52, <53", [false, true, true]),
        ("img_hv_requested_version", "==52.1", [false, true, true]),
        ("img_hv_requested_version", "!=52.1", [true, false, true]),
        ("img_hv_requested_version", ">53.0", [false, false, true]),
        ("img_hv_requested_version", "", [true, true, true]),
        ("img_hv_requested_version", "new", [false, false, true]),
        ("img_hv_requested_version", ">=", [false, false, true]),
    ];
    for (n, (property, value, expected)) in (10..).zip(cases) {
        let image = cluster.image(n, &[(property, value)]);
        let vm = cluster.create(SMALL_VM, |vm| vm.image = image);
        assert_eq!(passes(&cluster, "ImageProperties", vm), expected, "{property}={value}");
    }
    let words = |cluster: &mut Cluster, n, wanted| {
        let image = cluster.image(n, &[("img_hv_requested_version", wanted)]);
        let vm = cluster.create(SMALL_VM, |vm| vm.image = image);
        verdicts(cluster, "ImageProperties", vm)[1].clone()
    };
    let older = "image property `img_hv_requested_version`: >=53.0 wanted, the node has 52.1.0";
    assert_eq!(words(&mut cluster, 40, ">=53.0"), refused(older));
    let none = "image property `img_hv_requested_version`: `53` is no version, such as >=53.0";
    assert_eq!(words(&mut cluster, 41, "53"), refused(none));
}
