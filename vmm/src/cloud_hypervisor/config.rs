//! From a [`StartSpec`] to the JSON of `vm.create`, and what the shim needs beside it. Cloud Hypervisor
//! validates almost nothing, so everything is validated here before it sees it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::settings::VmmUser;
use crate::hypervisor::{Boot, DiskFormat, PciAddress, SharedVolume, StartSpec, VcpuAffinity};

/// More than any Cloud Hypervisor takes.
const MAX_VCPUS: u32 = 254;
/// Less does not hold firmware tables and a kernel.
const MIN_MEMORY_MIB: u64 = 16;
/// 16 TiB; a size beyond it blocks the VMM's API for seconds.
const MAX_MEMORY_MIB: u64 = 16 << 20;
/// What a Linux kernel takes on x86-64.
const MAX_CMDLINE_BYTES: usize = 2047;

/// `spec.json`: everything the shim needs for one run, so that it drives the start alone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunSpec {
    pub version: u32,
    pub start: StartSpec,
    /// The body of `vm.create`.
    pub vm_config: VmConfig,
    pub vmm_binary: PathBuf,
    pub vmm_user: Option<VmmUser>,
}

/// The part of Cloud Hypervisor's `VmConfig` that Holm sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VmConfig {
    cpus: Cpus,
    memory: Memory,
    payload: Payload,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    disks: Vec<Disk>,
    /// Devices of the host, through VFIO.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    devices: Vec<Device>,
    rng: Rng,
    serial: Console,
    console: Console,
    landlock_enable: bool,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    landlock_rules: Vec<LandlockRule>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Cpus {
    boot_vcpus: u32,
    max_vcpus: u32,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    affinity: Vec<VcpuAffinity>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Memory {
    /// Bytes.
    size: u64,
    /// Off for a tiny guest: one huge page for each region would be most of what it costs.
    thp: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Payload {
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    firmware: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cmdline: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Disk {
    path: PathBuf,
    /// Always sent: an untyped raw disk has its sector-0 writes blocked.
    image_type: String,
    id: String,
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    readonly: bool,
    /// Past the host's page cache.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    direct: bool,
    /// What the guest tells disks apart by (`/dev/disk/by-id/virtio-…`).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    serial: Option<String>,
}

/// Bytes of a virtio disk's serial number.
const SERIAL_MAX: usize = 20;

/// The volume's name; where that is too long, what fits of it and the end of the id, which no other volume shares.
fn serial(volume: &SharedVolume) -> String {
    if volume.name.len() <= SERIAL_MAX {
        return volume.name.clone();
    }
    let id = format!("{:06x}", volume.id.0.as_u128() & 0xff_ffff);
    let begin: String = volume.name.chars().take(SERIAL_MAX - id.len()).collect();
    begin + &id
}

impl Disk {
    fn root(dir: &Path, image_type: &str) -> Self {
        Self {
            path: dir.join("root.img"),
            image_type: image_type.to_owned(),
            id: "root".to_owned(),
            readonly: false,
            direct: false,
            serial: None,
        }
    }

    fn shared((number, volume): (usize, &SharedVolume)) -> Self {
        Self {
            path: volume.path.clone(),
            image_type: "Raw".to_owned(),
            id: format!("volume-{number}"),
            readonly: volume.read_only,
            direct: volume.is_direct(),
            serial: Some(serial(volume)),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Device {
    path: PathBuf,
    id: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Rng {
    src: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Console {
    mode: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct LandlockRule {
    path: PathBuf,
    access: String,
}

/// Below this, transparent huge pages cost more than they bring.
const THP_FROM_MIB: u64 = 512;

/// The configuration of a VM whose kernel and root disk lie in `dir`.
///
/// The serial port is a `Tty` because the shim gives the VMM a pseudo terminal of its own as standard
/// input and output: see `shim/console.rs`.
pub fn vm_config(spec: &StartSpec, dir: &Path, kernel: Option<&Path>, firmware: Option<&Path>) -> VmConfig {
    let disk_type = match &spec.boot {
        Boot::Kernel { .. } if spec.disk_gib == 0 => None,
        Boot::Kernel { .. } => Some("Raw"),
        Boot::Disk { format: DiskFormat::Raw, .. } => Some("Raw"),
        Boot::Disk { format: DiskFormat::Qcow2, .. } => Some("Qcow2"),
    };
    let root = disk_type.map(|image_type| Disk::root(dir, image_type));
    let volumes = spec.volumes.iter().enumerate().map(Disk::shared);
    let mut landlock_rules = vec![LandlockRule { path: dir.to_owned(), access: "rw".to_owned() }];
    landlock_rules
        .extend(firmware.map(|path| LandlockRule { path: path.to_owned(), access: "r".to_owned() }));
    if !spec.pci_devices.is_empty() {
        landlock_rules.push(LandlockRule { path: "/dev/vfio".into(), access: "rw".to_owned() });
    }
    let device = |address: &PciAddress| Device { path: address.sysfs(), id: format!("pci-{address}") };
    VmConfig {
        cpus: Cpus { boot_vcpus: spec.vcpus, max_vcpus: spec.vcpus, affinity: spec.cpu_affinity.clone() },
        memory: Memory { size: spec.memory_mib << 20, thp: spec.memory_mib >= THP_FROM_MIB },
        payload: Payload {
            kernel: kernel.map(Path::to_owned),
            firmware: firmware.map(Path::to_owned),
            cmdline: spec.cmdline.clone().filter(|_| kernel.is_some()),
        },
        disks: root.into_iter().chain(volumes).collect(),
        devices: spec.pci_devices.iter().map(device).collect(),
        rng: Rng { src: "/dev/urandom".into() },
        serial: Console { mode: "Tty".to_owned() },
        console: Console { mode: "Off".to_owned() },
        landlock_enable: true,
        landlock_rules,
    }
}

/// Refuses what Cloud Hypervisor would swallow. The message names the field.
pub fn validate(spec: &StartSpec) -> Result<(), String> {
    if spec.vcpus == 0 || spec.vcpus > MAX_VCPUS {
        return Err(format!("vcpus is {}; it must be 1 to {MAX_VCPUS}", spec.vcpus));
    }
    if spec.memory_mib < MIN_MEMORY_MIB || spec.memory_mib > MAX_MEMORY_MIB {
        return Err(format!(
            "memory_mib is {}; it must be {MIN_MEMORY_MIB} to {MAX_MEMORY_MIB}",
            spec.memory_mib
        ));
    }
    if spec.run == 0 {
        return Err("run is 0; runs count from 1".to_owned());
    }
    if let Some(cmdline) = &spec.cmdline {
        if cmdline.len() > MAX_CMDLINE_BYTES {
            return Err(format!("cmdline has {} bytes; the kernel takes {MAX_CMDLINE_BYTES}", cmdline.len()));
        }
        if !cmdline.bytes().all(|b| (0x20..0x7f).contains(&b)) {
            return Err("cmdline holds a character that is not printable ASCII".to_owned());
        }
    }
    validate_affinity(spec)?;
    validate_volumes(spec)?;
    let mut devices = BTreeSet::new();
    match spec.pci_devices.iter().find(|device| !devices.insert(**device)) {
        Some(twice) => Err(format!("pci_devices names {twice} twice")),
        None => Ok(()),
    }
}

fn validate_volumes(spec: &StartSpec) -> Result<(), String> {
    let mut paths = BTreeSet::new();
    for SharedVolume { name, path, read_only, reserved, .. } in &spec.volumes {
        if !path.is_absolute() {
            return Err(format!("volumes: the path of `{name}` is not absolute"));
        }
        if !paths.insert(path) {
            return Err(format!("volumes: {} is there twice", path.display()));
        }
        if *read_only && *reserved {
            return Err(format!("volumes: `{name}` is read-only and has a writer's lock"));
        }
    }
    Ok(())
}

fn validate_affinity(spec: &StartSpec) -> Result<(), String> {
    let mut bound = BTreeSet::new();
    for VcpuAffinity { vcpu, host_cpus } in &spec.cpu_affinity {
        if *vcpu >= spec.vcpus {
            return Err(format!("cpu_affinity names vCPU {vcpu}; the VM has 0 to {}", spec.vcpus - 1));
        }
        if !bound.insert(vcpu) {
            return Err(format!("cpu_affinity names vCPU {vcpu} twice"));
        }
        if host_cpus.is_empty() {
            return Err(format!("cpu_affinity gives vCPU {vcpu} no host CPU; leave it out, or name some"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use holm_model::{Epoch, Revision, VmId};

    use super::*;

    fn spec(boot: Boot) -> StartSpec {
        StartSpec {
            vm: VmId(uuid::Uuid::nil()),
            name: "a".into(),
            epoch: Epoch(Revision(1)),
            run: 1,
            vcpus: 2,
            memory_mib: 64,
            disk_gib: 0,
            boot,
            cmdline: Some("console=ttyS0".into()),
            lease: None,
            cpu_affinity: Vec::new(),
            pci_devices: Vec::new(),
            volumes: Vec::new(),
            cluster: None,
            start_order: 0,
            again: false,
        }
    }

    #[test]
    fn a_kernel_without_a_disk() {
        let spec = spec(Boot::Kernel { kernel: "/images/k".into() });
        let config = vm_config(&spec, Path::new("/vms/a"), Some(Path::new("/vms/a/kernel")), None);
        assert_eq!(
            serde_json::to_value(config).expect("json"),
            serde_json::json!({
                "cpus": {"boot_vcpus": 2, "max_vcpus": 2},
                "memory": {"size": 67108864, "thp": false},
                "payload": {"kernel": "/vms/a/kernel", "cmdline": "console=ttyS0"},
                "rng": {"src": "/dev/urandom"},
                "serial": {"mode": "Tty"},
                "console": {"mode": "Off"},
                "landlock_enable": true,
                "landlock_rules": [{"path": "/vms/a", "access": "rw"}],
            })
        );
    }

    #[test]
    fn a_disk_always_names_its_image_type() {
        for (format, image_type) in [(DiskFormat::Raw, "Raw"), (DiskFormat::Qcow2, "Qcow2")] {
            let spec = spec(Boot::Disk { source: "/images/d".into(), format, kernel: None });
            let config = vm_config(&spec, Path::new("/vms/a"), None, Some(Path::new("/fw")));
            let json = serde_json::to_value(config).expect("json");
            assert_eq!(json["disks"][0]["image_type"], image_type);
            assert_eq!(json["payload"], serde_json::json!({"firmware": "/fw"}));
        }
    }

    #[test]
    fn pinned_vcpus_and_host_devices_go_where_cloud_hypervisor_reads_them() {
        let spec = StartSpec {
            cpu_affinity: vec![VcpuAffinity { vcpu: 1, host_cpus: vec![4, 6] }],
            pci_devices: vec!["0000:65:00.1".parse().expect("address")],
            ..spec(Boot::Kernel { kernel: "/images/k".into() })
        };
        assert_eq!(validate(&spec), Ok(()));
        let config = vm_config(&spec, Path::new("/vms/a"), Some(Path::new("/vms/a/kernel")), None);
        let json = serde_json::to_value(config).expect("json");
        assert_eq!(json["cpus"]["affinity"], serde_json::json!([{"vcpu": 1, "host_cpus": [4, 6]}]));
        assert_eq!(
            json["devices"],
            serde_json::json!([{"path": "/sys/bus/pci/devices/0000:65:00.1", "id": "pci-0000:65:00.1"}])
        );
        assert_eq!(json["landlock_rules"][1], serde_json::json!({"path": "/dev/vfio", "access": "rw"}));
    }

    fn volume(path: &str) -> SharedVolume {
        SharedVolume {
            id: holm_model::VolumeId(uuid::Uuid::from_u128(0xab_cdef)),
            name: "data".into(),
            path: path.into(),
            read_only: false,
            reserved: false,
        }
    }

    #[test]
    fn volumes_come_after_the_root_disk_and_disks_past_the_page_cache() {
        let volumes = vec![
            SharedVolume { reserved: true, ..volume("/dev/disk/by-id/scsi-1") },
            SharedVolume {
                read_only: true,
                name: "a-name-of-more-than-20".into(),
                ..volume("/srv/tools.img")
            },
        ];
        let boot = Boot::Disk { source: "/images/d".into(), format: DiskFormat::Raw, kernel: None };
        let spec = StartSpec { volumes, ..spec(boot) };
        assert_eq!(validate(&spec), Ok(()));
        let config = vm_config(&spec, Path::new("/vms/a"), None, Some(Path::new("/fw")));
        assert_eq!(
            serde_json::to_value(config).expect("json")["disks"],
            serde_json::json!([
                {"path": "/vms/a/root.img", "image_type": "Raw", "id": "root"},
                {"path": "/dev/disk/by-id/scsi-1", "image_type": "Raw", "id": "volume-0", "direct": true,
                 "serial": "data"},
                {"path": "/srv/tools.img", "image_type": "Raw", "id": "volume-1", "readonly": true,
                 "serial": "a-name-of-moreabcdef"},
            ])
        );
    }

    #[test]
    fn absurd_sizes_are_refused_by_field() {
        let good = spec(Boot::Kernel { kernel: "/k".into() });
        assert_eq!(validate(&good), Ok(()));
        let bind = |vcpu, host_cpus: &[u32]| VcpuAffinity { vcpu, host_cpus: host_cpus.to_vec() };
        let device: PciAddress = "0000:65:00.1".parse().expect("address");
        let cases = [
            (StartSpec { vcpus: 0, ..good.clone() }, "vcpus"),
            (StartSpec { vcpus: 255, ..good.clone() }, "vcpus"),
            (StartSpec { memory_mib: 0, ..good.clone() }, "memory_mib"),
            (StartSpec { memory_mib: 99 << 20, ..good.clone() }, "memory_mib"),
            (StartSpec { run: 0, ..good.clone() }, "run"),
            (StartSpec { cmdline: Some("x".repeat(3000)), ..good.clone() }, "cmdline"),
            (StartSpec { cmdline: Some("a\nb".into()), ..good.clone() }, "cmdline"),
            (StartSpec { cpu_affinity: vec![bind(2, &[0])], ..good.clone() }, "cpu_affinity"),
            (StartSpec { cpu_affinity: vec![bind(0, &[])], ..good.clone() }, "cpu_affinity"),
            (StartSpec { cpu_affinity: vec![bind(0, &[0]), bind(0, &[1])], ..good.clone() }, "cpu_affinity"),
            (StartSpec { volumes: vec![volume("sdb")], ..good.clone() }, "volumes"),
            (StartSpec { volumes: vec![volume("/dev/sdb"), volume("/dev/sdb")], ..good.clone() }, "volumes"),
            (StartSpec { pci_devices: vec![device, device], ..good }, "pci_devices"),
        ];
        for (bad, field) in cases {
            let message = validate(&bad).expect_err(field);
            assert!(message.starts_with(field), "{message}");
        }
    }
}
