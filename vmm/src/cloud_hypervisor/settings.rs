//! What the driver needs to know of its host. Several daemons on one machine differ in `vm_dir` and
//! `run_dir` and share nothing.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Settings of [`CloudHypervisor`](super::CloudHypervisor).
#[derive(Clone, Debug)]
pub struct Settings {
    /// One directory per VM, on disk.
    pub vm_dir: PathBuf,
    /// One directory of sockets per VM; on tmpfs, and short: a socket's path has 107 bytes at most.
    pub run_dir: PathBuf,
    /// How to start a shim.
    pub shim: ShimCommand,
    /// The VMM; found on `PATH` when absent.
    pub vmm_binary: Option<PathBuf>,
    /// Boots disk images that come without a kernel.
    pub firmware: Option<PathBuf>,
    /// Whom the VMM runs as; the daemon's own user when absent.
    pub vmm_user: Option<VmmUser>,
}

/// A program that calls [`shim::main`](crate::shim::main) with the arguments after `args`.
#[derive(Clone, Debug)]
pub struct ShimCommand {
    pub exe: PathBuf,
    /// For the daemon that re-executes itself: `["shim"]`.
    pub args: Vec<OsString>,
}

/// A user of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmmUser {
    pub uid: u32,
    pub gid: u32,
}
