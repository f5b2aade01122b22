//! Request targets: paths whose segments, and queries whose values, may hold anything a user typed.

use serde::Serialize;
use serde_json::Value;

use crate::error::Error;

/// Percent-encodes everything but RFC 3986's unreserved characters.
pub fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded += &format!("%{byte:02X}");
        }
    }
    encoded
}

/// `/v1/<collection>/<name or id>`, and what of it.
///
/// # Errors
/// [`Error::Usage`] when there is no name: the path would be another one.
pub fn of(collection: &str, name: &str, rest: &str) -> Result<String, Error> {
    if name.is_empty() || name == "." || name == ".." {
        let noun = match collection {
            "vms" => "a VM",
            "images" => "an image",
            "flavors" => "a flavor",
            "projects" | "quotas" => "a project",
            "server-groups" => "a server group",
            "aggregates" => "an aggregate",
            "volumes" => "a volume",
            "availability-zones" => "an availability zone",
            _ => "a node",
        };
        return Err(Error::usage(format!("`{name}` is not the name of {noun}"), "give a name or an id"));
    }
    Ok(format!("/v1/{collection}/{}{rest}", encode(name)))
}

/// Longest target: a longer one is no request that any node would read.
const TARGET_MAX: usize = 32 * 1024;

/// Refuses what no request can be made of.
///
/// # Errors
/// [`Error::Usage`] when what was typed is too long.
pub fn check(target: &str) -> Result<(), Error> {
    if target.len() <= TARGET_MAX {
        return Ok(());
    }
    let detail = format!("what was typed makes a request of {} bytes, too long to be sent", target.len());
    Err(Error::usage(detail, "names have at most 63 characters, ids 36"))
}

/// `path?query`: the fields of `query` that have a value, and `more`.
pub fn with_query(path: &str, query: &impl Serialize, more: &[(&str, &str)]) -> String {
    let fields = serde_json::to_value(query).expect("the API's queries are JSON");
    let fields = fields.as_object().into_iter().flatten().filter_map(|(name, value)| match value {
        Value::Null => None,
        Value::String(text) => Some((name.as_str(), text.clone())),
        other => Some((name.as_str(), other.to_string())),
    });
    let more = more.iter().map(|(name, value)| (*name, (*value).to_owned()));
    let pairs: Vec<_> =
        fields.chain(more).map(|(name, value)| format!("{name}={}", encode(&value))).collect();
    if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
}

/// The same read, answered from what a node knows by itself.
pub fn stale(target: &str) -> String {
    const STALE: &str = "consistency=stale";
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let others = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("consistency="));
    format!("{path}?{}", std::iter::once(STALE).chain(others).collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
mod tests {
    use holm_api::{VmListQuery, VmStatus};

    use super::*;

    #[test]
    fn whatever_is_typed_stays_one_segment() {
        assert_eq!(of("vms", "a b/../c?d#é", "/log").unwrap(), "/v1/vms/a%20b%2F..%2Fc%3Fd%23%C3%A9/log");
    }

    #[test]
    fn a_missing_name_never_becomes_the_list() {
        for name in ["", ".", ".."] {
            assert_eq!(of("vms", name, "").unwrap_err().exit_code(), 2);
        }
    }

    #[test]
    fn a_stale_read_says_so_once() {
        assert_eq!(stale("/v1/vms/web"), "/v1/vms/web?consistency=stale");
        assert_eq!(stale("/v1/vms?consistency=linearizable&limit=9"), "/v1/vms?consistency=stale&limit=9");
    }

    #[test]
    fn only_fields_with_a_value_are_sent() {
        let query =
            VmListQuery { status: Some(VmStatus::Active), node: Some("n 1".into()), ..Default::default() };
        let target = with_query("/v1/vms", &query, &[("marker", "x&y")]);
        assert_eq!(target, "/v1/vms?consistency=linearizable&node=n%201&status=ACTIVE&marker=x%26y");
    }
}
