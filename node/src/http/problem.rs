//! Failures of requests. A handler returns a [`Failure`]; the outermost layer (`edge.rs`) writes it as an
//! RFC 9457 problem with the request's id, together with every refusal axum itself makes: no failure
//! leaves the daemon in another shape.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use holm_api::problem::MEDIA_TYPE;
use holm_api::{Code, Problem, QuotaExceeded, header as holm};
use holm_model::reply::Kind;
use holm_model::{Reason, limits};
use holm_raft::handle::{ProposeError, ReadError};

use super::write::Accepted;

/// What handlers give back.
pub type Result<T> = std::result::Result<T, Failure>;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: Code,
    pub detail: String,
    pub field: Option<String>,
    pub hint: Option<String>,
    /// With `quota_exceeded`: the numbers.
    pub quota: Option<Box<QuotaExceeded>>,
    /// It repeats the answer an earlier request with the same key got.
    pub duplicate: bool,
}

impl Failure {
    /// A failure without field and hint.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), field: None, hint: None, quota: None, duplicate: false }
    }

    /// `field` has a bad value.
    pub fn invalid(field: &str, message: impl std::fmt::Display) -> Self {
        Self::new(Code::InvalidField, format!("{field}: {message}")).field(field)
    }

    /// Names the offending field, parameter or header.
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Says what to do next.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// There is no such record.
    pub fn not_found(kind: Kind, name_or_id: &str) -> Self {
        Reason::NotFound { kind, id: name_or_id.to_owned() }.into()
    }

    /// `field` names a record that does not exist.
    pub fn unknown_reference(field: &str, kind: Kind, name_or_id: &str) -> Self {
        Self::new(Code::UnknownReference, format!("there is no {kind} `{name_or_id}`"))
            .field(field)
            .hint(list_hint(kind))
    }

    /// The write took effect, but its subject is no longer there to be shown.
    pub fn gone(kind: Kind, accepted: &Accepted) -> Self {
        let revision = accepted.done.revision;
        let detail = format!("it was done at revision {revision}; the {kind} has been deleted since");
        Self { duplicate: accepted.duplicate, ..Self::new(Code::NotFound, detail) }
    }

    /// The state machine answered about something else than was asked: a defect.
    pub fn unexpected(accepted: &Accepted) -> Self {
        Self::new(Code::Internal, format!("unexpected outcome {:?}", accepted.done.outcome))
    }

    fn problem(&self, request_id: &str) -> Problem {
        Problem {
            kind: format!("urn:holm:problem:{}", self.code),
            title: self.code.title().to_owned(),
            status: self.code.status(),
            code: self.code,
            detail: clipped(&self.detail),
            field: self.field.as_deref().map(clipped),
            request_id: request_id.to_owned(),
            hint: self.hint.clone(),
            quota: self.quota.as_deref().cloned(),
        }
    }
}

/// What a client sent comes back in the words, and may be as long as a body.
fn clipped(text: &str) -> String {
    let short = limits::clip(text);
    if short.len() < text.len() { short + " …" } else { short }
}

fn list_hint(kind: Kind) -> &'static str {
    match kind {
        Kind::Vm => "`holm vm list` shows what there is",
        Kind::Node => "`holm node list` shows what there is",
        Kind::Flavor => "`holm flavor list` shows what there is",
        Kind::Image => "`holm image list` shows what there is",
        Kind::Aggregate => "`holm aggregate list` shows what there is",
        Kind::Group => "`holm group list` shows what there is",
        Kind::Policy => "`holm scheduler show` shows it",
        Kind::Quota => "`holm quota show` shows it",
        Kind::Volume => "`holm volume list` shows what there is",
        Kind::Zone => "`holm az list` shows what there is",
        Kind::Label => "`holm node list` shows what there is",
        Kind::Project => "`holm project list` shows what there is; `holm project create NAME` makes one",
        Kind::Cluster => "run `holmd init` or `holmd join` first",
    }
}

