//! A VM as people see it. A VM on a node that is not heard from is marked UNREACHABLE: its status is the
//! last that was known. One on a simulated hypervisor says so.

use holm_api::vm::{HostReason, ObservedState, Power};
use holm_api::{Advice, Decision, Vm};

use super::{Record, amounts, field, hypervisor, hypervisor_in_full, optional, project, simulated};
use crate::output::table;
use crate::output::text::{self, Now};

impl Record for Vm {
    const COLUMNS: &'static [&'static str] =
        &["NAME", "STATUS", "NODE", "HYPERVISOR", "FLAVOR", "IMAGE", "AGE"];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn row(&self, now: Now) -> Vec<String> {
        vec![
            self.name.clone(),
            status(self),
            self.node.clone().unwrap_or_default(),
            hypervisor(self.hypervisor.as_ref()),
            self.flavor.name.clone(),
            self.image.name.clone(),
            now.age(&self.created_at),
        ]
    }

    fn detail(&self, now: Now) -> String {
        let flavor = &self.flavor;
        let size = format!(
            "{} ({}, {}, {})",
            flavor.name,
            text::count(flavor.vcpus as usize, "vCPU"),
            text::bytes(flavor.memory_mib << 20),
            text::bytes(flavor.disk_gib << 30),
        );
        let asked = &self.scheduling;
        let power = match self.power {
            Power::On => "on",
            Power::Off => "off",
        };
        table::fields(&[
            field("Name", &self.name),
            field("Id", self.id),
            project(&self.project),
            field("Status", status(self)),
            field("Reason", reason(self)),
            optional("In this step", in_step(self, now)),
            field("Power", format!("{power} asked for, run {}", self.run)),
            field("Availability", availability(self)),
            optional("Disk loss", Some(self.disk_loss.as_str()).filter(|_| self.flavor.disk_gib > 0)),
            field("Restarts", restarts(self, now)),
            optional("Start order", start_order(self)),
            optional("Leaving", leaving(self, now)),
            optional(
                "Stopped for",
                self.recovery
                    .stopped_for_drain_of
                    .as_ref()
                    .map(|node| format!("the drain of {node}; it is started when that node is uncordoned")),
            ),
            optional(
                "Moved to",
                self.recovery
                    .moved_to
                    .as_ref()
                    .map(|node| format!("{node}, if it fits there when it is started")),
            ),
            optional("Node", self.node.as_ref()),
            optional("Hypervisor", self.hypervisor.as_ref().map(hypervisor_in_full)),
            field("Flavor", size),
            field("Image", &self.image.name),
            optional("Kernel", self.kernel.as_ref().map(|kernel| &kernel.name)),
            optional("Command line", self.cmdline.as_ref()),
            field("Volumes", self.volumes.join(", ")),
            optional("Only on", self.requested_node.as_ref()),
            optional("Zone", asked.availability_zone.as_ref()),
            field("Selectors", joined(&asked.node_selector)),
            field("Tolerations", joined(&asked.tolerations)),
            optional("Group", asked.group.as_ref()),
            field("Not with", asked.different_host.join(", ")),
            field("With one of", asked.same_host.join(", ")),
            optional("Near", asked.near.as_ref()),
            optional("Priority", Some(asked.priority).filter(|priority| *priority != 0)),
            optional("Preemptible", asked.preemptible.then_some("yes, its disks with it")),
            optional("Decision", self.decision.as_ref().map(|made| decision(made, now))),
            optional("Observed", observed(self, now)),
            field("Refusals", hosts(&self.refusals)),
            field("What helps", what_helps(&self.advice)),
            field("Allocations", amounts(&self.allocations)),
            field("Host CPUs", numbers(&self.cpus)),
            field("PCI devices", joined(&self.pci_devices)),
            optional("Kept for it", self.reserved_node.as_ref()),
            field("Failed on", hosts(&self.excluded)),
            optional("Waiting for", self.waiting_since.as_ref().map(|since| now.age(since))),
            optional("Epoch", self.epoch),
            field("Created", format!("{} ago ({})", now.age(&self.created_at), self.created_at)),
            field("Updated", format!("{} ago ({})", now.age(&self.updated_at), self.updated_at)),
            field("Revision", self.revision),
        ])
    }

    fn footer(records: &[Self]) -> Vec<String> {
        simulated(records.iter().map(|vm| (vm.node.as_deref(), vm.hypervisor.as_ref())))
    }
}

