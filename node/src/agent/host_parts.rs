//! What this host offers VMs for themselves, as `holmd.toml` says: CPUs set apart for pinned vCPUs, each with its
//! NUMA node, and PCI devices under the names VMs ask for them by. Read from sysfs; what is configured and not there
//! is not offered.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use holm_model::NodeId;
use holm_model::State;
use holm_model::parts::{Offer, PciDevice};
use holm_model::vm::Vm;
use holm_vmm::host;
use holm_vmm::hypervisor::VcpuAffinity;

use crate::config::PciConfig;

/// What is set apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetApart {
    pub cpus: BTreeSet<u32>,
    pub pci: Vec<PciConfig>,
}

impl SetApart {
    /// What of it is there, below `sysfs` (`/sys`).
    pub fn offer(&self, sysfs: &Path) -> Offer {
        let nodes = numa_nodes(sysfs);
        let online = read(&sysfs.join("devices/system/cpu/online")).and_then(|text| host::cpu_list(&text));
        let online = online.unwrap_or_default();
        let cpus = self.cpus.iter().filter(|cpu| online.contains(cpu));
        Offer {
            cpus: cpus.map(|cpu| (*cpu, nodes.get(cpu).copied().unwrap_or(0))).collect(),
            devices: self.devices(sysfs),
        }
    }

    fn devices(&self, sysfs: &Path) -> BTreeMap<String, PciDevice> {
        let entries = std::fs::read_dir(sysfs.join("bus/pci/devices"));
        let mut devices = BTreeMap::new();
        for entry in entries.into_iter().flatten().flatten() {
            let Ok(address) = entry.file_name().into_string() else { continue };
            let of = |name: &str| read(&entry.path().join(name)).unwrap_or_default();
            let hex = |name: &str| of(name).trim_start_matches("0x").to_owned();
            let (vendor, product) = (hex("vendor"), hex("device"));
            let Some(config) = self.pci.iter().find(|config| config.matches(&address, &vendor, &product))
            else {
                continue;
            };
            let numa_node = of("numa_node").parse().ok();
            devices.insert(address, PciDevice { alias: config.alias.clone(), vendor, product, numa_node });
        }
        devices
    }
}

/// NUMA node by CPU.
fn numa_nodes(sysfs: &Path) -> BTreeMap<u32, u32> {
    let entries = std::fs::read_dir(sysfs.join("devices/system/node"));
    let mut nodes = BTreeMap::new();
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(node) = name.strip_prefix("node").and_then(|number| number.parse::<u32>().ok()) else {
            continue;
        };
        let cpus = read(&entry.path().join("cpulist")).and_then(|text| host::cpu_list(&text));
        nodes.extend(cpus.into_iter().flatten().map(|cpu| (cpu, node)));
    }
    nodes
}

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// Where the vCPUs of `vm` run on `node`: each on its own CPU, or, where CPUs are set apart, all on the others.
pub fn affinity(state: &State, node: NodeId, vm: &Vm) -> Vec<VcpuAffinity> {
    let own = vm.claim.as_ref().map(|claim| claim.parts.cpus.as_slice()).unwrap_or_default();
    if !own.is_empty() {
        let one = |(vcpu, cpu): (u32, &u32)| VcpuAffinity { vcpu, host_cpus: vec![*cpu] };
        return (0..).zip(own).map(one).collect();
    }
    let report = state.nodes.get(&node).and_then(|node| node.report.as_ref());
    let Some(offer) = report.map(|report| &report.offer).filter(|offer| !offer.cpus.is_empty()) else {
        return Vec::new();
    };
    let online = host::online_cpus().unwrap_or_default();
    let shared: Vec<u32> = online.into_iter().filter(|cpu| !offer.cpus.contains_key(cpu)).collect();
    if shared.is_empty() {
        return Vec::new();
    }
    (0..vm.spec.size.vcpus).map(|vcpu| VcpuAffinity { vcpu, host_cpus: shared.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn what_is_configured_and_there_is_offered() {
        let sysfs = tempfile::tempdir().unwrap();
        let root = sysfs.path();
        write(root, "devices/system/cpu/online", "0-6\n");
        write(root, "devices/system/node/node0/cpulist", "0-3\n");
        write(root, "devices/system/node/node1/cpulist", "4-7\n");
        for (address, vendor, device, node) in [
            ("0000:01:00.0", "0x10de", "0x1eb8", "1"),
            ("0000:02:00.0", "0x8086", "0x1572", "-1"),
            ("0000:03:00.0", "0x8086", "0x1572", "0"),
        ] {
            for (name, text) in [("vendor", vendor), ("device", device), ("numa_node", node)] {
                write(root, &format!("bus/pci/devices/{address}/{name}"), &format!("{text}\n"));
            }
        }
        let gpu =
            PciConfig { alias: "gpu".into(), vendor: Some("10de".into()), product: None, address: None };
        let nic = PciConfig { alias: "nic".into(), address: Some("0000:02:*".into()), ..gpu.clone() };
        let nic = PciConfig { vendor: None, ..nic };
        let set_apart = SetApart { cpus: [2, 3, 5, 7].into(), pci: vec![gpu, nic] };
        let offer = set_apart.offer(root);
        assert_eq!(offer.cpus, [(2, 0), (3, 0), (5, 1)].into(), "CPU 7 is not online");
        let found: Vec<_> =
            offer.devices.iter().map(|(a, d)| (a.as_str(), d.alias.as_str(), d.numa_node)).collect();
        assert_eq!(found, [("0000:01:00.0", "gpu", Some(1)), ("0000:02:00.0", "nic", None)]);
        assert_eq!(SetApart::default().offer(root), Offer::default());
    }
}
