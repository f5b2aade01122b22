//! Judges what stands between a lost machine and its VMs running again: fences, freezes, nodes too few to judge
//! each other, VMs that wait for a host. Pure, as `judge`.

use holm_api::{Availability, Node, VmStatus};

use super::gather::Seen;
use super::judge::listed;
use super::{Finding, Level};
use crate::output::record::policy::freeze_state;
use crate::output::text::{self, count};

/// Beyond the time after which a node is fenced, for an election and the decision.
const SLACK_MS: i64 = 10_000;
/// A node that is heard shows within this what runs there, and its fence is lifted.
const LIFTED_MS: i64 = 60_000;
/// What a node reports whose watchdog resets it in time.
const WATCHDOG: &str = "watchdog";
/// Fencing takes a majority that outlives any one node.
const NODES_MIN: usize = 3;

pub fn all(seen: &Seen) -> Vec<Finding> {
    let mut findings: Vec<Finding> = seen.nodes.iter().filter_map(|node| fenced(seen, node)).collect();
    findings.extend(silent(seen));
    findings.extend(frozen(seen));
    findings.extend(too_few(seen));
    findings.extend(waiting(seen));
    findings.extend(unguarded(seen));
    if findings.is_empty() {
        findings.push(finding(Level::Ok, "no node fenced, nothing waits for a host after a fence"));
    }
    findings
}

fn finding(level: Level, message: impl Into<String>) -> Finding {
    Finding::new("failover", level, message)
}

fn since_ms(seen: &Seen, at: &holm_api::Timestamp) -> i64 {
    text::unix_ms(at).map_or(0, |at| seen.now.0 - at)
}

/// A fence follows from a node that is not heard, which is told once; one of a node that is heard should not last.
fn fenced(seen: &Seen, node: &Node) -> Option<Finding> {
    let fence = node.fence.as_ref()?;
    let since = seen.now.age(&fence.since);
    let lost = count(fence.lost.len(), "VM");
    Some(match node.up && since_ms(seen, &node.up_changed_at) > LIFTED_MS {
        true => finding(
            Level::Wrong,
            format!(
                "{}: is heard, but fenced for {since}: it has not shown that what it lost is gone",
                node.name
            ),
        ),
        false => finding(Level::Note, format!("{}: fenced for {since}, {lost} taken from it", node.name)),
    })
}

/// When many fall silent together, the network is the likelier cause: the rest is for a person.
fn silent(seen: &Seen) -> Option<Finding> {
    let policy = seen.policy.as_ref().filter(|policy| policy.failover_possible)?;
    if seen.quorum.is_err() || frozen(seen).is_some() {
        return None;
    }
    let fence_after_ms = i64::try_from(policy.fence_after_ms).unwrap_or(i64::MAX).saturating_add(SLACK_MS);
    let names: Vec<&str> = seen
        .nodes
        .iter()
        .filter(|node| !node.up && node.fence.is_none() && node.maintenance.is_none())
        .filter(|node| holds_failover(seen, node))
        .filter(|node| since_ms(seen, &node.up_changed_at) > fence_after_ms)
        .map(|node| node.name.as_str())
        .collect();
    if names.is_empty() {
        return None;
    }
    let message = format!(
        "{} silent for longer than {} s and not fenced, at most {} at once: look whether it is the network; if the \
         machines are off, `holm vm evacuate NAME --confirm-node-off`",
        listed(&names),
        policy.fence_after_ms / 1000,
        policy.fences_at_once
    );
    Some(finding(Level::Wrong, message))
}

fn frozen(seen: &Seen) -> Option<Finding> {
    let freeze = seen.cluster.as_ref()?.freeze.as_ref()?;
    let reason = freeze.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let state = freeze_state(freeze, seen.now);
    Some(finding(Level::Note, format!("a freeze{reason} is {state}")))
}

fn too_few(seen: &Seen) -> Option<Finding> {
    let failover = seen.vms.iter().filter(|vm| vm.availability == Availability::Failover).count();
    if failover == 0 || seen.nodes.is_empty() || seen.nodes.len() >= NODES_MIN {
        return None;
    }
    let (vms, nodes) = (count(failover, "failover VM"), count(seen.nodes.len(), "node"));
    Some(finding(
        Level::Wrong,
        format!("{vms}, but {nodes}: no node can be fenced with fewer than {NODES_MIN}"),
    ))
}

/// Leases are kept by shim and daemon. Where somebody stops both, or a VMM is stuck in the kernel, only a watchdog
/// ends it in time.
fn unguarded(seen: &Seen) -> Option<Finding> {
    let guarded = |node: &&Node| node.capabilities.contains_key(WATCHDOG);
    let runs_failover = |node: &&Node| holds_failover(seen, node);
    // An operator who uses none has decided so; one who uses some may have forgotten others.
    seen.nodes.iter().find(guarded)?;
    let names: Vec<&str> = seen
        .nodes
        .iter()
        .filter(|node| !guarded(node) && runs_failover(node))
        .map(|node| node.name.as_str())
        .collect();
    (!names.is_empty()).then(|| {
        let message = format!(
            "no watchdog guards {}: a VM there whose daemon and shim are both stopped by hand outlives its lease; \
             enable holm-watchdog, with a --timeout below the margin",
            listed(&names)
        );
        finding(Level::Note, message)
    })
}

fn holds_failover(seen: &Seen, node: &Node) -> bool {
    seen.vms
        .iter()
        .any(|vm| vm.node_id == Some(node.id) && vm.availability_in_force == Some(Availability::Failover))
}

fn waiting(seen: &Seen) -> Vec<Finding> {
    let waiting = |refused: bool| {
        let which = seen.vms.iter().filter(move |vm| {
            vm.status == VmStatus::Build
                && vm.node.is_none()
                && vm.recovery.failing_over
                && vm.refusals.is_empty() != refused
        });
        which.map(|vm| vm.name.as_str()).collect::<Vec<_>>()
    };
    let mut findings = Vec::new();
    let nowhere = waiting(true);
    if !nowhere.is_empty() {
        let message = format!(
            "{} left a node and fit on no other: {}; `holm vm explain NAME` says why",
            count(nowhere.len(), "VM"),
            listed(&nowhere)
        );
        findings.push(finding(Level::Wrong, message));
    }
    let placed_soon = waiting(false);
    if !placed_soon.is_empty() {
        let message = format!("on the way to another node: {}", listed(&placed_soon));
        findings.push(finding(Level::Note, message));
    }
    findings
}
