//! Judges what everybody said. Pure: the same answers give the same findings.

use std::collections::{BTreeMap, BTreeSet};

use holm_api::{HypervisorKind, Node, Role, Vm, VmStatus};

use super::gather::Seen;
use super::{Finding, Level, failover};
use crate::output::text::count;

/// Clocks further apart than this make ages and time-outs wrong. `Date` tells whole seconds.
const CLOCK_LIMIT_MS: i64 = 2_000;

/// Conditions under which a node does all it should.
const WORTH_KNOWING: &[&str] = &["BinaryReplaced", "ClockJump"];

pub fn all(seen: &Seen) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(endpoints(seen));
    findings.extend(nodes(seen));
    findings.push(quorum(seen));
    findings.push(leader(seen));
    findings.push(versions(seen));
    findings.push(states(seen));
    findings.push(clocks(seen));
    findings.extend(hypervisors(seen));
    findings.extend(conditions(seen));
    findings.extend(failover::all(seen));
    findings.extend(vms(seen));
    findings
        .extend(seen.warnings.iter().map(|warning| Finding::new("scheduler", Level::Note, warning.clone())));
    findings
}

/// One `ok` for all, or one finding for each that is not.
fn each_or_ok(check: &'static str, wrong: Vec<Finding>, ok: String) -> Vec<Finding> {
    if wrong.is_empty() { vec![Finding::new(check, Level::Ok, ok)] } else { wrong }
}

fn endpoints(seen: &Seen) -> Vec<Finding> {
    let wrong = seen.endpoints.iter().filter_map(|(endpoint, answer)| {
        let why = answer.as_ref().err()?;
        // A node that does not answer is told once, below.
        let of_node =
            seen.nodes.iter().zip(&seen.answers).find(|(node, (_, answer))| {
                answer.is_err() && *endpoint == format!("http://{}", node.api_addr)
            });
        let level = if of_node.is_some() { Level::Note } else { Level::Wrong };
        Some(Finding::new("endpoints", level, format!("{endpoint}: {why}")))
    });
    each_or_ok("endpoints", wrong.collect(), format!("{0} of {0} answer", seen.endpoints.len()))
}

fn nodes(seen: &Seen) -> Vec<Finding> {
    let mut wrong = Vec::new();
    for (node, (name, answer)) in seen.nodes.iter().zip(&seen.answers) {
        let message = match answer {
            Err(why) => format!("{name}: its API at {} does not answer: {why}", node.api_addr),
            Ok(_) if !node.up && seen.quorum.is_ok() => {
                format!("{name}: answers, but the leader does not hear from it")
            }
            Ok(answer) if answer.health.node != *name => {
                format!("{name}: at {} answers {} instead", node.api_addr, answer.health.node)
            }
            Ok(answer) if !answer.health.ready => {
                let why = answer.health.reason.as_deref().unwrap_or("it does not say why");
                let message = format!("{name}: is not ready: {why}");
                // Without a quorum nobody is; that is told below.
                let level = if seen.quorum.is_ok() { Level::Wrong } else { Level::Note };
                wrong.push(Finding::new("nodes", level, message));
                continue;
            }
            Ok(_) => {
                wrong.extend(closed(node));
                continue;
            }
        };
        wrong.push(Finding::new("nodes", Level::Wrong, message));
    }
    if seen.nodes.is_empty() {
        wrong.push(Finding::new("nodes", Level::Wrong, "the list of nodes cannot be read"));
    }
    each_or_ok("nodes", wrong, format!("{0} of {0} up", seen.nodes.len()))
}

/// An operator's own doing.
fn closed(node: &Node) -> Option<Finding> {
    let why = || node.disabled_reason.as_deref().unwrap_or("no reason given");
    let message = match &node.drain {
        Some(drain) if !drain.done => {
            let left = drain.left_failover.len() + drain.left_pinned.len();
            format!("is being drained, {} left", count(left, "VM"))
        }
        Some(_) => "is drained".to_owned(),
        None if node.enabled => return None,
        None => format!("is cordoned: {}", why()),
    };
    Some(Finding::new("nodes", Level::Note, format!("{}: {message}", node.name)))
}

