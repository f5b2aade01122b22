//! What every record looks like in every format, kept as golden files: a change shows in review.

use holm_api::{
    Cluster, Deleted, Event, EventKind, Explanation, Flavor, HostVerdict, Image, ImageKind, Member, Role,
    Verdict, VmStatus, Weight,
};

use super::fixtures::*;
use super::*;
use crate::args::Format;
use crate::output::Output;

/// A list and its first item, in all four formats, as one text.
fn all_formats<R: Record>(records: &[R]) -> String {
    let mut text = String::new();
    for format in [Format::Table, Format::Name, Format::Yaml, Format::Json] {
        let output = Output { format, now: NOW };
        text += &format!("--- list, {format:?}\n{}", output.render_list(records));
        text += &format!("--- one, {format:?}\n{}", output.render_one(&records[0]));
    }
    text
}

#[test]
fn vms() {
    insta::assert_snapshot!(all_formats(&[active(), building(), unreachable_and_simulated(), failed()]));
}

#[test]
fn everything_about_vms_in_trouble() {
    let output = Output { format: Format::Table, now: NOW };
    let texts = [building(), unreachable_and_simulated(), failed()].map(|vm| output.render_one(&vm));
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn nodes() {
    insta::assert_snapshot!(all_formats(&[troubled_node(), node(1, "n1")]));
}

#[test]
fn flavors() {
    let flavor = Flavor {
        id: id(2),
        name: "small".into(),
        vcpus: 2,
        memory_mib: 512,
        disk_gib: 4,
        extra_specs: [("hw:numa_nodes".to_owned(), "1".to_owned())].into(),
        created_at: at("11:00:00"),
        revision: 7,
    };
    insta::assert_snapshot!(all_formats(&[flavor]));
}

#[test]
fn images() {
    let image = Image {
        id: id(3),
        name: "debian-13".into(),
        project: "default".into(),
        kind: ImageKind::Qcow2Disk,
        size_bytes: 440_401_920,
        sha256: "ab".repeat(32),
        holders: vec![node_ref(1, "n1"), node_ref(2, "n2")],
        created_at: at("11:00:00"),
        revision: 8,
    };
    insta::assert_snapshot!(all_formats(&[image]));
}

#[test]
fn clusters() {
    let member = |id, name: &str, role, silent_ms, matched_index| Member {
        id,
        name: name.into(),
        role,
        up: id != 3,
        peer_addr: format!("10.0.0.{id}:7461"),
        api_addr: format!("10.0.0.{id}:7460"),
        silent_ms,
        matched_index,
    };
    let cluster = Cluster {
        id: id(1),
        name: "river".into(),
        created_at: at("08:00:00"),
        version: 1,
        leader: Some(node_ref(1, "n1")),
        term: 4,
        members: vec![
            member(1, "n1", Role::Leader, None, None),
            member(2, "n2", Role::Voter, Some(120), Some(90)),
            member(3, "n3", Role::Learner, Some(95_000), Some(71)),
        ],
        node: node_ref(1, "n1"),
        applied_index: 90,
        last_log_index: 90,
        snapshot_index: 50,
        revision: 84,
    };
    insta::assert_snapshot!(all_formats(&[cluster]));
}

#[test]
fn events() {
    let event = |revision, what: &str, message: &str| Event {
        revision,
        n: 0,
        at: at("11:59:30"),
        kind: EventKind::Vm,
        id: id(0x17).to_string(),
        name: "web".into(),
        what: what.into(),
        message: message.into(),
        actor: "admin".into(),
    };
    let events = [event(40, "created", ""), event(41, "placed", "on n1 at epoch 41")];
    insta::assert_snapshot!(
        all_formats(&events) + "--- stream\n" + &events.map(|event| event_line(&event)).concat()
    );
}

#[test]
fn explanations() {
    let host = |node: &str, node_id, verdict, by: Option<&str>, message: Option<&str>, score| HostVerdict {
        node: node.into(),
        node_id,
        verdict,
        by: by.map(Into::into),
        message: message.map(Into::into),
        score,
        weights: score.map(|score| Weight { weigher: "Ram".into(), score }).into_iter().collect(),
    };
    let explanation = Explanation {
        vm: "web".into(),
        vm_id: id(0x17),
        status: VmStatus::Build,
        task_state: Some(holm_api::vm::TaskState::Scheduling),
        node: None,
        summary: "1 of 2 nodes would take it; it is placed with the next decision".into(),
        hosts: vec![
            host("n1", 1, Verdict::Fits, None, None, Some(0.875)),
            host("n2", 2, Verdict::Refuses, Some("ComputeStatus"), Some("the node is down"), None),
        ],
    };
    insta::assert_snapshot!(all_formats(&[explanation]));
}

#[test]
fn deletions() {
    insta::assert_snapshot!(all_formats(&[Deleted { id: id(0x17).to_string(), name: None, revision: 50 }]));
}
