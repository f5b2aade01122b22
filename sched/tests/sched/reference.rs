//! The scheduler against a plain, slow one written from the definitions: every VM looks at every host anew,
//! nothing is kept, nothing is shared with the code under test but the records. Where several hosts are
//! best, any of them will do: which one is drawn is not part of the definition.

mod agreement;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use holm_model::aggregate::Aggregate;
use holm_model::group::GroupPolicy;
use holm_model::node::Node;
use holm_model::parts::Parts;
use holm_model::scheduling::{Effect, Operator, Requirement};
use holm_model::vm::{VMM_OVERHEAD_MIB, Vm, VmStatus};
use holm_model::{Inventory, NodeId, ResourceClass, State, Timestamp, VmId};

use crate::reference_parts::{cpus_beside, devices_beside, is_dedicated};

/// Where everything is, as plainly as can be.
struct Plain<'a> {
    state: &'a State,
    /// Hosts given by this decision.
    given: BTreeMap<VmId, NodeId>,
    /// Nodes that are not to be chosen.
    withheld: BTreeSet<NodeId>,
    /// Parts given by this decision.
    parts: BTreeMap<VmId, Parts>,
    /// VMs that this decision left waiting.
    left: BTreeSet<VmId>,
}

impl<'a> Plain<'a> {
    fn node_of(&self, vm: &Vm) -> Option<NodeId> {
        self.given.get(&vm.id).copied().or(vm.claim.as_ref().map(|claim| claim.node))
    }

