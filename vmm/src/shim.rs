//! The shim: one small process for each running VM. It parents the Cloud Hypervisor process, drives its
//! start from `spec.json`, holds the guest's console, tells the daemon how things are and writes down how
//! they ended. It outlives the daemon, and its VMM never outlives it.
//!
//! One thread and one `poll` loop: nothing in it waits for anything but that poll, so a stuck API, console
//! reader, disk or daemon holds up nothing. The daemon may be killed and replaced at any moment.

mod arming;
mod begin;
mod bounded_log;
pub(crate) mod cgroup;
pub mod client;
mod console;
mod control;
mod ending;
mod lease_guard;
mod outlet;
mod poll;
pub mod protocol;
mod reset_counter;
mod run;
mod scribe;
pub mod setup;
mod vmm_log;

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use self::cgroup::{Fork, Group};
use self::setup::Args;
use crate::cloud_hypervisor::config::RunSpec;
use crate::durable;
use crate::vm_dir::{SharedLock, VmDir};
use crate::{host, last_run, volume};

pub use setup::missing_protection;

pub(crate) use bounded_log::{BoundedLog, previous as previous_log};

/// Names of the sockets in a VM's run directory.
pub const CONTROL_SOCKET: &str = "shim.sock";
/// See [`CONTROL_SOCKET`].
pub const CONSOLE_SOCKET: &str = "console.sock";
/// See [`CONTROL_SOCKET`].
pub const API_SOCKET: &str = "api.sock";

/// What the shim says over the pipe when all is well.
const READY: &[u8] = b"ready";

/// Exit status of a shim whose lease does not live.
pub const EXIT_NO_LEASE: i32 = 3;
/// Exit status of a shim that found another one at work on its VM: how that one fares is to be looked at.
pub const EXIT_BUSY: i32 = 4;
/// Exit status of a shim whose VM needs something that is not there now.
pub const EXIT_NOT_YET: i32 = 5;
/// How the forked process begins the refusal of [`EXIT_NO_LEASE`].
const NO_LEASE: &str = "no lease: ";

/// Why a shim did not start. Shown to the operator by the daemon.
enum Refusal {
    NoLease(String),
    Busy(String),
    NotYet(String),
    Other(String),
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

impl Refusal {
    /// As the forked process tells it.
    fn to_line(&self) -> String {
        match self {
            Refusal::NoLease(why) => format!("{NO_LEASE}{why}"),
            Refusal::Busy(why) | Refusal::NotYet(why) | Refusal::Other(why) => why.clone(),
        }
    }

    fn of_line(line: &str) -> Self {
        match line.strip_prefix(NO_LEASE) {
            Some(why) => Refusal::NoLease(why.to_owned()),
            None => Refusal::Other(line.to_owned()),
        }
    }
}

/// Everything a shim holds before it forks.
struct Prepared {
    dir: VmDir,
    spec: RunSpec,
    lock: SharedLock,
    api: UnixListener,
    control: UnixListener,
    console: UnixListener,
    run_dir: std::path::PathBuf,
}

/// Starts the shim for one run of one VM; `args` are those after the subcommand. The process that calls
/// this ends with 0 once the VMM was forked, else with the reason on standard error and one of the `EXIT_`s or
/// 1; the shim itself lives on as another process. Must be called while this process has one thread.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ! {
    setup::close_inherited();
    let outcome = Args::parse(args).map_err(Refusal::from).and_then(prepare).and_then(fork);
    let (why, status) = match outcome {
        Ok(()) => std::process::exit(0),
        Err(Refusal::NoLease(why)) => (why, EXIT_NO_LEASE),
        Err(Refusal::Busy(why)) => (why, EXIT_BUSY),
        Err(Refusal::NotYet(why)) => (why, EXIT_NOT_YET),
        Err(Refusal::Other(why)) => (why, 1),
    };
    let _ = writeln!(std::io::stderr(), "{why}");
    std::process::exit(status)
}

