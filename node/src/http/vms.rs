//! `/v1/vms`: list, show, delete, power. Their creation is in `vm_create.rs`, how they are kept running in
//! `vm_keep.rs`, console and log are in `console.rs`, the placement's explanation in `explain.rs`.

use axum::extract::State;
use axum::http::StatusCode;
use holm_api::{Deleted, List, ReadQuery, RebootVm, StopVm, Vm, VmListQuery};
use holm_model::reply::{Kind, Outcome};
use holm_model::vm::{self, DEFAULT_STOP_TIMEOUT_S, StopMode, WantPower};
use holm_model::{Command, State as Model, VmId, command, limits};
use holm_sched::{Policy, advise};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::Answer;
use super::convert;
use super::extract::{Change, Named, NoBody, Query};
use super::n_plus_one::{perform_admitted, think};
use super::openapi::{MatchHeader, ProjectHeader, WriteHeaders};
use super::page::Page;
use super::problem::{Failure, Result};
use super::project::Project;
use super::read::Snapshot;
use super::write::{Accepted, Basis, Intent, perform};
use crate::app::Shared;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(super::vm_create::create, list))
        .routes(routes!(show, super::vm_keep::patch, delete))
        .routes(routes!(start))
        .routes(routes!(stop))
        .routes(routes!(reboot))
}

/// List VMs, oldest first.
#[utoipa::path(get, path = "/v1/vms", tag = "vms", params(VmListQuery, ProjectHeader),
    responses((status = 200, body = List<Vm>)))]
async fn list(
    State(app): State<Shared>,
    project: Project,
    Query(query): Query<VmListQuery>,
) -> Result<Answer<List<Vm>>> {
    let page = Page::<VmId>::new(query.limit, query.marker.as_deref())?;
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let state = snapshot.state();
    let node = match &query.node {
        Some(name) => Some(state.find_node(name).map(|node| node.id).ok_or_else(|| Failure {
            code: holm_api::Code::InvalidQuery,
            ..Failure::unknown_reference("node", Kind::Node, name)
        })?),
        None => None,
    };
    let project = project.known(state)?;
    let wanted = |vm: &vm::Vm| {
        (query.all_projects || vm.project == project)
            && node.is_none_or(|node| vm.claim.as_ref().is_some_and(|claim| claim.node == node))
            && query.status.is_none_or(|status| convert::vm_status(vm.status) == status)
            && query.name.as_ref().is_none_or(|name| vm.name == *name)
    };
    let rest = state.vms.range(page.start()).filter(|(_, vm)| wanted(vm));
    let list = page.cut(state.revision, rest, |vm| convert::vm(state, vm));
    Ok(Answer::read(&snapshot, list))
}

/// Show a VM.
#[utoipa::path(get, path = "/v1/vms/{vm}", tag = "vms",
    params(("vm" = String, Path, description = "Name or id"), ReadQuery, ProjectHeader),
    responses((status = 200, body = Vm)))]
async fn show(
    State(app): State<Shared>,
    project: Project,
    Named(name): Named,
    Query(query): Query<ReadQuery>,
) -> Result<Answer<Vm>> {
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let state = snapshot.state();
    let record = find(state, &project, &name)?;
    let mut vm = convert::vm(state, record);
    if record.claim.is_none() && !record.refusals.is_empty() {
        let (published, id) = (snapshot.published(), record.id);
        let advice = think(move || {
            let state = &published.state;
            let advice = advise(state, &Policy::of(&state.scheduler), state.vms.get(&id)?);
            Some(convert::advice(state, &advice))
        });
        vm.advice = advice.await?.unwrap_or_default();
    }
    let revision = vm.revision;
    Ok(Answer::read(&snapshot, vm).etag(revision))
}

/// Delete a VM with its disks. It is gone when a read says 404.
#[utoipa::path(delete, path = "/v1/vms/{vm}", tag = "vms",
    params(("vm" = String, Path, description = "Name or id"), WriteHeaders, MatchHeader),
    responses((status = 202, body = Deleted)))]
async fn delete(
    State(app): State<Shared>,
    name: Named,
    Change { intent, .. }: Change<NoBody>,
) -> Result<Answer<Deleted>> {
    let before = app.raft.state();
    let accepted = perform(&app.raft, &intent, Basis::of(&name), |state| {
        let vm = find(state, &intent.project, &name.0)?;
        Ok(Command::DeleteVm(command::DeleteVm { vm: vm.id, expected: intent.expected }))
    })
    .await?;
    let Outcome::Vm(id) = accepted.done.outcome else { return Err(Failure::unexpected(&accepted)) };
    let known = before.state.vms.get(&id).or_else(|| accepted.published.state.vms.get(&id));
    let known = known.map(|vm| vm.name.clone());
    Ok(Answer::deleted(&accepted, id.to_string(), known))
}

