//! The idempotency window: the answers given to keyed proposals in the last [`WINDOW`] revisions.
//! A proposal made before the window began is refused as *expired*, so a key that has left the window
//! can never act a second time.

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use crate::command::{IdempotencyKey, Proposal};
use crate::id::Revision;
use crate::planted::{Plant, planted};
use crate::reply::{Reason, Reply};

/// Length of the window in revisions.
pub const WINDOW: u64 = 16_384;

/// What was answered to one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Answer {
    revision: Revision,
    fingerprint: String,
    reply: Reply,
}

/// Answers by (project, key), and the keys by the revision at which they leave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    answers: OrdMap<(String, String), Answer>,
    by_revision: OrdMap<Revision, (String, String)>,
}

/// What the window says of a proposal.
pub(crate) enum Verdict {
    /// Not seen: apply it.
    New,
    /// Answer this; change nothing.
    Answered(Reply),
}

impl Window {
    /// The lowest `seen` that is still accepted when the state is at `now`.
    fn start(now: Revision) -> Revision {
        Revision(now.0.saturating_sub(WINDOW))
    }

    pub(crate) fn check(&self, proposal: &Proposal, now: Revision) -> Verdict {
        let Some(IdempotencyKey { key, fingerprint }) = &proposal.key else { return Verdict::New };
        let id = (proposal.actor.project.clone(), key.clone());
        if let Some(answer) = self.answers.get(&id).filter(|_| !planted(Plant::NoDedup)) {
            return Verdict::Answered(if answer.fingerprint == *fingerprint {
                Reply::Duplicate(Box::new(answer.reply.clone()))
            } else {
                Reply::Rejected(Reason::KeyReused)
            });
        }
        let window = Self::start(now);
        if proposal.seen < window {
            return Verdict::Answered(Reply::Rejected(Reason::Expired { seen: proposal.seen, window }));
        }
        Verdict::New
    }

    /// Keeps the answer given at `now`. Refusals too: whoever was told "no" to a key must never find that
    /// an earlier, slower try of the same request took effect after all.
    pub(crate) fn record(&mut self, proposal: &Proposal, now: Revision, reply: &Reply) {
        if let Some(IdempotencyKey { key, fingerprint }) = &proposal.key {
            let id = (proposal.actor.project.clone(), key.clone());
            let answer = Answer { revision: now, fingerprint: fingerprint.clone(), reply: reply.clone() };
            self.answers.insert(id.clone(), answer);
            self.by_revision.insert(now, id);
        }
    }

    /// Lets go of the answers that have left the window at `now`.
    pub(crate) fn evict(&mut self, now: Revision) {
        let start = Self::start(now);
        while let Some((revision, id)) = self.by_revision.get_min().cloned() {
            if revision >= start {
                break;
            }
            self.by_revision.remove(&revision);
            self.answers.remove(&id);
        }
    }

    /// The fingerprint of the request that came with `key`, and what it was answered, if that is kept.
    pub fn answer(&self, project: &str, key: &str) -> Option<(&str, &Reply)> {
        let answer = self.answers.get(&(project.to_owned(), key.to_owned()))?;
        Some((&answer.fingerprint, &answer.reply))
    }

    /// How many answers are kept.
    pub fn len(&self) -> usize {
        self.answers.len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }
}
