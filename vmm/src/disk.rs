//! Root disks: a sparse copy of an image, grown to the size the flavor gives, or a blank one. A disk
//! appears under its name only when it is whole and on disk, and is never replaced.
//!
//! A start that is given up leaves its copy running. Each copy has a file of its own, and goes on only while
//! that file is there: the next copy, a new epoch and a removal take it away.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::disk_floor::{self, Shortage};
use crate::durable;
use crate::hypervisor::DiskFormat;

/// What is copied between two looks at the free space.
const STEP_BYTES: u64 = 64 << 20;

/// Why there is no disk.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The flavor's disk is smaller than the image.
    #[error(
        "the image holds a disk of {image_bytes} bytes, the flavor gives {disk_gib} GiB: use a larger flavor"
    )]
    TooSmall { image_bytes: u64, disk_gib: u64 },
    /// Only tables that have room are grown.
    #[error(
        "this qcow2 image cannot be grown to {disk_gib} GiB, its table ends at {limit_bytes} bytes: convert it to raw"
    )]
    TableFull { disk_gib: u64, limit_bytes: u64 },
    /// It is not what it was imported as.
    #[error("the image is not a qcow2 file")]
    NotQcow2,
    /// There is no room.
    #[error(transparent)]
    NoSpace(#[from] Shortage),
    /// The VM was removed or started anew while its disk was being made.
    #[error("another start of the VM makes its root disk, or the VM is gone")]
    Superseded,
    /// A file operation failed.
    #[error("the root disk cannot be made")]
    Io(#[from] io::Error),
}

/// Makes a sparse blank raw disk at `target`.
pub fn blank(target: &Path, disk_gib: u64) -> Result<(), Error> {
    build(target, |file| Ok(file.set_len(disk_gib << 30)?))
}

/// Copies the image at `source` to `target` and grows it to `disk_gib`; 0 keeps the image's size.
pub fn from_image(source: &Path, format: DiskFormat, target: &Path, disk_gib: u64) -> Result<(), Error> {
    build(target, |file| {
        copy_sparse(&File::open(source)?, file, target)?;
        match format {
            DiskFormat::Raw => grow_raw(file, disk_gib),
            DiskFormat::Qcow2 => grow_qcow2(file, disk_gib),
        }
    })
}

/// Removes what copies that ended early left, and ends those that still go on.
pub fn remove_unfinished(target: &Path) -> io::Result<()> {
    let Some(prefix) = unfinished(target) else { return Ok(()) };
    for entry in std::fs::read_dir(parent(target))? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix)) {
            match std::fs::remove_file(entry.path()) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                Ok(()) | Err(_) => {}
            }
        }
    }
    Ok(())
}

/// What the names of unfinished copies of `target` begin with.
fn unfinished(target: &Path) -> Option<String> {
    Some(format!("{}.tmp", target.file_stem()?.to_str()?))
}

fn build(target: &Path, fill: impl FnOnce(&mut File) -> Result<(), Error>) -> Result<(), Error> {
    static COPIES: AtomicU64 = AtomicU64::new(0);
    disk_floor::admit(parent(target), 0)?;
    remove_unfinished(target)?;
    let copy = COPIES.fetch_add(1, Ordering::Relaxed);
    let temporary = target.with_extension(format!("tmp-{}-{copy}", std::process::id()));
    let outcome = (|| {
        let mut file =
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&temporary)?;
        fill(&mut file)?;
        file.sync_all()?;
        // A link never replaces a disk that another copy made meanwhile: a guest may have written to it.
        match std::fs::hard_link(&temporary, target) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(Error::Superseded),
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e.into()),
            Ok(()) | Err(_) => {}
        }
        durable::sync_parent(target)?;
        Ok(())
    })();
    let _ = std::fs::remove_file(&temporary);
    outcome.map_err(|error| match error {
        Error::Io(e) if matches!(e.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
            Error::NoSpace(Shortage::found(parent(target)))
        }
        other => other,
    })
}

fn parent(target: &Path) -> &Path {
    target.parent().unwrap_or(target)
}

