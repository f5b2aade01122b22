//! How a write is made: build the command from the state, propose it under an idempotency key, wait for
//! the answer, look at the state it led to.
//!
//! Building reads this node's own copy first and asks the leader only when something is not found there, or
//! when a name could by now mean another record. A repeated request whose subject is gone is answered from
//! the idempotency window, as it was the first time.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, Method, Uri, header};
use holm_api::{Code, header as holm};
use holm_model::reply::Done;
use holm_model::{Actor, Command, IdempotencyKey, Proposal, Reason, Reply, Revision, State};
use holm_raft::handle::{Committed, Handle, Published};
use sha2::{Digest, Sha256};

use super::ACTOR;
use super::extract::{Named, is_id};
use super::problem::{Failure, Result};
use super::project::Project;
use super::read::READ_TIMEOUT;

/// How long a write may take, elections included, before its outcome is called unknown.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// How the client wants a write to be made.
#[derive(Clone, Debug)]
pub struct Intent {
    key: IdempotencyKey,
    seen: Option<Revision>,
    /// What it is about; keys are a project's.
    pub project: Project,
    /// `If-Match`: the revision the record must still have.
    pub expected: Option<Revision>,
}

impl Intent {
    /// From the request's headers; `canonical` is what its body meant. A request without a key gets a
    /// random one, so that our own retries have one effect.
    pub fn new(method: &Method, uri: &Uri, headers: &HeaderMap, canonical: &[u8]) -> Result<Self> {
        let key = match headers.get(holm::IDEMPOTENCY_KEY) {
            None => uuid::Uuid::new_v4().to_string(),
            Some(key) => key
                .to_str()
                .ok()
                .filter(|key| (1..=holm_model::limits::KEY_MAX).contains(&key.len()))
                .filter(|key| key.bytes().all(|byte| byte.is_ascii_graphic()))
                .ok_or_else(|| bad_header("Idempotency-Key", "must be 1 to 128 visible ASCII characters"))?
                .to_owned(),
        };
        let seen = revision(headers, "Holm-Seen", holm::SEEN, Some)?;
        let expected = revision(headers, "If-Match", header::IF_MATCH.as_str(), |text| {
            text.strip_prefix('"').and_then(|text| text.strip_suffix('"'))
        })?;
        let mut digest = Sha256::new();
        let target = uri.path_and_query().map_or(uri.path(), |target| target.as_str());
        for part in [method.as_str().as_bytes(), target.as_bytes(), canonical] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        let fingerprint = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let project = Project::of(headers)?;
        Ok(Self { key: IdempotencyKey { key, fingerprint }, seen, project, expected })
    }

    /// For writes that have no record to compare with: a precondition must not be ignored.
    pub fn refuse_if_match(&self) -> Result<()> {
        match self.expected {
            Some(_) => Err(bad_header("If-Match", "does not apply to this request")),
            None => Ok(()),
        }
    }

    /// A revision that has not been cannot have been seen, and would never expire.
    ///
    /// # Errors
    /// Names the header when `Holm-Seen` is ahead of `current`, which must be a linearizable read.
    pub fn refuse_seen_ahead(&self, current: &State) -> Result<()> {
        match self.seen {
            Some(seen) if seen > current.revision => {
                let message = format!("is {seen}, but the cluster is at revision {}", current.revision);
                Err(bad_header("Holm-Seen", &message).hint("send a `Holm-Revision` that was answered before"))
            }
            _ => Ok(()),
        }
    }

    /// On whose behalf it is made.
    pub fn actor(&self) -> Actor {
        Actor { name: ACTOR.to_owned(), project: self.project.name().to_owned() }
    }

    /// What the same request was answered before, if it was made before.
    ///
    /// # Errors
    /// The refusal it got then, or that its key belongs to another request.
    pub fn answered(&self, state: &State) -> Result<Option<Done>> {
        match state.window.answer(self.project.name(), &self.key.key) {
            None => Ok(None),
            Some((fingerprint, _)) if fingerprint != self.key.fingerprint => Err(Reason::KeyReused.into()),
            Some((_, before)) => repeated(before.clone()).map(Some),
        }
    }
}

fn revision<'a>(
    headers: &'a HeaderMap,
    shown: &str,
    name: &str,
    unquote: impl Fn(&'a str) -> Option<&'a str>,
) -> Result<Option<Revision>> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let parsed = value.to_str().ok().and_then(unquote).and_then(|text| text.parse::<Revision>().ok());
    match parsed {
        Some(revision) => Ok(Some(revision)),
        None if shown == "If-Match" => {
            Err(bad_header(shown, "must be one revision in double quotes, such as \"42\""))
        }
        None => Err(bad_header(shown, "must be a revision, such as 42")),
    }
}

fn bad_header(name: &str, message: &str) -> Failure {
    Failure::new(Code::InvalidHeader, format!("`{name}` {message}")).field(name)
}

/// A write that took effect.
pub struct Accepted {
    pub done: Done,
    /// It took effect earlier, and the client asked again.
    pub duplicate: bool,
    /// A state that contains it.
    pub published: Arc<Published>,
}

/// Whether the command may be built from this node's own copy of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    Local,
    /// A name may mean another record by now: ask the leader first.
    Fresh,
}

impl Basis {
    /// An id never names another record; a name may.
    pub fn of(subject: &Named) -> Self {
        Self::of_all([subject.0.as_str()])
    }

