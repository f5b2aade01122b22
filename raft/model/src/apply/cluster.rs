//! The cluster itself: its birth, and whose decisions count.

use super::{Cx, wrong_state};
use crate::command::{BeginLeadership, InitCluster};
use crate::limits;
use crate::reply::{Kind, Outcome, Reason};
use crate::state::{Cluster, Leadership};
use crate::version::CLUSTER_VERSION;

impl Cx<'_> {
    pub(super) fn init_cluster(&mut self, c: &InitCluster) -> Result<Outcome, Reason> {
        if let Some(cluster) = &self.state.cluster {
            return Err(wrong_state(format!("the cluster `{}` exists already", cluster.name)));
        }
        limits::name("cluster", &c.name)?;
        let outcome = self.add_node(&c.first_node)?;
        self.state.cluster = Some(Cluster {
            id: c.cluster,
            name: c.name.clone(),
            created_at: self.at,
            version: CLUSTER_VERSION,
        });
        self.event(Kind::Cluster, c.cluster, &c.name, "created", "");
        Ok(outcome)
    }

    pub(super) fn begin_leadership(&mut self, c: &BeginLeadership) -> Result<Outcome, Reason> {
        self.state.leadership = Some(Leadership {
            node: c.node,
            term: c.term,
            incarnation: c.incarnation,
            revision: self.revision,
            at: self.at,
        });
        let name = self.state.nodes.get(&c.node).map(|node| node.name.clone()).unwrap_or_default();
        self.event(Kind::Node, c.node, &name, "leading", format!("term {}", c.term));
        Ok(Outcome::Nothing)
    }
}
