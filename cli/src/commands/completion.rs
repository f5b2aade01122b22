//! `holm completion`: a completion script, made from the same definitions as the command line.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::error::Error;
use crate::output::print_bytes;

pub fn run(shell: Shell) -> Result<(), Error> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "holm", &mut script);
    print_bytes(&script)
}
