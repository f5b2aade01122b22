//! `lagging-host`: a host starts a guest, and the very entry that made it do so is the last one it hears. Its
//! daemon is killed and comes back, cut off, with a replica that has not seen that entry: one that says the VM is
//! off, or does not know it at all. The guest must not be touched, and is the same one when the network is whole.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use holm_api::vm::{Power, StopVm};
use holm_api::{CreateVm, Vm, VmStatus};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::stored::Stored;
use super::{Judged, Running};
use crate::checker::{Verdict, faults, whole};
use crate::harness::client::Call;
use crate::harness::process::Process;
use crate::harness::vms::tiny_vm;
use crate::harness::wait_for;
use crate::history::{Fault, FaultKind};
use crate::report::Counts;

const IMAGE: &str = "guest";
const LIMIT: Duration = Duration::from_secs(60);
/// The agent looks at every VM more often than this.
const LOOKED_AT: Duration = Duration::from_secs(8);

#[derive(Serialize, Deserialize)]
pub(super) struct Evidence {
    touched: Vec<String>,
    /// Rounds in which the host came back with a replica that lagged behind what ran there.
    lagged: u64,
    ended: Vec<String>,
    left: Vec<String>,
}

pub(super) async fn run(running: &mut Running) -> Result<Evidence> {
    let mut client = running.cluster.daemons[0].client();
    client.import_kernel(IMAGE, running.cluster.test_guest("banner")?).await?;
    client.create_tiny_flavor().await?;
    let (mut touched, mut lagged, mut ended) = (Vec::new(), 0, Vec::new());
    for round in 0..running.options.rounds {
        let leader = running.cluster.leader().await?;
        // Every third time the leader's own host, which then has to hand over.
        let host = (leader + usize::try_from(round)?) % running.cluster.daemons.len();
        let name = format!("v{round}");
        let path = format!("/v1/vms/{name}");
        let wanted =
            CreateVm { node: Some(running.cluster.daemons[host].name.clone()), ..tiny_vm(&name, IMAGE) };
        let is_new = round % 2 == 1;
        let mut at_host = running.cluster.daemons[host].client();
        at_host.call::<Vm>(Call::post("/v1/vms", &wanted)).await?;
        if !is_new {
            at_host.wait_status(&name, VmStatus::Active, LIMIT).await?;
            let stop = StopVm { force: true, timeout_s: None };
            at_host.call::<Vm>(Call::post(format!("{path}/stop"), &stop)).await?;
            at_host.wait_status(&name, VmStatus::Shutoff, LIMIT).await?;
            at_host.call::<Vm>(Call::post(format!("{path}/start"), &json!({}))).await?;
        }
        let mut fault = Fault::new(
            FaultKind::PartitionKill,
            running.cluster.daemons[host].name.clone(),
            host == leader,
            running.journal.now_ns(),
        );
        let guest = first_process(running, host, &name).await?;
        // At once: what it would append next also says how far the log is committed.
        running.cluster.daemons[host].kill()?;
        running.cluster.cut_off(host)?;
        running.cluster.daemons[host].start()?;
        fault.took_hold = true;
        running.journal.write(&json!({"type": "fault", "fault": fault}));
        lagged += u64::from(lags(running, host, &name).await?);
        tokio::time::sleep(LOOKED_AT).await;
        touched.extend(ended_words(&guest, &name, "while its host was cut off"));
        running.cluster.heal_network()?;
        running.cluster.wait_ready(host).await?;
        if !touched.is_empty() {
            fault.healed_ns = Some(running.journal.now_ns());
            running.journal.write(&json!({"type": "healed", "fault": fault}));
            break;
        }
        running.cluster.wait_whole().await?;
        running.cluster.daemons[host].client().wait_status(&name, VmStatus::Active, LIMIT).await?;
        touched.extend(ended_words(&guest, &name, "when its host was back"));
        fault.healed_ns = Some(running.journal.now_ns());
        running.journal.write(&json!({"type": "healed", "fault": fault}));
        ended.extend(running.cluster.revive()?);
        running.cluster.daemons[host].client().delete_vm(&name, LIMIT).await?;
    }
    let left = running.cluster.shut_down();
    Ok(Evidence { touched, lagged, ended, left })
}

/// The VMM, as soon as there is one.
async fn first_process(running: &Running, host: usize, name: &str) -> Result<Process> {
    let endpoint = running.cluster.daemons[host].endpoint();
    let id = crate::harness::Client::new(endpoint).get::<Vm>(&format!("/v1/vms/{name}")).await?.id;
    let began = Instant::now();
    loop {
        let found = running.cluster.vmms_of(host).into_iter().find(|(vm, _)| *vm == id);
        if let Some((_, process)) = found {
            return Ok(process);
        }
        ensure!(began.elapsed() < LIMIT, "{name} has no process");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Whether the replica that the host came back with does not say that the VM is to run.
async fn lags(running: &mut Running, host: usize, name: &str) -> Result<bool> {
    let endpoint = running.cluster.daemons[host].endpoint();
    let path = format!("/v1/vms/{name}?consistency=stale");
    let record = wait_for("the daemon to answer", LIMIT, || async {
        let mut client = crate::harness::Client::new(endpoint);
        match client.call::<Vm>(Call::get(&path)).await {
            Ok(reply) => Ok(Some(Some(reply.body))),
            Err(error) if error.code() == Some(holm_api::Code::NotFound) => Ok(Some(None)),
            Err(_) => Ok(None),
        }
    });
    let record = record.await.context("the replica of a host that is cut off")?;
    Ok(record.is_none_or(|vm| vm.power != Power::On || vm.node.is_none()))
}

fn ended_words(guest: &Process, name: &str, when: &str) -> Option<String> {
    (!guest.is_alive()).then(|| format!("the guest of {name} (process {}) was ended {when}", guest.pid))
}

pub(super) fn judge(stored: &Stored<Evidence>) -> Result<Judged> {
    let (evidence, faults) = (&stored.evidence, stored.faults()?);
    let figures = format!("{} of {} times the replica lagged", evidence.lagged, faults.len());
    let untouched = match (evidence.touched.is_empty(), evidence.lagged) {
        (true, 0) => Verdict { figures, ..Verdict::unknown("untouched", "no replica lagged") },
        _ => Verdict::of("untouched", evidence.touched.clone(), figures),
    };
    let verdicts = vec![
        untouched,
        faults::check(stored.parameters.expected(&faults), &faults),
        whole::check(&evidence.ended, &evidence.left),
    ];
    let counts = Counts { faults: faults.len(), ok: faults.len() as u64, ..Counts::default() };
    Ok(Judged { verdicts, figures: Vec::new(), counts })
}