/// Start a VM that is off, or schedule afresh one that found no host.
#[utoipa::path(post, path = "/v1/vms/{vm}/start", tag = "vms",
    params(("vm" = String, Path, description = "Name or id"), WriteHeaders, MatchHeader),
    responses((status = 202, body = Vm)))]
async fn start(
    State(app): State<Shared>,
    name: Named,
    Change { intent, .. }: Change<NoBody>,
) -> Result<Answer<Vm>> {
    let stop = StopMode::Graceful { timeout_s: DEFAULT_STOP_TIMEOUT_S };
    power(app, name, intent, WantPower::On, false, stop).await
}

/// Stop a VM: power button, then power off after the time-out; or at once with `force`.
#[utoipa::path(post, path = "/v1/vms/{vm}/stop", tag = "vms",
    params(("vm" = String, Path, description = "Name or id"), WriteHeaders, MatchHeader),
    request_body = Option<StopVm>,
    responses((status = 202, body = Vm)))]
async fn stop(State(app): State<Shared>, name: Named, change: Change<StopVm>) -> Result<Answer<Vm>> {
    let stop = stop_mode("force", change.body.force, change.body.timeout_s)?;
    power(app, name, change.intent, WantPower::Off, false, stop).await
}

/// Reboot a running VM.
#[utoipa::path(post, path = "/v1/vms/{vm}/reboot", tag = "vms",
    params(("vm" = String, Path, description = "Name or id"), WriteHeaders, MatchHeader),
    request_body = Option<RebootVm>,
    responses((status = 202, body = Vm)))]
async fn reboot(State(app): State<Shared>, name: Named, change: Change<RebootVm>) -> Result<Answer<Vm>> {
    let stop = stop_mode("hard", change.body.hard, change.body.timeout_s)?;
    power(app, name, change.intent, WantPower::On, true, stop).await
}

fn stop_mode(flag: &str, at_once: bool, timeout_s: Option<u32>) -> Result<StopMode> {
    use holm_api::Code::InvalidField;
    match timeout_s {
        Some(_) if at_once => {
            Err(Failure::new(InvalidField, format!("timeout_s: does not go with `{flag}`"))
                .field("timeout_s"))
        }
        Some(timeout_s) if timeout_s == 0 || timeout_s > limits::STOP_TIMEOUT_S_MAX => {
            let most = limits::STOP_TIMEOUT_S_MAX;
            Err(Failure::new(InvalidField, format!("timeout_s: is {timeout_s}, must be 1 to {most}"))
                .field("timeout_s")
                .hint(format!("`{flag}` ends it at once")))
        }
        _ if at_once => Ok(StopMode::Force),
        timeout_s => Ok(StopMode::Graceful { timeout_s: timeout_s.unwrap_or(DEFAULT_STOP_TIMEOUT_S) }),
    }
}

async fn power(
    app: Shared,
    name: Named,
    intent: Intent,
    want: WantPower,
    reboot: bool,
    stop: StopMode,
) -> Result<Answer<Vm>> {
    let expected = intent.expected;
    let build = |state: &Model| {
        let vm = find(state, &intent.project, &name.0)?.id;
        Ok(Command::SetVmPower(command::SetVmPower { vm, want, reboot, stop, admitted: None, expected }))
    };
    let (accepted, warnings) = perform_admitted(&app, &intent, Basis::of(&name), build).await?;
    let vm = Vm { warnings, ..shown(&accepted)? };
    let revision = vm.revision;
    Ok(Answer::accepted(StatusCode::ACCEPTED, &accepted, vm).etag(revision))
}

/// A VM of a project by name, or of any by id.
pub fn find<'a>(state: &'a Model, project: &Project, name: &str) -> Result<&'a vm::Vm> {
    state.find_vm(project.known(state)?, name).ok_or_else(|| Failure::not_found(Kind::Vm, name))
}

/// The VM that was changed, as it is then.
pub fn shown(accepted: &Accepted) -> Result<Vm> {
    let Outcome::Vm(id) = accepted.done.outcome else { return Err(Failure::unexpected(accepted)) };
    let state = &accepted.published.state;
    let vm = state.vms.get(&id).ok_or_else(|| Failure::gone(Kind::Vm, accepted))?;
    Ok(convert::vm(state, vm))
}
