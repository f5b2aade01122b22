//! Leases as the operator sets them, and announced network work (FENCING.md, rules 9 and 10).

use std::collections::BTreeSet;

use super::{Cx, check_expected, invalid, not_found, wrong_state};
use crate::cluster_policy::{
    AUTOSTART_WAIT_MS_MAX, FREEZE_MS_MAX, Freeze, LEASE_TTL_MS_MAX, LEASE_TTL_MS_MIN, MARGIN_MS_MAX,
    MARGIN_MS_MIN,
};
use crate::command::{EndFreeze, SetClusterPolicy, SetFreeze, SettleLeaseTtl, ShortenLease};
use crate::limits;
use crate::reply::{Kind, Outcome, Reason};

impl Cx<'_> {
    pub(super) fn set_cluster_policy(&mut self, c: &SetClusterPolicy) -> Result<Outcome, Reason> {
        check_expected(c.expected, self.state.policy.revision)?;
        let mut policy = self.state.policy;
        for (field, given, allowed, value) in [
            ("lease_ttl_ms", c.lease_ttl_ms, LEASE_TTL_MS_MIN..=LEASE_TTL_MS_MAX, &mut policy.lease_ttl_ms),
            ("margin_ms", c.margin_ms, MARGIN_MS_MIN..=MARGIN_MS_MAX, &mut policy.margin_ms),
            (
                "autostart_wait_ms",
                c.autostart_wait_ms,
                0..=AUTOSTART_WAIT_MS_MAX,
                &mut policy.autostart_wait_ms,
            ),
        ] {
            let Some(given) = given else { continue };
            if !allowed.contains(&given) {
                let (least, most) = (allowed.start(), allowed.end());
                return Err(invalid(field, format!("is {given}, must be {least} to {most}")));
            }
            *value = given;
        }
        // Leases of the longer ttl may be out, also some that no later leader knows of.
        policy.longest_ttl_ms = policy.longest_ttl_ms.max(policy.lease_ttl_ms);
        policy.revision = self.revision;
        self.state.policy = policy;
        self.event(Kind::Policy, "cluster", "cluster", "changed", "");
        Ok(Outcome::Nothing)
    }

    pub(super) fn settle_lease_ttl(&mut self, c: &SettleLeaseTtl) -> Result<Outcome, Reason> {
        self.check_leadership(c.leadership)?;
        if self.state.policy.revision != c.policy {
            return Err(wrong_state("the policy has changed since"));
        }
        self.state.policy.longest_ttl_ms = self.state.policy.lease_ttl_ms;
        Ok(Outcome::Nothing)
    }

    pub(super) fn set_freeze(&mut self, c: &SetFreeze) -> Result<Outcome, Reason> {
        let Some(for_ms) = c.for_ms else {
            let Some(freeze) = self.state.freeze.as_mut().filter(|freeze| !freeze.over) else {
                return Err(wrong_state("the cluster is not frozen"));
            };
            freeze.over = true;
            self.event(Kind::Cluster, "freeze", "freeze", "ended", "called off; leases become short again");
            return Ok(Outcome::Nothing);
        };
        if for_ms == 0 || for_ms > FREEZE_MS_MAX {
            return Err(invalid("for_ms", format!("is {for_ms}, must be 1 to {FREEZE_MS_MAX}")));
        }
        if let Some(reason) = &c.reason {
            limits::text("reason", reason, limits::MESSAGE_MAX)?;
        }
        // The earlier one's leases may be out until its end: the longer of both is waited for.
        let before = self.state.freeze.as_ref().map_or(0, |freeze| freeze.longest_ms.max(freeze.for_ms));
        let message = format!(
            "for {} s{}",
            for_ms / 1000,
            c.reason.as_ref().map_or(String::new(), |r| format!(": {r}"))
        );
        self.state.freeze = Some(Freeze {
            since: self.at,
            for_ms,
            longest_ms: for_ms.max(before),
            reason: c.reason.clone(),
            revision: self.revision,
            over: false,
            short: BTreeSet::new(),
        });
        self.event(Kind::Cluster, "freeze", "freeze", "began", message);
        Ok(Outcome::Nothing)
    }

    pub(super) fn shorten_lease(&mut self, c: &ShortenLease) -> Result<Outcome, Reason> {
        if !self.state.nodes.contains_key(&c.node) {
            return Err(not_found(Kind::Node, c.node));
        }
        match self.state.freeze.as_mut().filter(|freeze| freeze.revision == c.freeze) {
            None => Err(wrong_state("that freeze is over")),
            Some(freeze) if !freeze.over => Err(wrong_state("that freeze was not called off")),
            Some(freeze) => {
                freeze.short.insert(c.node);
                Ok(Outcome::Nothing)
            }
        }
    }

    pub(super) fn end_freeze(&mut self, c: &EndFreeze) -> Result<Outcome, Reason> {
        self.check_leadership(c.leadership)?;
        if self.state.freeze.as_ref().is_none_or(|freeze| freeze.revision != c.freeze) {
            return Err(wrong_state("that freeze is over"));
        }
        self.state.freeze = None;
        self.event(
            Kind::Cluster,
            "freeze",
            "freeze",
            "ended",
            "every lease that was longer for it has ended",
        );
        Ok(Outcome::Nothing)
    }
}
