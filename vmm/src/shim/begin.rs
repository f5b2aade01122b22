//! The beginning of a run, in the process just forked: detach from the daemon, write the run down, fork the
//! scribe and the VMM, and send the VMM the first call. No guest runs before that call, so up to there the
//! disk may be waited for; from there on only the scribe waits for it.

use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::console::{Console, FarEnd, set_nonblocking};
use super::control::Control;
use super::ending::{clean_up, exit_of, record_exit};
use super::lease_guard::LeaseGuard;
use super::reset_counter::ResetCounter;
use super::run::{LOCK_MEMORY_DELAY, Run};
use super::scribe::Scribe;
use super::setup::{self, note};
use super::vmm_log::VmmLog;
use super::{API_SOCKET, CONSOLE_SOCKET, CONTROL_SOCKET, Prepared, Refusal};
use crate::cloud_hypervisor::client::{Call, Client};
use crate::cloud_hypervisor::config::RunSpec;
use crate::cloud_hypervisor::events::Parser;
use crate::cloud_hypervisor::process::{Launch, Vmm};
use crate::durable::Sync;
use crate::host;
use crate::hypervisor::ExitCause;
use crate::lease::{ArmedRecord, Lease};
use crate::vm_dir::{FORMAT, ProcessId, SharedLock, ShimRecord, VmDir};
use crate::vm_state::Phase;

impl Run {
    /// Writes the run down, forks the VMM and sends it the first call. Called in the forked child.
    pub(super) fn begin(prepared: Prepared, cgroup: Result<PathBuf, String>) -> Result<Self, Refusal> {
        let Prepared { dir, spec, lock, api, control, console, run_dir } = prepared;
        setup::detach(&dir.file("shim.log")).map_err(|e| format!("the shim cannot detach: {e}"))?;
        let signals = setup::catch_signals().map_err(|e| format!("no signal descriptor: {e}"))?;
        setup::protect_from_oom_killer();
        let cgroup = cgroup
            .inspect_err(|why| note(&format!("{why}: this shim stays in the cgroup of the daemon")))
            .ok();
        let mut record = ShimRecord {
            version: FORMAT,
            epoch: spec.start.epoch,
            run: spec.start.run,
            boot_id: host::boot_id().map_err(|e| format!("this host has no boot id: {e}"))?,
            shim: process_id(std::process::id()),
            vmm: None,
            api_socket: run_dir.join(API_SOCKET),
            control_socket: run_dir.join(CONTROL_SOCKET),
            console_socket: run_dir.join(CONSOLE_SOCKET),
            cgroup,
            can_arm: true,
        };
        let mut lease = LeaseGuard::new().map_err(|e| format!("no timer: {e}"))?;
        let needed = spec.start.lease.as_ref();
        if let Some(needed) = needed {
            // While nothing is written down yet: the run has not begun.
            lease.arm(needed).map_err(|why| {
                clean_up(&run_dir, &record);
                Refusal::NoLease(why)
            })?;
        }
        dir.reserve_exit();
        // A run that was lost with its host may begin again under the same number.
        dir.clear_exit().map_err(|e| format!("exit.json cannot be removed: {e}"))?;
        // From here on the run counts as begun.
        dir.set_shim(&record, Sync::Yes).map_err(|e| format!("shim.json cannot be written: {e}"))?;

        let listeners = Listeners { api, console };
        let launched = launch(&dir, &spec, listeners, &lock, &mut lease).and_then(|launched| {
            record.vmm = Some(process_id(launched.vmm.pid()));
            tell_of_vmm(&dir, &run_dir, &record, needed).map_err(|why| {
                // Nothing runs in it yet.
                launched.vmm.signal(libc::SIGKILL);
                Refusal::Other(why)
            })?;
            Ok(launched)
        });
        let Launched { scribe, vmm, console, events, vmm_log } = launched.inspect_err(|refusal| {
            record_exit(&dir, &exit_of(&record, refusal.as_exit()));
            clean_up(&run_dir, &record);
        })?;
        let control = Control::new(control).map_err(|e| format!("no control socket: {e}"))?;
        let now = Instant::now();
        let mut api = Client::new(record.api_socket.clone());
        let config = serde_json::to_string(&spec.vm_config).map_err(|e| e.to_string())?;
        api.submit(Call::Create(config), now);
        Ok(Self {
            dir,
            run_dir,
            record,
            _lock: lock,
            phase: Phase::Starting,
            vmm,
            lease,
            scribe,
            api,
            events: Some(events),
            event_parser: Parser::default(),
            news_at_start: false,
            console,
            control,
            signals,
            vmm_log,
            resets: ResetCounter::default(),
            grace: Duration::ZERO,
            grace_until: None,
            kill_at: None,
            lost_at: None,
            last_word: None,
            lock_memory_at: needed.is_none().then(|| now + LOCK_MEMORY_DELAY),
        })
    }
}

