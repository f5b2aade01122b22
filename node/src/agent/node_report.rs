//! Tells the cluster what this node is: boot, version, hypervisor, inventory, and what is wrong with it.
//! Proposed at start and whenever it differs from what the cluster knows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use holm_model::command::{Command, ReportNode};
use holm_model::node::{Condition, HypervisorFacts, NodeReport};
use holm_model::{BootId, Inventory, Reply, ResourceClass};
use holm_vmm::host;
use tokio_util::sync::CancellationToken;

use super::host_facts::{self, Cpu};
use super::report::propose;
use crate::app::Shared;
use crate::clock;
use crate::config::InventoryConfig;

/// How often the host is looked at.
const PERIOD: Duration = Duration::from_secs(10);
/// Pause before a report that was not taken is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// Disk kept for the log and what else the daemon writes.
const DISK_RESERVE_GIB: u64 = 10;
/// Below this share of free disk, in percent, the node says so.
const DISK_LOW_PERCENT: u64 = 5;
const GIB: u64 = 1 << 30;

/// What does not change while the daemon runs.
#[derive(Clone, Debug)]
pub struct Here {
    pub boot_id: BootId,
    pub peer_addr: String,
    pub api_addr: String,
    /// Where VM disks lie.
    pub vm_dir: PathBuf,
    pub ratios: InventoryConfig,
    /// What disk images boot with.
    pub firmware: Option<PathBuf>,
    pub cpu: Cpu,
}

/// Runs until cancelled.
pub async fn run(app: Shared, here: Here, stop: CancellationToken) {
    let mut last: Option<NodeReport> = None;
    loop {
        let facts = app.hypervisor.facts().await;
        let report = look(&app, &here, facts, last.as_ref()).await;
        let pause = if known(&app, &here, &report) {
            last = Some(report);
            PERIOD
        } else {
            let command = Command::ReportNode(ReportNode {
                node: app.raft.node_id(),
                sequence: clock::boot_ns(),
                peer_addr: here.peer_addr.clone(),
                api_addr: here.api_addr.clone(),
                report: report.clone(),
            });
            match propose(&app.raft, command).await {
                Some(Reply::Done(_)) => {
                    last = Some(report);
                    PERIOD
                }
                // A refusal is an entry of the log each time: not in haste.
                Some(_) => PERIOD,
                None => RETRY,
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Whether the applied state says the same already.
fn known(app: &Shared, here: &Here, report: &NodeReport) -> bool {
    let published = app.raft.state();
    published.state.nodes.get(&app.raft.node_id()).is_some_and(|node| {
        node.report.as_ref() == Some(report)
            && node.peer_addr == here.peer_addr
            && node.api_addr == here.api_addr
    })
}

async fn look(app: &Shared, here: &Here, facts: HypervisorFacts, last: Option<&NodeReport>) -> NodeReport {
    let mut conditions = BTreeMap::new();
    let known = app.raft.state();
    let last =
        last.or_else(|| known.state.nodes.get(&app.raft.node_id()).and_then(|node| node.report.as_ref()));
    let before = last.map(|report| report.conditions.clone()).unwrap_or_default();
    let mut condition = |name: &str, message: String| {
        let since = before.get(name).map_or_else(clock::now, |condition| condition.since);
        conditions.insert(name.to_owned(), Condition { since, message });
    };
    let disk = host::disk_space(&here.vm_dir);
    match &disk {
        Ok(disk) if disk.free_bytes * 100 < disk.total_bytes * DISK_LOW_PERCENT => {
            condition(
                "DiskLow",
                format!(
                    "less than {DISK_LOW_PERCENT} % of the disk under {} is free; delete images or VMs",
                    here.vm_dir.display()
                ),
            );
        }
        Ok(_) => {}
        Err(error) => {
            condition("DiskUnreadable", format!("{}: {}", here.vm_dir.display(), crate::app::chain(error)))
        }
    }
    let memory_mib = host::memory_mib().unwrap_or_else(|error| {
        condition("MemoryUnreadable", crate::app::chain(&error));
        0
    });
    let images_gib = app.images.used_bytes().div_ceil(GIB);
    let disk_gib = disk.map(|disk| disk.total_bytes / GIB).unwrap_or(0);
    let cpus = u64::from(host::cpus());
    NodeReport {
        boot_id: here.boot_id,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        capabilities: host_facts::capabilities(&here.cpu, &facts, here.firmware.as_deref()),
        hypervisor: facts,
        inventory: inventory(here.ratios, cpus, memory_mib, disk_gib, images_gib),
        conditions,
        traits: here.cpu.traits.clone(),
        load_thousandths: host_facts::load_thousandths(cpus, last.map_or(0, |last| last.load_thousandths)),
        orphans: app.orphans.to_report(),
    }
}

fn inventory(
    ratios: InventoryConfig,
    cpus: u64,
    memory_mib: u64,
    disk_gib: u64,
    images_gib: u64,
) -> BTreeMap<ResourceClass, Inventory> {
    let of = |total, reserved, ratio: f64| Inventory {
        reserved,
        allocation_ratio_thousandths: (ratio * 1000.0).round() as u64,
        ..Inventory::of(total)
    };
    BTreeMap::from([
        (ResourceClass::Vcpu, of(cpus, 0, ratios.cpu_allocation_ratio)),
        (ResourceClass::MemoryMb, of(memory_mib, (memory_mib / 20).max(1024), ratios.ram_allocation_ratio)),
        (ResourceClass::DiskGb, of(disk_gib, DISK_RESERVE_GIB + images_gib, ratios.disk_allocation_ratio)),
    ])
}

/// The VM directory below a data directory.
pub fn vm_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("vms")
}
