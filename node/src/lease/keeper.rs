//! Asks the leader for this node's lease, once a second and at once while there is none, and writes what is
//! granted into the lease file, then shows it to the rest of the daemon. An answer that does not come costs
//! nothing until the lease in force ends.

use std::time::Duration;

use holm_model::command::ShortenLease;
use holm_model::{BootId, Command};
use holm_raft::leases::{Heartbeat, HeartbeatAnswer};
use holm_vmm::lease::{self, LeaseFile};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::holder::{Granted, Holder};
use crate::agent::report::propose;
use crate::app::{Shared, chain};
use crate::clock;

/// Time between two heartbeats.
const PERIOD: Duration = Duration::from_secs(1);
/// The same while there is no lease and the last one was not answered.
const RETRY: Duration = Duration::from_millis(200);
/// How long one is waited for.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Heartbeats on their way at the same time.
const IN_FLIGHT: usize = 2;

/// A heartbeat's answer, none when there was none, and when it was sent.
type Answered = (u64, Option<HeartbeatAnswer>);

/// Runs until cancelled. The lease in force is left as it is: a daemon that restarts in time goes on with it.
pub async fn run(app: Shared, boot_id: BootId, stop: CancellationToken) {
    let Some(file) = open(&app, &stop).await else { return };
    let holder = Holder::new(file.current());
    let mut keeper = Keeper { holder, file, app, boot_id, told: None, telling: None };
    keeper.take_over();
    let mut beats = JoinSet::new();
    let mut period = interval(PERIOD);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = period.tick() => {
                keeper.say_if_lapsed();
                keeper.shorten();
                if !keeper.may_ask() {
                    period.reset_after(RETRY);
                } else if beats.len() < IN_FLIGHT {
                    beats.spawn(keeper.beat());
                }
            }
            Some(answered) = beats.join_next() => {
                if let Ok((sent_ns, Some(answer))) = answered {
                    keeper.answered(sent_ns, answer);
                }
                if !keeper.holder.holds(clock::boot_ns()) {
                    period.reset_after(RETRY);
                }
            }
        }
    }
}

