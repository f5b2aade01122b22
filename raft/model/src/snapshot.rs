//! Encoding of the state for snapshots, and its hash. MessagePack with named fields: a field can be
//! added with a default, and an old snapshot still reads.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::planted::{Plant, planted};
use crate::state::State;
use crate::vm::Vm;

/// Opens every snapshot, so that a stranger's file is told apart at once.
pub const MAGIC: &str = "holm-snapshot";
/// Layout of what follows the header.
pub const FORMAT: u32 = 1;

/// What stands before the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    pub magic: String,
    pub format: u32,
    pub cluster_version: u32,
}

/// A snapshot that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("not a Holm snapshot (magic is `{0}`)")]
    Magic(String),
    #[error("snapshot format {0} is newer than this binary's {FORMAT}: install the version that wrote it")]
    Format(u32),
    #[error(
        "the snapshot is of cluster version {found}, this binary knows {known}: install the version that wrote it"
    )]
    Version { found: u32, known: u32 },
    #[error("the snapshot cannot be decoded")]
    Decode(#[from] rmp_serde::decode::Error),
}

/// Header and state as bytes. Equal states give equal bytes.
pub fn encode(state: &State) -> Vec<u8> {
    let header =
        Header { magic: MAGIC.to_owned(), format: FORMAT, cluster_version: crate::version::CLUSTER_VERSION };
    rmp_serde::to_vec_named(&(header, state)).expect("plain data always encodes into memory")
}

/// The state that [`encode`] wrote.
///
/// # Errors
/// When the bytes are not a snapshot this binary can read.
pub fn decode(bytes: &[u8]) -> Result<State, Error> {
    let mut reader = rmp_serde::Deserializer::new(bytes);
    // The pair is an array of two; its first element can be read before the second is understood.
    let header: (Header, serde::de::IgnoredAny) = Deserialize::deserialize(&mut reader)?;
    let header = header.0;
    if header.magic != MAGIC {
        return Err(Error::Magic(header.magic));
    }
    if header.format > FORMAT {
        return Err(Error::Format(header.format));
    }
    if header.cluster_version > crate::version::CLUSTER_VERSION {
        let known = crate::version::CLUSTER_VERSION;
        return Err(Error::Version { found: header.cluster_version, known });
    }
    let (_, mut state): (Header, State) = rmp_serde::from_slice(bytes)?;
    if planted(Plant::ForgetWindow) {
        state.window = Default::default();
    }
    if planted(Plant::RenumberEvents) {
        state.events.renumber();
    }
    state.building = state.vms.values().filter_map(Vm::building).collect();
    state.group_hosts = state.seats();
    state.work_out_rooms();
    Ok(state)
}

/// SHA-256 of the encoded state, in lower-case hex: equal on replicas at equal revisions.
pub fn hash(state: &State) -> String {
    Sha256::digest(encode(state)).iter().map(|byte| format!("{byte:02x}")).collect()
}
