//! Clusters made the way real ones are: by applying commands. Ids are small numbers, so that failures
//! can be read.

use std::collections::BTreeMap;

use holm_model::command::{
    AddNode, BeginLeadership, CreateFlavor, CreateImage, CreateVm, InitCluster, ReleaseCause, Released,
    ReportNode, SetNodeEnabled, SetNodeUp,
};
use holm_model::flavor::Size;
use holm_model::image::ImageKind;
use holm_model::node::{HypervisorFacts, HypervisorKind, NodeReport};
use holm_model::reply::Done;
use holm_model::vm::{OnNoHost, Vm};
use holm_model::{
    Actor, BootId, ClusterId, Command, Entry, FlavorId, ImageId, Incarnation, Inventory, NodeId, Outcome,
    Proposal, Reply, ResourceClass, Revision, State, Timestamp, VmId, apply,
};
use uuid::Uuid;

/// What a host has, overcommit not counted.
#[derive(Clone, Copy, Debug)]
pub struct HostSize {
    pub vcpus: u64,
    pub memory_mib: u64,
    pub disk_gib: u64,
}

pub const MEDIUM: HostSize = HostSize { vcpus: 8, memory_mib: 8192, disk_gib: 100 };
pub const SMALL_VM: Size = Size { vcpus: 1, memory_mib: 1024, disk_gib: 1 };

/// A cluster's state and the clock of its entries.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub state: State,
    pub now: Timestamp,
    last_id: u128,
}

impl Cluster {
    /// Nodes 1 to N, all up and enabled, led by node 1.
    pub fn of(hosts: &[HostSize]) -> Self {
        let mut cluster = Self { state: State::default(), now: Timestamp(1_000_000), last_id: 0 };
        cluster.done(Command::InitCluster(InitCluster {
            cluster: ClusterId(Uuid::from_u128(1)),
            name: "test".into(),
            first_node: node(1),
        }));
        for n in 2..=hosts.len() {
            cluster.done(Command::AddNode(node(n)));
        }
        let incarnation = Incarnation(Uuid::from_u128(1));
        cluster.done(Command::BeginLeadership(BeginLeadership { node: NodeId(1), term: 1, incarnation }));
        for (n, size) in (1..).zip(hosts) {
            cluster.report(n, *size);
            cluster.set_up(n, true);
        }
        let image = CreateImage {
            id: image_id(),
            name: "guest".into(),
            kind: ImageKind::Kernel,
            size_bytes: 1,
            sha256: "0".repeat(64),
            holder: NodeId(1),
        };
        cluster.done(Command::CreateImage(image));
        cluster
    }

    pub fn apply(&mut self, command: Command) -> Reply {
        let actor = Actor { name: "test".into(), project: "default".into() };
        let proposal = Proposal { key: None, seen: self.state.revision, actor, command };
        apply(&mut self.state, &Entry { at: self.now, proposal }).reply
    }

    /// Applies a command that must hold.
    pub fn done(&mut self, command: Command) -> Done {
        match self.apply(command.clone()) {
            Reply::Done(done) => done,
            other => panic!("{command:?} gave {other:?}"),
        }
    }

    pub fn leadership(&self) -> Revision {
        self.state.leadership.expect("somebody leads").revision
    }

    pub fn report(&mut self, n: u64, size: HostSize) {
        let record = &self.state.nodes[&NodeId(n)];
        let command = ReportNode {
            node: NodeId(n),
            sequence: record.report_sequence + 1,
            peer_addr: record.peer_addr.clone(),
            api_addr: record.api_addr.clone(),
            report: report(size),
        };
        self.done(Command::ReportNode(command));
    }

    pub fn set_up(&mut self, n: u64, up: bool) {
        let leadership = self.leadership();
        self.done(Command::SetNodeUp(SetNodeUp { leadership, node: NodeId(n), up }));
    }

    pub fn cordon(&mut self, n: u64, reason: &str) {
        self.done(Command::SetNodeEnabled(SetNodeEnabled {
            node: NodeId(n),
            enabled: false,
            reason: Some(reason.into()),
            expected: None,
        }));
    }

    /// A waiting VM.
    pub fn vm(&mut self, size: Size) -> VmId {
        self.vm_with(size, None, OnNoHost::Queue)
    }

    pub fn vm_with(&mut self, size: Size, node: Option<u64>, on_no_host: OnNoHost) -> VmId {
        self.last_id += 1;
        let id = VmId(Uuid::from_u128(self.last_id));
        let flavor = self.flavor(size);
        self.done(Command::CreateVm(CreateVm {
            id,
            name: format!("vm{}", self.last_id),
            flavor,
            image: image_id(),
            kernel: None,
            cmdline: None,
            node: node.map(NodeId),
            availability: Default::default(),
            on_no_host,
        }));
        id
    }

    pub fn record(&self, vm: VmId) -> &Vm {
        &self.state.vms[&vm]
    }

    /// The node of a placed VM gives it back.
    pub fn fail_build(&mut self, vm: VmId, reason: &str) {
        let claim = self.record(vm).claim.clone().expect("it is placed");
        let cause = ReleaseCause::BuildFailed { reason: reason.into() };
        self.done(Command::Released(Released { node: claim.node, vm, epoch: claim.epoch, cause }));
    }

    /// Applies decisions as the leader's driver does and expects each to hold in full.
    pub fn carry_out(&mut self, commands: Vec<Command>) {
        for command in commands {
            let done = self.done(command);
            if let Outcome::Placed { refused } = done.outcome {
                assert_eq!(refused, [], "apply refused what the scheduler chose");
            }
        }
    }

    fn flavor(&mut self, size: Size) -> FlavorId {
        if let Some(flavor) = self.state.flavors.values().find(|flavor| flavor.size == size) {
            return flavor.id;
        }
        let n = self.state.flavors.len() as u128 + 1;
        let id = FlavorId(Uuid::from_u128(n));
        let name = format!("flavor{n}");
        self.done(Command::CreateFlavor(CreateFlavor { id, name, size, extra_specs: BTreeMap::new() }));
        id
    }
}

fn image_id() -> ImageId {
    ImageId(Uuid::from_u128(1))
}

fn node(n: usize) -> AddNode {
    AddNode {
        name: format!("n{n}"),
        peer_addr: format!("127.0.0.1:{}", 7000 + n),
        api_addr: format!("127.0.0.1:{}", 8000 + n),
    }
}

fn report(size: HostSize) -> NodeReport {
    let inventory = |total, ratio| Inventory { total, reserved: 0, allocation_ratio_thousandths: ratio };
    NodeReport {
        boot_id: BootId(Uuid::from_u128(1)),
        version: "0.1.0".into(),
        hypervisor: HypervisorFacts {
            kind: HypervisorKind::Simulated,
            version: String::new(),
            reason: "test".into(),
        },
        inventory: BTreeMap::from([
            (ResourceClass::Vcpu, inventory(size.vcpus, 1000)),
            (ResourceClass::MemoryMb, inventory(size.memory_mib, 1000)),
            (ResourceClass::DiskGb, inventory(size.disk_gib, 1000)),
        ]),
        conditions: BTreeMap::new(),
    }
}
