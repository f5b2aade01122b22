//! `cargo xtask demo`: from a clean clone to a killed leader, shown step by step with the commands a user
//! would type. Everything lives in a temporary folder and is gone at the end, also after a failure or
//! Ctrl-C; two demos at once do not meet.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::dev_cluster::{DevCluster, DevNode};
use crate::interrupt;
use crate::probe;
use crate::process;
use crate::workspace::{self, Profile};

/// VMs before the leader dies.
const VMS: usize = 3;

/// Runs the demo.
///
/// # Errors
/// When any step does not do what it should.
pub fn run() -> anyhow::Result<()> {
    step("Building holmd and holm");
    let programs = workspace::build(Profile::Dev)?;
    let start = Instant::now();

    step("Starting three nodes");
    let cluster = DevCluster::up(&programs, &std::env::temp_dir(), 3, "auto")?;
    holm(&cluster, &["node", "list"])?;
    let simulated = say_hypervisor(&cluster)?;

    step("Importing the test guest: an ELF file of a few hundred bytes that prints one line and halts");
    import_guest(&cluster)?;

    step("Creating VMs, each through another node");
    holm(&cluster, &["flavor", "create", "tiny", "--vcpus", "1", "--memory-mib", "64", "--disk-gib", "0"])?;
    for n in 1..=VMS {
        create_vm(&cluster, &cluster.nodes()?[(n - 1) % 3], &format!("demo-{n}"))?;
    }
    holm(&cluster, &["vm", "list"])?;
    first_console_line(&cluster, "demo-1", simulated)?;

    step("Killing the leader with SIGKILL");
    let leader = cluster.leader()?;
    println!("{} leads, pid {}: kill -9", leader.name, leader.process.pid);
    let unavailable = kill_leader(&cluster, &leader)?;
    println!(
        "writes were unavailable for {} ms (from the kill to the first acknowledged write)",
        unavailable.as_millis()
    );

    step("Creating another VM");
    let survivor = cluster.nodes()?.into_iter().find(|node| node.name != leader.name);
    create_vm(&cluster, &survivor.context("three nodes were started")?, "demo-after")?;
    holm(&cluster, &["vm", "list"])?;
    first_console_line(&cluster, "demo-after", simulated)?;

    step("Starting the killed node again");
    cluster.start_missing()?;
    holm(&cluster, &["node", "list"])?;
    holm(&cluster, &["vm", "list"])?;

    step("Cleaning up");
    cluster.down()?;
    let guests = if simulated { "simulated guests" } else { "real guests on Cloud Hypervisor" };
    println!(
        "nothing is left: no process, no socket, no folder\n\ndemo: well, with {guests}, in {:.1} s after the build; \
         writes were unavailable for {} ms when the leader was killed",
        start.elapsed().as_secs_f64(),
        unavailable.as_millis()
    );
    Ok(())
}

fn step(what: &str) {
    println!("\n== {what}");
}

/// Shows a command as typed and what it prints.
fn holm(cluster: &DevCluster, arguments: &[&str]) -> anyhow::Result<()> {
    println!("$ holm {}", arguments.join(" "));
    print!("{}", process::capture(&mut cluster.holm(arguments)?)?);
    Ok(())
}

/// Says which hypervisor the nodes drive, and true if it is the simulated one.
fn say_hypervisor(cluster: &DevCluster) -> anyhow::Result<bool> {
    let text = process::capture(&mut cluster.holm(&["node", "list", "-o", "json"])?)?;
    let nodes: Value = serde_json::from_str(&text).context("`holm node list -o json` printed no JSON")?;
    let nodes = nodes.as_array().or_else(|| nodes["items"].as_array()).context("no list of nodes")?;
    let simulated = nodes.iter().find(|node| node["hypervisor"]["kind"] == "simulated");
    match simulated {
        Some(node) => {
            let reason = node["hypervisor"]["reason"].as_str().unwrap_or_default();
            println!("The hypervisor is simulated, no guest will run: {reason}");
        }
        None => {
            let version = nodes.first().and_then(|node| node["hypervisor"]["version"].as_str());
            println!("Guests are real: Cloud Hypervisor {}", version.unwrap_or("of unknown version"));
        }
    }
    Ok(simulated.is_some())
}

fn import_guest(cluster: &DevCluster) -> anyhow::Result<()> {
    let file = cluster.scratch().join("guest.elf");
    let file = file.to_str().context("the temporary folder's name is not UTF-8")?;
    holm(cluster, &["dev", "guest", file])?;
    holm(cluster, &["image", "import", file, "--name", "guest"])
}

fn create_vm(cluster: &DevCluster, through: &DevNode, name: &str) -> anyhow::Result<()> {
    let arguments = ["vm", "create", name, "--flavor", "tiny", "--image", "guest", "--timeout", "60s"];
    println!("$ holm --endpoint {} {}", through.endpoint(), arguments.join(" "));
    let start = Instant::now();
    let mut command = cluster.holm(&arguments)?;
    print!("{}", process::capture(command.env("HOLM_ENDPOINTS", through.endpoint()))?);
    let vm = vm(cluster, name)?;
    if vm["status"] != "ACTIVE" {
        bail!("{name} is {} after `holm vm create`: {vm}", vm["status"]);
    }
    println!("ACTIVE after {} ms", start.elapsed().as_millis());
    Ok(())
}

fn vm(cluster: &DevCluster, name: &str) -> anyhow::Result<Value> {
    let text = process::capture(&mut cluster.holm(&["vm", "show", name, "-o", "json"])?)?;
    serde_json::from_str(&text).context("`holm vm show -o json` printed no JSON")
}

fn first_console_line(cluster: &DevCluster, name: &str, simulated: bool) -> anyhow::Result<()> {
    if simulated {
        println!("({name} has no console line to show: its hypervisor is simulated)");
        return Ok(());
    }
    println!("$ holm vm log {name}");
    let line = interrupt::wait_for("the guest's first console line", Duration::from_secs(30), || {
        let log = process::capture(&mut cluster.holm(&["vm", "log", name])?)?;
        Ok(log.split_once('\n').map(|(line, _)| line.trim().to_owned()).filter(|line| !line.is_empty()))
    })?;
    println!("{line}");
    Ok(())
}

fn kill_leader(cluster: &DevCluster, leader: &DevNode) -> anyhow::Result<Duration> {
    let others = cluster.nodes()?.into_iter().filter(|node| node.name != leader.name);
    let endpoints: Vec<String> = others.map(|node| node.endpoint()).collect();
    probe::unavailability("demo-probe", &endpoints, || cluster.kill(leader))
}
