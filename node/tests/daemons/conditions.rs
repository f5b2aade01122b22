//! A host on which much is wrong at once, under a real daemon with a real guest, in namespaces of its own: each trouble
//! is a condition of the node with the moment it began, keeps new VMs away where they would fail, and goes by itself
//! when its cause does.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use holm_vmm::{host, test_guest};
use hyper::Method;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::daemon::Daemon;
use crate::disk;

/// What the test causes, all of it at once.
const CAUSED: [&str; 7] = [
    "BinaryReplaced",
    "InventoryBelowAllocations",
    "KvmMissing",
    "MemoryLow",
    "NicDown",
    "VmmSlow",
    "WatchdogUnfit",
];
/// By which others would reach this node.
const ADDRESS: &str = "10.178.0.1";
/// A host of which half the memory failed, and the rest is used up.
const LITTLE_MEMORY: &str = "MemTotal: 1228800 kB\nMemFree: 1024 kB\nMemAvailable: 102400 kB\n";

/// Why it cannot run here, if so.
fn missing() -> Option<String> {
    if let Some(why) = disk::missing() {
        return Some(why.to_owned());
    }
    for (program, word) in [("ip", "-V"), ("cloud-hypervisor", "--version")] {
        if Command::new(program).arg(word).stdout(Stdio::null()).status().is_err() {
            return Some(format!("{program} is not installed"));
        }
    }
    let kvm = OpenOptions::new().read(true).write(true).open("/dev/kvm");
    kvm.err().map(|error| format!("/dev/kvm cannot be used: {error}"))
}

fn ip(words: &str) {
    let status = Command::new("ip").args(words.split(' ')).status().expect("ip runs");
    assert!(status.success(), "ip {words}");
}

