//! One run of one VM, from the fork of the VMM to the record of its exit: the shim's loop. Events and
//! answers become inputs of [`Phase::next`]; what it says is done here.

use std::io::Read;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signalfd::SignalFd;

use super::console::Console;
use super::control::{Control, Demand, PROBE_PATIENCE};
use super::ending::{clean_up, describe_exit, exit_of, record_exit};
use super::lease_guard::LeaseGuard;
use super::poll::{PollSet, Token};
use super::protocol::{Status, Unanswered, VERSION};
use super::reset_counter::ResetCounter;
use super::scribe::Scribe;
use super::setup::{self, note};
use super::vmm_log::VmmLog;
use crate::cloud_hypervisor::client::{self, Answer, Call, Client, State};
use crate::cloud_hypervisor::events::Parser;
use crate::cloud_hypervisor::process::Vmm;
use crate::vm_dir::{SharedLock, ShimRecord, VmDir};
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
/// From the start to the locking of memory, which reads the whole program from disk: not in the way of the
/// guest's first byte. A run that is bound to a lease does not wait so long: a kill must not wait for a disk.
pub(super) const LOCK_MEMORY_DELAY: Duration = Duration::from_secs(1);

/// A run under way.
pub struct Run {
    pub(super) dir: VmDir,
    pub(super) run_dir: PathBuf,
    pub(super) record: ShimRecord,
    /// Held by the VMM too.
    pub(super) _lock: SharedLock,
    pub(super) phase: Phase,
    pub(super) vmm: Vmm,
    pub(super) lease: LeaseGuard,
    pub(super) scribe: Scribe,
    pub(super) api: Client,
    pub(super) events: Option<std::io::PipeReader>,
    pub(super) event_parser: Parser,
    /// The guest did something before the answer to `vm.boot` was read.
    pub(super) news_at_start: bool,
    pub(super) console: Console,
    pub(super) control: Control,
    pub(super) signals: SignalFd,
    pub(super) vmm_log: VmmLog,
    pub(super) resets: ResetCounter,
    pub(super) grace: Duration,
    pub(super) grace_until: Option<Instant>,
    pub(super) kill_at: Option<Instant>,
    /// When a start whose connection broke is given up.
    pub(super) lost_at: Option<Instant>,
    pub(super) last_word: Option<Instant>,
    /// When memory is to be locked; none once it is.
    pub(super) lock_memory_at: Option<Instant>,
}

impl Run {
    /// Runs until the VMM is gone and its end is on disk. The lock goes with the process, so whoever finds
    /// it free finds no shim either.
    pub(super) fn serve(mut self) -> ! {
        while !matches!(self.phase, Phase::Ended(_)) {
            self.turn();
        }
        self.finish();
        std::process::exit(0)
    }

    fn turn(&mut self) {
        let ready = self.wait();
        // Before anything else: this process, or its host, may have slept meanwhile.
        self.end_with_lease();
        for token in ready {
            self.handle(token);
        }
        self.keep_time();
    }

    fn wait(&self) -> Vec<Token> {
        let mut set = PollSet::default();
        self.lease.register(&mut set);
        set.add(Token::Signal, self.signals.as_fd(), true, false);
        if !matches!(self.phase, Phase::Ended(_)) {
            set.add(Token::VmmExit, self.vmm.exit_fd(), true, false);
        }
        self.scribe.register(&mut set);
        if let Some(events) = &self.events {
            set.add(Token::Events, events.as_fd(), true, false);
        }
        if let Some((connection, write)) = self.api.interest() {
            set.add(Token::Api, connection, true, write);
        }
        self.console.register(&mut set);
        self.control.register(&mut set);
        let deadlines =
            [self.grace_until, self.kill_at, self.lost_at, self.lock_memory_at, self.control.deadline()];
        let now = Instant::now();
        let timeout = match deadlines.into_iter().flatten().min() {
            _ if self.api.is_stuck() => Some(Duration::ZERO),
            next => next.map(|at| at.saturating_duration_since(now)),
        };
        set.wait(timeout)
    }

