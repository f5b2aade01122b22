//! A shared volume's lock on a disk that enforces it: does the disk itself refuse the writer of an older epoch?
//!
//! Linux has such a disk: its SCSI target (LIO). It needs modules that a build machine seldom has, so it runs in an
//! emulated machine (QEMU without acceleration), and offers the disk by iSCSI to a second one, which has it twice,
//! through two initiators, as two hosts would. This very program is the only process in both. With a kernel package
//! installed, or unpacked below `HOLM_GUEST_ROOT`, it takes a minute; otherwise one line says SKIPPED.

mod guest;
mod host;
mod initramfs;
mod target;

fn main() {
    if std::process::id() == 1 {
        guest::main();
    }
    // Cargo's own harness would look at these; this is one test.
    let filters: Vec<_> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    if filters.is_empty() || filters.iter().any(|filter| host::NAME.contains(filter.as_str())) {
        host::main();
    }
}
