//! The text of `/metrics`. Names begin with `holm_`; state is this node's own copy, so that every node can
//! be scraped and compared; labels are bounded (routes, not paths; no VM names).

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::Method;
use holm_api::VmStatus;

use super::convert;
use crate::app::App;

/// Requests answered, by method, route and status.
#[derive(Debug, Default)]
pub struct Traffic(Mutex<BTreeMap<(String, String, u16), Served>>);

#[derive(Clone, Copy, Debug, Default)]
struct Served {
    count: u64,
    total: Duration,
}

impl Traffic {
    /// Counts one.
    pub fn count(&self, method: &Method, route: &str, status: u16, took: Duration) {
        // A method of the client's own making must not make a series of its own.
        let method = match *method {
            _ if route == "none" => "other",
            Method::GET
            | Method::HEAD
            | Method::POST
            | Method::PUT
            | Method::PATCH
            | Method::DELETE
            | Method::OPTIONS
            | Method::TRACE
            | Method::CONNECT => method.as_str(),
            _ => "other",
        };
        let key = (method.to_owned(), route.to_owned(), status);
        let mut served = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let served = served.entry(key).or_default();
        served.count += 1;
        served.total += took;
    }
}

/// Builds the text, one family after the other.
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &dyn Display)], value: impl Display) {
        self.0.push_str(name);
        for (at, (label, value)) in labels.iter().enumerate() {
            let value = value.to_string().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let open = if at == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{open}{label}=\"{value}\"");
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value);
    }
}

/// All of it.
pub fn render(app: &App, traffic: &Traffic) -> String {
    let mut text = Text(String::with_capacity(8192));
    text.family("holm_build_info", "gauge", "The daemon's version.");
    text.sample("holm_build_info", &[("version", &env!("CARGO_PKG_VERSION"))], 1);
    text.gauge("holm_uptime_seconds", "Since the daemon started.", app.started_at.elapsed().as_secs());
    if let Some(bytes) = resident_bytes() {
        text.gauge("process_resident_memory_bytes", "Resident memory of the daemon.", bytes);
    }
    raft(&mut text, app);
    state(&mut text, app);
    requests(&mut text, traffic);
    text.0
}

fn raft(text: &mut Text, app: &App) {
    let status = app.raft.status().borrow().clone();
    let leader = status.leader.map_or(0, |leader| leader.0);
    text.gauge("holm_raft_term", "Raft's term.", status.term);
    text.gauge("holm_raft_leader", "Node id of the leader, 0 while there is none.", leader);
    text.gauge("holm_raft_leading", "1 on the node whose controllers decide.", u8::from(status.leading));
    text.gauge("holm_raft_voters", "Voting members.", status.voters.len());
    text.gauge("holm_raft_learners", "Members that do not vote.", status.learners.len());
    text.gauge("holm_raft_last_log_index", "Last entry in the log.", status.last_log_index);
    text.gauge("holm_raft_applied_index", "Last entry applied.", status.applied_index);
    text.gauge("holm_raft_snapshot_index", "Last entry in the snapshot.", status.snapshot_index);
    text.gauge("holm_raft_purged_index", "Last entry removed from the log.", status.purged_index);
    text.family("holm_raft_silent_seconds", "gauge", "On the leader: since a member last answered.");
    for (node, silent_ms) in &status.silent_ms {
        text.sample("holm_raft_silent_seconds", &[("node_id", node)], *silent_ms as f64 / 1000.0);
    }
}

fn state(text: &mut Text, app: &App) {
    let published = app.raft.state();
    let state = &published.state;
    text.gauge("holm_revision", "Commands applied.", state.revision);
    text.gauge("holm_flavors", "Flavors.", state.flavors.len());
    text.gauge("holm_images", "Images.", state.images.len());
    text.gauge("holm_idempotency_keys", "Answers kept for repeated requests.", state.window.len());
    text.gauge("holm_vms_waiting", "VMs without a host.", state.waiting.len());
    text.family("holm_vms", "gauge", "VMs by status.");
    let mut by_status = BTreeMap::<&str, u64>::new();
    for vm in state.vms.values() {
        *by_status.entry(convert::vm_status(vm.status).as_str()).or_default() += 1;
    }
    for status in VmStatus::ALL {
        let count = by_status.get(status.as_str()).copied().unwrap_or_default();
        text.sample("holm_vms", &[("status", &status)], count);
    }
    text.family("holm_node_up", "gauge", "Whether the leader hears from a node.");
    for node in state.nodes.values() {
        text.sample("holm_node_up", &[("node", &node.name)], u8::from(node.up));
    }
    text.family("holm_node_enabled", "gauge", "0 for a node that is cordoned.");
    for node in state.nodes.values() {
        text.sample("holm_node_enabled", &[("node", &node.name)], u8::from(node.enabled));
    }
    text.family("holm_node_conditions", "gauge", "How many things are wrong with a node.");
    for node in state.nodes.values() {
        let conditions = node.report.as_ref().map_or(0, |report| report.conditions.len());
        text.sample("holm_node_conditions", &[("node", &node.name)], conditions);
    }
    let inventories: Vec<_> = state
        .nodes
        .values()
        .flat_map(|node| node.inventory.iter().map(move |inventory| (node, inventory)))
        .collect();
    text.family("holm_node_capacity", "gauge", "(total - reserved) x allocation ratio.");
    for (node, (class, inventory)) in &inventories {
        text.sample("holm_node_capacity", &[("node", &node.name), ("class", class)], inventory.capacity());
    }
    text.family("holm_node_used", "gauge", "Sum of the claims on a node.");
    for (node, (class, _)) in &inventories {
        text.sample("holm_node_used", &[("node", &node.name), ("class", class)], node.allocated.get(class));
    }
}

fn requests(text: &mut Text, traffic: &Traffic) {
    let served = traffic.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    text.family("holm_http_request_seconds", "summary", "Time to the head of the answer.");
    for ((method, route, status), served) in &served {
        let labels: [(&str, &dyn Display); 3] = [("method", method), ("route", route), ("status", status)];
        text.sample("holm_http_request_seconds_sum", &labels, served.total.as_secs_f64());
        text.sample("holm_http_request_seconds_count", &labels, served.count);
    }
}

/// From `/proc`; none where that cannot be read.
fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    let page_bytes = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??;
    Some(pages * u64::try_from(page_bytes).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_are_escaped() {
        let mut text = Text(String::new());
        text.sample("m", &[("a", &"x\"y\\z\n"), ("b", &1)], 2);
        assert_eq!(text.0, "m{a=\"x\\\"y\\\\z\\n\",b=\"1\"} 2\n");
    }

    #[test]
    fn unknown_routes_share_one_series() {
        let traffic = Traffic::default();
        traffic.count(&Method::GET, "none", 404, Duration::ZERO);
        traffic.count(&Method::from_bytes(b"BREW").unwrap(), "none", 404, Duration::ZERO);
        let served = traffic.0.lock().unwrap();
        assert_eq!(served.len(), 1);
    }

    #[test]
    fn methods_that_a_client_made_up_share_one_series() {
        let traffic = Traffic::default();
        for method in ["GET", "BREW", "AAAA", "get"] {
            traffic.count(&Method::from_bytes(method.as_bytes()).unwrap(), "/healthz", 405, Duration::ZERO);
        }
        let served = traffic.0.lock().unwrap();
        let methods: Vec<&str> = served.keys().map(|(method, ..)| method.as_str()).collect();
        assert_eq!(methods, ["GET", "other"]);
    }
}
