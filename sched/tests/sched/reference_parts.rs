//! Of the reference scheduler: which processors and devices of a host a VM would get beside those that are held, from
//! the definitions.

use std::collections::BTreeSet;

use holm_model::node::Node;
use holm_model::parts::Parts;
use holm_model::vm::Vm;

pub fn is_dedicated(vm: &Vm) -> bool {
    vm.spec.extra_specs.get("hw:cpu_policy").is_some_and(|policy| policy == "dedicated")
}

pub fn cpus_beside(held: &Parts, vm: &Vm, node: &Node) -> Option<Vec<u32>> {
    let count = if is_dedicated(vm) { vm.spec.size.vcpus as usize } else { 0 };
    let offer = &node.report.as_ref()?.offer;
    let of_node = |numa| {
        let free = offer.cpus.iter().filter(|(cpu, of)| **of == numa && !held.cpus.contains(cpu));
        free.map(|(cpu, _)| *cpu).collect::<Vec<u32>>()
    };
    let nodes = [of_node(0), of_node(1)];
    if count == 0 {
        return Some(Vec::new());
    }
    if let Some(one) = nodes.iter().filter(|cpus| cpus.len() >= count).min_by_key(|cpus| cpus.len()) {
        return Some(one[..count].to_vec());
    }
    let (more, fewer) = if nodes[0].len() >= nodes[1].len() { (0, 1) } else { (1, 0) };
    let all = [nodes[more].clone(), nodes[fewer].clone()].concat();
    let one_wanted = vm.spec.extra_specs.contains_key("hw:numa_nodes");
    (!one_wanted && all.len() >= count).then(|| all[..count].to_vec())
}

pub fn devices_beside(held: &Parts, vm: &Vm, node: &Node) -> Option<BTreeSet<String>> {
    let count = match vm.spec.extra_specs.get("pci_passthrough:alias").map(String::as_str) {
        None => 0,
        Some("gpu:1") => 1,
        Some("gpu:2") => 2,
        other => panic!("these clusters have no {other:?}"),
    };
    let offer = &node.report.as_ref()?.offer;
    let near: Vec<u32> = cpus_beside(held, vm, node)?.iter().map(|cpu| offer.cpus[cpu]).collect();
    let is_near =
        |address: &String| offer.devices[address].numa_node.is_some_and(|numa| near.contains(&numa));
    let free = offer.devices.keys().filter(|address| !held.devices.contains(*address)).cloned();
    let (mut chosen, far): (Vec<String>, Vec<String>) = free.partition(is_near);
    chosen.extend(far);
    (chosen.len() >= count).then(|| chosen.into_iter().take(count).collect())
}
