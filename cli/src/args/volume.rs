//! `holm volume …` as typed.

use clap::{Args, Subcommand, ValueEnum};

use super::project::ListOfProject;

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Makes storage that every node reaches known as a volume; VMs are given it when they are created (`holm vm
    /// create --volume`). Its data is never touched.
    Create(Create),
    /// Lists the volumes.
    List(ListOfProject),
    /// Shows a volume and the VMs that have it.
    Show(Target),
    /// Forgets a volume that no VM has; its data stays.
    Delete(Target),
}

#[derive(Debug, Args)]
pub struct Target {
    /// Name or id.
    pub volume: String,
}

#[derive(Debug, Args)]
pub struct Create {
    /// 1 to 63 letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Where it is, the same storage on every node: `/dev/disk/by-id/…`.
    #[arg(long)]
    pub path: String,
    /// Nobody writes to it: any number of VMs may have it, and it needs no lock.
    #[arg(long, conflicts_with = "lock")]
    pub read_only: bool,
    /// What keeps a writer out that lost the volume and does not know it.
    #[arg(long, value_enum, default_value_t = Lock::None)]
    pub lock: Lock,
}

/// What keeps an old writer out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Lock {
    /// Nothing: for pinned VMs.
    None,
    /// A SCSI-3 persistent reservation of the disk itself: failover VMs need it.
    PersistentReservation,
}
