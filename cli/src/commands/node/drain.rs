//! `holm node drain` and `holm node maintenance`: the request, and the wait until what was to leave has left. The
//! drain is the cluster's: ending this command, by hand or otherwise, ends only the waiting.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use holm_api::vm::Power;
use holm_api::{
    Availability, BeginMaintenance, Code, DrainNode, DrainPinned, DrainProgress, DrainQuery, NextForVm, Node,
    Vm, VmListQuery,
};
use hyper::Method;
use tokio::time::sleep;

use crate::args::node::{Drain, DrainOptions, Maintenance, Pinned, Switch};
use crate::client::path;
use crate::commands::Context;
use crate::commands::vm::seconds;
use crate::error::Error;
use crate::output::record::drain::left_in_words;
use crate::output::record::name_among_all;
use crate::output::{Output, Record, text};
use crate::progress::Board;

/// What is left is asked again after this long.
const PAUSE: Duration = Duration::from_millis(500);
/// Longest wait; a drain that takes longer is waited for by running the command again.
const LIMIT: Duration = Duration::from_secs(3600);
/// When nothing moves for this long because nothing fits anywhere, or the node is down, that is told.
const STUCK: Duration = Duration::from_secs(10);
/// Without any answer for this long, waiting has no sense.
const LOST: Duration = Duration::from_secs(60);

pub async fn drain(cx: &Context, typed: &Drain) -> Result<(), Error> {
    let target = path::of("nodes", &typed.node, "/drain")?;
    let look = format!("holm node show {}", typed.node);
    if typed.cancel {
        let node: Node = cx.client.write(Method::DELETE, &target, &(), &look).await?;
        let sentence = format!(
            "the drain of {0} is called off; it stays cordoned, `holm node uncordon {0}` opens it",
            node.name
        );
        return cx.output.done(&node, &sentence);
    }
    let dry =
        if typed.dry_run { path::with_query(&target, &DrainQuery { dry_run: true }, &[]) } else { target };
    let ask = async |how: DrainOptions| {
        let body =
            DrainNode { timeout_s: how.timeout.map(seconds).transpose()?, pinned: how.pinned.map(pinned) };
        cx.client.write::<DrainProgress>(Method::POST, &dry, &body, &look).await
    };
    let begun = with_a_word_on_pinned(cx, &typed.node, typed.how, ask).await?;
    if typed.dry_run {
        return cx.output.one(&begun);
    }
    match typed.wait.up_to(LIMIT) {
        None => {
            cx.output.done(&begun, &format!("drain of {} accepted: {}", begun.node, left_in_words(&begun)))
        }
        Some(limit) => wait(cx, begun, limit).await,
    }
}

pub async fn maintenance(cx: &Context, typed: &Maintenance) -> Result<(), Error> {
    let target = path::of("nodes", &typed.node, "/maintenance")?;
    let look = format!("holm node show {}", typed.node);
    if typed.switch == Switch::Off {
        if typed.reason.is_some() || typed.how.timeout.is_some() || typed.how.pinned.is_some() {
            let hint = format!("write `holm node maintenance {} off`", typed.node);
            return Err(Error::usage("--reason, --timeout and --pinned go with `on` only", hint));
        }
        let node: Node = cx.client.write(Method::DELETE, &target, &(), &look).await?;
        let sentence = format!(
            "maintenance of {} is over: it takes VMs again, and starts those it had stopped",
            node.name
        );
        return cx.output.done(&node, &sentence);
    }
    let ask = async |how: DrainOptions| {
        let body = BeginMaintenance {
            reason: typed.reason.clone(),
            timeout_s: how.timeout.map(seconds).transpose()?,
            pinned: how.pinned.map(pinned),
        };
        cx.client.write::<Node>(Method::PUT, &target, &body, &look).await
    };
    let node = with_a_word_on_pinned(cx, &typed.node, typed.how, ask).await?;
    let Some(limit) = typed.wait.up_to(LIMIT) else {
        return cx.output.done(&node, &format!("node {} is in maintenance, and is being drained", node.name));
    };
    let target = path::of("nodes", &node.id.to_string(), "/drain")?;
    match cx.client.find::<DrainProgress>(&target).await? {
        Some(progress) => wait(cx, progress, limit).await,
        None => Err(called_off(&node.name)),
    }
}

fn pinned(typed: Pinned) -> DrainPinned {
    match typed {
        Pinned::Stop => DrainPinned::Stop,
        Pinned::Keep => DrainPinned::Keep,
    }
}

/// Asks the cluster. When it wants to know what becomes of pinned VMs, they are listed, and the operator is asked
/// where there is one.
async fn with_a_word_on_pinned<T>(
    cx: &Context,
    node: &str,
    how: DrainOptions,
    ask: impl AsyncFn(DrainOptions) -> Result<T, Error>,
) -> Result<T, Error> {
    match ask(how).await {
        Err(Error::Problem(problem))
            if problem.code == Code::MissingField && problem.field.as_deref() == Some("pinned") =>
        {
            let query =
                VmListQuery { node: Some(node.to_owned()), all_projects: true, ..VmListQuery::default() };
            let mut vms: Vec<Vm> = cx.client.list("/v1/vms", &query).await?;
            vms.retain(|vm| vm.availability == Availability::Pinned && vm.power == Power::On);
            if let Some(said) = chosen(&vms)? {
                return ask(DrainOptions { pinned: Some(said), ..how }).await;
            }
            let detail = format!(
                "{} on {node} {} pinned: nothing was changed, say what becomes of {}{}",
                text::count(vms.len(), "VM"),
                if vms.len() == 1 { "is" } else { "are" },
                if vms.len() == 1 { "it" } else { "them" },
                names(&vms),
            );
            let hint = "--pinned stop shuts them down until the node is uncordoned; --pinned keep lets them run on, so \
                        the machine cannot be switched off";
            Err(Error::Failed { detail, hint: Some(hint.into()) })
        }
        outcome => outcome,
    }
}

