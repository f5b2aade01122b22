//! The types openraft works with. A log entry carries our [`Entry`](holm_model::Entry) as the bytes the
//! leader encoded: replication and storage never decode them, and an entry that this binary does not
//! understand is noticed when it is applied, with a message, instead of breaking a connection.

use std::fmt;

use bytes::Bytes;
use holm_model::version::{CLUSTER_VERSION, RULES};
use holm_model::{NodeId, Reply};
use serde::{Deserialize, Serialize};

openraft::declare_raft_types!(
    /// Holm's choice of types.
    pub TypeConfig:
        D = Data,
        R = Option<Reply>,
        NodeId = u64,
        Node = openraft::impls::BasicNode,
);

pub(crate) type Raft = openraft::Raft<TypeConfig, crate::state_machine::StateMachine>;
pub(crate) type Entry = openraft::alias::EntryOf<TypeConfig>;
pub(crate) type LogId = openraft::alias::LogIdOf<TypeConfig>;
pub(crate) type Vote = openraft::alias::VoteOf<TypeConfig>;
pub(crate) type Membership = openraft::alias::StoredMembershipOf<TypeConfig>;
pub(crate) type Metrics = openraft::RaftMetrics<TypeConfig>;
pub(crate) type Node = openraft::impls::BasicNode;

/// One entry of the model's log, encoded.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Data {
    /// Cluster version of the binary that encoded it.
    version: u32,
    /// MessagePack with named fields.
    body: Bytes,
}

/// An entry that this binary cannot read. It must stop: skipping one would make it disagree for ever.
#[derive(Debug, thiserror::Error)]
pub enum UnknownEntry {
    #[error(
        "an entry of cluster version {found} cannot be understood by this binary, which knows version \
         {CLUSTER_VERSION}: install the version that wrote it"
    )]
    Version {
        found: u32,
        /// None: it may be readable, but what a later version means by it is not known here.
        #[source]
        source: Option<rmp_serde::decode::Error>,
    },
    /// It can be read, and would be judged otherwise than where it was accepted.
    #[error(
        "an entry was accepted by rules {found}, and this binary knows the rules up to {RULES}: install the version \
         that wrote it"
    )]
    Rules { found: u32 },
}

impl Data {
    /// The entry as it is stored and sent.
    pub fn encode(entry: &holm_model::Entry) -> Self {
        let body = rmp_serde::to_vec_named(entry).expect("plain data always encodes into memory");
        Self { version: CLUSTER_VERSION, body: body.into() }
    }

    /// Reads like one of this version: a later binary may have added a field to it, which serde would skip.
    #[cfg(feature = "planted-faults")]
    pub(crate) fn of_the_future() -> Self {
        let actor = holm_model::Actor { name: "test".into(), project: "default".into() };
        let command =
            holm_model::Command::SetFreeze(holm_model::command::SetFreeze { for_ms: None, reason: None });
        let proposal = holm_model::Proposal { key: None, seen: Default::default(), actor, command };
        let entry = holm_model::Entry::new(Default::default(), proposal);
        Self { version: CLUSTER_VERSION + 1, ..Self::encode(&entry) }
    }

    /// # Errors
    /// When this binary does not know all of what it says.
    pub(crate) fn decode(&self) -> Result<holm_model::Entry, UnknownEntry> {
        let unknown = |source| UnknownEntry::Version { found: self.version, source };
        if self.version > CLUSTER_VERSION {
            return Err(unknown(None));
        }
        let entry: holm_model::Entry =
            rmp_serde::from_slice(&self.body).map_err(|source| unknown(Some(source)))?;
        match entry.rules {
            known if known <= RULES => Ok(entry),
            found => Err(UnknownEntry::Rules { found }),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.body.len()
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Data(v{}, {} bytes)", self.version, self.body.len())
    }
}

impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Bytes an entry takes on the wire, roughly.
pub(crate) fn entry_bytes(entry: &Entry) -> usize {
    const ENVELOPE: usize = 128;
    match &entry.payload {
        openraft::EntryPayload::Normal(data) => ENVELOPE + data.len(),
        _ => ENVELOPE,
    }
}

/// The model's id for a Raft node.
pub(crate) fn node_id(raw: u64) -> NodeId {
    NodeId(raw)
}

#[cfg(test)]
mod tests {
    use holm_model::command::SetFreeze;
    use holm_model::{Actor, Command, Proposal};

    use super::*;

    #[test]
    fn an_entry_of_later_rules_is_refused_naming_both() {
        let actor = Actor { name: "test".into(), project: "default".into() };
        let command = Command::SetFreeze(SetFreeze { for_ms: None, reason: None });
        let proposal = Proposal { key: None, seen: Default::default(), actor, command };
        let of = |rules| holm_model::Entry {
            rules,
            ..holm_model::Entry::new(Default::default(), proposal.clone())
        };
        for known in 0..=RULES {
            assert_eq!(Data::encode(&of(known)).decode().unwrap(), of(known));
        }
        let refused = Data::encode(&of(RULES + 1)).decode().unwrap_err().to_string();
        assert!(refused.contains(&format!("by rules {}", RULES + 1)), "{refused}");
        assert!(refused.contains(&format!("up to {RULES}:")), "{refused}");
    }
}
