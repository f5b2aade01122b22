//! Real daemons on loopback, with the simulated hypervisor, and a small HTTP client for them. Everything is
//! stopped and removed when a test ends, however it ends; a test that fails shows the daemons' logs.

use std::fs::File;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use holm_vmm::test_guest;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;

/// Waiting for anything ends here, with a failure.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// One daemon.
pub struct Daemon {
    pub name: String,
    /// `host:port` of its REST service.
    pub api: String,
    pub peer: String,
    dir: TempDir,
    program: PathBuf,
    hypervisor: &'static str,
    child: Option<Child>,
}

impl Daemon {
    /// The first node of a new cluster, serving.
    pub async fn first() -> Self {
        Self::first_on(|_| {}).await
    }

    /// The same; its data directory is what `mount` makes of a path.
    pub async fn first_on(mount: impl FnOnce(&Path)) -> Self {
        let daemon = Self::prepared("n1");
        mount(&daemon.data_dir());
        daemon.holmd(&["init", "--cluster", "test"], true);
        daemon.serving().await
    }

    /// The same, with a copy of the program at `program`, and guests that are real; `configure` is told the data
    /// directory.
    pub async fn first_real(program: &Path, configure: impl FnOnce(&Path)) -> Self {
        std::fs::copy(env!("CARGO_BIN_EXE_holmd"), program).expect("the program can be copied");
        let mut daemon = Self::prepared("n1");
        (daemon.program, daemon.hypervisor) = (program.to_owned(), "cloud-hypervisor");
        daemon.holmd(&["init", "--cluster", "test"], true);
        configure(&daemon.data_dir());
        daemon.serving().await
    }

    /// A further node of the cluster of `seed`, serving.
    pub async fn joined(name: &str, seed: &Daemon) -> Self {
        Self::joined_on(name, seed, |_| {}).await
    }

    /// The same; its data directory is what `mount` makes of a path.
    pub async fn joined_on(name: &str, seed: &Daemon, mount: impl FnOnce(&Path)) -> Self {
        let daemon = Self::prepared(name);
        mount(&daemon.data_dir());
        daemon.holmd(&["join", "--seed", &seed.peer], true);
        daemon.serving().await
    }

    /// Three nodes, all voters, and a flavor `tiny` and an image `guest` to make VMs of.
    pub async fn three() -> Vec<Self> {
        let first = Self::first().await;
        let second = Self::joined("n2", &first).await;
        let third = Self::joined("n3", &first).await;
        first
            .until("all three vote", async |first| {
                let members = first.get("/v1/cluster").await.json["members"].clone();
                let votes = |member: &Value| member["role"] == "voter" || member["role"] == "leader";
                (members.as_array()?.iter().filter(|member| votes(member)).count() == 3).then_some(())
            })
            .await;
        // However few CPUs the machine has.
        let roomy = json!({"inventory": {"VCPU": {"total": 64, "allocation_ratio": 1}}});
        for node in ["n1", "n2", "n3"] {
            first.patch(&format!("/v1/nodes/{node}"), roomy.clone()).await.expect(200);
        }
        let tiny = json!({"name": "tiny", "vcpus": 1, "memory_mib": 16});
        first.post("/v1/flavors", tiny).await.expect(201);
        let kernel = test_guest::elf(test_guest::Variant::Banner);
        first.send(Method::POST, "/v1/images?name=guest&kind=kernel", &[], kernel.into()).await.expect(201);
        vec![first, second, third]
    }

