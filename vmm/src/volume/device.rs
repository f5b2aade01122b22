//! What a volume's path leads to on this host, and whether it can be what the volume says.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::Error;
use super::scsi::Disk;
use crate::cloud_hypervisor::settings::VmmUser;

/// Where Linux describes block devices by their numbers.
const BLOCK_DEVICES: &str = "/sys/dev/block";

/// A volume's storage, opened.
pub struct Device {
    path: PathBuf,
    file: File,
    meta: Metadata,
}

impl Device {
    /// Opens the storage at `path`. A disk that something else on this host has for itself is refused to a writer:
    /// what is mounted here must not be written to by a guest.
    pub fn open(path: &Path, read_only: bool) -> Result<Self, Error> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => Error::Missing { path: path.to_owned() },
            io::ErrorKind::ResourceBusy => Error::Busy { path: path.to_owned() },
            _ => Error::Open { path: path.to_owned(), source },
        };
        let meta = std::fs::metadata(path).map_err(failed)?;
        let kind = meta.file_type();
        if !kind.is_block_device() && !kind.is_file() {
            return Err(Error::NoStorage { path: path.to_owned() });
        }
        // Of a block device, O_EXCL without O_CREAT asks that nobody else claims it; of a file it means nothing.
        let flags = if kind.is_block_device() && !read_only { libc::O_EXCL } else { 0 };
        let file = OpenOptions::new().read(true).write(!read_only).custom_flags(flags).open(path);
        Ok(Self { path: path.to_owned(), file: file.map_err(failed)?, meta })
    }

    /// Lets Cloud Hypervisor's user open it. A disk is given to that user; a file stays whose it is, and must be
    /// open to it already: a path that leads to a file of the host's own must not change the file's owner.
    pub fn give(&self, user: VmmUser, read_only: bool) -> Result<(), Error> {
        if self.meta.file_type().is_block_device() {
            let given = chown(&self.path, Some(user.uid), Some(user.gid));
            return given.map_err(|source| Error::Give { path: self.path.clone(), source });
        }
        if is_open_to(&self.meta, user, read_only) {
            Ok(())
        } else {
            Err(Error::Forbidden { path: self.path.clone(), uid: user.uid })
        }
    }

    /// The disk, if reservations of it can mean what they should. A reservation is of the whole disk, through
    /// the one path by which it was made: so no partition, and nothing that the device mapper makes of disks.
    /// It answers until `until`.
    pub fn reservable(&self, until: Instant) -> Result<Disk<'_>, Error> {
        match unfit(&self.meta, Path::new(BLOCK_DEVICES)) {
            Some(what) => Err(Error::NotReservable { path: self.path.clone(), what }),
            None => Ok(Disk::new(&self.file, until)),
        }
    }
}

/// What it is, if reservations of it mean nothing.
fn unfit(meta: &Metadata, block_devices: &Path) -> Option<&'static str> {
    if !meta.file_type().is_block_device() {
        return Some("a file");
    }
    let (major, minor) = (libc::major(meta.rdev()), libc::minor(meta.rdev()));
    unfit_block_device(&block_devices.join(format!("{major}:{minor}")))
}

fn unfit_block_device(described: &Path) -> Option<&'static str> {
    let subsystem = std::fs::read_link(described.join("device/subsystem"));
    let of_scsi = subsystem.is_ok_and(|link| link.file_name().is_some_and(|name| name == "scsi"));
    if described.join("partition").exists() {
        Some("a partition")
    } else if described.join("dm").exists() {
        Some("made by the device mapper (LVM, multipath, encryption)")
    } else if of_scsi {
        None
    } else {
        Some("no SCSI disk (NVMe is not supported yet)")
    }
}

/// By owner, group and others, as the kernel decides for a user without supplementary groups.
fn is_open_to(meta: &Metadata, user: VmmUser, read_only: bool) -> bool {
    let wanted = if read_only { 0o4 } else { 0o6 };
    let granted = if meta.uid() == user.uid {
        meta.mode() >> 6
    } else if meta.gid() == user.gid {
        meta.mode() >> 3
    } else {
        meta.mode()
    };
    granted & wanted == wanted
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn file(dir: &Path, mode: u32) -> PathBuf {
        let path = dir.join(format!("{mode:o}"));
        std::fs::write(&path, b"data").expect("file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("mode");
        path
    }

    #[test]
    fn what_is_no_storage_is_refused_by_name() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let refused = |path: &Path| Device::open(path, true).map(|_| ()).expect_err("refused").to_string();
        assert!(refused(&dir.path().join("none")).contains("connect the storage"));
        assert!(refused(dir.path()).contains("neither a disk nor a file"));
        assert!(refused(Path::new("/dev/null")).contains("neither a disk nor a file"));
    }

    #[test]
    fn a_file_keeps_its_owner_and_must_be_open_to_the_user() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let stranger = VmmUser { uid: 64_999, gid: 64_999 };
        for (mode, read_only, open) in
            [(0o600, false, false), (0o644, true, true), (0o644, false, false), (0o666, false, true)]
        {
            let path = file(dir.path(), mode);
            let owner = std::fs::metadata(&path).expect("metadata").uid();
            let device = Device::open(&path, read_only).expect("opened");
            assert_eq!(device.give(stranger, read_only).is_ok(), open, "{mode:o}, read-only {read_only}");
            assert_eq!(std::fs::metadata(&path).expect("metadata").uid(), owner);
        }
    }

    #[test]
    fn reservations_are_of_whole_scsi_disks_only() {
        let sysfs = tempfile::tempdir().expect("temporary directory");
        let described = |name: &str, subsystem: Option<&str>, has: &[&str]| {
            let path = sysfs.path().join(name);
            std::fs::create_dir_all(path.join("device")).expect("directory");
            if let Some(subsystem) = subsystem {
                symlink(format!("../../bus/{subsystem}"), path.join("device/subsystem")).expect("link");
            }
            for name in has {
                std::fs::create_dir_all(path.join(name)).expect("directory");
            }
            unfit_block_device(&path)
        };
        assert_eq!(described("8:0", Some("scsi"), &[]), None);
        assert_eq!(described("8:1", Some("scsi"), &["partition"]), Some("a partition"));
        assert!(described("253:0", None, &["dm"]).is_some_and(|what| what.contains("device mapper")));
        assert!(described("259:0", Some("nvme"), &[]).is_some_and(|what| what.contains("NVMe")));
        assert!(described("7:0", None, &[]).is_some_and(|what| what.contains("no SCSI disk")));
        let dir = tempfile::tempdir().expect("temporary directory");
        let device = Device::open(&file(dir.path(), 0o600), false).expect("opened");
        let refusal = device.reservable(Instant::now()).map(|_| ()).expect_err("a file").to_string();
        assert!(
            refusal.contains("is a file: `lock: persistent-reservation` needs a whole SCSI disk"),
            "{refusal}"
        );
    }
}
