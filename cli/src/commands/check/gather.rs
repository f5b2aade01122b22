//! Asks everybody: every endpoint given, the cluster through any of them, and every node by itself.

use std::time::{Duration, Instant};

use futures::future::join_all;
use holm_api::{
    Checkpoint, Cluster, ClusterPolicy, Health, ListQuery, Node, ReadQuery, SchedulerPolicy, Timestamp, Vm,
    VmListQuery,
};
use tokio::time::sleep;

use crate::client::{Client, Endpoint, health, path};
use crate::error::Error;
use crate::output::record::name_among_all;
use crate::output::text::{self, Now};

/// A node that says nothing for this long does not answer.
const LIMIT: Duration = Duration::from_secs(3);
/// How often states are compared until all are at the same index.
const COMPARISONS: usize = 20;
const COMPARISON_PAUSE: Duration = Duration::from_millis(100);

/// What everybody said.
pub struct Seen {
    /// Endpoints as given, and what their daemon said.
    pub endpoints: Vec<(String, Result<(), String>)>,
    /// The cluster, if a quorum stands behind it; else why not.
    pub quorum: Result<(), String>,
    /// The cluster as somebody knows it.
    pub cluster: Option<Cluster>,
    pub nodes: Vec<Node>,
    /// By name, every node's own word.
    pub answers: Vec<(String, Result<Answer, String>)>,
    /// States of nodes, the latest round in which most were at one index.
    pub checkpoints: Vec<Checkpoint>,
    pub vms: Vec<Vm>,
    /// Leases and fencing; none when it cannot be read.
    pub policy: Option<ClusterPolicy>,
    pub now: Now,
    /// What the scheduler's policy warns of.
    pub warnings: Vec<String>,
}

/// One node's own word.
pub struct Answer {
    pub health: Health,
    /// Its clock less ours; known to about a second.
    pub clock_ahead_ms: Option<i64>,
}

/// # Errors
/// When no endpoint answers at all.
pub async fn all(client: &Client) -> Result<Seen, Error> {
    let endpoints =
        join_all(client.endpoints().iter().map(|endpoint| async move {
            (endpoint.to_string(), health::of(endpoint, LIMIT).await.map(drop))
        }));
    let endpoints = endpoints.await;
    if endpoints.iter().all(|(_, answer)| answer.is_err()) {
        // The client's own words for it are the best there are.
        let once = Client::new(client.endpoints().to_vec()).with_patience(LIMIT);
        once.get::<Cluster>("/v1/cluster?consistency=stale").await?;
    }
    let mut seen = Seen {
        endpoints,
        quorum: Ok(()),
        cluster: None,
        nodes: Vec::new(),
        answers: Vec::new(),
        checkpoints: Vec::new(),
        vms: Vec::new(),
        policy: None,
        now: Now::read(),
        warnings: Vec::new(),
    };
    // A node takes as long to say that it has no leader; asking again would tell nothing new.
    let once = Client::new(client.endpoints().to_vec()).with_patience(LIMIT);
    match once.get::<Cluster>("/v1/cluster").await {
        Ok(cluster) => seen.cluster = Some(cluster),
        Err(error) => {
            seen.quorum = Err(error.to_string());
            seen.cluster = client.get("/v1/cluster?consistency=stale").await.ok();
        }
    }
    let query = match seen.quorum {
        Ok(()) => ListQuery::default(),
        Err(_) => ListQuery { consistency: holm_api::Consistency::Stale, ..ListQuery::default() },
    };
    seen.nodes = client.list("/v1/nodes", &query).await.unwrap_or_default();
    let every = VmListQuery { consistency: query.consistency, all_projects: true, ..VmListQuery::default() };
    seen.vms = client.list("/v1/vms", &every).await.unwrap_or_default();
    seen.vms.iter_mut().for_each(|vm: &mut Vm| vm.name = name_among_all(&vm.project, &vm.name));
    let read = ReadQuery { consistency: query.consistency };
    seen.policy = client.get(&path::with_query("/v1/policy", &read, &[])).await.ok();
    if seen.quorum.is_ok() {
        let policy = client.get::<SchedulerPolicy>("/v1/scheduler").await;
        seen.warnings = policy.map(|policy| policy.warnings).unwrap_or_default();
    }
    seen.answers =
        join_all(seen.nodes.iter().map(|node| async { (node.name.clone(), ask(node).await) })).await;
    let reachable: Vec<_> = seen
        .nodes
        .iter()
        .zip(&seen.answers)
        .filter(|(_, (_, answer))| answer.is_ok())
        .filter_map(|(node, _)| Endpoint::parse(&node.api_addr).ok())
        .collect();
    seen.checkpoints = checkpoints(reachable).await;
    Ok(seen)
}

async fn ask(node: &Node) -> Result<Answer, String> {
    let endpoint = Endpoint::parse(&node.api_addr).map_err(|error| error.to_string())?;
    let (asked, clock) = (Instant::now(), Now::read());
    let report = health::of(&endpoint, LIMIT).await?;
    let half_way = i64::try_from(asked.elapsed().as_millis() / 2).unwrap_or(0);
    let clock_ahead_ms = report.date.as_deref().and_then(http_date_ms).map(|date| {
        // The header has whole seconds: on average half a second has passed since.
        date + 500 - (clock.0 + half_way)
    });
    Ok(Answer { health: report.health, clock_ahead_ms })
}

/// Milliseconds since 1970 of `Mon, 30 Nov 2026 12:35:44 GMT`.
fn http_date_ms(date: &str) -> Option<i64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut words = date.split(' ').skip(1);
    let (day, month, year, time) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    text::unix_ms(&Timestamp(format!("{year}-{month:02}-{day}T{time}Z")))
}

/// States at one index, if the nodes can be met at one.
async fn checkpoints(endpoints: Vec<Endpoint>) -> Vec<Checkpoint> {
    let clients: Vec<_> =
        endpoints.into_iter().map(|endpoint| Client::new(vec![endpoint]).with_patience(LIMIT)).collect();
    let mut latest = Vec::new();
    for _ in 0..COMPARISONS {
        let asked = clients.iter().map(|client| client.get::<Checkpoint>("/v1/cluster/checkpoint"));
        latest = join_all(asked).await.into_iter().flatten().collect();
        let first = latest.first().map(|checkpoint| checkpoint.log_index);
        if latest.iter().all(|checkpoint| Some(checkpoint.log_index) == first) {
            break;
        }
        sleep(COMPARISON_PAUSE).await;
    }
    latest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_dates_are_read() {
        assert_eq!(http_date_ms("Mon, 30 Nov 2026 12:35:44 GMT"), Some(1_796_042_144_000));
        assert_eq!(http_date_ms("yesterday"), None);
    }
}
