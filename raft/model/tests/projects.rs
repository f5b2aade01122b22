//! Projects and N+1 admission, as apply decides them.

use std::collections::BTreeMap;

use holm_model::command::*;
use holm_model::flavor::Size;
use holm_model::group::GroupPolicy;
use holm_model::image::ImageKind;
use holm_model::policy::{NPlusOne, SchedulerPolicy};
use holm_model::vm::{Availability, OnNoHost};
use holm_model::*;
use uuid::Uuid;

/// A state, and who acts on it.
struct Cluster {
    state: State,
    last_id: u128,
}

impl Cluster {
    /// One node, a flavor and an image of `default`.
    fn new() -> Self {
        let mut cluster = Self { state: State::default(), last_id: 100 };
        let first_node = AddNode { name: "n1".into(), peer_addr: "h:1".into(), api_addr: "h:2".into() };
        let init = InitCluster { cluster: ClusterId(id(1)), name: "c".into(), first_node };
        cluster.done("default", Command::InitCluster(init));
        for name in ["n2", "n3"] {
            let node =
                AddNode { name: name.into(), peer_addr: format!("{name}:1"), api_addr: format!("{name}:2") };
            cluster.done("default", Command::AddNode(node));
        }
        let size = Size { vcpus: 1, memory_mib: 64, disk_gib: 0 };
        let flavor =
            CreateFlavor { id: FlavorId(id(2)), name: "f".into(), size, extra_specs: BTreeMap::new() };
        cluster.done("default", Command::CreateFlavor(flavor));
        cluster.done("default", image("default", 3));
        cluster
    }

    fn ask(&mut self, project: &str, command: Command) -> Reply {
        self.last_id += 1;
        let key = Some(IdempotencyKey { key: format!("k{}", self.last_id), fingerprint: String::new() });
        let actor = Actor { name: "test".into(), project: project.into() };
        let proposal = Proposal { key, seen: self.state.revision, actor, command };
        let reply = apply(&mut self.state, &Entry::new(Timestamp(1), proposal)).reply;
        invariant::check(&self.state).unwrap();
        reply
    }

    fn done(&mut self, project: &str, command: Command) {
        let reply = self.ask(project, command);
        assert!(matches!(reply, Reply::Done(_)), "{reply:?}");
    }

    fn refused(&mut self, project: &str, command: Command) -> Reason {
        match self.ask(project, command) {
            Reply::Rejected(reason) => reason,
            reply => panic!("{reply:?}"),
        }
    }
}

fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

fn image(name: &str, n: u128) -> Command {
    Command::CreateImage(CreateImage {
        id: ImageId(id(n)),
        name: name.into(),
        kind: ImageKind::Kernel,
        size_bytes: 1,
        sha256: "a".repeat(64),
        holder: NodeId(1),
        properties: BTreeMap::new(),
    })
}

fn project(n: u128, name: &str) -> Command {
    Command::CreateProject(CreateProject {
        id: ProjectId(id(n)),
        name: name.into(),
        description: String::new(),
    })
}

fn delete(n: u128) -> Command {
    Command::DeleteProject(DeleteProject { id: ProjectId(id(n)), expected: None })
}

fn vm(n: u128, name: &str) -> CreateVm {
    CreateVm {
        id: VmId(id(n)),
        name: name.into(),
        flavor: FlavorId(id(2)),
        image: ImageId(id(3)),
        kernel: None,
        cmdline: None,
        node: None,
        availability: Availability::Pinned,
        policies: Default::default(),
        on_no_host: OnNoHost::Queue,
        scheduling: Default::default(),
        admitted: None,
        volumes: Vec::new(),
    }
}

fn no_project(name: &str) -> Reason {
    Reason::NotFound { kind: Kind::Project, id: name.into() }
}

#[test]
fn nothing_is_made_in_a_project_that_does_not_exist() {
    let mut cluster = Cluster::new();
    let limits = BTreeMap::from([(ResourceClass::Vcpu, Some(1))]);
    for (actor, command) in [
        ("shop", Command::CreateVm(vm(10, "a"))),
        ("shop", Command::CreateVms(CreateVms { items: vec![vm(10, "a")], atomic: true })),
        ("shop", image("i", 11)),
        (
            "shop",
            Command::CreateGroup(CreateGroup {
                id: GroupId(id(12)),
                name: "g".into(),
                policy: GroupPolicy::Affinity,
                max_server_per_host: None,
            }),
        ),
        ("default", Command::SetQuota(SetQuota { project: "shop".into(), limits })),
    ] {
        assert_eq!(cluster.refused(actor, command), no_project("shop"));
    }
    assert_eq!(cluster.refused("default", delete(5)), no_project(&id(5).to_string()));
}

