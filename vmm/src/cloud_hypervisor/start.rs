//! Beginning a run: validate everything, prepare the directory once per epoch, write `spec.json`, start a
//! shim, wait for its word. From the shim on, the start goes on without the daemon.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use holm_model::VmId;
use holm_model::image::ImageKind;

use super::config::{self, RunSpec};
use super::{CloudHypervisor, VmmUser, host_parts, process};
use crate::disk;
use crate::durable::{self, Sync};
use crate::hypervisor::{Boot, DiskFormat, Error, ExitCause, StartSpec};
use crate::image_check;
use crate::last_run;
use crate::shim::client::Connection;
use crate::shim::protocol::Op;
use crate::shim::setup::Args;
use crate::shim::{EXIT_BUSY, EXIT_NO_LEASE, EXIT_NOT_YET};
use crate::vm_dir::{FORMAT, ShimRecord, VmDir};
use crate::vm_files::{self, io_error};
use crate::vm_state::Phase;

/// A shim detaches and forks within milliseconds; a loaded host may take seconds.
const SHIM_PATIENCE: Duration = Duration::from_secs(30);
/// A guest with much memory to prefault boots for seconds. Past this the outcome is unknown, and the
/// observation says what the VMM does not answer.
const START_PATIENCE: Duration = Duration::from_secs(20);

/// What the payload of a run is, inside the VM's directory.
struct Payload {
    kernel: Option<PathBuf>,
    firmware: Option<PathBuf>,
}

impl CloudHypervisor {
    pub(super) async fn start_vm(&self, spec: StartSpec) -> Result<(), Error> {
        let dir = self.dir(spec.vm);
        if self.refuse_or_join(&dir, &spec)? {
            return self.await_start(&dir, &spec).await;
        }
        config::validate(&spec).map_err(Error::BuildFailed)?;
        host_parts::check(&spec, self.settings.vmm_user).map_err(Error::BuildFailed)?;
        let binary = self.detect().await.map_err(Error::BuildFailed)?;
        if let Some(lease) = &spec.lease {
            // Early, before anything is made; the shim decides.
            lease.deadline().map_err(Error::NoLease)?;
        }
        let payload = self.prepare(&dir, &spec).await?;
        self.remove_leftovers(spec.vm);
        self.write_spec(&dir, &spec, &payload, binary)?;
        self.start_shim(&dir, spec.vm).await?;
        self.await_start(&dir, &spec).await
    }

    /// Whether this very run goes on already, so that only its start is to be awaited.
    fn refuse_or_join(&self, dir: &VmDir, spec: &StartSpec) -> Result<bool, Error> {
        let unreadable = || io_error("cannot read", dir.path());
        if dir.is_locked().map_err(unreadable())? {
            let begun = dir.shim().map_err(unreadable())?;
            let this_run = |begun: &ShimRecord| begun.epoch == spec.epoch && begun.run == spec.run;
            return match begun.as_ref().is_some_and(this_run) {
                true => Ok(true),
                false => Err(Error::Refused("another run of the VM goes on: stop it first".to_owned())),
            };
        }
        let may_begin = last_run::may_begin(dir, spec.epoch, spec.run, self.boot_id, spec.again);
        may_begin.map_err(unreadable())?.map_err(Error::Refused)?;
        Ok(false)
    }

    /// Makes the directory what the epoch boots from. What is there already stays: disks are made once.
    async fn prepare(&self, dir: &VmDir, spec: &StartSpec) -> Result<Payload, Error> {
        let mark = dir.epoch().map_err(io_error("cannot read", dir.path()))?;
        if mark.is_none_or(|mark| mark.epoch != spec.epoch) {
            self.begin_epoch(dir, spec)?;
        }
        let payload = self.link_payload(dir, spec)?;
        let task = (dir.clone(), spec.clone(), self.settings.vmm_user);
        // A dropped start leaves this running; it ends with a whole disk or none, and spoils no later one.
        tokio::task::spawn_blocking(move || make_disk(&task.0, &task.1, task.2))
            .await
            .map_err(|e| Error::Unknown(format!("making the disk was cut short: {e}")))??;
        Ok(payload)
    }