/// One a line.
fn names(vms: &[Vm]) -> String {
    vms.iter().map(|vm| format!("\n  {} ({})", name_among_all(&vm.project, &vm.name), vm.status)).collect()
}

/// The word of an operator who sits at the terminal.
fn chosen(vms: &[Vm]) -> Result<Option<Pinned>, Error> {
    let mut stderr = std::io::stderr();
    if !std::io::stdin().is_terminal() || !stderr.is_terminal() {
        return Ok(None);
    }
    write!(
        stderr,
        "These VMs are pinned:{}\n(s)top them, (k)eep them running, or neither [Enter]? ",
        names(vms)
    )?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(match line.trim() {
        "s" | "stop" => Some(Pinned::Stop),
        "k" | "keep" => Some(Pinned::Keep),
        _ => None,
    })
}

async fn wait(cx: &Context, begun: DrainProgress, limit: Duration) -> Result<(), Error> {
    let start = Instant::now();
    let mut last = begun;
    let ended = tokio::select! {
        outcome = watch(cx, &mut last) => {
            outcome?;
            return cx.output.done(&last, &drained(&last, start.elapsed()));
        }
        () = sleep(limit) => format!("not within {}", text::short(limit)),
        _ = tokio::signal::ctrl_c() => "not waited for any longer".into(),
    };
    Err(Error::OutcomeUnknown {
        detail: format!("drain of {}: {ended}; {}", last.node, left_in_words(&last)),
        hint: Some(format!(
            "it goes on: `holm node drain {0}` waits for it again, `holm node drain {0} --cancel` calls it off",
            last.node
        )),
    })
}

/// Follows the drain until it is done; `last` is what was read last.
async fn watch(cx: &Context, last: &mut DrainProgress) -> Result<(), Error> {
    let mut board = Board::new();
    let target = path::of("nodes", &last.node_id.to_string(), "/drain")?;
    let (mut moved, mut heard) = (Instant::now(), Instant::now());
    while !last.done {
        board.draw(&last.detail(Output::new(cx.output.format).now));
        if moved.elapsed() >= STUCK {
            if !last.node_up {
                return Err(node_down(last));
            }
            if last.left.iter().all(|left| matches!(left.next, NextForVm::Stuck | NextForVm::Kept)) {
                return Err(nowhere_to_go(last));
            }
        }
        sleep(PAUSE).await;
        match cx.client.find::<DrainProgress>(&target).await {
            Ok(Some(now)) => {
                if (&now.left, now.node_up) != (&last.left, last.node_up) {
                    moved = Instant::now();
                }
                (*last, heard) = (now, Instant::now());
            }
            Ok(None) => return Err(called_off(&last.node)),
            Err(Error::Unreachable { .. }) if heard.elapsed() < LOST => {}
            Err(Error::Unreachable { detail, .. }) => {
                return Err(Error::OutcomeUnknown {
                    detail: format!("drain of {}: contact was lost: {detail}", last.node),
                    hint: Some(format!("it goes on; `holm node drain {}` waits for it again", last.node)),
                });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn drained(last: &DrainProgress, took: Duration) -> String {
    let kept = match last.left.len() {
        0 => "nothing runs there any more".to_owned(),
        n => format!("{} pinned {} on there, as you said", n, if n == 1 { "VM runs" } else { "VMs run" }),
    };
    let opens = match last.maintenance {
        true => format!("`holm node maintenance {} off` ends that", last.node),
        false => format!("`holm node uncordon {}` opens it", last.node),
    };
    let stays = if last.maintenance { "is in maintenance" } else { "stays cordoned" };
    let (node, took) = (&last.node, text::short(took));
    format!("node {node} is drained after {took}: {kept}; it {stays}, {opens}")
}

fn called_off(node: &str) -> Error {
    let hint = Some(format!("see `holm node show {node}` and `holm events`"));
    Error::Failed { detail: format!("the drain of {node} was called off meanwhile"), hint }
}

fn nowhere_to_go(last: &DrainProgress) -> Error {
    let stuck = last.left.iter().filter(|left| left.next == NextForVm::Stuck);
    let mut detail = format!("node {} is not empty: {}", last.node, left_in_words(last));
    for left in stuck {
        detail += &format!("\n  {} fits on no other node and runs on", left.name);
        for host in &left.refusals {
            detail += &format!("\n    {}: {}: {}", host.node, host.by, host.message);
        }
    }
    let hint = format!(
        "it goes on when there is room; make some, then `holm node drain {0}` waits for it again; \
         `holm node drain {0} --cancel` calls it off",
        last.node
    );
    Error::Failed { detail, hint: Some(hint) }
}

fn node_down(last: &DrainProgress) -> Error {
    Error::OutcomeUnknown {
        detail: format!(
            "node {} is down: its drain goes on when it is back; {}",
            last.node,
            left_in_words(last)
        ),
        hint: Some(format!(
            "if the machine is off, `holm vm evacuate --node {} --confirm-node-off` starts its pinned VMs elsewhere",
            last.node
        )),
    }
}
