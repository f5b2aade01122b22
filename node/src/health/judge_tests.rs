//! Facts in, conditions out, as tables.

use holm_model::condition::REFUSING;

use super::super::facts::{Binaries, Clock, Vmms, Watchdog};
use super::*;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

fn space() -> Space {
    Space {
        total_bytes: 100 * GIB,
        free_bytes: 50 * GIB,
        inodes: 1_000_000,
        free_inodes: 900_000,
        is_read_only: false,
    }
}

fn memory() -> Memory {
    Memory { total_mib: 65_536, available_mib: 8_192, stalled_thousandths: Some(0), killed_lately: false }
}

fn healthy() -> Facts {
    Facts {
        disks: vec![Disk { dir: "/d".into(), space: Ok(space()), is_hung: false }],
        memory: Some(memory()),
        links: vec![Link { address: "10.0.0.1".parse().unwrap(), state: LinkState::Running }],
        vmms: Vmms { vms: 4, silent: 0 },
        ..Facts::default()
    }
}

/// Names found in `facts`, after a look that found `before`.
fn names(facts: &Facts, before: &[&str]) -> Vec<&'static str> {
    judge(facts, &before.iter().copied().collect()).into_keys().collect()
}

#[test]
fn a_healthy_host_has_no_condition_and_one_with_an_odd_file_system_neither() {
    assert_eq!(names(&healthy(), &[]), [""; 0]);
    // btrfs has no number of inodes.
    let mut facts = healthy();
    facts.disks[0].space = Ok(Space { inodes: 0, free_inodes: 0, ..space() });
    assert_eq!(names(&facts, &[]), [""; 0]);
    facts.vmms = Vmms::default();
    assert_eq!(names(&facts, &[]), [""; 0], "no VM at all");
}

#[test]
fn disks() {
    type Change = fn(&mut Disk);
    let space_of = |change: fn(&mut Space)| {
        let mut space = space();
        change(&mut space);
        space
    };
    let cases: &[(&str, Space, &[&str], &[&str])] = &[
        ("4.9 %", space_of(|s| s.free_bytes = 49 * GIB / 10), &[], &["DiskLow"]),
        ("5.5 % from above", space_of(|s| s.free_bytes = 55 * GIB / 10), &[], &[]),
        ("5.5 % from below", space_of(|s| s.free_bytes = 55 * GIB / 10), &["DiskLow"], &["DiskLow"]),
        ("6.1 %", space_of(|s| s.free_bytes = 61 * GIB / 10), &["DiskLow"], &[]),
        ("63 MiB", space_of(|s| s.free_bytes = 63 * MIB), &[], &["DiskFull"]),
        ("80 MiB from above", space_of(|s| s.free_bytes = 80 * MIB), &["DiskLow"], &["DiskLow"]),
        ("80 MiB from below", space_of(|s| s.free_bytes = 80 * MIB), &["DiskFull"], &["DiskFull"]),
        ("97 MiB", space_of(|s| s.free_bytes = 97 * MIB), &["DiskFull"], &["DiskLow"]),
        ("few inodes", space_of(|s| s.free_inodes = 40_000), &[], &["DiskLow"]),
        ("no inodes", space_of(|s| s.free_inodes = 999), &[], &["DiskFull"]),
        ("read-only", space_of(|s| s.is_read_only = true), &[], &["DiskReadOnly"]),
    ];
    for (what, space, before, expected) in cases {
        let mut facts = healthy();
        facts.disks[0].space = Ok(*space);
        assert_eq!(names(&facts, before), *expected, "{what}");
    }
    let broken: &[(&str, Change, &str)] = &[
        ("hung", |disk| disk.is_hung = true, "DiskHung"),
        ("unreadable", |disk| disk.space = Err("no such directory".into()), "DiskUnreadable"),
    ];
    for (what, change, expected) in broken {
        let mut facts = healthy();
        change(&mut facts.disks[0]);
        assert_eq!(names(&facts, &[]), [*expected], "{what}");
    }
}

#[test]
fn two_full_disks_are_one_condition_that_names_both() {
    let mut facts = healthy();
    let full = Space { free_bytes: 0, ..space() };
    facts.disks =
        ["/data", "/vms"].map(|dir| Disk { dir: dir.into(), space: Ok(full), is_hung: false }).to_vec();
    let found = judge(&facts, &BTreeSet::new());
    assert!(found[DISK_FULL].contains("/data") && found[DISK_FULL].contains("/vms"), "{found:?}");
}

#[test]
fn memory_of_the_host_itself() {
    // Reserve: 5 % of 64 GiB, 3276 MiB.
    let cases: &[(&str, Memory, &[&str], &[&str])] = &[
        ("half of it", Memory { available_mib: 1_638, ..memory() }, &[], &[]),
        ("less than half", Memory { available_mib: 1_637, ..memory() }, &[], &["MemoryLow"]),
        ("comes back", Memory { available_mib: 2_000, ..memory() }, &["MemoryLow"], &["MemoryLow"]),
        ("is back", Memory { available_mib: 2_458, ..memory() }, &["MemoryLow"], &[]),
        ("stalls", Memory { stalled_thousandths: Some(100), ..memory() }, &[], &["MemoryLow"]),
        ("stalled", Memory { stalled_thousandths: Some(60), ..memory() }, &["MemoryLow"], &["MemoryLow"]),
        ("no PSI", Memory { stalled_thousandths: None, ..memory() }, &[], &[]),
        ("killed", Memory { killed_lately: true, ..memory() }, &[], &["OutOfMemory"]),
        // A small machine keeps a quarter at most.
        ("512 MiB", Memory { total_mib: 512, available_mib: 65, ..memory() }, &[], &[]),
        ("512 MiB, used up", Memory { total_mib: 512, available_mib: 60, ..memory() }, &[], &["MemoryLow"]),
    ];
    for (what, memory, before, expected) in cases {
        let facts = Facts { memory: Some(*memory), ..healthy() };
        assert_eq!(names(&facts, before), *expected, "{what}");
    }
    assert_eq!(names(&Facts { memory: None, ..healthy() }, &[]), ["MemoryUnreadable"]);
}

