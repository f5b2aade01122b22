//! Performs one entry on the state: dispatch here, a handler per resource beside it.
//!
//! A handler checks everything first and changes the state only after the last check, so a refusal has
//! changed nothing but the revision. Broken invariants are corruption and panic; the shell ends the
//! process.

mod admission;
mod aggregate;
mod clock;
mod cluster;
mod cluster_policy;
mod drain;
mod fence;
mod flavor;
mod group;
mod image;
mod inventory;
mod moving;
mod node;
mod placement;
mod policy;
mod preemption;
mod project;
mod recovery;
mod release;
mod report;
mod scheduling;
mod vm;
mod volume;

use crate::command::{Actor, Command, Entry, IdempotencyKey};
use crate::event::Event;
use crate::id::{Revision, Timestamp};
use crate::limits;
use crate::planted::{Plant, planted};
use crate::reply::{Done, Kind, Outcome, Reason, Reply};
use crate::state::State;
use crate::window::Verdict;

/// What applying one entry gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    pub reply: Reply,
    pub events: Vec<Event>,
}

/// Applies one entry: the only way the state ever changes.
pub fn apply(state: &mut State, entry: &Entry) -> Applied {
    let proposal = &entry.proposal;
    let revision = state.revision.next();
    state.revision = revision;
    state.window.evict(revision);
    if let Verdict::Answered(reply) = state.window.check(proposal, revision) {
        return Applied { reply, events: Vec::new() };
    }
    if let Err(reason) = check_key(proposal.key.as_ref()) {
        return Applied { reply: Reply::Rejected(reason), events: Vec::new() };
    }
    let at = if planted(Plant::ImpureApply) { Timestamp(u64::from(std::process::id())) } else { entry.at };
    let (actor, seen) = (&proposal.actor, proposal.seen);
    let rules = entry.rules;
    let mut cx = Cx { state, at, actor, seen, revision, rules, events: Vec::new() };
    let result = cx.dispatch(&proposal.command);
    let events = cx.events;
    for event in &events {
        state.events.push(event.clone());
    }
    let reply = match result {
        Ok(outcome) => {
            let reply = Reply::Done(Done { revision, outcome });
            state.window.record(proposal, revision, &reply);
            reply
        }
        Err(reason @ Reason::Unadmitted { .. }) => Reply::Rejected(reason),
        Err(reason) => {
            let reply = Reply::Rejected(reason);
            state.window.record(proposal, revision, &reply);
            reply
        }
    };
    Applied { reply, events }
}

fn check_key(key: Option<&IdempotencyKey>) -> Result<(), Reason> {
    let Some(IdempotencyKey { key, fingerprint }) = key else { return Ok(()) };
    if key.is_empty() || key.len() > limits::KEY_MAX || fingerprint.len() > limits::KEY_MAX {
        return Err(Reason::Invalid {
            field: "Idempotency-Key".to_owned(),
            message: format!("must be 1 to {} characters", limits::KEY_MAX),
        });
    }
    Ok(())
}

/// What a handler works with.
struct Cx<'a> {
    state: &'a mut State,
    at: Timestamp,
    actor: &'a Actor,
    /// What its maker had applied.
    seen: Revision,
    /// Revision of this entry.
    revision: Revision,
    /// By which it is judged ([`crate::version::RULES`]).
    rules: u32,
    events: Vec<Event>,
}

