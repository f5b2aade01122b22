//! Files as released versions wrote them, kept for ever: this version must read them. `HOLM_BLESS=1` writes
//! those that are missing, which is only right for a new format.

use std::path::{Path, PathBuf};

use holm_model::command::{AddNode, InitCluster};
use holm_model::{Actor, ClusterId, Command, NodeId, Proposal, Revision, State, Timestamp};
use openraft::entry::RaftEntry;
use openraft::testing::log_id;
use openraft::{Membership, StoredMembership};

use crate::identity::Identity;
use crate::snapshot;
use crate::store;
use crate::types::{Data, Entry, Node, TypeConfig};

fn golden(name: &str, now: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if !path.exists() && std::env::var_os("HOLM_BLESS").is_some() {
        std::fs::write(&path, now()).unwrap();
    }
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn init() -> InitCluster {
    let first_node = AddNode {
        name: "a".to_owned(),
        peer_addr: "10.0.0.1:7100".to_owned(),
        api_addr: "10.0.0.1:7000".to_owned(),
    };
    InitCluster { cluster: ClusterId(uuid::Uuid::from_u128(7)), name: "edge".to_owned(), first_node }
}

fn model_entry() -> holm_model::Entry {
    let actor = Actor { name: "node/1".to_owned(), project: String::new() };
    let command = Command::InitCluster(init());
    let proposal = Proposal { key: None, seen: Revision(0), actor, command };
    holm_model::Entry { at: Timestamp(1_800_000_000_000), proposal, rules: 0 }
}

fn membership() -> Membership<u64, Node> {
    let nodes =
        std::collections::BTreeMap::from([(1, Node::new("10.0.0.1:7100")), (2, Node::new("10.0.0.2:7100"))]);
    Membership::new(vec![[1].into()], nodes).unwrap()
}

#[test]
fn log_entries() {
    let entries = [
        ("entry-blank-1.msgpack", Entry::new_blank(log_id::<TypeConfig>(3, 1, 0))),
        (
            "entry-normal-1.msgpack",
            Entry::new_normal(log_id::<TypeConfig>(3, 1, 1), Data::encode(&model_entry())),
        ),
        ("entry-membership-1.msgpack", Entry::new_membership(log_id::<TypeConfig>(3, 1, 2), membership())),
    ];
    for (name, entry) in entries {
        let bytes = golden(name, || store::encode(&entry));
        assert_eq!(store::decode::<Entry>(name, &bytes).unwrap(), entry, "{name}");
    }
    let bytes = golden("entry-normal-1.msgpack", Vec::new);
    let entry: Entry = store::decode("entry", &bytes).unwrap();
    let openraft::EntryPayload::Normal(data) = entry.payload else { panic!("{entry:?}") };
    assert_eq!(data.decode().unwrap(), model_entry());
}

#[test]
fn snapshots() {
    let mut state = State::default();
    holm_model::apply(&mut state, &model_entry());
    let last = Some(log_id::<TypeConfig>(3, 1, 2));
    let stored = StoredMembership::new(last, membership());
    let bytes = golden("snapshot-1.snap", || snapshot::encode(last, &stored, &state).to_vec());
    let (header, read) = snapshot::decode(&bytes).unwrap();
    assert_eq!((header.last_log_id, header.membership, read), (last, stored, state));
}

#[test]
fn identities() {
    let mut identity = Identity::new(init().cluster, NodeId(1), "a".to_owned(), Some(init()));
    identity.machine = None;
    let bytes = golden("node-1.json", || serde_json::to_vec_pretty(&identity).unwrap());
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("node.json"), bytes).unwrap();
    assert_eq!(Identity::load(dir.path()).unwrap(), identity);
}
