//! Waiting for what was asked of a VM. Level-triggered: the record is read, judged, and read again when an
//! event names the VM, or after a pause should one be missed. Always bounded; Ctrl-C ends only the waiting.

use std::time::{Duration, Instant};

use holm_api::vm::{Availability, TaskState};
use holm_api::{Vm, VmStatus};
use tokio::time::sleep;

use crate::client::events::{Events, is_compacted};
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;
use crate::output::record::vm::{hosts, status, what_helps};
use crate::output::text;
use crate::progress::Progress;

/// Without an event, the record is read again after this long: seen by nobody, or shown on a terminal
/// (steps within a status are reported without events).
const PAUSE: Duration = Duration::from_secs(2);
const PAUSE_SHOWN: Duration = Duration::from_millis(300);
/// Without any answer for this long, waiting has no sense.
const LOST: Duration = Duration::from_secs(60);
/// While the VM's node is down nothing happens to it: that is told after this long, in case it only restarts.
const DOWN: Duration = Duration::from_secs(5);

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// ACTIVE, with nothing going on.
    Running,
    /// SHUTOFF.
    Off,
    /// No record.
    Gone,
}

/// How far a VM is from its goal.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Reached,
    /// In words, what goes on.
    Pending(String),
    /// It will not get there by itself; why.
    Missed(String),
}

/// Waits until `vm` has reached `goal`, and gives its record.
///
/// # Errors
/// [`Error::Failed`] with the reasons when it ends elsewhere, [`Error::OutcomeUnknown`] when the time is
/// over, contact is lost, or the operator has seen enough.
pub async fn until(cx: &Context, vm: Vm, goal: Goal, limit: Duration) -> Result<Vm, Error> {
    let name = vm.name.clone();
    match bounded(cx, vm, goal, limit).await? {
        Some(vm) => Ok(vm),
        None => Err(Error::failed(format!("VM `{name}` was deleted meanwhile"))),
    }
}

/// Waits until `vm` is gone.
///
/// # Errors
/// As [`until`].
pub async fn until_gone(cx: &Context, vm: Vm, limit: Duration) -> Result<(), Error> {
    bounded(cx, vm, Goal::Gone, limit).await.map(drop)
}

async fn bounded(cx: &Context, vm: Vm, goal: Goal, limit: Duration) -> Result<Option<Vm>, Error> {
    let mut last = vm;
    let ended = tokio::select! {
        outcome = watch(cx, &mut last, goal) => return outcome,
        () = sleep(limit) => format!("not within {}", text::short(limit)),
        _ = tokio::signal::ctrl_c() => "not waited for any longer".into(),
    };
    let pending = match judge(&last, goal) {
        Verdict::Pending(what) => what,
        _ => status(&last),
    };
    let explain = if last.status == VmStatus::Build { "explain" } else { "show" };
    Err(Error::OutcomeUnknown {
        detail: format!("VM `{}`: {ended}; it is left as it is: {pending}", last.name),
        hint: Some(format!("the cluster goes on; look with `holm vm {explain} {}`", last.name)),
    })
}

/// Follows the VM until it is decided; `last` is the latest record read.
async fn watch(cx: &Context, last: &mut Vm, goal: Goal) -> Result<Option<Vm>, Error> {
    let mut progress = Progress::new();
    let pause = if progress.is_shown() { PAUSE_SHOWN } else { PAUSE };
    let id = last.id.to_string();
    let target = path::of("vms", &id, "")?;
    let mut events = Events::new(&cx.client, Some(last.revision));
    let mut heard = Instant::now();
    let mut down_since = None;
    loop {
        match judge(last, goal) {
            Verdict::Reached => return Ok(Some(last.clone())),
            Verdict::Missed(why) => return Err(missed(last, &why)),
            Verdict::Pending(what) => progress.step(&format!("{}: {what}", last.name)),
        }
        match last.node_up {
            // It comes back elsewhere by itself.
            Some(false) if last.availability_in_force == Some(Availability::Failover) => {}
            Some(false) if down_since.get_or_insert_with(Instant::now).elapsed() >= DOWN => {
                return Err(node_down(last));
            }
            Some(false) => {}
            _ => down_since = None,
        }
        tokio::select! {
            changed = change(&mut events, &id) => {
                if let Err(error) = changed {
                    if is_compacted(&error) {
                        events = Events::new(&cx.client, None);
                    } else {
                        sleep(pause).await;
                    }
                }
            }
            () = sleep(pause) => {}
        }
        match cx.client.find::<Vm>(&target).await {
            Ok(Some(vm)) => (*last, heard) = (vm, Instant::now()),
            Ok(None) => return Ok(None),
            Err(Error::Unreachable { detail, .. }) if heard.elapsed() < LOST => {
                progress.step(&format!("{}: {detail}; trying again", last.name));
            }
            Err(Error::Unreachable { detail, .. }) => {
                return Err(Error::OutcomeUnknown {
                    detail: format!(
                        "VM `{}` was {} when contact was lost: {detail}",
                        last.name,
                        status(last)
                    ),
                    hint: Some(format!("look with `holm vm show {}` when a node answers", last.name)),
                });
            }
            Err(error) => return Err(error),
        }
    }
}

