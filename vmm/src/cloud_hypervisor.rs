//! The real driver: one Cloud Hypervisor process per VM, behind a shim process that outlives the daemon.
//! This side prepares a VM's directory and reads its marks; everything about a process that runs is asked
//! of its shim. It keeps nothing in memory that a restart would lose.

mod arm;
pub mod bare;
pub mod client;
pub mod config;
pub mod events;
mod host_parts;
mod observe;
pub mod process;
pub mod settings;
mod start;
mod stop;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use holm_model::node::{HypervisorFacts, HypervisorKind};
use holm_model::vm::StopMode;
use holm_model::{BootId, Epoch, VmId};
use tokio::net::UnixStream;
use tokio::sync::mpsc;

pub use self::settings::{Settings, ShimCommand, VmmUser};
use crate::durable;
use crate::host;
use crate::hypervisor::{Error, Hypervisor, Lease, Observation, StartSpec};
use crate::shim::{CONSOLE_SOCKET, cgroup};
use crate::vm_dir::VmDir;
use crate::vm_files;
use crate::volume;

/// Longest path of a Unix socket.
const SOCKET_PATH_LIMIT: usize = 107;
/// What a VM's directory and the longest socket name add to the run directory.
const SOCKET_PATH_TAIL: usize = "/00000000-0000-0000-0000-000000000000/console.sock".len();

/// The driver of Cloud Hypervisor.
#[derive(Clone)]
pub struct CloudHypervisor {
    settings: Arc<Settings>,
    boot_id: BootId,
    finder: Arc<process::Finder>,
    watches: Arc<watch::Watches>,
    changes: Arc<Mutex<Option<mpsc::UnboundedReceiver<VmId>>>>,
}

/// Why the driver cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum NewError {
    #[error("the run directory {} is too long for sockets, it may have {} bytes: choose a shorter one", path.display(), SOCKET_PATH_LIMIT - SOCKET_PATH_TAIL)]
    RunDirTooLong { path: PathBuf },
    #[error("{} cannot be made", path.display())]
    Directory {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("this host has no boot id")]
    BootId(#[source] std::io::Error),
}

/// Whether real VMs can run here: the version of Cloud Hypervisor, or what is missing and what to do.
pub async fn detect(vmm_binary: Option<&Path>) -> Result<process::Binary, String> {
    let binary = process::find(vmm_binary).await?;
    host::kvm()?;
    Ok(binary)
}

impl CloudHypervisor {
    /// A driver with these settings. Whether VMs can run is another question, see [`detect`].
    pub fn new(settings: Settings) -> Result<Self, NewError> {
        if settings.run_dir.as_os_str().len() + SOCKET_PATH_TAIL > SOCKET_PATH_LIMIT {
            return Err(NewError::RunDirTooLong { path: settings.run_dir });
        }
        for path in [&settings.vm_dir, &settings.run_dir] {
            std::fs::create_dir_all(path)
                .map_err(|source| NewError::Directory { path: path.clone(), source })?;
        }
        vm_files::remove_remainders(&settings.vm_dir);
        let (sender, receiver) = mpsc::unbounded_channel();
        Ok(Self {
            settings: Arc::new(settings),
            boot_id: host::boot_id().map_err(NewError::BootId)?,
            finder: Arc::default(),
            watches: Arc::new(watch::Watches::new(sender)),
            changes: Arc::new(Mutex::new(Some(receiver))),
        })
    }

    /// As [`detect`], remembering what was found.
    async fn detect(&self) -> Result<process::Binary, String> {
        let binary = self.finder.find(self.settings.vmm_binary.as_deref()).await?;
        host::kvm()?;
        Ok(binary)
    }

    fn dir(&self, vm: VmId) -> VmDir {
        VmDir::new(&self.settings.vm_dir, vm)
    }

    fn run_dir(&self, vm: VmId) -> PathBuf {
        self.settings.run_dir.join(vm.to_string())
    }

    fn console_socket(&self, vm: VmId) -> PathBuf {
        self.run_dir(vm).join(CONSOLE_SOCKET)
    }

    /// Removes what a shim that was killed left behind. Only for one that is surely gone.
    fn remove_leftovers(&self, vm: VmId) {
        let _ = std::fs::remove_dir_all(self.run_dir(vm));
        cgroup::remove_of(&vm.to_string());
    }
}

