//! `/openapi.json`: OpenAPI 3.1, made from the handlers themselves. What every operation shares (the
//! problem as its failure, the headers of writes) is said once, here.

use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use holm_api::Problem;
use holm_api::problem::MEDIA_TYPE;
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, Response};
use utoipa::{IntoParams, OpenApi as _};

use crate::app::Shared;

/// Headers that every write takes.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code)] // Only its description is used; `write::Intent` reads the headers.
pub struct WriteHeaders {
    /// Makes the write happen once however often it is sent; 1 to 128 visible ASCII characters. It is remembered,
    /// with the answer, for the last 16,384 changes of the cluster. A client that may send it again later than that
    /// sends `Holm-Seen` too.
    #[param(rename = "Idempotency-Key", required = false, max_length = 128)]
    idempotency_key: Option<String>,
    /// The revision the client knew before its first attempt (`Holm-Revision` of any answer), the same with every
    /// attempt. A key that is sent again when it is no longer remembered is then refused as `expired`; without this
    /// header it would act a second time.
    #[param(rename = "Holm-Seen", required = false)]
    holm_seen: Option<u64>,
    /// The project by name; `default` if not given. Names are looked up within it, what is created belongs to it, and
    /// idempotency keys are its own.
    #[param(rename = "Holm-Project", required = false, max_length = 63)]
    holm_project: Option<String>,
}

/// The header of everything that belongs to projects.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code)] // As above; `project::Project` reads it.
pub struct ProjectHeader {
    /// The project by name; `default` if not given. Names are looked up within it, lists show it.
    #[param(rename = "Holm-Project", required = false, max_length = 63)]
    holm_project: Option<String>,
}

/// The header of writes to one record.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code)] // As above.
pub struct MatchHeader {
    /// The revision the record must still have, in double quotes.
    #[param(rename = "If-Match", required = false, example = "\"42\"")]
    if_match: Option<String>,
}

#[derive(utoipa::OpenApi)]
#[openapi(
    info(title = "Holm", description = "Virtual machines on a handful of machines. Every node answers."),
    components(schemas(Problem))
)]
struct Base;

/// What the document begins with.
pub fn base() -> OpenApi {
    Base::openapi()
}

/// Adds what every operation shares.
pub fn complete(mut document: OpenApi) -> OpenApi {
    for item in document.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            // Handlers are named within their module; ids must be unique in the document.
            let resource = operation.tags.iter().flatten().next().cloned().unwrap_or_default();
            operation.operation_id = operation.operation_id.take().map(|id| format!("{resource}_{id}"));
            for (status, response) in &mut operation.responses.responses {
                if let RefOr::T(response) = response
                    && response.description.is_empty()
                {
                    response.description = reason(status).to_owned();
                }
            }
            let mut problem = Response::new("The request failed");
            let content = Content::new(Some(Ref::from_schema_name("Problem")));
            problem.content.insert(MEDIA_TYPE.to_owned(), RefOr::T(content));
            operation.responses.responses.insert("default".to_owned(), RefOr::T(problem));
        }
    }
    document
}

fn reason(status: &str) -> &'static str {
    let status = status.parse().ok().and_then(|status| StatusCode::from_u16(status).ok());
    status.and_then(|status| status.canonical_reason()).unwrap_or("The answer")
}

/// The route that serves it.
pub fn route(document: &OpenApi) -> Router<Shared> {
    let json: Arc<str> = document.to_pretty_json().expect("the document is plain data").into();
    let serve = move || {
        let json = json.to_string();
        async move { ([(header::CONTENT_TYPE, "application/json")], json).into_response() }
    };
    Router::new().route("/openapi.json", get(serve))
}