/// Returns when an event names the VM.
async fn change(events: &mut Events<'_>, id: &str) -> Result<(), Error> {
    while events.next().await?.id != id {}
    Ok(())
}

/// The request is kept, and waiting for it has no sense.
fn node_down(vm: &Vm) -> Error {
    let node = vm.node.as_deref().unwrap_or("?");
    Error::OutcomeUnknown {
        detail: format!(
            "VM `{}`: its node {node} is down; what was asked for is kept, and done when {node} is back",
            vm.name
        ),
        hint: Some(format!(
            "if that machine is off, `holm vm evacuate {} --confirm-node-off` starts it elsewhere, without its disk",
            vm.name
        )),
    }
}

fn missed(vm: &Vm, why: &str) -> Error {
    let mut detail = format!("VM `{}` {why}", vm.name);
    for (label, reasons) in [("failed on", hosts(&vm.excluded)), ("refused by", hosts(&vm.refusals))] {
        for reason in reasons.lines() {
            detail += &format!("\n  {label} {reason}");
        }
    }
    for step in what_helps(&vm.advice).lines() {
        detail += &format!("\n  what helps: {step}");
    }
    let look = match vm.node {
        Some(_) => format!("see `holm vm show {0}` and `holm vm log {0}`", vm.name),
        None => format!("see `holm vm explain {0}`; `holm vm start {0}` tries again", vm.name),
    };
    Error::Failed { detail, hint: Some(look) }
}

fn judge(vm: &Vm, goal: Goal) -> Verdict {
    let fault = || vm.fault.as_ref().map(|fault| format!(": {}", fault.message)).unwrap_or_default();
    let ended = || Verdict::Missed(format!("is {}{}", vm.status, fault()));
    match (goal, vm.status, vm.task_state) {
        (Goal::Gone, _, _) => Verdict::Pending(pending(vm)),
        (_, VmStatus::Deleting, _) => Verdict::Missed("is being deleted".into()),
        (_, _, Some(_)) | (_, VmStatus::Build | VmStatus::Migrating, None) => Verdict::Pending(pending(vm)),
        (Goal::Running, VmStatus::Active, None) | (Goal::Off, VmStatus::Shutoff, None) => Verdict::Reached,
        (Goal::Off, VmStatus::Active | VmStatus::Paused, None) => Verdict::Missed("was started again".into()),
        (_, _, None) => ended(),
    }
}

/// What goes on, in words: the step, what its node said last, and what holds it up.
fn pending(vm: &Vm) -> String {
    let mut text = match vm.task_state {
        Some(step) => step.to_string(),
        None => vm.status.to_string(),
    };
    if let Some(node) = &vm.node {
        text += &format!(" on {node}");
    }
    if vm.node_up == Some(false) {
        text += ", which is not heard from";
    }
    // The observed step of an earlier run says nothing about this one.
    let step = vm.observed.as_ref().filter(|observed| observed.run == vm.run).and_then(|o| o.step.as_ref());
    if let Some(step) = step {
        text += &format!(": {step}");
    }
    if vm.task_state == Some(TaskState::Scheduling) && !vm.refusals.is_empty() {
        text += &format!(", no host fits yet ({})", hosts(&vm.refusals).replace('\n', "; "));
    }
    text
}

#[cfg(test)]
#[path = "wait_tests.rs"]
mod tests;
