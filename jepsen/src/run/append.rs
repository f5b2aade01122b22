//! `append`: transactions that read and append to several lists; strictly serializable.

use std::sync::Arc;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::measure::{counts, unavailability};
use super::stored::Stored;
use super::{Aftermath, Judged, OwnFaults, Running};
use crate::checker::{faults, serializable, vacuity, whole};
use crate::history::Recorder;
use crate::seed;
use crate::workload::aggregates::{self, Pool};
use crate::workload::lists::{self, Answer, Call, LISTS, Micro};

const CLIENTS: u64 = 6;
const AT_ONCE: u64 = 3;
/// Few enough that no list outgrows its text.
const OPERATIONS: u64 = 70;

#[derive(Serialize, Deserialize)]
pub(super) struct Evidence {
    aftermath: Aftermath,
}

pub(super) async fn run(running: &mut Running) -> Result<Evidence> {
    let seed = running.options.seed;
    let log = Arc::new(Recorder::new(running.journal.clone()));
    let pool = Arc::new(Pool::new(AT_ONCE, OPERATIONS));
    let stop = CancellationToken::new();
    let mut clients = JoinSet::new();
    let initial = (0..LISTS).map(|key| (lists::name(key), String::new())).collect();
    let rng = seed::stream(seed, "maker", 0);
    clients.spawn(aggregates::make(pool.clone(), running.targets(), initial, rng, stop.clone()));
    for client in 0..CLIENTS {
        let (targets, pool, log) = (running.targets(), pool.clone(), log.clone());
        let rng = seed::stream(seed, "client", client);
        clients.spawn(lists::client((client, CLIENTS), targets, pool, log, rng, stop.clone()));
    }
    let happened = running.endure(OwnFaults::LeaderRestarts, clients, stop).await?;
    Ok(Evidence { aftermath: running.aftermath(happened) })
}

pub(super) fn judge(stored: &Stored<Evidence>) -> Result<Judged> {
    let (operations, faults) = (stored.operations::<Call, Answer>()?, stored.faults()?);
    let aftermath = &stored.evidence.aftermath;
    let appends = |call: &Call| {
        let Call::Txn(steps) = call;
        steps.iter().any(|step| matches!(step, Micro::Append(..)))
    };
    let kind = |call: &Call| if appends(call) { "append" } else { "read" };
    let verdicts = vec![
        serializable::check(&operations),
        faults::check(stored.parameters.expected(&faults), &faults),
        vacuity::check(&operations, kind, &["append", "read"], &aftermath.nodes),
        whole::check(&aftermath.ended, &aftermath.left),
    ];
    let gap = unavailability("a fault", faults.iter(), &operations, appends);
    let figures = gap.into_iter().chain(aftermath.figures.clone()).collect();
    Ok(Judged { verdicts, figures, counts: counts(&faults, &operations, aftermath.unavailable_ms) })
}
