//! N+1 admission where it cannot be raced: a VM that is to fail over comes when it is created, when that is asked of it,
//! and when it is started, since one that is off stays with its node. The question itself takes filters and weighers, so whoever proposes
//! answers it, on a state of some revision; what is checked here is that since then neither another failover VM was
//! admitted nor the policy changed. What else takes room meanwhile (a pinned VM, a node that goes) is found by the next
//! judgement, as it would be had it come a moment after the admission.

use super::Cx;
use crate::id::Revision;
use crate::policy::NPlusOne;
use crate::reply::Reason;
use crate::vm::Availability;

impl Cx<'_> {
    /// Whether a VM of this availability may come, when N+1 was judged to hold with it at `judged`. An entry that says
    /// nothing is from before this was asked here, and replays as it was applied.
    ///
    /// # Errors
    /// [`Reason::Unadmitted`], when the policy refuses what was not judged, or was judged too early.
    pub(super) fn check_admission(
        &self,
        availability: Availability,
        judged: Option<Revision>,
    ) -> Result<(), Reason> {
        if !self.is_admitted_by_n_plus_one(availability) {
            return Ok(());
        }
        // Those of one entry are judged together.
        let before = Some(self.state.admitted).filter(|admitted| *admitted != self.revision);
        let since = before.unwrap_or_default().max(self.state.scheduler.revision);
        match judged {
            Some(judged) if judged < since => Err(Reason::Unadmitted { since }),
            Some(_) | None => Ok(()),
        }
    }

    /// Takes note that one came.
    pub(super) fn note_admission(&mut self, availability: Availability) {
        if self.is_admitted_by_n_plus_one(availability) {
            self.state.admitted = self.revision;
        }
    }

    fn is_admitted_by_n_plus_one(&self, availability: Availability) -> bool {
        availability == Availability::Failover && self.state.scheduler.n_plus_one == NPlusOne::Refuse
    }
}
