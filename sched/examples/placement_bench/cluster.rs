//! Large clusters. One node and one VM are made by applying commands, the others are copies of them with some
//! numbers changed: there are more hosts here than apply admits.

use std::collections::BTreeMap;

use holm_model::aggregate::Aggregate;
use holm_model::command::{
    BeginLeadership, CreateFlavor, CreateImage, CreateVm, InitCluster, ReportNode, SetNodeUp,
};
use holm_model::flavor::Size;
use holm_model::group::{GroupPolicy, ServerGroup};
use holm_model::image::ImageKind;
use holm_model::node::{HypervisorFacts, HypervisorKind, Node, NodeReport};
use holm_model::parts::{PCPU, Parts, PciDevice};
use holm_model::policy::FILTERS;
use holm_model::scheduling::{Effect, Operator, Requirement, Scheduling, Taint};
use holm_model::vm::{Claim, Vm, VmStatus};
use holm_model::{
    Actor, AggregateId, BootId, ClusterId, Command, Entry, Epoch, FlavorId, GroupId, ImageId, Incarnation,
    Inventory, NodeId, Proposal, ResourceClass, Resources, Revision, State, Timestamp, VmId, apply,
};
use uuid::Uuid;

/// VMs on each host.
const VMS_EACH: u64 = 10;

/// A cluster that is being made.
pub struct Cluster {
    pub state: State,
    hosts: u64,
    vm: Vm,
}

/// Applies a command of the leader's, which must hold.
pub fn apply_to(state: &mut State, command: Command) {
    let actor = Actor { name: "bench".into(), project: "default".into() };
    let proposal = Proposal { key: None, seen: state.revision, actor, command };
    let reply = apply(state, &Entry::new(Timestamp(0), proposal)).reply;
    assert!(matches!(reply, holm_model::Reply::Done(_)), "{reply:?}");
}

/// Ids as random as real ones.
fn random_id(n: u64) -> VmId {
    VmId(Uuid::from_u128(u128::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)))
}

impl Cluster {
    /// Hosts of several sizes, each somewhat full, two zones, some taints, some builds going on.
    pub fn of(hosts: u64) -> Self {
        let mut state = first();
        let vm = state.vms.values().next().cloned().expect("the first VM");
        state.vms.clear();
        state.waiting.clear();
        let model = state.nodes[&NodeId(1)].clone();
        for n in 1..=hosts {
            state.nodes.insert(NodeId(n), node(&model, n));
            let vms = (0..VMS_EACH).map(|vm| random_id(1_000_000 + n * VMS_EACH + vm)).collect();
            state.vms_by_node.insert(NodeId(n), vms);
            if n % 8 == 0 {
                state.building.insert((NodeId(n), random_id(1_000_000 + n * VMS_EACH)));
            }
        }
        for zone in 0..2 {
            let aggregate = zone_of(zone, hosts);
            state.aggregates.insert(aggregate.id, aggregate);
        }
        let image = state.images.values().next().cloned().expect("the first image");
        let holders = (1..=hosts).filter(|n| n % 3 == 0).map(NodeId).collect();
        state.images.insert(image.id, holm_model::image::Image { holders, ..image });
        Self { state, hosts, vm }
    }

    /// The state with these VMs waiting, each as `ask` has changed it.
    pub fn with_queue(mut self, vms: u64, ask: fn(u64, &mut Vm)) -> State {
        for n in 1..=vms {
            let id = random_id(n);
            let mut vm = Vm { id, name: format!("vm-{n}"), ..self.vm.clone() };
            ask(n, &mut vm);
            if let Some(group) = vm.spec.scheduling.group {
                self.state.group_members.entry(group).or_default().insert(id);
            }
            self.state.vms.insert(id, vm);
            self.state.waiting.insert(id);
        }
        self.state
    }

    /// 200 anti-affinity groups.
    pub fn group_all(&mut self) {
        (0..200).for_each(|n| self.add_group(n, GroupPolicy::AntiAffinity, None));
    }

    /// One group.
    pub fn group(&mut self, policy: GroupPolicy, max_server_per_host: Option<u32>) {
        self.add_group(0, policy, max_server_per_host);
    }

    fn add_group(&mut self, n: u128, policy: GroupPolicy, max_server_per_host: Option<u32>) {
        let (id, name) = (GroupId(Uuid::from_u128(n)), format!("group{n}"));
        let (project, created_at, revision) = ("default".into(), Timestamp(0), Revision(1));
        let group = ServerGroup { id, project, name, policy, max_server_per_host, created_at, revision };
        self.state.groups.insert(id, group);
    }