    /// Kills the daemon; [`Daemon::again`] starts it.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("our child can be killed");
            child.wait().expect("our child can be waited for");
        }
    }

    /// The exit code of a daemon that ended by itself, if it had one.
    pub fn ended(&mut self) -> Option<Option<i32>> {
        let child = self.child.as_mut()?;
        child.try_wait().expect("our child can be asked").map(|status| status.code())
    }

    /// Starts a daemon that was killed.
    pub async fn again(self) -> Self {
        self.serving().await
    }

    fn prepared(name: &str) -> Self {
        let address = address();
        let [api, peer] = [7460, 7461].map(|port| format!("{address}:{port}"));
        let dir = TempDir::new().expect("a directory can be made");
        let program = env!("CARGO_BIN_EXE_holmd").into();
        Self { name: name.to_owned(), api, peer, dir, program, hypervisor: "simulated", child: None }
    }

    fn holmd(&self, args: &[&str], addresses: bool) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holmd"));
        command.args(args).arg("--data-dir").arg(self.data_dir());
        if addresses {
            command.args(["--name", &self.name, "--peer-listen", &self.peer, "--api-listen", &self.api]);
        }
        let output = command.output().expect("holmd can be run");
        assert!(output.status.success(), "holmd {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    async fn serving(mut self) -> Self {
        let log = File::options().create(true).append(true).open(self.dir.path().join("log"));
        let log = log.expect("a log can be made");
        let child = Command::new(&self.program)
            .args(["run", "--hypervisor", self.hypervisor, "--data-dir"])
            .arg(self.dir.path().join("data"))
            .arg("--run-dir")
            .arg(self.dir.path().join("run"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.child = Some(child.expect("holmd can be run"));
        self.until("it is ready and up", async |daemon| {
            let path = format!("/v1/nodes/{}", daemon.name);
            let node = daemon.try_get(&path).await?;
            (node.status == StatusCode::OK && node.json["up"] == true).then_some(())
        })
        .await;
        self
    }

    /// Asks again until `met` answers, or the test's patience ends.
    pub async fn until<T>(&self, what: &str, met: impl AsyncFn(&Self) -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(answer) = met(self).await {
                return answer;
            }
            assert!(begun.elapsed() < PATIENCE, "{}: waited in vain until {what}", self.name);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a VM has `status`.
    pub async fn until_status(&self, vm: &str, status: &str) -> Value {
        self.until(&format!("VM {vm} is {status}"), async |daemon| {
            let answer = daemon.get(&format!("/v1/vms/{vm}")).await;
            (answer.json["status"] == status).then_some(answer.json)
        })
        .await
    }

    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn run_dir(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], Bytes::new()).await
    }

    pub async fn try_get(&self, path: &str) -> Option<Answer> {
        self.try_send(Method::GET, path, &[], Bytes::new()).await.ok()
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        let json = [("content-type", "application/json")];
        self.send(Method::POST, path, &json, body.to_string().into()).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Answer {
        let json = [("content-type", "application/json")];
        self.send(Method::PUT, path, &json, body.to_string().into()).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, &[], Bytes::new()).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Answer {
        let json = [("content-type", "application/json")];
        self.send(Method::PATCH, path, &json, body.to_string().into()).await
    }

    pub async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: Bytes) -> Answer {
        self.try_send(method, path, headers, body).await.expect("the daemon answers")
    }

    pub async fn try_send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Answer, Box<dyn std::error::Error>> {
        let response = self.open(method, path, headers, body).await?;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let json = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Ok(Answer { status: parts.status, headers: parts.headers, bytes, json })
    }

    /// The head of an answer, with a body that may never end, or a connection that may be upgraded.
    pub async fn open(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Response<Incoming>, Box<dyn std::error::Error>> {
        let stream = TcpStream::connect(&self.api).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection.with_upgrades());
        let mut request = Request::builder().method(method).uri(path).header("host", &self.api);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Ok(sender.send_request(request.body(Full::new(body))?).await?)
    }
}

/// An address of this host that no other daemon is given, by this process or another: it stays free while its daemon is
/// dead, which a port that was free once does not.
fn address() -> Ipv4Addr {
    static STARTED: AtomicU8 = AtomicU8::new(0);
    let [.., high, low] = std::process::id().to_be_bytes();
    let daemon = STARTED.fetch_add(1, Ordering::Relaxed);
    assert!(daemon < 250, "this process has an address for each of 250 daemons");
    Ipv4Addr::new(127, 128 | high, low, daemon + 1)
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.path().join("log")).unwrap_or_default();
            eprintln!("---- log of {} ----\n{log}", self.name);
        }
    }
}

/// One whole answer.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: hyper::HeaderMap,
    pub bytes: Bytes,
    /// Null when the body is not JSON.
    pub json: Value,
}

impl Answer {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The answer, if it has `status`; else the test fails with what it was.
    pub fn expect(self, status: u16) -> Self {
        let body = String::from_utf8_lossy(&self.bytes);
        assert_eq!(self.status.as_u16(), status, "{body}");
        self
    }
}
