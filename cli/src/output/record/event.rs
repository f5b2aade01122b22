//! An event as people see it: a row of a list with its age, or a line of a stream with its moment.

use holm_api::Event;

use super::{Record, field};
use crate::output::table;
use crate::output::text::Now;

impl Record for Event {
    const COLUMNS: &'static [&'static str] = &["REVISION", "AGE", "KIND", "NAME", "WHAT", "MESSAGE"];

    fn name(&self) -> String {
        format!("{}/{}", self.kind, self.name)
    }

    fn row(&self, now: Now) -> Vec<String> {
        vec![
            self.revision.to_string(),
            now.age(&self.at),
            self.kind.to_string(),
            self.name.clone(),
            self.what.clone(),
            self.message.clone(),
        ]
    }

    fn detail(&self, now: Now) -> String {
        table::fields(&[
            field("Revision", self.revision),
            field("At", format!("{} ({} ago)", self.at, now.age(&self.at))),
            field("Subject", self.name()),
            field("What", &self.what),
            field("Message", &self.message),
            field("By", &self.actor),
        ])
    }
}

/// One line of a stream, which has no columns to align to.
pub fn line(event: &Event) -> String {
    let Event { revision, at, kind, name, what, message, .. } = event;
    let text = format!("{revision:>8}  {at}  {kind:<7}  {name:<16}  {what:<12}  {message}");
    format!("{}\n", text.trim_end())
}