    /// Whatever runs may be evicted by what is of more than the least priority, and that is switched on.
    pub fn preemptible(&mut self) {
        self.state.scheduler.preemption = true;
        for n in 1..=self.hosts {
            let mut node = self.state.nodes.get_mut(&NodeId(n)).expect("the cluster was made with it");
            let resources = Resources::from_iter([(ResourceClass::Vcpu, 1), (ResourceClass::MemoryMb, 1024)]);
            for at in 0..VMS_EACH {
                let id = random_id(1_000_000 + n * VMS_EACH + at);
                let (epoch, parts) = (Epoch(Revision(1)), Parts::default());
                let claim = Claim {
                    node: NodeId(n),
                    epoch,
                    resources: resources.clone(),
                    parts,
                    availability: Default::default(),
                };
                let mut vm = Vm { id, claim: Some(claim), status: VmStatus::Active, ..self.vm.clone() };
                vm.spec.scheduling.preemptible = true;
                self.state.vms.insert(id, vm);
                node.allocated.add(&resources);
            }
        }
    }

    pub fn down(&mut self) {
        self.each_node(|_, node| node.up = false);
    }

    /// Switches on what is off by default, and has every filter something to compare on every host.
    pub fn every_filter(&mut self) {
        self.state.scheduler.filters = FILTERS.iter().map(|(name, _)| (*name).to_owned()).collect();
        self.each_node(|n, node| {
            node.labels = strings(&[("disk", "ssd"), ("rack", &(n % 9).to_string())]);
            node.api_addr = format!("10.0.{}.{}:7460", n / 250, n % 250);
            node.traits.insert("CUSTOM_FAST".into());
            let report = node.report.as_mut().expect("it has reported");
            report.capabilities = strings(&[("arch", "x86_64"), ("cores", "64")]);
        });
        let metadata = strings(&[("ssd", "true"), ("filter_tenant_id", "default"), ("os_distro", "debian")]);
        let ids: Vec<AggregateId> = self.state.aggregates.keys().copied().collect();
        for id in ids {
            let aggregate = self.state.aggregates.get_mut(&id).expect("the cluster was made with it");
            aggregate.metadata.extend(metadata.clone());
        }
        let (near, far) = (random_id(2_000_000), random_id(2_000_001));
        let specs = [
            ("capabilities:arch", "<or> x86_64 <or> riscv64"),
            ("capabilities:cores", ">= 16"),
            ("aggregate_instance_extra_specs:ssd", "true"),
            ("trait:CUSTOM_FAST", "required"),
        ];
        let selects = |key: &str, operator, value: &str| Requirement {
            key: key.into(),
            operator,
            values: vec![value.into()],
        };
        let spec = &mut self.vm.spec;
        spec.extra_specs = strings(&specs);
        spec.image_properties = strings(&[("hw_architecture", "x86_64"), ("os_distro", "debian")]);
        spec.scheduling = Scheduling {
            node_selector: vec![selects("disk", Operator::In, "ssd"), selects("rack", Operator::Lt, "100")],
            near: Some("10.0.0.0/8".into()),
            different_host: [near, far].into(),
            ..Scheduling::default()
        };
    }

    /// Two NUMA nodes of 16 dedicated CPUs and 8 GPUs on every host; its VMs hold 8 of those CPUs and 3 GPUs.
    pub fn offer_parts(&mut self) {
        self.each_node(|_, node| {
            let report = node.report.as_mut().expect("it has reported");
            report.offer.cpus = (0..32).map(|cpu| (cpu, cpu / 16)).collect();
            report.offer.devices = (0..8).map(|n| (address(n), gpu(n))).collect();
            let pcpu = ResourceClass::Custom(PCPU.to_owned());
            node.inventory.insert(pcpu.clone(), Inventory::of(32));
            node.allocated.0.insert(pcpu, 8);
            node.recount_room();
        });
        for n in 1..=self.hosts {
            for at in 0..VMS_EACH {
                let id = random_id(1_000_000 + n * VMS_EACH + at);
                let parts = match at {
                    0 | 1 => Parts { cpus: (at as u32 * 4..at as u32 * 4 + 4).collect(), devices: [].into() },
                    2..=4 => Parts { cpus: Vec::new(), devices: [address(at as u32)].into() },
                    _ => Parts::default(),
                };
                let mut record = self.state.nodes.get_mut(&NodeId(n)).expect("the cluster was made with it");
                let offer = record.offer().clone();
                record.room.parts.take(&parts, &offer);
                let (node, epoch, resources) = (NodeId(n), Epoch(Revision(1)), Resources::default());
                let claim = Claim { node, epoch, resources, parts, availability: Default::default() };
                let vm = Vm { id, claim: Some(claim), status: VmStatus::Active, ..self.vm.clone() };
                self.state.vms.insert(id, vm);
            }
        }
    }

    fn each_node(&mut self, change: impl Fn(u64, &mut Node)) {
        for n in 1..=self.hosts {
            change(n, &mut self.state.nodes.get_mut(&NodeId(n)).expect("the cluster was made with it"));
        }
    }
}

