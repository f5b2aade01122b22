//! `holm vm create`: the record first, then, if asked to, its way to ACTIVE.

use std::time::Instant;

use holm_api::vm::{Availability, OnNoHost};
use holm_api::{CreateVm, Vm};
use hyper::Method;

use super::wait::{self, Goal};
use crate::args::vm::{Create, OnNoHost as Typed};
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;
use crate::output::text;

pub async fn run(cx: &Context, typed: Create) -> Result<(), Error> {
    let (start, limit) = (Instant::now(), typed.wait.limit());
    path::of("vms", &typed.name, "")?;
    let body = CreateVm {
        name: typed.name,
        flavor: typed.flavor,
        image: typed.image,
        kernel: typed.kernel,
        cmdline: typed.cmdline,
        node: typed.node,
        on_no_host: match typed.on_no_host {
            Typed::Queue => OnNoHost::Queue,
            Typed::Fail => OnNoHost::Fail,
        },
        availability: Availability::Pinned,
    };
    let look = format!("holm vm show {}", body.name);
    let vm: Vm = cx.client.write(Method::POST, "/v1/vms", &body, &look).await?;
    let Some(limit) = limit else {
        return cx.output.done(&vm, &format!("VM {} accepted ({})", vm.name, vm.status));
    };
    let vm = wait::until(cx, vm, Goal::Running, limit).await?;
    let simulated = vm.hypervisor.as_ref().filter(|h| h.kind == holm_api::HypervisorKind::Simulated);
    let note = if simulated.is_some() { " (simulated: no guest runs)" } else { "" };
    let node = vm.node.as_deref().unwrap_or("?");
    let took = text::short(start.elapsed());
    cx.output.done(&vm, &format!("VM {} is {} on {node}{note} after {took}", vm.name, vm.status))
}
