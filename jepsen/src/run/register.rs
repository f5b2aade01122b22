//! `register`: metadata read, written and compared and set through all nodes; each key must be linearizable.

use std::sync::Arc;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::measure::{counts, unavailability};
use super::stored::Stored;
use super::{Aftermath, Judged, OwnFaults, Running};
use crate::checker::{faults, linearizable, vacuity, whole};
use crate::history::Recorder;
use crate::seed;
use crate::workload::aggregates::{self, Pool};
use crate::workload::registers::{self, Answer, Call, KEY};

/// More at once would make the search of a history too long.
const CLIENTS: u64 = 8;
const AT_ONCE: u64 = 3;
const OPERATIONS: u64 = 200;

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
    let initial = vec![(KEY.to_owned(), "0".to_owned())];
    let rng = seed::stream(seed, "maker", 0);
    clients.spawn(aggregates::make(pool.clone(), running.targets(), initial, rng, stop.clone()));
    for client in 0..CLIENTS {
        let (targets, pool, log) = (running.targets(), pool.clone(), log.clone());
        let rng = seed::stream(seed, "client", client);
        clients.spawn(registers::client((client, CLIENTS), targets, pool, log, rng, stop.clone()));
    }
    let happened = running.endure(OwnFaults::LeaderRestarts, clients, stop).await?;
    Ok(Evidence { aftermath: running.aftermath(happened) })
}

pub(super) fn judge(stored: &Stored<Evidence>) -> Result<Judged> {
    let (operations, faults) = (stored.operations::<Call, Answer>()?, stored.faults()?);
    let aftermath = &stored.evidence.aftermath;
    let kind = |call: &Call| match call {
        Call::Read { .. } => "read",
        Call::Write { .. } => "write",
        Call::Cas { .. } => "cas",
    };
    let verdicts = vec![
        linearizable::check(&operations),
        faults::check(stored.parameters.expected(&faults), &faults),
        vacuity::check(&operations, kind, &["read", "write", "cas"], &aftermath.nodes),
        whole::check(&aftermath.ended, &aftermath.left),
    ];
    let is_write = |call: &Call| !matches!(call, Call::Read { .. });
    let gap = unavailability("a fault", faults.iter(), &operations, is_write);
    let figures = gap.into_iter().chain(aftermath.figures.clone()).collect();
    Ok(Judged { verdicts, figures, counts: counts(&faults, &operations, aftermath.unavailable_ms) })
}
