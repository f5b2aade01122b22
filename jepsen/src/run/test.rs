//! The tests there are, by the names that the command line takes.

use clap::ValueEnum;

/// The tests there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Test {
    /// Create and delete VMs while random nodes are killed.
    VmLifecycle,
    /// Read through every node while leaders are killed and come back at once.
    StaleRead,
    /// Read, write and compare-and-set metadata; each key must be linearizable.
    Register,
    /// Transactions that read and append to several lists; strictly serializable.
    Append,
    /// Create more VMs at once than quota and capacity allow.
    Limits,
    /// VMs that may fail over, and pinned ones, while their nodes are hit; needs real guests.
    Failover,
    /// Write so much while a node is away that it needs a snapshot when it is back; brings its own faults.
    CatchUp,
    /// Bring a host back, cut off, with a replica that has not seen what runs there; needs real guests.
    LaggingHost,
    /// Bring a host back, cut off, with a replica that has not seen that it gave a VM back; needs real guests.
    GivenBack,
    /// Lose the store of a node that alone knows, with one other, what was acknowledged; brings its own faults.
    Wiped,
}

impl Test {
    /// As the command line takes it.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Whether it always needs nodes with networks and disks of their own.
    pub fn is_isolated(self) -> bool {
        matches!(self, Self::CatchUp | Self::Wiped | Self::LaggingHost | Self::GivenBack)
    }

    /// Faults that the project's promise is measured by.
    pub fn specified_rounds(self) -> u64 {
        match self {
            Self::VmLifecycle => 30,
            Self::StaleRead => 20,
            Self::Register | Self::Append | Self::Limits | Self::Failover => 10,
            Self::LaggingHost => 6,
            Self::CatchUp | Self::GivenBack => 2,
            Self::Wiped => 1,
        }
    }
}