/// How long the end of a VM waits for its storage.
const GIVE_UP_PATIENCE: Duration = Duration::from_secs(5);

/// Gives up the locks of the volumes that the latest run had. The storage may take its time, or be gone.
async fn give_up_volumes(dir: VmDir) {
    let give_up = move || {
        if let Ok(Some(spec)) = durable::read_json::<config::RunSpec>(&dir.file("spec.json")) {
            volume::release(&spec.start.volumes, spec.start.epoch);
        }
    };
    // What stays is for the next epoch to take over, so storage that is gone holds up nothing.
    let _ = tokio::time::timeout(GIVE_UP_PATIENCE, tokio::task::spawn_blocking(give_up)).await;
}

impl Hypervisor for CloudHypervisor {
    fn facts(&self) -> BoxFuture<'_, HypervisorFacts> {
        Box::pin(async {
            let (version, reason) = match self.detect().await {
                Ok(binary) => (binary.version, String::new()),
                Err(reason) => (String::new(), reason),
            };
            HypervisorFacts { kind: HypervisorKind::CloudHypervisor, version, reason }
        })
    }

    fn vms(&self) -> BoxFuture<'_, Result<Vec<VmId>, Error>> {
        Box::pin(async { vm_files::list(&self.settings.vm_dir) })
    }

    fn observe(&self, vm: VmId) -> BoxFuture<'_, Observation> {
        Box::pin(self.observe_vm(vm))
    }

    fn start(&self, spec: StartSpec) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.start_vm(spec))
    }

    fn stop(&self, vm: VmId, mode: StopMode) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.stop_vm(vm, mode))
    }

    fn arm(&self, vm: VmId, lease: Lease) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.arm_vm(vm, lease))
    }

    fn disarm(&self, vm: VmId) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.disarm_vm(vm))
    }

    fn enforce(&self, vm: VmId) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.enforce_lease(vm))
    }

    fn bind(&self, vm: VmId, epoch: Epoch, bound: bool) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move { vm_files::bind(&self.dir(vm), epoch, bound) })
    }

    fn start_order(&self, vm: VmId) -> BoxFuture<'_, i32> {
        Box::pin(async move {
            let spec = durable::read_json::<config::RunSpec>(&self.dir(vm).file("spec.json"));
            spec.ok().flatten().map_or(0, |spec| spec.start.start_order)
        })
    }

    fn release(&self, vm: VmId, epoch: Epoch) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            vm_files::release(&self.dir(vm), epoch)?;
            self.remove_leftovers(vm);
            Ok(())
        })
    }

    fn delete_disks(&self, vm: VmId) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let dir = self.dir(vm);
            vm_files::delete_disks(&dir)?;
            give_up_volumes(dir).await;
            Ok(())
        })
    }

    fn forget(&self, vm: VmId) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            vm_files::forget(&self.dir(vm), || self.remove_leftovers(vm))?;
            Ok(())
        })
    }

    fn console(&self, vm: VmId) -> BoxFuture<'_, Result<UnixStream, Error>> {
        Box::pin(async move {
            let path = self.console_socket(vm);
            match UnixStream::connect(&path).await {
                Ok(stream) => Ok(stream),
                Err(e)
                    if matches!(
                        e.kind(),
                        std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused
                    ) =>
                {
                    Err(match self.dir(vm).path().exists() {
                        true => Error::Refused(
                            "the VM does not run, so it has no console: start it, or read its log".to_owned(),
                        ),
                        false => Error::NotHere,
                    })
                }
                Err(source) => Err(Error::Io { what: "cannot connect to", path, source }),
            }
        })
    }

    fn log(&self, vm: VmId, max_bytes: u64) -> BoxFuture<'_, Result<Vec<u8>, Error>> {
        Box::pin(async move { vm_files::log(&self.dir(vm), max_bytes) })
    }

    fn changes(&self) -> mpsc::UnboundedReceiver<VmId> {
        let taken = self.changes.lock().unwrap_or_else(|e| e.into_inner()).take();
        // A second taker gets a channel that never speaks.
        taken.unwrap_or_else(|| mpsc::unbounded_channel().1)
    }
}
