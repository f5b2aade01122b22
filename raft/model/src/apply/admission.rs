//! N+1 admission where it cannot be raced: whatever takes room from the VMs that are to fail over is let in only as it
//! was judged: one of those itself when it is created, when that is asked of it, and when it is started, since one that
//! is off stays with its node; any other when it is created, started without a host, moved, evacuated or freed from its
//! node, and once more when it is placed after it has waited. The question itself takes filters and weighers, so whoever proposes answers it, on a state of some revision;
//! what is checked here is that since then nothing else was admitted and the policy did not change. A node that goes is
//! found by the next judgement, as it would be had it gone a moment after the admission.

use super::Cx;
use crate::id::Revision;
use crate::policy::NPlusOne;
use crate::reply::Reason;
use crate::vm::Availability;

impl Cx<'_> {
    /// Lets a VM of this availability take room, when N+1 was judged to hold with it at `judged`.
    ///
    /// # Errors
    /// As of [`Self::check_admission`].
    pub(super) fn admit(
        &mut self,
        availability: Availability,
        judged: Option<Revision>,
    ) -> Result<(), Reason> {
        self.check_admission(availability, judged)?;
        if self.is_judged(availability) {
            self.state.admitted = self.revision;
        }
        Ok(())
    }

    /// Whether it would be let in. An entry that says nothing is from before this was asked here, and replays as it was
    /// applied; under the rules of number 2 it was not judged.
    ///
    /// # Errors
    /// [`Reason::Unadmitted`], when the policy refuses what was not judged, or was judged too early.
    pub(super) fn check_admission(
        &self,
        availability: Availability,
        judged: Option<Revision>,
    ) -> Result<(), Reason> {
        let unasked = judged.is_none() && !self.knows(2);
        if unasked || !self.is_judged(availability) {
            return Ok(());
        }
        // Those of one entry are judged together.
        let before = Some(self.state.admitted).filter(|admitted| *admitted != self.revision);
        let since = before.unwrap_or_default().max(self.state.scheduler.revision);
        match judged.unwrap_or_default() < since {
            true => Err(Reason::Unadmitted { since }),
            false => Ok(()),
        }
    }

    /// Pinned VMs since the rules of number 2.
    fn is_judged(&self, availability: Availability) -> bool {
        self.state.scheduler.n_plus_one == NPlusOne::Refuse
            && (availability == Availability::Failover || self.knows(2))
    }
}