    /// The claim of an older epoch has ended, so what it left may go.
    fn begin_epoch(&self, dir: &VmDir, spec: &StartSpec) -> Result<(), Error> {
        std::fs::create_dir_all(dir.path()).map_err(io_error("cannot make", dir.path()))?;
        let _lock = vm_files::lock_stopped(dir)?;
        vm_files::remove_boot_files(dir)?;
        dir.begin_epoch(spec.epoch, spec.cluster).map_err(io_error("cannot write the epoch of", dir.path()))
    }

    /// Links the kernel into the directory: a guest that resets opens it again, and the image may be gone
    /// by then.
    fn link_payload(&self, dir: &VmDir, spec: &StartSpec) -> Result<Payload, Error> {
        let source = match &spec.boot {
            Boot::Kernel { kernel } => Some(kernel),
            Boot::Disk { kernel, .. } => kernel.as_ref(),
        };
        let Some(source) = source else {
            let firmware = self.settings.firmware.clone().ok_or_else(|| {
                Error::BuildFailed(
                    "this node has no firmware to boot a disk image: set its path in the node's configuration, or boot with a kernel image"
                        .to_owned(),
                )
            })?;
            if !firmware.is_file() {
                let path = firmware.display();
                return Err(Error::BuildFailed(format!(
                    "the firmware {path} is missing: install it, or correct the node's configuration"
                )));
            }
            return Ok(Payload { kernel: None, firmware: Some(firmware) });
        };
        let kernel = dir.kernel();
        if !kernel.exists() {
            link_or_copy(source, &kernel)?;
        }
        image_check::check(&kernel, ImageKind::Kernel)
            .map_err(|refusal| Error::BuildFailed(format!("the kernel cannot be used: {refusal}")))?;
        Ok(Payload { kernel: Some(kernel), firmware: None })
    }

    fn write_spec(
        &self,
        dir: &VmDir,
        spec: &StartSpec,
        payload: &Payload,
        binary: process::Binary,
    ) -> Result<(), Error> {
        let (kernel, firmware) = (payload.kernel.as_deref(), payload.firmware.as_deref());
        let run = RunSpec {
            version: FORMAT,
            start: spec.clone(),
            vm_config: config::vm_config(spec, dir.path(), kernel, firmware),
            vmm_binary: binary.path,
            vmm_user: self.settings.vmm_user,
        };
        let path = dir.file("spec.json");
        durable::write_json(&path, &run, Sync::No).map_err(io_error("cannot write", &path))
    }

    /// Starts the shim, which has left this process' family when this returns.
    async fn start_shim(&self, dir: &VmDir, vm: VmId) -> Result<(), Error> {
        let args = Args { dir: dir.path().to_owned(), run_dir: self.run_dir(vm) };
        let mut command = tokio::process::Command::new(&self.settings.shim.exe);
        command
            .args(&self.settings.shim.args)
            .args(args.to_command_line())
            .stdin(std::process::Stdio::null());
        let output = tokio::time::timeout(SHIM_PATIENCE, command.output())
            .await
            .map_err(|_| Error::Unknown("the shim does not start".to_owned()))?
            .map_err(io_error("cannot start the shim", &self.settings.shim.exe))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim();
        Err(match output.status.code() {
            Some(EXIT_NO_LEASE) => Error::NoLease(said.to_owned()),
            Some(EXIT_BUSY) => Error::Unknown(said.to_owned()),
            Some(EXIT_NOT_YET) => Error::NotYet(said.to_owned()),
            _ if said.is_empty() => Error::BuildFailed(format!("the shim did not start ({})", output.status)),
            _ => Error::BuildFailed(said.to_owned()),
        })
    }

