//! A successful answer: JSON, the revision it was made from, and what else its headers say.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use holm_api::{Deleted, header as holm};
use holm_model::Revision;
use serde::Serialize;

use super::read::Snapshot;
use super::write::Accepted;

/// One answer.
pub struct Answer<T> {
    status: StatusCode,
    body: T,
    revision: Revision,
    /// Of the one record in the body.
    etag: Option<u64>,
    location: Option<String>,
    stale: bool,
    duplicate: bool,
}

impl<T> Answer<T> {
    /// To a read.
    pub fn read(snapshot: &Snapshot, body: T) -> Self {
        Self {
            status: StatusCode::OK,
            body,
            revision: snapshot.state().revision,
            etag: None,
            location: None,
            stale: snapshot.stale,
            duplicate: false,
        }
    }

    /// To a write.
    pub fn accepted(status: StatusCode, accepted: &Accepted, body: T) -> Self {
        Self {
            status,
            body,
            revision: accepted.done.revision,
            etag: None,
            location: None,
            stale: false,
            duplicate: accepted.duplicate,
        }
    }

    /// The body is one record of this revision: what `If-Match` takes.
    pub fn etag(mut self, revision: u64) -> Self {
        self.etag = Some(revision);
        self
    }

    /// Where the new record is.
    pub fn location(mut self, path: String) -> Self {
        self.location = Some(path);
        self
    }
}

impl Answer<Deleted> {
    /// To an accepted delete.
    pub fn deleted(accepted: &Accepted, id: String, name: Option<String>) -> Self {
        let body = Deleted { id, name, revision: accepted.done.revision.0 };
        Self::accepted(StatusCode::ACCEPTED, accepted, body)
    }
}

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        let mut response = (self.status, axum::Json(self.body)).into_response();
        let headers = response.headers_mut();
        headers.insert(holm::REVISION, HeaderValue::from(self.revision.0));
        if let Some(etag) = self.etag.and_then(|revision| format!("\"{revision}\"").parse().ok()) {
            headers.insert(header::ETAG, etag);
        }
        if let Some(location) = self.location.and_then(|path| path.parse().ok()) {
            headers.insert(header::LOCATION, location);
        }
        if self.stale {
            headers.insert(holm::CONSISTENCY, HeaderValue::from_static("stale"));
        }
        if self.duplicate {
            headers.insert(holm::DUPLICATE, HeaderValue::from_static("true"));
        }
        response
    }
}
