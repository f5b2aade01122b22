//! The body of every failure: RFC 9457 (`application/problem+json`) with a stable code for programs, a
//! sentence for people, and a hint for what to do next.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The media type of [`Problem`].
pub const MEDIA_TYPE: &str = "application/problem+json";

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `urn:holm:problem:<code>`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The same for every problem of this code.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    pub code: Code,
    /// What went wrong this time.
    pub detail: String,
    /// The offending field of the body, parameter of the query, or header.
    pub field: Option<String>,
    /// Also in the daemon's log.
    pub request_id: String,
    /// What to do next.
    pub hint: Option<String>,
    /// With `quota_exceeded`: the numbers.
    #[serde(default)]
    pub quota: Option<QuotaExceeded>,
}

/// Which limit of a project stood in the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuotaExceeded {
    pub project: String,
    /// Resource class, or `VMS`.
    pub class: String,
    /// How much more was asked for.
    pub wanted: u64,
    pub used: u64,
    pub limit: u64,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident $text:literal $status:literal $title:literal;)*) => {
        /// Stable names of problems: programs match these, never the sentences.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
        pub enum Code {
            $($(#[$doc])* #[serde(rename = $text)] $name,)*
            /// One that this version of the library does not know.
            #[serde(other, rename = "other")]
            Other,
        }

        impl Code {
            /// Every code there is.
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];

            /// The code as it is written.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* Self::Other => "other" }
            }

            /// The HTTP status it comes with.
            pub fn status(self) -> u16 {
                match self { $(Self::$name => $status,)* Self::Other => 500 }
            }

            /// A short title.
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* Self::Other => "Unknown problem" }
            }
        }
    };
}

codes! {
    /// The body is not JSON.
    MalformedJson "malformed_json" 400 "The body is not valid JSON";
    /// A parameter of the query is unknown or has a bad value.
    InvalidQuery "invalid_query" 400 "A query parameter is not acceptable";
    /// A header has a bad value.
    InvalidHeader "invalid_header" 400 "A header is not acceptable";
    /// The upload ended before it was complete; nothing was stored.
    TruncatedUpload "truncated_upload" 400 "The upload is incomplete";
    /// There is no such record.
    NotFound "not_found" 404 "Not found";
    /// There is no such path.
    NoSuchRoute "no_such_route" 404 "No such path";
    /// The path exists, not for this method.
    MethodNotAllowed "method_not_allowed" 405 "Method not allowed";
    /// Another record has the name.
    NameTaken "name_taken" 409 "The name is taken";
    /// Others depend on it.
    InUse "in_use" 409 "In use";
    /// Not in this status.
    WrongState "wrong_state" 409 "Not possible in the present state";
    /// A bound of the cluster is reached.
    LimitReached "limit_reached" 409 "A limit is reached";
    /// The project would hold more than its quota.
    QuotaExceeded "quota_exceeded" 409 "The quota would be exceeded";
    /// The cluster could then no longer lose any one node and hold its failover VMs.
    NPlusOne "n_plus_one" 409 "The cluster could not lose a node any longer";
    /// The request is older than the idempotency window.
    Expired "expired" 409 "The request is too old";
    /// The events asked for are no longer kept.
    Compacted "compacted" 410 "These events are no longer kept";
    /// `If-Match` does not hold.
    RevisionMismatch "revision_mismatch" 412 "The record has changed";
    /// The body is larger than the limit.
    BodyTooLarge "body_too_large" 413 "The body is too large";
    /// The body's media type is not the one this path takes.
    UnsupportedMediaType "unsupported_media_type" 415 "Unsupported media type";
    /// The range lies outside the data.
    RangeNotSatisfiable "range_not_satisfiable" 416 "Range not satisfiable";
    /// A field has a bad value.
    InvalidField "invalid_field" 422 "A field is not acceptable";
    /// A field is needed and absent.
    MissingField "missing_field" 422 "A field is missing";
    /// A field that does not exist.
    UnknownField "unknown_field" 422 "Unknown field";
    /// A field names a record that does not exist.
    UnknownReference "unknown_reference" 422 "A named record does not exist";
    /// The idempotency key came before with another request.
    KeyReused "key_reused" 422 "The idempotency key was used for another request";
    /// The bytes do not have the announced SHA-256; nothing was stored.
    ChecksumMismatch "checksum_mismatch" 422 "Checksum mismatch";
    /// The path only speaks the console protocol.
    UpgradeRequired "upgrade_required" 426 "Upgrade required";
    /// A fault of the daemon.
    Internal "internal" 500 "Internal error";
    /// The node that holds the VM or the bytes does not answer.
    NodeUnreachable "node_unreachable" 502 "The node does not answer";
    /// No leader or no quorum: nothing was changed.
    Unavailable "unavailable" 503 "The cluster cannot answer now";
    /// The write may or may not take effect.
    OutcomeUnknown "outcome_unknown" 504 "The outcome is not known";
    /// No room for the bytes.
    StorageFull "storage_full" 507 "Not enough storage";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Problem {}
