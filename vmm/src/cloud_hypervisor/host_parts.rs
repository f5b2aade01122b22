//! Parts of the host that a VM asks for by name, CPUs and PCI devices: are they there, and can they be had?
//! Cloud Hypervisor would find out too, in the middle of a start and in its own words.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::VmmUser;
use crate::host;
use crate::hypervisor::{PciAddress, StartSpec};

/// Where Linux shows PCI devices and their drivers.
const PCI: &str = "/sys/bus/pci";
/// The driver that hands a device to a user's process.
const DRIVER: &str = "vfio-pci";

/// Refuses a spec that asks for what this host does not have. The message names the field and the next step.
/// What the VMM's user must open is given to it.
pub fn check(spec: &StartSpec, user: Option<VmmUser>) -> Result<(), String> {
    if !spec.cpu_affinity.is_empty() {
        let online = host::online_cpus().map_err(|e| format!("the CPUs of this host cannot be told: {e}"))?;
        check_cpus(spec, &online)?;
    }
    for device in &spec.pci_devices {
        let group = vfio_group(Path::new(PCI), *device)?;
        if let Some(user) = user {
            std::os::unix::fs::chown(&group, Some(user.uid), Some(user.gid)).map_err(|e| {
                format!("pci_devices: {} cannot be given to Cloud Hypervisor's user: {e}", group.display())
            })?;
        }
    }
    Ok(())
}

fn check_cpus(spec: &StartSpec, online: &BTreeSet<u32>) -> Result<(), String> {
    for affinity in &spec.cpu_affinity {
        if let Some(missing) = affinity.host_cpus.iter().find(|cpu| !online.contains(cpu)) {
            return Err(format!(
                "cpu_affinity: vCPU {} is bound to host CPU {missing}, which is not online here",
                affinity.vcpu
            ));
        }
    }
    Ok(())
}

/// The device file of the device's IOMMU group, if the device is there and free for a guest.
fn vfio_group(pci: &Path, address: PciAddress) -> Result<PathBuf, String> {
    let device = pci.join("devices").join(address.to_string());
    if !device.exists() {
        return Err(format!("pci_devices: there is no device {address} on this host: lspci -D lists them"));
    }
    let link = |name: &str| std::fs::read_link(device.join(name)).ok()?.file_name().map(|n| n.to_owned());
    match link("driver") {
        Some(driver) if driver == DRIVER => {}
        driver => {
            let bound = driver.map_or("no driver".to_owned(), |driver| driver.to_string_lossy().into_owned());
            return Err(format!(
                "pci_devices: {address} is bound to {bound}: bind it to {DRIVER}, as with `driverctl set-override {address} {DRIVER}`"
            ));
        }
    }
    let group = link("iommu_group").ok_or_else(|| {
        format!("pci_devices: {address} has no IOMMU group: turn the IOMMU on in firmware and kernel")
    })?;
    Ok(Path::new("/dev/vfio").join(group))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_device_is_refused_with_the_step_that_is_missing() {
        let pci = tempfile::tempdir().expect("temporary directory");
        let address: PciAddress = "0000:65:00.1".parse().expect("address");
        let group = || vfio_group(pci.path(), address);
        assert!(group().expect_err("missing").contains("no device 0000:65:00.1"));
        let device = pci.path().join("devices/0000:65:00.1");
        std::fs::create_dir_all(&device).expect("device");
        assert!(group().expect_err("free").contains("bound to no driver: bind it to vfio-pci"));
        symlink("../../../bus/pci/drivers/nvme", device.join("driver")).expect("driver");
        assert!(group().expect_err("in use").contains("bound to nvme: bind it to vfio-pci"));
        std::fs::remove_file(device.join("driver")).expect("unbound");
        symlink("../../../bus/pci/drivers/vfio-pci", device.join("driver")).expect("driver");
        assert!(group().expect_err("no IOMMU").contains("turn the IOMMU on"));
        symlink("../../../kernel/iommu_groups/42", device.join("iommu_group")).expect("group");
        assert_eq!(group(), Ok(PathBuf::from("/dev/vfio/42")));
    }
}
