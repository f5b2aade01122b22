//! `/v1/allocation-candidates`: which nodes would take a VM now, of a flavor or of some amounts, as in Placement.
//!
//! The scheduler explains a VM that only the question knows, so that candidates are judged by the very filters a
//! creation would meet. Answers are bounded: every node is asked, but only `limit` of them are told one by one.

mod question;

use std::collections::BTreeMap;

use axum::extract::State;
use holm_api::{
    AllocationCandidates, Candidate, CandidatesQuery, ClassSummary, HostVerdict, ProviderSummary,
};
use holm_model::feasible::{self, RESOURCES, claim_of};
use holm_model::flavor::Size;
use holm_model::node::Node;
use holm_model::reply::Kind;
use holm_model::vm::{Availability, OnNoHost, Power, StopMode, TaskState, Vm, VmSpec, VmStatus, WantPower};
use holm_model::{FlavorId, ImageId, NodeId, Resources, State as Model, Timestamp, VmId, limits};
use holm_sched::candidates::Demand;
use holm_sched::{Batch, Policy};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use self::question::{Of, Question};
use super::answer::Answer;
use super::convert;
use super::explain::explanation_by;
use super::n_plus_one::think;
use super::openapi::ProjectHeader;
use super::problem::{Failure, Result};
use super::project::Project;
use super::read::Snapshot;
use crate::app::Shared;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list))
}

/// Say which nodes would take a VM now, by every enabled filter but those about its image.
#[utoipa::path(get, path = "/v1/allocation-candidates", tag = "allocation-candidates",
    params(CandidatesQuery, ProjectHeader,
        ("required" = Option<Vec<String>>, Query, description = "Traits: `A,!B` for nodes with A and without B, \
            `in:A,B` for nodes with one of these; may be repeated, and each must hold"),
        ("member_of" = Option<Vec<String>>, Query, description = "An aggregate by name or id, or a zone: nodes in it; \
            `in:A,B` in any of these, `!A` or `!in:A,B` in none; may be repeated, and each must hold")),
    responses((status = 200, body = AllocationCandidates)))]
async fn list(
    State(app): State<Shared>,
    project: Project,
    question: Question,
) -> Result<Answer<AllocationCandidates>> {
    let snapshot = Snapshot::take(&app.raft, question.consistency).await?;
    let published = snapshot.published();
    let found = think(move || {
        let state = &published.state;
        let spec = spec(state, &question.of)?;
        let vm = thought_of(project.known(state)?, spec);
        let demands = [question.traits.clone(), question.member_of(state)?].concat();
        Ok::<_, Failure>(candidates(state, &vm, demands, question.limit))
    });
    Ok(Answer::read(&snapshot, found.await??))
}

fn candidates(state: &Model, vm: &Vm, demands: Vec<Demand>, limit: usize) -> AllocationCandidates {
    let warnings = unheard_of(state, vm, &demands);
    let policy = Policy::of(&state.scheduler).demanding(demands);
    let claim = claim_of(&vm.spec);
    let explained = explanation_by(state, &policy, vm);
    let (fit, refuse): (Vec<HostVerdict>, Vec<HostVerdict>) =
        explained.hosts.into_iter().partition(|host| host.score.is_some());
    let mut refused = BTreeMap::new();
    for by in refuse.iter().filter_map(|host| host.by.clone()) {
        *refused.entry(by).or_default() += 1;
    }
    let more = fit.len().saturating_sub(limit) as u64;
    let mut batch = Batch::new(state, &policy);
    let candidates = fit.into_iter().take(limit).filter_map(|host| {
        let node = state.nodes.get(&NodeId(host.node_id))?;
        Some(Candidate {
            score: host.score?,
            allocations: convert::amounts(&claim),
            free: convert::amounts(&free(node, &claim)),
            count: batch.fill(vm, node.id, limits::BATCH_MAX) as u64,
            summary: summary(node),
            node: host.node,
            node_id: host.node_id,
        })
    });
    let candidates = candidates.collect();
    let refusal = |host: HostVerdict| holm_api::vm::HostReason {
        node: host.node,
        node_id: host.node_id,
        by: host.by.unwrap_or_default(),
        message: host.message.unwrap_or_default(),
    };
    AllocationCandidates {
        flavor: Some(vm.spec.flavor_name.clone()).filter(|name| !name.is_empty()),
        requested: convert::amounts(&feasible::requested(&vm.spec)),
        claim: convert::amounts(&claim),
        candidates,
        more,
        refusals: refuse.into_iter().take(limit).map(refusal).collect(),
        refused,
        advice: explained.advice,
        warnings,
        revision: state.revision.0,
    }
}

