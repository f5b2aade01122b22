//! From facts to conditions. Pure. A condition begins at one threshold and ends at a more comfortable one, so that a
//! host at the edge does not come and go; its words hold no number that changes from look to look, since every new
//! word is an entry of the log.

use std::collections::{BTreeMap, BTreeSet};

use holm_model::Timestamp;
use holm_model::condition::{DISK_FULL, DISK_HUNG, DISK_READ_ONLY, KVM_MISSING};
use holm_model::node::Condition;

use super::facts::{Disk, Facts, Link, LinkState, Memory, Space, Watchdog};

pub const DISK_LOW: &str = "DiskLow";
pub const DISK_UNREADABLE: &str = "DiskUnreadable";
pub const SNAPSHOT_FAILING: &str = "SnapshotFailing";
pub const MEMORY_LOW: &str = "MemoryLow";
pub const MEMORY_UNREADABLE: &str = "MemoryUnreadable";
pub const OUT_OF_MEMORY: &str = "OutOfMemory";
pub const CLOCK_JUMP: &str = "ClockJump";
pub const CLOCK_WRONG: &str = "ClockWrong";
pub const NIC_DOWN: &str = "NicDown";
pub const VMM_SLOW: &str = "VmmSlow";
pub const BINARY_REPLACED: &str = "BinaryReplaced";
pub const WATCHDOG_UNFIT: &str = "WatchdogUnfit";
pub const PARTS_MISSING: &str = "PartsMissing";

/// A disk with less room than this is full: the log keeps the rest (`holm_raft`'s reserve file is taken from it).
const FULL_BYTES: u64 = 64 << 20;
const NO_LONGER_FULL_BYTES: u64 = 96 << 20;
/// Free room and free inodes, in percent.
const LOW_PERCENT: u64 = 5;
const NO_LONGER_LOW_PERCENT: u64 = 6;
/// Memory kept for the host: a VM never gets it.
const RESERVE_MIB: u64 = 1024;
/// A host full of VMs has about its reserve left, less what the daemon and the kernel take; below these parts of
/// it, in percent, something else eats it.
const MEMORY_PERCENT: u64 = 50;
const MEMORY_PERCENT_ENOUGH: u64 = 75;
/// Of the last ten seconds, in thousandths.
const MEMORY_STALLED: u64 = 100;
const MEMORY_STALLED_ENOUGH: u64 = 50;
/// This many VMMs that do not answer are the host's fault; so is a lesser number that is more than half.
const VMMS_SILENT: usize = 3;

/// What is wrong, by name, given what was wrong at the last look.
pub fn judge(facts: &Facts, before: &BTreeSet<&str>) -> BTreeMap<&'static str, String> {
    let mut found = Found { before, conditions: BTreeMap::new() };
    for disk in &facts.disks {
        found.disk(disk);
    }
    if let Some(problem) = &facts.snapshot_problem {
        let message = format!("no snapshot can be written, and the log grows meanwhile: {problem}");
        found.add(SNAPSHOT_FAILING, message);
    }
    match &facts.memory {
        Some(memory) => found.memory(*memory),
        None => found.add(MEMORY_UNREADABLE, "/proc/meminfo cannot be read".to_owned()),
    }
    if let Some(problem) = &facts.hypervisor_problem {
        found.add(KVM_MISSING, problem.clone());
    }
    found.clock(facts);
    found.links(&facts.links);
    let (vms, silent) = (facts.vmms.vms, facts.vmms.silent);
    if silent >= VMMS_SILENT || silent * 2 > vms {
        let message = "many VMs of this node do not say how they are; `holm vm list --node` shows them. Its disks \
                       or CPUs are overloaded, or hang";
        found.add(VMM_SLOW, message.to_owned());
    }
    if facts.binaries.holmd {
        let message = "holmd on disk is not the one that runs: restart the daemon to use it; VMs run on";
        found.add(BINARY_REPLACED, message.to_owned());
    }
    if facts.binaries.vmm {
        let message = "VMs here run with an earlier cloud-hypervisor than the one on disk: each uses the new one \
                       from its next start";
        found.add(BINARY_REPLACED, message.to_owned());
    }
    if let Some(watchdog) = facts.watchdog {
        found.watchdog(watchdog);
    }
    if !facts.missing_parts.is_empty() {
        let message = format!(
            "the configuration offers what is not there, and no VM gets it: {}; mend the host, or take it out of \
             holmd.toml and restart holmd",
            facts.missing_parts.join("; ")
        );
        found.add(PARTS_MISSING, message);
    }
    found.conditions
}

/// With the moment each began: known ones keep theirs.
pub fn conditions(
    found: BTreeMap<&'static str, String>,
    before: &BTreeMap<String, Condition>,
    now: Timestamp,
) -> BTreeMap<String, Condition> {
    let since = |name: &str| before.get(name).map_or(now, |condition| condition.since);
    found
        .into_iter()
        .map(|(name, message)| (name.to_owned(), Condition { since: since(name), message }))
        .collect()
}

struct Found<'a> {
    before: &'a BTreeSet<&'a str>,
    conditions: BTreeMap<&'static str, String>,
}