/// The lease file; without it there is no lease, so it is asked for until it can be had.
async fn open(app: &Shared, stop: &CancellationToken) -> Option<LeaseFile> {
    let path = app.lease.file();
    let mut told = false;
    loop {
        match LeaseFile::open_or_create(path) {
            Ok(file) => {
                if !file.is_in_memory() {
                    tracing::warn!(
                        path = %path.display(),
                        "the lease file is not on tmpfs: a disk that hangs can cost this node its lease"
                    );
                }
                return Some(file);
            }
            Err(error) if !told => {
                tracing::error!(
                    error = %chain(&error),
                    "no lease file, so this node starts no VM with availability failover"
                );
                told = true;
            }
            Err(_) => {}
        }
        tokio::select! {
            () = stop.cancelled() => return None,
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
}

struct Keeper {
    app: Shared,
    boot_id: BootId,
    file: LeaseFile,
    holder: Holder,
    /// The refusal, or end, that was last said.
    told: Option<String>,
    /// Tells the cluster that the lease is short again.
    telling: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Shows what an earlier process of the daemon was granted: its VMs go on under it, or should have ended.
    fn take_over(&self) {
        if let Some(lease) = self.holder.lease() {
            self.app.lease.put(lease);
        }
    }

    /// The leader gives a lease only to the host that the record names: before the report of this boot is applied
    /// it is not asked for one. A lease that goes on is renewed whatever this replica has seen.
    fn may_ask(&self) -> bool {
        let published = self.app.raft.state();
        let node = published.state.nodes.get(&self.app.raft.node_id());
        let reported = node.and_then(|node| node.report.as_ref());
        reported.is_some_and(|report| report.boot_id == self.boot_id) || self.holder.holds(clock::boot_ns())
    }

    fn beat(&self) -> impl Future<Output = Answered> + Send + use<> {
        // The lease counts from here, whatever the heartbeat has to wait for (rule 6).
        let sent_ns = clock::boot_ns();
        let (raft, boot_id) = (self.app.raft.clone(), self.boot_id);
        let holds = self.holder.holds(sent_ns);
        async move {
            match raft.heartbeat(Heartbeat { boot_id, holds }, TIMEOUT).await {
                Ok(answer) => (sent_ns, Some(answer)),
                Err(error) => {
                    tracing::debug!(%error, "heartbeat");
                    (sent_ns, None)
                }
            }
        }
    }

    fn answered(&mut self, sent_ns: u64, answer: HeartbeatAnswer) {
        match answer {
            HeartbeatAnswer::Granted(grant) => {
                let ttl_ms = grant.ttl_ms.min(self.longest_ttl_ms());
                self.granted(Granted { sent_ns, ttl_ms, read_index: grant.read_index });
            }
            HeartbeatAnswer::Refused(why) if self.told.as_ref() != Some(&why) => {
                tracing::warn!(why, "the leader grants this node no lease");
                self.told = Some(why);
            }
            HeartbeatAnswer::Refused(_) => {}
        }
    }

    /// A lease is longer than the policy's only where this replica has applied the freeze, and not its end (rule 10).
    fn longest_ttl_ms(&self) -> u64 {
        let published = self.app.raft.state();
        match &published.state.freeze {
            Some(freeze) if !freeze.over => u64::MAX,
            _ => published.state.policy.longest_ttl_ms,
        }
    }

    /// After a freeze was called off the lease is made as short as any other, and then the cluster is told, which
    /// need not wait for the end of this one any more. From here on no grant makes it long again: each counts for no
    /// more than the policy's ttl, once this replica has seen the end.
    fn shorten(&mut self) {
        let (published, me) = (self.app.raft.state(), self.app.raft.node_id());
        let Some(freeze) = published.state.freeze.as_ref().filter(|freeze| freeze.over) else { return };
        if freeze.short.contains(&me) || self.telling.as_ref().is_some_and(|telling| !telling.is_finished()) {
            return;
        }
        if let Some(lease) = self.holder.shortened(self.longest_ttl_ms(), clock::boot_ns()) {
            self.file.shorten(lease.id, lease.deadline_ns);
            self.holder.put(lease);
            self.app.lease.put(lease);
        }
        let (raft, freeze) = (self.app.raft.clone(), freeze.revision);
        self.telling = Some(tokio::spawn(async move {
            let told = propose(&raft, Command::ShortenLease(ShortenLease { node: me, freeze })).await;
            tracing::debug!(?told, "the lease is short again");
        }));
    }

    fn granted(&mut self, granted: Granted) {
        // Twice at most: the lease may lapse between the look at the clock and the write.
        for _ in 0..2 {
            let Some(lease) = self.holder.with(granted, clock::boot_ns()) else { return };
            match self.file.grant(lease.id, lease.deadline_ns) {
                Ok(()) => {
                    if self.holder.lease().map(|before| before.id) != Some(lease.id) {
                        tracing::info!(lease = %lease.id, ttl_ms = granted.ttl_ms, "lease begun");
                    }
                    self.told = None;
                    self.holder.put(lease);
                    self.app.lease.put(lease);
                    return;
                }
                Err(lease::Error::Lapsed { .. }) => {}
                Err(error) => {
                    tracing::error!(error = %chain(&error), "the lease cannot be written");
                    return;
                }
            }
        }
    }

    fn say_if_lapsed(&mut self) {
        let Some(lease) = self.holder.lease().filter(|lease| !lease.lives(clock::boot_ns())) else { return };
        let text = format!("lease {} ended", lease.id);
        if self.told.is_none() {
            tracing::warn!(
                lease = %lease.id,
                "the lease has ended: VMs with availability failover stop here until there is another"
            );
            self.told = Some(text);
        }
    }
}