impl From<Reason> for Failure {
    fn from(reason: Reason) -> Self {
        let detail = reason.to_string();
        let new = |code| Self::new(code, detail.clone());
        match reason {
            Reason::NotFound { kind, .. } => new(Code::NotFound).hint(list_hint(kind)),
            Reason::NameTaken { .. } => {
                new(Code::NameTaken).field("name").hint("choose another name, or delete the other one first")
            }
            Reason::Invalid { field, .. } if field == "availability_zone" => {
                new(Code::InvalidField).field(field).hint("`holm az list` shows what there is")
            }
            Reason::Invalid { field, .. } => new(Code::InvalidField).field(field),
            Reason::RevisionMismatch { .. } => {
                new(Code::RevisionMismatch).field("If-Match").hint("read it again and decide anew")
            }
            Reason::InUse { kind: Kind::Aggregate, .. } => {
                new(Code::InUse).hint("take those out of it, or delete them, first")
            }
            Reason::InUse { kind: Kind::Node, .. } => new(Code::InUse).hint(
                "drain it and delete the VMs that stay; if the machine is off for good, `holm node remove \
                 --confirm-node-off` (`?confirm_node_off=true`) gives them up",
            ),
            Reason::InUse { kind: Kind::Zone | Kind::Label, .. } => {
                new(Code::InUse).hint("move those elsewhere first (`holm node drain NODE`), or delete them")
            }
            Reason::InUse { .. } => new(Code::InUse).hint("delete what uses it first"),
            Reason::WrongState { .. } | Reason::Infeasible { .. } => new(Code::WrongState),
            Reason::KeyReused => {
                new(Code::KeyReused).field("Idempotency-Key").hint("use a new key for a new request")
            }
            Reason::Expired { .. } => {
                new(Code::Expired).hint("look whether it took effect; if not, send it with a new key")
            }
            Reason::Limit { .. } => new(Code::LimitReached),
            Reason::Quota { project, class, wanted, used, limit } => {
                let hint = "`holm quota show` shows it beside what is used; delete VMs, or raise it";
                let quota = Some(Box::new(QuotaExceeded { project, class, wanted, used, limit }));
                Self { quota, ..new(Code::QuotaExceeded).hint(hint) }
            }
            Reason::Unadmitted { .. } => new(Code::Unavailable).hint(
                "other failover VMs are being created at the same time; nothing was changed, try again",
            ),
            Reason::StaleLeadership { .. } | Reason::StaleReport | Reason::BatchRefused => {
                new(Code::Internal)
            }
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        Self::new(Code::Unavailable, error.to_string())
            .hint("try again, or read this node's own copy with `?consistency=stale`")
    }
}

impl From<ProposeError> for Failure {
    fn from(error: ProposeError) -> Self {
        let detail = error.to_string();
        match error {
            ProposeError::Unavailable(_) | ProposeError::NotLeader => {
                Self::new(Code::Unavailable, detail).hint("nothing was changed; try again")
            }
            ProposeError::Unknown(_) => Self::new(Code::OutcomeUnknown, detail).hint(
                "it may still take effect; send it again with the same Idempotency-Key to learn the outcome",
            ),
        }
    }
}

impl IntoResponse for Failure {
    /// The bare status, with the failure beside it for [`render`].
    fn into_response(self) -> axum::response::Response {
        let status = StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Writes the failure a response carries, or is, as a problem. Other responses pass.
pub fn render(mut response: Response<Body>, request_id: &str, method: &str, path: &str) -> Response<Body> {
    let carried = response.extensions_mut().remove::<Failure>();
    let Some(failure) = carried.or_else(|| foreign(&response, method, path)) else { return response };
    let body = serde_json::to_vec(&failure.problem(request_id)).expect("a problem is plain data");
    let mut problem = Response::new(Body::from(body));
    *problem.status_mut() = response.status();
    let headers = problem.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    if let Some(value) = response.headers_mut().remove(header::CONTENT_RANGE) {
        headers.insert(header::CONTENT_RANGE, value);
    }
    if matches!(failure.code, Code::Unavailable | Code::OutcomeUnknown) {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    if failure.code == Code::UpgradeRequired {
        headers.insert(header::UPGRADE, HeaderValue::from_static(holm::CONSOLE_PROTOCOL));
    }
    if failure.duplicate {
        headers.insert(holm::DUPLICATE, HeaderValue::from_static("true"));
    }
    problem
}

/// A refusal that axum made by itself.
fn foreign(response: &Response<Body>, method: &str, path: &str) -> Option<Failure> {
    let status = response.status();
    let written = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| {
        let kind = kind.as_bytes();
        kind == MEDIA_TYPE.as_bytes() || kind == b"application/json"
    });
    if !(status.is_client_error() || status.is_server_error()) || written {
        return None;
    }
    Some(match status {
        StatusCode::METHOD_NOT_ALLOWED => {
            Failure::new(Code::MethodNotAllowed, format!("{method} is not possible on `{path}`"))
                .hint("the `Allow` header names what is")
        }
        StatusCode::NOT_FOUND => no_such_route(path),
        StatusCode::PAYLOAD_TOO_LARGE => Failure::new(Code::BodyTooLarge, "the body is too large"),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            Failure::new(Code::UnsupportedMediaType, "unsupported media type")
        }
        status if status.is_client_error() => {
            Failure::new(Code::InvalidQuery, format!("the request is not acceptable ({status})"))
        }
        status => Failure::new(Code::Internal, format!("the request failed ({status})")),
    })
}

/// The path does not exist.
pub fn no_such_route(path: &str) -> Failure {
    Failure::new(Code::NoSuchRoute, format!("there is no path `{path}`"))
        .hint("/openapi.json describes every path")
}
