//! How a VM is kept running: `PATCH /v1/vms/{vm}`, and what an operator does for one that is stuck or whose node
//! is off: `evacuate`, `reset-state`.

use axum::extract::State;
use axum::http::StatusCode;
use holm_api::{Code, EvacuateVm, PatchVm, Vm};
use holm_model::reply::Outcome;
use holm_model::{Command, State as Model, VmId, command};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::Answer;
use super::convert;
use super::extract::{Change, Named, NoBody};
use super::n_plus_one::perform_admitted;
use super::openapi::{MatchHeader, WriteHeaders};
use super::problem::{Failure, Result};
use super::vms::{find, shown};
use super::write::{Basis, Intent};
use crate::app::Shared;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(evacuate)).routes(routes!(reset_state))
}

/// Change how a VM is kept running. `pinned` holds at once, `failover` when its node has bound what runs to its
/// lease: `availability_in_force` tells.
#[utoipa::path(patch, path = "/v1/vms/{vm}", tag = "vms",
    params(("vm" = String, Path, description = "Name or id"), WriteHeaders, MatchHeader),
    request_body = PatchVm,
    responses((status = 200, body = Vm)))]
pub async fn patch(State(app): State<Shared>, name: Named, change: Change<PatchVm>) -> Result<Answer<Vm>> {
    let Change { body, intent } = change;
    if body == PatchVm::default() {
        return Err(Failure::new(Code::MissingField, "nothing to change is given")
            .field("availability")
            .hint(
                "give `availability`, `disk_loss`, `restart_policy`, `start_order`, `start_delay_s` or `any_node`",
            ));
    }
    let expected = intent.expected;
    change_vm(&app, &name, &intent, StatusCode::OK, |vm| {
        Command::SetVmPolicies(command::SetVmPolicies {
            vm,
            availability: body.availability.map(convert::to_availability),
            disk_loss: body.disk_loss.map(convert::to_disk_loss),
            restart_policy: body.restart_policy.map(convert::to_restart_policy),
            start_order: body.start_order,
            start_delay_s: body.start_delay_s,
            admitted: None,
            any_node: body.any_node,
            expected,
        })
    })
    .await
}

/// Take a VM from a node that is down, because you know that the machine is off: it is placed anew, and its disk
/// there is given up. Refused while the node is up.
#[utoipa::path(post, path = "/v1/vms/{vm}/evacuate", tag = "vms",
    params(("vm" = String, Path, description = "Name or id"), WriteHeaders, MatchHeader),
    request_body = EvacuateVm,
    responses((status = 202, body = Vm)))]
async fn evacuate(State(app): State<Shared>, name: Named, change: Change<EvacuateVm>) -> Result<Answer<Vm>> {
    let Change { body, intent } = change;
    let (confirm_node_off, expected) = (body.confirm_node_off, intent.expected);
    change_vm(&app, &name, &intent, StatusCode::ACCEPTED, |vm| {
        Command::EvacuateVm(command::EvacuateVm { vm, confirm_node_off, admitted: None, expected })
    })
    .await
}

/// Take a VM out of a step that does not end. Its node's next report tells how it is.
#[utoipa::path(post, path = "/v1/vms/{vm}/reset-state", tag = "vms",
    params(("vm" = String, Path, description = "Name or id"), WriteHeaders, MatchHeader),
    responses((status = 202, body = Vm)))]
async fn reset_state(
    State(app): State<Shared>,
    name: Named,
    Change { intent, .. }: Change<NoBody>,
) -> Result<Answer<Vm>> {
    let expected = intent.expected;
    change_vm(&app, &name, &intent, StatusCode::ACCEPTED, |vm| {
        Command::ResetVmState(command::ResetVmState { vm, expected })
    })
    .await
}

async fn change_vm(
    app: &Shared,
    name: &Named,
    intent: &Intent,
    status: StatusCode,
    command: impl Fn(VmId) -> Command,
) -> Result<Answer<Vm>> {
    let before = app.raft.state();
    let build = |state: &Model| Ok(command(find(state, &intent.project, &name.0)?.id));
    let (accepted, warnings) = perform_admitted(app, intent, Basis::of(name), build).await?;
    // One that was to be deleted is gone once its node no longer holds it: shown as it last was.
    let last = match accepted.done.outcome {
        Outcome::Vm(id) => before.state.vms.get(&id).map(|vm| convert::vm(&before.state, vm)),
        _ => None,
    };
    let vm = Vm { warnings, ..shown(&accepted).or_else(|gone| last.ok_or(gone))? };
    let revision = vm.revision;
    Ok(Answer::accepted(status, &accepted, vm).etag(revision))
}
