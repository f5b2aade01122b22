//! What daemons, shims and VMMs hold in memory, as the kernel counts it.

use std::fs;

use anyhow::Context;

use super::report::{Measurement, Sample};
use crate::dev_cluster::DevCluster;
use crate::process;

/// In MiB.
struct Memory {
    resident: f64,
    private: f64,
}

/// The daemons, as they are now.
///
/// # Errors
/// When the kernel does not say.
pub fn daemons(cluster: &DevCluster, state: &str, target: &str) -> anyhow::Result<Vec<Measurement>> {
    let memory = cluster
        .nodes()?
        .iter()
        .map(|node| memory_of(node.process.pid))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let resident = memory.iter().map(|memory| memory.resident).collect();
    let private: Vec<f64> = memory.iter().map(|memory| memory.private).collect();
    let note = format!("{target}; private {:.1} at most", private.iter().copied().fold(0.0, f64::max));
    let sample = Sample::new(resident).context("no daemons")?;
    Ok(vec![Measurement::spread(&format!("daemon memory, {state}"), "MiB RSS", &sample, &note)])
}

/// The shims and VMMs of the VMs that run now.
///
/// # Errors
/// When there is none.
pub fn shims(cluster: &DevCluster) -> anyhow::Result<Vec<Measurement>> {
    let processes = process::processes_of(cluster.scratch());
    let private = |wanted: &dyn Fn(&str) -> bool| -> anyhow::Result<Sample> {
        let of = processes.iter().filter(|process| wanted(&process.command));
        let memory = of.map(|process| Ok(memory_of(process.pid)?.private)).collect::<anyhow::Result<_>>()?;
        Sample::new(memory).context("no such process")
    };
    let shims = private(&|command| command.split(' ').nth(1) == Some("shim"))?;
    let vmms = private(&|command| {
        command.split(' ').next().is_some_and(|program| program.ends_with("cloud-hypervisor"))
    })?;
    Ok(vec![
        Measurement::spread("shim memory", "MiB private", &shims, "target < 3"),
        Measurement::spread("VMM memory, guest included", "MiB private", &vmms, "Cloud Hypervisor's own"),
    ])
}

fn memory_of(pid: i32) -> anyhow::Result<Memory> {
    let file = format!("/proc/{pid}/smaps_rollup");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
    let mib = |field: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(field))?;
        Some(line.trim().trim_end_matches(" kB").parse::<f64>().ok()? / 1024.0)
    };
    let resident = mib("Rss:").context("no Rss")?;
    let private = mib("Private_Clean:").unwrap_or(0.0) + mib("Private_Dirty:").unwrap_or(0.0);
    Ok(Memory { resident, private })
}
