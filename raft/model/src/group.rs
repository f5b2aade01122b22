//! Server groups, as in Nova: VMs that are to be kept together or apart. Members name the group when they
//! are created; hard policies are checked by the scheduler and again at apply.

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use crate::id::{GroupId, NodeId, Revision, Timestamp};
use crate::state::State;
use crate::vm::Vm;

/// One group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerGroup {
    pub id: GroupId,
    pub project: String,
    /// Unique within the project.
    pub name: String,
    pub policy: GroupPolicy,
    /// With `anti-affinity`: members allowed on one host; 1 unless given.
    pub max_server_per_host: Option<u32>,
    pub created_at: Timestamp,
    pub revision: Revision,
}

/// What is done with the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupPolicy {
    /// All on one host.
    Affinity,
    /// No more than `max_server_per_host` on one host.
    AntiAffinity,
    /// Together where possible.
    SoftAffinity,
    /// Apart where possible.
    SoftAntiAffinity,
}

impl Vm {
    /// Where it is a member of which group.
    pub fn seat(&self) -> Option<(GroupId, NodeId)> {
        Some((self.spec.scheduling.group?, self.claim.as_ref()?.node))
    }
}

impl State {
    /// A VM's seat is another.
    pub(crate) fn move_seat(&mut self, before: Option<(GroupId, NodeId)>, now: Option<(GroupId, NodeId)>) {
        if before == now {
            return;
        }
        if let Some(seat) = before {
            match self.group_hosts.get(&seat).copied() {
                Some(members) if members > 1 => _ = self.group_hosts.insert(seat, members - 1),
                _ => _ = self.group_hosts.remove(&seat),
            }
        }
        if let Some(seat) = now {
            *self.group_hosts.entry(seat).or_insert(0) += 1;
        }
    }

    /// What [`State::group_hosts`] must be.
    pub(crate) fn seats(&self) -> OrdMap<(GroupId, NodeId), u32> {
        let mut seats = OrdMap::new();
        self.vms.values().filter_map(Vm::seat).for_each(|seat| *seats.entry(seat).or_insert(0) += 1);
        seats
    }
}
