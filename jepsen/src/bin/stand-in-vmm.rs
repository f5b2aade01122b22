//! Stands in for Cloud Hypervisor where a test needs more processes than the host has memory for guests: takes the
//! same command line and answers the same calls of the API, and runs nothing. Shims, daemons and witnesses cannot
//! tell it from a VMM whose guest is silent. Of tests only: the product does not know of it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{FromRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};

/// What a VM is, as `vm.info` names it.
type State = &'static str;

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    if args.iter().any(|arg| arg == "--version") {
        println!("cloud-hypervisor v53.0.0");
        return Ok(());
    }
    let Some(api) = descriptor(&args, "--api-socket") else {
        return Err(io::Error::other("--api-socket fd=N is needed: a shim starts this"));
    };
    // SAFETY: whoever started this gave it the descriptor, and nothing else here uses it.
    let api = unsafe { UnixListener::from_raw_fd(api) };
    let mut state = "Created";
    // One client at a time: a shim has one connection.
    for connection in api.incoming() {
        serve(connection?, &mut state)?;
    }
    Ok(())
}

/// The number in `<name> fd=<number>`.
fn descriptor(args: &[String], name: &str) -> Option<RawFd> {
    let at = args.iter().position(|arg| arg == name)?;
    args.get(at + 1)?.strip_prefix("fd=")?.parse().ok()
}

/// Answers calls until the client goes.
fn serve(mut connection: UnixStream, state: &mut State) -> io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    while let Some(call) = next_call(&mut reader)? {
        let answer = match call.as_str() {
            "vm.info" => {
                let body = format!("{{\"state\":\"{state}\"}}");
                format!("HTTP/1.1 200 \r\nContent-Length: {}\r\n\r\n{body}", body.len())
            }
            "vm.boot" => {
                *state = "Running";
                "HTTP/1.1 204 \r\n\r\n".to_owned()
            }
            // It has no guest that could ignore the power button.
            "vm.power-button" => std::process::exit(0),
            _ => "HTTP/1.1 204 \r\n\r\n".to_owned(),
        };
        connection.write_all(answer.as_bytes())?;
    }
    Ok(())
}

/// The name of the next call, its body read and dropped; none when the client has gone.
fn next_call(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let (mut call, mut body) = (None, 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        match line.strip_prefix("content-length:") {
            Some(length) => body = length.trim().parse().map_err(io::Error::other)?,
            None if call.is_none() => {
                let path = line.split(' ').nth(1).unwrap_or_default();
                call = path.strip_prefix("/api/v1/").map(str::to_owned);
            }
            None => {}
        }
    }
    io::copy(&mut reader.take(body), &mut io::sink())?;
    Ok(Some(call.unwrap_or_default()))
}
