//! VMs that are stopped, started and rebooted all the time, through random nodes and without waiting for what
//! came of it. In the end each is asked to be on; whatever happened on the way, it must get there.

use holm_api::vm::{Power, RebootVm, StopVm};
use holm_api::{Code, Vm, VmStatus};
use rand::Rng;
use rand::rngs::StdRng;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::vm_lifecycle::IMAGE;
use super::{Nodes, Target, patience, think};
use crate::harness::client::{Call as Request, Error};
use crate::harness::vms::tiny_vm;

/// Begins the names of these VMs.
pub const PREFIX: &str = "power-";
const THINK_MS: u64 = 400;

/// What was asked of one VM.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Asked {
    pub name: String,
    /// Requests that were accepted, by kind.
    pub stops: u64,
    pub starts: u64,
    pub reboots: u64,
    /// The VM was created, and at the end it was asked to be on, or said that it is.
    pub on: bool,
}

/// Works on VM `index` until told to stop, and then until it is asked to be on.
pub async fn client(index: u64, targets: Vec<Target>, mut rng: StdRng, stop: CancellationToken) -> Asked {
    let mut nodes = Nodes::new(&targets);
    let mut asked = Asked { name: format!("{PREFIX}{index}"), ..Asked::default() };
    let path = format!("/v1/vms/{}", asked.name);
    let rng = &mut rng;
    while !create(&mut nodes, &asked.name, rng).await {
        if stop.is_cancelled() {
            return asked;
        }
        think(rng, THINK_MS).await;
    }
    while !stop.is_cancelled() {
        think(rng, THINK_MS).await;
        let (of, request) = match rng.random_range(0..4) {
            0 | 1 => {
                let timeout_s = rng.random_bool(0.2).then_some(1);
                let body = StopVm { force: timeout_s.is_none(), timeout_s };
                (&mut asked.stops, Request::post(format!("{path}/stop"), &body))
            }
            2 => (&mut asked.starts, Request::post(format!("{path}/start"), &json!({}))),
            _ => {
                let body = RebootVm { hard: true, timeout_s: None };
                (&mut asked.reboots, Request::post(format!("{path}/reboot"), &body))
            }
        };
        let limit = patience(rng);
        let (_, node) = nodes.pick(rng);
        if node.call::<Vm>(request.limit(limit)).await.is_ok() {
            *of += 1;
        }
    }
    // Refused when it is on already; the record then says so.
    for _ in 0..200 {
        let (_, node) = nodes.pick(rng);
        match node.call::<Vm>(Request::post(format!("{path}/start"), &json!({}))).await {
            Ok(_) => asked.on = true,
            Err(error) if error.code() == Some(Code::WrongState) => {
                let vm = node.call::<Vm>(Request::get(&path)).await;
                asked.on = vm.is_ok_and(|vm| vm.body.power == Power::On);
            }
            Err(_) => {}
        }
        if asked.on {
            break;
        }
        think(rng, THINK_MS).await;
    }
    asked
}

async fn create(nodes: &mut Nodes, name: &str, rng: &mut StdRng) -> bool {
    let request = Request::post("/v1/vms", &tiny_vm(name, IMAGE)).key(format!("create-{name}"));
    let (_, node) = nodes.pick(rng);
    match node.call::<Vm>(request.limit(patience(rng))).await {
        Ok(_) => true,
        Err(Error::Refused(_) | Error::NotSent(_) | Error::Unknown(_)) => false,
    }
}

/// Whether such a VM is where it was asked to be.
pub fn is_on(vm: &Vm) -> bool {
    vm.status == VmStatus::Active && vm.task_state.is_none()
}
