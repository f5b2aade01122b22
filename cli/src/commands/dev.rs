//! `holm dev …`: a cluster of real daemons on this machine's loopback address. Its directory holds
//! `dev.json` (which daemons, which addresses), and a directory a node with data, log and sockets.

mod daemon;
mod down;
mod guest;
mod lock;
mod process;
mod record;
mod status;
mod up;

use std::path::PathBuf;

use crate::args::dev::{Dir, Verb};
use crate::args::{Format, Global};
use crate::error::Error;
use crate::output::Output;

pub async fn run(global: &Global, verb: Verb) -> Result<(), Error> {
    let output = Output::new(global.output);
    match verb {
        Verb::Up(typed) => Box::pin(up::run(&output, &typed)).await,
        Verb::Status(typed) => status::run(&output, &typed).await,
        Verb::Down(typed) => Box::pin(down::run(&output, &typed)).await,
        Verb::Guest(typed) => guest::run(&output, &typed).await,
    }
}

/// The local cluster's directory, absolute.
fn directory(typed: &Dir) -> Result<PathBuf, Error> {
    let from_env = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let dir = match &typed.dir {
        Some(dir) if !dir.as_os_str().is_empty() => dir.clone(),
        _ => from_env("XDG_STATE_HOME")
            .or_else(|| from_env("HOME").map(|home| home.join(".local/state")))
            .ok_or_else(|| Error::usage("neither HOME nor XDG_STATE_HOME is set", "give --dir"))?
            .join("holm-dev"),
    };
    std::path::absolute(&dir).map_err(Error::file("use", dir))
}

/// Says something to people; programs get the records.
fn say(output: &Output, text: &str) -> Result<(), Error> {
    if output.format == Format::Table { crate::output::print(&format!("{text}\n")) } else { Ok(()) }
}
