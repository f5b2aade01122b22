//! `cargo xtask bench`: what the design has a budget for, in one run and one table. Daemons, command line
//! and the load's clients are release builds; daemons keep their data on the disk of the target folder,
//! fsync included.

mod boot;
mod creates;
mod etcd;
mod failover;
mod load;
mod memory;
mod placement;
mod report;
mod writes;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use report::{Measurement, Report};

use crate::dev_cluster::DevCluster;
use crate::process;
use crate::workspace::{self, Profile, Programs};

#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// Also write the table as JSON: a list of `{name, unit, value, p50, p99, max, note}`.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Fewer rounds: for a look, not for a comparison.
    #[arg(long)]
    quick: bool,
    /// Only this part.
    #[arg(long, value_name = "PART")]
    only: Option<Part>,
}

/// What may be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// What a placement decision costs.
    Placement,
    /// Replicated writes, beside etcd's.
    Writes,
    /// VMs created, placed and committed; leaders killed.
    Creates,
    /// Real guests and their shims.
    Guests,
}

impl Arguments {
    fn wants(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }
}

/// How much of everything.
struct Extent {
    write_time: Duration,
    creates: usize,
    batch: usize,
    boots: usize,
    kills: usize,
}

impl Extent {
    fn of(arguments: &Arguments) -> Self {
        if arguments.quick {
            Self { write_time: Duration::from_secs(2), creates: 20, batch: 500, boots: 3, kills: 2 }
        } else {
            Self { write_time: Duration::from_secs(10), creates: 300, batch: 5_000, boots: 30, kills: 10 }
        }
    }
}

const CLIENTS: [usize; 3] = [1, 64, 256];
/// Clients that create VMs, and how many a request.
const LOADS: [(usize, usize); 3] = [(64, 1), (8, 50), (8, 100)];

/// Measures and prints.
///
/// # Errors
/// When something cannot be measured that should be.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if cfg!(debug_assertions) {
        return run_as_release(arguments);
    }
    let programs = workspace::build(Profile::Release)?;
    let mut report = Report::default();
    let result = measure(&programs, arguments, &mut report);
    // What was measured before a failure is shown too.
    println!();
    report.print();
    if let Some(file) = &arguments.json {
        report.write_json(file)?;
    }
    result
}

/// A slow client would measure itself.
fn run_as_release(arguments: &Arguments) -> anyhow::Result<()> {
    let mut again = workspace::cargo(&["run", "--quiet", "--release", "--package", "xtask", "--", "bench"]);
    if arguments.quick {
        again.arg("--quick");
    }
    if let Some(part) = arguments.only.and_then(|part| part.to_possible_value()) {
        again.args(["--only", part.get_name()]);
    }
    if let Some(file) = &arguments.json {
        again.arg("--json").arg(std::path::absolute(file)?);
    }
    process::show(&mut again)
}

fn measure(programs: &Programs, arguments: &Arguments, report: &mut Report) -> anyhow::Result<()> {
    let extent = Extent::of(arguments);
    let parent = programs.holmd.ancestors().nth(2).context("the target folder")?;

    if arguments.wants(Part::Placement) {
        eprintln!("placement decisions");
        report.add(placement::measure(arguments.quick)?);
    }
    let (writes, creates) = (arguments.wants(Part::Writes), arguments.wants(Part::Creates));
    if writes || creates {
        eprintln!("three daemons, hypervisor simulated");
        let cluster = DevCluster::up(programs, parent, 3, "simulated")?;
        report.add(memory::daemons(&cluster, "idle", "target < 50")?);
        if writes {
            measure_writes(&cluster, parent, &extent, report)?;
        }
        if creates {
            measure_creates(programs, &cluster, &extent, report)?;
        }
        cluster.down()?;
    }
    if arguments.wants(Part::Guests) {
        measure_guests(programs, parent, &extent, report)?;
    }
    Ok(())
}

