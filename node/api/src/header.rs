//! Names of the headers that are Holm's own, in the lower case HTTP libraries want. The standard ones
//! in use are `If-Match`, `Range` and `Retry-After`.

/// Request: makes a write happen once however often it is sent; 1 to 128 visible ASCII characters. Remembered for
/// the last 16,384 changes of the cluster.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Request: the revision the client knew before its first attempt. A key that is sent again after it was forgotten
/// is then refused as expired; without this header it acts a second time.
pub const SEEN: &str = "holm-seen";
/// Request: the project it is about, by name; `default` if not given. Names are looked up within it, what is created
/// belongs to it, lists show it.
pub const PROJECT: &str = "holm-project";
/// Request: SHA-256 the uploaded bytes must have, in hex.
pub const SHA256: &str = "holm-sha256";
/// Response: the revision of the state the answer was made from.
pub const REVISION: &str = "holm-revision";
/// Response: `true` when the same key came before and this repeats its answer.
pub const DUPLICATE: &str = "holm-duplicate";
/// Response: `stale` when the local replica answered without asking the leader.
pub const CONSISTENCY: &str = "holm-consistency";
/// Response: also `request_id` of a problem; the daemon logs it.
pub const REQUEST_ID: &str = "holm-request-id";
/// Between nodes: this request was forwarded by the named node and must not be forwarded again.
pub const FORWARDED_BY: &str = "holm-forwarded-by";
/// The protocol of the console's HTTP upgrade.
pub const CONSOLE_PROTOCOL: &str = "holm-console";
