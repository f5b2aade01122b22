//! N+1 admission where it cannot be raced. The question itself takes filters and weighers, so whoever proposes
//! answers it, on a state of some revision; what is checked here is that nothing has come since that would make the
//! answer another: a failover VM admitted meanwhile, or another policy.

use super::Cx;
use crate::id::Revision;
use crate::policy::NPlusOne;
use crate::reply::Reason;
use crate::vm::Availability;

impl Cx<'_> {
    /// Whether a VM of this availability may come, when N+1 was judged to hold with it at `judged`.
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
            Some(judged) if judged >= since => Ok(()),
            _ => Err(Reason::Unadmitted { since }),
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
