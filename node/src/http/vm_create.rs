//! `POST /v1/vms`: one VM, or `count` of them in one entry of the log, or, with `dry_run`, only the answer
//! to what would become of them.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use holm_api::{Code, CreateVm, CreateVmQuery, CreatedVms, Explanation, RefusedVm, Vm};
use holm_model::planted::{Plant, planted};
use holm_model::reply::{Kind, Outcome};
use holm_model::scheduling::Scheduling;
use holm_model::{Command, Reason, State as Model, VmId, command, limits, vm};
use holm_sched::ignored;
use uuid::Uuid;

use super::answer::Answer;
use super::extract::{Change, Query};
use super::openapi::WriteHeaders;
use super::problem::{Failure, Result};
use super::project::Project;
use super::read::Snapshot;
use super::write::{Accepted, Basis};
use super::{convert, dry_run, n_plus_one};
use crate::app::Shared;

/// Reasons that are told of a batch of which nothing is created, and names that are told with each.
const REASONS_MAX: usize = 5;
const NAMES_MAX: usize = 3;

/// Create a VM, or `count` of them. The answer comes once the records are durable; the VMs are then in BUILD.
/// With `dry_run`, nothing is created and the answer explains the request on every node.
#[utoipa::path(post, path = "/v1/vms", tag = "vms", params(CreateVmQuery, WriteHeaders),
    request_body = CreateVm,
    responses((status = 202, body = Created), (status = 200, body = Explanation)))]
pub async fn create(
    State(app): State<Shared>,
    Query(query): Query<CreateVmQuery>,
    change: Change<CreateVm>,
) -> Result<Response> {
    let Change { body, intent } = change;
    intent.refuse_if_match()?;
    let names = names(&body)?;
    check(&body)?;
    let ids: Vec<VmId> = names.iter().map(|_| new_id()).collect();
    if query.dry_run {
        let snapshot = Snapshot::take(&app.raft, holm_api::Consistency::Linearizable).await?;
        let command = to_command(snapshot.state(), &intent.project, &ids, &names, &body)?;
        let (published, actor) = (snapshot.published(), intent.actor());
        let explained = move || dry_run::explain(&published.state, actor, command, &ids, &names);
        let explanation = n_plus_one::think(explained).await??;
        return Ok(Answer::read(&snapshot, explanation).into_response());
    }
    let build = |state: &Model| to_command(state, &intent.project, &ids, &names, &body);
    let basis = Basis::of_all(named(&body));
    let (accepted, mut warnings) = n_plus_one::perform_admitted(&app, &intent, basis, build).await?;
    // All of a batch ask for the same.
    let state = &accepted.published.state;
    let of = match &accepted.done.outcome {
        Outcome::Vm(id) => Some(id),
        Outcome::Vms { created, .. } => created.iter().find(|id| state.vms.contains_key(*id)),
        _ => None,
    };
    let vm = of.and_then(|id| state.vms.get(id));
    warnings.extend(vm.map(|vm| ignored(state, &vm.spec)).unwrap_or_default());
    match &accepted.done.outcome {
        Outcome::Vm(id) => {
            let vm = one(&accepted, *id).ok_or_else(|| Failure::gone(Kind::Vm, &accepted))?;
            let vm = Vm { warnings, ..vm };
            let (location, revision) = (format!("/v1/vms/{}", vm.id), vm.revision);
            let answer = Answer::accepted(StatusCode::ACCEPTED, &accepted, vm);
            Ok(answer.location(location).etag(revision).into_response())
        }
        Outcome::Vms { created, refused } if created.is_empty() => {
            let duplicate = accepted.duplicate;
            Err(Failure { duplicate, ..none_created(refused, &names) })
        }
        Outcome::Vms { created, refused } => {
            let created = CreatedVms { warnings, ..many(&accepted, created, refused, &names) };
            Ok(Answer::accepted(StatusCode::ACCEPTED, &accepted, created).into_response())
        }
        _ => Err(Failure::unexpected(&accepted)),
    }
}

/// An id that nothing has or had.
fn new_id() -> VmId {
    let id = Uuid::now_v7();
    VmId(if planted(Plant::FewIds) { Uuid::from_u128(id.as_u128() % 64) } else { id })
}

