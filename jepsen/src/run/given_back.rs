//! `given-back`: a host cannot build a VM and gives it back. The entry that takes its claim away is the last one that
//! the host hears: its daemon is killed at once and comes back, cut off, with a replica that still shows the claim,
//! on a host that could build the VM by now. The cluster has given the VM up, or to another host: here it must not
//! start, however long nobody can be asked (FENCING.md, rules 2 and 13).

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use holm_api::{ClusterPolicy, CreateVm, PatchClusterPolicy, Vm, VmStatus};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::stored::Stored;
use super::{Judged, Running};
use crate::checker::{Verdict, faults, whole};
use crate::harness::client::Call;
use crate::harness::vms::tiny_vm;
use crate::harness::wait_for;
use crate::history::{Fault, FaultKind};
use crate::report::Counts;

const LIMIT: Duration = Duration::from_secs(60);
/// A host without a quorum leaves alone what it had for so long.
const AUTOSTART_WAIT_MS: u64 = 2_000;
/// After that the agent looks at every VM more often than this.
const LOOKED_AT: Duration = Duration::from_secs(8);
/// What the host's copy of the image begins with, for as long as nothing can be built from it.
const SPOILT: [u8; 4] = *b"none";

#[derive(Serialize, Deserialize)]
pub(super) struct Evidence {
    /// VMs that ran where they had been given back, each time.
    started: Vec<String>,
    /// Rounds in which the host came back with a replica that still showed the claim.
    lagged: u64,
    ended: Vec<String>,
    left: Vec<String>,
}

pub(super) async fn run(running: &mut Running) -> Result<Evidence> {
    let mut client = running.cluster.daemons[0].client();
    let policy =
        PatchClusterPolicy { autostart_wait_ms: Some(AUTOSTART_WAIT_MS), ..PatchClusterPolicy::default() };
    client.call::<ClusterPolicy>(Call::patch("/v1/policy", &policy)).await?;
    client.create_tiny_flavor().await?;
    let guest = running.cluster.test_guest("banner")?;
    let (mut started, mut lagged, mut ended) = (Vec::new(), 0, Vec::new());
    for round in 0..running.options.rounds {
        let leader = running.cluster.leader().await?;
        let nodes = running.cluster.daemons.len();
        // Every third time the leader's own host, which then has to hand over.
        let host = (leader + usize::try_from(round)?) % nodes;
        let other = (host + 1) % nodes;
        let name = format!("v{round}");
        let copy = spoilt_copy(running, host, &name, &guest).await?;
        let mut fault = Fault::new(
            FaultKind::PartitionKill,
            running.cluster.daemons[host].name.clone(),
            host == leader,
            running.journal.now_ns(),
        );
        given_back(running, other, host, &name).await?;
        running.cluster.daemons[host].kill()?;
        running.cluster.cut_off(host)?;
        overwrite(&copy, &guest[..SPOILT.len()])?;
        running.cluster.daemons[host].start()?;
        fault.took_hold = true;
        running.journal.write(&json!({"type": "fault", "fault": fault}));
        if shows_the_claim(running, host, &name).await? {
            lagged += 1;
            let look = Duration::from_millis(AUTOSTART_WAIT_MS) + LOOKED_AT;
            started.extend(process_within(running, host, &name, look).await);
        }
        running.cluster.heal_network()?;
        running.cluster.wait_ready(host).await?;
        running.cluster.wait_whole().await?;
        fault.healed_ns = Some(running.journal.now_ns());
        running.journal.write(&json!({"type": "healed", "fault": fault}));
        ended.extend(running.cluster.revive()?);
        running.cluster.daemons[other].client().delete_vm(&name, LIMIT).await?;
    }
    let left = running.cluster.shut_down();
    Ok(Evidence { started, lagged, ended, left })
}

/// Imports an image through the host, which then has a copy, and spoils that.
async fn spoilt_copy(running: &Running, host: usize, name: &str, guest: &[u8]) -> Result<PathBuf> {
    // Another image each round: what follows the program is nobody's business.
    let bytes = [guest, name.as_bytes()].concat();
    let daemon = &running.cluster.daemons[host];
    let image = daemon.client().import_kernel(&format!("image-{name}"), bytes).await?;
    let copy = daemon.data_dir().join("images").join(&image.sha256);
    ensure!(copy.is_file(), "{} has no copy of its image at {}", daemon.name, copy.display());
    overwrite(&copy, &SPOILT)?;
    Ok(copy)
}

fn overwrite(file: &Path, bytes: &[u8]) -> Result<()> {
    let open = std::fs::OpenOptions::new().write(true).open(file);
    open.and_then(|open| open.write_all_at(bytes, 0)).with_context(|| file.display().to_string())
}

/// The VM, which only that host may have, was placed there and given back.
async fn given_back(running: &Running, other: usize, host: usize, name: &str) -> Result<()> {
    let wanted = CreateVm {
        node: Some(running.cluster.daemons[host].name.clone()),
        ..tiny_vm(name, &format!("image-{name}"))
    };
    let mut client = running.cluster.daemons[other].client();
    client.call::<Vm>(Call::post("/v1/vms", &wanted)).await?;
    let began = Instant::now();
    loop {
        let vm: Vm = client.get(&format!("/v1/vms/{name}?consistency=stale")).await?;
        if vm.status == VmStatus::Error && vm.node.is_none() {
            return Ok(());
        }
        ensure!(began.elapsed() < LIMIT, "{name} was not given back: {vm:#?}");
        // At once: the next entry that the host appends also says how far the log is committed.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Whether the replica that the host came back with still says that the VM is its own.
async fn shows_the_claim(running: &Running, host: usize, name: &str) -> Result<bool> {
    let daemon = &running.cluster.daemons[host];
    let path = format!("/v1/vms/{name}?consistency=stale");
    let record = wait_for("the daemon to answer", LIMIT, || async {
        match daemon.client().call::<Vm>(Call::get(&path)).await {
            Ok(reply) => Ok(Some(Some(reply.body))),
            Err(error) if error.code() == Some(holm_api::Code::NotFound) => Ok(Some(None)),
            Err(_) => Ok(None),
        }
    });
    let record = record.await.context("the replica of a host that is cut off")?;
    Ok(record.is_some_and(|vm| vm.node.as_ref() == Some(&daemon.name)))
}

/// The violation, if the operating system shows a process of a VM on that host. The only one there: others are gone.
async fn process_within(running: &Running, host: usize, name: &str, limit: Duration) -> Option<String> {
    let node = &running.cluster.daemons[host].name;
    let found = wait_for("a process", limit, || async { Ok(running.cluster.vmms_of(host).pop()) }).await;
    let (vm, process) = found.ok()?;
    Some(format!("{name} ({vm}) was given back by {node} and runs there, as process {}", process.pid))
}

pub(super) fn judge(stored: &Stored<Evidence>) -> Result<Judged> {
    let (evidence, faults) = (&stored.evidence, stored.faults()?);
    let figures = format!("{} of {} times the replica still showed the claim", evidence.lagged, faults.len());
    let given_back = match (evidence.started.is_empty(), evidence.lagged) {
        (true, 0) => Verdict { figures, ..Verdict::unknown("given-back", "no replica lagged") },
        _ => Verdict::of("given-back", evidence.started.clone(), figures),
    };
    let verdicts = vec![
        given_back,
        faults::check(stored.parameters.expected(&faults), &faults),
        whole::check(&evidence.ended, &evidence.left),
    ];
    let counts = Counts { faults: faults.len(), ok: faults.len() as u64, ..Counts::default() };
    Ok(Judged { verdicts, figures: Vec::new(), counts })
}