fn measure_creates(
    programs: &Programs,
    cluster: &DevCluster,
    extent: &Extent,
    report: &mut Report,
) -> anyhow::Result<()> {
    // Room for as many VMs as the batch has: nothing runs, so the host's own size is no limit.
    cluster.reconfigure(&[("cpu_allocation_ratio", "1000.0"), ("ram_allocation_ratio", "1000.0")])?;
    prepare(programs, cluster)?;
    report.add(creates::one_by_one(cluster, extent.creates)?);
    for (clients, count) in LOADS {
        report.add(creates::batch(cluster, creates::Load { clients, count }, extent.batch)?);
    }
    report.add(memory::daemons(cluster, "after the load", "the log's cache and the window included")?);
    report.add(failover::measure(cluster, extent.kills)?);
    Ok(())
}

/// Holm's writes, and etcd's in turn with them, so that both meet the machine in the same mood.
fn measure_writes(
    cluster: &DevCluster,
    parent: &Path,
    extent: &Extent,
    report: &mut Report,
) -> anyhow::Result<()> {
    let folder = tempfile::Builder::new().prefix("etcd-").tempdir_in(parent)?;
    let etcd = etcd::Etcd::start(folder.path())?;
    if etcd.is_none() {
        report.note("etcd is not on PATH: there is nothing to compare the writes with".to_owned());
    }
    for clients in CLIENTS {
        let name = format!("Holm, replicated writes, {clients} clients");
        let holm = load::run(&name, writes::writers(cluster, clients)?, extent.write_time)?;
        let ours = holm.value;
        report.add([holm]);
        if let Some(etcd) = &etcd {
            let name = format!("etcd, replicated writes, {clients} clients");
            let theirs = load::run(&name, etcd.writers(clients), extent.write_time)?;
            let ratio = ours / theirs.value;
            report.add([Measurement { note: format!("{}; {}", etcd.version, theirs.note), ..theirs }]);
            let target = if clients == 64 { "target > 1" } else { "" };
            report.add([Measurement::number(&format!("Holm / etcd, {clients} clients"), "×", ratio, target)]);
        }
    }
    Ok(())
}

/// A flavor and an image to make VMs of.
fn prepare(programs: &Programs, cluster: &DevCluster) -> anyhow::Result<PathBuf> {
    let guest = cluster.scratch().join("guest.elf");
    process::capture(Command::new(&programs.holmd).args(["test-guest", "--variant", "banner"]).arg(&guest))?;
    let flavor = ["flavor", "create", "bench", "--vcpus", "1", "--memory-mib", "16", "--disk-gib", "0"];
    process::capture(&mut cluster.holm(&flavor)?)?;
    let image = ["image", "import", "--name", "guest", "--kind", "kernel"];
    process::capture(cluster.holm(&image)?.arg(&guest))?;
    Ok(guest)
}

fn measure_guests(
    programs: &Programs,
    parent: &Path,
    extent: &Extent,
    report: &mut Report,
) -> anyhow::Result<()> {
    if let Err(reason) = real_guests() {
        report.note(format!("no real guests, so neither boot times nor shims: {reason:#}"));
        return Ok(());
    }
    eprintln!("three daemons, Cloud Hypervisor");
    let cluster = DevCluster::up(programs, parent, 3, "cloud-hypervisor")?;
    let guest = prepare(programs, &cluster)?;
    report.add(boot::bare(&guest, extent.boots)?);
    report.add(boot::holm(&cluster, extent.boots)?);
    for n in 0..3 {
        let name = format!("resident-{n}");
        process::capture(
            &mut cluster.holm(&["vm", "create", &name, "--flavor", "bench", "--image", "guest"])?,
        )?;
    }
    report.add(memory::shims(&cluster)?);
    cluster.down()
}

/// Whether guests can run here.
fn real_guests() -> anyhow::Result<()> {
    process::capture(Command::new("cloud-hypervisor").arg("--version"))?;
    fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").context("cannot open /dev/kvm")?;
    Ok(())
}