/// Every name or id of a record in the body.
fn named(body: &CreateVm) -> impl Iterator<Item = &str> {
    let one = [&body.kernel, &body.node, &body.group].into_iter().flatten();
    let many = body.different_host.iter().chain(&body.same_host).chain(&body.volumes);
    [&body.flavor, &body.image].into_iter().chain(one).chain(many).map(String::as_str)
}

/// One VM, or a list when `count` was given.
#[derive(utoipa::ToSchema)]
#[serde(untagged)]
#[allow(dead_code)] // Only its description is used.
enum Created {
    Vm(Box<Vm>),
    Vms(CreatedVms),
}

/// The names of the VMs to be, in order.
fn names(body: &CreateVm) -> Result<Vec<String>> {
    let most = limits::BATCH_MAX;
    let names: Vec<String> = match body.count {
        None if body.atomic.is_some() => return Err(Failure::invalid("atomic", "goes with `count` only")),
        None => vec![body.name.clone()],
        Some(count) if count == 0 || count as usize > most => {
            return Err(Failure::invalid("count", format!("is {count}, must be 1 to {most}")));
        }
        Some(count) => (1..=count).map(|n| format!("{}-{n}", body.name)).collect(),
    };
    limits::name("name", &body.name)?;
    // The last is the longest.
    limits::name("name", names.last().map_or("", String::as_str))?;
    Ok(names)
}

fn check(body: &CreateVm) -> Result<()> {
    if let Some(cmdline) = &body.cmdline {
        limits::text("cmdline", cmdline, limits::CMDLINE_MAX)?;
    }
    for (field, length) in [
        ("node_selector", body.node_selector.len()),
        ("tolerations", body.tolerations.len()),
        ("different_host", body.different_host.len()),
        ("same_host", body.same_host.len()),
        ("volumes", body.volumes.len()),
    ] {
        limits::count(field, length)?;
    }
    Ok(())
}

fn to_command(
    state: &Model,
    project: &Project,
    ids: &[VmId],
    names: &[String],
    body: &CreateVm,
) -> Result<Command> {
    let project = project.known(state)?;
    let (Some(id), Some(name)) = (ids.first(), names.first()) else {
        return Err(Failure::invalid("count", "must be at least 1"));
    };
    let first = template(state, project, *id, name, body)?;
    if body.count.is_none() {
        return Ok(Command::CreateVm(first));
    }
    let item =
        |(id, name): (&VmId, &String)| command::CreateVm { id: *id, name: name.clone(), ..first.clone() };
    let items = ids.iter().zip(names).map(item).collect();
    Ok(Command::CreateVms(command::CreateVms { items, atomic: body.atomic.unwrap_or(false) }))
}

fn template(
    state: &Model,
    project: &str,
    id: VmId,
    name: &str,
    body: &CreateVm,
) -> Result<command::CreateVm> {
    let flavor = state
        .find_flavor(&body.flavor)
        .ok_or_else(|| Failure::unknown_reference("flavor", Kind::Flavor, &body.flavor))?;
    let image = |field: &str, name: &str| {
        state
            .find_usable_image(project, name)
            .map(|image| image.id)
            .ok_or_else(|| Failure::unknown_reference(field, Kind::Image, name))
    };
    let node = |name: &String| {
        state
            .find_node(name)
            .map(|node| node.id)
            .ok_or_else(|| Failure::unknown_reference("node", Kind::Node, name))
    };
    let volume = |name: &String| {
        let volume = state.find_volume(project, name).map(|volume| volume.id);
        volume.ok_or_else(|| Failure::unknown_reference("volumes", Kind::Volume, name))
    };
    Ok(command::CreateVm {
        id,
        name: name.to_owned(),
        flavor: flavor.id,
        image: image("image", &body.image)?,
        kernel: body.kernel.as_deref().map(|kernel| image("kernel", kernel)).transpose()?,
        cmdline: body.cmdline.clone(),
        node: body.node.as_ref().map(node).transpose()?,
        availability: convert::to_availability(body.availability),
        policies: convert::to_policies(body),
        on_no_host: match body.on_no_host {
            holm_api::vm::OnNoHost::Queue => vm::OnNoHost::Queue,
            holm_api::vm::OnNoHost::Fail => vm::OnNoHost::Fail,
        },
        scheduling: scheduling(state, project, body)?,
        admitted: None,
        volumes: body.volumes.iter().map(volume).collect::<Result<_>>()?,
    })
}

