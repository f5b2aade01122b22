//! Facts about this host: boot, memory, CPUs, disks, KVM, and other processes by (pid, start time), which
//! names a process uniquely within one boot.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use holm_model::BootId;
use holm_model::planted::host_clock_ns;
use kvm_ioctls::{Cap, Kvm};

/// The current boot of the host.
pub fn boot_id() -> io::Result<BootId> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    text.trim().parse().map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

/// Nanoseconds since the boot of the host, time asleep included.
pub fn boottime_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the structure it is given; this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut now) };
    let ns = u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0);
    host_clock_ns(ns)
}

/// Memory the kernel manages, in MiB.
pub fn memory_mib() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let kib = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no MemTotal in /proc/meminfo"))?;
    Ok(kib / 1024)
}

/// Numbers of the CPUs that are online, whether or not this process may run there.
pub fn online_cpus() -> io::Result<BTreeSet<u32>> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    cpu_list(text.trim()).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, text))
}

/// `0-2,5` is 0, 1, 2 and 5.
pub fn cpu_list(text: &str) -> Option<BTreeSet<u32>> {
    let mut cpus = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?);
    }
    Some(cpus)
}

/// Size and free space of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    pub total_bytes: u64,
    /// What an unprivileged process may still write.
    pub free_bytes: u64,
}

/// Space of the file system that holds `dir`.
pub fn disk_space(dir: &Path) -> io::Result<DiskSpace> {
    let stat = nix::sys::statvfs::statvfs(dir)?;
    let block = stat.fragment_size();
    Ok(DiskSpace { total_bytes: stat.blocks() * block, free_bytes: stat.blocks_available() * block })
}

/// What KVM offers here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvmFacts {
    pub max_vcpus: usize,
    /// Saving nested state works, which snapshots and live migration need.
    pub nested_state: bool,
}

/// Opens `/dev/kvm` and asks. The error says what is wrong and what to do about it.
pub fn kvm() -> Result<KvmFacts, String> {
    let kvm = Kvm::new().map_err(|e| match io::Error::from(e).kind() {
        io::ErrorKind::NotFound => {
            "/dev/kvm is missing: load the module kvm_intel or kvm_amd, or turn virtualisation on in the firmware"
                .to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "/dev/kvm is not accessible: run the daemon as root or in the group kvm".to_owned()
        }
        _ => format!("/dev/kvm cannot be opened: {}", io::Error::from(e)),
    })?;
    match kvm.get_api_version() {
        12 => {}
        other => return Err(format!("/dev/kvm speaks API version {other}; 12 is needed: update the kernel")),
    }
    Ok(KvmFacts { max_vcpus: kvm.get_max_vcpus(), nested_state: kvm.check_extension(Cap::NestedState) })
}

/// When the process `pid` began, in clock ticks since boot; `None` when there is none.
pub fn process_start_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command may hold spaces and parentheses; fields count from after the last one.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_start_time_and_a_dead_one_has_none() {
        assert!(process_start_ticks(std::process::id()).is_some());
        let mut child = std::process::Command::new("true").spawn().expect("true runs");
        child.wait().expect("true ends");
        assert_eq!(process_start_ticks(child.id()), None);
    }

    #[test]
    fn a_list_of_cpus_has_numbers_and_ranges() {
        assert_eq!(cpu_list("0-2,5"), Some(BTreeSet::from([0, 1, 2, 5])));
        assert_eq!(cpu_list("7"), Some(BTreeSet::from([7])));
        assert_eq!(cpu_list("a-b"), None);
        assert!(online_cpus().expect("this host's").contains(&0));
    }

    #[test]
    fn the_host_has_memory_and_a_boot_id() {
        assert!(memory_mib().expect("memory") > 0);
        assert_eq!(boot_id().expect("boot id"), boot_id().expect("boot id"));
        let space = disk_space(Path::new("/")).expect("disk of /");
        assert!(space.total_bytes >= space.free_bytes);
    }
}
