//! Tells the cluster what this node is: boot, version, hypervisor, inventory, and what is wrong with it
//! ([`crate::health`]). Proposed at start and whenever it differs from what the cluster knows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use holm_model::command::{Command, ReportNode};
use holm_model::condition::CLONE_QUIET_MS;
use holm_model::node::{HypervisorFacts, NodeReport};
use holm_model::parts::{Offer, PCPU};
use holm_model::reply::Done;
use holm_model::{BootId, Inventory, Outcome, Reply, ResourceClass};
use holm_vmm::host;
use tokio_util::sync::CancellationToken;

use super::host_facts::{self, Cpu};
use super::host_parts::{Found, SetApart};
use super::host_topology::Topology;
use super::report::propose;
use crate::app::Shared;
use crate::clock;
use crate::config::InventoryConfig;
use crate::health::{self, Facts, Looker, Places};

/// How often the host is looked at.
const PERIOD: Duration = Duration::from_secs(10);
/// Pause before a report that was not taken is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// Pause before a node without a lease reports again what the cluster should know.
const ANEW: Duration = Duration::from_secs(20);
/// Disk kept for the log and what else the daemon writes.
const DISK_RESERVE_GIB: u64 = 10;
const GIB: u64 = 1 << 30;
/// Where the kernel tells of the host.
const SYSFS: &str = "/sys";

/// What does not change while the daemon runs.
#[derive(Clone, Debug)]
pub struct Here {
    pub boot_id: BootId,
    pub peer_addr: String,
    pub api_addr: String,
    pub ratios: InventoryConfig,
    /// What VMs may have for themselves.
    pub set_apart: SetApart,
    /// What disk images boot with.
    pub firmware: Option<PathBuf>,
    pub cpu: Cpu,
    /// Where its health is looked at.
    pub places: Places,
}