    /// For a command that names several records.
    pub fn of_all<'a>(named: impl IntoIterator<Item = &'a str>) -> Self {
        if named.into_iter().all(is_id) { Self::Local } else { Self::Fresh }
    }
}

/// Makes one write.
pub async fn perform(
    raft: &Handle,
    intent: &Intent,
    basis: Basis,
    build: impl Fn(&State) -> Result<Command>,
) -> Result<Accepted> {
    Ok(attempt(raft, intent, basis, build).await??)
}

/// The same, with the refusal of the state machine apart.
pub async fn attempt(
    raft: &Handle,
    intent: &Intent,
    basis: Basis,
    build: impl Fn(&State) -> Result<Command>,
) -> Result<std::result::Result<Accepted, Reason>> {
    let build = |state: &State| {
        intent.project.known(state)?;
        build(state)
    };
    let here = raft.state();
    let local = match basis {
        // This node may lag behind what the client has seen elsewhere; the leader does not.
        Basis::Local if intent.refuse_seen_ahead(&here.state).is_ok() => build(&here.state).ok(),
        Basis::Local | Basis::Fresh => None,
    };
    let command = match local {
        Some(command) => command,
        None => {
            let published = raft.read(READ_TIMEOUT).await?;
            intent.refuse_seen_ahead(&published.state)?;
            if let Some(done) = intent.answered(&published.state)? {
                return Ok(Ok(Accepted { done, duplicate: true, published }));
            }
            build(&published.state)?
        }
    };
    let committed = propose(raft, intent, command).await?;
    let published = applied(raft, committed.log_index)?;
    Ok(match committed.reply {
        Reply::Done(done) => Ok(Accepted { done, duplicate: false, published }),
        Reply::Rejected(reason) => Err(reason),
        Reply::Duplicate(before) => Ok(Accepted { done: repeated(*before)?, duplicate: true, published }),
    })
}

/// An answer that was given before. A refusal stands too, whatever has changed since.
fn repeated(before: Reply) -> Result<Done> {
    match before {
        Reply::Done(done) => Ok(done),
        Reply::Rejected(reason) => Err(Failure { duplicate: true, ..reason.into() }),
        Reply::Duplicate(_) => Err(Failure::new(Code::Internal, "a duplicate of a duplicate")),
    }
}

/// Proposes under the key, for which Raft may try again.
async fn propose(raft: &Handle, intent: &Intent, command: Command) -> Result<Committed> {
    let seen = intent.seen.unwrap_or(raft.state().state.revision);
    let proposal = Proposal { key: Some(intent.key.clone()), seen, actor: intent.actor(), command };
    Ok(raft.propose(proposal, WRITE_TIMEOUT).await?)
}

/// This node's state, if it holds the entry: what the client reads here next contains its write.
fn applied(raft: &Handle, log_index: u64) -> Result<Arc<Published>> {
    let published = raft.state();
    if published.log_index >= log_index {
        return Ok(published);
    }
    let detail =
        format!("it is committed at log index {log_index}, but this node lags and cannot show the outcome");
    Err(Failure::new(Code::OutcomeUnknown, detail)
        .hint("send it again with the same Idempotency-Key, perhaps to another node"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intent(headers: &[(&'static str, &'static str)]) -> Result<Intent> {
        let headers = headers
            .iter()
            .map(|(name, value)| {
                (name.parse::<header::HeaderName>().unwrap(), value.parse::<header::HeaderValue>().unwrap())
            })
            .collect();
        Intent::new(&Method::POST, &Uri::from_static("/v1/vms"), &headers, b"{}")
    }

    #[test]
    fn headers_of_a_write_are_read_strictly() {
        let good = intent(&[("if-match", "\"42\""), ("holm-seen", "7"), ("idempotency-key", "k")]).unwrap();
        assert_eq!(
            (good.expected, good.seen, good.key.key.as_str()),
            (Some(Revision(42)), Some(Revision(7)), "k")
        );
        for (name, value) in [
            ("if-match", "42"),
            ("if-match", "W/\"42\""),
            ("if-match", "\"4\", \"5\""),
            ("holm-seen", "-1"),
            ("idempotency-key", ""),
            ("idempotency-key", "two words"),
        ] {
            let failure = intent(&[(name, value)]).expect_err(value);
            assert_eq!(failure.code, Code::InvalidHeader, "{name}: {value}");
            assert!(failure.field.is_some_and(|field| field.eq_ignore_ascii_case(name)));
        }
    }

    #[test]
    fn names_are_looked_up_where_they_are_current_and_ids_anywhere() {
        const ID: &str = "0192d3a0-0000-7000-8000-000000000001";
        for (named, basis) in [
            (vec![ID, ID, "3"], Basis::Local),
            (vec![ID, "guest", "3"], Basis::Fresh),
            (vec![ID, ID, "n3"], Basis::Fresh),
        ] {
            assert_eq!(Basis::of_all(named.iter().copied()), basis, "{named:?}");
        }
    }

    #[test]
    fn a_request_without_a_key_gets_its_own() {
        assert_ne!(intent(&[]).unwrap().key.key, intent(&[]).unwrap().key.key);
        assert_eq!(intent(&[]).unwrap().key.fingerprint, intent(&[]).unwrap().key.fingerprint);
    }
}