/// Shares the blocks where the file system can, else copies what is not a hole, as far as there is room in
/// the directory of `path`.
fn copy_sparse(source: &File, target: &mut File, path: &Path) -> Result<(), Error> {
    // SAFETY: both descriptors are open; the call changes `target` as a whole or not at all.
    if unsafe { libc::ioctl(target.as_raw_fd(), libc::FICLONE, source.as_raw_fd()) } == 0 {
        return Ok(());
    }
    let meta = source.metadata()?;
    // In blocks of 512 bytes, whatever the file system's are.
    disk_floor::admit(parent(path), meta.blocks() * 512)?;
    let len = meta.len();
    target.set_len(len)?;
    let mut reader = source;
    let mut at = 0;
    while let Some((start, data_end)) = next_data(source, at, len)? {
        let end = data_end.min(start + STEP_BYTES);
        disk_floor::admit(parent(path), end - start)?;
        if target.metadata()?.nlink() == 0 {
            return Err(Error::Superseded);
        }
        reader.seek(SeekFrom::Start(start))?;
        target.seek(SeekFrom::Start(start))?;
        io::copy(&mut reader.take(end - start), target)?;
        at = end;
    }
    Ok(())
}

/// The next range of `file` at or after `at` that is no hole.
fn next_data(file: &File, at: u64, len: u64) -> io::Result<Option<(u64, u64)>> {
    let seek = |from: u64, whence| {
        // SAFETY: the descriptor is open.
        let found = unsafe { libc::lseek(file.as_raw_fd(), from as libc::off_t, whence) };
        if found < 0 { Err(io::Error::last_os_error()) } else { Ok(found as u64) }
    };
    if at >= len {
        return Ok(None);
    }
    match seek(at, libc::SEEK_DATA) {
        Ok(start) => Ok(Some((start, seek(start, libc::SEEK_HOLE)?))),
        Err(e) if e.raw_os_error() == Some(libc::ENXIO) => Ok(None),
        // A file system without holes.
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => Ok(Some((at, len))),
        Err(e) => Err(e),
    }
}

fn grow_raw(file: &File, disk_gib: u64) -> Result<(), Error> {
    let image_bytes = file.metadata()?.len();
    let bytes = disk_gib << 30;
    match disk_gib {
        0 => Ok(()),
        _ if bytes < image_bytes => Err(Error::TooSmall { image_bytes, disk_gib }),
        _ => Ok(file.set_len(bytes)?),
    }
}

