//! The layout, byte by byte, and what a grant may and may not do.

use super::*;

/// Far away.
const LATER: u64 = u64::MAX / 2;

fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("lease");
    (dir, path)
}

/// Written by the first version, for boot 00112233-…-eeff, lease 7, deadline 5 s.
const GOLDEN: &[u8; LEN] = b"HOLMLEAS\x01\0\0\0\0\0\0\0\
    \x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff\
    \x07\0\0\0\0\0\0\0\x00\xf2\x05\x2a\x01\0\0\0\
    \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

fn golden_boot() -> BootId {
    "00112233-4455-6677-8899-aabbccddeeff".parse().expect("boot id")
}

#[test]
fn the_layout_is_what_it_was_in_the_first_version() {
    let (_dir, path) = place();
    std::fs::write(&path, GOLDEN).expect("written");
    let read = open(&path, golden_boot(), false).expect("readable for ever");
    assert_eq!(read.current(), Some((LeaseId(7), 5_000_000_000)));

    std::fs::write(&path, empty(golden_boot())).expect("written");
    let written = open(&path, golden_boot(), true).expect("writable");
    let file = LeaseFile { map: written, path: path.clone() };
    file.grant(LeaseId(7), 5_000_000_000).expect("granted");
    assert_eq!(std::fs::read(&path).expect("file"), GOLDEN);
}

#[test]
fn a_later_layout_that_only_adds_is_read_too() {
    let (_dir, path) = place();
    let mut later = GOLDEN.to_vec();
    later[VERSION_AT] = 2;
    later[48..].fill(9);
    later.extend([9; 64]);
    std::fs::write(&path, later).expect("written");
    let read = open(&path, golden_boot(), false).expect("readable");
    assert_eq!(read.current(), Some((LeaseId(7), 5_000_000_000)));
}

#[test]
fn a_file_of_another_boot_is_trusted_by_nobody_and_replaced_by_the_writer() {
    let (_dir, path) = place();
    let mut old = *GOLDEN;
    // The lease in it seems to live: CLOCK_BOOTTIME has begun again.
    old[DEADLINE_AT..DEADLINE_AT + 8].copy_from_slice(&LATER.to_le_bytes());
    std::fs::write(&path, old).expect("written");
    assert!(matches!(LeaseView::open(&path), Err(Error::OtherBoot { .. })));
    let why = Lease { file: path.clone(), id: LeaseId(7) }.deadline().expect_err("not trusted");
    assert!(why.contains("earlier boot"), "{why}");

    let file = LeaseFile::open_or_create(&path).expect("replaced");
    assert_eq!(file.current(), None);
    assert_eq!(LeaseView::open(&path).expect("of this boot").deadline_of(LeaseId(7)), None);
}

#[test]
fn within_a_boot_the_file_is_never_replaced() {
    let (dir, path) = place();
    let first = LeaseFile::open_or_create(&path).expect("made");
    let view = LeaseView::open(&path).expect("mapped");
    first.grant(LeaseId(1), LATER).expect("granted");
    // The daemon was restarted.
    drop(first);
    let second = LeaseFile::open_or_create(&path).expect("adopted");
    assert_eq!(second.current(), Some((LeaseId(1), LATER)));
    second.grant(LeaseId(1), LATER + 1).expect("renewed");
    assert_eq!(view.deadline_of(LeaseId(1)), Some(LATER + 1), "who mapped it earlier sees it");
    assert_eq!(std::fs::read_dir(dir.path()).expect("directory").count(), 1, "nothing beside it");
}