/// Classes and traits that are asked for and that no node has: as likely as not misspelt.
fn unheard_of(state: &Model, vm: &Vm, demands: &[Demand]) -> Vec<String> {
    let mut warnings = Vec::new();
    for class in claim_of(&vm.spec).0.keys() {
        if !state.nodes.values().any(|node| node.inventory.contains_key(class)) {
            let help = format!("`holm node set-inventory NODE {class} --total N` gives it some");
            warnings.push(format!("no node has any {class}; {help}"));
        }
    }
    for demand in demands {
        let Demand::AnyTrait(any) = demand else { continue };
        for name in any.iter().filter(|name| !state.nodes.values().any(|node| node.has_trait(name))) {
            warnings.push(format!("no node has the trait `{name}`; `holm node trait NODE {name}` gives it"));
        }
    }
    warnings
}

/// Every class and trait of the node.
fn summary(node: &Node) -> ProviderSummary {
    let class = |(class, inventory): (&holm_model::ResourceClass, &holm_model::Inventory)| {
        let summary = ClassSummary { capacity: inventory.capacity(), used: node.allocated.get(class) };
        (class.name().to_owned(), summary)
    };
    let reported = node.report.iter().flat_map(|report| &report.traits);
    let traits: std::collections::BTreeSet<&String> = reported.chain(&node.traits).collect();
    ProviderSummary {
        resources: node.inventory.iter().map(class).collect(),
        traits: traits.into_iter().cloned().collect(),
    }
}

/// What is free of the claim's classes.
fn free(node: &Node, claim: &Resources) -> Resources {
    let free = |class| Some(node.inventory.get(class)?.capacity().saturating_sub(node.allocated.get(class)));
    claim.0.keys().map(|class| (class.clone(), free(class).unwrap_or(0))).collect()
}

/// What the VM asks for.
fn spec(state: &Model, of: &Of) -> Result<VmSpec> {
    let none = VmSpec {
        flavor: FlavorId(Uuid::nil()),
        flavor_name: String::new(),
        size: Size { vcpus: 0, memory_mib: 0, disk_gib: 0 },
        image: ImageId(Uuid::nil()),
        kernel: None,
        cmdline: None,
        node: None,
        availability: Availability::Pinned,
        policies: Default::default(),
        on_no_host: OnNoHost::Queue,
        scheduling: Default::default(),
        volumes: Vec::new(),
        extra_specs: Default::default(),
        image_properties: Default::default(),
    };
    match of {
        Of::Flavor(name) => {
            let flavor = state.find_flavor(name).ok_or_else(|| Failure {
                code: holm_api::Code::InvalidQuery,
                ..Failure::unknown_reference("flavor", Kind::Flavor, name)
            })?;
            Ok(VmSpec {
                flavor: flavor.id,
                flavor_name: flavor.name.clone(),
                size: flavor.size,
                extra_specs: flavor.extra_specs.clone(),
                ..none
            })
        }
        Of::Resources(amounts) => {
            let amounts = amounts.0.iter();
            let extra_specs =
                amounts.map(|(class, amount)| (format!("{RESOURCES}{class}"), amount.to_string()));
            Ok(VmSpec { extra_specs: extra_specs.collect(), ..none })
        }
    }
}

/// A VM that only the question knows.
fn thought_of(project: &str, spec: VmSpec) -> Vm {
    Vm {
        // The last in the queue: what is kept for others is not offered.
        id: VmId(Uuid::max()),
        project: project.to_owned(),
        name: "candidate".to_owned(),
        spec,
        power: Power { want: WantPower::On, run: 1, stop: StopMode::Force },
        status: VmStatus::Build,
        task_state: Some(TaskState::Scheduling),
        fault: None,
        claim: None,
        observed: None,
        excluded: Vec::new(),
        refusals: Vec::new(),
        reserved: None,
        decision: None,
        waiting_since: None,
        batch: None,
        recovery: Default::default(),
        created_at: Timestamp(u64::MAX),
        updated_at: Timestamp(0),
        revision: Default::default(),
    }
}