/// Raises the virtual size in the header. One entry of the first-level table covers 512 MiB with the usual
/// clusters, and the table has at least a cluster, so there is room for 4 TiB.
fn grow_qcow2(file: &mut File, disk_gib: u64) -> Result<(), Error> {
    let mut header = [0; 80];
    file.read_exact_at(&mut header, 0).map_err(|_| Error::NotQcow2)?;
    let be32 = |at: usize| {
        u64::from(u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]))
    };
    let be64 = |at: usize| be32(at) << 32 | be32(at + 4);
    let cluster_bits = be32(20);
    if &header[..4] != b"QFI\xfb" || !(9..=21).contains(&cluster_bits) {
        return Err(Error::NotQcow2);
    }
    let (image_bytes, l1_entries, l1_at) = (be64(24), be32(36), be64(40));
    let bytes = disk_gib << 30;
    if disk_gib == 0 || bytes == image_bytes {
        return Ok(());
    }
    if bytes < image_bytes {
        return Err(Error::TooSmall { image_bytes, disk_gib });
    }
    let cluster = 1u64 << cluster_bits;
    // Bit 4 of the incompatible features: entries of the second level are twice as long.
    let extended = be32(4) >= 3 && be64(72) & (1 << 4) != 0;
    let entry_covers = cluster * (cluster / if extended { 16 } else { 8 });
    let needed = bytes.div_ceil(entry_covers);
    let room = (l1_entries * 8).next_multiple_of(cluster) / 8;
    if needed > room {
        return Err(Error::TableFull { disk_gib, limit_bytes: room * entry_covers });
    }
    if needed > l1_entries {
        let zeros = vec![0; ((needed - l1_entries) * 8) as usize];
        file.write_all_at(&zeros, l1_at + l1_entries * 8)?;
        file.write_all_at(&(needed as u32).to_be_bytes(), 36)?;
    }
    file.write_all_at(&bytes.to_be_bytes(), 24)?;
    Ok(file.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_keeps_holes_and_content_and_is_grown() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let source = dir.path().join("image");
        let file = File::create(&source).expect("image");
        file.set_len(64 << 20).expect("sparse");
        file.write_all_at(b"start", 0).expect("start");
        file.write_all_at(b"middle", 40 << 20).expect("middle");
        let target = dir.path().join("root.img");
        from_image(&source, DiskFormat::Raw, &target, 1).expect("copied");
        let copy = File::open(&target).expect("copy");
        let mut middle = [0; 6];
        copy.read_exact_at(&mut middle, 40 << 20).expect("read");
        assert_eq!(&middle, b"middle");
        let meta = copy.metadata().expect("metadata");
        assert_eq!(meta.len(), 1 << 30);
        assert!(meta.blocks() * 512 < 1 << 20, "{} blocks", meta.blocks());
    }

    #[test]
    fn an_image_larger_than_the_flavor_is_refused_and_leaves_nothing() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let source = dir.path().join("image");
        File::create(&source).expect("image").set_len(2 << 30).expect("sparse");
        let target = dir.path().join("root.img");
        let error = from_image(&source, DiskFormat::Raw, &target, 1).expect_err("too small");
        assert!(matches!(error, Error::TooSmall { image_bytes: 2147483648, disk_gib: 1 }), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).expect("list").count(), 1);
    }

    #[test]
    fn a_copy_of_a_start_given_up_neither_spoils_nor_replaces_the_next_one() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let target = dir.path().join("root.img");
        let content = |content: &'static [u8]| move |file: &mut File| Ok(file.write_all(content)?);
        let given_up = build(&target, |file| {
            file.write_all(b"half of the fi")?;
            build(&target, content(b"second"))?;
            Ok(file.write_all(b"rst")?)
        });
        assert!(matches!(given_up, Err(Error::Superseded)), "{given_up:?}");
        assert_eq!(std::fs::read(&target).expect("disk"), b"second");
        assert_eq!(std::fs::read_dir(dir.path()).expect("list").count(), 1);
    }

    #[test]
    fn what_a_crash_left_of_a_copy_goes_with_the_next_one() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let target = dir.path().join("root.img");
        std::fs::write(dir.path().join("root.tmp-1-0"), b"half").expect("left over");
        std::fs::write(dir.path().join("root.tmp"), b"half").expect("left over by an older version");
        blank(&target, 1).expect("made");
        let names: Vec<_> = std::fs::read_dir(dir.path()).expect("list").flatten().collect();
        assert_eq!(names.iter().map(|entry| entry.file_name()).collect::<Vec<_>>(), ["root.img"]);
    }

    #[test]
    fn a_copy_leaves_the_log_its_room() {
        use nix::mount::{MntFlags, MsFlags, mount, umount2};
        struct Unmount<'a>(&'a Path);
        impl Drop for Unmount<'_> {
            fn drop(&mut self) {
                let _ = umount2(self.0, MntFlags::MNT_DETACH);
            }
        }
        let dir = tempfile::tempdir().expect("temporary directory");
        let (source, small) = (dir.path().join("image"), dir.path().join("small"));
        std::fs::write(&source, vec![7; 950 << 10]).expect("image");
        std::fs::create_dir(&small).expect("directory");
        if let Err(e) = mount(Some("none"), &small, Some("tmpfs"), MsFlags::empty(), Some("size=1m")) {
            // Past libtest's capture, which hides what passing tests print.
            drop(std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!("SKIPPED: a copy leaves the log its room: cannot mount a small tmpfs: {e}\n"),
            ));
            return;
        }
        let _unmount = Unmount(&small);
        let error = from_image(&source, DiskFormat::Raw, &small.join("root.img"), 1).expect_err("refused");
        assert!(matches!(&error, Error::NoSpace(short) if short.floor_bytes == 104_857), "{error}");
        assert_eq!(std::fs::read_dir(&small).expect("list").count(), 0);
    }

    fn qcow2(size: u64, l1_entries: u32) -> Vec<u8> {
        let mut image = vec![0; 3 << 16];
        image[..4].copy_from_slice(b"QFI\xfb");
        image[4..8].copy_from_slice(&3u32.to_be_bytes());
        image[20..24].copy_from_slice(&16u32.to_be_bytes());
        image[24..32].copy_from_slice(&size.to_be_bytes());
        image[36..40].copy_from_slice(&l1_entries.to_be_bytes());
        image[40..48].copy_from_slice(&(1u64 << 16).to_be_bytes());
        image
    }

    #[test]
    fn a_qcow2_grows_within_its_table_and_not_beyond() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let source = dir.path().join("image");
        std::fs::write(&source, qcow2(1 << 30, 2)).expect("image");
        let target = dir.path().join("root.img");
        from_image(&source, DiskFormat::Qcow2, &target, 10).expect("grown");
        let grown = std::fs::read(&target).expect("read");
        assert_eq!(&grown[24..32], (10u64 << 30).to_be_bytes());
        assert_eq!(&grown[36..40], 20u32.to_be_bytes());
        let error = from_image(&source, DiskFormat::Qcow2, &target, 5000).expect_err("beyond");
        assert!(matches!(error, Error::TableFull { .. }), "{error}");
    }
}
