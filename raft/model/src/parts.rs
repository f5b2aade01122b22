//! Single parts of a host that a VM may hold for itself: CPUs set apart for pinned vCPUs, and PCI devices. A node
//! reports which it offers; a claim names those it holds, chosen when it is placed by a rule that every replica
//! follows alike. Words and rules are Nova's: `hw:cpu_policy=dedicated`, class `PCPU`, and
//! `pci_passthrough:alias=NAME:COUNT[,…]`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::feasible::Refusal;
use crate::resources::ResourceClass;
use crate::room::PartsRoom;
use crate::vm::VmSpec;

/// Extra spec that asks for CPUs of its own: `dedicated`, or `shared` as without it.
pub const CPU_POLICY: &str = "hw:cpu_policy";
/// Extra spec that asks for one NUMA node (`1`); more are not supported.
pub const NUMA_NODES: &str = "hw:numa_nodes";
/// Extra spec that asks for PCI devices by alias.
pub const PCI_ALIAS: &str = "pci_passthrough:alias";
/// Placement's class of dedicated CPUs.
pub const PCPU: &str = "PCPU";

/// What a node offers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Offer {
    /// CPUs for pinned vCPUs, each with its NUMA node.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cpus: BTreeMap<u32, u32>,
    /// PCI devices by address, as `lspci -D` writes it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub devices: BTreeMap<String, PciDevice>,
}

/// A PCI device of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PciDevice {
    /// The name VMs ask for it by.
    pub alias: String,
    /// Vendor and product, in hexadecimal.
    pub vendor: String,
    pub product: String,
    /// None where the host does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
}

/// Parts that are held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Parts {
    /// In the order of the vCPUs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub devices: BTreeSet<String>,
}

impl Offer {
    pub fn is_empty(&self) -> bool {
        self.cpus.is_empty() && self.devices.is_empty()
    }
}

impl Parts {
    pub fn is_empty(&self) -> bool {
        self.cpus.is_empty() && self.devices.is_empty()
    }
}

/// What a VM asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Dedicated CPUs; 0 where it shares.
    pub cpus: u32,
    /// All of one NUMA node; otherwise only where they fit one.
    pub one_numa_node: bool,
    /// Devices by alias.
    pub devices: BTreeMap<String, u32>,
}

impl Wanted {
    /// What `spec` asks for.
    ///
    /// # Errors
    /// The extra spec that cannot be read, and how to write it; such a VM fits nowhere.
    pub fn of(spec: &VmSpec) -> Result<Self, Refusal> {
        Self::read(&spec.extra_specs, spec.size.vcpus)
    }

    /// What a flavor asks for; as [`Wanted::of`], and nothing that would do nothing.
    ///
    /// # Errors
    /// The extra spec, and how to write it.
    pub fn of_flavor(extra_specs: &BTreeMap<String, String>, vcpus: u32) -> Result<Self, Refusal> {
        let wanted = Self::read(extra_specs, vcpus)?;
        if wanted.one_numa_node && wanted.cpus == 0 {
            return Err(format!(
                "`{NUMA_NODES}`: does nothing for shared CPUs, which run on every NUMA node; \
                 add `{CPU_POLICY}=dedicated`, or leave it out"
            ));
        }
        Ok(wanted)
    }

    fn read(extra_specs: &BTreeMap<String, String>, vcpus: u32) -> Result<Self, Refusal> {
        let asked = |key: &str| extra_specs.get(key).map(|value| value.trim());
        let cpus = match asked(CPU_POLICY) {
            None | Some("shared") => 0,
            Some("dedicated") => vcpus,
            Some(other) => {
                return Err(format!("`{CPU_POLICY}`: `{other}` is neither `dedicated` nor `shared`"));
            }
        };
        let one_numa_node = match asked(NUMA_NODES) {
            None => false,
            Some("1") => true,
            Some(other) => return Err(format!("`{NUMA_NODES}`: `{other}` is not supported, only 1")),
        };
        let mut devices = BTreeMap::new();
        for request in asked(PCI_ALIAS).into_iter().flat_map(|value| value.split(',')) {
            let (alias, count) = request.split_once(':').unwrap_or((request, "1"));
            let count = count.trim().parse::<u32>().ok().filter(|count| *count > 0);
            let (Some(count), false) = (count, alias.trim().is_empty()) else {
                return Err(format!("`{PCI_ALIAS}`: `{request}` is not NAME:COUNT, such as `gpu:1`"));
            };
            let sum: &mut u32 = devices.entry(alias.trim().to_owned()).or_default();
            *sum = sum.checked_add(count).ok_or_else(|| {
                format!("`{PCI_ALIAS}`: more than {} of `{}` are wanted", u32::MAX, alias.trim())
            })?;
        }
        Ok(Self { cpus, one_numa_node, devices })
    }

