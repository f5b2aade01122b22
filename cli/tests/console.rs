//! `holm vm console` with a terminal and with pipes, against a console that echoes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::pty::openpty;
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, Termios, tcgetattr};
use nix::unistd::Pid;

const LIMIT: Duration = Duration::from_secs(20);

/// Upgrades one request, greets, and echoes until `q`.
fn echoing_console() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("holm connects");
        let head = read_head(&mut stream);
        assert!(head.starts_with("GET /v1/vms/web/console HTTP/1.1\r\n"), "{head}");
        assert!(head.to_lowercase().contains("upgrade: holm-console\r\n"), "{head}");
        let answer =
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: holm-console\r\n\r\nhello ";
        stream.write_all(answer.as_bytes()).expect("holm reads");
        let mut byte = [0];
        while stream.read_exact(&mut byte).is_ok() && byte[0] != b'q' {
            stream.write_all(&byte).expect("holm reads");
        }
    });
    address
}

fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a whole request comes");
        head.push(byte[0]);
    }
    String::from_utf8(head).expect("a head is text")
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn console(address: SocketAddr) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holm"));
    command.args(["vm", "console", "web", "--endpoint", &address.to_string()]).env_clear();
    command
}

#[test]
fn pipes_carry_bytes_both_ways_until_the_guest_ends() {
    let mut command = console(echoing_console());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Running(command.spawn().expect("holm can be started"));
    // Ctrl-] is a byte like any other when nobody types it.
    child.0.stdin.take().expect("it is piped").write_all(b"ping\x1d\x03q").expect("holm reads");
    let mut said = Vec::new();
    child.0.stdout.take().expect("it is piped").read_to_end(&mut said).expect("holm writes");
    let mut errors = String::new();
    child.0.stderr.take().expect("it is piped").read_to_string(&mut errors).expect("holm writes");
    assert_eq!((said.as_slice(), errors.as_str()), (b"hello ping\x1d\x03".as_slice(), ""));
    assert!(child.0.wait().expect("it ends").success());
}

/// A terminal, with a thread that reads what is shown on it.
struct Terminal {
    master: std::fs::File,
    slave: OwnedFd,
    shown: mpsc::Receiver<u8>,
}

impl Terminal {
    fn new() -> Self {
        let pty = openpty(None, None).expect("a terminal can be made");
        let master = std::fs::File::from(pty.master);
        let mut reading = master.try_clone().expect("it can be shared");
        let (sender, shown) = mpsc::channel();
        thread::spawn(move || {
            let mut byte = [0];
            while reading.read_exact(&mut byte).is_ok() && sender.send(byte[0]).is_ok() {}
        });
        Self { master, slave: pty.slave, shown }
    }

    fn end(&self) -> Stdio {
        Stdio::from(self.slave.try_clone().expect("it can be shared"))
    }

    fn settings(&self) -> Termios {
        tcgetattr(self.slave.as_fd()).expect("it is a terminal")
    }

    fn wait_for(&self, text: &str) {
        let mut seen = String::new();
        while !seen.contains(text) {
            match self.shown.recv_timeout(LIMIT) {
                Ok(byte) => seen.push(char::from(byte)),
                Err(_) => panic!("waited for {text:?}, saw {seen:?}"),
            }
        }
    }
}

/// A console on a terminal, connected and raw.
fn attached() -> (Terminal, Termios, Running) {
    let terminal = Terminal::new();
    let before = terminal.settings();
    assert!(before.local_flags.contains(LocalFlags::ICANON | LocalFlags::ECHO));
    let mut command = console(echoing_console());
    command.stdin(terminal.end()).stdout(terminal.end()).stderr(terminal.end());
    let child = Running(command.spawn().expect("holm can be started"));
    terminal.wait_for("hello ");
    let raw = terminal.settings();
    assert!(!raw.local_flags.intersects(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG));
    (terminal, before, child)
}

#[test]
fn ctrl_bracket_detaches_and_the_terminal_is_as_before() {
    let (mut terminal, before, mut child) = attached();
    // Ctrl-C is the guest's.
    terminal.master.write_all(b"ping\x03").expect("holm reads");
    terminal.wait_for("ping\x03");
    terminal.master.write_all(b"\x1d").expect("holm reads");
    assert!(child.0.wait().expect("it ends").success());
    terminal.wait_for("detached");
    assert_eq!(terminal.settings(), before);
}

#[test]
fn the_end_of_the_guest_ends_it_and_the_terminal_is_as_before() {
    let (mut terminal, before, mut child) = attached();
    terminal.master.write_all(b"q").expect("holm reads");
    assert!(child.0.wait().expect("it ends").success());
    assert_eq!(terminal.settings(), before);
}

#[test]
fn a_signal_ends_it_and_the_terminal_is_as_before() {
    let (terminal, before, mut child) = attached();
    let pid = Pid::from_raw(i32::try_from(child.0.id()).expect("process ids fit"));
    kill(pid, Signal::SIGTERM).expect("it runs");
    child.0.wait().expect("it ends");
    assert_eq!(terminal.settings(), before);
}