fn quorum(seen: &Seen) -> Finding {
    let Some(cluster) = &seen.cluster else {
        return Finding::new("quorum", Level::Wrong, "the cluster cannot be read");
    };
    let voters: Vec<_> =
        cluster.members.iter().filter(|m| matches!(m.role, Role::Leader | Role::Voter)).collect();
    let answers = |name: &str| seen.answers.iter().any(|(node, answer)| node == name && answer.is_ok());
    let silent: Vec<_> =
        voters.iter().map(|voter| voter.name.as_str()).filter(|name| !answers(name)).collect();
    let up = voters.len() - silent.len();
    let majority = voters.len() / 2 + 1;
    if let Err(why) = &seen.quorum {
        let next = if up < majority { format!("start holmd on {}", silent.join(", ")) } else { why.clone() };
        let message = format!("{up} of {} voters answer, {majority} needed: {next}", voters.len());
        return Finding::new("quorum", Level::Wrong, message);
    }
    let loss = match up.saturating_sub(majority) {
        0 => "the loss of one more stops writes".to_owned(),
        spare => format!("writes survive the loss of {spare} more"),
    };
    let message = format!("{up} of {} voters answer; {loss}", voters.len());
    match () {
        // Those that do not answer are what is wrong, and told as nodes.
        () if up < voters.len() || voters.len() < 3 => Finding::new("quorum", Level::Note, message),
        () => Finding::new("quorum", Level::Ok, message),
    }
}

fn leader(seen: &Seen) -> Finding {
    if seen.quorum.is_err() {
        return Finding::new("leader", Level::Note, "there is none for certain: no quorum stands behind it");
    }
    let mut by_leader: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, answer) in &seen.answers {
        if let Ok(answer) = answer {
            by_leader.entry(answer.health.leader.as_deref().unwrap_or("nobody")).or_default().push(name);
        }
    }
    match by_leader.keys().collect::<Vec<_>>()[..] {
        [] => Finding::new("leader", Level::Wrong, "no node answers"),
        [&"nobody"] => Finding::new("leader", Level::Wrong, "no node knows a leader"),
        [leader] => {
            Finding::new("leader", Level::Ok, format!("{leader}, by the word of every node that answers"))
        }
        _ => {
            let said = by_leader.iter().map(|(leader, nodes)| format!("{leader} says {}", nodes.join(", ")));
            Finding::new("leader", Level::Wrong, said.collect::<Vec<_>>().join("; "))
        }
    }
}

fn versions(seen: &Seen) -> Finding {
    let mut by_version: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, answer) in &seen.answers {
        if let Ok(answer) = answer {
            by_version.entry(&answer.health.version).or_default().push(name);
        }
    }
    if by_version.len() > 1 {
        let listed = by_version.iter().map(|(version, nodes)| format!("{version} on {}", nodes.join(", ")));
        return Finding::new("versions", Level::Wrong, listed.collect::<Vec<_>>().join("; "));
    }
    let version = by_version.keys().next().copied().unwrap_or("unknown");
    let own = env!("CARGO_PKG_VERSION");
    if version != own && version != "unknown" {
        return Finding::new("versions", Level::Note, format!("nodes run {version}, this command is {own}"));
    }
    Finding::new("versions", Level::Ok, version)
}

fn states(seen: &Seen) -> Finding {
    let mut hashes: BTreeMap<u64, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for checkpoint in &seen.checkpoints {
        let at = hashes.entry(checkpoint.log_index).or_default();
        at.entry(&checkpoint.state_hash).or_default().push(&checkpoint.node);
    }
    if let Some((index, differing)) = hashes.iter().find(|(_, by_hash)| by_hash.len() > 1) {
        let sides: Vec<_> = differing.values().map(|nodes| nodes.join(", ")).collect();
        let message =
            format!("at index {index} the states of {} differ: stop and keep the data", sides.join(" and "));
        return Finding::new("states", Level::Wrong, message);
    }
    match hashes.iter().next() {
        Some((index, _)) if hashes.len() == 1 => {
            let message = format!("equal on {} at index {index}", count(seen.checkpoints.len(), "node"));
            Finding::new("states", Level::Ok, message)
        }
        Some(_) => {
            let at: Vec<_> =
                seen.checkpoints.iter().map(|c| format!("{} at {}", c.node, c.log_index)).collect();
            Finding::new("states", Level::Note, format!("not compared, the log moves on: {}", at.join(", ")))
        }
        None => Finding::new("states", Level::Wrong, "no node tells its state"),
    }
}