    fn vms_on(&self, node: &Node) -> Vec<&'a Vm> {
        self.state.vms.values().filter(|vm| self.node_of(vm) == Some(node.id)).collect()
    }

    fn aggregates(&self, node: &Node) -> Vec<&'a Aggregate> {
        self.state.aggregates.values().filter(|aggregate| aggregate.nodes.contains(&node.id)).collect()
    }

    fn metadata(&self, node: &Node, key: &str) -> BTreeSet<&'a str> {
        let values = self.aggregates(node).into_iter().filter_map(|aggregate| aggregate.metadata.get(key));
        values.flat_map(|value| value.split(',')).map(str::trim).collect()
    }

    fn members(&self, vm: &Vm) -> Vec<NodeId> {
        let mates = self
            .state
            .vms
            .values()
            .filter(|mate| mate.id != vm.id && mate.spec.scheduling.group == vm.spec.scheduling.group);
        mates.filter_map(|mate| self.node_of(mate)).collect()
    }

    /// CPUs and devices of the node that somebody holds.
    fn held(&self, node: &Node) -> Parts {
        self.held_by(self.vms_on(node))
    }

    fn held_by(&self, vms: Vec<&Vm>) -> Parts {
        let mut held = Parts::default();
        for vm in vms {
            let Some(parts) = self.parts.get(&vm.id).or(vm.claim.as_ref().map(|claim| &claim.parts)) else {
                continue;
            };
            held.cpus.extend(&parts.cpus);
            held.devices.extend(parts.devices.iter().cloned());
        }
        held
    }

    /// The dedicated CPUs `vm` would get: of the NUMA node that they fill most, or of several, the fullest first.
    fn cpus_for(&self, vm: &Vm, node: &Node) -> Option<Vec<u32>> {
        cpus_beside(&self.held(node), vm, node)
    }

    /// The GPUs it would get: those near its CPUs first.
    fn devices_for(&self, vm: &Vm, node: &Node) -> Option<BTreeSet<String>> {
        devices_beside(&self.held(node), vm, node)
    }

    /// Whether a VM ahead that has long waited is left what is kept for it: what it needs, and what was claimed since;
    /// everything, while those leave that make room for it.
    fn is_left_over(&self, vm: &Vm, node: &Node) -> bool {
        let holders = self.state.waiting.iter().map(|id| &self.state.vms[id]);
        let keeps = |holder: &&Vm| holder.reserved.as_ref().is_some_and(|reserved| reserved.node == node.id);
        let Some(holder) = holders.filter(keeps).min_by_key(|holder| place(holder)) else { return true };
        if !self.left.contains(&holder.id) || place(vm) <= place(holder) {
            return true;
        }
        let reserved = holder.reserved.as_ref().expect("it keeps one");
        let leaves = |other: &&Vm| other.recovery.vacate.is_some();
        if !reserved.evicted.is_empty() && self.vms_on(node).iter().any(leaves) {
            return false;
        }
        let since = reserved.since;
        let later = |other: &&Vm| match &other.claim {
            Some(claim) => claim.epoch.0 > since,
            None => self.given.contains_key(&other.id),
        };
        let since_then: Vec<&Vm> = self.vms_on(node).into_iter().filter(later).collect();
        // What this one would take now, and what was taken since, leaves the holder its parts.
        if let (Some(cpus), Some(devices)) = (self.cpus_for(vm, node), self.devices_for(vm, node))
            && !(cpus.is_empty() && devices.is_empty())
        {
            let mut held = self.held_by(since_then.clone());
            held.cpus.extend(cpus);
            held.devices.extend(devices);
            if cpus_beside(&held, holder, node).is_none() || devices_beside(&held, holder, node).is_none() {
                return false;
            }
        }
        let mut spoken_for = needs(holder);
        for other in since_then {
            needs(other)
                .into_iter()
                .for_each(|(class, amount)| *spoken_for.entry(class).or_default() += amount);
        }
        needs(vm).into_iter().all(|(class, amount)| {
            node.inventory.get(&class).is_some_and(|inventory| {
                amount + spoken_for.get(&class).copied().unwrap_or(0) <= capacity(inventory)
            })
        })
    }

    fn passes(&self, filter: &str, vm: &Vm, node: &Node) -> bool {
        let (spec, wish) = (&vm.spec, &vm.spec.scheduling);
        let report = node.report.as_ref().expect("all have reported");
        let here = self.vms_on(node);
        let holds = |id: &VmId| here.iter().any(|vm| vm.id == *id);
        let scoped = |scope: &str| {
            let own = format!("{scope}:");
            let of = move |(key, value): (&'a String, &'a String)| {
                let key = key.strip_prefix(&own).or(Some(key.as_str()).filter(|key| !key.contains(':')))?;
                Some((key.to_owned(), value.as_str()))
            };
            self.state.vms[&vm.id].spec.extra_specs.iter().filter_map(of).collect::<Vec<_>>()
        };
        match filter {
            "ComputeStatus" => node.up && node.enabled && node.findings.is_empty(),
            "RequestedNode" => spec.node.is_none_or(|wanted| wanted == node.id),
            "Excluded" => {
                let this_round = vm.excluded.iter().skip(vm.recovery.tried_before as usize).count();
                this_round < 3 && vm.excluded.iter().all(|excluded| excluded.node != node.id)
            }
            "AvailabilityZone" => {
                let zone = self.metadata(node, "availability_zone").first().copied().unwrap_or("default");
                wish.availability_zone.as_deref().is_none_or(|wanted| wanted == zone)
            }
            "NodeSelector" => wish.node_selector.iter().all(|requirement| selects(requirement, node)),
            "Taints" => node.taints.iter().all(|taint| {
                taint.effect == Effect::PreferNoSchedule
                    || wish.tolerations.iter().any(|toleration| toleration.key.as_ref() == Some(&taint.key))
            }),
            "ComputeCapabilities" => {
                spec.extra_specs.iter().all(|(key, requirement)| match key.split_once(':') {
                    None => report.capabilities.get(key).is_none_or(|value| meets(value, requirement)),
                    Some(("capabilities", "num_instances")) => here.len() <= 1,
                    Some(("capabilities", key)) => {
                        report.capabilities.get(key).is_some_and(|value| meets(value, requirement))
                    }
                    Some(_) => true,
                })
            }
            "Traits" => spec.extra_specs.iter().chain(&spec.image_properties).all(|(key, demand)| {
                let Some(name) = key.strip_prefix("trait:") else { return true };
                (demand == "required") == (node.traits.contains(name) || report.traits.contains(name))
            }),
            "ImageProperties" => {
                let wanted = spec.image_properties.get("hw_architecture");
                wanted.is_none_or(|wanted| report.capabilities.get("arch") == Some(wanted))
            }
            "ServerGroup" => {
                let Some(group) = wish.group.map(|group| &self.state.groups[&group]) else { return true };
                let members = self.members(vm);
                let with_us = members.iter().filter(|member| **member == node.id).count();
                match group.policy {
                    GroupPolicy::Affinity => members.is_empty() || with_us > 0,
                    GroupPolicy::AntiAffinity => with_us < group.max_server_per_host.unwrap_or(1) as usize,
                    _ => true,
                }
            }
            "SameHost" => wish.same_host.is_empty() || wish.same_host.iter().any(holds),
            "DifferentHost" => !wish.different_host.iter().any(holds),
            "Capacity" => needs(vm).into_iter().all(|(class, amount)| {
                let Some(inventory) = node.inventory.get(&class) else { return false };
                let used: u64 = here.iter().map(|vm| needs(vm).get(&class).copied().unwrap_or(0)).sum();
                let asked = if class == ResourceClass::MemoryMb { spec.size.memory_mib } else { amount };
                let within = amount == 0 || (inventory.min_unit..=inventory.max_unit).contains(&asked);
                used + amount <= capacity(inventory) && within && asked % inventory.step_size == 0
            }),
            "AggregateExtraSpecs" => {
                scoped("aggregate_instance_extra_specs").iter().all(|(key, requirement)| {
                    self.metadata(node, key).iter().any(|value| meets(value, requirement))
                })
            }
            "AggregateImagePropertiesIsolation" => spec.image_properties.iter().all(|(key, value)| {
                let options = self.metadata(node, key);
                options.is_empty() || options.contains(value.as_str())
            }),
            "AggregateMultiTenancyIsolation" => {
                let keys = ["filter_tenant_id", "filter_tenant_id2"];
                let tenants: BTreeSet<_> = keys.iter().flat_map(|key| self.metadata(node, key)).collect();
                tenants.is_empty() || tenants.contains(vm.project.as_str())
            }
            "IsolatedHosts" => {
                let policy = &self.state.scheduler;
                let image = &self.state.images[&spec.image].name;
                let (image, node) =
                    (policy.isolated_images.contains(image), policy.isolated_nodes.contains(&node.name));
                if policy.restrict_isolated_hosts_to_isolated_images { image == node } else { !image || node }
            }
            "NumInstances" => {
                let least = self.least(node, "max_instances_per_host");
                here.len() < least.unwrap_or(self.state.scheduler.max_instances_per_host) as usize
            }
            "IoOps" => {
                let least = self.least(node, "max_io_ops_per_host");
                self.builds(node) < i128::from(least.unwrap_or(self.state.scheduler.max_io_ops_per_host))
            }
            // All nodes of these clusters are at 127.0.0.1.
            "SimpleCidrAffinity" => wish.near.as_deref().is_none_or(|near| near == "127.0.0.0/8"),
            "DedicatedCpu" => self.cpus_for(vm, node).is_some(),
            "PciDevices" => self.devices_for(vm, node).is_some(),
            "Reserved" => self.is_left_over(vm, node),
            other => panic!("the reference does not know {other}"),
        }
    }

    /// The least number of the node's aggregates; none if one of them is no number.
    fn least(&self, node: &Node, key: &str) -> Option<u32> {
        let numbers: Result<Vec<u32>, _> = self.metadata(node, key).into_iter().map(str::parse).collect();
        numbers.ok()?.into_iter().min()
    }

    fn builds(&self, node: &Node) -> i128 {
        self.vms_on(node).iter().filter(|vm| vm.status == VmStatus::Build).count() as i128
    }

    fn free(&self, node: &Node, class: &ResourceClass) -> i128 {
        let capacity = node.inventory.get(class).map_or(0, capacity);
        let used: u64 = self.vms_on(node).iter().map(|vm| needs(vm).get(class).copied().unwrap_or(0)).sum();
        i128::from(capacity) - i128::from(used)
    }

    /// Raw weight; more is better unless the second says that it counts against the host.
    fn weigh(&self, weigher: &str, vm: &Vm, node: &Node) -> (i128, bool) {
        let report = node.report.as_ref().expect("all have reported");
        let members = |policy| {
            let group = vm.spec.scheduling.group.map(|group| &self.state.groups[&group]);
            match group {
                Some(group) if group.policy == policy => {
                    self.members(vm).iter().filter(|member| **member == node.id).count() as i128
                }
                _ => 0,
            }
        };
        match weigher {
            "Ram" => (self.free(node, &ResourceClass::MemoryMb), false),
            "Cpu" => (self.free(node, &ResourceClass::Vcpu), false),
            "Disk" => (self.free(node, &ResourceClass::DiskGb), false),
            "IoOps" => (self.builds(node), false),
            "NumInstances" => (self.vms_on(node).len() as i128, false),
            "SoftAffinity" => (members(GroupPolicy::SoftAffinity), false),
            "SoftAntiAffinity" => (-members(GroupPolicy::SoftAntiAffinity), false),
            "BuildFailure" => (i128::from(node.failed_builds), true),
            "ImageLocality" => {
                (i128::from(self.state.images[&vm.spec.image].holders.contains(&node.id)) * 1000, false)
            }
            "HypervisorVersion" => match report.hypervisor.version.as_str() {
                "v53.0" => (53_000_000, false),
                "v52.1" => (52_001_000, false),
                _ => (0, false),
            },
            "Load" => (i128::from(report.load_thousandths), true),
            "PreferNoSchedule" => {
                let tolerant = !vm.spec.scheduling.tolerations.is_empty();
                let soft = node.taints.iter().filter(|taint| taint.effect == Effect::PreferNoSchedule);
                (if tolerant { 0 } else { soft.count() as i128 }, true)
            }
            "Pci" => {
                let held = self.held(node);
                let free = report.offer.devices.keys().filter(|address| !held.devices.contains(*address));
                (100 - (free.count() as i128).min(99), false)
            }
            "Health" => ((report.conditions.len() + node.findings.len()) as i128, true),
            other => panic!("the reference does not know {other}"),
        }
    }

    fn multiplier(&self, weigher: &str, node: &Node) -> i128 {
        let key = match weigher {
            "Ram" => "ram_weight_multiplier",
            "Cpu" => "cpu_weight_multiplier",
            "Load" => "load_weight_multiplier",
            _ => "",
        };
        let overrides: Vec<Option<i128>> = self
            .aggregates(node)
            .into_iter()
            .filter_map(|aggregate| aggregate.metadata.get(key))
            .map(|value| value.parse::<f64>().ok().map(|value| (value * 1000.0) as i128))
            .collect();
        let all: Option<Vec<i128>> = overrides.into_iter().collect();
        let named = self.state.scheduler.weighers.get(weigher).copied();
        let own = named.unwrap_or(match weigher {
            "Health" => 1_000_000,
            "Pci" => 1000,
            _ => 0,
        });
        all.and_then(|all| all.into_iter().min()).unwrap_or(i128::from(own))
    }

    /// The score of every host that passes.
    fn scores(&self, vm: &Vm) -> BTreeMap<NodeId, i128> {
        let listed = self.state.scheduler.filters.iter().map(String::as_str);
        let filters: Vec<&str> = listed.chain(["DedicatedCpu", "PciDevices", "Reserved"]).collect();
        let passing: Vec<&Node> = self
            .state
            .nodes
            .values()
            .filter(|node| !self.withheld.contains(&node.id))
            .filter(|node| filters.iter().all(|filter| self.passes(filter, vm, node)))
            .collect();
        let mut scores: BTreeMap<NodeId, i128> = passing.iter().map(|node| (node.id, 0)).collect();
        for (weigher, _) in holm_model::policy::WEIGHERS {
            let raw: Vec<(i128, bool)> = passing.iter().map(|node| self.weigh(weigher, vm, node)).collect();
            let (least, most) = (
                raw.iter().map(|raw| raw.0).min().unwrap_or(0),
                raw.iter().map(|raw| raw.0).max().unwrap_or(0),
            );
            // Nova's `minval`, and Kubernetes' `DefaultNormalizeScore`.
            let floor =
                ["Ram", "Cpu", "Disk", "IoOps", "Load", "PreferNoSchedule"].contains(weigher).then_some(0);
            let (least, most) = (floor.unwrap_or(least), floor.unwrap_or(most).max(most));
            for (node, (raw, against)) in passing.iter().zip(raw) {
                let raw = floor.unwrap_or(raw).max(raw);
                let normalised = if most == least { 0 } else { (raw - least) * 1_000_000 / (most - least) };
                let sign = if against { -1 } else { 1 };
                let part = sign * self.multiplier(weigher, node) * normalised / 1000;
                *scores.get_mut(&node.id).expect("it passed") += part;
            }
        }
        scores
    }
}

