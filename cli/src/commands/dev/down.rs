//! `holm dev down`: VMs first, through the API, so that their processes end in order; then the daemons, by
//! id and start time; then the data. Data is kept when anything is left, and what is left is named.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use holm_api::{Deleted, Vm, VmListQuery, VmStatus};
use hyper::Method;
use nix::sys::signal::Signal;
use tokio::time::sleep;

use super::lock::Lock;
use super::record::{DevCluster, DevNode};
use super::{daemon, directory, process, say};
use crate::args::dev::Down;
use crate::client::{Client, path};
use crate::error::Error;
use crate::output::text;
use crate::output::{Output, note};
use crate::progress::Progress;

/// For the cluster to delete every VM.
const VMS_LIMIT: Duration = Duration::from_secs(60);
/// For a daemon to stop when asked.
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// For a killed process to be gone.
const KILL_LIMIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);

pub async fn run(output: &Output, typed: &Down) -> Result<(), Error> {
    let dir = directory(&typed.dir)?;
    DevCluster::expect(&dir)?;
    let lock = Lock::take(&dir)?;
    // Read again: another `dev` may have changed it before the lock was free.
    let mut cluster = DevCluster::expect(&dir)?;
    let mut progress = Progress::new();
    let mut vms_left = None;
    if !typed.keep {
        progress.step("deleting VMs");
        revive(&mut cluster, &dir);
        vms_left = delete_vms(&cluster).await.err().map(|error| error.to_string());
    }
    progress.step("stopping the daemons");
    for node in &cluster.nodes {
        if let Some(process) = node.process {
            process.signal(Signal::SIGTERM);
        }
    }
    for node in &cluster.nodes {
        stopped(node).await;
    }
    progress.clear();
    let left = left(&dir, &cluster);
    if typed.keep {
        for (pid, command) in &left {
            note(&format!("still running: {pid} {command}"));
        }
        return say(output, &format!("stopped; the data is kept in {}", dir.display()));
    }
    if !left.is_empty() {
        let listed: Vec<_> = left.iter().map(|(pid, command)| format!("\n  {pid} {command}")).collect();
        let vms = vms_left.map(|why| format!(" (VMs were not deleted: {why})")).unwrap_or_default();
        return Err(Error::Failed {
            detail: format!("the daemons are stopped, but these processes are left{vms}:{}", listed.concat()),
            hint: Some(format!(
                "the data is kept in {}; `holm dev up` goes on with it. What belongs to a node that was removed \
                 ends only by hand: `kill -9 {}`, then `holm dev down` again",
                dir.display(),
                left.iter().map(|(pid, _)| pid.to_string()).collect::<Vec<_>>().join(" ")
            )),
        });
    }
    lock.remove()?;
    let what = match remove(&dir, &cluster)? {
        true => format!("{} removed", dir.display()),
        false => format!("the cluster's data removed; other files stay in {}", dir.display()),
    };
    say(output, &format!("stopped; {what}"))
}

/// Starts the daemons that died, all of them, when VMs are left on any node: only their own daemon can end
/// those in order, and only a quorum can tell it to. Those that do not start are found by what they leave.
fn revive(cluster: &mut DevCluster, dir: &Path) {
    let Ok(holmd) = daemon::find() else { return };
    let daemons: Vec<_> = cluster.nodes.iter().filter_map(|node| Some(node.process?.pid)).collect();
    if left(dir, cluster).iter().all(|(pid, _)| daemons.contains(pid)) {
        return;
    }
    for at in 0..cluster.nodes.len() {
        if cluster.nodes[at].is_running() || !cluster.nodes[at].prepared {
            continue;
        }
        if let Err(error) = cluster.start(at, dir, &holmd) {
            note(&error.to_string());
        }
    }
}

/// Deletes every VM and waits until none is left.
async fn delete_vms(cluster: &DevCluster) -> Result<(), Error> {
    if !cluster.nodes.iter().any(DevNode::is_running) {
        return Ok(());
    }
    let (client, start) = (cluster.client(), Instant::now());
    // Daemons that were just started need a moment to find a leader.
    let may_pass = |error: &Error| {
        let running = cluster.nodes.iter().filter(|node| node.is_running()).count();
        matches!(error, Error::Unreachable { .. } | Error::OutcomeUnknown { .. })
            && running > cluster.nodes.len() / 2
            && start.elapsed() < VMS_LIMIT
    };
    let every = VmListQuery { all_projects: true, ..VmListQuery::default() };
    loop {
        let vms: Vec<Vm> = match client.list("/v1/vms", &every).await {
            Err(error) if may_pass(&error) => continue,
            other => other?,
        };
        if vms.is_empty() {
            return Ok(());
        }
        if start.elapsed() > VMS_LIMIT {
            let names: Vec<_> = vms.iter().map(|vm| vm.name.as_str()).collect();
            return Err(Error::failed(format!(
                "not gone after {}: {}",
                text::span(VMS_LIMIT),
                names.join(", ")
            )));
        }
        let waits_for_nobody = |vm: &Vm| {
            let runs =
                |name: &String| cluster.nodes.iter().any(|node| node.name == *name && node.is_running());
            vm.status == VmStatus::Deleting && vm.node.as_ref().is_some_and(|name| !runs(name))
        };
        if vms.iter().all(waits_for_nobody) {
            let names: Vec<_> = vms.iter().map(|vm| vm.name.as_str()).collect();
            return Err(Error::failed(format!(
                "the daemon of their node does not run: {}",
                names.join(", ")
            )));
        }
        for vm in vms.iter().filter(|vm| vm.status != VmStatus::Deleting) {
            match delete(&client, vm).await {
                Err(error) if may_pass(&error) => break,
                other => other?,
            }
        }
        sleep(PAUSE).await;
    }
}

async fn delete(client: &Client, vm: &Vm) -> Result<(), Error> {
    let target = path::of("vms", &vm.id.to_string(), "")?;
    match client.write::<Deleted>(Method::DELETE, &target, &(), "holm vm list").await {
        Err(Error::Problem(problem)) if problem.code == holm_api::Code::NotFound => Ok(()),
        other => other.map(drop),
    }
}

/// Waits for a daemon that was asked to stop, and kills it if it does not.
async fn stopped(node: &DevNode) {
    let Some(process) = node.process else { return };
    if process.ended_within(STOP_LIMIT).await {
        return;
    }
    note(&format!("{} does not stop; killing process {}", node.name, process.pid));
    process.signal(Signal::SIGKILL);
    process.ended_within(KILL_LIMIT).await;
}

fn left(dir: &Path, cluster: &DevCluster) -> Vec<(i32, String)> {
    let run_dirs =
        cluster.nodes.iter().map(|node| node.run_dir.as_path()).filter(|run| !run.starts_with(dir));
    let mut left: Vec<_> = std::iter::once(dir).chain(run_dirs).flat_map(process::working_in).collect();
    left.sort();
    left.dedup();
    left
}

/// Removes what `up` has made, and nothing else that may lie in the directory; true when nothing else does.
fn remove(dir: &Path, cluster: &DevCluster) -> Result<bool, Error> {
    for node in &cluster.nodes {
        for made in [Some(node.run_dir.as_path()), node.log.parent()].into_iter().flatten() {
            if made.exists() {
                fs::remove_dir_all(made).map_err(Error::file("remove", made))?;
            }
        }
    }
    DevCluster::remove_file(dir)?;
    // Stays if somebody keeps other things in it.
    Ok(fs::remove_dir(dir).is_ok())
}