fn strings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn address(n: u32) -> String {
    format!("0000:0{n}:00.0")
}

fn gpu(n: u32) -> PciDevice {
    let (vendor, product) = ("10de".into(), "1eb8".into());
    PciDevice { alias: "gpu".into(), vendor, product, numa_node: Some(n / 4) }
}

/// One node, one image, one VM that waits.
fn first() -> State {
    let mut state = State::default();
    let incarnation = Incarnation(Uuid::from_u128(1));
    let image = ImageId(Uuid::from_u128(1));
    let flavor = FlavorId(Uuid::from_u128(1));
    let first_node = holm_model::command::AddNode {
        name: "n1".into(),
        peer_addr: "127.0.0.1:1".into(),
        api_addr: "127.0.0.1:2".into(),
    };
    let leadership = Revision(2);
    let commands = [
        Command::InitCluster(InitCluster {
            cluster: ClusterId(Uuid::from_u128(1)),
            name: "bench".into(),
            first_node: first_node.clone(),
        }),
        Command::BeginLeadership(BeginLeadership { node: NodeId(1), term: 1, incarnation }),
        Command::ReportNode(ReportNode {
            node: NodeId(1),
            sequence: 1,
            peer_addr: first_node.peer_addr,
            api_addr: first_node.api_addr,
            report: report(),
        }),
        Command::SetNodeUp(SetNodeUp { leadership, node: NodeId(1), up: true }),
        Command::CreateFlavor(CreateFlavor {
            id: flavor,
            name: "small".into(),
            size: Size { vcpus: 1, memory_mib: 1024, disk_gib: 2 },
            extra_specs: BTreeMap::new(),
        }),
        Command::CreateImage(CreateImage {
            id: image,
            name: "guest".into(),
            kind: ImageKind::Kernel,
            size_bytes: 1 << 20,
            sha256: "0".repeat(64),
            holder: NodeId(1),
            properties: BTreeMap::new(),
        }),
        Command::CreateVm(create(flavor, image)),
    ];
    commands.into_iter().for_each(|command| apply_to(&mut state, command));
    state
}

/// As JSON, which leaves out what it does not mean.
fn create(flavor: FlavorId, image: ImageId) -> CreateVm {
    let request = serde_json::json!({"id": random_id(1), "name": "first", "flavor": flavor, "image": image});
    serde_json::from_value(request).expect("the rest has defaults")
}

fn report() -> NodeReport {
    let (kind, version) = (HypervisorKind::Simulated, "v53.0".into());
    NodeReport {
        boot_id: BootId(Uuid::from_u128(1)),
        version: "0.1.0".into(),
        hypervisor: HypervisorFacts { kind, version, reason: String::new() },
        inventory: BTreeMap::new(),
        conditions: BTreeMap::new(),
        capabilities: BTreeMap::new(),
        traits: Default::default(),
        load_thousandths: 0,
        orphans: Default::default(),
        offer: Default::default(),
    }
}

fn node(model: &Node, n: u64) -> Node {
    let offered = |total, ratio| Inventory {
        reserved: total / 20,
        allocation_ratio_thousandths: ratio,
        ..Inventory::of(total)
    };
    let mut node = Node { id: NodeId(n), name: format!("n{n}"), revision: Revision(n), ..model.clone() };
    node.inventory = BTreeMap::from([
        (ResourceClass::Vcpu, offered(16 + n % 4 * 16, 4000)),
        (ResourceClass::MemoryMb, offered(65_536 + n % 3 * 65_536, 1000)),
        (ResourceClass::DiskGb, offered(1000, 1000)),
    ]);
    node.allocated = Resources::from_iter([
        (ResourceClass::Vcpu, n * 7 % 13),
        (ResourceClass::MemoryMb, n * 997 % 30_000),
        (ResourceClass::DiskGb, n % 50),
    ]);
    if n.is_multiple_of(10) {
        let (key, value, effect) = ("old".into(), String::new(), Effect::PreferNoSchedule);
        node.taints.insert(Taint { key, value, effect });
    }
    node.failed_builds = u32::from(n.is_multiple_of(50));
    let report = node.report.as_mut().expect("it has reported");
    report.inventory = node.inventory.clone();
    report.load_thousandths = n % 7 * 100;
    node.room.vms = VMS_EACH as u32;
    node
}

fn zone_of(zone: u64, hosts: u64) -> Aggregate {
    Aggregate {
        id: AggregateId(Uuid::from_u128(u128::from(zone))),
        name: format!("zone{zone}"),
        nodes: (1..=hosts).filter(|n| n % 2 == zone).map(NodeId).collect(),
        metadata: BTreeMap::from([("availability_zone".into(), format!("zone{zone}"))]),
        inventory: BTreeMap::new(),
        created_at: Timestamp(0),
        revision: Revision(1),
    }
}
