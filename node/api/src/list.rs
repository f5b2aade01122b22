//! One page of a list.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Items of a list before the client says otherwise.
pub const DEFAULT_LIMIT: u32 = 100;
/// Most items of one page.
pub const MAX_LIMIT: u32 = 1000;

/// One page, in a stable order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct List<T> {
    pub items: Vec<T>,
    /// Give this as `marker` for the next page; null at the end.
    pub next: Option<String>,
    /// Revision of the state the page was made from.
    pub revision: u64,
}