impl Refusal {
    /// How a run that had begun ends by it.
    fn as_exit(&self) -> ExitCause {
        match self {
            Refusal::NoLease(_) => ExitCause::LeaseEnded,
            Refusal::Busy(reason) | Refusal::NotYet(reason) | Refusal::Other(reason) => {
                ExitCause::Failed { reason: reason.clone() }
            }
        }
    }
}

struct Listeners {
    api: UnixListener,
    console: UnixListener,
}

struct Launched {
    scribe: Scribe,
    vmm: Vmm,
    console: Console,
    events: std::io::PipeReader,
    vmm_log: VmmLog,
}

fn launch(
    dir: &VmDir,
    spec: &RunSpec,
    listeners: Listeners,
    lock: &SharedLock,
    lease: &mut LeaseGuard,
) -> Result<Launched, Refusal> {
    let failed = |e: std::io::Error| format!("Cloud Hypervisor cannot be started: {e}");
    let (vmm_log, stderr) = VmmLog::create(dir.file("vmm.log")).map_err(failed)?;
    let scribe = Scribe::fork(dir, lock).map_err(failed)?;
    let (console, FarEnd { input, output }) = Console::new(listeners.console).map_err(failed)?;
    let (events, events_writer) = std::io::pipe().map_err(failed)?;
    set_nonblocking(&events).map_err(failed)?;
    if lease.armed().is_some() {
        // Reading the program from a disk that hangs must not come between the deadline and the kill.
        setup::lock_memory();
    }
    // Again, after all that took time: from here to the fork nothing does (FENCING.md, rule 11).
    if lease.has_ended() {
        return Err(Refusal::NoLease("it ended while the VM was being started".to_owned()));
    }
    let vmm = Vmm::launch(Launch {
        binary: &spec.vmm_binary,
        api: listeners.api.as_fd(),
        events: events_writer.as_fd(),
        lock: lock.as_fd(),
        terminal_in: input,
        terminal_out: output,
        stderr,
        user: spec.vmm_user,
    })
    .map_err(failed)?;
    // The copies of `api` and `events_writer` end here; with them open, a dead VMM would look alive.
    Ok(Launched { scribe, vmm, console, events, vmm_log })
}

/// Says where others look which process the VMM is, and that it depends on a lease.
fn tell_of_vmm(
    dir: &VmDir,
    run_dir: &std::path::Path,
    record: &ShimRecord,
    lease: Option<&Lease>,
) -> Result<(), String> {
    if let (Some(lease), Some(vmm)) = (lease, record.vmm) {
        let armed = ArmedRecord::new(record.boot_id, lease.clone(), record.shim, vmm);
        armed.write(run_dir).map_err(|e| format!("armed.json cannot be written: {e}"))?;
    }
    if let Err(e) = dir.set_shim(record, Sync::No) {
        note(&format!("shim.json does not name the VMM: {e}"));
    }
    Ok(())
}

fn process_id(pid: u32) -> ProcessId {
    ProcessId { pid, start_ticks: host::process_start_ticks(pid).unwrap_or(0) }
}
