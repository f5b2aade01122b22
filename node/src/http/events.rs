//! `/v1/events`: what happened, as a stream of server-sent events or as a list. A client that comes back
//! with the last id it saw misses nothing; where that is no longer possible it is told so (410).

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt, stream};
use holm_api::{Code, Event, EventsQuery, List};
use holm_model::event::Since;
use holm_model::{Revision, State as Model};
use holm_raft::handle::Published;
use tokio::sync::watch;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::Answer;
use super::convert;
use super::extract::Query;
use super::page::checked_limit;
use super::problem::{Failure, Result};
use super::read::Snapshot;
use crate::app::Shared;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(since))
}

/// Events after a revision. As a stream, each `id` is a revision to resume from (`Last-Event-ID`); one in
/// the future is waited for.
#[utoipa::path(get, path = "/v1/events", tag = "events", params(EventsQuery),
    responses((status = 200, content((Event = "text/event-stream"), (List<Event> = "application/json")))))]
async fn since(
    State(app): State<Shared>,
    headers: HeaderMap,
    Query(query): Query<EventsQuery>,
) -> Result<Response> {
    let snapshot = Snapshot::take(&app.raft, holm_api::Consistency::Linearizable).await?;
    let state = snapshot.state();
    if query.follow == Some(false) {
        let since = query.since.map_or(state.events.oldest(), Revision);
        let list = page(state, since, checked_limit(query.limit)?)?;
        return Ok(Answer::read(&snapshot, list).into_response());
    }
    if query.limit.is_some() {
        let failure = Failure::new(Code::InvalidQuery, "goes with `follow=false`: a stream has no end");
        return Err(failure.field("limit"));
    }
    let since = resume(&headers)?.or(query.since.map(Revision)).unwrap_or(state.revision);
    happened(state, since)?;
    let stream = Follow { updates: app.raft.watch(), since, ready: VecDeque::new(), done: false }.stream();
    let stream = stream.take_until(app.stopping.clone().cancelled_owned());
    Ok(Sse::new(stream).keep_alive(KeepAlive::default()).into_response())
}

fn resume(headers: &HeaderMap) -> Result<Option<Revision>> {
    let Some(id) = headers.get("last-event-id") else { return Ok(None) };
    let id = id.to_str().ok().and_then(|id| id.parse().ok());
    id.map(Some).ok_or_else(|| {
        Failure::new(Code::InvalidHeader, "`Last-Event-ID` must be a revision").field("Last-Event-ID")
    })
}

/// Whole revisions only, so that the next page begins after the last one of this.
fn page(state: &Model, since: Revision, limit: usize) -> Result<List<Event>> {
    let events = happened(state, since)?;
    let mut end = events.len().min(limit);
    while end < events.len() && end > 0 && events[end].revision == events[end - 1].revision {
        end += 1;
    }
    let next = (end < events.len()).then(|| events[end - 1].revision.to_string());
    let items = events[..end].iter().map(convert::event).collect();
    Ok(List { items, next, revision: state.revision.0 })
}

fn happened(state: &Model, since: Revision) -> Result<Vec<holm_model::Event>> {
    match state.events.since(since) {
        Since::Events(events) => Ok(events),
        Since::Compacted { oldest } => Err(Failure::new(
            Code::Compacted,
            format!("events after revision {since} are no longer kept; the oldest are after {oldest}"),
        )
        .field("since")
        .hint("read the records you care about, then follow from the revision of that answer")),
    }
}

/// A watcher: what is left to send, and the revision it is at.
struct Follow {
    updates: watch::Receiver<Arc<Published>>,
    since: Revision,
    ready: VecDeque<sse::Event>,
    done: bool,
}

impl Follow {
    fn stream(self) -> impl Stream<Item = std::result::Result<sse::Event, Infallible>> {
        stream::unfold(self, |mut follow| async move {
            loop {
                if let Some(event) = follow.ready.pop_front() {
                    return Some((Ok(event), follow));
                }
                if follow.done {
                    return None;
                }
                let published = Arc::clone(&follow.updates.borrow_and_update());
                follow.take(&published.state);
                // Ends with the daemon: the client comes back to another node with its last id.
                if follow.ready.is_empty() && follow.updates.changed().await.is_err() {
                    return None;
                }
            }
        })
    }

    fn take(&mut self, state: &Model) {
        let events = match happened(state, self.since) {
            Ok(events) => events,
            Err(failure) => {
                // The client reads slower than things happen.
                self.ready.push_back(sse::Event::default().event("compacted").data(failure.detail));
                self.done = true;
                return;
            }
        };
        for (at, event) in events.iter().enumerate() {
            let shown = convert::event(event);
            let json = serde_json::to_string(&shown).expect("an event is plain data");
            let sent = sse::Event::default().event(shown.kind.as_str()).data(json);
            // Only the last event of a revision is a point to resume from.
            let last = events.get(at + 1).is_none_or(|next| next.revision != event.revision);
            self.ready.push_back(if last { sent.id(event.revision.to_string()) } else { sent });
        }
        if let Some(last) = events.last() {
            self.since = last.revision;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_never_splits_a_revision() {
        let mut state = Model::default();
        let event = |revision: u64, n: u32| holm_model::Event {
            revision: Revision(revision),
            n,
            at: holm_model::Timestamp(0),
            kind: holm_model::Kind::Vm,
            id: "1".to_owned(),
            name: "a".to_owned(),
            what: "created".to_owned(),
            message: String::new(),
            actor: "admin".to_owned(),
        };
        state.events = ring(vec![event(1, 0), event(2, 0), event(2, 1), event(3, 0)]);
        let list = page(&state, Revision(0), 2).unwrap();
        assert_eq!(
            list.items.iter().map(|e| (e.revision, e.n)).collect::<Vec<_>>(),
            [(1, 0), (2, 0), (2, 1)]
        );
        assert_eq!(list.next.as_deref(), Some("2"));
        let list = page(&state, Revision(2), 2).unwrap();
        assert_eq!((list.items.len(), list.next), (1, None));
    }

    fn ring(events: Vec<holm_model::Event>) -> holm_model::event::Ring {
        let json = serde_json::json!({ "events": events, "compacted": 0 });
        serde_json::from_value(json).expect("the ring's own shape")
    }
}
