//! Shared volumes: one writer each, none removed under its VM, and failover only where the storage itself keeps
//! an old writer out (FENCING.md, rule 22).

use std::collections::BTreeMap;

use holm_model::command::*;
use holm_model::flavor::Size;
use holm_model::image::ImageKind;
use holm_model::scheduling::Scheduling;
use holm_model::vm::{Availability, OnNoHost};
use holm_model::volume::VolumeLock;
use holm_model::*;
use uuid::Uuid;

fn tell(state: &mut State, command: Command) -> Result<(), String> {
    let actor = Actor { name: "admin".into(), project: "default".into() };
    let proposal = Proposal { key: None, seen: state.revision, actor, command };
    let applied = apply(state, &Entry::new(Timestamp(1), proposal));
    invariant::check(state).unwrap();
    match applied.reply {
        Reply::Done(_) => Ok(()),
        Reply::Rejected(reason) => Err(reason.to_string()),
        Reply::Duplicate(_) => unreachable!("no keys here"),
    }
}

fn cluster() -> State {
    let add =
        |n: u64| AddNode { name: format!("n{n}"), peer_addr: format!("h{n}:1"), api_addr: format!("h{n}:2") };
    let mut state = State::default();
    for command in [
        Command::InitCluster(InitCluster {
            cluster: ClusterId(Uuid::from_u128(1)),
            name: "c".into(),
            first_node: add(1),
        }),
        Command::AddNode(add(2)),
        Command::AddNode(add(3)),
        Command::CreateFlavor(CreateFlavor {
            id: FlavorId(Uuid::from_u128(2)),
            name: "f".into(),
            size: Size { vcpus: 1, memory_mib: 64, disk_gib: 0 },
            extra_specs: BTreeMap::new(),
        }),
        Command::CreateImage(CreateImage {
            id: ImageId(Uuid::from_u128(3)),
            name: "i".into(),
            kind: ImageKind::Kernel,
            size_bytes: 10,
            sha256: "a".repeat(64),
            holder: NodeId(1),
            properties: BTreeMap::new(),
        }),
    ] {
        tell(&mut state, command).unwrap();
    }
    state
}

fn id(n: u128) -> VolumeId {
    VolumeId(Uuid::from_u128(100 + n))
}

fn volume(n: u128, lock: VolumeLock) -> CreateVolume {
    CreateVolume {
        id: id(n),
        name: format!("v{n}"),
        path: format!("/dev/disk/by-id/{n}"),
        read_only: false,
        lock,
    }
}

fn read_only(n: u128) -> CreateVolume {
    CreateVolume { read_only: true, ..volume(n, VolumeLock::None) }
}

fn vm(n: u128, availability: Availability, volumes: &[u128]) -> Command {
    Command::CreateVm(CreateVm {
        admitted: None,
        id: VmId(Uuid::from_u128(200 + n)),
        name: format!("vm{n}"),
        flavor: FlavorId(Uuid::from_u128(2)),
        image: ImageId(Uuid::from_u128(3)),
        kernel: None,
        cmdline: None,
        node: None,
        availability,
        policies: Default::default(),
        on_no_host: OnNoHost::Queue,
        scheduling: Scheduling::default(),
        volumes: volumes.iter().map(|n| id(*n)).collect(),
    })
}

fn with_volumes() -> State {
    let mut state = cluster();
    for create in [volume(1, VolumeLock::None), volume(2, VolumeLock::PersistentReservation), read_only(3)] {
        tell(&mut state, Command::CreateVolume(create)).unwrap();
    }
    state
}

#[test]
fn a_volume_has_one_writer_and_any_number_of_readers() {
    let mut state = with_volumes();
    tell(&mut state, vm(1, Availability::Pinned, &[1, 3])).unwrap();
    let refusal = tell(&mut state, vm(2, Availability::Pinned, &[1])).unwrap_err();
    assert_eq!(refusal, "the volume `v1` is in use by vm1");
    tell(&mut state, vm(2, Availability::Pinned, &[3])).unwrap();
    let delete = DeleteVm { vm: VmId(Uuid::from_u128(201)), expected: None };
    tell(&mut state, Command::DeleteVm(delete)).unwrap();
    tell(&mut state, vm(3, Availability::Pinned, &[1])).unwrap();
}

#[test]
fn failover_needs_a_lock_that_the_storage_enforces() {
    let mut state = with_volumes();
    let refusal = tell(&mut state, vm(1, Availability::Failover, &[2, 1])).unwrap_err();
    assert!(refusal.starts_with("volumes: ") && refusal.contains("`v1` has `lock: none`"), "{refusal}");
    tell(&mut state, vm(1, Availability::Failover, &[2, 3])).unwrap();
    tell(&mut state, vm(2, Availability::Pinned, &[1])).unwrap();
    let later = |vm: u128, availability| {
        Command::SetVmPolicies(SetVmPolicies {
            admitted: None,
            vm: VmId(Uuid::from_u128(200 + vm)),
            availability: Some(availability),
            disk_loss: None,
            restart_policy: None,
            start_order: None,
            start_delay_s: None,
            any_node: false,
            expected: None,
        })
    };
    let refusal = tell(&mut state, later(2, Availability::Failover)).unwrap_err();
    assert!(refusal.contains("lock: persistent-reservation"), "names the fix: {refusal}");
    tell(&mut state, later(1, Availability::Pinned)).unwrap();
    tell(&mut state, later(1, Availability::Failover)).unwrap();
}

