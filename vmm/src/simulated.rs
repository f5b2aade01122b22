//! A driver without a hypervisor: VMs are records that print a banner and echo what is typed. For hosts
//! without KVM and for large tests; always labelled as simulated. Its directories carry the same durable
//! marks as the real one's, so that restarts, releases and epochs behave the same: a simulated VM goes on
//! through a restart of the daemon and is lost with the host. It depends on its lease as far as a driver in
//! the daemon can see to that.

mod leases;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use futures::future::BoxFuture;
use holm_model::node::{HypervisorFacts, HypervisorKind};
use holm_model::vm::StopMode;
use holm_model::{BootId, Epoch, VmId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{broadcast, mpsc};

use crate::cloud_hypervisor::config;
use crate::host;
use crate::hypervisor::{
    Error, ExitCause, Hypervisor, Instance, InstanceState, Lease, Observation, StartSpec,
};
use crate::last_run;
use crate::shim::BoundedLog;
use crate::vm_dir::{FORMAT, SimulatedRecord, VmDir};
use crate::vm_files::{self, io_error};

/// A directory of a node whose driver was changed under running VMs.
const REAL_ONE_RUNS: &str =
    "Cloud Hypervisor runs this VM, and this node only simulates: let it use Cloud Hypervisor again";
/// What a console client may lag behind before it misses output.
const CONSOLE_BACKLOG: usize = 64;

/// The simulated driver. Cheap to clone.
#[derive(Clone)]
pub struct Simulated {
    shared: Arc<Shared>,
}

struct Shared {
    root: PathBuf,
    reason: String,
    boot_id: BootId,
    armed: leases::Armed,
    changing: Mutex<()>,
    consoles: Mutex<HashMap<VmId, broadcast::Sender<Vec<u8>>>>,
    changes: mpsc::UnboundedSender<VmId>,
    receiver: Mutex<Option<mpsc::UnboundedReceiver<VmId>>>,
}

impl Simulated {
    /// A driver with its directories below `dir`; `reason` says why the real one is not used.
    pub fn new(dir: PathBuf, reason: String) -> std::io::Result<Self> {
        std::fs::create_dir_all(&dir)?;
        vm_files::remove_remainders(&dir);
        let (changes, receiver) = mpsc::unbounded_channel();
        let shared = Shared {
            root: dir,
            reason,
            boot_id: host::boot_id()?,
            armed: leases::Armed::default(),
            changing: Mutex::default(),
            consoles: Mutex::default(),
            changes,
            receiver: Mutex::new(Some(receiver)),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Ends a VM from inside, as its guest or a broken VMM would. For tests.
    pub fn end(&self, vm: VmId, cause: ExitCause) -> Result<(), Error> {
        self.finish(vm, cause)?;
        let _ = self.shared.changes.send(vm);
        Ok(())
    }

    fn dir(&self, vm: VmId) -> VmDir {
        VmDir::new(&self.shared.root, vm)
    }

    /// The run that goes on, if one does. One whose lease has ended does not: whoever looks first ends it.
    fn running(&self, vm: VmId) -> Result<Option<SimulatedRecord>, Error> {
        let _changing = self.changing();
        self.running_while_changing(vm)
    }

    /// As [`running`](Self::running), for who holds the lock already.
    fn running_while_changing(&self, vm: VmId) -> Result<Option<SimulatedRecord>, Error> {
        let dir = self.dir(vm);
        let latest = dir.simulated().map_err(io_error("cannot read the run of", dir.path()))?;
        let Some(run) = latest.filter(|run| run.ended.is_none() && run.boot_id == self.shared.boot_id) else {
            self.shared.armed.remove(vm);
            return Ok(None);
        };
        match &run.lease {
            Some(lease) if lease.deadline().is_err() => {
                self.record_end(vm, run, ExitCause::LeaseEnded)?;
                let _ = self.shared.changes.send(vm);
                Ok(None)
            }
            Some(lease) => {
                self.look_after(vm, lease);
                Ok(Some(run))
            }
            None => Ok(Some(run)),
        }
    }

    fn refuse_running(&self, vm: VmId) -> Result<(), Error> {
        match self.running(vm)? {
            Some(_) => Err(Error::Refused("the VM still runs: stop it first".to_owned())),
            None => Ok(()),
        }
    }

    fn look(&self, vm: VmId) -> Result<Observation, Error> {
        let dir = self.dir(vm);
        let unreadable = || io_error("cannot read", dir.path());
        let Some(mark) = dir.epoch().map_err(unreadable())? else { return Ok(Observation::Absent) };
        if dir.is_locked().map_err(unreadable())? {
            return Ok(Observation::Unknown { reason: REAL_ONE_RUNS.to_owned() });
        }
        let instance = match self.running(vm)? {
            Some(run) => Instance {
                epoch: run.epoch,
                released: mark.released && mark.epoch == run.epoch,
                cluster: mark.cluster,
                bound: mark.bound && mark.epoch == run.epoch,
                run: run.run,
                boot_id: Some(run.boot_id),
                armed: run.lease.map(|lease| lease.id),
                can_arm: true,
                state: InstanceState::Running,
            },
            None => last_run::at_rest(&dir, &mark, self.shared.boot_id).map_err(unreadable())?,
        };
        Ok(Observation::Known(instance))
    }

    fn begin(&self, spec: &StartSpec) -> Result<(), Error> {
        config::validate(spec).map_err(Error::BuildFailed)?;
        let dir = self.dir(spec.vm);
        let unreadable = || io_error("cannot read", dir.path());
        match self.running(spec.vm)? {
            Some(run) if run.epoch == spec.epoch && run.run == spec.run => return Ok(()),
            Some(_) => {
                return Err(Error::Refused("another run of the VM goes on: stop it first".to_owned()));
            }
            None => {}
        }
        if dir.is_locked().map_err(unreadable())? {
            return Err(Error::Unknown(REAL_ONE_RUNS.to_owned()));
        }
        let may_begin = last_run::may_begin(&dir, spec.epoch, spec.run, self.shared.boot_id, spec.again);
        may_begin.map_err(unreadable())?.map_err(Error::Refused)?;
        if let Some(lease) = &spec.lease {
            lease.deadline().map_err(Error::NoLease)?;
        }
        if dir.epoch().map_err(unreadable())?.is_none_or(|mark| mark.epoch != spec.epoch) {
            let begun = dir.begin_epoch(spec.epoch, spec.cluster);
            begun.map_err(io_error("cannot write the epoch of", dir.path()))?;
        }
        self.print(spec.vm, format!("Holm simulated guest {}\r\n", spec.name).as_bytes());
        let record = SimulatedRecord {
            version: FORMAT,
            epoch: spec.epoch,
            run: spec.run,
            boot_id: self.shared.boot_id,
            ended: None,
            lease: spec.lease.clone(),
            start_order: spec.start_order,
        };
        let _changing = self.changing();
        self.record(spec.vm, &record)?;
        if let Some(lease) = &spec.lease {
            self.look_after(spec.vm, lease);
        }
        Ok(())
    }

    fn finish(&self, vm: VmId, cause: ExitCause) -> Result<(), Error> {
        let _changing = self.changing();
        match self.running_while_changing(vm)? {
            Some(run) => self.record_end(vm, run, cause),
            None => Ok(()),
        }
    }

    fn record_end(&self, vm: VmId, mut run: SimulatedRecord, cause: ExitCause) -> Result<(), Error> {
        run.ended = Some(cause);
        self.record(vm, &run)?;
        self.shared.armed.remove(vm);
        // Dropping the sender ends the consoles.
        self.consoles().remove(&vm);
        Ok(())
    }

    fn record(&self, vm: VmId, run: &SimulatedRecord) -> Result<(), Error> {
        let dir = self.dir(vm);
        dir.set_simulated(run).map_err(io_error("cannot write the run of", dir.path()))
    }

    /// Makes a run that goes on depend on `lease`, or on none.
    fn set_lease(&self, vm: VmId, lease: Option<Lease>) -> Result<(), Error> {
        if let Some(lease) = &lease {
            lease.deadline().map_err(Error::NoLease)?;
        }
        if self.look(vm)? == Observation::Absent {
            return Err(Error::NotHere);
        }
        let _changing = self.changing();
        let Some(run) = self.running_while_changing(vm)? else {
            return Err(Error::Refused("the VM does not run".to_owned()));
        };
        self.record(vm, &SimulatedRecord { lease: lease.clone(), ..run })?;
        match &lease {
            Some(lease) => self.look_after(vm, lease),
            None => self.shared.armed.remove(vm),
        }
        Ok(())
    }

    /// Held while the record of a run is read in order to be changed.
    fn changing(&self) -> MutexGuard<'_, ()> {
        self.shared.changing.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Appends to the log and shows it to whoever is connected.
    fn print(&self, vm: VmId, bytes: &[u8]) {
        BoundedLog::open(self.dir(vm).console_log()).append(bytes);
        if let Some(console) = self.consoles().get(&vm) {
            let _ = console.send(bytes.to_vec());
        }
    }

    fn consoles(&self) -> MutexGuard<'_, HashMap<VmId, broadcast::Sender<Vec<u8>>>> {
        self.shared.consoles.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn connect(&self, vm: VmId) -> Result<UnixStream, Error> {
        if self.look(vm)? == Observation::Absent {
            return Err(Error::NotHere);
        }
        if self.running(vm)?.is_none() {
            return Err(Error::Refused(
                "the VM does not run, so it has no console: start it, or read its log".to_owned(),
            ));
        }
        let (ours, theirs) =
            UnixStream::pair().map_err(|e| Error::Unknown(format!("no socket pair: {e}")))?;
        let output =
            self.consoles().entry(vm).or_insert_with(|| broadcast::channel(CONSOLE_BACKLOG).0).subscribe();
        tokio::spawn(serve_console(self.clone(), vm, ours, output));
        Ok(theirs)
    }
}

/// Echoes what is typed, `q` powers the guest off, as the test guest does.
async fn serve_console(
    driver: Simulated,
    vm: VmId,
    stream: UnixStream,
    mut output: broadcast::Receiver<Vec<u8>>,
) {
    let (mut from_client, mut to_client) = stream.into_split();
    let mut typed = [0; 1024];
    loop {
        tokio::select! {
            printed = output.recv() => match printed {
                Ok(bytes) => {
                    if to_client.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return,
            },
            read = from_client.read(&mut typed) => match read {
                Ok(n) if n > 0 => {
                    let typed = &typed[..n];
                    let off = typed.iter().position(|b| *b == b'q');
                    driver.print(vm, &typed[..off.unwrap_or(n)]);
                    if off.is_some() {
                        let _ = driver.end(vm, ExitCause::GuestOff);
                        return;
                    }
                }
                Ok(_) | Err(_) => return,
            },
        }
    }
}

impl Hypervisor for Simulated {
    fn facts(&self) -> BoxFuture<'_, HypervisorFacts> {
        let facts = HypervisorFacts {
            kind: HypervisorKind::Simulated,
            version: String::new(),
            reason: self.shared.reason.clone(),
        };
        Box::pin(async { facts })
    }

    fn vms(&self) -> BoxFuture<'_, Result<Vec<VmId>, Error>> {
        Box::pin(async { vm_files::list(&self.shared.root) })
    }

    fn observe(&self, vm: VmId) -> BoxFuture<'_, Observation> {
        Box::pin(
            async move { self.look(vm).unwrap_or_else(|e| Observation::Unknown { reason: e.to_string() }) },
        )
    }

    fn start(&self, spec: StartSpec) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move { self.begin(&spec) })
    }

    fn stop(&self, vm: VmId, _: StopMode) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            match self.look(vm)? {
                Observation::Known(Instance { state: InstanceState::Running, .. }) => {
                    self.finish(vm, ExitCause::Requested)
                }
                Observation::Absent => Err(Error::NotHere),
                Observation::Known(_) | Observation::Unknown { .. } => Ok(()),
            }
        })
    }

    fn arm(&self, vm: VmId, lease: Lease) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move { self.set_lease(vm, Some(lease)) })
    }

    fn disarm(&self, vm: VmId) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move { self.set_lease(vm, None) })
    }

    fn enforce(&self, vm: VmId) -> BoxFuture<'_, Result<(), Error>> {
        // To look is to end it.
        Box::pin(async move { self.running(vm).map(drop) })
    }

    fn bind(&self, vm: VmId, epoch: Epoch, bound: bool) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move { vm_files::bind(&self.dir(vm), epoch, bound) })
    }

    fn start_order(&self, vm: VmId) -> BoxFuture<'_, i32> {
        Box::pin(async move { self.dir(vm).simulated().ok().flatten().map_or(0, |run| run.start_order) })
    }

    fn release(&self, vm: VmId, epoch: Epoch) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            self.refuse_running(vm)?;
            vm_files::release(&self.dir(vm), epoch)
        })
    }

    fn delete_disks(&self, vm: VmId) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            self.refuse_running(vm)?;
            vm_files::delete_disks(&self.dir(vm))
        })
    }

    fn forget(&self, vm: VmId) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            self.refuse_running(vm)?;
            vm_files::forget(&self.dir(vm), || {})
        })
    }

    fn console(&self, vm: VmId) -> BoxFuture<'_, Result<UnixStream, Error>> {
        Box::pin(async move { self.connect(vm) })
    }

    fn log(&self, vm: VmId, max_bytes: u64) -> BoxFuture<'_, Result<Vec<u8>, Error>> {
        Box::pin(async move { vm_files::log(&self.dir(vm), max_bytes) })
    }

    fn changes(&self) -> mpsc::UnboundedReceiver<VmId> {
        let taken = self.shared.receiver.lock().unwrap_or_else(|e| e.into_inner()).take();
        // A second taker gets a channel that never speaks.
        taken.unwrap_or_else(|| mpsc::unbounded_channel().1)
    }
}
