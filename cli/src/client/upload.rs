//! Uploading a file as a request's body: streamed, never held in memory, given up only when nothing moves.
//! A broken upload is begun again on the next endpoint with the same key, so that it happens once.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt;
use holm_api::header;
use http_body_util::{BodyExt, StreamBody};
use hyper::Method;
use hyper::body::Frame;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE};
use serde::de::DeserializeOwned;
use tokio::time::interval;
use tokio_util::io::ReaderStream;
use uuid::Uuid;

use super::attempts::{Answer, Attempt, Trouble, idempotent, judge, read};
use super::transport::{Body, Connection, Failure};
use super::{Client, Endpoint, path};
use crate::error::Error;

/// An upload of which nothing moves for this long is broken.
const STALL_LIMIT: Duration = Duration::from_secs(60);
/// How often every endpoint is tried.
const ROUNDS: usize = 2;
/// Bytes read from the file at once.
const CHUNK: usize = 256 * 1024;

/// What to upload.
pub struct Upload<'a> {
    pub target: String,
    pub file: &'a Path,
    pub size_bytes: u64,
    /// Lower-case hex.
    pub sha256: String,
    /// The command that shows whether it happened.
    pub look: String,
    /// Bytes handed to the network so far, of the present attempt.
    pub sent_bytes: Arc<AtomicU64>,
}

impl Client {
    /// Uploads a file.
    ///
    /// # Errors
    /// As [`Client::write`]; [`Error::File`] when the file cannot be read.
    pub async fn upload<T: DeserializeOwned>(&self, upload: &Upload<'_>) -> Result<T, Error> {
        path::check(&upload.target)?;
        let key = Uuid::new_v4().to_string();
        let mut seen = self.revision();
        let mut trouble = Trouble::default();
        for _ in 0..ROUNDS {
            for at in self.order() {
                let endpoint = &self.endpoints[at];
                match self.upload_once(endpoint, upload, &key, &mut seen).await? {
                    Ok(Ok(answer)) => {
                        self.current.store(at, Ordering::Relaxed);
                        return self.parse(&answer);
                    }
                    Ok(Err(problem)) => return Err(Error::Problem(problem)),
                    Err(failure) => trouble.add(endpoint, failure),
                }
            }
        }
        Err(trouble.into_error(&upload.look))
    }

    async fn upload_once(
        &self,
        endpoint: &Endpoint,
        upload: &Upload<'_>,
        key: &str,
        seen: &mut Option<u64>,
    ) -> Result<Attempt<Answer>, Error> {
        let body = open(upload).await?;
        let mut connection = match Connection::open(endpoint).await {
            Ok(connection) => connection,
            Err(failure) => return Ok(Err(failure)),
        };
        if seen.is_none() {
            match self.ask_health(&mut connection, endpoint, self.patience).await {
                Ok(report) => *seen = Some(report.health.revision),
                Err(failure) => return Ok(Err(failure)),
            }
        }
        let request = self
            .request(&Method::POST, &upload.target, endpoint)
            .header(CONTENT_TYPE, "application/octet-stream")
            .header(CONTENT_LENGTH, upload.size_bytes)
            .header(header::SHA256, &upload.sha256);
        let request = idempotent(request, Some(key), *seen).body(body).expect("headers are ASCII");
        let sending = connection.send(request, Duration::MAX);
        let outcome = async {
            let response = while_it_moves(&upload.sent_bytes, sending).await?;
            self.learn_from(response.headers());
            let (status, headers) = (response.status(), response.headers().clone());
            let bytes = read(response, self.patience).await?;
            judge(status, &headers, &bytes)
                .map(|verdict| verdict.map(|()| Answer::Whole { endpoint: endpoint.to_string(), bytes }))
        };
        Ok(outcome.await)
    }
}

/// The file as a body that counts what is taken of it.
async fn open(upload: &Upload<'_>) -> Result<Body, Error> {
    let file = tokio::fs::File::open(upload.file).await.map_err(Error::file("read", upload.file))?;
    let sent = Arc::clone(&upload.sent_bytes);
    sent.store(0, Ordering::Relaxed);
    let frames = ReaderStream::with_capacity(file, CHUNK).map(move |chunk| {
        let chunk = chunk?;
        sent.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        Ok::<_, io::Error>(Frame::data(chunk))
    });
    Ok(BodyExt::boxed_unsync(StreamBody::new(frames)))
}

/// Waits for `answer` as long as the upload moves.
async fn while_it_moves<T>(
    sent_bytes: &AtomicU64,
    answer: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let mut answer = std::pin::pin!(answer);
    let mut moved = (0, Instant::now());
    let mut tick = interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            answered = &mut answer => return answered,
            _ = tick.tick() => {
                let sent = sent_bytes.load(Ordering::Relaxed);
                if sent != moved.0 {
                    moved = (sent, Instant::now());
                } else if moved.1.elapsed() > STALL_LIMIT {
                    return Err(Failure::NoAnswer(format!("nothing moved for {} s", STALL_LIMIT.as_secs())));
                }
            }
        }
    }
}
