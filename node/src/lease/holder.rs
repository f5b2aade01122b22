//! What a grant means for the lease of this node. Pure: every time is handed in, nanoseconds of
//! `CLOCK_BOOTTIME`.
//!
//! It guarantees that a deadline is never later than the moment the heartbeat was *sent* plus the granted
//! ttl (rule 6), that no late answer shortens a lease, only the end of a freeze does, and that a lease which has lapsed never comes back:
//! the next one has another id (rule 16), so whoever slept meanwhile cannot take it for unbroken.
//!
//! ```text
//!   none ── grant ──► in force ◄─┐ grant while it lives: same id, later deadline
//!     ▲                   │ └────┘
//!     └── deadline ───────┘        grant after that: another id
//! ```

use holm_vmm::lease::LeaseId;

/// Nanoseconds in a millisecond.
const MS: u64 = 1_000_000;

/// A lease; whether it still lives is a question of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InForce {
    pub id: LeaseId,
    pub deadline_ns: u64,
    /// Log index that must be applied here before anything starts under it. None for a lease that an earlier
    /// process of this boot was granted, until this process is granted it too: nothing starts under that.
    pub read_index: Option<u64>,
}

impl InForce {
    /// Whether it has not ended at `now_ns`.
    pub fn lives(&self, now_ns: u64) -> bool {
        now_ns < self.deadline_ns
    }
}

/// A grant as it reached this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// When the heartbeat it answers was sent.
    pub sent_ns: u64,
    pub ttl_ms: u64,
    pub read_index: u64,
}

/// Holds at most one lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    lease: Option<InForce>,
}

impl Holder {
    /// With what the lease file of this boot says; an earlier process of the daemon may have left a lease there.
    pub fn new(found: Option<(LeaseId, u64)>) -> Self {
        Self { lease: found.map(|(id, deadline_ns)| InForce { id, deadline_ns, read_index: None }) }
    }

    /// The latest lease, dead or alive.
    pub fn lease(&self) -> Option<InForce> {
        self.lease
    }

    /// Whether one lives.
    pub fn holds(&self, now_ns: u64) -> bool {
        self.lease.is_some_and(|lease| lease.lives(now_ns))
    }

    /// What the lease becomes with a grant that arrives at `now_ns`; none when it came too late to mean
    /// anything. It is in force once it stands in the lease file and [`Holder::put`] was called.
    #[must_use]
    pub fn with(&self, grant: Granted, now_ns: u64) -> Option<InForce> {
        let deadline_ns = grant.sent_ns.saturating_add(grant.ttl_ms.saturating_mul(MS));
        if deadline_ns <= now_ns {
            return None;
        }
        Some(match self.lease {
            Some(lease) if lease.lives(now_ns) => InForce {
                id: lease.id,
                deadline_ns: lease.deadline_ns.max(deadline_ns),
                // Of answers that overtook each other, the replica must have seen what the later round saw.
                read_index: lease.read_index.max(Some(grant.read_index)),
            },
            lapsed => {
                InForce { id: next_id(lapsed, now_ns), deadline_ns, read_index: Some(grant.read_index) }
            }
        })
    }

    /// The lease, if it lives, with no more than `ttl_ms` left at `now_ns`.
    #[must_use]
    pub fn shortened(&self, ttl_ms: u64, now_ns: u64) -> Option<InForce> {
        let lease = self.lease.filter(|lease| lease.lives(now_ns))?;
        let latest_ns = now_ns.saturating_add(ttl_ms.saturating_mul(MS));
        Some(InForce { deadline_ns: lease.deadline_ns.min(latest_ns), ..lease })
    }

    /// Holds `lease` from here on.
    pub fn put(&mut self, lease: InForce) {
        self.lease = Some(lease);
    }
}

/// Never one that was used in this boot, not even in a lease file that somebody removed: the clock rises.
fn next_id(lapsed: Option<InForce>, now_ns: u64) -> LeaseId {
    LeaseId(now_ns.max(lapsed.map_or(0, |lease| lease.id.0 + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL_MS: u64 = 15_000;
    const S: u64 = 1_000_000_000;

    fn grant(sent_s: u64, read_index: u64) -> Granted {
        Granted { sent_ns: sent_s * S, ttl_ms: TTL_MS, read_index }
    }

    fn lease(id: u64, deadline_s: u64, read_index: impl Into<Option<u64>>) -> InForce {
        InForce { id: LeaseId(id), deadline_ns: deadline_s * S, read_index: read_index.into() }
    }

    #[test]
    fn a_grant_means_what_rules_6_and_16_say() {
        let none = Holder::new(None);
        let taken_over = Holder::new(Some((LeaseId(7), 110 * S)));
        let mut held = none;
        held.put(lease(7, 115, 40));
        let table = [
            (
                "the first lease counts from the sending",
                none,
                grant(100, 40),
                103,
                Some(lease(103 * S, 115, 40)),
            ),
            ("a renewal keeps the id", held, grant(101, 41), 102, Some(lease(7, 116, 41))),
            ("a late answer does not shorten it", held, grant(95, 39), 102, Some(lease(7, 115, 40))),
            ("a late answer of a later round", held, grant(95, 44), 102, Some(lease(7, 115, 44))),
            ("an answer that came after its own end", held, grant(80, 50), 102, None),
            ("an answer at its own end", held, grant(87, 50), 102, None),
            ("renewed at its last moment", held, grant(114, 50), 114, Some(lease(7, 129, 50))),
            ("lapsed: another id", held, grant(114, 50), 115, Some(lease(115 * S, 129, 50))),
            ("taken over from an earlier process", taken_over, grant(100, 40), 101, Some(lease(7, 115, 40))),
            ("lapsed between the processes", taken_over, grant(120, 40), 121, Some(lease(121 * S, 135, 40))),
        ];
        for (case, holder, grant, now_s, expected) in table {
            assert_eq!(holder.with(grant, now_s * S), expected, "{case}");
        }
    }

    #[test]
    fn a_long_lease_becomes_short_and_a_short_one_or_a_dead_one_stays() {
        let mut held = Holder::new(None);
        assert_eq!(held.shortened(TTL_MS, 100 * S), None);
        held.put(lease(7, 3_600, 40));
        assert_eq!(held.shortened(TTL_MS, 100 * S), Some(lease(7, 115, 40)));
        held.put(lease(7, 110, 40));
        assert_eq!(held.shortened(TTL_MS, 100 * S), Some(lease(7, 110, 40)));
        assert_eq!(held.shortened(TTL_MS, 110 * S), None);
    }

    #[test]
    fn nothing_starts_under_a_lease_of_an_earlier_process_until_it_is_granted_anew() {
        let holder = Holder::new(Some((LeaseId(7), 110 * S)));
        assert!(holder.holds(109 * S) && !holder.holds(110 * S));
        assert_eq!(holder.lease(), Some(lease(7, 110, None)));
    }

    #[test]
    fn an_id_is_never_used_twice() {
        let mut holder = Holder::new(Some((LeaseId(500 * S), 90 * S)));
        let lease = holder.with(grant(100, 1), 100 * S).expect("in time");
        assert_eq!(lease.id, LeaseId(500 * S + 1), "above what is in the file, whatever the clock says");
        holder.put(lease);
        assert_ne!(holder.with(grant(200, 2), 200 * S).expect("in time").id, lease.id);
    }
}