impl Cx<'_> {
    /// Whether the leader that accepted the entry had the `rules` of this number.
    fn knows(&self, rules: u32) -> bool {
        self.rules >= rules
    }

    fn dispatch(&mut self, command: &Command) -> Result<Outcome, Reason> {
        match command {
            Command::InitCluster(c) => self.init_cluster(c),
            Command::BeginLeadership(c) => self.begin_leadership(c),
            Command::AddNode(c) => self.add_node(c),
            Command::ReportNode(c) => self.report_node(c),
            Command::SetNodeUp(c) => self.set_node_up(c),
            Command::SetNodeEnabled(c) => self.set_node_enabled(c),
            Command::RemoveNode(c) => self.remove_node(c),
            Command::CreateFlavor(c) => self.create_flavor(c),
            Command::DeleteFlavor(c) => self.delete_flavor(c),
            Command::CreateImage(c) => self.create_image(c),
            Command::ReportImage(c) => self.report_image(c),
            Command::DeleteImage(c) => self.delete_image(c),
            Command::CreateVm(c) => self.create_vm(c),
            Command::PlaceVms(c) => self.place_vms(c),
            Command::NoHost(c) => self.no_host(c),
            Command::SetVmPower(c) => self.set_vm_power(c),
            Command::DeleteVm(c) => self.delete_vm(c),
            Command::ReportVms(c) => self.report_vms(c),
            Command::Released(c) => self.released(c),
            Command::UpdateNode(c) => self.update_node(c),
            Command::CreateAggregate(c) => self.create_aggregate(c),
            Command::UpdateAggregate(c) => self.update_aggregate(c),
            Command::DeleteAggregate(c) => self.delete_aggregate(c),
            Command::CreateGroup(c) => self.create_group(c),
            Command::UpdateGroup(c) => self.update_group(c),
            Command::DeleteGroup(c) => self.delete_group(c),
            Command::SetSchedulerPolicy(c) => self.set_scheduler_policy(c),
            Command::SetQuota(c) => self.set_quota(c),
            Command::CreateVms(c) => self.create_vms(c),
            Command::FenceNode(c) => self.fence_node(c),
            Command::UnfenceNode(c) => self.unfence_node(c),
            Command::SetNodeDrain(c) => self.set_node_drain(c),
            Command::SetNodeMaintenance(c) => self.set_node_maintenance(c),
            Command::SetClusterPolicy(c) => self.set_cluster_policy(c),
            Command::SettleLeaseTtl(c) => self.settle_lease_ttl(c),
            Command::SetFreeze(c) => self.set_freeze(c),
            Command::EndFreeze(c) => self.end_freeze(c),
            Command::SetVmPolicies(c) => self.set_vm_policies(c),
            Command::VacateVms(c) => self.vacate_vms(c),
            Command::StopForDrain(c) => self.stop_for_drain(c),
            Command::RestartVm(c) => self.restart_vm(c),
            Command::TaskOverdue(c) => self.task_overdue(c),
            Command::EvacuateVm(c) => self.evacuate_vm(c),
            Command::ResetVmState(c) => self.reset_vm_state(c),
            Command::PreemptVms(c) => self.preempt_vms(c),
            Command::MoveVms(c) => self.move_vms(c),
            Command::SetClock(c) => self.set_clock(c),
            Command::CreateProject(c) => self.create_project(c),
            Command::UpdateProject(c) => self.update_project(c),
            Command::DeleteProject(c) => self.delete_project(c),
            Command::CreateVolume(c) => self.create_volume(c),
            Command::DeleteVolume(c) => self.delete_volume(c),
            Command::ShortenLease(c) => self.shorten_lease(c),
        }
    }

    fn event(&mut self, kind: Kind, id: impl ToString, name: &str, what: &str, message: impl Into<String>) {
        let n = u32::try_from(self.events.len()).expect("an entry makes fewer than 2^32 events");
        self.events.push(Event {
            revision: self.revision,
            n,
            at: self.at,
            kind,
            id: id.to_string(),
            name: name.to_owned(),
            what: what.to_owned(),
            message: message.into(),
            actor: self.actor.name.clone(),
        });
    }

    /// Decisions are accepted from the current leader only (FENCING.md, rule 4).
    fn check_leadership(&self, claimed: Revision) -> Result<(), Reason> {
        let current = self.state.leadership.map(|leadership| leadership.revision).unwrap_or_default();
        if claimed == current && current != Revision::default() {
            Ok(())
        } else {
            Err(Reason::StaleLeadership { current })
        }
    }
}

/// `If-Match`: the record is still at the revision the client saw.
fn check_expected(expected: Option<Revision>, actual: Revision) -> Result<(), Reason> {
    match expected {
        Some(expected) if expected != actual => Err(Reason::RevisionMismatch { expected, actual }),
        _ => Ok(()),
    }
}

fn not_found(kind: Kind, id: impl ToString) -> Reason {
    Reason::NotFound { kind, id: id.to_string() }
}

fn invalid(field: &str, message: impl Into<String>) -> Reason {
    Reason::Invalid { field: field.to_owned(), message: message.into() }
}

fn wrong_state(message: impl Into<String>) -> Reason {
    Reason::WrongState { message: message.into() }
}

/// At most ten names, and how many more there are: a refusal names users without growing for ever.
fn some_names<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names = names.map(str::to_owned);
    let mut shown: Vec<_> = names.by_ref().take(10).collect();
    let more = names.count();
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    shown
}
