//! `stale-read`: a growing set, leaders that are killed and come back at once, readers at every node.

use std::sync::Arc;

use anyhow::Result;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Judged, Running, counts, unavailability};
use crate::checker::{faults, fresh, vacuity, whole};
use crate::history::Recorder;
use crate::nemesis::leader_restart;
use crate::nemesis::trouble::Trouble;
use crate::seed;
use crate::workload::flavor_set::{self, Call, Shared};

const WRITERS: u64 = 3;

pub(super) async fn run(running: &mut Running) -> Result<Judged> {
    let options = running.options.clone();
    let log = Arc::new(Recorder::new(running.journal.clone()));
    let shared = Arc::new(Shared::default());
    let stop = CancellationToken::new();
    let mut clients = JoinSet::new();
    for writer in 0..WRITERS {
        let (targets, shared, log) = (running.targets(), shared.clone(), log.clone());
        let rng = seed::stream(options.seed, "writer", writer);
        clients.spawn(flavor_set::writer(writer, targets, shared, log, rng, stop.clone()));
    }
    for (at, target) in (0..).zip(running.targets()) {
        let (shared, log, rng) = (shared.clone(), log.clone(), seed::stream(options.seed, "reader", at));
        clients.spawn(flavor_set::reader(WRITERS + at, target, shared, log, rng, stop.clone()));
    }
    let mut happened = Trouble::default();
    let done = match running.trouble {
        Some(of) => running.suffer(of, &mut happened).await,
        None => {
            let (rounds, progress) = (options.rounds, running.progress());
            let mut rng = seed::stream(options.seed, "nemesis", 0);
            let (cluster, journal) = (&mut running.cluster, &running.journal);
            let faults = &mut happened.faults;
            let ended = leader_restart::run(cluster, rounds, journal, progress, &mut rng, faults).await;
            ended.map(|ended| happened.ended = ended)
        }
    };
    stop.cancel();
    while clients.join_next().await.is_some() {}
    done?;
    let left = running.cluster.shut_down();

    let operations = log.operations();
    let kind = |call: &Call| match call {
        Call::Add(_) => "add",
        Call::Get(_) => "get",
        Call::List => "list",
    };
    let verdicts = vec![
        fresh::check(&operations),
        faults::check(running.expected(&happened.faults), &happened.faults),
        vacuity::check(&operations, kind, &["add", "get", "list"], &running.nodes()),
        whole::check(&happened.ended, &left),
    ];
    let is_write = |call: &Call| matches!(call, Call::Add(_));
    let counts = counts(&happened.faults, &operations, happened.observed.unavailable);
    let gap = unavailability("a fault", happened.faults.into_iter(), &operations, is_write);
    let figures = gap.into_iter().chain(happened.observed.figures()).collect();
    Ok(Judged { verdicts, figures, counts })
}
