//! `holm vm set`: how a VM is kept running.

use holm_api::vm::{Availability, DiskLoss, PatchVm, RestartPolicy, Vm};
use hyper::Method;

use super::power::seconds;
use crate::args::vm::{self as typed, Keep, Set};
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;
use crate::output;

pub async fn run(cx: &Context, typed: &Set) -> Result<(), Error> {
    let body = PatchVm { any_node: typed.any_node, ..request(&typed.keep)? };
    let look = format!("holm vm show {}", typed.vm);
    let vm: Vm = cx.client.write(Method::PATCH, &path::of("vms", &typed.vm, "")?, &body, &look).await?;
    output::warn(&vm.warnings);
    cx.output.done(&vm, &sentence(&vm))
}

/// What was typed, as the API takes it; a creation takes the same.
pub fn request(keep: &Keep) -> Result<PatchVm, Error> {
    Ok(PatchVm {
        availability: keep.availability.map(|availability| match availability {
            typed::Availability::Pinned => Availability::Pinned,
            typed::Availability::Failover => Availability::Failover,
        }),
        disk_loss: keep.disk_loss.map(|disk_loss| match disk_loss {
            typed::DiskLoss::Refuse => DiskLoss::Refuse,
            typed::DiskLoss::Recreate => DiskLoss::Recreate,
        }),
        restart_policy: keep.restart_policy.map(|restart| match restart {
            typed::Restart::Always => RestartPolicy::Always,
            typed::Restart::OnFailure => RestartPolicy::OnFailure,
            typed::Restart::Never => RestartPolicy::Never,
        }),
        start_order: keep.start_order,
        start_delay_s: keep.start_delay.map(seconds).transpose()?,
        any_node: false,
    })
}

fn sentence(vm: &Vm) -> String {
    match vm.availability_in_force {
        Some(now) if now != vm.availability => format!(
            "VM {} changed; it is {} until its node says that what runs there is bound to its lease",
            vm.name,
            now.as_str()
        ),
        _ => format!("VM {} changed", vm.name),
    }
}
