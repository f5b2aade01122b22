//! A moment as REST shows it: RFC 3339, UTC, with milliseconds. Kept as text, since a client that only
//! shows it needs no calendar.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// RFC 3339 in UTC, such as `2026-11-30T12:35:44.250Z`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, format = DateTime, example = "2026-11-30T12:35:44.250Z")]
pub struct Timestamp(pub String);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
