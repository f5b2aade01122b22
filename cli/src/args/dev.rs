//! `holm dev …` as typed.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Starts a cluster of daemons on this machine's loopback address; repeat it to start what is missing.
    Up(Up),
    /// Shows the local cluster's daemons.
    Status(Dir),
    /// Deletes the local cluster's VMs, stops its daemons and removes its data.
    Down(Down),
    /// Writes a tiny guest to boot: `holm image import` takes it.
    ///
    /// These guests ignore the power button: `holm vm stop --force` and `holm vm reboot --force` save the
    /// wait for it.
    Guest(Guest),
}

#[derive(Debug, Args)]
pub struct Dir {
    /// Where the local cluster lives; without it, `holm-dev` under $XDG_STATE_HOME or ~/.local/state.
    #[arg(long, value_name = "DIR", env = "HOLM_DEV_DIR", hide_env_values = true)]
    pub dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Up {
    /// How many daemons; without it, those there are, or 3.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=32))]
    pub nodes: Option<u16>,
    #[command(flatten)]
    pub dir: Dir,
    /// Which hypervisor the nodes drive; without it, the one they have, or `auto`.
    #[arg(long, value_enum)]
    pub hypervisor: Option<Hypervisor>,
}

/// Which hypervisor the nodes drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(clippy::enum_variant_names, reason = "Cloud Hypervisor is a name")]
pub enum Hypervisor {
    /// Cloud Hypervisor where it works, else the simulated one.
    #[default]
    Auto,
    /// In memory: no guest runs.
    Simulated,
    /// Real guests, or none.
    CloudHypervisor,
}

impl Hypervisor {
    /// As it is typed.
    pub fn name(self) -> String {
        self.to_possible_value().expect("no choice is hidden").get_name().into()
    }
}

#[derive(Debug, Args)]
pub struct Down {
    #[command(flatten)]
    pub dir: Dir,
    /// Keep the data, so that `holm dev up` goes on with the same cluster; its VMs are left alone too.
    #[arg(long)]
    pub keep: bool,
}

#[derive(Debug, Args)]
pub struct Guest {
    /// Where to write it.
    pub file: PathBuf,
    /// What it does.
    #[arg(long, value_enum, default_value_t = Variant::Banner)]
    pub variant: Variant,
}

/// What the test guest does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Variant {
    /// Prints one line on its console and halts.
    Banner,
    /// Echoes its console's input and powers off on `q`; polls, so it keeps a CPU busy.
    Echo,
    /// Powers off at once.
    Poweroff,
    /// Resets for ever.
    Reset,
    /// Prints for ever.
    Flood,
}