impl Found<'_> {
    /// Two things that are wrong under one name are both said.
    fn add(&mut self, name: &'static str, message: String) {
        let said = self.conditions.entry(name).or_default();
        if !said.is_empty() {
            said.push_str("; ");
        }
        said.push_str(&message);
    }

    fn was(&self, name: &str) -> bool {
        self.before.contains(name)
    }

    fn disk(&mut self, disk: &Disk) {
        let dir = disk.dir.display();
        if disk.is_hung {
            let message = format!(
                "the disk under {dir} does not answer: nothing is written there. Mend the disk, thaw the file \
                 system, or switch the machine off"
            );
            self.add(DISK_HUNG, message);
        }
        let space = match &disk.space {
            Ok(space) => *space,
            Err(why) => return self.add(DISK_UNREADABLE, format!("{dir}: {why}")),
        };
        if space.is_read_only {
            let message = format!(
                "the file system under {dir} is read-only; the kernel's log says why. Mend it, mount it again and \
                 start the daemon"
            );
            self.add(DISK_READ_ONLY, message);
        }
        if let Some(what) = full(space, self.was(DISK_FULL)) {
            self.add(DISK_FULL, format!("there are no {what} left under {dir}; {}", make_room(what)));
        } else if let Some(what) = low(space, self.was(DISK_LOW)) {
            let message =
                format!("less than {LOW_PERCENT} % of the {what} under {dir} are free; {}", make_room(what));
            self.add(DISK_LOW, message);
        }
    }

    fn memory(&mut self, memory: Memory) {
        let reserve_mib = (memory.total_mib / 20).max(RESERVE_MIB).min(memory.total_mib / 4);
        let percent = if self.was(MEMORY_LOW) { MEMORY_PERCENT_ENOUGH } else { MEMORY_PERCENT };
        let stalled = if self.was(MEMORY_LOW) { MEMORY_STALLED_ENOUGH } else { MEMORY_STALLED };
        if memory.available_mib * 100 < reserve_mib * percent
            || memory.stalled_thousandths.is_some_and(|share| share >= stalled)
        {
            let message = format!(
                "the memory kept for the host itself, {reserve_mib} MiB, is nearly used up; see what runs beside \
                 the VMs, or give VMs less"
            );
            self.add(MEMORY_LOW, message);
        }
        if memory.killed_lately {
            let message = "the kernel killed a process for lack of memory; its log says which";
            self.add(OUT_OF_MEMORY, message.to_owned());
        }
    }

    fn clock(&mut self, facts: &Facts) {
        if let Some(jump_ms) = facts.clock.jump_ms {
            let (seconds, way) =
                (jump_ms.unsigned_abs() / 1000, if jump_ms < 0 { "back" } else { "forward" });
            let message = format!(
                "the wall clock was set {way} by {seconds} s; times shown of before do not compare with those \
                 after. No lease and no time-out depends on it"
            );
            self.add(CLOCK_JUMP, message);
        }
        if facts.clock.is_before_build {
            let message = "the wall clock tells a time before this program was built: set up time synchronisation, \
                           or replace the clock's battery";
            self.add(CLOCK_WRONG, message.to_owned());
        }
    }

    /// What it is for: daemon and shim stopped, VMM running on after its lease.
    fn watchdog(&mut self, watchdog: Watchdog) {
        let Watchdog { timeout_s, resets, margin_ms } = watchdog;
        if !resets {
            let message = "the device that `holmd watchdog` feeds is no watchdog, and resets nothing: name the right \
                           one with --device";
            self.add(WATCHDOG_UNFIT, message.to_owned());
        }
        if !watchdog.is_in_time() {
            let message = format!(
                "the watchdog resets this host {timeout_s} s after a VM has outlived its lease, and the VM starts \
                 elsewhere {margin_ms} ms after: give `holmd watchdog` a --timeout below the margin, or raise that \
                 with `holm cluster policy set --margin`"
            );
            self.add(WATCHDOG_UNFIT, message);
        }
    }

    fn links(&mut self, links: &[Link]) {
        for Link { address, state } in links {
            let message = match state {
                LinkState::Running => continue,
                LinkState::Down { interface } => format!("{interface}, which has {address}, is down"),
                LinkState::NoCarrier { interface } => {
                    format!(
                        "{interface}, which has {address}, has no carrier: check the cable and the switch"
                    )
                }
                LinkState::Missing => format!("no interface has {address}, by which others reach this node"),
            };
            self.add(NIC_DOWN, message);
        }
    }
}

fn full(space: Space, was: bool) -> Option<&'static str> {
    let bytes = if was { NO_LONGER_FULL_BYTES } else { FULL_BYTES };
    // A file system that small is of no use, and only tests have one.
    if space.free_bytes < bytes.min(space.total_bytes / 4) {
        Some("bytes")
    } else {
        (space.inodes > 0 && space.free_inodes < space.inodes / 1000).then_some("inodes")
    }
}

fn low(space: Space, was: bool) -> Option<&'static str> {
    let percent = if was { NO_LONGER_LOW_PERCENT } else { LOW_PERCENT };
    let is_low = |free: u64, total: u64| u128::from(free) * 100 < u128::from(total) * u128::from(percent);
    if is_low(space.free_bytes, space.total_bytes) {
        Some("bytes")
    } else {
        is_low(space.free_inodes, space.inodes).then_some("inodes")
    }
}

fn make_room(what: &str) -> &'static str {
    if what == "inodes" { "delete small files" } else { "delete images or VMs, or enlarge the disk" }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