fn clocks(seen: &Seen) -> Finding {
    let ahead: Vec<_> = seen
        .answers
        .iter()
        .filter_map(|(name, answer)| Some((name, answer.as_ref().ok()?.clock_ahead_ms?)))
        .collect();
    let (least, most) = (ahead.iter().min_by_key(|(_, ms)| *ms), ahead.iter().max_by_key(|(_, ms)| *ms));
    let (Some(least), Some(most)) = (least, most) else {
        return Finding::new("clocks", Level::Note, "no node tells its time");
    };
    let apart = most.1 - least.1;
    if apart > CLOCK_LIMIT_MS {
        let message =
            format!("{} is {} s ahead of {}: set up time synchronisation", most.0, apart / 1000, least.0);
        return Finding::new("clocks", Level::Wrong, message);
    }
    if least.1.abs().max(most.1.abs()) > CLOCK_LIMIT_MS {
        let message =
            format!("nodes agree; this machine is {} s off", least.1.abs().max(most.1.abs()) / 1000);
        return Finding::new("clocks", Level::Note, message);
    }
    Finding::new("clocks", Level::Ok, "within 2 s of each other")
}

fn hypervisors(seen: &Seen) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut simulated: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut working = BTreeSet::new();
    for node in &seen.nodes {
        match &node.hypervisor {
            None => {
                let message = format!("{}: has not reported yet", node.name);
                findings.push(Finding::new("hypervisors", Level::Wrong, message));
            }
            Some(found) if found.kind == HypervisorKind::Simulated => {
                simulated.entry(&found.reason).or_default().push(&node.name);
            }
            Some(found) if !found.reason.is_empty() => {
                let message = format!("{}: Cloud Hypervisor cannot work: {}", node.name, found.reason);
                findings.push(Finding::new("hypervisors", Level::Wrong, message));
            }
            Some(found) => {
                working.insert(found.version.as_str());
            }
        }
    }
    for (reason, nodes) in simulated {
        let message = format!("simulated on {}, no guest runs there: {reason}", nodes.join(", "));
        findings.push(Finding::new("hypervisors", Level::Note, message));
    }
    let versions = working.into_iter().collect::<Vec<_>>().join(", ");
    each_or_ok("hypervisors", findings, format!("cloud-hypervisor {versions}"))
}

fn conditions(seen: &Seen) -> Vec<Finding> {
    let wrong = seen.nodes.iter().flat_map(|node| {
        // A hypervisor that cannot work is told above.
        let conditions = node.conditions.iter().filter(|(name, _)| *name != "KvmMissing");
        conditions.map(|(name, condition)| {
            let level = if WORTH_KNOWING.contains(&name.as_str()) { Level::Note } else { Level::Wrong };
            Finding::new("conditions", level, format!("{}: {name}: {}", node.name, condition.message))
        })
    });
    each_or_ok("conditions", wrong.collect(), "none".into())
}

fn vms(seen: &Seen) -> Vec<Finding> {
    let named = |which: &dyn Fn(&Vm) -> bool| {
        let names: Vec<_> = seen.vms.iter().filter(|vm| which(vm)).map(|vm| vm.name.as_str()).collect();
        (!names.is_empty()).then(|| (names.len(), listed(&names)))
    };
    let mut findings = Vec::new();
    if let Some((of, names)) = named(&|vm| vm.status == VmStatus::Error) {
        let message = format!("{of} in ERROR: {names}; `holm vm explain NAME` says why");
        findings.push(Finding::new("vms", Level::Note, message));
    }
    if let Some((of, names)) = named(&|vm| vm.recovery.overdue) {
        let message =
            format!("{of} in a step for too long: {names}; `holm vm show NAME` says in which, and where");
        findings.push(Finding::new("vms", Level::Wrong, message));
    }
    each_or_ok("vms", findings, "none in ERROR, none overdue".into())
}

/// The first few of many names.
pub fn listed(names: &[&str]) -> String {
    /// More would hide the other lines.
    const TOLD: usize = 8;
    let more = if names.len() > TOLD { ", …" } else { "" };
    names[..names.len().min(TOLD)].join(", ") + more
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
