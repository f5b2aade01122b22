//! From the request until the guest's first byte, through Holm and through Cloud Hypervisor alone, on the
//! same guest.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::json;

use super::report::{Measurement, Sample};
use crate::client::Client;
use crate::dev_cluster::DevCluster;
use crate::interrupt;
use crate::process::Running;

const LIMIT: Duration = Duration::from_secs(30);

/// Cloud Hypervisor alone: from its start to the first byte on its serial line.
///
/// # Errors
/// When it prints nothing.
pub fn bare(guest: &Path, rounds: usize) -> anyhow::Result<Vec<Measurement>> {
    let mut ms = Vec::new();
    for _ in 0..rounds {
        interrupt::check()?;
        let start = Instant::now();
        let mut vmm = Command::new("cloud-hypervisor");
        vmm.arg("--kernel")
            .arg(guest)
            .args(["--cpus", "boot=1", "--memory", "size=16M", "--console", "off", "--serial", "tty"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = Running::start(&mut vmm)?;
        let mut first = [0];
        let output = child.0.stdout.as_mut().context("its output is piped")?;
        if output.read(&mut first)? == 0 {
            bail!("cloud-hypervisor ended before its guest printed anything");
        }
        ms.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let sample = Sample::new(ms).context("no rounds")?;
    Ok(vec![Measurement::spread(
        "bare Cloud Hypervisor → first guest byte",
        "ms",
        &sample,
        "no shim, no log",
    )])
}

/// `POST /v1/vms` until the log has a byte, as a client sees both.
///
/// # Errors
/// When a guest prints nothing.
pub fn holm(cluster: &DevCluster, rounds: usize) -> anyhow::Result<Vec<Measurement>> {
    let client = Client::new(&cluster.leader()?.endpoint(), LIMIT);
    let mut ms = Vec::new();
    // The first VM on each node also fetches the image there.
    for node in cluster.nodes()? {
        first_byte(&client, &format!("warm-{}", node.name), Some(&node.name))?;
    }
    for round in 0..rounds {
        ms.push(first_byte(&client, &format!("boot-{round}"), None)?.as_secs_f64() * 1e3);
    }
    let sample = Sample::new(ms).context("no rounds")?;
    let note = "target: bare + 15; POST until the log has a byte";
    Ok(vec![Measurement::spread("create → first guest byte", "ms", &sample, note)])
}

fn first_byte(client: &Client, name: &str, node: Option<&str>) -> anyhow::Result<Duration> {
    let log = format!("/v1/vms/{name}/log?bytes=1");
    let start = Instant::now();
    client.post("/v1/vms", &json!({ "name": name, "flavor": "bench", "image": "guest", "node": node }))?;
    let printed = loop {
        interrupt::check()?;
        // Refused until it is placed.
        if client.get_bytes(&log).is_ok_and(|bytes| !bytes.is_empty()) {
            break start.elapsed();
        }
        if start.elapsed() > LIMIT {
            bail!("the guest of {name} printed nothing");
        }
        thread::sleep(Duration::from_micros(500));
    };
    client.delete(&format!("/v1/vms/{name}"))?;
    let gone = || Ok(client.get(&format!("/v1/vms/{name}")).is_err().then_some(()));
    interrupt::wait_for("the VM to be gone", LIMIT, gone)?;
    Ok(printed)
}
