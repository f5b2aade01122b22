//! What handlers take from a request: query, path, JSON body, and the headers of a write. Every refusal
//! names the field, parameter or header, and nothing has happened yet when one is made.

mod unique;

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri, header};
use futures::StreamExt;
use holm_api::Code;
use http_body_util::BodyExt;
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::unique::Unique;
use super::problem::{Failure, Result};
use super::write::Intent;

/// Largest JSON body.
pub const JSON_MAX: usize = 256 * 1024;
/// How long a JSON body may take: each one that trickles holds a place that others need.
const JSON_TIMEOUT: Duration = Duration::from_secs(30);
/// How much of a refused body is read and thrown away, so that its sender reads our answer, not a reset.
const DRAIN_MAX: usize = 16 * 1024 * 1024;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// The query, as `T`.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        match axum::extract::Query::<T>::try_from_uri(&parts.uri) {
            Ok(axum::extract::Query(query)) => Ok(Self(query)),
            Err(rejection) => Err(bad_query(&rejection.body_text())),
        }
    }
}

/// The parameters of a query that may be given several times, apart from those that may not.
pub struct Repeated {
    /// Name and value of each, in the order they were sent.
    pub given: Vec<(String, String)>,
    /// The same target without them.
    rest: Uri,
    names: &'static [&'static str],
}

impl Repeated {
    /// Takes the parameters of these names out of the query.
    ///
    /// # Errors
    /// A query that cannot be read.
    pub fn split(uri: &Uri, names: &'static [&'static str]) -> Result<Self> {
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri);
        let pairs = pairs.map_err(|rejection| bad_query(&rejection.body_text()))?.0;
        let given = pairs.into_iter().filter(|(name, _)| names.contains(&name.as_str())).collect();
        let is_rest = |pair: &&str| !names.contains(&pair.split('=').next().unwrap_or_default());
        let rest: Vec<_> = uri.query().unwrap_or_default().split('&').filter(is_rest).collect();
        let rest = format!("{}?{}", uri.path(), rest.join("&")).parse();
        let rest = rest.map_err(|_| Failure::new(Code::InvalidQuery, "the query cannot be read"))?;
        Ok(Self { given, rest, names })
    }

    /// The other parameters.
    ///
    /// # Errors
    /// They are not those of `T`; where one is unknown, those that may be repeated are named with those of `T`.
    pub fn others<T: DeserializeOwned>(&self) -> Result<T> {
        let refused = |rejection: QueryRejection| {
            let mut text = rejection.body_text();
            if text.contains(": unknown field `") {
                text.extend(self.names.iter().map(|name| format!(", `{name}`")));
            }
            bad_query(&text)
        };
        Ok(axum::extract::Query::try_from_uri(&self.rest).map_err(refused)?.0)
    }
}

/// From axum's words: `Failed to deserialize query string: limit: invalid digit found in string`.
fn bad_query(text: &str) -> Failure {
    let message = text.split_once(": ").map_or(text, |(_, message)| message);
    let failure = Failure::new(Code::InvalidQuery, message);
    let named = ["unknown field", "missing field", "duplicate field"]
        .into_iter()
        .find_map(|what| quoted(message, what));
    match named.or_else(|| message.split_once(": ").map(|(field, _)| field)) {
        Some(field) => failure.field(field),
        None => failure,
    }
}

/// The name or id in the path.
pub struct Named(pub String);

/// Whether it is an id, not a name: what an id names can never become another record. No name looks like one.
pub fn is_id(name_or_id: &str) -> bool {
    uuid::Uuid::parse_str(name_or_id).is_ok() || name_or_id.parse::<u64>().is_ok()
}

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let rejected = |rejection: PathRejection| Failure::new(Code::NotFound, rejection.body_text());
        let Path(name) = Path::<String>::from_request_parts(parts, state).await.map_err(rejected)?;
        Ok(Self(name))
    }
}

/// A write with a JSON body (or none, where all of `T` has defaults), and how it is to be made.
pub struct Change<T> {
    pub body: T,
    pub intent: Intent,
}

impl<T: DeserializeOwned + Serialize, S: Send + Sync> FromRequest<S> for Change<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self> {
        let (parts, body) = request.into_parts();
        let bytes = whole(&parts.headers, body, JSON_TIMEOUT).await?;
        let body: T = json(&parts.headers, &bytes)?;
        // The canonical form: what was understood, not how it was spelt.
        let canonical = serde_json::to_vec(&body).expect("request types are plain data");
        let intent = Intent::new(&parts.method, &parts.uri, &parts.headers, &canonical)?;
        Ok(Self { body, intent })
    }
}

/// The body of writes that have none.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoBody {}