#[test]
fn a_volume_is_not_removed_under_its_vms() {
    let mut state = with_volumes();
    tell(&mut state, vm(1, Availability::Pinned, &[3])).unwrap();
    tell(&mut state, vm(2, Availability::Pinned, &[3])).unwrap();
    let delete = |n| Command::DeleteVolume(DeleteVolume { id: id(n), expected: None });
    assert_eq!(tell(&mut state, delete(3)).unwrap_err(), "the volume `v3` is in use by vm1, vm2");
    tell(&mut state, delete(1)).unwrap();
    assert!(tell(&mut state, delete(1)).unwrap_err().starts_with("there is no volume"));
    let stale = DeleteVolume { id: id(2), expected: Some(Revision(1)) };
    assert!(tell(&mut state, Command::DeleteVolume(stale)).unwrap_err().contains("expected revision 1"));
}

#[test]
fn a_vm_names_volumes_that_are_there_once_and_not_too_many() {
    let mut state = with_volumes();
    let mut refused = |volumes: &[u128]| tell(&mut state, vm(1, Availability::Pinned, volumes)).unwrap_err();
    assert!(refused(&[9]).starts_with("there is no volume"));
    assert_eq!(refused(&[3, 3]), "volumes: names `v3` twice");
    assert_eq!(refused(&[3; 17]), "volumes: has 17 entries, at most 16 are allowed");
}

#[test]
fn a_volume_is_refused_by_the_field_that_is_wrong() {
    let good = volume(9, VolumeLock::None);
    let at = |path: &str| CreateVolume { path: path.into(), ..good.clone() };
    for (bad, words) in [
        (CreateVolume { name: "".into(), ..good.clone() }, "name: must not be empty"),
        (CreateVolume { name: "v1".into(), ..good.clone() }, "the volume name `v1` is taken"),
        (CreateVolume { id: id(1), ..good.clone() }, "id: is taken"),
        (at(""), "path: must be absolute"),
        (at("sdb"), "path: must be absolute"),
        (at("/"), "path: must name a file"),
        (at("/dev/../etc/shadow"), "path: must name a file"),
        (at("/dev//sdb"), "path: must name a file"),
        (at("/dev/sdb\n"), "path: must not contain control characters"),
        (at(&format!("/{}", "x".repeat(1024))), "path: is 1025 bytes long"),
        (at("/dev/disk/by-id/1"), "path: is volume `v1` already"),
        (
            CreateVolume { lock: VolumeLock::PersistentReservation, ..at("/srv/file") },
            "path: `lock: persistent",
        ),
        (
            CreateVolume { lock: VolumeLock::PersistentReservation, read_only: true, ..good.clone() },
            "lock: a read-only volume",
        ),
    ] {
        let mut state = with_volumes();
        let refusal = tell(&mut state, Command::CreateVolume(bad.clone())).unwrap_err();
        assert!(refusal.starts_with(words), "{bad:?}: {refusal}");
        assert_eq!(state.volumes.len(), 3);
    }
}

#[test]
fn a_volume_belongs_to_a_project_that_is_there_and_keeps_it() {
    let mut state = cluster();
    let by = |project: &str, state: &mut State, command| {
        let actor = Actor { name: "admin".into(), project: project.into() };
        let proposal = Proposal { key: None, seen: state.revision, actor, command };
        apply(state, &Entry::new(Timestamp(1), proposal)).reply
    };
    let create = || Command::CreateVolume(volume(1, VolumeLock::None));
    assert!(matches!(by("shop", &mut state, create()), Reply::Rejected(Reason::NotFound { .. })));
    let shop = ProjectId(Uuid::from_u128(300));
    let project = CreateProject { id: shop, name: "shop".into(), description: String::new() };
    assert!(matches!(by("default", &mut state, Command::CreateProject(project)), Reply::Done(_)));
    assert!(matches!(by("shop", &mut state, create()), Reply::Done(_)));
    let others = vm(1, Availability::Pinned, &[1]);
    assert!(matches!(by("default", &mut state, others), Reply::Rejected(Reason::NotFound { .. })));
    let remove = Command::DeleteProject(DeleteProject { id: shop, expected: None });
    let Reply::Rejected(refusal) = by("default", &mut state, remove) else { panic!("it has a volume") };
    assert!(refusal.to_string().contains("volume v1"), "{refusal}");
}
