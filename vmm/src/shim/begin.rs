//! The beginning of a run, in the process just forked: detach from the daemon, write the run down, fork the
//! VMM and send it the first call.

use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::console::{Console, FarEnd, set_nonblocking};
use super::control::Control;
use super::ending::{clean_up, record_exit};
use super::lease_guard::LeaseGuard;
use super::reset_counter::ResetCounter;
use super::run::{LOCK_MEMORY_DELAY, Run, TRIM_PERIOD};
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
use crate::lease::ArmedRecord;
use crate::vm_dir::{FORMAT, ProcessId, SharedLock, ShimRecord, VmDir};
use crate::vm_state::Phase;

impl Run {
    /// Writes the run down, forks the VMM and sends it the first call. Called in the forked child.
    pub(super) fn begin(prepared: Prepared, cgroup: Result<PathBuf, String>) -> Result<Self, Refusal> {
        let dir = prepared.dir;
        setup::detach(&dir.file("shim.log")).map_err(|e| format!("the shim cannot detach: {e}"))?;
        let signals = setup::catch_signals().map_err(|e| format!("no signal descriptor: {e}"))?;
        setup::protect_from_oom_killer();
        let cgroup = cgroup
            .inspect_err(|why| note(&format!("{why}: this shim stays in the cgroup of the daemon")))
            .ok();
        let mut record = ShimRecord {
            version: FORMAT,
            epoch: prepared.spec.start.epoch,
            run: prepared.spec.start.run,
            boot_id: host::boot_id().map_err(|e| format!("this host has no boot id: {e}"))?,
            shim: process_id(std::process::id()),
            vmm: None,
            api_socket: prepared.run_dir.join(API_SOCKET),
            control_socket: prepared.run_dir.join(CONTROL_SOCKET),
            console_socket: prepared.run_dir.join(CONSOLE_SOCKET),
            cgroup,
            can_arm: true,
        };
        let mut lease = LeaseGuard::new().map_err(|e| format!("no timer: {e}"))?;
        if let Some(needed) = &prepared.spec.start.lease {
            // While nothing is written down yet: the run has not begun.
            lease.arm(needed).map_err(Refusal::NoLease)?;
        }
        dir.reserve_exit();
        // A run that was lost with its host may begin again under the same number.
        dir.clear_exit().map_err(|e| format!("exit.json cannot be removed: {e}"))?;
        // From here on the run counts as begun.
        dir.set_shim(&record, Sync::Yes).map_err(|e| format!("shim.json cannot be written: {e}"))?;

        // Again, after all that took time: from here to the fork nothing does (FENCING.md, rule 11).
        if lease.has_ended() {
            record_exit(&dir, &record, ExitCause::LeaseEnded);
            clean_up(&prepared.run_dir, &record);
            return Err(Refusal::NoLease("it ended while the VM was being started".to_owned()));
        }
        let launched = launch(&dir, &prepared.spec, prepared.api, prepared.console, &prepared.lock);
        let (vmm, console, events, vmm_log) = launched.map_err(|reason| {
            let reason = format!("Cloud Hypervisor cannot be started: {reason}");
            record_exit(&dir, &record, ExitCause::Failed { reason: reason.clone() });
            clean_up(&prepared.run_dir, &record);
            reason
        })?;
        let vmm_id = process_id(vmm.pid());
        record.vmm = Some(vmm_id);
        if let Some(lease) = prepared.spec.start.lease.clone() {
            let armed = ArmedRecord::new(record.boot_id, lease, record.shim, vmm_id);
            // Dropping the VMM here would leave it running; this process ends, and it with it.
            armed.write(&prepared.run_dir).map_err(|e| format!("armed.json cannot be written: {e}"))?;
        }
        if let Err(e) = dir.set_shim(&record, Sync::No) {
            note(&format!("shim.json does not name the VMM: {e}"));
        }
        let control = Control::new(prepared.control).map_err(|e| format!("no control socket: {e}"))?;
        let now = Instant::now();
        let mut api = Client::new(record.api_socket.clone());
        let config = serde_json::to_string(&prepared.spec.vm_config).map_err(|e| e.to_string())?;
        api.submit(Call::Create(config), now);
        Ok(Self {
            dir,
            run_dir: prepared.run_dir,
            record,
            _lock: prepared.lock,
            phase: Phase::Starting,
            vmm,
            lease,
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
            trim_at: now + TRIM_PERIOD,
            lock_memory_at: Some(now + LOCK_MEMORY_DELAY),
        })
    }
}

type Launched = (Vmm, Console, std::io::PipeReader, VmmLog);

fn launch(
    dir: &VmDir,
    spec: &RunSpec,
    api: UnixListener,
    console: UnixListener,
    lock: &SharedLock,
) -> std::io::Result<Launched> {
    let (console, FarEnd { input, output }) = Console::new(console, dir.console_log())?;
    let (vmm_log, stderr) = VmmLog::create(dir.file("vmm.log"))?;
    let (events, events_writer) = std::io::pipe()?;
    set_nonblocking(&events)?;
    let vmm = Vmm::launch(Launch {
        binary: &spec.vmm_binary,
        api: api.as_fd(),
        events: events_writer.as_fd(),
        lock: lock.as_fd(),
        terminal_in: input,
        terminal_out: output,
        stderr,
        user: spec.vmm_user,
    })?;
    // The copies of `api` and `events_writer` end here; with them open, a dead VMM would look alive.
    Ok((vmm, console, events, vmm_log))
}

fn process_id(pid: u32) -> ProcessId {
    ProcessId { pid, start_ticks: host::process_start_ticks(pid).unwrap_or(0) }
}
