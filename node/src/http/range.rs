//! Serves a file, whole or one range of it (RFC 9110, section 14), as a stream.

use std::io::SeekFrom;
use std::path::Path;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use holm_api::Code;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;

use super::problem::{Failure, Result};

/// Bytes read from disk at a time.
const CHUNK: usize = 128 * 1024;

/// Serves `path`, whose content is named by `etag`.
pub async fn serve(path: &Path, etag: &str, headers: &HeaderMap) -> Result<Response> {
    let failed =
        |error: std::io::Error| Failure::new(Code::Internal, format!("cannot read the bytes: {error}"));
    let mut file = File::open(path).await.map_err(failed)?;
    let size = file.metadata().await.map_err(failed)?.len();
    let asked = headers.get(header::RANGE).and_then(|range| range.to_str().ok());
    let (status, start, length) = match asked.map_or(Asked::All, |range| parse(range, size)) {
        Asked::All => (StatusCode::OK, 0, size),
        Asked::Part { start, length } => (StatusCode::PARTIAL_CONTENT, start, length),
        Asked::Outside => {
            let failure = Failure::new(Code::RangeNotSatisfiable, format!("there are {size} bytes"));
            let mut response = failure.field("Range").into_response();
            response.headers_mut().insert(header::CONTENT_RANGE, value(format!("bytes */{size}")));
            return Ok(response);
        }
    };
    file.seek(SeekFrom::Start(start)).await.map_err(failed)?;
    let body = Body::from_stream(ReaderStream::with_capacity(file.take(length), CHUNK));
    let mut response = (status, body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(header::ETAG, value(format!("\"{etag}\"")));
    if status == StatusCode::PARTIAL_CONTENT {
        let last = start + length - 1;
        headers.insert(header::CONTENT_RANGE, value(format!("bytes {start}-{last}/{size}")));
    }
    Ok(response)
}

fn value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("digits and punctuation are valid in a header")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    All,
    Part { start: u64, length: u64 },
    Outside,
}

/// What a `Range` asks of `size` bytes. One that is malformed, or asks for several parts, asks for all: a
/// server may ignore it.
fn parse(range: &str, size: u64) -> Asked {
    let Some((first, last)) = range.strip_prefix("bytes=").and_then(|range| range.split_once('-')) else {
        return Asked::All;
    };
    let (start, end) = match (first.trim().parse::<u64>(), last.trim().parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => (first, last.saturating_add(1).min(size)),
        (Ok(first), Err(_)) if last.trim().is_empty() => (first, size),
        (Err(_), Ok(suffix)) if first.trim().is_empty() => (size.saturating_sub(suffix), size),
        _ => return Asked::All,
    };
    if start < end { Asked::Part { start, length: end - start } } else { Asked::Outside }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_ten_bytes() {
        let part = |start, length| Asked::Part { start, length };
        for (range, asked) in [
            ("bytes=0-3", part(0, 4)),
            ("bytes=4-", part(4, 6)),
            ("bytes=-3", part(7, 3)),
            ("bytes=-30", part(0, 10)),
            ("bytes=8-99", part(8, 2)),
            ("bytes=10-", Asked::Outside),
            ("bytes=10-12", Asked::Outside),
            ("bytes=-0", Asked::Outside),
            ("bytes=3-1", Asked::All),
            ("bytes=0-1,4-5", Asked::All),
            ("lines=0-1", Asked::All),
            ("bytes=x-y", Asked::All),
        ] {
            assert_eq!(parse(range, 10), asked, "{range}");
        }
        assert_eq!(parse("bytes=0-", 0), Asked::Outside);
    }
}