    pub fn is_empty(&self) -> bool {
        self.cpus == 0 && self.devices.is_empty()
    }
}

/// Whether a spec asks for anything of this, readable or not.
pub fn asks(spec: &VmSpec) -> bool {
    let keys = [CPU_POLICY, NUMA_NODES, PCI_ALIAS];
    !spec.extra_specs.is_empty() && keys.iter().any(|key| spec.extra_specs.contains_key(*key))
}

/// The class that a VM's vCPUs are counted in on its host.
pub fn cpu_class(spec: &VmSpec) -> ResourceClass {
    match spec.extra_specs.get(CPU_POLICY).map(|value| value.trim()) {
        Some("dedicated") => ResourceClass::Custom(PCPU.to_owned()),
        _ => ResourceClass::Vcpu,
    }
}

/// `DedicatedCpu`: the CPUs a VM gets of what is left, the lowest numbers first, of the NUMA node that its claim fills
/// most where one has enough; otherwise of several.
///
/// # Errors
/// How many are left, where.
pub fn choose_cpus(offer: &Offer, room: &PartsRoom, wanted: &Wanted) -> Result<Vec<u32>, Refusal> {
    let count = wanted.cpus as usize;
    if count == 0 {
        return Ok(Vec::new());
    }
    let mut free: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (cpu, node) in offer.cpus.iter().filter(|(cpu, _)| !room.holds_cpu(**cpu)) {
        free.entry(*node).or_default().push(*cpu);
    }
    let fits = free.values().filter(|cpus| cpus.len() >= count).min_by_key(|cpus| cpus.len());
    if let Some(cpus) = fits {
        return Ok(cpus[..count].to_vec());
    }
    let all: usize = free.values().map(Vec::len).sum();
    if wanted.one_numa_node {
        let most = free.values().map(Vec::len).max().unwrap_or(0);
        return Err(format!("dedicated CPUs of one NUMA node: {count} wanted, {most} free at most"));
    }
    if all < count {
        return Err(format!("dedicated CPUs: {count} wanted, {all} free of {}", offer.cpus.len()));
    }
    // From the fullest on, so that few nodes are touched.
    let mut nodes: Vec<&Vec<u32>> = free.values().collect();
    nodes.sort_by_key(|cpus| std::cmp::Reverse(cpus.len()));
    Ok(nodes.into_iter().flatten().copied().take(count).collect())
}

/// `PciDevices`: the devices a VM gets of what is left: those of its CPUs' NUMA node first, then by address.
///
/// # Errors
/// How many of which alias are left.
pub fn choose_devices(
    offer: &Offer,
    room: &PartsRoom,
    wanted: &Wanted,
    cpus: &[u32],
) -> Result<BTreeSet<String>, Refusal> {
    let near: BTreeSet<u32> = cpus.iter().filter_map(|cpu| offer.cpus.get(cpu).copied()).collect();
    let mut chosen = BTreeSet::new();
    let mut short = Vec::new();
    for (alias, count) in &wanted.devices {
        let of = offer.devices.iter().filter(|(_, device)| device.alias == *alias);
        let mut free: Vec<_> = of.clone().filter(|(address, _)| !room.holds_device(address)).collect();
        free.sort_by_key(|(address, device)| {
            (!device.numa_node.is_some_and(|node| near.contains(&node)), *address)
        });
        if free.len() < *count as usize {
            short.push(format!(
                "PCI devices `{alias}`: {count} wanted, {} free of {}",
                free.len(),
                of.count()
            ));
        }
        chosen.extend(free.into_iter().take(*count as usize).map(|(address, _)| address.clone()));
    }
    if short.is_empty() { Ok(chosen) } else { Err(short.join("; ")) }
}
