//! Typed identifiers and counters. Ids are made by the proposer, never by `apply`, so that every
//! replica holds the same ones; counters belong to the replicated state.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(s: &str) -> Result<Self, Self::Err> {
                Uuid::from_str(s).map(Self)
            }
        }
    };
}

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = std::num::ParseIntError;
            fn from_str(s: &str) -> Result<Self, Self::Err> {
                s.parse().map(Self)
            }
        }
    };
}

uuid_id!(
    /// A cluster; written into every node's identity so that a node never talks to a stranger.
    ClusterId
);
uuid_id!(
    /// A VM, for its whole life, whatever node it is on.
    VmId
);
uuid_id!(
    /// A flavor.
    FlavorId
);
uuid_id!(
    /// An image record; its bytes are addressed by their SHA-256.
    ImageId
);
uuid_id!(
    /// A host aggregate.
    AggregateId
);
uuid_id!(
    /// A server group.
    GroupId
);
uuid_id!(
    /// A shared volume.
    VolumeId
);
uuid_id!(
    /// A project; that of `default` is nil.
    ProjectId
);
uuid_id!(
    /// One run of one daemon process; a leader that restarted is another incarnation of the same term.
    Incarnation
);
uuid_id!(
    /// One boot of one host, as the kernel names it (`/proc/sys/kernel/random/boot_id`).
    BootId
);

counter!(
    /// A member of the cluster. Given out by the state machine, from 1, and never used again.
    NodeId
);
counter!(
    /// The count of applied commands. Part of the state; it survives restart, restore and snapshots,
    /// unlike a Raft log index.
    Revision
);

impl Revision {
    /// The revision after this one.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The revision of the entry that placed a VM on its node: the fencing token of that placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub Revision);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Milliseconds since 1970-01-01 UTC, stamped by the leader when it accepts an entry. For people to
/// read and for coarse deadlines; never for ordering, which is the revision's job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Milliseconds from `earlier` to this moment; 0 when the clock went backwards.
    pub fn since_ms(self, earlier: Timestamp) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
