//! Reports of a node that boots again and again: which boot is the current one.

use holm_model::command::*;
use holm_model::node::{HypervisorFacts, HypervisorKind, NodeReport};
use holm_model::*;
use uuid::Uuid;

fn boot(n: u128) -> BootId {
    BootId(Uuid::from_u128(n))
}

fn tell(state: &mut State, seen: Revision, command: Command) -> Reply {
    let actor = Actor { name: "node/1".into(), project: "default".into() };
    apply(state, &Entry::new(Timestamp(1), Proposal { key: None, seen, actor, command })).reply
}

fn report(state: &mut State, seen: Revision, boot_id: BootId) -> Reply {
    let report = NodeReport {
        boot_id,
        version: "0".into(),
        hypervisor: HypervisorFacts {
            kind: HypervisorKind::Simulated,
            version: String::new(),
            reason: "test".into(),
        },
        inventory: [].into(),
        conditions: [].into(),
        capabilities: [].into(),
        traits: [].into(),
        load_thousandths: 0,
        orphans: Default::default(),
        offer: Default::default(),
    };
    let (peer_addr, api_addr) = ("h:1".to_owned(), "h:2".to_owned());
    let command = ReportNode { node: NodeId(1), sequence: state.revision.0, peer_addr, api_addr, report };
    tell(state, seen, Command::ReportNode(command))
}

fn current(state: &State) -> BootId {
    state.nodes[&NodeId(1)].report.as_ref().expect("it has reported").boot_id
}

fn one_node() -> State {
    let mut state = State::default();
    let (name, peer_addr, api_addr) = ("n1".to_owned(), "h:1".to_owned(), "h:2".to_owned());
    tell(&mut state, Revision(0), Command::AddNode(AddNode { name, peer_addr, api_addr }));
    state
}

#[test]
fn a_report_that_was_under_way_through_a_whole_boot_takes_nothing_back() {
    let mut state = one_node();
    let now = |state: &State| state.revision;
    let seen = now(&state);
    assert!(matches!(report(&mut state, seen, boot(1)), Reply::Done(_)));
    // The second boot's only report gets lost on its way; the third reports; then the lost one arrives.
    let late = now(&state);
    assert!(matches!(report(&mut state, late, boot(3)), Reply::Done(_)));
    assert_eq!(report(&mut state, late, boot(2)), Reply::Rejected(Reason::StaleReport));
    assert_eq!(current(&state), boot(3));
    // Nor does one of a boot that had reported make anybody a clone.
    assert_eq!(report(&mut state, late, boot(1)), Reply::Rejected(Reason::StaleReport));
    assert!(state.nodes[&NodeId(1)].findings.is_empty());
    // The third goes on, and a fourth that has seen it is taken.
    let seen = now(&state);
    assert!(matches!(report(&mut state, seen, boot(3)), Reply::Done(_)));
    assert!(matches!(report(&mut state, seen, boot(4)), Reply::Done(_)));
    assert_eq!(current(&state), boot(4));
}

#[test]
fn a_host_that_goes_on_under_the_identity_is_found_out() {
    let mut state = one_node();
    for n in [1, 2, 1] {
        let seen = state.revision;
        report(&mut state, seen, boot(n));
    }
    assert_eq!(current(&state), boot(2));
    assert!(state.nodes[&NodeId(1)].findings.contains_key(holm_model::condition::IDENTITY_CLONED));
}
