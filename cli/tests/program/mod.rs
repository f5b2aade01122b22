//! The real binary against a test server.

#[path = "../../src/client/test_server.rs"]
#[allow(dead_code)]
pub mod test_server;

use std::process::{Output, Stdio};
use std::time::Duration;

use test_server::{Act, Got, TestServer};
use tokio::process::Command;

/// What `holm` with these arguments ends with: its exit code, standard output and standard error.
pub async fn run(args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holm"));
    command.args(args).env_clear().stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(Duration::from_secs(60), command.output());
    let Output { status, stdout, stderr } = output.await.expect("holm ends").expect("holm can be started");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (status.code().expect("holm was not ended by a signal"), text(&stdout), text(&stderr))
}

/// A healthy node that answers other requests with `act`, told how many came before.
pub async fn cluster(act: impl Fn(usize, &Got) -> Act + Send + Sync + 'static) -> (TestServer, String) {
    let act = move |before: usize, got: &Got| {
        if got.target == "/health" { Act::health(7) } else { act(before, got) }
    };
    let server = TestServer::start(act).await;
    let endpoint = server.address.to_string();
    (server, endpoint)
}
