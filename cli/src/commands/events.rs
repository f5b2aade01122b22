//! `holm events`: what is kept, then, with `--follow`, what happens.

use holm_api::{Event, EventsQuery, List, list};

use super::Context;
use crate::args::{Events as Typed, Format};
use crate::client::events::Events;
use crate::client::path;
use crate::error::Error;
use crate::output::record::event_line;
use crate::output::{json_line, print, yaml};

pub async fn run(cx: &Context, typed: &Typed) -> Result<(), Error> {
    let (kept, revision) = kept(cx, typed.since).await?;
    if !typed.follow {
        return cx.output.list(&kept);
    }
    for event in &kept {
        print(&line(cx, event))?;
    }
    let since = kept.last().map(|event| event.revision).unwrap_or(revision);
    let mut events = Events::new(&cx.client, Some(since));
    loop {
        tokio::select! {
            event = events.next() => print(&line(cx, &event?))?,
            // Ctrl-C is how following ends.
            _ = tokio::signal::ctrl_c() => return Ok(()),
        }
    }
}

/// All events kept after `since`, and a revision they are complete up to.
async fn kept(cx: &Context, since: Option<u64>) -> Result<(Vec<Event>, u64), Error> {
    let mut events: Vec<Event> = Vec::new();
    let mut since = since;
    loop {
        let query = EventsQuery { since, follow: Some(false), limit: Some(list::MAX_LIMIT) };
        let page: List<Event> = cx.client.get(&path::with_query("/v1/events", &query, &[])).await?;
        let last = page.items.last().map(|event| event.revision);
        events.extend(page.items);
        match page.next.and_then(|next| next.parse().ok()).or(last) {
            Some(next) if last.is_some() && Some(next) != since => since = Some(next),
            _ => return Ok((events, page.revision)),
        }
    }
}

fn line(cx: &Context, event: &Event) -> String {
    match cx.output.format {
        Format::Table => event_line(event),
        Format::Json => json_line(event),
        Format::Yaml => format!("---\n{}", yaml(event)),
        Format::Name => format!("{}/{}\n", event.kind, event.name),
    }
}
