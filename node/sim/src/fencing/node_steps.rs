//! What a node's daemon does: heartbeats, leases, starts, stops, releases, directories, availability.

use super::leader_steps::possible;
use super::node::{Directory, Lease, Node, Shim, Starting};
use super::replicated::{Availability, Claim, Command, NodeIx};
use super::rule::{Rule, Rules};
use super::time::Timing;
use super::world::{Disabled, Heartbeat, MESSAGES, Step, Violation, World};

impl World {
    pub(super) fn send_heartbeat(&mut self, n: NodeIx) -> Step {
        possible(self.nodes[n].daemon_runs())?;
        let heartbeats = &mut self.heartbeats[n];
        let heartbeat = Heartbeat { process: self.nodes[n].process, age: 0 };
        possible(!heartbeats.contains(&heartbeat))?;
        if heartbeats.len() == MESSAGES {
            heartbeats.remove(0);
        }
        heartbeats.push(heartbeat);
        Ok(())
    }

    /// A heartbeat arrives; it stays on the wire and may arrive again.
    pub(super) fn deliver_heartbeat(&mut self, n: NodeIx, slot: usize, to: NodeIx) -> Step {
        possible(self.nodes[to].daemon_runs())?;
        let heartbeat = *self.heartbeats[n].get(slot).ok_or(Disabled)?;
        let lead = self.leads[to].as_mut().ok_or(Disabled)?;
        possible(lead.inbox[n] != Some(heartbeat))?;
        lead.inbox[n] = Some(heartbeat);
        Ok(())
    }

    /// A grant arrives; it stays on the wire and may arrive again.
    pub(super) fn deliver_grant(&mut self, n: NodeIx, slot: usize, rules: Rules, timing: &Timing) -> Step {
        let grant = *self.grants[n].get(slot).ok_or(Disabled)?;
        let node = &mut self.nodes[n];
        let sender = grant.heartbeat.process == node.process || !rules.on(Rule::GrantToItsSender);
        possible(node.daemon_runs() && sender)?;
        let age = if rules.on(Rule::DeadlineFromSend) { grant.heartbeat.age } else { 0 };
        let remaining = grant.ttl.saturating_sub(age);
        possible(remaining > 0)?;
        node.accept(remaining, rules);
        node.read_index = node.read_index.max(Some(grant.read_index));
        node.enforce(rules, timing);
        Ok(())
    }

    pub(super) fn apply(&mut self, n: NodeIx, rules: Rules, timing: &Timing) -> Step {
        let node = &mut self.nodes[n];
        possible(node.daemon_runs() && (node.applied as usize) + 1 < self.log.len())?;
        node.applied += 1;
        let state = &self.log[node.applied as usize];
        if state.freeze == Some(node.applied)
            && !rules.on(Rule::FreezeFromSend)
            && let Some(lease) = node.lease.as_mut().filter(|lease| lease.remaining > 0)
        {
            lease.remaining = lease.remaining.max(timing.freeze);
        }
        self.applied_as_leader(n);
        Ok(())
    }

    /// Whether the agent may start the VM now, at which epoch, and whether under the lease.
    fn may_start(&self, n: NodeIx, rules: Rules, timing: &Timing) -> Result<(u8, Option<u8>), Disabled> {
        let (node, record) = (&self.nodes[n], self.replica(n));
        let epoch = record.epoch_on(n).ok_or(Disabled)?;
        possible(node.daemon_runs() && node.seen_absent(rules))?;
        let here = node.directory.filter(|directory| directory.epoch == epoch);
        let released = here.is_some_and(|directory| directory.released) || node.releasing == Some(epoch);
        possible(!released || !rules.on(Rule::ReleasedNeverStarts))?;
        if node.must_arm(record, rules) {
            let lease = node.live_lease().ok_or(Disabled)?;
            possible(node.fresh() || !rules.on(Rule::AppliedReadIndex))?;
            return Ok((epoch, Some(lease.id)));
        }
        if !node.fresh() {
            possible(here.is_some() || !rules.on(Rule::ColdNeedsDirectory))?;
            possible(node.process_age >= timing.autostart_wait || !rules.on(Rule::ColdWaits))?;
            // The operator's word: a machine said to be off comes back where it can reach a quorum, so
            // within the wait it has learnt what became of its VM.
            possible(!node.evacuated || !rules.on(Rule::ColdWaits))?;
        }
        Ok((epoch, None))
    }

    pub(super) fn decide_start(&mut self, n: NodeIx, rules: Rules, timing: &Timing) -> Step {
        possible(self.nodes[n].starting.is_none())?;
        let (epoch, _) = self.may_start(n, rules, timing)?;
        self.nodes[n].starting = Some(Starting { epoch });
        Ok(())
    }

