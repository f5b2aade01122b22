//! `holm dev guest`: has the daemon write one of its built-in test guests.

use clap::ValueEnum;

use super::{daemon, say};
use crate::args::dev::Guest;
use crate::error::Error;
use crate::output::Output;

pub async fn run(output: &Output, typed: &Guest) -> Result<(), Error> {
    let variant = typed.variant.to_possible_value().expect("no choice is hidden");
    let holmd = daemon::find()?;
    let args =
        ["test-guest".as_ref(), "--variant".as_ref(), variant.get_name().as_ref(), typed.file.as_os_str()];
    daemon::run(&holmd, args).await?;
    let file = typed.file.display();
    say(output, &format!("{file} written; boot it: holm image import {file} --name guest"))?;
    say(output, "it ignores the power button: `holm vm stop --force` saves the wait for it")
}
