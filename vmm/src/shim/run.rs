//! One run of one VM, from the fork of the VMM to the record of its exit: the shim's loop. Events and
//! answers become inputs of [`Phase::next`]; what it says is done here.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::signalfd::SignalFd;

use super::cgroup;
use super::console::{Console, FarEnd, set_nonblocking};
use super::control::{Control, Demand, PROBE_PATIENCE};
use super::poll::{PollSet, Token};
use super::protocol::{Status, Unanswered, VERSION};
use super::reset_counter::ResetCounter;
use super::setup::{self, note};
use super::vmm_log::VmmLog;
use super::{API_SOCKET, CONSOLE_SOCKET, CONTROL_SOCKET, Prepared, Refusal};
use crate::cloud_hypervisor::client::{self, Answer, Call, Client, State};
use crate::cloud_hypervisor::events::Parser;
use crate::cloud_hypervisor::process::{Launch, Vmm};
use crate::durable::Sync;
use crate::host;
use crate::hypervisor::ExitCause;
use crate::vm_dir::{ExitRecord, FORMAT, Lock, ProcessId, ShimRecord, VmDir};
use crate::vm_state::{Action, Input, Phase};

/// A call is reported as unanswered after this long.
const SLOW_CALL: Duration = Duration::from_secs(1);
/// The VMM's word is fresh for this long.
const FRESH: Duration = Duration::from_secs(1);
/// From SIGTERM to SIGKILL of a VMM that is being ended: time to write its disks.
const TERM_PATIENCE: Duration = Duration::from_secs(3);
/// How long a guest may take to power off when the host goes down.
const HOST_STOP_GRACE: Duration = Duration::from_secs(60);
/// From the loss of the API connection during a start to giving the start up, unless the VMM's exit explains
/// it first.
const LOST_PATIENCE: Duration = Duration::from_secs(2);
/// How often the VMM's log is looked at.
const TRIM_PERIOD: Duration = Duration::from_secs(30);