async fn whole(headers: &HeaderMap, body: Body, limit: Duration) -> Result<Bytes> {
    let late = |_| {
        let detail = format!("the body did not end within {} s", limit.as_secs());
        Failure::new(Code::TruncatedUpload, detail).field("body").hint("nothing was changed; send it again")
    };
    tokio::time::timeout(limit, read_whole(headers, body)).await.map_err(late)?
}

async fn read_whole(headers: &HeaderMap, body: Body) -> Result<Bytes> {
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok())
        .and_then(|length| length.parse::<u64>().ok());
    let mut body = body.into_data_stream();
    let mut bytes = Vec::new();
    if announced.is_none_or(|announced| announced <= JSON_MAX as u64) {
        loop {
            match body.next().await {
                Some(Ok(chunk)) if bytes.len() + chunk.len() <= JSON_MAX => bytes.extend_from_slice(&chunk),
                Some(Ok(_)) => break,
                Some(Err(error)) => {
                    return Err(Failure::new(
                        Code::TruncatedUpload,
                        format!("the body ended early: {error}"),
                    ));
                }
                None => return Ok(bytes.into()),
            }
        }
    }
    drain(Body::from_stream(body)).await;
    Err(Failure::new(Code::BodyTooLarge, format!("the body is larger than {JSON_MAX} bytes"))
        .hint("images are uploaded to /v1/images; everything else is small"))
}

/// Reads a refused body to its end, within bounds.
pub async fn drain(mut body: Body) {
    let mut left = DRAIN_MAX;
    let read = async {
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(length) {
                Some(rest) => left = rest,
                None => break,
            }
        }
    };
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, read).await;
}

fn json<T: DeserializeOwned>(headers: &HeaderMap, bytes: &[u8]) -> Result<T> {
    let empty = bytes.iter().all(u8::is_ascii_whitespace);
    if empty {
        return parse(b"{}")
            .map_err(|_| Failure::new(Code::MalformedJson, "the body is empty").hint("send a JSON object"));
    }
    let kind = headers.get(header::CONTENT_TYPE).map(|kind| kind.as_bytes());
    let essence = kind.and_then(|kind| kind.split(|byte| *byte == b';').next()).unwrap_or_default();
    if !essence.trim_ascii().eq_ignore_ascii_case(b"application/json") {
        return Err(Failure::new(
            Code::UnsupportedMediaType,
            format!("the body is said to be {:?}", String::from_utf8_lossy(kind.unwrap_or(b"nothing"))),
        )
        .field("Content-Type")
        .hint("send JSON with `Content-Type: application/json`"));
    }
    parse(bytes)
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    // serde would take an array of the fields' values as well.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(malformed("a JSON object is needed"));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let message = error.inner().to_string();
        if !error.inner().is_data() {
            return malformed(&message);
        }
        if let Some(field) = quoted(&message, "unknown field") {
            return Failure::new(Code::UnknownField, message.clone()).field(field);
        }
        if let Some(field) = quoted(&message, "missing field") {
            return Failure::new(Code::MissingField, format!("`{field}` is missing")).field(field);
        }
        let named = quoted(&message, "duplicate field").map(str::to_owned);
        let field = named.unwrap_or(path);
        Failure::new(Code::InvalidField, format!("{field}: {}", in_words(&message))).field(field)
    })?;
    deserializer.end().map_err(|error| malformed(&error.to_string()))?;
    let mut again = serde_json::Deserializer::from_slice(bytes);
    serde_path_to_error::deserialize::<_, Unique>(&mut again).map_err(|error| {
        let field = error.path().to_string();
        Failure::new(Code::InvalidField, format!("{field} is given twice: give it once")).field(field)
    })?;
    Ok(parsed)
}

/// serde names Rust's types; whoever sends JSON need not know them.
fn in_words(message: &str) -> String {
    message
        .replace("expected u32", "expected a whole number from 0 to 4294967295")
        .replace("expected u64", "expected a whole number, 0 or more")
}

fn malformed(message: &str) -> Failure {
    Failure::new(Code::MalformedJson, format!("not valid JSON: {message}"))
}

/// The name in `` <what> `name` `` at the start of a serde message.
fn quoted<'a>(message: &'a str, what: &str) -> Option<&'a str> {
    message.strip_prefix(what)?.strip_prefix(" `")?.split('`').next()
}

#[cfg(test)]
mod tests {
    use holm_api::{CreateFlavor, CreateVm, SetQuota, SetSchedulerPolicy, StopVm};

    use super::*;

    fn refusal<T: DeserializeOwned + std::fmt::Debug>(body: &str) -> (Code, Option<String>) {
        let failure = parse::<T>(body.as_bytes()).expect_err("the body is bad");
        (failure.code, failure.field)
    }

