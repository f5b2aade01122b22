//! `wiped`: what only two nodes know is acknowledged; then the store of one of them is lost, and the other is off.
//! A node that came back with an empty store under its old id would elect, with the third, a leader that knows
//! nothing of it. So it must refuse to start, and is let back as a new member only.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holm_api::{CreateFlavor, Flavor, List};
use serde::{Deserialize, Serialize};

use super::stored::Stored;
use super::{Judged, Running};
use crate::checker::{Verdict, faults, whole};
use crate::harness::client::Call;
use crate::harness::wait_for;
use crate::history::{Fault, FaultKind};
use crate::report::Counts;

const WRITES: usize = 20;
/// By then a daemon that will not start has said so, and one that starts has found a leader.
const LIMIT: Duration = Duration::from_secs(30);

#[derive(Serialize, Deserialize)]
pub(super) struct Evidence {
    /// Acknowledged and then not there, each time.
    lost: Vec<String>,
    /// Nodes that served again with an empty store, under the id they had.
    forgot: Vec<String>,
    acknowledged: u64,
    ended: Vec<String>,
    left: Vec<String>,
}

pub(super) async fn run(running: &mut Running) -> Result<Evidence> {
    let (mut lost, mut forgot, mut ended) = (Vec::new(), Vec::new(), Vec::new());
    let mut acknowledged = Vec::new();
    for round in 0..running.options.rounds {
        let leader = running.cluster.leader().await?;
        let nodes = running.cluster.daemons.len();
        ensure!(nodes == 3, "this test is about three nodes");
        let (wiped, behind) = ((leader + 1) % nodes, (leader + 2) % nodes);
        let mut fault = Fault::new(
            FaultKind::Wipe,
            running.cluster.daemons[wiped].name.clone(),
            true,
            running.journal.now_ns(),
        );
        running.cluster.cut_off(behind)?;
        for number in 0..WRITES {
            let name = format!("w{round}-{number}");
            add(running, leader, &name).await?;
            acknowledged.push(name);
        }
        running.cluster.daemons[leader].kill()?;
        running.cluster.daemons[wiped].kill()?;
        running.cluster.daemons[wiped].wipe_store()?;
        fault.took_hold = true;
        running.journal.write(&serde_json::json!({"type": "fault", "fault": fault}));
        running.cluster.heal_network()?;
        running.cluster.daemons[wiped].start()?;
        if served(running, wiped).await? {
            forgot.push(format!("{} serves with an empty store", running.cluster.daemons[wiped].name));
            lost.extend(missing(running, behind, &acknowledged).await?);
        }
        running.cluster.daemons[leader].start()?;
        running.cluster.wait_ready(leader).await?;
        if forgot.is_empty() {
            running.cluster.replace(wiped, leader).await?;
        }
        running.cluster.wait_whole().await?;
        for node in 0..nodes {
            lost.extend(missing(running, node, &acknowledged).await?);
        }
        fault.healed_ns = Some(running.journal.now_ns());
        running.journal.write(&serde_json::json!({"type": "healed", "fault": fault}));
        ended.extend(running.cluster.revive()?);
    }
    let left = running.cluster.shut_down();
    Ok(Evidence { lost, forgot, acknowledged: acknowledged.len() as u64, ended, left })
}

async fn add(running: &Running, at: usize, name: &str) -> Result<()> {
    let flavor = CreateFlavor {
        name: name.to_owned(),
        vcpus: 1,
        memory_mib: 64,
        disk_gib: 0,
        extra_specs: Default::default(),
    };
    let call = Call::post("/v1/flavors", &flavor).key(format!("add-{name}"));
    running.cluster.daemons[at]
        .client()
        .call::<Flavor>(call)
        .await
        .with_context(|| format!("adding {name}"))?;
    Ok(())
}

/// Whether the daemon found a quorum; false: it ended by itself, as it should.
async fn served(running: &mut Running, at: usize) -> Result<bool> {
    let began = std::time::Instant::now();
    loop {
        let daemon = &mut running.cluster.daemons[at];
        if daemon.ended_by_itself().is_some() {
            ensure!(
                daemon.last_words().contains("holmd join"),
                "it does not say how to rejoin: {}",
                daemon.last_words()
            );
            return Ok(false);
        }
        let read = daemon.client().call::<List<Flavor>>(Call::get("/v1/flavors?limit=1").limit(LIMIT)).await;
        if read.is_ok() {
            return Ok(true);
        }
        ensure!(began.elapsed() < LIMIT, "{} neither ends nor serves", daemon.name);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Acknowledged flavors that a linearizable read at this node does not show.
async fn missing(running: &Running, at: usize, acknowledged: &[String]) -> Result<Vec<String>> {
    let daemon = &running.cluster.daemons[at];
    let found: List<Flavor> = wait_for("a read", LIMIT, || async {
        Ok(daemon.client().call(Call::get("/v1/flavors?limit=1000")).await.ok().map(|reply| reply.body))
    })
    .await?;
    let there = |name: &String| found.items.iter().any(|flavor| flavor.name == *name);
    let lost = acknowledged.iter().filter(|name| !there(name));
    Ok(lost.map(|name| format!("{name} was acknowledged and is not at {}", daemon.name)).collect())
}

pub(super) fn judge(stored: &Stored<Evidence>) -> Result<Judged> {
    let (evidence, faults) = (&stored.evidence, stored.faults()?);
    let verdicts = vec![
        Verdict::of("kept", evidence.lost.clone(), format!("{} writes acknowledged", evidence.acknowledged)),
        Verdict::of("identity", evidence.forgot.clone(), "no store begins anew under an old id".to_owned()),
        faults::check(stored.parameters.expected(&faults), &faults),
        whole::check(&evidence.ended, &evidence.left),
    ];
    let counts = Counts { faults: faults.len(), ok: evidence.acknowledged, ..Counts::default() };
    Ok(Judged { verdicts, figures: Vec::new(), counts })
}
