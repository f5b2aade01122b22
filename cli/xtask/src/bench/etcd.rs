//! Three etcd members on this machine, for comparison: same disk, same fsync, same kind of client (JSON
//! over HTTP), same run.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use serde_json::json;

use super::load::Writer;
use crate::client::Client;
use crate::interrupt;
use crate::process::{self, Running};

/// The members; they end with this value.
#[derive(Debug)]
pub struct Etcd {
    pub version: String,
    /// Base URLs of the clients' side.
    pub endpoints: Vec<String>,
    _members: Vec<Running>,
}

impl Etcd {
    /// None when there is no `etcd` to start.
    ///
    /// # Errors
    /// When there is, but three of them make no cluster.
    pub fn start(folder: &Path) -> anyhow::Result<Option<Self>> {
        let Ok(version) = process::capture(Command::new("etcd").arg("--version")) else { return Ok(None) };
        let version = version.lines().next().unwrap_or_default().trim().to_owned();
        let ports = free_ports(6)?;
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let cluster: Vec<String> = (0..3).map(|n| format!("m{n}={}", url(ports[n]))).collect();
        let mut members = Vec::new();
        for n in 0..3 {
            let (peer, client) = (url(ports[n]), url(ports[n + 3]));
            let mut etcd = Command::new("etcd");
            etcd.args(["--name", &format!("m{n}"), "--log-level", "error", "--logger", "zap"])
                .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
                .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
                .args(["--initial-cluster", &cluster.join(","), "--initial-cluster-state", "new"])
                .arg("--data-dir")
                .arg(folder.join(format!("etcd{n}")))
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            members.push(Running::start(&mut etcd)?);
        }
        let endpoints: Vec<String> = ports[3..].iter().map(|port| url(*port)).collect();
        for endpoint in &endpoints {
            let client = Client::new(endpoint, Duration::from_secs(1));
            let healthy = || Ok(client.get("/health").ok().filter(|answer| answer["health"] == "true"));
            interrupt::wait_for("etcd to be healthy", Duration::from_secs(30), healthy)?;
        }
        Ok(Some(Self { version, endpoints, _members: members }))
    }

    /// `count` clients, spread over the members.
    pub fn writers(&self, count: usize) -> Vec<Box<dyn Writer>> {
        (0..count)
            .map(|n| {
                let client = Client::new(&self.endpoints[n % 3], Duration::from_secs(10));
                // Keys and values travel as base64: any eight digits are that.
                Box::new(PutAndDelete { client, key: format!("{n:08}"), put: false }) as Box<dyn Writer>
            })
            .collect()
    }
}

/// A key written and deleted in turn, as Holm's clients create and delete a flavor.
struct PutAndDelete {
    client: Client,
    key: String,
    put: bool,
}

impl Writer for PutAndDelete {
    fn write(&mut self) -> anyhow::Result<()> {
        self.put = !self.put;
        if self.put {
            self.client.post("/v3/kv/put", &json!({ "key": self.key, "value": "A".repeat(136) }))?;
        } else {
            self.client.post("/v3/kv/deleterange", &json!({ "key": self.key }))?;
        }
        Ok(())
    }
}

/// Ports that nobody listens on now.
fn free_ports(count: usize) -> anyhow::Result<Vec<u16>> {
    let listeners: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0"))
        .collect::<Result<_, _>>()
        .context("no free port")?;
    Ok(listeners
        .iter()
        .map(|listener| listener.local_addr().map(|address| address.port()))
        .collect::<Result<_, _>>()?)
}