    #[test]
    fn a_bad_body_is_refused_by_the_name_of_its_field() {
        let name = |field: &str| Some(field.to_owned());
        let flavor = |vcpus: &str| format!(r#"{{"name":"a","vcpus":{vcpus},"memory_mib":64}}"#);
        assert_eq!(refusal::<CreateFlavor>(&flavor("-1")), (Code::InvalidField, name("vcpus")));
        assert_eq!(refusal::<CreateFlavor>(&flavor("1e99")), (Code::InvalidField, name("vcpus")));
        assert_eq!(refusal::<CreateFlavor>(&flavor("4294967296")), (Code::InvalidField, name("vcpus")));
        assert_eq!(refusal::<CreateFlavor>(&flavor("\"2\"")), (Code::InvalidField, name("vcpus")));
        assert_eq!(refusal::<CreateFlavor>(&flavor("1,\"x\":2")), (Code::UnknownField, name("x")));
        assert_eq!(refusal::<CreateFlavor>(&flavor("1,\"name\":\"b\"")), (Code::InvalidField, name("name")));
        assert_eq!(refusal::<CreateVm>(r#"{"name":"a"}"#), (Code::MissingField, name("flavor")));
        let on_no_host = r#"{"name":"a","flavor":"f","image":"i","on_no_host":"pray"}"#;
        assert_eq!(refusal::<CreateVm>(on_no_host), (Code::InvalidField, name("on_no_host")));
        let weighers = r#"{"weighers":{"Ram":1,"Cpu":1,"Ram":2}}"#;
        assert_eq!(refusal::<SetSchedulerPolicy>(weighers), (Code::InvalidField, name("weighers.Ram")));
        let limits = r#"{"limits":{"VCPU":4,"VCPU":null}}"#;
        assert_eq!(refusal::<SetQuota>(limits), (Code::InvalidField, name("limits.VCPU")));
        assert_eq!(refusal::<StopVm>("[true]"), (Code::MalformedJson, None));
        assert_eq!(refusal::<StopVm>("{} {}"), (Code::MalformedJson, None));
        assert_eq!(refusal::<StopVm>("{"), (Code::MalformedJson, None));
        assert_eq!(refusal::<StopVm>("\u{feff}{}"), (Code::MalformedJson, None));
    }

    #[test]
    fn a_bad_query_is_refused_by_the_name_of_its_parameter() {
        for (query, field) in [
            ("limit=x", "limit"),
            ("limit=-1", "limit"),
            ("limit=1&limit=2", "limit"),
            ("size=3", "size"),
            ("consistency=sloppy", "consistency"),
        ] {
            let uri: axum::http::Uri = format!("/v1/flavors?{query}").parse().unwrap();
            let rejection = axum::extract::Query::<holm_api::ListQuery>::try_from_uri(&uri).unwrap_err();
            let failure = bad_query(&rejection.body_text());
            assert_eq!(
                (failure.code, failure.field.as_deref()),
                (Code::InvalidQuery, Some(field)),
                "{query}"
            );
        }
        let uri = axum::http::Uri::from_static("/v1/images?kind=kernel");
        let rejection = axum::extract::Query::<holm_api::CreateImageQuery>::try_from_uri(&uri).unwrap_err();
        assert_eq!(bad_query(&rejection.body_text()).field.as_deref(), Some("name"));
    }

    #[test]
    fn where_a_parameter_is_unknown_those_that_may_be_repeated_are_named_too() {
        let uri = axum::http::Uri::from_static("/v1/what-if?lose=n1&foo=1");
        let repeated = Repeated::split(&uri, &["lose", "drain"]).unwrap();
        let failure = repeated.others::<holm_api::ReadQuery>().unwrap_err();
        assert_eq!(failure.detail, "foo: unknown field `foo`, expected `consistency`, `lose`, `drain`");
        assert_eq!(failure.field.as_deref(), Some("foo"));
    }

    #[tokio::test]
    async fn a_body_that_does_not_end_is_given_up() {
        let begun = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"{"))]);
        let body = Body::from_stream(begun.chain(futures::stream::pending()));
        let failure = whole(&HeaderMap::new(), body, Duration::from_millis(10)).await.unwrap_err();
        assert_eq!((failure.code, failure.field.as_deref()), (Code::TruncatedUpload, Some("body")));
    }

    #[test]
    fn no_body_is_the_default_where_there_is_one() {
        let none = HeaderMap::new();
        assert_eq!(json::<StopVm>(&none, b" \n").unwrap(), StopVm::default());
        assert_eq!(json::<CreateVm>(&none, b"").unwrap_err().code, Code::MalformedJson);
        assert_eq!(json::<StopVm>(&none, b"{}").unwrap_err().code, Code::UnsupportedMediaType);
    }
}
