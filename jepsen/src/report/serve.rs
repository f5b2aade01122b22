//! Serves the folders of runs to a browser: on this host only, to be read only, and nothing outside the store.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;

use super::page::head;
use super::svg::escape;

/// Serves `store` until ended.
///
/// # Errors
/// When there is no such folder, or the port is taken.
pub async fn run(store: &Path, port: u16) -> Result<()> {
    let store = store.canonicalize().with_context(|| format!("there is no {}", store.display()))?;
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    println!("http://{}", listener.local_addr()?);
    let store: Arc<Path> = store.into();
    loop {
        let (stream, _) = listener.accept().await?;
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let store = Arc::clone(&store);
                async move { Ok::<_, Infallible>(answer(&store, &request)) }
            });
            // A browser that goes away is no error.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

fn answer(store: &Path, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    if request.method() != Method::GET {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET");
    }
    match find(store, request.uri().path()) {
        Some(path) if path.is_dir() && request.uri().path().ends_with('/') && path != store => {
            file(&path.join("index.html"))
        }
        Some(path) if path == store => html(list(store)),
        Some(path) if path.is_dir() => moved(&format!("{}/", request.uri().path())),
        Some(path) => file(&path),
        None => plain(StatusCode::NOT_FOUND, "not found"),
    }
}

/// What a path of the URL means, if that lies in the store.
fn find(store: &Path, path: &str) -> Option<PathBuf> {
    let wanted = store.join(path.trim_start_matches('/')).canonicalize().ok()?;
    wanted.starts_with(store).then_some(wanted)
}

fn file(path: &Path) -> Response<Full<Bytes>> {
    let Ok(bytes) = fs::read(path) else { return plain(StatusCode::NOT_FOUND, "not found") };
    let kind = match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        _ => "text/plain; charset=utf-8",
    };
    typed(StatusCode::OK, kind, bytes)
}

fn html(text: String) -> Response<Full<Bytes>> {
    typed(StatusCode::OK, "text/html; charset=utf-8", text.into_bytes())
}

fn plain(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    typed(status, "text/plain; charset=utf-8", text.as_bytes().to_vec())
}

fn typed(status: StatusCode, kind: &str, body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    if let Ok(kind) = kind.parse() {
        response.headers_mut().insert(hyper::header::CONTENT_TYPE, kind);
    }
    response
}

fn moved(to: &str) -> Response<Full<Bytes>> {
    let mut response = plain(StatusCode::PERMANENT_REDIRECT, "see there");
    if let Ok(to) = to.parse() {
        response.headers_mut().insert(hyper::header::LOCATION, to);
    }
    response
}

/// All runs, the newest first.
fn list(store: &Path) -> String {
    let below = |dir: &Path| {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let mut runs: Vec<PathBuf> = below(store).iter().flat_map(|test| below(test)).collect();
    runs.sort_by_key(|run| std::cmp::Reverse(run.file_name().map(ToOwned::to_owned)));
    let mut page = format!(
        "{}<h1>Runs</h1>\n<table><tr><th>test</th><th>run</th><th>seed</th><th>verdict</th><th>faults</th><th>ok</th></tr>\n",
        head("runs")
    );
    for run in runs {
        let Some(relative) = run.strip_prefix(store).ok().map(|path| path.display().to_string()) else {
            continue;
        };
        let report = fs::read(run.join("report.json")).ok();
        let report: Value =
            report.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or(Value::Null);
        let word = verdict(&report);
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td><a href='/{relative}/'>{}</a></td><td>{}</td><td class='{word}'>{word}</td><td>{}</td><td>{}</td></tr>",
            escape(report["test"].as_str().unwrap_or("?")),
            escape(&relative),
            report["seed"],
            report["counts"]["faults"],
            report["counts"]["ok"]
        );
    }
    page.push_str("</table>\n");
    page
}

fn verdict(report: &Value) -> &'static str {
    let verdicts: Vec<_> = report["verdicts"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|verdict| verdict["verdict"].as_str())
        .collect();
    match verdicts.as_slice() {
        [] => "unknown",
        all if all.contains(&"invalid") => "invalid",
        all if all.iter().all(|word| *word == "valid") => "valid",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_the_store_is_served() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().canonicalize().unwrap().join("store");
        fs::create_dir_all(store.join("t/1")).unwrap();
        fs::write(store.join("t/1/index.html"), "here").unwrap();
        fs::write(dir.path().join("secret"), "no").unwrap();
        std::os::unix::fs::symlink(dir.path().join("secret"), store.join("t/link")).unwrap();
        assert_eq!(find(&store, "/t/1/index.html"), Some(store.join("t/1/index.html")));
        assert_eq!(find(&store, "/"), Some(store.clone()));
        for path in ["/../secret", "/t/../../secret", "/t/link", "//etc/passwd", "/t/2/"] {
            assert_eq!(find(&store, path), None, "{path}");
        }
    }

    #[test]
    fn unknown_is_never_shown_as_valid() {
        let report = |words: &[&str]| {
            let verdicts: Vec<_> = words.iter().map(|word| serde_json::json!({"verdict": word})).collect();
            serde_json::json!({"verdicts": verdicts})
        };
        assert_eq!(verdict(&report(&["valid", "valid"])), "valid");
        assert_eq!(verdict(&report(&["valid", "unknown"])), "unknown");
        assert_eq!(verdict(&report(&["unknown", "invalid"])), "invalid");
        assert_eq!(verdict(&Value::Null), "unknown");
    }
}