/// Takes the VM's lock, checks that this run may begin, and binds the sockets.
fn prepare(args: Args) -> Result<Prepared, Refusal> {
    let dir = VmDir::at(args.dir);
    let unreadable = |e: std::io::Error| format!("{} cannot be used: {e}", dir.path().display());
    let lock = dir
        .lock()
        .map_err(unreadable)?
        .ok_or_else(|| Refusal::Busy("this VM has a shim or a VMM running already".to_owned()))?
        .share();
    let spec: RunSpec = durable::read_json(&dir.file("spec.json"))
        .map_err(unreadable)?
        .ok_or_else(|| format!("{} has no spec.json", dir.path().display()))?;
    let boot = host::boot_id().map_err(|e| format!("this host has no boot id: {e}"))?;
    let mark = dir.epoch().map_err(unreadable)?.filter(|mark| mark.epoch == spec.start.epoch);
    let Some(mark) = mark else {
        return Err(format!("epoch {} is not the one of {}", spec.start.epoch, dir.path().display()).into());
    };
    // A daemon that was started since saw nothing of this run, and may have told the cluster so (FENCING.md, rule 12).
    if mark.bound && spec.start.lease.is_none() {
        return Err("this VM may run under a lease only by now".to_owned().into());
    }
    // Checked again under the lock: the daemon may have changed its mind since it wrote the spec.
    last_run::may_begin(&dir, spec.start.epoch, spec.start.run, boot, spec.start.again)
        .map_err(unreadable)??;
    volume::prepare(&spec.start.volumes, spec.start.epoch, spec.vmm_user).map_err(|refused| {
        if refused.passing { Refusal::NotYet(refused.why) } else { Refusal::Other(refused.why) }
    })?;
    let run_dir = args.run_dir;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&run_dir)
        .map_err(|e| format!("{} cannot be made: {e}", run_dir.display()))?;
    let bind = |name: &str| bind(&run_dir.join(name));
    Ok(Prepared {
        spec,
        lock,
        api: bind(API_SOCKET)?,
        control: bind(CONTROL_SOCKET)?,
        console: bind(CONSOLE_SOCKET)?,
        dir,
        run_dir,
    })
}

/// Binds a socket; what lies there is left over, since this process holds the VM's lock.
fn bind(path: &Path) -> Result<UnixListener, Refusal> {
    let _ = std::fs::remove_file(path);
    Ok(UnixListener::bind(path).map_err(|e| format!("{} cannot be bound: {e}", path.display()))?)
}

/// Forks the shim and waits for its word.
fn fork(prepared: Prepared) -> Result<(), Refusal> {
    let (reader, writer) = std::io::pipe().map_err(|e| format!("no pipe: {e}"))?;
    let group = Group::make(&prepared.spec.start.vm.to_string());
    match cgroup::fork_into(group) {
        Err(e) => Err(format!("the shim cannot be forked: {e}").into()),
        Ok(Fork::Parent) => {
            drop(writer);
            drop(prepared);
            await_ready(File::from(std::os::fd::OwnedFd::from(reader)))
        }
        Ok(Fork::Child(group)) => {
            drop(reader);
            let mut writer = File::from(std::os::fd::OwnedFd::from(writer));
            match run::Run::begin(prepared, group) {
                Ok(run) => {
                    // Nobody listens any more when the daemon was killed meanwhile; the run goes on.
                    let _ = writer.write_all(READY);
                    drop(writer);
                    run.serve()
                }
                Err(refusal) => {
                    let line = refusal.to_line();
                    setup::note(&line);
                    let _ = writer.write_all(line.as_bytes());
                }
            }
            std::process::exit(0)
        }
    }
}

fn await_ready(mut reader: File) -> Result<(), Refusal> {
    let mut said = Vec::new();
    reader.read_to_end(&mut said).map_err(|e| format!("the shim cannot be heard: {e}"))?;
    match said.as_slice() {
        READY => Ok(()),
        [] => Err("the shim died while it started; see shim.log in the VM's directory".to_owned().into()),
        refusal => Err(Refusal::of_line(&String::from_utf8_lossy(refusal))),
    }
}