/// A run under way.
pub struct Run {
    dir: VmDir,
    run_dir: PathBuf,
    record: ShimRecord,
    /// Held by the VMM too.
    _lock: Lock,
    phase: Phase,
    vmm: Vmm,
    api: Client,
    events: Option<std::io::PipeReader>,
    event_parser: Parser,
    console: Console,
    control: Control,
    signals: SignalFd,
    vmm_log: VmmLog,
    resets: ResetCounter,
    grace: Duration,
    grace_until: Option<Instant>,
    kill_at: Option<Instant>,
    /// When a start whose connection broke is given up.
    lost_at: Option<Instant>,
    last_word: Option<Instant>,
    trim_at: Instant,
}

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
        };
        // A run that was lost with its host may begin again under the same number.
        dir.clear_exit().map_err(|e| format!("exit.json cannot be removed: {e}"))?;
        // From here on the run counts as begun.
        dir.set_shim(&record, Sync::Yes).map_err(|e| format!("shim.json cannot be written: {e}"))?;

        let launched = launch(&dir, &prepared.spec, prepared.api, prepared.console, &prepared.lock);
        let (vmm, console, events, vmm_log) = launched.map_err(|reason| {
            let reason = format!("Cloud Hypervisor cannot be started: {reason}");
            record_exit(&dir, &record, ExitCause::Failed { reason: reason.clone() });
            clean_up(&prepared.run_dir, &record);
            reason
        })?;
        record.vmm = Some(process_id(vmm.pid()));
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
            api,
            events: Some(events),
            event_parser: Parser::default(),
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
        })
    }

    /// Runs until the VMM is gone and its end is on disk. The lock goes with the process, so whoever finds
    /// it free finds no shim either.
    pub(super) fn serve(mut self) -> ! {
        while !matches!(self.phase, Phase::Ended(_)) {
            for token in self.wait() {
                self.handle(token);
            }
            self.keep_time();
        }
        self.finish();
        std::process::exit(0)
    }

    fn wait(&self) -> Vec<Token> {
        let mut set = PollSet::default();
        set.add(Token::Signal, self.signals.as_fd(), true, false);
        set.add(Token::VmmExit, self.vmm.exit_fd(), true, false);
        if let Some(events) = &self.events {
            set.add(Token::Events, events.as_fd(), true, false);
        }
        if let Some((connection, write)) = self.api.interest() {
            set.add(Token::Api, connection, true, write);
        }
        self.console.register(&mut set);
        self.control.register(&mut set);
        let deadlines =
            [self.grace_until, self.kill_at, self.lost_at, self.control.deadline(), Some(self.trim_at)];
        let now = Instant::now();
        let timeout = match deadlines.into_iter().flatten().min() {
            _ if self.api.is_stuck() => Some(Duration::ZERO),
            next => next.map(|at| at.saturating_duration_since(now)),
        };
        set.wait(timeout)
    }

    fn handle(&mut self, token: Token) {
        match token {
            Token::Signal => {
                if matches!(self.signals.read_signal(), Ok(Some(_))) {
                    self.grace = HOST_STOP_GRACE;
                    self.step(Input::HostStopping);
                }
            }
            Token::VmmExit => self.vmm_exited(),
            Token::Events => self.read_events(),
            Token::Api => self.pump_api(),
            Token::Terminal => self.console.serve_terminal(),
            Token::ConsoleListener => self.console.accept(),
            Token::ConsoleClient(id) => self.console.serve_client(id),
            Token::ControlListener => self.control.accept(),
            Token::ControlClient(id) => self.serve_control(id),
        }
    }

    fn keep_time(&mut self) {
        let now = Instant::now();
        if self.api.is_stuck() {
            self.pump_api();
        }
        if self.grace_until.is_some_and(|at| now >= at) {
            self.grace_until = None;
            self.step(Input::GraceOver);
        }
        if self.kill_at.is_some_and(|at| now >= at) {
            self.kill_at = None;
            self.vmm.signal(libc::SIGKILL);
        }
        if self.lost_at.is_some_and(|at| now >= at) {
            self.lost_at = None;
            let reason = "Cloud Hypervisor broke its API connection while the VM was being started";
            self.step(Input::StartFailed { reason: reason.to_owned() });
        }
        if self.control.deadline().is_some_and(|at| now >= at) {
            let status = self.status(now);
            self.control.answer_probes(&status, now, false);
        }
        if now >= self.trim_at {
            self.trim_at = now + TRIM_PERIOD;
            self.vmm_log.trim();
        }
    }

    /// Feeds the table and does what it says.
    fn step(&mut self, input: Input) {
        let before = self.phase.clone();
        let (phase, action) = before.clone().next(input);
        self.phase = phase;
        let now = Instant::now();
        match action {
            Action::Nothing | Action::RecordExit => {}
            Action::PressPowerButton => {
                self.api.submit(Call::PowerButton, now);
                self.grace_until = Some(now + self.grace);
            }
            Action::EndVmm => {
                self.vmm.signal(libc::SIGTERM);
                self.kill_at = Some(now + TERM_PATIENCE);
            }
        }
        if self.phase != before && !matches!(self.phase, Phase::Ended(_)) {
            let status = self.status(now);
            self.control.publish(&status);
        }
    }

    fn serve_control(&mut self, id: u64) {
        let now = Instant::now();
        let status = self.status(now);
        for demand in self.control.serve_client(id, &status, now) {
            match demand {
                Demand::Probe => self.probe(now),
                Demand::Kill => self.step(Input::Kill),
                Demand::Stop { timeout } => self.stop(timeout, now),
            }
        }
    }

    /// A second request may shorten the time the guest has, never lengthen it.
    fn stop(&mut self, timeout: Duration, now: Instant) {
        match &mut self.grace_until {
            Some(until) => *until = (*until).min(now + timeout),
            None => {
                self.grace = timeout;
                self.step(Input::Stop);
            }
        }
    }

    /// Asks the VMM how it is, where its answer means something and is neither fresh nor long overdue.
    fn probe(&mut self, now: Instant) {
        let fresh = self.last_word.is_some_and(|at| now.saturating_duration_since(at) < FRESH);
        let overdue = self.api.unanswered(now).is_some_and(|(_, waited)| waited >= PROBE_PATIENCE);
        let asks = matches!(self.phase, Phase::Running | Phase::Paused | Phase::Stopping(_));
        if fresh || overdue || !asks {
            let status = self.status(now);
            self.control.answer_probes(&status, now, true);
        } else {
            self.api.submit(Call::Info, now);
        }
    }

    fn pump_api(&mut self) {
        let now = Instant::now();
        while let Some(Answer { call, result }) = self.api.pump(now) {
            if result.is_ok() {
                self.last_word = Some(now);
            }
            match (call, result) {
                (Call::Create(_), Ok(_)) => self.api.submit(Call::Boot, now),
                (Call::Boot, Ok(_)) => self.step(Input::Booted),
                (call @ (Call::Create(_) | Call::Boot), Err(client::CallError::Refused(why))) => {
                    let reason = format!("Cloud Hypervisor refused {}: {why}", call.name());
                    self.step(Input::StartFailed { reason });
                }
                (Call::Info, result) => {
                    if let Some(state) = result.ok().and_then(|body| client::state_of(&body)) {
                        self.observed(state);
                    }
                    let status = self.status(now);
                    self.control.answer_probes(&status, now, true);
                }
                // Mostly the process is going, and its exit says more.
                (call @ (Call::Create(_) | Call::Boot), Err(e)) => {
                    note(&format!("{}: {e}", call.name()));
                    self.lost_at = Some(now + LOST_PATIENCE);
                }
                (Call::PowerButton, Err(e)) => note(&format!("vm.power-button: {e}")),
                (Call::PowerButton, Ok(_)) => {}
            }
        }
    }

    /// Takes the VMM's own word for the state of the VM.
    fn observed(&mut self, state: State) {
        match state {
            State::Running => self.step(Input::Resumed),
            State::Paused => self.step(Input::Paused),
            // With --no-shutdown a VM that was on and is `Created` again has powered itself off.
            State::Created | State::Shutdown => self.step(Input::GuestOff),
            State::BreakPoint => {}
        }
    }

    fn read_events(&mut self) {
        let mut buffer = [0; 4096];
        let Some(events) = &mut self.events else { return };
        let read = match events.read(&mut buffer) {
            Ok(n) if n > 0 => n,
            Err(e)
                if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted) =>
            {
                return;
            }
            Ok(_) | Err(_) => {
                self.events = None;
                return;
            }
        };
        let now = Instant::now();
        for event in self.event_parser.push(&buffer[..read]) {
            match (event.source.as_str(), event.event.as_str()) {
                ("vm", "rebooting") => {
                    if let Some(reason) = self.resets.count(now) {
                        self.step(Input::ResetLoop { reason });
                    }
                    self.vmm_log.trim();
                }
                ("vm", "shutdown" | "paused" | "resumed") if self.phase != Phase::Starting => {
                    self.api.submit(Call::Info, now);
                }
                _ => {}
            }
        }
    }

    fn vmm_exited(&mut self) {
        let reason = match self.vmm.try_wait() {
            Ok(None) => return,
            Ok(Some(status)) => describe_exit(status, &self.vmm_log.last_words()),
            Err(e) => format!("Cloud Hypervisor ended, its exit status is lost: {e}"),
        };
        // At host shutdown the VMM may be told to end a moment before the shim is.
        if matches!(self.signals.read_signal(), Ok(Some(_))) {
            self.step(Input::HostStopping);
        }
        self.step(Input::VmmExited { reason });
    }

    fn status(&self, now: Instant) -> Status {
        let unanswered = self.api.unanswered(now).filter(|(_, waited)| *waited >= SLOW_CALL);
        Status {
            v: VERSION,
            epoch: self.record.epoch,
            run: self.record.run,
            phase: self.phase.clone(),
            vmm_pid: self.vmm.pid(),
            resets: self.resets.total(),
            unanswered: unanswered.map(|(call, waited)| Unanswered {
                call: call.to_owned(),
                for_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
            }),
            error: None,
        }
    }

    fn finish(&mut self) {
        self.console.drain();
        if let Phase::Ended(cause) = &self.phase {
            record_exit(&self.dir, &self.record, cause.clone());
        }
        clean_up(&self.run_dir, &self.record);
        let status = self.status(Instant::now());
        self.control.publish(&status);
        self.control.answer_probes(&status, Instant::now(), true);
    }
}

