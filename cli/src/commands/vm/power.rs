//! `holm vm start|stop|reboot`: one request each, and the wait for what it asks for.

use std::time::{Duration, Instant};

use holm_api::{RebootVm, StopVm, Vm};
use hyper::Method;
use serde::Serialize;

use super::wait::{self, Goal};
use crate::args::vm::{Reboot, Start, Stop};
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;
use crate::output::{self, text};

/// What the cluster gives a guest when nothing is typed.
const GRACE: Duration = Duration::from_secs(60);
/// Beyond the guest's own time, for the node to do the rest.
const MARGIN: Duration = Duration::from_secs(300);

pub async fn start(cx: &Context, typed: &Start) -> Result<(), Error> {
    ask(cx, &typed.vm, "start", &(), Goal::Running, typed.wait.limit()).await
}

pub async fn stop(cx: &Context, typed: &Stop) -> Result<(), Error> {
    let body = StopVm { force: typed.force, timeout_s: typed.timeout.map(seconds).transpose()? };
    let limit = typed.timeout.unwrap_or(GRACE).saturating_add(MARGIN);
    ask(cx, &typed.vm, "stop", &body, Goal::Off, typed.wait.up_to(limit)).await
}

pub async fn reboot(cx: &Context, typed: &Reboot) -> Result<(), Error> {
    let body = RebootVm { hard: typed.hard, timeout_s: typed.timeout.map(seconds).transpose()? };
    let limit = typed.timeout.unwrap_or(GRACE).saturating_add(MARGIN);
    ask(cx, &typed.vm, "reboot", &body, Goal::Running, typed.wait.up_to(limit)).await
}

async fn ask(
    cx: &Context,
    vm: &str,
    verb: &str,
    body: &impl Serialize,
    goal: Goal,
    limit: Option<Duration>,
) -> Result<(), Error> {
    let start = Instant::now();
    let target = path::of("vms", vm, &format!("/{verb}"))?;
    let vm: Vm = cx.client.write(Method::POST, &target, body, &format!("holm vm show {vm}")).await?;
    output::warn(&vm.warnings);
    let Some(limit) = limit else {
        return cx.output.done(&vm, &format!("VM {}: {verb} accepted", vm.name));
    };
    let vm = wait::until(cx, vm, goal, limit).await?;
    let node = vm.node.as_deref().unwrap_or("?");
    let took = text::short(start.elapsed());
    cx.output.done(&vm, &format!("VM {} is {} on {node} after {took}", vm.name, vm.status))
}

/// Whole seconds, rounded up, as the API counts.
pub fn seconds(duration: Duration) -> Result<u32, Error> {
    u32::try_from(duration.as_millis().div_ceil(1000))
        .map_err(|_| Error::usage("the duration is too long", "at most 1h is allowed"))
}
