//! Projects and admission: a sample of each command about them, and a snapshot that holds some.

use std::collections::BTreeMap;

use holm_model::command::*;
use holm_model::flavor::Size;
use holm_model::policy::{NPlusOne, SchedulerPolicy};
use holm_model::vm::Availability;
use holm_model::*;

use super::{committed, entry, steered, uuid};

pub fn commands() -> Vec<Command> {
    let id = ProjectId(uuid(31));
    vec![
        Command::CreateProject(CreateProject { id, name: "shop".into(), description: "tills".into() }),
        Command::UpdateProject(UpdateProject { id, description: String::new(), expected: Some(Revision(3)) }),
        Command::DeleteProject(DeleteProject { id, expected: None }),
    ]
}

#[test]
fn a_snapshot_with_projects_is_read_and_written_as_ever() {
    let flavor = FlavorId(uuid(4));
    let size = Size { vcpus: 1, memory_mib: 64, disk_gib: 0 };
    let policy = SchedulerPolicy { n_plus_one: NPlusOne::Refuse, ..SchedulerPolicy::default() };
    let limits = BTreeMap::from([(ResourceClass::Vcpu, Some(8))]);
    let wanted = |command: &Command| matches!(command.name(), "InitCluster" | "CreateImage");
    let mut history: Vec<Command> = super::samples().into_iter().filter(wanted).collect();
    history.extend(["node2", "node3"].map(|name| {
        let (peer_addr, api_addr) = (format!("{name}:7461"), format!("{name}:7460"));
        Command::AddNode(AddNode { name: name.into(), peer_addr, api_addr })
    }));
    history.extend(commands().into_iter().take(1));
    let extra_specs = BTreeMap::new();
    history.extend([
        Command::CreateFlavor(CreateFlavor { id: flavor, name: "small".into(), size, extra_specs }),
        Command::SetSchedulerPolicy(SetSchedulerPolicy { policy: Some(policy), expected: None }),
        Command::SetQuota(SetQuota { project: "shop".into(), limits }),
        Command::CreateVm(CreateVm {
            availability: Availability::Failover,
            scheduling: Default::default(),
            admitted: Some(Revision(100)),
            ..steered(GroupId(uuid(8)))
        }),
    ]);
    let mut state = State::default();
    for command in history {
        let mut entry = entry(command);
        entry.proposal.key = None;
        if matches!(entry.proposal.command, Command::CreateVm(_)) {
            entry.proposal.actor.project = "shop".into();
        }
        let reply = apply(&mut state, &entry).reply;
        assert!(matches!(reply, Reply::Done(_)), "{reply:?}");
        invariant::check(&state).unwrap();
    }
    assert_eq!((state.projects.len(), state.vms_of("shop").count()), (1, 1));
    assert_eq!(state.admitted, state.revision);
    let bytes = snapshot::encode(&state);
    let committed = committed("snapshot-4.mp", &bytes);
    assert_eq!(snapshot::decode(&committed).unwrap(), state);
    assert_eq!(bytes, committed);
}
