//! The users: they create, stop, start, reboot and delete VMs and change their availability, through
//! whichever node they reach, and remember what was acknowledged.

use std::collections::BTreeMap;

use holm_model::command::{Command, CreateVm, DeleteVm, SetVmPolicies, SetVmPower};
use holm_model::scheduling::Scheduling;
use holm_model::vm::{Availability, DiskLoss, OnNoHost, RestartPolicy, StopMode, VmPolicies, WantPower};
use holm_model::{Reply, VmId};
use uuid::Uuid;

use super::event::Event;
use super::log::Log;
use super::node::Waiting;
use super::sim::{NODES, Sim};
use super::start;

/// VMs that users ever ask for in one run.
const VMS_MAX: u128 = 14;

/// What users know of a VM they asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Intent {
    /// Its creation was acknowledged.
    pub created: bool,
    /// Its deletion was asked for, and acknowledged.
    pub deleting: bool,
    pub deleted: bool,
    /// It was in the state, and is no more.
    pub seen: bool,
    pub gone: bool,
}

/// All users together.
#[derive(Debug, Default)]
pub struct Client {
    pub vms: BTreeMap<VmId, Intent>,
    requests: Vec<Request>,
}

#[derive(Clone, Copy, Debug)]
enum Request {
    Create(VmId),
    Delete(VmId),
    Other,
}

impl Client {
    /// Whoever set the cluster up was here first.
    pub fn prepare(&mut self, log: &mut Log) {
        for entry in start::entries() {
            log.entries.push(entry);
            log.origins.push(None);
        }
    }
}

impl Sim {
    /// Somebody asks for something.
    pub fn ask(&mut self) {
        if self.healed_at.is_some() {
            return;
        }
        self.heap.push(self.now + 200 + self.rng.below(2_500), Event::Client);
        let node = self.rng.below(NODES as u64) as usize;
        if !self.runs(node) {
            return;
        }
        let (command, request) = self.next_request();
        let name = command.name();
        self.note(|| format!("a user asks n{} for {name}", node + 1));
        self.client.requests.push(request);
        let number = self.client.requests.len() as u64 - 1;
        self.propose(node, command, Waiting::Client(number));
    }

    fn next_request(&mut self) -> (Command, Request) {
        let known: Vec<VmId> = self.client.vms.keys().copied().collect();
        let kind = self.rng.below(10);
        if known.is_empty() || kind < 4 && (known.len() as u128) < VMS_MAX {
            return self.create(known.len() as u128 + 1);
        }
        let vm = known[self.rng.below(known.len() as u64) as usize];
        let command = match kind {
            4 | 5 => {
                if let Some(intent) = self.client.vms.get_mut(&vm) {
                    intent.deleting = true;
                }
                return (Command::DeleteVm(DeleteVm { vm, expected: None }), Request::Delete(vm));
            }
            6 | 7 => Command::SetVmPolicies(SetVmPolicies {
                admitted: None,
                vm,
                availability: Some(self.availability()),
                disk_loss: None,
                restart_policy: None,
                start_order: None,
                start_delay_s: None,
                any_node: false,
                expected: None,
            }),
            _ => {
                let on = self.rng.percent(60);
                Command::SetVmPower(SetVmPower {
                    vm,
                    want: if on { WantPower::On } else { WantPower::Off },
                    reboot: on && self.rng.percent(40),
                    stop: if self.rng.percent(50) {
                        StopMode::Force
                    } else {
                        StopMode::Graceful { timeout_s: 5 }
                    },
                    admitted: None,
                    expected: None,
                })
            }
        };
        (command, Request::Other)
    }

    fn availability(&mut self) -> Availability {
        if self.rng.percent(60) { Availability::Failover } else { Availability::Pinned }
    }

    fn create(&mut self, number: u128) -> (Command, Request) {
        let id = VmId(Uuid::from_u128(number));
        self.client.vms.insert(id, Intent::default());
        let restart_policy = match self.rng.below(3) {
            0 => RestartPolicy::Always,
            1 => RestartPolicy::OnFailure,
            _ => RestartPolicy::Never,
        };
        let policies = VmPolicies { disk_loss: DiskLoss::Recreate, restart_policy, ..VmPolicies::default() };
        let command = Command::CreateVm(CreateVm {
            admitted: None,
            volumes: Vec::new(),
            id,
            name: format!("vm-{number}"),
            flavor: start::flavor([1, 1, 2, 4][self.rng.below(4) as usize]),
            image: start::image(),
            kernel: None,
            cmdline: None,
            node: None,
            availability: self.availability(),
            policies,
            on_no_host: if self.rng.percent(80) { OnNoHost::Queue } else { OnNoHost::Fail },
            scheduling: Scheduling::default(),
        });
        (command, Request::Create(id))
    }

    /// The answer reaches the user.
    pub fn client_heard(&mut self, request: u64, reply: &Reply) {
        if !matches!(reply, Reply::Done(_)) {
            return;
        }
        self.figures.acknowledged += 1;
        match self.client.requests[request as usize] {
            Request::Create(vm) => self.client.vms.entry(vm).or_default().created = true,
            Request::Delete(vm) => self.client.vms.entry(vm).or_default().deleted = true,
            Request::Other => {}
        }
    }
}