    /// Waits until the guest runs, or the run has ended.
    async fn await_start(&self, dir: &VmDir, spec: &StartSpec) -> Result<(), Error> {
        let record = dir.shim().map_err(io_error("cannot read", dir.path()))?.ok_or(Error::NotHere)?;
        let waited = async {
            let mut connection = Connection::open(&record.control_socket, Op::AwaitStart).await?;
            connection.next().await
        };
        let phase = match tokio::time::timeout(START_PATIENCE, waited).await {
            Ok(Ok(Some(status))) => Some(status.phase),
            // The shim is gone: what it wrote down tells.
            Ok(Ok(None) | Err(_)) => None,
            Err(_) => {
                let seconds = START_PATIENCE.as_secs();
                return Err(Error::Unknown(format!(
                    "the guest does not run after {seconds} s; it is still being started"
                )));
            }
        };
        match phase {
            Some(Phase::Running | Phase::Paused | Phase::Stopping(_)) => {
                self.watches.go_on(spec.vm, &record.control_socket);
                Ok(())
            }
            Some(Phase::Starting) => Err(Error::Unknown("the guest is still being started".to_owned())),
            Some(Phase::Ending(cause) | Phase::Ended(cause)) => {
                super::observe::lock_ends(dir).await.map_err(io_error("cannot read", dir.path()))?;
                ended_at_start(Some(cause))
            }
            None => {
                super::observe::lock_ends(dir).await.map_err(io_error("cannot read", dir.path()))?;
                let exit = dir.exit().map_err(io_error("cannot read", dir.path()))?;
                ended_at_start(exit.filter(|e| e.epoch == spec.epoch && e.run == spec.run).map(|e| e.cause))
            }
        }
    }
}

fn ended_at_start(cause: Option<ExitCause>) -> Result<(), Error> {
    match cause {
        Some(ExitCause::Failed { reason }) => Err(Error::BuildFailed(reason)),
        // It ran, and what came of it is for the observation to tell.
        Some(ExitCause::GuestOff) => Ok(()),
        Some(ExitCause::Requested) => {
            Err(Error::Refused("the VM was stopped while it was being started".to_owned()))
        }
        Some(ExitCause::LeaseEnded) => {
            Err(Error::NoLease("it ended while the VM was being started".to_owned()))
        }
        Some(ExitCause::HostLost) => Err(Error::Unknown("the host is going down".to_owned())),
        None => Err(Error::Unknown("the shim is gone and left no word".to_owned())),
    }
}

fn link_or_copy(source: &Path, target: &Path) -> Result<(), Error> {
    let failed = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::NotFound => {
            Error::BuildFailed(format!("the image file {} is missing on this node", source.display()))
        }
        _ => io_error("cannot take the kernel from", source)(e),
    };
    if std::fs::hard_link(source, target).is_ok() {
        return Ok(());
    }
    // Another file system, or one without links.
    let temporary = target.with_extension("tmp");
    std::fs::copy(source, &temporary).map_err(failed)?;
    std::fs::set_permissions(&temporary, std::fs::Permissions::from_mode(0o444)).map_err(failed)?;
    std::fs::rename(&temporary, target).map_err(failed)
}

fn make_disk(dir: &VmDir, spec: &StartSpec, user: Option<VmmUser>) -> Result<(), Error> {
    let target = dir.root_disk();
    if !target.exists() {
        let made = match &spec.boot {
            Boot::Kernel { .. } if spec.disk_gib == 0 => return Ok(()),
            Boot::Kernel { .. } => disk::blank(&target, spec.disk_gib),
            Boot::Disk { source, format, .. } => {
                let kind = match format {
                    DiskFormat::Raw => ImageKind::RawDisk,
                    DiskFormat::Qcow2 => ImageKind::Qcow2Disk,
                };
                image_check::check(source, kind).map_err(|refusal| {
                    Error::BuildFailed(format!("the disk image cannot be used: {refusal}"))
                })?;
                disk::from_image(source, *format, &target, spec.disk_gib)
            }
        };
        made.map_err(|e| match e {
            disk::Error::Io(source) => io_error("cannot make the root disk", &target)(source),
            disk::Error::Superseded => Error::Refused(e.to_string()),
            told => Error::BuildFailed(told.to_string()),
        })?;
    }
    if let Some(user) = user {
        std::os::unix::fs::chown(&target, Some(user.uid), Some(user.gid))
            .map_err(io_error("cannot give the VMM its root disk", &target))?;
    }
    Ok(())
}
