//! Looks at the host. Whatever may hang on a disk runs apart, with a bound: a look always ends.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use holm_model::node::{HypervisorFacts, HypervisorKind};
use holm_model::vm::ObservedState;
use holm_model::{NodeId, State};
use holm_raft::RaftStatus;
use holm_vmm::ImageStore;
use holm_vmm::host::{self, DiskSpace};
use tokio::task::JoinHandle;

use super::binary;
use super::clock::ClockWatch;
use super::disk::{self, Prober};
use super::facts::{Binaries, Disk, DiskAmount, Facts, Vmms, Watchdog};
use super::links::{self, Carrier, LinkWatch};
use super::memory::MemoryWatch;
use crate::clock;

/// A look at disks and processes that takes longer hangs on a disk.
const PATIENCE: Duration = Duration::from_secs(3);

/// Where to look.
#[derive(Clone, Debug)]
pub struct Places {
    /// Where the log lies.
    pub data_dir: PathBuf,
    /// Where VM disks lie.
    pub vm_dir: PathBuf,
    /// What is held of images.
    pub images: Arc<ImageStore>,
    /// Where the watchdog leaves word.
    pub run_dir: PathBuf,
    /// Addresses by which others reach this node; those of no network of this host do not count.
    pub addresses: BTreeSet<IpAddr>,
    /// Name of the VMM's program.
    pub vmm: OsString,
    /// `/proc`, but in tests.
    pub proc: PathBuf,
}

/// Looks, and remembers what only two looks can tell.
pub struct Looker {
    places: Arc<Places>,
    /// Of the VM directory, where that is on a disk of its own; the log's disk is watched by its store.
    prober: Option<Prober>,
    clock: ClockWatch,
    links: LinkWatch,
    memory: MemoryWatch,
    /// A look at the disks that has not ended: while a disk hangs there is one, not one more each time.
    looking: Option<JoinHandle<OnDisk>>,
}

/// What is read apart from the daemon's own threads.
struct OnDisk {
    disks: Vec<Disk>,
    binaries: Binaries,
    amount: Option<DiskAmount>,
}

impl Looker {
    pub fn new(places: Places) -> Self {
        let apart = !disk::is_same(&places.data_dir, &places.vm_dir);
        let prober = apart.then(|| Prober::start(places.vm_dir.clone())).and_then(|prober| {
            prober.inspect_err(|error| tracing::warn!(%error, "the disk of the VMs is not watched")).ok()
        });
        Self {
            places: Arc::new(places),
            prober,
            clock: ClockWatch::default(),
            links: LinkWatch::default(),
            memory: MemoryWatch::default(),
            looking: None,
        }
    }

    /// Everything there is to judge at present, with what raft, hypervisor and the applied state tell.
    pub async fn look(
        &mut self,
        raft: &RaftStatus,
        hypervisor: &HypervisorFacts,
        state: &State,
        me: NodeId,
    ) -> Facts {
        let OnDisk { mut disks, binaries, amount } = self.on_disk().await;
        for disk in &mut disks {
            let of_log = disk.dir == self.places.data_dir;
            disk.is_hung |= of_log && raft.disk_stalled_ms > 0;
            disk.is_hung |= !of_log && self.prober.as_ref().is_some_and(Prober::is_hung);
        }
        let carriers = links::carriers().unwrap_or_else(|error| {
            tracing::debug!(%error, "the interfaces cannot be listed");
            Vec::<Carrier>::new()
        });
        Facts {
            disks,
            amount,
            snapshot_problem: raft.snapshot_problem.clone(),
            memory: self.memory.look(&self.places.proc),
            hypervisor_problem: hypervisor_problem(hypervisor),
            clock: self.clock.look(clock::boot_ns(), clock::now().0),
            links: self.links.look(&self.places.addresses, &carriers),
            vmms: vmms(state, me),
            binaries,
            watchdog: watchdog(&self.places.run_dir, state.policy.margin_ms),
            missing_parts: Vec::new(),
        }
    }
}

impl Looker {
    async fn on_disk(&mut self) -> OnDisk {
        let vm_dir = self.prober.is_some().then(|| self.places.vm_dir.clone());
        let dirs: Vec<PathBuf> = [self.places.data_dir.clone()].into_iter().chain(vm_dir).collect();
        let begin = || {
            let (places, dirs) = (Arc::clone(&self.places), dirs.clone());
            tokio::task::spawn_blocking(move || read(&places, dirs))
        };
        let mut look = self.looking.take().unwrap_or_else(begin);
        match tokio::time::timeout(PATIENCE, &mut look).await {
            Ok(Ok(found)) => return found,
            Ok(Err(error)) => tracing::error!(%error, "looking at the disks of this host failed"),
            Err(_) => {
                tracing::warn!("looking at the disks of this host does not end");
                self.looking = Some(look);
            }
        }
        let hung = |dir| Disk { dir, space: Err("it does not answer".to_owned()), is_hung: true };
        OnDisk { disks: dirs.into_iter().map(hung).collect(), binaries: Binaries::default(), amount: None }
    }
}

fn read(places: &Places, dirs: Vec<PathBuf>) -> OnDisk {
    let disk = |dir: PathBuf| {
        let space = disk::space(&dir).map_err(|error| error.to_string());
        Disk { dir, space, is_hung: false }
    };
    let binaries = binary::look(&places.proc, &places.vmm);
    let amount = host::disk_space(&places.vm_dir).ok().map(|DiskSpace { total_bytes, .. }| DiskAmount {
        total_bytes,
        images_bytes: places.images.used_bytes(),
    });
    OnDisk { disks: dirs.into_iter().map(disk).collect(), binaries, amount }
}

/// The simulated hypervisor lacks nothing: who runs it knows that no guest runs.
fn hypervisor_problem(facts: &HypervisorFacts) -> Option<String> {
    let is_real = facts.kind == HypervisorKind::CloudHypervisor;
    (is_real && !facts.reason.is_empty()).then(|| facts.reason.clone())
}

/// The watchdog that is fed here; it lies on tmpfs, so that nothing is waited for.
fn watchdog(run_dir: &Path, margin_ms: u64) -> Option<Watchdog> {
    let record = holm_vmm::watchdog::Record::read(run_dir).unwrap_or_else(|error| {
        tracing::warn!(%error, "what the watchdog left in the run directory cannot be read");
        None
    })?;
    Some(Watchdog { timeout_s: record.timeout_s, resets: record.resets, margin_ms })
}

/// VMs of this node, and those of which it told that it cannot tell how they are.
fn vmms(state: &State, me: NodeId) -> Vmms {
    let mut vmms = Vmms::default();
    for vm in state.vms_on(me) {
        vmms.vms += 1;
        let observed = vm.observed.as_ref().map(|observed| &observed.state);
        vmms.silent += usize::from(matches!(observed, Some(ObservedState::Unknown { .. })));
    }
    vmms
}