/// `4, 5, 12`.
fn numbers(numbers: &[u32]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// One a line.
fn joined(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// How a host was chosen: `n1 (2.500) of 3 nodes, then n3 (1.250)`; or that none was.
pub fn decision(made: &Decision, now: Now) -> String {
    let scores: Vec<_> =
        made.scores.iter().map(|score| format!("{} ({:.3})", score.node, score.score)).collect();
    let (chosen, others) = scores.split_first().map_or(("?", &[][..]), |(chosen, others)| (chosen, others));
    let others = if others.is_empty() { String::new() } else { format!(", then {}", others.join(", ")) };
    let of = text::count(made.candidates as usize, "node");
    let withheld = match made.withheld.as_slice() {
        [] => String::new(),
        nodes => format!("\nnot offered, since they might have been dead: {}", nodes.join(", ")),
    };
    let withheld = match made.evicted.as_slice() {
        [] => withheld,
        vms => format!("{withheld}\nevicted for it: {}", vms.join(", ")),
    };
    let chosen = match made.chosen {
        Some(_) => format!("{chosen} of {of} that fitted{others}"),
        None => "no node fitted".to_owned(),
    };
    format!(
        "{chosen}{withheld}\n{} ago, on what was so at revision {} (policy of revision {})",
        now.age(&made.at),
        made.seen,
        made.policy,
    )
}

/// `ACTIVE`, `BUILD (spawning)`, `ACTIVE UNREACHABLE`.
pub fn status(vm: &Vm) -> String {
    let mut text = vm.status.to_string();
    if let Some(step) = vm.task_state {
        text += &format!(" ({step})");
    }
    if vm.node_up == Some(false) {
        text += " UNREACHABLE";
    }
    text
}

/// Why the status is what it is, where that is not plain.
fn reason(vm: &Vm) -> String {
    match &vm.fault {
        Some(fault) => match &fault.node {
            Some(node) => format!("{} (on {node})", fault.message),
            None => fault.message.clone(),
        },
        None if vm.node_up == Some(false) => {
            "its node is not heard from; the status is the last that was known".into()
        }
        None => String::new(),
    }
}

/// How long the present step goes on, and when it is late.
fn in_step(vm: &Vm, now: Now) -> Option<String> {
    let since = vm.recovery.task_since.as_ref()?;
    let late = match (&vm.recovery.task_deadline, vm.recovery.overdue) {
        (_, true) => ", longer than it should; its node goes on trying".to_owned(),
        (Some(deadline), false) => format!(", late at {deadline}"),
        (None, false) if vm.recovery.failing_over => ", for as long as it takes".to_owned(),
        (None, false) => String::new(),
    };
    Some(format!("for {}{late}", now.age(since)))
}

/// What was asked for, and what is in force where that differs.
fn availability(vm: &Vm) -> String {
    let asked = vm.availability.as_str();
    let failing_over = match (&vm.recovery.lost_host, vm.recovery.failing_over) {
        (Some(why), true) => format!("; it waits for another node: {why}"),
        (None, true) => "; it lost its node and waits for another".to_owned(),
        (_, false) => String::new(),
    };
    match vm.availability_in_force {
        Some(now) if now != vm.availability => {
            format!(
                "{asked} asked for, {} in force until its node has bound what runs to its lease",
                now.as_str()
            )
        }
        _ => format!("{asked}{failing_over}"),
    }
}

/// The policy, how often it has acted lately, and when it does next.
fn restarts(vm: &Vm, now: Now) -> String {
    let of = &vm.recovery;
    let mut text = vm.restart_policy.as_str().to_owned();
    if of.restarts > 0 {
        text += &format!(", {} within 10 minutes", text::count(of.restarts as usize, "restart"));
    }
    if let Some(next) = &of.next_restart_at {
        let wait_ms = text::unix_ms(next).map_or(0, |next| u64::try_from(next - now.0).unwrap_or(0));
        text += &format!(", next in {} ({next})", text::span(std::time::Duration::from_millis(wait_ms)));
    }
    text
}

/// When it starts after a boot of its host, if that was said.
fn start_order(vm: &Vm) -> Option<String> {
    match (vm.start_order, vm.start_delay_s) {
        (0, 0) => None,
        (order, 0) => Some(order.to_string()),
        (order, delay_s) => Some(format!("{order}, {delay_s} s after those before it")),
    }
}

fn leaving(vm: &Vm, now: Now) -> Option<String> {
    let leaving = vm.recovery.leaving.as_ref()?;
    Some(format!("{} (for {})", leaving.reason, now.age(&leaving.since)))
}

/// One host a line: `n1: Capacity: VCPU: 4 wanted, 2 free of 8`.
pub fn hosts(reasons: &[HostReason]) -> String {
    let line = |host: &HostReason| format!("{}: {}: {}", host.node, host.by, host.message);
    reasons.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Names told of nodes; more are counted.
const NAMED_MAX: usize = 4;

/// A next step a line: `Capacity (n1, n2): move or delete VMs …`.
pub fn what_helps(advice: &[Advice]) -> String {
    let nodes = |names: &[String]| match names.len() {
        ..=NAMED_MAX => names.join(", "),
        count => text::count(count, "node"),
    };
    let line = |advice: &Advice| format!("{} ({}): {}", advice.by, nodes(&advice.nodes), advice.fix);
    advice.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn observed(vm: &Vm, now: Now) -> Option<String> {
    let observed = vm.observed.as_ref()?;
    let state = match observed.state {
        ObservedState::Progress => observed.step.as_deref().unwrap_or("working"),
        ObservedState::Running => "running",
        ObservedState::Paused => "paused",
        ObservedState::Stopped => "stopped",
        ObservedState::GuestOff => "the guest powered itself off",
        ObservedState::Failed => "failed",
        ObservedState::Unknown => "unknown",
    };
    let reason = observed.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    Some(format!("{state}{reason} (run {}, {} ago)", observed.run, now.age(&observed.at)))
}