#[test]
fn a_grant_never_shortens_only_an_end_does_and_then_a_new_id_is_needed() {
    let (_dir, path) = place();
    let file = LeaseFile::open_or_create(&path).expect("made");
    let view = LeaseView::open(&path).expect("mapped");
    file.grant(LeaseId(1), LATER).expect("granted");
    file.grant(LeaseId(1), LATER - 1).expect("a late answer changes nothing");
    assert_eq!(view.deadline_of(LeaseId(1)), Some(LATER));
    file.end();
    assert_eq!(view.deadline_of(LeaseId(1)), Some(0));
    assert!(matches!(file.grant(LeaseId(1), LATER), Err(Error::Lapsed { .. })));
    assert_eq!(view.deadline_of(LeaseId(1)), Some(0));
    file.grant(LeaseId(2), LATER).expect("a new lease");
    assert_eq!((view.deadline_of(LeaseId(1)), view.deadline_of(LeaseId(2))), (None, Some(LATER)));
}

#[test]
fn a_lapsed_lease_is_not_granted_again() {
    let (_dir, path) = place();
    let file = LeaseFile::open_or_create(&path).expect("made");
    file.grant(LeaseId(1), host::boottime_ns()).expect("granted");
    assert!(matches!(file.grant(LeaseId(1), LATER), Err(Error::Lapsed { id: LeaseId(1) })));
    assert!(Lease { file: path, id: LeaseId(1) }.deadline().expect_err("ended").contains("lease 1"));
}

#[test]
fn what_is_no_lease_file_is_refused_and_left_alone() {
    let (_dir, path) = place();
    for content in [&b""[..], b"HOLMLEAS", &[0; 64], &[0xff; 200]] {
        std::fs::write(&path, content).expect("written");
        assert!(matches!(LeaseFile::open_or_create(&path), Err(Error::Foreign { .. })));
        assert_eq!(std::fs::read(&path).expect("left"), content);
    }
    let missing = path.with_file_name("none");
    assert!(matches!(LeaseView::open(&missing), Err(Error::Io { .. })));
}

#[test]
fn it_knows_whether_it_lies_in_memory() {
    let (_dir, path) = place();
    let file = LeaseFile::open_or_create(&path).expect("made");
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("mounts");
    let memory = |dir: &str| mounts.lines().any(|line| line.contains(&format!(" {dir} tmpfs ")));
    if memory("/dev/shm") {
        let shm = tempfile::tempdir_in("/dev/shm").expect("temporary directory");
        let file = LeaseFile::open_or_create(&shm.path().join("lease")).expect("made");
        assert!(file.is_in_memory());
    }
    if !memory("/tmp") && std::env::temp_dir() == Path::new("/tmp") {
        assert!(!file.is_in_memory());
    }
}

/// The pair a reader sees is never a new deadline under an old id, however the two run against each other.
#[test]
fn a_new_deadline_is_never_seen_under_an_old_id() {
    let (_dir, path) = place();
    let file = LeaseFile::open_or_create(&path).expect("made");
    let view = LeaseView::open(&path).expect("mapped");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Lease n lasts until LATER + n.
            for n in 1..=200_000 {
                file.grant(LeaseId(n), LATER + n).expect("granted");
            }
        });
        loop {
            if let Some((id, deadline)) = view.map.current() {
                assert!(id.0 >= deadline.saturating_sub(LATER), "lease {id} seems to last until {deadline}");
                if id.0 == 200_000 {
                    break;
                }
            }
        }
    });
}

#[test]
fn a_lease_is_shortened_only_when_that_is_asked_for_and_only_the_one_in_force() {
    let (_dir, path) = place();
    let file = LeaseFile::open_or_create(&path).expect("made");
    file.grant(LeaseId(7), LATER).expect("granted");
    file.grant(LeaseId(7), LATER - 5).expect("granted");
    assert_eq!(file.current(), Some((LeaseId(7), LATER)), "a late grant shortens nothing");
    file.shorten(LeaseId(6), LATER - 5);
    assert_eq!(file.current(), Some((LeaseId(7), LATER)), "another lease");
    file.shorten(LeaseId(7), LATER - 5);
    file.shorten(LeaseId(7), LATER);
    assert_eq!(file.current(), Some((LeaseId(7), LATER - 5)));
    file.grant(LeaseId(7), LATER - 1).expect("renewed");
    assert_eq!(file.current(), Some((LeaseId(7), LATER - 1)), "renewals go on from there");
}