    pub(super) fn exec(&mut self, n: NodeIx, rules: Rules, timing: &Timing) -> Step {
        possible(self.nodes[n].daemon_runs())?;
        let starting = self.nodes[n].starting.ok_or(Disabled)?;
        self.nodes[n].starting = None;
        let armed = match self.may_start(n, rules, timing) {
            Ok((epoch, armed)) if epoch == starting.epoch => armed,
            _ if rules.on(Rule::CheckBeforeExec) => return Ok(()),
            _ => {
                let under = self.replica(n).effective == Availability::Failover;
                self.nodes[n].lease.filter(|_| under).map(|lease| lease.id)
            }
        };
        let node = &mut self.nodes[n];
        possible(node.shim.is_none())?;
        let epoch = starting.epoch;
        let here = node.directory.filter(|directory| directory.epoch == epoch);
        node.directory = Some(here.unwrap_or(Directory { epoch, released: false, bound: armed.is_some() }));
        node.shim = Some(Shim { epoch, running: false, orphaned: false, paused: false, armed, doom: None });
        Ok(())
    }

    /// The agent stops a VMM that its replica says is not its own (any more).
    pub(super) fn stop(&mut self, n: NodeIx, rules: Rules) -> Step {
        let node = &self.nodes[n];
        let shim = node.shim.filter(|shim| shim.running).ok_or(Disabled)?;
        possible(node.daemon_runs() && self.replica(n).epoch_on(n) != Some(shim.epoch))?;
        possible(shim.epoch <= node.applied || !rules.on(Rule::NewerEpochWaits))?;
        if self.truth().epoch_on(n) == Some(shim.epoch) {
            self.violation.get_or_insert(Violation::OwnedVmmStopped { node: n });
        }
        self.nodes[n].shim = None;
        Ok(())
    }

    /// The node gives its claim back: after a failed build, or drained.
    pub(super) fn mark_released(&mut self, n: NodeIx, rules: Rules) -> Step {
        let (node, record) = (&self.nodes[n], self.replica(n));
        let epoch = record.epoch_on(n).ok_or(Disabled)?;
        possible(node.daemon_runs() && node.seen_absent(rules) && node.starting.is_none())?;
        possible(rules.on(Rule::MarkBeforeProposal) || node.releasing == Some(epoch))?;
        let here = node.directory.filter(|directory| directory.epoch == epoch);
        let bound = here.is_some_and(|directory| directory.bound);
        possible(here.is_none_or(|directory| !directory.released))?;
        let node = &mut self.nodes[n];
        node.directory = Some(Directory { epoch, released: true, bound });
        node.releasing = Some(epoch);
        Ok(())
    }

    pub(super) fn propose_release(&mut self, n: NodeIx, rules: Rules) -> Step {
        let node = &self.nodes[n];
        let epoch = self.replica(n).epoch_on(n).ok_or(Disabled)?;
        possible(node.daemon_runs() && node.seen_absent(rules) && node.starting.is_none())?;
        let marked = node.directory.is_some_and(|directory| directory.epoch == epoch && directory.released);
        possible(marked || !rules.on(Rule::MarkBeforeProposal))?;
        self.propose(None, Command::Released(Claim { node: n, epoch }))?;
        self.nodes[n].releasing = Some(epoch);
        Ok(())
    }

    /// Where rule 1a is left out a report of failure frees the claim, and the agent tries again.
    pub(super) fn propose_build_failed(&mut self, n: NodeIx, rules: Rules) -> Step {
        let node = &self.nodes[n];
        let epoch = self.replica(n).epoch_on(n).ok_or(Disabled)?;
        possible(!rules.on(Rule::ClaimEndsByRelease) && node.daemon_runs() && node.shim.is_none())?;
        possible(node.starting.is_none())?;
        self.propose(None, Command::BuildFailed(Claim { node: n, epoch }))
    }

    pub(super) fn delete_directory(&mut self, n: NodeIx, rules: Rules) -> Step {
        let directory = self.deletable(n, rules)?;
        let alive = self.nodes[n].shim.is_some_and(|shim| shim.running && shim.epoch == directory.epoch);
        if self.truth().epoch_on(n) == Some(directory.epoch) || alive {
            self.violation.get_or_insert(Violation::DiskDeleted { node: n });
        }
        self.nodes[n].directory = None;
        Ok(())
    }

    /// Where rule 14b is left out the files go one by one, the mark before the rest.
    pub(super) fn forget_mark(&mut self, n: NodeIx, rules: Rules) -> Step {
        possible(!rules.on(Rule::DirectoryLeavesWhole))?;
        let directory = self.deletable(n, rules)?;
        possible(directory.released)?;
        self.nodes[n].directory = Some(Directory { released: false, ..directory });
        Ok(())
    }

    fn deletable(&self, n: NodeIx, rules: Rules) -> Result<Directory, Disabled> {
        let node = &self.nodes[n];
        let directory = node.directory.ok_or(Disabled)?;
        possible(node.daemon_runs() && node.starting.is_none())?;
        possible(self.replica(n).epoch_on(n) != Some(directory.epoch))?;
        if rules.on(Rule::DeleteAfterEnd) {
            possible(directory.epoch <= node.applied && node.seen_absent(rules))?;
        }
        Ok(directory)
    }

