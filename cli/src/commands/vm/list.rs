//! `holm vm list`, and its `--watch`: redrawn on a terminal; in a pipe, a line for every change.

use std::collections::BTreeMap;
use std::time::Duration;

use holm_api::{Deleted, EventKind, Vm, VmListQuery, VmStatus};
use tokio::time::{sleep, timeout};

use crate::args::Format;
use crate::args::vm::List;
use crate::client::events::Events;
use crate::commands::Context;
use crate::error::Error;
use crate::output::{Output, Record, json_line, note, print, stdout_is_terminal, yaml};

/// Without an event, the list is read again after this long.
const PAUSE: Duration = Duration::from_secs(5);
/// Changes that come together are shown together.
const GATHER: Duration = Duration::from_millis(100);

pub async fn run(cx: &Context, typed: &List) -> Result<(), Error> {
    let query = VmListQuery {
        node: typed.node.clone(),
        status: typed.status.as_deref().map(parse_status).transpose()?,
        all_projects: typed.all_projects,
        ..VmListQuery::default()
    };
    if !typed.watch {
        let vms = read(cx, &query).await?;
        return cx.output.list(&vms);
    }
    tokio::select! {
        outcome = watch(cx, &query) => outcome,
        // Ctrl-C is how watching ends.
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

async fn read(cx: &Context, query: &VmListQuery) -> Result<Vec<Vm>, Error> {
    let mut vms: Vec<Vm> = cx.client.list("/v1/vms", query).await?;
    cx.tell_apart(query.all_projects, &mut vms, |vm| (&vm.project, &mut vm.name));
    Ok(vms)
}

fn parse_status(text: &str) -> Result<VmStatus, Error> {
    let known = VmStatus::ALL.into_iter().find(|status| status.as_str().eq_ignore_ascii_case(text));
    known.ok_or_else(|| {
        let all = VmStatus::ALL.map(VmStatus::as_str).join(", ");
        Error::usage(format!("--status: `{text}` is not a status"), format!("one of {all}"))
    })
}

async fn watch(cx: &Context, query: &VmListQuery) -> Result<(), Error> {
    let mut events = Events::new(&cx.client, None);
    let redraw = stdout_is_terminal() && cx.output.format == Format::Table;
    let mut shown: BTreeMap<String, Vm> = BTreeMap::new();
    loop {
        // Before the list is read, so that no change falls between. Without events, it is read from time
        // to time.
        let _ = events.open().await;
        match read(cx, query).await {
            Ok(vms) if redraw => {
                let output = Output::new(cx.output.format);
                print(&format!("\x1b[H\x1b[2J{}", output.render_list(&vms)))?;
            }
            Ok(vms) => print(&changes(cx.output.format, &mut shown, vms))?,
            Err(Error::Unreachable { detail, .. }) => note(&format!("{detail}; trying again")),
            Err(error) => return Err(error),
        }
        let changed = async {
            // A node's going shows at its VMs too.
            while !matches!(events.next().await?.kind, EventKind::Vm | EventKind::Node) {}
            Ok::<_, Error>(())
        };
        if let Ok(Err(_)) = timeout(PAUSE, changed).await {
            sleep(PAUSE).await;
        }
        sleep(GATHER).await;
    }
}

/// Lines for what differs from what was shown.
fn changes(format: Format, shown: &mut BTreeMap<String, Vm>, vms: Vec<Vm>) -> String {
    let now: BTreeMap<String, Vm> = vms.into_iter().map(|vm| (vm.id.to_string(), vm)).collect();
    let mut text = String::new();
    for (id, vm) in &now {
        if shown.get(id) != Some(vm) {
            text += &changed(format, vm, shown.get(id));
        }
    }
    for (id, vm) in shown.iter().filter(|(id, _)| !now.contains_key(*id)) {
        let gone = Deleted { id: id.clone(), name: Some(vm.name.clone()), revision: vm.revision };
        text += &match format {
            Format::Table => format!("{:<24}  gone\n", vm.name),
            Format::Json => json_line(&gone),
            Format::Yaml => format!("---\n{}", yaml(&gone)),
            Format::Name => String::new(),
        };
    }
    *shown = now;
    text
}

fn changed(format: Format, vm: &Vm, before: Option<&Vm>) -> String {
    let row = |vm: &Vm| {
        let cells = vm.row(Output::new(format).now);
        // Everything but the age, which changes by itself.
        let [name, status, node, hypervisor, ..] = &cells[..] else { unreachable!("a VM has seven columns") };
        let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        format!("{name:<24}  {status:<24}  {:<16}  {}\n", or_dash(node), or_dash(hypervisor))
    };
    match format {
        Format::Table if before.map(row).as_ref() == Some(&row(vm)) => String::new(),
        Format::Table => row(vm),
        Format::Json => json_line(vm),
        Format::Yaml => format!("---\n{}", yaml(vm)),
        Format::Name => format!("{}\n", vm.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::record::fixtures::{active, building};

    #[test]
    fn a_status_is_accepted_in_any_case_and_a_wrong_one_is_answered_with_the_list() {
        assert_eq!(parse_status("shutoff").unwrap(), VmStatus::Shutoff);
        let error = parse_status("running").unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert_eq!(error.to_string(), "--status: `running` is not a status");
    }

    #[test]
    fn in_a_pipe_only_changes_are_printed() {
        let mut shown = BTreeMap::new();
        let first = changes(Format::Table, &mut shown, vec![building()]);
        assert_eq!(first, "web                       BUILD (scheduling)        -                 -\n");
        assert_eq!(changes(Format::Table, &mut shown, vec![building()]), "");
        let mut moved = active();
        moved.id = building().id;
        let second = changes(Format::Table, &mut shown, vec![moved]);
        assert_eq!(
            second,
            "web                       ACTIVE                    n1                cloud-hypervisor\n"
        );
        assert_eq!(changes(Format::Table, &mut shown, vec![]), "web                       gone\n");
    }
}
