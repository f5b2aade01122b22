//! The nodes of a cluster by id. Beside each record stands its [`Digest`], which can not be forgotten: whatever
//! changes a record ends with working it out again. Persistent like the other maps; encoded as the records alone.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut, Index, RangeBounds};
use std::sync::Arc;

use imbl::OrdMap;
use serde::{Deserialize, Serialize, Serializer};

use crate::digest::Digest;
use crate::id::NodeId;
use crate::node::Node;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "BTreeMap<NodeId, Node>")]
pub struct Nodes(OrdMap<NodeId, Kept>);

/// The record is apart, so that a walk over the digests reads little, and a change copies no neighbours' records.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kept {
    digest: Digest,
    record: Arc<Node>,
}

impl From<Node> for Kept {
    fn from(node: Node) -> Self {
        Self { digest: Digest::of(&node), record: Arc::new(node) }
    }
}

impl Nodes {
    pub fn get(&self, id: &NodeId) -> Option<&Node> {
        self.0.get(id).map(|kept| &*kept.record)
    }

    /// A node to change.
    pub fn get_mut(&mut self, id: &NodeId) -> Option<NodeMut<'_>> {
        let Kept { digest, record } = self.0.get_mut(id)?;
        Some(NodeMut { digest, record: Arc::make_mut(record) })
    }

    /// In place of the one that was there.
    pub fn insert(&mut self, id: NodeId, node: Node) {
        self.0.insert(id, Kept::from(node));
    }

    pub fn remove(&mut self, id: &NodeId) -> Option<Arc<Node>> {
        self.0.remove(id).map(|kept| kept.record)
    }

    pub fn contains_key(&self, id: &NodeId) -> bool {
        self.0.contains_key(id)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether both are one and the same, which costs no comparison; if not, they may still be equal.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }

    pub fn keys(&self) -> impl Iterator<Item = &NodeId> {
        self.0.keys()
    }

    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Node> {
        self.0.values().map(|kept| &*kept.record)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&NodeId, &Node)> {
        self.0.iter().map(|(id, kept)| (id, &*kept.record))
    }

    pub fn range(&self, ids: impl RangeBounds<NodeId>) -> impl Iterator<Item = (&NodeId, &Node)> {
        self.0.range(ids).map(|(id, kept)| (id, &*kept.record))
    }

    /// Every node with its digest, by id. Reads no record.
    pub fn digests(&self) -> impl Iterator<Item = (NodeId, &Digest, &Node)> {
        self.0.iter().map(|(id, kept)| (*id, &kept.digest, &*kept.record))
    }
}

/// A node that is being changed; the digest follows when that is over.
pub struct NodeMut<'a> {
    digest: &'a mut Digest,
    record: &'a mut Node,
}

impl Deref for NodeMut<'_> {
    type Target = Node;

    fn deref(&self) -> &Node {
        self.record
    }
}

impl DerefMut for NodeMut<'_> {
    fn deref_mut(&mut self) -> &mut Node {
        self.record
    }
}

impl Drop for NodeMut<'_> {
    fn drop(&mut self) {
        *self.digest = Digest::of(self.record);
    }
}

impl Index<&NodeId> for Nodes {
    type Output = Node;

    fn index(&self, id: &NodeId) -> &Node {
        &self.0[id].record
    }
}

impl From<BTreeMap<NodeId, Node>> for Nodes {
    fn from(nodes: BTreeMap<NodeId, Node>) -> Self {
        Self(nodes.into_iter().map(|(id, node)| (id, Kept::from(node))).collect())
    }
}

impl Serialize for Nodes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use crate::command::{AddNode, InitCluster};
    use crate::digest::Digest;
    use crate::id::{ClusterId, NodeId, Timestamp};
    use crate::{Actor, Command, Entry, Proposal, State, apply};

    fn one_node() -> State {
        let mut state = State::default();
        let address = |port| format!("127.0.0.1:{port}");
        let first_node = AddNode { name: "n1".to_owned(), peer_addr: address(1), api_addr: address(2) };
        let (cluster, name) = (ClusterId(uuid::Uuid::from_u128(1)), "test".to_owned());
        let command = Command::InitCluster(InitCluster { cluster, name, first_node });
        let actor = Actor { name: "test".to_owned(), project: "default".to_owned() };
        let proposal = Proposal { key: None, seen: state.revision, actor, command };
        apply(&mut state, &Entry::new(Timestamp(0), proposal));
        state
    }

    #[test]
    fn a_changed_record_changes_its_digest_and_no_copy_of_the_map() {
        let mut state = one_node();
        let before = state.nodes.clone();
        state.nodes.get_mut(&NodeId(1)).expect("it exists").failed_builds = 3;
        let digests =
            |nodes: &super::Nodes| nodes.digests().map(|(_, digest, _)| *digest).collect::<Vec<_>>();
        let mut changed = Digest::of(&before[&NodeId(1)]);
        changed.failed_builds = 3;
        assert_eq!(digests(&state.nodes), [changed]);
        assert_eq!(digests(&before), [Digest::of(&before[&NodeId(1)])]);
        assert!(!before.ptr_eq(&state.nodes));
    }
}
