//! The space that images and root disks leave free. They share a file system with the log of the cluster:
//! one that is full ends the daemon, and an image goes to every node. So whoever writes what a user sends
//! asks here first, and is refused while the log still has room.

use std::path::Path;

use crate::host::{self, DiskSpace};

/// Kept free, unless [`SHARE`] of the file system is less.
const FLOOR_BYTES: u64 = 10 << 30;
/// One part in this many of the file system, for small ones.
const SHARE: u64 = 10;

/// There is less free space than is needed above the floor. In bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no space left: {needed_bytes} bytes are needed and {free_bytes} are free, of which {floor_bytes} are kept for the cluster's log: delete VMs or images on this node, or enlarge its disk"
)]
pub struct Shortage {
    pub needed_bytes: u64,
    pub free_bytes: u64,
    pub floor_bytes: u64,
}

impl Shortage {
    /// The file system of `dir` turned out to be full.
    pub(crate) fn found(dir: &Path) -> Self {
        let space = host::disk_space(dir).unwrap_or(DiskSpace { total_bytes: 0, free_bytes: 0 });
        Self { needed_bytes: 0, free_bytes: space.free_bytes, floor_bytes: floor(space) }
    }
}

/// Whether `needed_bytes` more leave enough free where `dir` is. Where that cannot be told the write itself
/// tells.
pub(crate) fn admit(dir: &Path, needed_bytes: u64) -> Result<(), Shortage> {
    host::disk_space(dir).map_or(Ok(()), |space| judge(space, needed_bytes))
}

fn judge(space: DiskSpace, needed_bytes: u64) -> Result<(), Shortage> {
    let (free_bytes, floor_bytes) = (space.free_bytes, floor(space));
    match free_bytes.checked_sub(needed_bytes) {
        Some(rest) if rest >= floor_bytes => Ok(()),
        _ => Err(Shortage { needed_bytes, free_bytes, floor_bytes }),
    }
}

fn floor(space: DiskSpace) -> u64 {
    FLOOR_BYTES.min(space.total_bytes / SHARE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_is_ten_gib_or_a_tenth_of_a_small_file_system() {
        let gib = |n: u64| n << 30;
        let space = |total_bytes, free_bytes| DiskSpace { total_bytes, free_bytes };
        for (space, needed_bytes, floor_bytes, fits) in [
            (space(gib(200), gib(100)), gib(90), gib(10), true),
            (space(gib(200), gib(100)), gib(90) + 1, gib(10), false),
            (space(gib(200), gib(100)), gib(500), gib(10), false),
            (space(gib(200), gib(9)), 0, gib(10), false),
            (space(1000, 500), 400, 100, true),
            (space(1000, 500), 401, 100, false),
        ] {
            let refused = Shortage { needed_bytes, free_bytes: space.free_bytes, floor_bytes };
            let expected = if fits { Ok(()) } else { Err(refused) };
            assert_eq!(judge(space, needed_bytes), expected);
        }
    }
}
