//! `holm dev` with real daemons and the simulated hypervisor: up, work, a daemon killed, up again, down
//! without a trace. Needs `holmd` beside the `holm` under test: `cargo test --workspace` builds it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// A local cluster that is gone when the test is over, whatever happened.
struct Dev {
    holm: PathBuf,
    dir: TempDir,
}

impl Dev {
    fn new() -> Option<Self> {
        let holm = PathBuf::from(env!("CARGO_BIN_EXE_holm"));
        if !holm.with_file_name("holmd").is_file() {
            // Past libtest's capture, which hides what passing tests print.
            drop(std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!(
                    "SKIPPED: dev: there is no holmd beside {}; run cargo test --workspace\n",
                    holm.display()
                ),
            ));
            return None;
        }
        // Short, since sockets lie below.
        let dir = tempfile::Builder::new().prefix("hd").tempdir().expect("there is a temporary directory");
        Some(Self { holm, dir })
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("c")
    }

    fn holm(&self, args: &[&str]) -> Output {
        let endpoints = self.nodes().into_iter().map(|node| node["api"].as_str().unwrap_or("").to_owned());
        Command::new(&self.holm)
            .args(args)
            .env_clear()
            .env("HOLM_DEV_DIR", self.path())
            .env("HOLM_ENDPOINTS", endpoints.collect::<Vec<_>>().join(","))
            .output()
            .expect("holm can be started")
    }

    /// What `args` print when they do well.
    fn good(&self, args: &[&str]) -> String {
        let output = self.holm(args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?} failed: {errors}\n{}", self.logs());
        String::from_utf8(output.stdout).expect("tables are text")
    }

    fn nodes(&self) -> Vec<Value> {
        let Ok(bytes) = std::fs::read(self.path().join("dev.json")) else { return Vec::new() };
        let file: Value = serde_json::from_slice(&bytes).expect("dev.json is JSON");
        file["nodes"].as_array().expect("it lists nodes").clone()
    }

    fn pid(&self, node: usize) -> Pid {
        let pid = self.nodes()[node]["process"]["pid"].as_i64().expect("it was started");
        Pid::from_raw(i32::try_from(pid).expect("process ids fit"))
    }

    fn logs(&self) -> String {
        let log =
            |node: &Value| std::fs::read_to_string(node["log"].as_str().unwrap_or("")).unwrap_or_default();
        self.nodes().iter().map(log).collect()
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        if self.path().exists() {
            self.holm(&["dev", "down"]);
        }
        for node in self.nodes() {
            let pid = node["process"]["pid"].as_i64().unwrap_or(0);
            // Only what still works in our directory.
            let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            if command.contains(&self.path().display().to_string()) {
                let _ = kill(Pid::from_raw(i32::try_from(pid).unwrap_or(0)), Signal::SIGKILL);
            }
        }
    }
}

fn is_running(pid: Pid) -> bool {
    Path::new(&format!("/proc/{pid}/cwd")).read_link().is_ok()
}

#[test]
fn a_local_cluster_comes_up_works_loses_a_daemon_comes_back_and_goes_without_a_trace() {
    let Some(dev) = Dev::new() else { return };
    let up = ["dev", "up", "--nodes", "3", "--hypervisor", "simulated"];
    let shown = dev.good(&up);
    assert!(shown.contains("\nexport HOLM_ENDPOINTS=127.0.0.1:"), "{shown}");
    assert!(shown.contains("simulated: no guest runs on n1, n2, n3: "), "{shown}");

    let guest = dev.dir.path().join("guest.elf");
    dev.good(&["dev", "guest", guest.to_str().expect("it is text")]);
    dev.good(&["image", "import", guest.to_str().expect("it is text")]);
    dev.good(&["flavor", "create", "tiny", "--memory", "64"]);
    let created = dev.good(&["vm", "create", "web", "--flavor", "tiny", "--image", "guest"]);
    assert!(created.contains("(simulated: no guest runs)"), "{created}");
    dev.good(&["check"]);

    let first = [dev.pid(0), dev.pid(1), dev.pid(2)];
    kill(first[1], Signal::SIGKILL).expect("it runs");
    dev.good(&["vm", "create", "web2", "--flavor", "tiny", "--image", "guest", "--no-wait"]);
    assert_eq!(dev.holm(&["check"]).status.code(), Some(1));
    dev.good(&up);
    let second = [dev.pid(0), dev.pid(1), dev.pid(2)];
    assert_eq!((first[0], first[2]), (second[0], second[2]), "what ran was left alone");
    assert_ne!(first[1], second[1]);
    assert_eq!(dev.good(&["dev", "status", "-o", "name"]), "n1\nn2\nn3\n");

    // A name of a process is not enough to be killed: its start time has to fit.
    let file = dev.path().join("dev.json");
    let text = std::fs::read_to_string(&file).expect("it is there");
    let own = format!("\"pid\": {}", std::process::id());
    std::fs::write(&file, text.replace(&format!("\"pid\": {}", second[2]), &own)).expect("it can be written");
    dev.holm(&["dev", "down", "--keep"]);
    assert!(is_running(second[2]));
    std::fs::write(&file, text).expect("it can be written");

    dev.good(&up);
    let third = [dev.pid(0), dev.pid(1), dev.pid(2)];
    assert_eq!(third[2], second[2]);
    dev.good(&["dev", "down"]);
    assert!(!dev.path().exists());
    for pid in third {
        assert!(!is_running(pid), "{pid} is left");
    }
    let again = dev.holm(&["dev", "down"]);
    assert_eq!(again.status.code(), Some(1));
}