    /// Arms a running shim because the user asks for failover.
    pub(super) fn arm(&mut self, n: NodeIx) -> Step {
        let record = self.replica(n);
        let asked = record.requested == Availability::Failover;
        let epoch = record.epoch_on(n).ok_or(Disabled)?;
        let node = &mut self.nodes[n];
        possible(node.daemon_runs() && asked)?;
        let lease = node.live_lease().ok_or(Disabled)?;
        let shim = node.shim.as_mut().filter(|shim| shim.running && shim.epoch == epoch).ok_or(Disabled)?;
        possible(!shim.orphaned && !shim.paused && shim.armed.is_none())?;
        shim.armed = Some(lease.id);
        Ok(())
    }

    pub(super) fn report_failover(&mut self, n: NodeIx, rules: Rules) -> Step {
        let record = self.replica(n).clone();
        let epoch = record.epoch_on(n).ok_or(Disabled)?;
        let node = &mut self.nodes[n];
        possible(node.daemon_runs() && node.starting.is_none())?;
        possible(record.requested == Availability::Failover && record.effective == Availability::Pinned)?;
        let ready = match node.shim {
            None => true,
            Some(shim) if shim.running => shim.armed.is_some_and(|armed| node.lease_holds(armed, rules)),
            Some(_) => node.seen_absent(rules),
        };
        possible(ready || !rules.on(Rule::ArmBeforeReport))?;
        if let Some(directory) = node.directory.as_mut().filter(|directory| directory.epoch == epoch) {
            directory.bound = true;
        }
        let claim = Claim { node: n, epoch };
        let (availability, request) = (Availability::Failover, record.request);
        self.propose(None, Command::Report { claim, availability, request })
    }

    pub(super) fn report_pinned(&mut self, n: NodeIx) -> Step {
        let record = self.replica(n);
        let epoch = record.epoch_on(n).ok_or(Disabled)?;
        possible(self.nodes[n].daemon_runs())?;
        possible(record.requested == Availability::Pinned && record.effective == Availability::Failover)?;
        let (availability, request) = (Availability::Pinned, record.request);
        let claim = Claim { node: n, epoch };
        self.propose(None, Command::Report { claim, availability, request })
    }

    pub(super) fn disarm(&mut self, n: NodeIx, rules: Rules) -> Step {
        self.may_free(n, rules)?;
        let shim = self.nodes[n].shim.as_mut().filter(|shim| shim.running && !shim.paused).ok_or(Disabled)?;
        possible(shim.armed.is_some() && shim.doom.is_none())?;
        shim.armed = None;
        Ok(())
    }

    /// What starts from this directory need not hold a lease any more.
    pub(super) fn unbind(&mut self, n: NodeIx, rules: Rules) -> Step {
        self.may_free(n, rules)?;
        let directory = self.nodes[n].directory.as_mut().filter(|directory| directory.bound);
        directory.ok_or(Disabled)?.bound = false;
        Ok(())
    }

    fn may_free(&self, n: NodeIx, rules: Rules) -> Step {
        let (node, record) = (&self.nodes[n], self.replica(n));
        possible(node.daemon_runs() && record.epoch_on(n).is_some())?;
        possible(record.requested == Availability::Pinned)?;
        possible(record.effective == Availability::Pinned || !rules.on(Rule::DisarmAfterApplied))?;
        possible(node.fresh() || !rules.on(Rule::DisarmCaughtUp))
    }

    /// A fenced node reports that it runs nothing it has lost.
    pub(super) fn report_clean(&mut self, n: NodeIx, rules: Rules) -> Step {
        let (node, record) = (&self.nodes[n], self.replica(n));
        possible(node.daemon_runs() && self.truth().fenced[n].is_some())?;
        if rules.on(Rule::UnfenceAfterReport) {
            possible(record.fenced[n].is_some())?;
            let running = node.shim.filter(|shim| shim.running).map(|shim| shim.epoch);
            possible(running.is_none() || running == record.epoch_on(n))?;
            possible(node.seen_absent(rules) || running.is_some())?;
        }
        let seen = node.applied;
        self.propose(None, Command::Unfence { node: n, seen })
    }
}

impl Node {
    /// Writes a grant into the lease file.
    fn accept(&mut self, remaining: u8, rules: Rules) {
        let lapsed = self.live_lease().is_none();
        match &mut self.lease {
            Some(lease) => {
                if lapsed && rules.on(Rule::NewIdAfterLapse) {
                    lease.id = self.next_lease;
                    self.next_lease += 1;
                }
                lease.remaining = lease.remaining.max(remaining);
            }
            None => {
                self.lease = Some(Lease { id: self.next_lease, remaining });
                self.next_lease += 1;
            }
        }
    }
}