/// Runs until cancelled.
pub async fn run(app: Shared, here: Here, stop: CancellationToken) {
    let mut last: Option<NodeReport> = None;
    let mut told: Option<Instant> = None;
    let mut looker = Looker::new(here.places.clone());
    loop {
        let facts = app.hypervisor.facts().await;
        let report = look(&app, &here, &mut looker, facts, last.as_ref()).await;
        // Who gets no lease may have missed that another host reports as this node: its own report brings it up.
        let refused = app.lease.live().is_none() && told.is_none_or(|at| at.elapsed() >= ANEW);
        let pause = if known(&app, &here, &report) && !refused {
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
            told = Some(Instant::now());
            match propose(&app.raft, command).await {
                Some(Reply::Done(Done { outcome: Outcome::OtherHost(_), .. })) => {
                    tracing::error!(
                        node = %app.raft.node_id(),
                        boot = %here.boot_id,
                        "another machine uses this node's identity: it reported after this one, which starts nothing \
                         any more; switch off the copy, then reboot this host"
                    );
                    PERIOD
                }
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
            // One more report says that this host is the only one by now.
            && node.cloned_at.is_none_or(|at| app.raft.now().since_ms(at) < CLONE_QUIET_MS)
    })
}

async fn look(
    app: &Shared,
    here: &Here,
    looker: &mut Looker,
    facts: HypervisorFacts,
    last: Option<&NodeReport>,
) -> NodeReport {
    let known = app.raft.state();
    let recorded = known.state.nodes.get(&app.raft.node_id()).and_then(|node| node.report.as_ref());
    let last = last.or(recorded);
    let status = app.raft.status().borrow().clone();
    let topology = Topology::read(Path::new(SYSFS));
    let Found { offer, missing } = here.set_apart.find(&topology, Path::new(SYSFS));
    let host = looker.look(&status, &facts, &known.state, app.raft.node_id()).await;
    let host = Facts { missing_parts: missing, ..host };
    let before = last.map(|report| report.conditions.clone()).unwrap_or_default();
    let found = health::judge(&host, &before.keys().map(String::as_str).collect());
    let vcpus_max = topology.kvm.map_or(u64::MAX, |kvm| kvm.max_vcpus as u64);
    let mut inventory =
        inventory(here.ratios, amounts(&host, shared_cpus(&topology, &offer)), vcpus_max, last);
    if !offer.cpus.is_empty() {
        let dedicated = offer.cpus.len() as u64;
        inventory.insert(ResourceClass::Custom(PCPU.to_owned()), Inventory::bounded(dedicated, vcpus_max));
    }
    let mut capabilities =
        host_facts::capabilities(&here.cpu, &facts, here.firmware.as_deref(), host.watchdog);
    capabilities.extend(topology.capabilities());
    let reported_load = last.map_or(0, |last| last.load_thousandths);
    let mut report = NodeReport {
        boot_id: here.boot_id,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        capabilities,
        hypervisor: facts,
        inventory,
        offer,
        conditions: health::conditions(found, &before, clock::now()),
        traits: here.cpu.traits.clone(),
        load_thousandths: host_facts::load_thousandths(topology.cpus().unwrap_or(1), reported_load),
        orphans: app.orphans.to_report(),
    };
    report.clip();
    report
}

/// CPUs that VMs share: those online that are not set apart. Which of them this process may use itself says nothing:
/// the usual way to keep it off the others is to bind it.
fn shared_cpus(topology: &Topology, offer: &Offer) -> Option<u64> {
    let online = topology.online.as_ref()?;
    Some(online.iter().filter(|cpu| !offer.cpus.contains_key(cpu)).count() as u64)
}

/// What the host has and what of it is kept; nothing for a class that cannot be told at present.
fn amounts(facts: &Facts, cpus: Option<u64>) -> [(ResourceClass, Option<(u64, u64)>); 3] {
    let memory = host::memory_mib().map(|mib| (mib, (mib / 20).max(1024)));
    let disk =
        facts.amount.map(|disk| (disk.total_bytes / GIB, DISK_RESERVE_GIB + disk.images_bytes.div_ceil(GIB)));
    [
        (ResourceClass::Vcpu, cpus.map(|cpus| (cpus, 0))),
        (ResourceClass::MemoryMb, memory.ok()),
        (ResourceClass::DiskGb, disk),
    ]
}

/// A class that cannot be told is not gone: what was last reported of it stands. One VM gets what the host has at most,
/// whatever the ratio, as with Nova's drivers: two of its vCPUs on one CPU wait for each other.
fn inventory(
    ratios: InventoryConfig,
    amounts: [(ResourceClass, Option<(u64, u64)>); 3],
    vcpus_max: u64,
    last: Option<&NodeReport>,
) -> BTreeMap<ResourceClass, Inventory> {
    let ratio = |class: &ResourceClass| match class {
        ResourceClass::Vcpu => ratios.cpu_allocation_ratio,
        ResourceClass::MemoryMb => ratios.ram_allocation_ratio,
        _ => ratios.disk_allocation_ratio,
    };
    let of = |(class, amount): (ResourceClass, Option<(u64, u64)>)| {
        let inventory = match amount {
            Some((total, reserved)) => Inventory {
                reserved,
                allocation_ratio_thousandths: (ratio(&class) * 1000.0).round() as u64,
                ..Inventory::bounded(total, if class == ResourceClass::Vcpu { vcpus_max } else { u64::MAX })
            },
            None => last?.inventory.get(&class)?.clone(),
        };
        Some((class, inventory))
    };
    amounts.into_iter().filter_map(of).collect()
}

/// The VM directory below a data directory.
pub fn vm_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("vms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_set_apart_are_taken_off_those_of_the_host_once() {
        let topology = |online: Option<&str>| Topology {
            online: online.and_then(host::cpu_list),
            ..Topology::default()
        };
        let offer =
            |cpus: &[u32]| Offer { cpus: cpus.iter().map(|cpu| (*cpu, 0)).collect(), ..Offer::default() };
        for (online, dedicated, expected) in [
            (Some("0-7"), &[2, 3, 4, 5, 6, 7][..], Some(2)),
            (Some("0-7"), &[], Some(8)),
            (Some("0-3,8-9"), &[8, 9], Some(4)),
            (Some("0-1"), &[0, 1], Some(0)),
            (None, &[], None),
        ] {
            assert_eq!(
                shared_cpus(&topology(online), &offer(dedicated)),
                expected,
                "{online:?} {dedicated:?}"
            );
        }
    }

    /// Nova's libvirt driver reports `max_unit` = total for VCPU, PCPU, MEMORY_MB and DISK_GB.
    #[test]
    fn one_vm_gets_what_the_host_has_at_most_whatever_the_ratio() {
        let ratios = InventoryConfig { cpu_allocation_ratio: 4.0, ..InventoryConfig::default() };
        let amounts = |cpus| {
            [
                (ResourceClass::Vcpu, Some((cpus, 0))),
                (ResourceClass::MemoryMb, Some((8192, 1024))),
                (ResourceClass::DiskGb, Some((100, 10))),
            ]
        };
        let most = |cpus, vcpus_max| {
            let reported = inventory(ratios, amounts(cpus), vcpus_max, None);
            reported.into_values().map(|inventory| inventory.max_unit).collect::<Vec<_>>()
        };
        assert_eq!(most(4, u64::MAX), [4, 8192, 100]);
        assert_eq!(most(4096, 1024), [1024, 8192, 100], "KVM's bound");
        assert_eq!(most(0, u64::MAX), [1, 8192, 100], "all CPUs are set apart");
    }

    /// A daemon bound to the CPUs that are not set apart, as `CPUAffinity=` of its unit does it.
    #[test]
    fn a_daemon_bound_to_one_cpu_answers_for_the_whole_host() {
        let first = *host::online_cpus().expect("CPUs").first().expect("one");
        let mut one = nix::sched::CpuSet::new();
        one.set(usize::try_from(first).expect("small")).expect("a CPU");
        let bound = std::thread::spawn(move || {
            nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &one).expect("it may be bound");
            (std::thread::available_parallelism().expect("one").get(), Topology::read(Path::new(SYSFS)))
        });
        let (usable, topology) = bound.join().expect("it ends");
        assert_eq!(usable, 1);
        assert_eq!(topology.online, host::online_cpus().ok());
    }
}
