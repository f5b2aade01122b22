//! The answer to every accepted delete (202): what is to go. It is gone when a read says 404.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What was accepted to be deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Deleted {
    pub id: String,
    /// Null when a repeated request finds the record gone.
    pub name: Option<String>,
    /// Revision at which the delete was accepted.
    pub revision: u64,
}
