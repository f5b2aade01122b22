//! Measures what Holm adds to a bare Cloud Hypervisor on this machine: start to first console byte, many
//! starts at once, adoption, memory of a shim. Run it as `cargo run -p holm-vmm --example measure`, after
//! `cargo build -p holm-vmm` made the shim; or name another shim, `measure path/to/holmd shim`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use holm_model::vm::StopMode;
use holm_model::{Epoch, Revision, VmId};
use holm_vmm::cloud_hypervisor::{Settings, ShimCommand, bare, detect};
use holm_vmm::hypervisor::{Boot, Instance, InstanceState, Observation, StartSpec};
use holm_vmm::test_guest::{Variant, elf};
use holm_vmm::{CloudHypervisor, Hypervisor, host};

const ROUNDS: u128 = 30;
const PARALLEL: u128 = 20;

#[tokio::main]
async fn main() {
    let binary = match detect(None).await {
        Ok(binary) => binary,
        Err(reason) => {
            eprintln!("SKIPPED: measure: {reason}");
            return;
        }
    };
    let root = tempfile::Builder::new().prefix("holm").tempdir().expect("temporary directory");
    let kernel = root.path().join("guest");
    std::fs::write(&kernel, elf(Variant::Banner)).expect("guest");

    let bare: Vec<_> = (0..ROUNDS)
        .map(|_| bare::first_byte(&binary.path, &kernel, 64).expect("bare Cloud Hypervisor"))
        .collect();
    show("bare: process start to first byte", bare);

    let _guard = KillLeftovers(root.path().join("vms"));
    let driver = driver(root.path());
    let mut times = Vec::new();
    for n in 0..ROUNDS {
        let spec = spec(n, &kernel);
        let log = root.path().join("vms").join(spec.vm.to_string()).join("console.log");
        times.push(first_byte(&driver, spec.clone(), &log).await);
        driver.stop(spec.vm, StopMode::Force).await.expect("stopped");
    }
    show("Holm: start() to first byte in the log", times);

    let begun = Instant::now();
    let starts = (100..100 + PARALLEL).map(|n| driver.start(spec(n, &kernel)));
    for started in futures::future::join_all(starts).await {
        started.expect("started");
    }
    println!("{PARALLEL} starts at once: all run after {:.1} ms", ms(begun.elapsed()));

    let fresh = self::driver(root.path());
    let begun = Instant::now();
    let observed = futures::future::join_all((100..100 + PARALLEL).map(|n| fresh.observe(vm(n)))).await;
    let running =
        |o: &Observation| matches!(o, Observation::Known(Instance { state: InstanceState::Running, .. }));
    assert!(observed.iter().all(running), "{observed:?}");
    println!("{PARALLEL} adopted by a new driver: {:.1} ms", ms(begun.elapsed()));

    let record = root.path().join("vms").join(vm(100).to_string()).join("shim.json");
    let record: serde_json::Value =
        serde_json::from_slice(&std::fs::read(record).expect("shim.json")).expect("json");
    until_locked(&record["shim"]["pid"]).await;
    let (shim, vmm) = (pid(&record["shim"]["pid"]), pid(&record["vmm"]["pid"]));
    let scribe = children(shim).into_iter().find(|child| *child != vmm).expect("the scribe");
    for (role, pid) in [("shim", shim), ("scribe", scribe), ("vmm", vmm)] {
        println!("{role}: {} KiB private, {} KiB with its share of the rest", private_kib(pid), pss_kib(pid));
    }
    let begun = Instant::now();
    let stops = (100..100 + PARALLEL).map(|n| fresh.stop(vm(n), StopMode::Force));
    for stopped in futures::future::join_all(stops).await {
        stopped.expect("stopped");
    }
    println!("{PARALLEL} forced stops at once: {:.1} ms", ms(begun.elapsed()));
}

/// Ends the shims of a measurement that was cut short, and with them their VMMs.
struct KillLeftovers(PathBuf);

impl Drop for KillLeftovers {
    fn drop(&mut self) {
        for entry in std::fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let Ok(bytes) = std::fs::read(entry.path().join("shim.json")) else { continue };
            let Ok(record) = serde_json::from_slice::<serde_json::Value>(&bytes) else { continue };
            let (pid, start) = (record["shim"]["pid"].as_u64(), record["shim"]["start_ticks"].as_u64());
            if let Some(pid) = pid
                && start.is_some()
                && host::process_start_ticks(pid as u32) == start
            {
                // SAFETY: a plain system call.
                unsafe { libc::kill(pid as i32, libc::SIGKILL) };
            }
        }
    }
}

/// From the call to the first byte in the console log.
async fn first_byte(driver: &CloudHypervisor, spec: StartSpec, log: &Path) -> Duration {
    let begun = Instant::now();
    let start = driver.start(spec);
    let byte = async {
        while std::fs::metadata(log).map_or(0, |meta| meta.len()) == 0 {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        begun.elapsed()
    };
    let (started, elapsed) = futures::future::join(start, byte).await;
    started.expect("started");
    elapsed
}

fn driver(root: &Path) -> CloudHypervisor {
    let mut args = std::env::args_os().skip(1);
    let built = std::env::current_exe().expect("this program");
    let own = built.parent().and_then(Path::parent).expect("target directory").join("holm-vmm-shim");
    let exe = args.next().map_or(own, PathBuf::from);
    CloudHypervisor::new(Settings {
        vm_dir: root.join("vms"),
        run_dir: root.join("run"),
        shim: ShimCommand { exe, args: args.collect() },
        vmm_binary: None,
        firmware: None,
        vmm_user: None,
    })
    .expect("driver")
}

fn vm(n: u128) -> VmId {
    VmId(uuid::Uuid::from_u128(n))
}

fn spec(n: u128, kernel: &Path) -> StartSpec {
    StartSpec {
        vm: vm(n),
        name: format!("vm-{n}"),
        epoch: Epoch(Revision(1)),
        run: 1,
        vcpus: 1,
        memory_mib: 64,
        disk_gib: 0,
        boot: Boot::Kernel { kernel: kernel.to_owned() },
        cmdline: None,
        lease: None,
        cpu_affinity: Vec::new(),
        pci_devices: Vec::new(),
        volumes: Vec::new(),
        cluster: None,
        start_order: 0,
        again: false,
    }
}

/// Waits until the process has locked its memory, where it is allowed to.
async fn until_locked(pid: &serde_json::Value) {
    let deadline = Instant::now() + Duration::from_secs(5);
    let locked = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line.starts_with("VmLck:") && !line.contains(" 0 kB"))
    };
    while !locked() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn pid(value: &serde_json::Value) -> u32 {
    value.as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a process id")
}

fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(path).expect("children");
    text.split_whitespace().map(|pid| pid.parse().expect("a process id")).collect()
}

fn private_kib(pid: u32) -> u64 {
    memory_kib(pid, "Private_Clean") + memory_kib(pid, "Private_Dirty")
}

/// What is shared counts by the number of those who share it.
fn pss_kib(pid: u32) -> u64 {
    memory_kib(pid, "Pss")
}

fn memory_kib(pid: u32, name: &str) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("smaps_rollup");
    let line = rollup.lines().find(|line| line.starts_with(&format!("{name}:"))).expect("field");
    line.split_whitespace().nth(1).expect("value").parse().expect("number")
}

fn show(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |percent: usize| ms(times[(times.len() - 1) * percent / 100]);
    println!("{what}: p50 {:.1} ms, p90 {:.1} ms, max {:.1} ms", at(50), at(90), at(100));
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
