//! What this host offers VMs for themselves, as `holmd.toml` says: CPUs set apart for pinned vCPUs, each with its
//! NUMA node, and PCI devices under the names VMs ask for them by. Read from sysfs; what is configured and not there
//! is not offered, and named.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use holm_model::NodeId;
use holm_model::State;
use holm_model::parts::{Offer, PciDevice};
use holm_model::vm::Vm;
use holm_vmm::host;
use holm_vmm::hypervisor::VcpuAffinity;

use super::host_topology::Topology;
use crate::config::PciConfig;

/// What is set apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetApart {
    pub cpus: BTreeSet<u32>,
    pub pci: Vec<PciConfig>,
}

/// What of it is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub offer: Offer,
    /// What is not, in the words of the configuration.
    pub missing: Vec<String>,
}

impl SetApart {
    /// What of it is there, on a host of this topology, below `sysfs` (`/sys`).
    pub fn find(&self, topology: &Topology, sysfs: &Path) -> Found {
        let mut missing = Vec::new();
        let is_online = |cpu: &&u32| topology.online.as_ref().is_some_and(|online| online.contains(cpu));
        let (online, offline): (Vec<&u32>, Vec<&u32>) = self.cpus.iter().partition(is_online);
        if !offline.is_empty() {
            let numbers: Vec<String> = offline.into_iter().map(u32::to_string).collect();
            missing.push(format!("CPU {} of `[cpu] dedicated`", numbers.join(", ")));
        }
        let cpus = online.into_iter().map(|cpu| (*cpu, topology.numa_node(*cpu))).collect();
        let devices = self.devices(sysfs, &mut missing);
        Found { offer: Offer { cpus, devices }, missing }
    }

    fn devices(&self, sysfs: &Path, missing: &mut Vec<String>) -> BTreeMap<String, PciDevice> {
        let entries = std::fs::read_dir(sysfs.join("bus/pci/devices"));
        let mut devices = BTreeMap::new();
        let mut used = BTreeSet::new();
        for entry in entries.into_iter().flatten().flatten() {
            let Ok(address) = entry.file_name().into_string() else { continue };
            let of = |name: &str| read(&entry.path().join(name)).unwrap_or_default();
            let hex = |name: &str| of(name).trim_start_matches("0x").to_owned();
            let (vendor, product) = (hex("vendor"), hex("device"));
            let first = self.pci.iter().position(|config| config.matches(&address, &vendor, &product));
            let Some((at, config)) = first.and_then(|at| Some((at, self.pci.get(at)?))) else { continue };
            used.insert(at);
            let numa_node = of("numa_node").parse().ok();
            devices.insert(address, PciDevice { alias: config.alias.clone(), vendor, product, numa_node });
        }
        let unused = self.pci.iter().enumerate().filter(|(at, _)| !used.contains(at));
        missing.extend(unused.map(|(_, config)| format!("a device for {config}")));
        devices
    }
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
        let topology = Topology::of_sysfs(root);
        let Found { offer, missing } = set_apart.find(&topology, root);
        assert_eq!(missing, ["CPU 7 of `[cpu] dedicated`"]);
        assert_eq!(offer.cpus, [(2, 0), (3, 0), (5, 1)].into(), "CPU 7 is not online");
        let found: Vec<_> =
            offer.devices.iter().map(|(a, d)| (a.as_str(), d.alias.as_str(), d.numa_node)).collect();
        assert_eq!(found, [("0000:01:00.0", "gpu", Some(1)), ("0000:02:00.0", "nic", None)]);
        assert_eq!(SetApart::default().find(&topology, root), Found::default());
    }

    #[test]
    fn what_is_configured_and_not_there_is_named() {
        let sysfs = tempfile::tempdir().unwrap();
        let root = sysfs.path();
        write(root, "devices/system/cpu/online", "0-3\n");
        write(root, "bus/pci/devices/0000:0a:00.0/vendor", "0x10de\n");
        let of = |alias: &str, address: &str| PciConfig {
            alias: alias.into(),
            vendor: None,
            product: None,
            address: Some(address.into()),
        };
        let absent =
            PciConfig { vendor: Some("1af4".into()), product: Some("1041".into()), ..of("net", "0000:0B:*") };
        // The last means what the first has taken already.
        let pci = vec![of("gpu", "0000:0A:00.0"), absent, of("again", "0000:0a:*")];
        let found = SetApart { cpus: [2, 4, 5].into(), pci }.find(&Topology::of_sysfs(root), root);
        assert_eq!(
            found.offer.devices.keys().collect::<Vec<_>>(),
            ["0000:0a:00.0"],
            "addresses have no case"
        );
        assert_eq!(
            found.missing,
            [
                "CPU 4, 5 of `[cpu] dedicated`",
                "a device for `[[pci]] alias = \"net\"` (vendor 1af4, product 1041, address 0000:0B:*)",
                "a device for `[[pci]] alias = \"again\"` (address 0000:0a:*)",
            ]
        );
    }
}
