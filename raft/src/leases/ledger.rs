//! The leader's books on leases: what was granted, since when a node is silent, and when it may be fenced
//! (FENCING.md, rules 6 to 10). Pure: time is handed in, milliseconds of `CLOCK_BOOTTIME`.
//!
//! What it guarantees: [`Ledger::fenceable`] names a node only after every lease that any leader may have granted
//! it has ended by at least the margin, and no grant is given between [`Ledger::begin_fence`] and the moment its
//! outcome is known.

use std::collections::{BTreeMap, BTreeSet};

use holm_model::planted::{Plant, planted};
use holm_model::vm::Vm;
use holm_model::{NodeId, Revision, State};

/// A leader that was not heard of by its own clock for longer has not been listening: silence counts afresh.
pub const TICK_MAX_MS: u64 = 2_000;

/// Books of one leadership. A new leadership begins with empty ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Revision of the `BeginLeadership` they belong to, and when this process saw it applied.
    leadership: Option<(Revision, u64)>,
    /// When this leadership first saw the freeze of that revision.
    freeze: Option<(Revision, u64)>,
    /// When this leadership first saw the policy of that revision.
    policy: Option<(Revision, u64)>,
    ticked_at: u64,
    nodes: BTreeMap<NodeId, Account>,
}

/// One node's account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Account {
    /// No lease granted by this leadership lasts longer than this.
    lease_ends: u64,
    /// For how long it has asked for nothing while the leader could hear, in milliseconds.
    silent: u64,
    /// How many `FenceNode` were proposed of which the outcome is not known.
    fencing: u32,
    /// Since when it asks and says each time that it holds no lease.
    unheld_since: Option<u64>,
    /// The fence that was last seen in its record; being let back opens a new account.
    fence: Option<Revision>,
    /// The freeze after which its lease was seen to be short again.
    short: Option<Revision>,
}

/// What was granted: from the moment the node sent its heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    pub ttl_ms: u64,
}

/// Why a node gets no lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("it is no member of the cluster")]
    NoMember,
    #[error("it is fenced: it must first show that nothing of what it lost runs there")]
    Fenced,
    #[error("it is about to be fenced")]
    Fencing,
    #[error("it asked for leases and held none for too long: its VMs are to go elsewhere")]
    HoldsNone,
    #[error("another host reports under its identity")]
    OtherHost,
}

impl Ledger {
    /// Opens the books of the leadership in `state`, if they are not open, and follows freeze and policy. Everything
    /// else expects this to have been called with the same state.
    pub fn follow(&mut self, state: &State, now: u64) {
        let Some(leadership) = state.leadership else { return };
        if self.leadership.is_none_or(|(revision, _)| revision != leadership.revision) {
            *self = Self { leadership: Some((leadership.revision, now)), ticked_at: now, ..Self::default() };
        }
        match &state.freeze {
            None => self.freeze = None,
            Some(freeze) if self.freeze.is_none_or(|(seen, _)| seen != freeze.revision) => {
                self.freeze = Some((freeze.revision, now));
            }
            Some(_) => {}
        }
        if self.policy.is_none_or(|(seen, _)| seen != state.policy.revision) {
            self.policy = Some((state.policy.revision, now));
        }
        self.nodes.retain(|node, _| state.nodes.contains_key(node));
        for node in state.nodes.values() {
            let account = self.nodes.entry(node.id).or_default();
            let fence = node.fence.as_ref().map(|fence| fence.revision);
            if account.fence != fence {
                let Account { lease_ends, fencing, short, .. } = *account;
                *account = Account { fence, lease_ends, fencing, short, ..Account::default() };
            }
            let short = state.freeze.as_ref().filter(|freeze| freeze.short.contains(&node.id));
            if let Some(freeze) = short.filter(|freeze| account.short != Some(freeze.revision)) {
                // It made its lease short before it said so, and none has been long since (rule 10).
                account.short = Some(freeze.revision);
                account.lease_ends = account.lease_ends.min(now + state.policy.longest_ttl_ms);
            }
        }
    }

    /// Time passes. `heard`: the leader itself completed a quorum round since the last tick, so that a node's
    /// silence is the node's (rule 8).
    pub fn tick(&mut self, now: u64, heard: bool) {
        let passed = now.saturating_sub(self.ticked_at);
        self.ticked_at = now;
        let listening = heard && passed <= TICK_MAX_MS;
        for account in self.nodes.values_mut() {
            account.silent = if listening { account.silent + passed } else { 0 };
            if !listening {
                // Without a quorum nobody is granted anything, the leader's own node included: no fault of theirs.
                account.unheld_since = None;
            }
        }
    }

    /// Whether `node` may be given a lease. Asked when its heartbeat arrives, and again, with a state read after
    /// the round, before the grant is sent (rule 7).
    ///
    /// # Errors
    /// Why not.
    pub fn may_grant(&self, state: &State, node: NodeId) -> Result<(), Refusal> {
        let record = state.nodes.get(&node).ok_or(Refusal::NoMember)?;
        if record.fence.is_some() {
            return Err(Refusal::Fenced);
        }
        let Some(account) = self.nodes.get(&node) else { return Err(Refusal::NoMember) };
        if account.fencing > 0 && !planted(Plant::GrantRacingFence) {
            return Err(Refusal::Fencing);
        }
        Ok(())
    }

