//! `holm vm evacuate` and `holm vm reset-state`: what an operator does for VMs whose node is off, or that are stuck.

use std::time::Instant;

use holm_api::vm::EvacuateVm;
use holm_api::{Availability, Vm, VmListQuery, VmStatus};
use hyper::Method;

use super::wait::{self, Goal};
use crate::args::vm::{Evacuate, Target};
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;

pub async fn run(cx: &Context, typed: &Evacuate) -> Result<(), Error> {
    let (start, limit) = (Instant::now(), typed.wait.limit());
    let mut accepted = Vec::new();
    let mut refused: Option<Error> = None;
    // One that is refused does not keep the others: its error is told, the last one at the end.
    let mut refuse = |error: Error| {
        if let Some(earlier) = refused.replace(error) {
            earlier.print(cx.output.format);
        }
    };
    let body = EvacuateVm { confirm_node_off: typed.confirm_node_off };
    for name in which(cx, typed).await? {
        let target = path::of("vms", &name, "/evacuate")?;
        match cx.client.write::<Vm>(Method::POST, &target, &body, &format!("holm vm show {name}")).await {
            Ok(vm) => accepted.push(vm),
            Err(error) => refuse(error),
        }
    }
    for vm in accepted {
        let Some(limit) = limit.filter(|_| vm.status == VmStatus::Build) else {
            cx.output.done(&vm, &format!("VM {} is evacuated ({})", vm.name, vm.status))?;
            continue;
        };
        match wait::until(cx, vm, Goal::Running, limit.saturating_sub(start.elapsed())).await {
            Ok(vm) => {
                let node = vm.node.as_deref().unwrap_or("?");
                cx.output.done(&vm, &format!("VM {} is {} on {node}", vm.name, vm.status))?;
            }
            Err(error) => refuse(error),
        }
    }
    refused.map_or(Ok(()), Err)
}

/// Names or ids of what is to be evacuated.
async fn which(cx: &Context, typed: &Evacuate) -> Result<Vec<String>, Error> {
    let Some(node) = &typed.node else { return Ok(typed.vms.clone()) };
    let query = VmListQuery { node: Some(node.clone()), all_projects: true, ..VmListQuery::default() };
    let vms: Vec<Vm> = cx.client.list("/v1/vms", &query).await?;
    let pinned = vms.iter().filter(|vm| vm.availability == Availability::Pinned);
    let ids: Vec<_> = pinned.map(|vm| vm.id.to_string()).collect();
    if ids.is_empty() {
        let hint = Some(format!("`holm vm list --node {node}` shows what is there"));
        return Err(Error::Failed { detail: format!("no pinned VM is on {node}"), hint });
    }
    Ok(ids)
}

pub async fn reset_state(cx: &Context, typed: &Target) -> Result<(), Error> {
    let target = path::of("vms", &typed.vm, "/reset-state")?;
    let look = format!("holm vm show {}", typed.vm);
    let vm: Vm = cx.client.write(Method::POST, &target, &(), &look).await?;
    cx.output.done(&vm, &format!("VM {} is {} until its node says how it is", vm.name, vm.status))
}
