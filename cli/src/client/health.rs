//! One endpoint's own word on its health: no failover, no repetition, and an answer also when it is not
//! ready.

use std::time::Duration;

use bytes::Bytes;
use holm_api::Health;
use hyper::header::DATE;
use hyper::{HeaderMap, Method};

use super::attempts::read;
use super::transport::{Connection, Failure, whole};
use super::{Client, Endpoint};

/// What a daemon says of itself.
pub struct Report {
    pub health: Health,
    /// The daemon's clock when it answered (`Date`), to the second.
    pub date: Option<String>,
}

impl Client {
    /// Asks the daemon at the other end of `connection`, and learns its revision.
    pub(super) async fn ask_health(
        &self,
        connection: &mut Connection,
        endpoint: &Endpoint,
        limit: Duration,
    ) -> Result<Report, Failure> {
        // Whatever goes wrong here, nothing was asked to change.
        let unsent = |failure| match failure {
            Failure::NoAnswer(why) => Failure::Silent(why),
            other => other,
        };
        let request = self.request(&Method::GET, "/health", endpoint);
        let request = request.body(whole(Bytes::new())).expect("a fixed request is well-formed");
        let response = connection.send(request, limit).await.map_err(unsent)?;
        let date = date(response.headers());
        let bytes = read(response, limit).await.map_err(unsent)?;
        let health: Health = serde_json::from_slice(&bytes)
            .map_err(|_| Failure::NotHolm("it answers HTTP, but not as a Holm node does".into()))?;
        self.learn(health.revision);
        Ok(Report { health, date })
    }
}

fn date(headers: &HeaderMap) -> Option<String> {
    headers.get(DATE).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// Asks one endpoint.
///
/// # Errors
/// Why there is no answer, in words.
pub async fn of(endpoint: &Endpoint, limit: Duration) -> Result<Report, String> {
    let client = Client::new(vec![endpoint.clone()]);
    let mut connection = Connection::open(endpoint).await.map_err(|failure| failure.to_string())?;
    client.ask_health(&mut connection, endpoint, limit).await.map_err(|failure| failure.to_string())
}
