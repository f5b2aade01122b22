//! JSON over HTTP to one address, over kept connections: for the probe and the load, which must not fail
//! over by themselves as `holm` does.

use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use ureq::Agent;

/// One client and its connection.
#[derive(Clone, Debug)]
pub struct Client {
    agent: Agent,
    /// `http://host:port`
    base: String,
}

impl Client {
    pub fn new(base: &str, timeout: Duration) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(timeout))
            .timeout_connect(Some(timeout.min(Duration::from_secs(1))))
            .http_status_as_error(false)
            .build();
        Self { agent: config.into(), base: base.to_owned() }
    }

    /// GET.
    ///
    /// # Errors
    /// When there is no answer, or another than success.
    pub fn get(&self, path: &str) -> anyhow::Result<Value> {
        answer(path, self.agent.get(format!("{}{path}", self.base)).call())
    }

    /// POST of a JSON body.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let request = self.agent.post(format!("{}{path}", self.base)).content_type("application/json");
        answer(path, request.send(body.to_string()))
    }

    /// DELETE.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn delete(&self, path: &str) -> anyhow::Result<Value> {
        answer(path, self.agent.delete(format!("{}{path}", self.base)).call())
    }

    /// GET of an answer that is not JSON.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn get_bytes(&self, path: &str) -> anyhow::Result<Vec<u8>> {
        let mut response =
            self.agent.get(format!("{}{path}", self.base)).call().with_context(|| path.to_owned())?;
        if !response.status().is_success() {
            bail!("{path}: {}", response.status());
        }
        Ok(response.body_mut().read_to_vec()?)
    }

    /// GET of an answer that is read as it comes.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn stream(&self, path: &str) -> anyhow::Result<impl std::io::Read + use<>> {
        let response =
            self.agent.get(format!("{}{path}", self.base)).call().with_context(|| path.to_owned())?;
        if !response.status().is_success() {
            bail!("{path}: {}", response.status());
        }
        Ok(response.into_body().into_reader())
    }
}

fn answer(
    path: &str,
    result: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
) -> anyhow::Result<Value> {
    let mut response = result.with_context(|| path.to_owned())?;
    let status = response.status();
    let text = response.body_mut().read_to_string().with_context(|| path.to_owned())?;
    if !status.is_success() {
        bail!("{path}: {status}: {text}");
    }
    if text.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(&text).with_context(|| format!("{path}: the answer is not JSON: {text}"))
}