#[test]
fn a_name_is_a_projects_and_an_id_the_clusters() {
    let mut cluster = Cluster::new();
    cluster.done("default", project(5, "shop"));
    cluster.done("default", Command::CreateVm(vm(10, "web")));
    cluster.done("shop", Command::CreateVm(vm(11, "web")));
    let taken = Reason::NameTaken { kind: Kind::Vm, name: "web".into() };
    assert_eq!(cluster.refused("shop", Command::CreateVm(vm(12, "web"))), taken);
    let found = |name: &str| cluster.state.find_vm("shop", name).map(|vm| vm.id);
    assert_eq!(found("web"), Some(VmId(id(11))));
    assert_eq!(found(&id(10).to_string()), Some(VmId(id(10))));
    cluster.done("shop", Command::DeleteVm(DeleteVm { vm: VmId(id(10)), expected: None }));
    assert_eq!(cluster.state.vms_of("default").count(), 0);
    assert_eq!(cluster.state.usage.keys().collect::<Vec<_>>(), ["shop"]);
}

#[test]
fn quotas_are_counted_a_project_each() {
    let mut cluster = Cluster::new();
    cluster.done("default", project(5, "shop"));
    let limits = BTreeMap::from([(ResourceClass::Vcpu, Some(1))]);
    cluster.done("default", Command::SetQuota(SetQuota { project: "shop".into(), limits }));
    cluster.done("shop", Command::CreateVm(vm(10, "a")));
    let refusal = cluster.refused("shop", Command::CreateVm(vm(11, "b")));
    assert!(matches!(&refusal, Reason::Quota { project, used: 1, limit: 1, .. } if project == "shop"));
    cluster.done("default", Command::CreateVm(vm(11, "b")));
}

#[test]
fn images_of_default_are_everybodys_and_others_are_not() {
    let mut cluster = Cluster::new();
    cluster.done("default", project(5, "shop"));
    cluster.done("shop", image("till", 4));
    cluster.done("shop", Command::CreateVm(CreateVm { image: ImageId(id(4)), ..vm(10, "a") }));
    cluster.done("shop", Command::CreateVm(vm(11, "b")));
    let foreign = Command::CreateVm(CreateVm { image: ImageId(id(4)), ..vm(12, "c") });
    assert!(matches!(cluster.refused("default", foreign), Reason::NotFound { kind: Kind::Image, .. }));
}

#[test]
fn a_project_goes_when_nobody_uses_it_and_default_stays() {
    let mut cluster = Cluster::new();
    cluster.done("default", project(5, "shop"));
    let taken = |name: &str| Reason::NameTaken { kind: Kind::Project, name: name.into() };
    assert_eq!(cluster.refused("default", project(6, "shop")), taken("shop"));
    assert_eq!(cluster.refused("default", project(6, "default")), taken("default"));
    assert!(matches!(cluster.refused("default", project(5, "other")), Reason::Invalid { .. }));
    assert!(matches!(cluster.refused("default", delete(0)), Reason::Invalid { .. }));
    cluster.done("shop", Command::CreateVm(vm(10, "till")));
    let limits = BTreeMap::from([(ResourceClass::Vcpu, Some(9))]);
    cluster.done("default", Command::SetQuota(SetQuota { project: "shop".into(), limits }));
    let by = vec!["VM till".to_owned(), "its quota".to_owned()];
    let in_use = Reason::InUse { kind: Kind::Project, name: "shop".into(), by };
    assert_eq!(cluster.refused("default", delete(5)), in_use);
    cluster.done("shop", Command::DeleteVm(DeleteVm { vm: VmId(id(10)), expected: None }));
    let limits = BTreeMap::from([(ResourceClass::Vcpu, None)]);
    cluster.done("default", Command::SetQuota(SetQuota { project: "shop".into(), limits }));
    cluster.done("default", delete(5));
    assert_eq!(cluster.refused("shop", Command::CreateVm(vm(10, "till"))), no_project("shop"));
    let names: Vec<_> = cluster.state.all_projects().into_iter().map(|project| project.name).collect();
    assert_eq!(names, ["default"]);
}

