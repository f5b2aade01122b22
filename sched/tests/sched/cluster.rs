//! Clusters made the way real ones are: by applying commands. Ids are small numbers, so that failures
//! can be read.

use std::collections::{BTreeMap, BTreeSet};

use holm_model::command::{
    AddNode, BeginLeadership, CreateAggregate, CreateFlavor, CreateGroup, CreateImage, CreateVm, DeleteVm,
    FenceNode, InitCluster, ReleaseCause, Released, ReportNode, ReportVms, SetNodeEnabled, SetNodeUp,
    SetSchedulerPolicy, UpdateNode, VmReport,
};
use holm_model::event::Since;
use holm_model::flavor::Size;
use holm_model::group::GroupPolicy;
use holm_model::image::ImageKind;
use holm_model::node::{HypervisorFacts, HypervisorKind, NodeReport};
use holm_model::policy::SchedulerPolicy;
use holm_model::reply::Done;
use holm_model::scheduling::Scheduling;
use holm_model::version::RULES;
use holm_model::vm::{Availability, DiskLoss, ObservedState, OnNoHost, Vm};
use holm_model::{
    Actor, AggregateId, BootId, ClusterId, Command, Entry, FlavorId, GroupId, ImageId, Incarnation,
    Inventory, NodeId, Outcome, Proposal, Reply, ResourceClass, Revision, State, Timestamp, VmId, apply,
};
use holm_sched::controllers::Placement;
use holm_sched::{Controller, Facts};
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
        cluster.image(1, &[]);
        cluster
    }

    /// Image `n`, on node 1; number 1 is there from the beginning and what VMs boot from unless said.
    pub fn image(&mut self, n: u128, properties: &[(&str, &str)]) -> ImageId {
        let image = CreateImage {
            id: ImageId(Uuid::from_u128(n)),
            name: if n == 1 { "guest".into() } else { format!("guest{n}") },
            kind: ImageKind::Kernel,
            size_bytes: 1000,
            sha256: "0".repeat(64),
            holder: NodeId(1),
            properties: strings(properties),
        };
        let id = image.id;
        self.done(Command::CreateImage(image));
        id
    }

    /// Aggregate `n` over these nodes.
    pub fn aggregate(&mut self, n: u128, nodes: &[u64], metadata: &[(&str, &str)]) {
        self.done(Command::CreateAggregate(CreateAggregate {
            id: AggregateId(Uuid::from_u128(n)),
            name: format!("aggregate{n}"),
            nodes: nodes.iter().copied().map(NodeId).collect(),
            metadata: strings(metadata),
        }));
    }

    /// The same with metadata that is refused today, as it may be stored since before.
    pub fn aggregate_of_old(&mut self, n: u128, nodes: &[u64], metadata: &[(&str, &str)]) {
        self.aggregate(n, nodes, &[]);
        let id = AggregateId(Uuid::from_u128(n));
        self.state.aggregates.get_mut(&id).expect("it was created").metadata = strings(metadata);
    }

    pub fn group(&mut self, n: u128, policy: GroupPolicy, max_server_per_host: Option<u32>) -> GroupId {
        let id = GroupId(Uuid::from_u128(n));
        let name = format!("group{n}");
        self.done(Command::CreateGroup(CreateGroup { id, name, policy, max_server_per_host }));
        id
    }

    /// Changes what the operator says of a node.
    pub fn update(&mut self, n: u64, change: impl FnOnce(&mut UpdateNode)) {
        let mut update = UpdateNode {
            node: NodeId(n),
            labels: BTreeMap::new(),
            taints: None,
            traits: None,
            inventory: BTreeMap::new(),
            expected: None,
        };
        change(&mut update);
        self.done(Command::UpdateNode(update));
    }

    /// The node reports again, with something changed.
    pub fn report_with(&mut self, n: u64, change: impl FnOnce(&mut NodeReport)) {
        let record = &self.state.nodes[&NodeId(n)];
        let mut report = record.report.clone().expect("it has reported");
        change(&mut report);
        let command = ReportNode {
            node: NodeId(n),
            sequence: record.report_sequence + 1,
            peer_addr: record.peer_addr.clone(),
            api_addr: record.api_addr.clone(),
            report,
        };
        self.done(Command::ReportNode(command));
    }

    pub fn policy(&mut self, change: impl FnOnce(&mut SchedulerPolicy)) {
        let mut policy = self.state.scheduler.clone();
        change(&mut policy);
        self.done(Command::SetSchedulerPolicy(SetSchedulerPolicy { policy: Some(policy), expected: None }));
    }

    pub fn apply(&mut self, command: Command) -> Reply {
        self.apply_under(RULES, command)
    }

    /// Applies a command as a leader that knew these rules accepted it.
    pub fn apply_under(&mut self, rules: u32, command: Command) -> Reply {
        let actor = Actor { name: "test".into(), project: "default".into() };
        let proposal = Proposal { key: None, seen: self.state.revision, actor, command };
        apply(&mut self.state, &Entry { rules, ..Entry::new(self.now, proposal) }).reply
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
        self.create(size, |vm| {
            vm.node = node.map(NodeId);
            vm.on_no_host = on_no_host;
        })
    }

    /// A waiting VM that says something about its host.
    pub fn vm_like(&mut self, scheduling: Scheduling) -> VmId {
        self.create(SMALL_VM, |vm| vm.scheduling = scheduling)
    }

    /// A waiting VM of a flavor with these extra specs.
    pub fn vm_of(&mut self, extra_specs: &[(&str, &str)]) -> VmId {
        let flavor = self.flavor_with(SMALL_VM, extra_specs);
        self.create_of(flavor, |_| {})
    }

    pub fn create(&mut self, size: Size, change: impl FnOnce(&mut CreateVm)) -> VmId {
        let flavor = self.flavor_with(size, &[]);
        self.create_of(flavor, change)
    }

    pub fn create_of(&mut self, flavor: FlavorId, change: impl FnOnce(&mut CreateVm)) -> VmId {
        let request = self.request(flavor, change);
        let id = request.id;
        self.done(Command::CreateVm(request));
        id
    }

    /// What a user would send, not sent.
    pub fn request(&mut self, flavor: FlavorId, change: impl FnOnce(&mut CreateVm)) -> CreateVm {
        self.last_id += 1;
        let mut request = CreateVm {
            admitted: None,
            volumes: Vec::new(),
            id: VmId(Uuid::from_u128(self.last_id)),
            name: format!("vm{}", self.last_id),
            flavor,
            image: ImageId(Uuid::from_u128(1)),
            kernel: None,
            cmdline: None,
            node: None,
            availability: Default::default(),
            policies: Default::default(),
            on_no_host: OnNoHost::Queue,
            scheduling: Scheduling::default(),
        };
        change(&mut request);
        request
    }

    /// Decides and applies, and says where `vm` is.
    pub fn placed_on(&mut self, vm: VmId) -> Option<u64> {
        let facts = Facts { now: self.now, ..Facts::default() };
        let commands = Placement.decide(&self.state, &facts);
        self.carry_out(commands);
        self.record(vm).claim.as_ref().map(|claim| claim.node.0)
    }

    /// The node of a placed VM says that it runs, bound to the node's lease.
    pub fn tell_armed(&mut self, vm: VmId, armed_for: Revision) {
        let record = self.record(vm);
        let (claim, run) = (record.claim.as_ref().expect("it is placed"), record.power.run);
        let (node, epoch, state) = (claim.node, claim.epoch, ObservedState::Running);
        let report = VmReport { vm, epoch, run, state, armed_for: Some(armed_for), note: None };
        let (boot_id, sequence) = (BootId(Uuid::from_u128(1)), self.state.revision.0);
        self.done(Command::ReportVms(ReportVms { node, boot_id, sequence, reports: vec![report] }));
    }

    /// The node of a placed VM says that it runs.
    pub fn run(&mut self, vm: VmId) {
        let record = self.record(vm);
        let claim = record.claim.as_ref().expect("it is placed");
        let report = VmReport {
            vm,
            epoch: claim.epoch,
            run: record.power.run,
            state: ObservedState::Running,
            armed_for: None,
            note: None,
        };
        let boot_id = BootId(Uuid::from_u128(1));
        let sequence = self.state.revision.0;
        let command = ReportVms { node: claim.node, boot_id, sequence, reports: vec![report] };
        self.done(Command::ReportVms(command));
    }

    /// What happened to a VM, in order.
    pub fn events_of(&self, vm: VmId) -> Vec<String> {
        let Since::Events(events) = self.state.events.since(Revision(0)) else { panic!("they are all kept") };
        let of = events.into_iter().filter(|event| event.id == vm.to_string());
        of.map(|event| event.what).collect()
    }

    pub fn record(&self, vm: VmId) -> &Vm {
        &self.state.vms[&vm]
    }

    /// Deletes a VM, and its node says that it is gone.
    pub fn delete(&mut self, vm: VmId) {
        self.done(Command::DeleteVm(DeleteVm { vm, expected: None }));
        let claim = self.state.vms.get(&vm).and_then(|record| record.claim.clone());
        if let Some(claim) = claim {
            let cause = ReleaseCause::Deleted;
            self.done(Command::Released(Released { node: claim.node, vm, epoch: claim.epoch, cause }));
        }
    }

    /// A failover VM that ran on a node that was fenced, and waits for another.
    pub fn lost_its_node(&mut self, size: Size) -> VmId {
        let vm = self.create(size, |vm| {
            vm.availability = Availability::Failover;
            vm.policies.disk_loss = DiskLoss::Recreate;
        });
        let node = NodeId(self.placed_on(vm).expect("there is room"));
        self.run(vm);
        let leadership = self.leadership();
        self.done(Command::FenceNode(FenceNode { leadership, node }));
        vm
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

    pub fn flavor_with(&mut self, size: Size, extra_specs: &[(&str, &str)]) -> FlavorId {
        let extra_specs = strings(extra_specs);
        let mut flavors = self.state.flavors.values();
        if let Some(flavor) = flavors.find(|flavor| flavor.size == size && flavor.extra_specs == extra_specs)
        {
            return flavor.id;
        }
        let n = self.state.flavors.len() as u128 + 1;
        let id = FlavorId(Uuid::from_u128(n));
        self.done(Command::CreateFlavor(CreateFlavor { id, name: format!("flavor{n}"), size, extra_specs }));
        id
    }
}

pub fn strings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn node(n: usize) -> AddNode {
    AddNode {
        name: format!("n{n}"),
        peer_addr: format!("127.0.0.1:{}", 7000 + n),
        api_addr: format!("127.0.0.1:{}", 8000 + n),
    }
}

fn report(size: HostSize) -> NodeReport {
    NodeReport {
        boot_id: BootId(Uuid::from_u128(1)),
        version: "0.1.0".into(),
        hypervisor: HypervisorFacts {
            kind: HypervisorKind::Simulated,
            version: String::new(),
            reason: "test".into(),
        },
        inventory: BTreeMap::from([
            (ResourceClass::Vcpu, Inventory::bounded(size.vcpus, u64::MAX)),
            (ResourceClass::MemoryMb, Inventory::bounded(size.memory_mib, u64::MAX)),
            (ResourceClass::DiskGb, Inventory::bounded(size.disk_gib, u64::MAX)),
        ]),
        conditions: BTreeMap::new(),
        capabilities: BTreeMap::new(),
        traits: BTreeSet::new(),
        load_thousandths: 0,
        orphans: Default::default(),
        offer: Default::default(),
    }
}
