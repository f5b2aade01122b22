//! `holm vm create`: the record first, or several, then, if asked to, their way to ACTIVE. With `--dry-run`
//! only the answer to where they would go.

use std::time::{Duration, Instant};

use holm_api::vm::OnNoHost;
use holm_api::{CreateVm, CreateVmQuery, CreatedVms, Explanation, Vm};
use hyper::Method;

use super::set;
use super::wait::{self, Goal};
use crate::args::vm::{Create, OnNoHost as Typed};
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;
use crate::output::{self, text};

const TARGET: &str = "/v1/vms";

pub async fn run(cx: &Context, typed: Create) -> Result<(), Error> {
    let (start, limit, dry_run) = (Instant::now(), typed.wait.limit(), typed.dry_run);
    path::of("vms", &typed.name, "")?;
    let body = request(typed)?;
    let look = format!("holm vm show {}", body.name);
    if dry_run {
        let target = path::with_query(TARGET, &CreateVmQuery { dry_run }, &[]);
        let explanation: Explanation = cx.client.write(Method::POST, &target, &body, &look).await?;
        return cx.output.one(&explanation);
    }
    if body.count.is_some() {
        let created: CreatedVms = cx.client.write(Method::POST, TARGET, &body, "holm vm list").await?;
        return many(cx, created, start, limit).await;
    }
    let vm: Vm = cx.client.write(Method::POST, TARGET, &body, &look).await?;
    output::warn(&vm.warnings);
    let Some(limit) = limit else {
        return cx.output.done(&vm, &format!("VM {} accepted ({})", vm.name, vm.status));
    };
    let vm = wait::until(cx, vm, Goal::Running, limit).await?;
    cx.output.done(&vm, &sentence(&vm, start.elapsed()))
}

fn request(typed: Create) -> Result<CreateVm, Error> {
    let scheduling = typed.scheduling;
    let keep = set::request(&typed.keep)?;
    Ok(CreateVm {
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
        availability: keep.availability.unwrap_or_default(),
        disk_loss: keep.disk_loss.unwrap_or_default(),
        restart_policy: keep.restart_policy.unwrap_or_default(),
        start_order: keep.start_order.unwrap_or_default(),
        start_delay_s: keep.start_delay_s.unwrap_or_default(),
        availability_zone: scheduling.availability_zone,
        node_selector: scheduling.selectors,
        tolerations: scheduling.tolerations,
        group: scheduling.group,
        different_host: scheduling.different_host,
        same_host: scheduling.same_host,
        near: scheduling.near,
        priority: scheduling.priority,
        preemptible: scheduling.preemptible,
        volumes: typed.volumes,
        count: typed.count,
        atomic: typed.atomic.then_some(true),
    })
}

fn sentence(vm: &Vm, took: Duration) -> String {
    let simulated = vm.hypervisor.as_ref().filter(|h| h.kind == holm_api::HypervisorKind::Simulated);
    let note = if simulated.is_some() { " (simulated: no guest runs)" } else { "" };
    let node = vm.node.as_deref().unwrap_or("?");
    format!("VM {} is {} on {node}{note} after {}", vm.name, vm.status, text::short(took))
}

/// Those that were created are waited for one after another; one that fails does not hide the others.
async fn many(
    cx: &Context,
    created: CreatedVms,
    start: Instant,
    limit: Option<Duration>,
) -> Result<(), Error> {
    output::warn(&created.warnings);
    let mut failed = refusals(&created);
    let mut ended = Vec::with_capacity(created.items.len());
    let mut limit = limit;
    for vm in created.items {
        let Some(left) = limit.map(|limit| limit.saturating_sub(start.elapsed())) else {
            ended.push(vm);
            continue;
        };
        let target = path::of("vms", &vm.id.to_string(), "")?;
        match wait::until(cx, vm, Goal::Running, left).await {
            Ok(vm) => ended.push(vm),
            Err(error @ (Error::Failed { .. } | Error::OutcomeUnknown { .. })) => {
                // Nobody waits any longer; the others are shown as they were accepted.
                if matches!(error, Error::OutcomeUnknown { .. }) {
                    limit = None;
                }
                ended.extend(cx.client.find::<Vm>(&target).await?);
                if let Some(earlier) = failed.replace(error) {
                    earlier.print(cx.output.format);
                }
            }
            Err(error) => return Err(error),
        }
    }
    cx.output.list(&ended)?;
    failed.map_or(Ok(()), Err)
}

/// What of the batch was not created, if anything.
fn refusals(created: &CreatedVms) -> Option<Error> {
    if created.refused.is_empty() {
        return None;
    }
    let mut detail = format!("not created: {}", text::count(created.refused.len(), "VM"));
    for refused in &created.refused {
        detail += &format!("\n  {}: {}", refused.name, refused.detail);
    }
    Some(Error::Failed { detail, hint: Some("with --atomic all are created or none".into()) })
}
