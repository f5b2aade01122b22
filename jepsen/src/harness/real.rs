//! What a test with real guests needs of its host, and the processes it watches there: the operating system
//! is asked, never the daemon.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cluster::Cluster;
use super::process::{self, Process};

/// Name of the VMM's program.
pub const VMM: &str = "cloud-hypervisor";

/// Why real guests cannot run here, if they cannot.
pub fn obstacle() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("needs root".to_owned());
    }
    if vmm_program().is_none() {
        return Some(format!("{VMM} is not on PATH"));
    }
    let kvm = OpenOptions::new().read(true).write(true).open("/dev/kvm");
    kvm.err().map(|error| format!("/dev/kvm cannot be used: {error}"))
}

/// Whether `test` must be skipped, which it then says in one visible line.
pub fn skipped(test: &str) -> bool {
    match obstacle() {
        Some(why) => {
            // Past libtest's capture, which hides what passing tests print.
            drop(std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("SKIPPED: {test}: {why}\n")));
            true
        }
        None => false,
    }
}

/// Where the VMM is.
pub fn vmm_program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(VMM)).find(|file| file.is_file())
}

/// `PATH` that finds a script of ours instead of the VMM, which is put into `dir`.
///
/// # Errors
/// When the script cannot be written.
pub fn path_with_stand_in(dir: &Path, script: &str) -> std::io::Result<String> {
    std::fs::create_dir_all(dir)?;
    let (draft, file) = (dir.join("draft"), dir.join(VMM));
    std::fs::write(&draft, script)?;
    // A descriptor that is open for writing here is copied into what others fork meanwhile, and until that begins the
    // script is busy.
    let installed = Command::new("install").args(["-m", "755"]).arg(draft).arg(file).status()?;
    if !installed.success() {
        return Err(std::io::Error::other("`install` failed"));
    }
    Ok(format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", dir.display()))
}

impl Cluster {
    /// The VMMs that run for this cluster.
    pub fn vmms(&self) -> Vec<Process> {
        let is_vmm = |process: &Process| {
            let exe = std::fs::read_link(format!("/proc/{}/exe", process.pid)).unwrap_or_default();
            exe.file_name().is_some_and(|name| name == VMM)
        };
        process::of_folder(self.scratch.path()).into_iter().filter(is_vmm).collect()
    }
}