type Launched = (Vmm, Console, std::io::PipeReader, VmmLog);

fn launch(
    dir: &VmDir,
    spec: &crate::cloud_hypervisor::config::RunSpec,
    api: std::os::unix::net::UnixListener,
    console: std::os::unix::net::UnixListener,
    lock: &Lock,
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

fn describe_exit(status: std::process::ExitStatus, last_words: &str) -> String {
    let how = match (status.code(), status.signal()) {
        (Some(0), _) => "exit code 0: a vCPU crashed, or somebody ended the process".to_owned(),
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(libc::SIGSYS)) => {
            "signal 31: it made a system call its seccomp filter forbids".to_owned()
        }
        (None, Some(libc::SIGKILL)) => "signal 9: somebody or the OOM killer killed it".to_owned(),
        (None, signal) => format!("signal {}", signal.unwrap_or(0)),
    };
    match last_words {
        "" => format!("Cloud Hypervisor ended by itself ({how})"),
        words => format!("Cloud Hypervisor ended by itself ({how}); its last words: {words}"),
    }
}

/// A full disk must not lose how the run ended, so it is tried for a while; the VMM is gone by now.
fn record_exit(dir: &VmDir, record: &ShimRecord, cause: ExitCause) {
    let ended_at_ms = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
    let exit = ExitRecord {
        version: FORMAT,
        epoch: record.epoch,
        run: record.run,
        boot_id: record.boot_id,
        cause,
        ended_at_ms,
    };
    for _ in 0..10 {
        match dir.set_exit(&exit) {
            Ok(()) => return,
            Err(e) => note(&format!("exit.json cannot be written: {e}")),
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn clean_up(run_dir: &std::path::Path, record: &ShimRecord) {
    for socket in [&record.api_socket, &record.control_socket, &record.console_socket] {
        let _ = std::fs::remove_file(socket);
    }
    let _ = std::fs::remove_dir(run_dir);
    if let Some(group) = &record.cgroup {
        cgroup::leave(group);
    }
}