/// A file in the place of another, in this thread's namespace.
struct Over(&'static str);

impl Over {
    fn new(file: &Path, path: &'static str) -> Self {
        mount(Some(file), path, None::<&str>, MsFlags::MS_BIND, None::<&str>).expect("files can be mounted");
        Self(path)
    }
}

impl Drop for Over {
    fn drop(&mut self) {
        let _ = umount2(self.0, MntFlags::MNT_DETACH);
    }
}

/// The shim and the VMM of a VM, ended with this.
struct Guest {
    shim: Pid,
    vmm: Pid,
}

impl Guest {
    fn of(daemon: &Daemon, vm: &str) -> Self {
        let record =
            std::fs::read(daemon.data_dir().join("vms").join(vm).join("shim.json")).expect("it runs");
        let record: Value = serde_json::from_slice(&record).expect("JSON");
        let pid = |role: &str| Pid::from_raw(record[role]["pid"].as_i64().expect("a process") as i32);
        Self { shim: pid("shim"), vmm: pid("vmm") }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // The VMM dies with its shim.
        if std::thread::panicking() {
            let _ = kill(self.shim, Signal::SIGKILL);
        }
    }
}

/// `holmd watchdog` of the daemon, feeding a file; ended with this.
struct Watchdog(Child);

impl Watchdog {
    fn start(daemon: &Daemon) -> Self {
        let device = daemon.path().join("watchdog");
        std::fs::write(&device, "").expect("a device");
        let mut command = Command::new(env!("CARGO_BIN_EXE_holmd"));
        command
            .args(["watchdog", "--timeout", "60", "--device"])
            .arg(device)
            .arg("--run-dir")
            .arg(daemon.run_dir());
        Self(command.stderr(Stdio::null()).spawn().expect("holmd runs"))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The node's conditions, unless it cannot be asked.
async fn conditions(daemon: &Daemon) -> Option<serde_json::Map<String, Value>> {
    daemon.try_get("/v1/nodes/n1").await?.json["conditions"].as_object().cloned()
}

/// Waits until the node has these, whatever else it has.
async fn until_told(daemon: &Daemon, names: &[&str]) -> serde_json::Map<String, Value> {
    let all = async |daemon: &Daemon| {
        let told = conditions(daemon).await?;
        names.iter().all(|name| told.contains_key(*name)).then_some(told)
    };
    daemon.until(&format!("{names:?} are told"), all).await
}

async fn until_gone(daemon: &Daemon, names: &[&str]) {
    let none = async |daemon: &Daemon| {
        let told = conditions(daemon).await?;
        names.iter().all(|name| !told.contains_key(*name)).then_some(())
    };
    daemon.until(&format!("none of {names:?} is told"), none).await;
}

fn vm(name: &str) -> Value {
    json!({"name": name, "flavor": "half", "image": "guest", "on_no_host": "fail"})
}

#[tokio::test]
async fn what_is_wrong_with_a_host_is_told_since_when_and_is_forgotten_when_it_is_mended() {
    let name = "what_is_wrong_with_a_host_is_told_since_when_and_is_forgotten_when_it_is_mended";
    if let Some(why) = missing() {
        drop(writeln!(std::io::stderr(), "SKIPPED: {name}: {why}"));
        return;
    }
    disk::enter_namespace();
    unshare(CloneFlags::CLONE_NEWNET).expect("root may have a network of its own");
    for words in [
        "link set lo up",
        "link add uplink type veth peer name cable",
        "link set cable up",
        "link set uplink up",
    ] {
        ip(words);
    }
    ip(&format!("addr add {ADDRESS}/24 dev uplink"));
    let scratch = tempfile::tempdir().expect("temporary directory");
    let program = scratch.path().join("holmd");
    let daemon = Daemon::first_real(&program, |data_dir| advertise(&data_dir.join("holmd.toml"))).await;
    let half = json!({"name": "half", "vcpus": 1, "memory_mib": 512, "disk_gib": 0});
    daemon.post("/v1/flavors", half).await.expect(201);
    let kernel = test_guest::elf(test_guest::Variant::Banner);
    daemon.send(Method::POST, "/v1/images?name=guest&kind=kernel", &[], kernel.into()).await.expect(201);
    daemon.post("/v1/vms", vm("runs")).await.expect(202);
    let record = daemon.until_status("runs", "ACTIVE").await;
    let guest = Guest::of(&daemon, record["id"].as_str().expect("an id"));
    until_gone(&daemon, &CAUSED).await;

    let meminfo = scratch.path().join("meminfo");
    std::fs::write(&meminfo, LITTLE_MEMORY).expect("written");
    let over = [Over::new(Path::new("/dev/null"), "/dev/kvm"), Over::new(&meminfo, "/proc/meminfo")];
    ip("link set cable down");
    replace(&program);
    let watchdog = Watchdog::start(&daemon);
    kill(guest.vmm, Signal::SIGSTOP).expect("it lives");
    let told = until_told(&daemon, &CAUSED).await;
    for (name, words) in [
        ("NicDown", "uplink, which has 10.178.0.1, has no carrier"),
        ("KvmMissing", "/dev/kvm"),
        ("InventoryBelowAllocations", "claimed, 176 there"),
        ("WatchdogUnfit", "resets nothing"),
        ("WatchdogUnfit", "60 s after"),
    ] {
        let message = told[name]["message"].as_str().unwrap_or_default();
        assert!(message.contains(words), "{name}: {message}");
    }
    daemon.post("/v1/vms", vm("refused")).await.expect(202);
    let refused = daemon.until_status("refused", "ERROR").await["refusals"].to_string();
    assert!(refused.contains("ComputeStatus"), "{refused}");
    let later = until_told(&daemon, &CAUSED).await;
    for name in CAUSED {
        assert_eq!(later[name]["since"], told[name]["since"], "{name} began when it began");
    }

    kill(guest.vmm, Signal::SIGCONT).expect("it lives");
    drop((over, watchdog));
    ip("link set cable up");
    let mended = CAUSED.iter().copied().filter(|name| *name != "BinaryReplaced").collect::<Vec<_>>();
    until_gone(&daemon, &mended).await;
    until_told(&daemon, &["BinaryReplaced"]).await;
    let mut daemon = daemon;
    daemon.kill();
    let daemon = daemon.again().await;
    until_gone(&daemon, &CAUSED).await;
    let vmm = host::process_start_ticks(guest.vmm.as_raw().cast_unsigned());
    assert!(vmm.is_some(), "nothing touched the VM");
    daemon.post("/v1/vms", vm("taken")).await.expect(202);
    daemon.until_status("taken", "ACTIVE").await;
    for name in ["runs", "refused", "taken"] {
        daemon.delete(&format!("/v1/vms/{name}")).await.expect(202);
    }
    let none = async |daemon: &Daemon| {
        daemon.get("/v1/vms").await.json["items"].as_array()?.is_empty().then_some(())
    };
    daemon.until("nothing is left", none).await;
}

/// The address of the API that other nodes are told is that of the uplink.
fn advertise(settings: &Path) {
    let text = std::fs::read_to_string(settings).expect("holmd init wrote it");
    let table = "[api]\n";
    assert!(text.contains(table), "{text}");
    let changed = text.replace(table, &format!("{table}advertise = \"{ADDRESS}:7460\"\n"));
    std::fs::write(settings, changed).expect("written");
}

/// As a package manager does: another file under the same name.
fn replace(program: &Path) {
    let newer: PathBuf = program.with_extension("new");
    std::fs::copy(program, &newer).expect("copied");
    std::fs::rename(&newer, program).expect("renamed");
}