    fn handle(&mut self, token: Token) {
        match token {
            // Looked at after each wait.
            Token::Lease => {}
            Token::Scribe => self.scribe.serve(),
            Token::Signal => {
                if matches!(self.signals.read_signal(), Ok(Some(_))) {
                    self.grace = HOST_STOP_GRACE;
                    self.step(Input::HostStopping);
                }
            }
            Token::VmmExit => self.vmm_exited(),
            Token::Events => self.read_events(),
            Token::Api => self.pump_api(),
            Token::Terminal => self.console.serve_terminal(&mut self.scribe),
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
        if self.lock_memory_at.is_some_and(|at| now >= at) {
            self.lock_memory_at = None;
            setup::lock_memory();
        }
    }

    /// Feeds the table and does what it says.
    pub(super) fn step(&mut self, input: Input) {
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
            Action::KillVmm => self.vmm.signal(libc::SIGKILL),
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
                Demand::Arm { client, lease } => {
                    let error = self.arm(lease).err();
                    let status = Status { error, ..self.status(now) };
                    self.control.answer(client, &status);
                }
                Demand::Disarm { client } => {
                    let error = self.disarm().err();
                    let status = Status { error, ..self.status(now) };
                    self.control.answer(client, &status);
                }
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
        if matches!(self.phase, Phase::Ended(_)) {
            // Answered by the end of this process, or when the patience of who asks is over.
            return;
        }
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
                (Call::Boot, Ok(_)) => {
                    self.step(Input::Booted);
                    if std::mem::take(&mut self.news_at_start) {
                        self.api.submit(Call::Info, now);
                    }
                }
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
                }
                // Before the boot is answered, `vm.info` would tell of a VM that was never on.
                ("vm", "shutdown" | "paused" | "resumed") if self.phase == Phase::Starting => {
                    self.news_at_start = true;
                }
                ("vm", "shutdown" | "paused" | "resumed") => self.api.submit(Call::Info, now),
                _ => {}
            }
        }
    }

    fn vmm_exited(&mut self) {
        let exit = match self.vmm.try_wait() {
            Ok(None) => return,
            Ok(Some(status)) => Ok(status),
            Err(e) => Err(e),
        };
        // At host shutdown the VMM may be told to end a moment before the shim is.
        if matches!(self.signals.read_signal(), Ok(Some(_))) {
            self.step(Input::HostStopping);
        }
        let reason = match exit {
            // It was ended; what it said last, on a disk that may hang, explains nothing.
            _ if matches!(self.phase, Phase::Ending(_) | Phase::Stopping(_)) => String::new(),
            Ok(status) => describe_exit(status, &self.vmm_log.last_words()),
            Err(e) => format!("Cloud Hypervisor ended, its exit status is lost: {e}"),
        };
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
            armed: self.lease.armed(),
            resets: self.resets.total(),
            unanswered: unanswered.map(|(call, waited)| Unanswered {
                call: call.to_owned(),
                for_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
            }),
            error: None,
        }
    }

    /// Has the end written down, answering all the while: the disk may hang.
    fn finish(&mut self) {
        self.console.drain(&mut self.scribe);
        self.lease.disarm();
        if let Phase::Ended(cause) = &self.phase {
            let exit = exit_of(&self.record, cause.clone());
            self.scribe.end(exit.clone());
            let written = loop {
                match self.scribe.ended() {
                    Some(written) => break written,
                    None => self.turn(),
                }
            };
            if !written {
                record_exit(&self.dir, &exit);
            }
        }
        clean_up(&self.run_dir, &self.record);
        let status = self.status(Instant::now());
        self.control.publish(&status);
        self.control.answer_probes(&status, Instant::now(), true);
    }
}