/// What it asks of its host, names resolved.
fn scheduling(state: &Model, project: &str, body: &CreateVm) -> Result<Scheduling> {
    let group = |name: &String| {
        let group = state.find_group(project, name).map(|group| group.id);
        group.ok_or_else(|| Failure::unknown_reference("group", Kind::Group, name))
    };
    let vms = |field: &str, names: &[String]| {
        let one = |name: &String| {
            let vm = state.find_vm(project, name).map(|vm| vm.id);
            vm.ok_or_else(|| Failure::unknown_reference(field, Kind::Vm, name))
        };
        names.iter().map(one).collect::<Result<_>>()
    };
    Ok(Scheduling {
        availability_zone: body.availability_zone.clone(),
        node_selector: body.node_selector.iter().map(convert::to_requirement).collect(),
        tolerations: body.tolerations.iter().map(convert::to_toleration).collect(),
        group: body.group.as_ref().map(group).transpose()?,
        different_host: vms("different_host", &body.different_host)?,
        same_host: vms("same_host", &body.same_host)?,
        near: body.near.clone(),
        priority: body.priority.unwrap_or(0),
        preemptible: body.preemptible,
    })
}

fn one(accepted: &Accepted, id: VmId) -> Option<Vm> {
    let state = &accepted.published.state;
    state.vms.get(&id).map(|vm| convert::vm(state, vm))
}

/// The batch as it was decided, perhaps by an earlier request with the same key: its ids were made in the
/// order of the names. Those deleted since are left out.
fn many(accepted: &Accepted, created: &[VmId], refused: &[(VmId, Reason)], names: &[String]) -> CreatedVms {
    let mut ids: Vec<VmId> = created.iter().copied().chain(refused.iter().map(|(id, _)| *id)).collect();
    ids.sort();
    let name = |id: &VmId| ids.binary_search(id).ok().and_then(|at| names.get(at));
    CreatedVms {
        items: created.iter().filter_map(|id| one(accepted, *id)).collect(),
        refused: refused.iter().map(|of| self::refused(of, name(&of.0))).collect(),
        warnings: Vec::new(),
        revision: accepted.done.revision.0,
    }
}

/// What is said of a batch of which nothing is created, refused in the order of the names: each reason, and whom it is
/// about.
pub fn none_created(refused: &[(VmId, Reason)], names: &[String]) -> Failure {
    let mut reasons: Vec<(&Reason, Vec<&str>)> = Vec::new();
    for (name, (_, reason)) in names.iter().zip(refused) {
        match reasons.iter_mut().find(|(other, _)| *other == reason) {
            Some((_, with_it)) => with_it.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    let sentence = |(reason, names): &(&Reason, Vec<&str>)| format!("{}: {reason}", some(names));
    let told: Vec<String> = reasons.iter().take(REASONS_MAX).map(sentence).collect();
    let more = match reasons.len().saturating_sub(REASONS_MAX) {
        0 => String::new(),
        more => format!("; and {more} more reasons"),
    };
    let detail = format!("none of the {} VMs was created: {}{more}", refused.len(), told.join("; "));
    match reasons.first() {
        Some((first, _)) => Failure { detail, ..Failure::from((*first).clone()) },
        None => Failure::new(Code::Internal, detail),
    }
}

/// The first few, and how many more there are.
fn some(names: &[&str]) -> String {
    let first: Vec<String> = names.iter().take(NAMES_MAX).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(NAMES_MAX) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// One that was not created.
pub fn refused((id, reason): &(VmId, Reason), name: Option<&String>) -> RefusedVm {
    let failure = match reason {
        Reason::Unadmitted { .. } => n_plus_one::refusal_of_rest(),
        reason => Failure::from(reason.clone()),
    };
    let name = name.cloned().unwrap_or_else(|| id.to_string());
    RefusedVm { name, code: failure.code, detail: failure.detail }
}
