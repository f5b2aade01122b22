//! `/v1/allocation-candidates`: which nodes would take a VM of a flavor now.

use axum::extract::State;
use holm_api::{AllocationCandidates, Candidate, CandidatesQuery};
use holm_model::feasible::claim_of;
use holm_model::flavor::Flavor;
use holm_model::reply::Kind;
use holm_model::vm::{Availability, OnNoHost, Power, StopMode, TaskState, Vm, VmSpec, VmStatus, WantPower};
use holm_model::{ImageId, NodeId, Resources, State as Model, Timestamp, VmId, limits};
use holm_sched::{Batch, Policy};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::answer::Answer;
use super::convert;
use super::explain::explanation;
use super::extract::Query;
use super::n_plus_one::think;
use super::openapi::ProjectHeader;
use super::problem::{Failure, Result};
use super::project::Project;
use super::read::Snapshot;
use crate::app::Shared;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list))
}

/// Say which nodes would take a VM of a flavor now, by every enabled filter but those about its image.
#[utoipa::path(get, path = "/v1/allocation-candidates", tag = "allocation-candidates",
    params(CandidatesQuery, ProjectHeader),
    responses((status = 200, body = AllocationCandidates)))]
async fn list(
    State(app): State<Shared>,
    project: Project,
    Query(query): Query<CandidatesQuery>,
) -> Result<Answer<AllocationCandidates>> {
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let published = snapshot.published();
    let found = think(move || {
        let state = &published.state;
        let flavor = state.find_flavor(&query.flavor).ok_or_else(|| Failure {
            code: holm_api::Code::InvalidQuery,
            ..Failure::unknown_reference("flavor", Kind::Flavor, &query.flavor)
        })?;
        Ok::<_, Failure>(candidates(state, project.known(state)?, flavor))
    });
    Ok(Answer::read(&snapshot, found.await??))
}

fn candidates(state: &Model, project: &str, flavor: &Flavor) -> AllocationCandidates {
    let vm = thought_of(project, flavor);
    let claim = claim_of(&vm.spec);
    let (mut candidates, mut refusals) = (Vec::new(), Vec::new());
    let explained = explanation(state, &vm);
    let policy = Policy::of(&state.scheduler);
    let mut batch = Batch::new(state, &policy);
    for host in explained.hosts {
        match host.score {
            Some(score) => {
                let node = NodeId(host.node_id);
                let free = convert::amounts(&free(state, node, &claim));
                let count = batch.fill(&vm, node, limits::BATCH_MAX) as u64;
                candidates.push(Candidate { node: host.node, node_id: host.node_id, score, free, count });
            }
            None => refusals.push(holm_api::vm::HostReason {
                node: host.node,
                node_id: host.node_id,
                by: host.by.unwrap_or_default(),
                message: host.message.unwrap_or_default(),
            }),
        }
    }
    AllocationCandidates {
        flavor: flavor.name.clone(),
        claim: convert::amounts(&claim),
        candidates,
        refusals,
        advice: explained.advice,
        revision: state.revision.0,
    }
}

/// What is free of the claim's classes.
fn free(state: &Model, node: NodeId, claim: &Resources) -> Resources {
    let free = |class| {
        let node = state.nodes.get(&node)?;
        Some(node.inventory.get(class)?.capacity().saturating_sub(node.allocated.get(class)))
    };
    claim.0.keys().map(|class| (class.clone(), free(class).unwrap_or(0))).collect()
}

/// A VM that only the question knows.
fn thought_of(project: &str, flavor: &Flavor) -> Vm {
    Vm {
        // The last in the queue: what is kept for others is not offered.
        id: VmId(Uuid::max()),
        project: project.to_owned(),
        name: "candidate".to_owned(),
        spec: VmSpec {
            flavor: flavor.id,
            flavor_name: flavor.name.clone(),
            size: flavor.size,
            image: ImageId(Uuid::nil()),
            kernel: None,
            cmdline: None,
            node: None,
            availability: Availability::Pinned,
            policies: Default::default(),
            on_no_host: OnNoHost::Queue,
            scheduling: Default::default(),
            volumes: Vec::new(),
            extra_specs: flavor.extra_specs.clone(),
            image_properties: Default::default(),
        },
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
        recovery: Default::default(),
        created_at: Timestamp(u64::MAX),
        updated_at: Timestamp(0),
        revision: Default::default(),
    }
}
