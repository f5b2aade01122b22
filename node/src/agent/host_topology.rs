//! How this host is built, as the kernel tells: CPUs that are online, the NUMA node of each, and what KVM can do. Not
//! what this process may use of it: a daemon bound to some CPUs answers for the whole host. What cannot be read is
//! left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use holm_vmm::host::{self, KvmFacts};

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// None where the kernel does not tell.
    pub online: Option<BTreeSet<u32>>,
    /// Online CPUs by NUMA node; one may have none.
    pub numa: BTreeMap<u32, BTreeSet<u32>>,
    pub kvm: Option<KvmFacts>,
}

impl Topology {
    /// This host's, with what is below `sysfs` (`/sys`).
    pub fn read(sysfs: &Path) -> Self {
        Self { kvm: host::kvm().ok(), ..Self::of_sysfs(sysfs) }
    }

    /// What `sysfs` tells.
    pub fn of_sysfs(sysfs: &Path) -> Self {
        let online = cpus(&sysfs.join("devices/system/cpu/online"));
        let entries = std::fs::read_dir(sysfs.join("devices/system/node"));
        let mut numa = BTreeMap::new();
        for entry in entries.into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let number = name.strip_prefix("node").and_then(|number| number.parse::<u32>().ok());
            if let Some(node) = number {
                numa.insert(node, cpus(&entry.path().join("cpulist")).unwrap_or_default());
            }
        }
        Self { online, numa, kvm: None }
    }

    /// The NUMA node of a CPU; 0 on a host that has none.
    pub fn numa_node(&self, cpu: u32) -> u32 {
        self.numa.iter().find(|(_, cpus)| cpus.contains(&cpu)).map_or(0, |(node, _)| *node)
    }

    /// Online CPUs.
    pub fn cpus(&self) -> Option<u64> {
        self.online.as_ref().map(|online| online.len() as u64)
    }

    /// Facts for `ComputeCapabilities`.
    pub fn capabilities(&self) -> BTreeMap<String, String> {
        let kvm = self.kvm.map(|kvm| kvm.max_vcpus.to_string());
        let numa = (!self.numa.is_empty()).then(|| self.numa.len().to_string());
        let facts = [("kvm_max_vcpus", kvm), ("numa_nodes", numa)];
        facts.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }
}

/// A list of CPUs in a file; that of a NUMA node without CPUs is empty.
fn cpus(path: &Path) -> Option<BTreeSet<u32>> {
    let text = std::fs::read_to_string(path).ok()?;
    match text.trim() {
        "" => Some(BTreeSet::new()),
        list => host::cpu_list(list),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_cpus_by_numa_node_and_one_of_memory_only_counts() {
        let sysfs = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("devices/system/cpu/online", "0-3\n"),
            ("devices/system/node/node0/cpulist", "0-1\n"),
            ("devices/system/node/node1/cpulist", "2-3\n"),
            ("devices/system/node/node2/cpulist", "\n"),
            ("devices/system/node/online", "0-2\n"),
        ] {
            let path = sysfs.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let topology = Topology::of_sysfs(sysfs.path());
        assert_eq!(topology.cpus(), Some(4));
        assert_eq!((topology.numa_node(1), topology.numa_node(2), topology.numa_node(9)), (0, 1, 0));
        assert_eq!(topology.capabilities(), [("numa_nodes".to_owned(), "3".to_owned())].into());
        let kvm = Some(KvmFacts { max_vcpus: 1024, nested_state: true });
        let facts = Topology { kvm, ..topology }.capabilities();
        assert_eq!(facts.get("kvm_max_vcpus").map(String::as_str), Some("1024"));
    }

    #[test]
    fn a_host_that_tells_nothing_has_no_facts() {
        let nowhere = tempfile::tempdir().unwrap();
        let topology = Topology::of_sysfs(nowhere.path());
        assert_eq!(topology, Topology::default());
        assert_eq!((topology.cpus(), topology.capabilities().len()), (None, 0));
    }
}