/// The place in the queue.
fn place(vm: &Vm) -> (Reverse<i32>, Timestamp, VmId) {
    (Reverse(vm.spec.scheduling.priority), vm.created_at, vm.id)
}

fn capacity(inventory: &Inventory) -> u64 {
    inventory.total.saturating_sub(inventory.reserved) * inventory.allocation_ratio_thousandths / 1000
}

fn needs(vm: &Vm) -> BTreeMap<ResourceClass, u64> {
    let size = vm.spec.size;
    let cpus = if is_dedicated(vm) { ResourceClass::Custom("PCPU".into()) } else { ResourceClass::Vcpu };
    let mut needs = BTreeMap::from([
        (cpus, u64::from(size.vcpus)),
        (ResourceClass::MemoryMb, size.memory_mib + VMM_OVERHEAD_MIB),
        (ResourceClass::DiskGb, size.disk_gib),
    ]);
    if let Some(gpus) = vm.spec.extra_specs.get("resources:CUSTOM_GPU") {
        needs.insert(ResourceClass::Custom("CUSTOM_GPU".into()), gpus.parse().expect("a number"));
    }
    needs.retain(|_, amount| *amount > 0);
    needs
}

fn selects(requirement: &Requirement, node: &Node) -> bool {
    let label = node.labels.get(&requirement.key);
    match requirement.operator {
        Operator::In => label.is_some_and(|label| requirement.values.contains(label)),
        Operator::NotIn => !label.is_some_and(|label| requirement.values.contains(label)),
        Operator::Gt => label.is_some_and(|label| label.parse::<u8>().expect("a rack") > 1),
        Operator::DoesNotExist => label.is_none(),
        other => panic!("these clusters have no {other:?}"),
    }
}

fn meets(value: &str, requirement: &str) -> bool {
    match requirement {
        "<or> x86_64 <or> riscv64" => value == "x86_64" || value == "riscv64",
        ">= 4" => value.parse::<f64>().is_ok_and(|value| value >= 4.0),
        plain => value == plain,
    }
}
