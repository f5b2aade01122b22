//! A file system: its room by `statvfs`, and whether it answers, by a thread that writes a little from time to time
//! and may hang there.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use nix::sys::statvfs::{FsFlags, statvfs};

use super::facts::Space;

/// A write that takes longer hangs. Flash that tidies up takes a second or two.
pub const HUNG: Duration = Duration::from_secs(3);
/// Time between two writes.
const PERIOD: Duration = Duration::from_secs(5);
const FILE: &str = ".probe";

/// Room of the file system of `dir`.
///
/// # Errors
/// When it cannot be told.
pub fn space(dir: &Path) -> io::Result<Space> {
    let stat = statvfs(dir)?;
    let block = stat.fragment_size();
    Ok(Space {
        total_bytes: stat.blocks().saturating_mul(block),
        free_bytes: stat.blocks_available().saturating_mul(block),
        inodes: stat.files(),
        free_inodes: stat.files_available(),
        is_read_only: stat.flags().contains(FsFlags::ST_RDONLY),
    })
}

/// Whether both lie on one file system; assumed where it cannot be told.
pub fn is_same(a: &Path, b: &Path) -> bool {
    let device = |path: &Path| path.metadata().map(|file| file.dev()).ok();
    match (device(a), device(b)) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    }
}

/// Writes to a directory now and then, on a thread of its own; ends when dropped, or when its disk lets it.
#[derive(Debug)]
pub struct Prober(Arc<Mutex<Option<Instant>>>);

impl Prober {
    pub fn start(dir: PathBuf) -> io::Result<Self> {
        let since = Arc::new(Mutex::new(None));
        let shared = Arc::downgrade(&since);
        std::thread::Builder::new().name("disk probe".to_owned()).spawn(move || run(&dir, &shared))?;
        Ok(Self(since))
    }

    pub fn is_hung(&self) -> bool {
        let since = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        since.is_some_and(|since| since.elapsed() >= HUNG)
    }
}

fn run(dir: &Path, since: &Weak<Mutex<Option<Instant>>>) {
    let mark = |at| match since.upgrade() {
        Some(since) => {
            *since.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = at;
            true
        }
        None => false,
    };
    while mark(Some(Instant::now())) {
        // What fails is told by the file system's own facts; here only a write that does not end counts.
        let written = write(dir);
        tracing::trace!(?written, dir = %dir.display(), "disk probe");
        if !mark(None) {
            return;
        }
        std::thread::sleep(PERIOD);
    }
}

/// One block in place.
fn write(dir: &Path) -> io::Result<()> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(dir.join(FILE))?;
    file.write_all_at(&[0; 4096], 0)?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_room_and_takes_a_probe() {
        let dir = tempfile::tempdir().unwrap();
        let space = space(dir.path()).unwrap();
        assert!(space.total_bytes > 0 && !space.is_read_only);
        write(dir.path()).unwrap();
        assert!(is_same(dir.path(), &dir.path().join(FILE)));
        assert!(!is_same(dir.path(), Path::new("/proc")));
        assert!(super::space(Path::new("/nonexistent")).is_err());
    }

    #[test]
    fn a_probe_that_ended_does_not_hang() {
        let dir = tempfile::tempdir().unwrap();
        let prober = Prober::start(dir.path().to_owned()).unwrap();
        let begun = Instant::now();
        while !dir.path().join(FILE).exists() {
            assert!(begun.elapsed() < Duration::from_secs(30), "no probe was written");
            std::thread::yield_now();
        }
        assert!(!prober.is_hung());
    }

    #[test]
    fn a_file_system_that_takes_no_writes_says_so() {
        use nix::mount::{MntFlags, MsFlags, mount, umount2};
        let name = "a_file_system_that_takes_no_writes_says_so";
        let dir = tempfile::tempdir().unwrap();
        let mounted = mount(Some("holm"), dir.path(), Some("tmpfs"), MsFlags::MS_RDONLY, None::<&str>);
        if let Err(error) = mounted {
            let skipped = format_args!("SKIPPED: {name}: cannot mount a tmpfs: {error}\n");
            drop(std::io::Write::write_fmt(&mut std::io::stderr(), skipped));
            return;
        }
        let found = space(dir.path());
        umount2(dir.path(), MntFlags::MNT_DETACH).unwrap();
        assert!(found.unwrap().is_read_only);
    }
}