/// A policy that refuses what would break N+1, and the VM it judges.
fn refusing() -> (Cluster, impl Fn(u128, Option<Revision>) -> Command) {
    let mut cluster = Cluster::new();
    let policy = SchedulerPolicy { n_plus_one: NPlusOne::Refuse, ..SchedulerPolicy::default() };
    let policy = SetSchedulerPolicy { policy: Some(policy), expected: None };
    cluster.done("default", Command::SetSchedulerPolicy(policy));
    let failover = |n: u128, admitted| {
        let availability = Availability::Failover;
        Command::CreateVm(CreateVm { availability, admitted, ..vm(n, &format!("vm{n}")) })
    };
    (cluster, failover)
}

#[test]
fn two_that_were_judged_on_the_same_state_are_not_both_admitted() {
    let (mut cluster, failover) = refusing();
    let seen = cluster.state.revision;
    cluster.done("default", failover(10, Some(seen)));
    let since = cluster.state.revision;
    assert_eq!(cluster.refused("default", failover(11, Some(seen))), Reason::Unadmitted { since });
    cluster.done("default", failover(11, Some(since)));
    let never = Some(Revision::default());
    assert!(matches!(cluster.refused("default", failover(12, never)), Reason::Unadmitted { .. }));
    // Pinned VMs take room, and are judged; those of one entry together.
    let pinned = |admitted| Command::CreateVm(CreateVm { admitted, ..vm(13, "pinned") });
    for never in [None, never, Some(since)] {
        assert!(matches!(cluster.refused("default", pinned(never)), Reason::Unadmitted { .. }));
    }
    cluster.done("default", pinned(Some(cluster.state.revision)));
    assert_eq!(cluster.state.admitted, cluster.state.revision);
    let batch = [14, 15].map(|n| match failover(n, Some(cluster.state.revision)) {
        Command::CreateVm(vm) => vm,
        _ => unreachable!(),
    });
    cluster.done("default", Command::CreateVms(CreateVms { items: batch.into(), atomic: false }));
    let set = |admitted| {
        Command::SetVmPolicies(SetVmPolicies {
            vm: VmId(id(13)),
            availability: Some(Availability::Failover),
            disk_loss: None,
            restart_policy: None,
            start_order: None,
            start_delay_s: None,
            admitted,
            any_node: false,
            expected: None,
        })
    };
    assert!(matches!(cluster.refused("default", set(Some(seen))), Reason::Unadmitted { .. }));
    cluster.done("default", set(Some(cluster.state.revision)));
}

#[test]
fn an_entry_from_before_admission_was_asked_for_replays_as_it_was_applied() {
    let (mut cluster, failover) = refusing();
    let pinned = |admitted| Command::CreateVm(CreateVm { admitted, ..vm(13, "pinned") });
    for command in [failover(10, None), failover(11, None), pinned(Some(Revision::default()))] {
        let actor = Actor { name: "test".into(), project: "default".into() };
        let proposal = Proposal { key: None, seen: cluster.state.revision, actor, command };
        let entry = Entry { rules: 1, ..Entry::new(Timestamp(1), proposal) };
        assert!(matches!(apply(&mut cluster.state, &entry).reply, Reply::Done(_)));
    }
    assert!(cluster.state.admitted < cluster.state.revision, "a pinned one was none that counts");
}

#[test]
fn a_judgement_from_before_the_policy_does_not_count() {
    let mut cluster = Cluster::new();
    let seen = cluster.state.revision;
    let (refusing, failover) = refusing();
    cluster.state.scheduler = SchedulerPolicy { revision: seen.next(), ..refusing.state.scheduler };
    assert!(matches!(cluster.refused("default", failover(10, Some(seen))), Reason::Unadmitted { .. }));
}

#[test]
fn who_is_asked_to_judge_anew_may_use_the_same_key() {
    let (mut cluster, failover) = refusing();
    let key = Some(IdempotencyKey { key: "once".into(), fingerprint: "f".into() });
    let actor = Actor { name: "test".into(), project: "default".into() };
    let mut ask = |admitted: bool| {
        let seen = cluster.state.revision;
        let command = failover(10, Some(if admitted { seen } else { Revision::default() }));
        let proposal = Proposal { key: key.clone(), seen, actor: actor.clone(), command };
        apply(&mut cluster.state, &Entry::new(Timestamp(1), proposal)).reply
    };
    assert!(matches!(ask(false), Reply::Rejected(Reason::Unadmitted { .. })));
    assert!(matches!(ask(true), Reply::Done(_)));
    assert!(matches!(ask(false), Reply::Duplicate(_)));
}
