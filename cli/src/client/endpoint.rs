//! Where a daemon's API is: parsing what the operator wrote, and the default when nothing was written.

use std::fmt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Port of the REST API when none is written.
pub const DEFAULT_PORT: u16 = 7460;
/// The local daemon's socket, unless `HOLM_SOCKET` names another.
pub const DEFAULT_SOCKET: &str = "/run/holm/api.sock";

/// One place to send requests to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Plain HTTP over TCP. `host` is without the brackets of an IPv6 address.
    Tcp { host: String, port: u16 },
    /// Plain HTTP over a Unix socket of this machine.
    Unix(PathBuf),
}

impl Endpoint {
    /// Parses `host:port`, `host`, `http://host:port` or `unix:/path`.
    ///
    /// # Errors
    /// [`Error::Usage`] that names the accepted forms.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |why: &str| {
            let hint = "write `host:port`, `http://host:port` or `unix:/path`";
            Error::usage(format!("`{text}` is not an endpoint: {why}"), hint)
        };
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path.strip_prefix("//").unwrap_or(path));
            return if path.is_absolute() {
                Ok(Self::Unix(path))
            } else {
                Err(wrong("the path is not absolute"))
            };
        }
        let rest = match text.split_once("://") {
            Some(("http", rest)) => rest,
            Some(("https", _)) => return Err(wrong("Holm speaks plain HTTP so far")),
            Some(_) => return Err(wrong("unknown scheme")),
            None => text,
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '#', '@']) || rest.contains(char::is_whitespace) {
            return Err(wrong("only a host and a port are expected"));
        }
        let (host, port) =
            split_port(rest).ok_or_else(|| wrong("the port is not a number from 1 to 65535"))?;
        if host.is_empty() {
            return Err(wrong("the host is missing"));
        }
        Ok(Self::Tcp { host: host.to_owned(), port })
    }

    /// The endpoints to use: those written, else those of the environment (separated by commas), else the
    /// local daemon's socket, else the default port here.
    ///
    /// # Errors
    /// As [`Endpoint::parse`], and when what was written is blank: a script's empty variable must not end at
    /// another cluster.
    pub fn choose(written: &[String], from_env: &str, socket: Option<&Path>) -> Result<Vec<Self>, Error> {
        let trimmed = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let typed: Vec<_> = written.iter().filter_map(|text| trimmed(text)).collect();
        if typed.is_empty() && !written.is_empty() {
            return Err(Error::usage("--endpoint is empty", "write `host:port`, or leave it out"));
        }
        let chosen =
            if written.is_empty() { from_env.split(',').filter_map(trimmed).collect() } else { typed };
        if !chosen.is_empty() {
            return chosen.iter().map(|text| Self::parse(text)).collect();
        }
        if let Some(socket) = socket {
            return Ok(vec![Self::Unix(socket.to_owned())]);
        }
        let there = |path: &str| std::fs::metadata(path).is_ok_and(|found| found.file_type().is_socket());
        if there(DEFAULT_SOCKET) {
            return Ok(vec![Self::Unix(DEFAULT_SOCKET.into())]);
        }
        Ok(vec![Self::Tcp { host: "127.0.0.1".into(), port: DEFAULT_PORT }])
    }

    /// Value of the `Host` header.
    pub fn host_header(&self) -> String {
        match self {
            Self::Tcp { host, port } if host.contains(':') => format!("[{host}]:{port}"),
            Self::Tcp { host, port } => format!("{host}:{port}"),
            Self::Unix(_) => "localhost".into(),
        }
    }
}

/// `host[:port]`, with IPv6 addresses in brackets or bare.
fn split_port(text: &str) -> Option<(&str, u16)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        return match after.strip_prefix(':') {
            Some(port) => Some((host, parse_port(port)?)),
            None if after.is_empty() => Some((host, DEFAULT_PORT)),
            None => None,
        };
    }
    if text.parse::<std::net::Ipv6Addr>().is_ok() {
        return Some((text, DEFAULT_PORT));
    }
    match text.rsplit_once(':') {
        Some((host, port)) => Some((host, parse_port(port)?)),
        None => Some((text, DEFAULT_PORT)),
    }
}

fn parse_port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port| *port != 0)
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { .. } => write!(f, "http://{}", self.host_header()),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_form_is_understood() {
        let tcp = |host: &str, port| Endpoint::Tcp { host: host.into(), port };
        let cases = [
            ("10.0.0.1:7460", tcp("10.0.0.1", 7460)),
            ("node-a", tcp("node-a", 7460)),
            ("http://node-a:80", tcp("node-a", 80)),
            ("http://node-a:80/", tcp("node-a", 80)),
            ("[::1]:7461", tcp("::1", 7461)),
            ("http://[fd00::2]", tcp("fd00::2", 7460)),
            ("::1", tcp("::1", 7460)),
            ("unix:/run/holm/api.sock", Endpoint::Unix("/run/holm/api.sock".into())),
            ("unix:///run/holm/api.sock", Endpoint::Unix("/run/holm/api.sock".into())),
        ];
        for (text, expected) in cases {
            assert_eq!(Endpoint::parse(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn a_wrong_endpoint_is_a_usage_error_that_shows_the_forms() {
        for text in [
            "https://a:1",
            "ftp://a",
            "a:0",
            "a:70000",
            "a:b",
            ":7460",
            "http://",
            "unix:relative",
            "a/b",
            "http://a/v1",
            "user@a",
            "a b",
        ] {
            let error = Endpoint::parse(text).expect_err(text);
            assert_eq!(error.exit_code(), 2, "{text}");
            assert!(error.to_string().starts_with(&format!("`{text}` is not an endpoint: ")), "{error}");
        }
    }

    #[test]
    fn an_ipv6_endpoint_is_shown_in_brackets() {
        assert_eq!(Endpoint::parse("::1").unwrap().to_string(), "http://[::1]:7460");
    }

    #[test]
    fn what_is_written_wins_over_the_socket() {
        let socket = Path::new("/nowhere/api.sock");
        let written = ["a:1".to_owned(), " b:2 ".to_owned(), String::new()];
        let chosen = Endpoint::choose(&written, "c:3", Some(socket)).unwrap();
        assert_eq!(chosen.iter().map(Endpoint::to_string).collect::<Vec<_>>(), ["http://a:1", "http://b:2"]);
        let chosen = Endpoint::choose(&[], "c:3, d:4,", Some(socket)).unwrap();
        assert_eq!(chosen.iter().map(Endpoint::to_string).collect::<Vec<_>>(), ["http://c:3", "http://d:4"]);
        let chosen = Endpoint::choose(&[], " ", Some(socket)).unwrap();
        assert_eq!(chosen, [Endpoint::Unix(socket.into())]);
    }

    #[test]
    fn a_blank_endpoint_is_not_the_default_one() {
        for blank in ["", " "] {
            let error = Endpoint::choose(&[blank.to_owned()], "a:1", None).unwrap_err();
            assert_eq!((error.exit_code(), error.to_string().as_str()), (2, "--endpoint is empty"));
        }
    }
}
