//! An image as people see it.

use holm_api::Image;

use super::{Record, field, pairs, project};
use crate::output::table;
use crate::output::text::{self, Now};

impl Record for Image {
    const COLUMNS: &'static [&'static str] = &["NAME", "KIND", "SIZE", "HELD BY", "AGE"];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn row(&self, now: Now) -> Vec<String> {
        vec![
            self.name.clone(),
            self.kind.to_string(),
            text::bytes(self.size_bytes),
            holders(self),
            now.age(&self.created_at),
        ]
    }

    fn detail(&self, now: Now) -> String {
        table::fields(&[
            field("Name", &self.name),
            field("Id", self.id),
            project(&self.project),
            field("Kind", self.kind),
            field("Size", format!("{} ({} bytes)", text::bytes(self.size_bytes), self.size_bytes)),
            field("SHA-256", &self.sha256),
            field("Properties", pairs(&self.properties)),
            field("Held by", holders(self)),
            field("Created", format!("{} ago ({})", now.age(&self.created_at), self.created_at)),
            field("Revision", self.revision),
        ])
    }
}

fn holders(image: &Image) -> String {
    image.holders.iter().map(|node| node.name.as_str()).collect::<Vec<_>>().join(",")
}
