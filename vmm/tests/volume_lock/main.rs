//! A shared volume's lock on a disk that enforces it: does the disk itself refuse the writer of an older epoch?
//!
//! Linux has such a disk: its SCSI target (LIO), looped back twice, so that one disk is seen through two initiators
//! as if by two hosts. It needs modules that a build machine seldom has, so it runs in an emulated machine (QEMU
//! without acceleration), in which this very program is the only process. With a kernel package installed, or
//! unpacked below `HOLM_GUEST_ROOT`, it takes a minute; otherwise one line says SKIPPED.

mod guest;
mod host;
mod initramfs;

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