    /// The node heartbeats; `holds` is whether it held a lease when it did.
    ///
    /// # Errors
    /// When it can hold none, and so must go without until it is fenced (rule 8).
    pub fn note_heartbeat(
        &mut self,
        state: &State,
        node: NodeId,
        holds: bool,
        now: u64,
    ) -> Result<(), Refusal> {
        let Some(account) = self.nodes.get_mut(&node) else { return Err(Refusal::NoMember) };
        if holds || account.lease_ends == 0 {
            account.unheld_since = None;
            return Ok(());
        }
        let since = *account.unheld_since.get_or_insert(now);
        let useless = now.saturating_sub(since) >= state.policy.lease_ttl_ms;
        // Only where a fence would bring something back.
        let wanted = useless && state.vms_on(node).any(Vm::fails_over);
        if wanted { Err(Refusal::HoldsNone) } else { Ok(()) }
    }

    /// Books a grant that is being sent now.
    pub fn grant(&mut self, state: &State, node: NodeId, now: u64) -> Granted {
        let ttl_ms = state.policy.lease_ttl_ms + self.frozen_for(state, now);
        let account = self.nodes.entry(node).or_default();
        account.lease_ends = account.lease_ends.max(now + ttl_ms);
        account.silent = 0;
        Granted { ttl_ms }
    }

    /// How long the freeze goes on, as this leadership counts it; 0 without one.
    fn frozen_for(&self, state: &State, now: u64) -> u64 {
        let Some(freeze) = state.freeze.as_ref().filter(|freeze| !freeze.over) else { return 0 };
        let Some((_, since)) = self.freeze else { return 0 };
        (since + freeze.for_ms).saturating_sub(now)
    }

    /// Nodes of which every lease has ended, by the margin at least, and that have been silent for as long: those
    /// granted by this leadership, and those of earlier ones (rule 8).
    pub fn fenceable(&self, state: &State, now: u64) -> BTreeSet<NodeId> {
        let Some((_, began)) = self.leadership else { return BTreeSet::new() };
        let wait = state.policy.longest_ttl_ms.max(state.policy.lease_ttl_ms) + state.policy.margin_ms;
        if (now < began + wait && !planted(Plant::NoWaitAfterElection)) || state.freeze.is_some() {
            return BTreeSet::new();
        }
        let over = |account: &Account| {
            let wait = if planted(Plant::NoWaitAfterElection) { 0 } else { wait };
            account.fence.is_none()
                && now >= account.lease_ends + state.policy.margin_ms
                && account.silent.max(useless_for(account, now)) >= wait
        };
        self.nodes.iter().filter(|(_, account)| over(account)).map(|(node, _)| *node).collect()
    }

    /// From here until [`end_fence`](Self::end_fence) the node gets no grant. False: it may not be fenced.
    pub fn begin_fence(&mut self, state: &State, node: NodeId, now: u64) -> bool {
        if !self.fenceable(state, now).contains(&node) {
            return false;
        }
        let account = self.nodes.entry(node).or_default();
        account.fencing += 1;
        true
    }

    /// The outcome of a `FenceNode` that was proposed in this leadership is known.
    pub fn end_fence(&mut self, leadership: Revision, node: NodeId) {
        let ours = self.leadership.is_some_and(|(revision, _)| revision == leadership);
        if let Some(account) = self.nodes.get_mut(&node).filter(|_| ours) {
            account.fencing = account.fencing.saturating_sub(1);
        }
    }

    /// Whether leases given under any earlier, longer ttl have ended: by this leadership, under this policy.
    pub fn longer_leases_ended(&self, state: &State, now: u64) -> bool {
        let (Some((_, began)), Some((seen, since))) = (self.leadership, self.policy) else { return false };
        let wait = state.policy.longest_ttl_ms + state.policy.margin_ms;
        seen == state.policy.revision && now >= began.max(since) + wait && state.freeze.is_none()
    }

    /// The freeze of which every lease has ended, whoever granted it, or has become short again.
    pub fn thawed(&self, state: &State, now: u64) -> Option<Revision> {
        let ((_, began), (seen, since)) = (self.leadership?, self.freeze?);
        let freeze = state.freeze.as_ref().filter(|freeze| freeze.revision == seen)?;
        if freeze.all_short(state) {
            return Some(seen);
        }
        let wait =
            freeze.for_ms.max(freeze.longest_ms) + state.policy.longest_ttl_ms + state.policy.margin_ms;
        (now >= began.max(since) + wait).then_some(seen)
    }

    /// Milliseconds until the last lease of `node` that this leadership granted has ended.
    pub fn lease_left(&self, node: NodeId, now: u64) -> u64 {
        self.nodes.get(&node).map_or(0, |account| account.lease_ends.saturating_sub(now))
    }
}

/// A node that asks and holds nothing is as good as silent.
fn useless_for(account: &Account, now: u64) -> u64 {
    account.unheld_since.map_or(0, |since| now.saturating_sub(since))
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