#[test]
fn clocks_links_vmms_and_binaries() {
    let link = |state| vec![Link { address: "10.0.0.1".parse().unwrap(), state }];
    let interface = || "eth0".to_owned();
    let clock = |jump_ms, is_before_build| Clock { jump_ms, is_before_build };
    let cases: &[(&str, Facts, &[&str])] = &[
        ("jump", Facts { clock: clock(Some(-7_000), false), ..healthy() }, &["ClockJump"]),
        ("1970", Facts { clock: clock(None, true), ..healthy() }, &["ClockWrong"]),
        (
            "down",
            Facts { links: link(LinkState::Down { interface: interface() }), ..healthy() },
            &["NicDown"],
        ),
        (
            "no cable",
            Facts { links: link(LinkState::NoCarrier { interface: interface() }), ..healthy() },
            &["NicDown"],
        ),
        ("lost address", Facts { links: link(LinkState::Missing), ..healthy() }, &["NicDown"]),
        ("one VMM of four", Facts { vmms: Vmms { vms: 4, silent: 1 }, ..healthy() }, &[]),
        ("two VMMs of four", Facts { vmms: Vmms { vms: 4, silent: 2 }, ..healthy() }, &[]),
        ("the only VMM", Facts { vmms: Vmms { vms: 1, silent: 1 }, ..healthy() }, &["VmmSlow"]),
        ("three of many", Facts { vmms: Vmms { vms: 200, silent: 3 }, ..healthy() }, &["VmmSlow"]),
        ("no KVM", Facts { hypervisor_problem: Some("no /dev/kvm".into()), ..healthy() }, &["KvmMissing"]),
        ("no snapshot", Facts { snapshot_problem: Some("full".into()), ..healthy() }, &["SnapshotFailing"]),
        (
            "both binaries",
            Facts { binaries: Binaries { holmd: true, vmm: true }, ..healthy() },
            &["BinaryReplaced"],
        ),
    ];
    for (what, facts, expected) in cases {
        assert_eq!(names(facts, &[]), *expected, "{what}");
    }
    let found = judge(&cases[0].1, &BTreeSet::new());
    assert!(found[CLOCK_JUMP].contains("set back by 7 s"), "{found:?}");
}

#[test]
fn a_condition_keeps_its_beginning_and_goes_with_its_cause() {
    let found = || BTreeMap::from([("DiskLow", "less room".to_owned())]);
    let first = conditions(found(), &BTreeMap::new(), Timestamp(10));
    assert_eq!(first["DiskLow"].since, Timestamp(10));
    let second = conditions(found(), &first, Timestamp(99));
    assert_eq!(second["DiskLow"].since, Timestamp(10));
    assert!(conditions(BTreeMap::new(), &second, Timestamp(120)).is_empty());
}

/// A VM that could not run here is not sent here; one that could is only sent elsewhere first.
#[test]
fn those_that_refuse_are_those_under_which_a_vm_would_fail() {
    let reported = [DISK_FULL, DISK_READ_ONLY, DISK_HUNG, KVM_MISSING];
    assert!(reported.iter().all(|name| REFUSING.contains(name)));
    let milder = [DISK_LOW, MEMORY_LOW, OUT_OF_MEMORY, CLOCK_JUMP, NIC_DOWN, VMM_SLOW, BINARY_REPLACED];
    assert!(!milder.iter().any(|name| REFUSING.contains(name)));
}

#[test]
fn a_watchdog_is_faster_than_the_margin_or_is_told() {
    let of = |timeout_s, margin_ms, resets| Facts {
        watchdog: Some(Watchdog { timeout_s, resets, margin_ms }),
        ..healthy()
    };
    assert_eq!(names(&of(4, 5_000, true), &[]), [""; 0]);
    assert_eq!(names(&of(5, 5_001, true), &[]), [""; 0]);
    for late in [of(5, 5_000, true), of(600, 5_000, true), of(2, 2_000, true)] {
        assert_eq!(names(&late, &[]), [WATCHDOG_UNFIT]);
    }
    let idle = judge(&of(4, 5_000, false), &BTreeSet::new());
    assert!(idle[WATCHDOG_UNFIT].contains("resets nothing"), "{idle:?}");
    assert!(!REFUSING.contains(&WATCHDOG_UNFIT), "leases hold without it");
}

#[test]
fn parts_that_are_configured_and_not_there_are_named_with_the_fix() {
    let missing_parts = vec!["CPU 7 of `[cpu] dedicated`".to_owned(), "a device for `gpu`".to_owned()];
    let facts = Facts { missing_parts, ..healthy() };
    let found = judge(&facts, &BTreeSet::new());
    assert_eq!(
        found.get(PARTS_MISSING).map(String::as_str),
        Some(
            "the configuration offers what is not there, and no VM gets it: CPU 7 of `[cpu] dedicated`; a device \
             for `gpu`; mend the host, or take it out of holmd.toml and restart holmd"
        )
    );
    assert!(!REFUSING.contains(&PARTS_MISSING), "VMs that ask for none of it are welcome");
}
