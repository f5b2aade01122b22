//! What every simulated cluster begins with: the first entries of its log, which say the same of every seed.

use std::collections::BTreeMap;

use holm_model::command::{AddNode, CreateFlavor, CreateImage, InitCluster, SetClusterPolicy, SetQuota};
use holm_model::flavor::Size;
use holm_model::image::ImageKind;
use holm_model::node::{HypervisorFacts, HypervisorKind, NodeReport};
use holm_model::{
    Actor, BootId, ClusterId, Command, Entry, FlavorId, ImageId, Inventory, NodeId, Proposal, ResourceClass,
    Revision, Timestamp,
};
use uuid::Uuid;

use super::event::{Ix, Ms};
use super::sim::NODES;

/// When the simulation begins, by wall clocks.
const EPOCH_MS: u64 = 1_800_000_000_000;
/// The project's limit of vCPUs, below what the hosts have together.
pub const QUOTA_VCPUS: u64 = 14;

/// The wall clock.
pub fn stamp(now: Ms) -> Timestamp {
    Timestamp(EPOCH_MS + now)
}

/// The flavor of small VMs.
pub fn flavor(vcpus: u32) -> FlavorId {
    FlavorId(Uuid::from_u128(u128::from(vcpus)))
}

/// The only image.
pub fn image() -> ImageId {
    ImageId(Uuid::from_u128(1))
}

/// The first entries.
pub fn entries() -> Vec<Entry> {
    let mut commands = vec![Command::InitCluster(InitCluster {
        cluster: ClusterId(Uuid::from_u128(1)),
        name: "sim".to_owned(),
        first_node: add_node(0),
    })];
    commands.extend((1..NODES).map(|node| Command::AddNode(add_node(node))));
    commands.extend([1, 2, 4].map(|vcpus| {
        let size = Size { vcpus, memory_mib: 512 * u64::from(vcpus), disk_gib: 1 };
        let name = format!("of-{vcpus}");
        Command::CreateFlavor(CreateFlavor { id: flavor(vcpus), name, size, extra_specs: BTreeMap::new() })
    }));
    commands.push(Command::CreateImage(CreateImage {
        id: image(),
        name: "guest".to_owned(),
        kind: ImageKind::Kernel,
        size_bytes: 1_000,
        sha256: "0".repeat(64),
        holder: NodeId(1),
        properties: BTreeMap::new(),
    }));
    commands.push(Command::SetQuota(SetQuota {
        project: "default".to_owned(),
        limits: BTreeMap::from([(ResourceClass::Vcpu, Some(QUOTA_VCPUS))]),
    }));
    commands.push(Command::SetClusterPolicy(SetClusterPolicy {
        lease_ttl_ms: Some(8_400),
        margin_ms: Some(2_000),
        autostart_wait_ms: Some(5_000),
        expected: None,
    }));
    commands.into_iter().map(|command| entry(0, Revision(0), "admin", command)).collect()
}

/// An entry as the leader stamps it.
pub fn entry(now: Ms, seen: Revision, actor: &str, command: Command) -> Entry {
    let actor = Actor { name: actor.to_owned(), project: "default".to_owned() };
    Entry::new(stamp(now), Proposal { key: None, seen, actor, command })
}

fn add_node(node: Ix) -> AddNode {
    AddNode { name: format!("n{}", node + 1), peer_addr: peer_addr(node), api_addr: api_addr(node) }
}

pub fn peer_addr(node: Ix) -> String {
    format!("10.0.0.{}:7000", node + 1)
}

pub fn api_addr(node: Ix) -> String {
    format!("10.0.0.{}:8080", node + 1)
}

/// What a node says of itself.
pub fn report(boot_id: BootId) -> NodeReport {
    NodeReport {
        boot_id,
        version: "0".to_owned(),
        hypervisor: HypervisorFacts {
            kind: HypervisorKind::Simulated,
            version: String::new(),
            reason: String::new(),
        },
        inventory: BTreeMap::from([
            (ResourceClass::Vcpu, Inventory::of(6)),
            (ResourceClass::MemoryMb, Inventory::of(8_192)),
            (ResourceClass::DiskGb, Inventory::of(100)),
        ]),
        conditions: BTreeMap::new(),
        capabilities: BTreeMap::new(),
        traits: Default::default(),
        load_thousandths: 0,
        orphans: BTreeMap::new(),
        offer: Default::default(),
    }
}
