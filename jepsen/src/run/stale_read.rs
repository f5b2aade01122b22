//! `stale-read`: a growing set, leaders that are killed and come back at once, readers at every node.

use std::sync::Arc;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::measure::{counts, unavailability};
use super::stored::Stored;
use super::{Aftermath, Judged, OwnFaults, Running};
use crate::checker::{faults, fresh, vacuity, whole};
use crate::history::Recorder;
use crate::seed;
use crate::workload::flavor_set::{self, Answer, Call, Shared};

const WRITERS: u64 = 3;

#[derive(Serialize, Deserialize)]
pub(super) struct Evidence {
    aftermath: Aftermath,
}

pub(super) async fn run(running: &mut Running) -> Result<Evidence> {
    let seed = running.options.seed;
    let log = Arc::new(Recorder::new(running.journal.clone()));
    let shared = Arc::new(Shared::default());
    let stop = CancellationToken::new();
    let mut clients = JoinSet::new();
    for writer in 0..WRITERS {
        let (targets, shared, log) = (running.targets(), shared.clone(), log.clone());
        let rng = seed::stream(seed, "writer", writer);
        clients.spawn(flavor_set::writer(writer, targets, shared, log, rng, stop.clone()));
    }
    for (at, target) in (0..).zip(running.targets()) {
        let (shared, log, rng) = (shared.clone(), log.clone(), seed::stream(seed, "reader", at));
        clients.spawn(flavor_set::reader(WRITERS + at, target, shared, log, rng, stop.clone()));
    }
    let happened = running.endure(OwnFaults::LeaderRestarts, clients, stop).await?;
    Ok(Evidence { aftermath: running.aftermath(happened) })
}

pub(super) fn judge(stored: &Stored<Evidence>) -> Result<Judged> {
    let (operations, faults) = (stored.operations::<Call, Answer>()?, stored.faults()?);
    let aftermath = &stored.evidence.aftermath;
    let kind = |call: &Call| match call {
        Call::Add(_) => "add",
        Call::Get(_) => "get",
        Call::List => "list",
    };
    let verdicts = vec![
        fresh::check(&operations),
        faults::check(stored.parameters.expected(&faults), &faults),
        vacuity::check(&operations, kind, &["add", "get", "list"], &aftermath.nodes),
        whole::check(&aftermath.ended, &aftermath.left),
    ];
    let is_write = |call: &Call| matches!(call, Call::Add(_));
    let gap = unavailability("a fault", faults.iter(), &operations, is_write);
    let figures = gap.into_iter().chain(aftermath.figures.clone()).collect();
    Ok(Judged { verdicts, figures, counts: counts(&faults, &operations, aftermath.unavailable_ms) })
}
