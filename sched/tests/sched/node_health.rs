//! Up and down, by how long a node was silent.

use holm_model::command::SetNodeUp;
use holm_model::{Command, NodeId, State};
use holm_sched::controllers::NodeHealth;
use holm_sched::{Controller, Facts};

use crate::cluster::{Cluster, MEDIUM};

fn decide(cluster: &Cluster, silent_ms: &[(u64, u64)]) -> Vec<(u64, bool)> {
    let silent_ms = silent_ms.iter().map(|(node, ms)| (NodeId(*node), *ms)).collect();
    let facts = Facts { now: cluster.now, silent_ms, ..Facts::default() };
    let said = |command| match command {
        Command::SetNodeUp(SetNodeUp { leadership, node, up }) => {
            assert_eq!(leadership, cluster.leadership());
            (node.0, up)
        }
        other => panic!("unexpected {other:?}"),
    };
    NodeHealth.decide(&cluster.state, &facts).into_iter().map(said).collect()
}

#[test]
fn a_silent_node_goes_down_and_a_heard_one_comes_up_with_a_gap_between() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    let cases: &[(bool, u64, Option<bool>)] = &[
        (true, 0, None),
        (true, 5_000, None),
        (true, 5_001, Some(false)),
        (false, 5_001, None),
        (false, 2_000, None),
        (false, 1_999, Some(true)),
        (false, 0, Some(true)),
    ];
    for (up, silent_ms, expected) in cases {
        cluster.set_up(2, *up);
        let expected: Vec<_> = expected.iter().map(|up| (2, *up)).collect();
        assert_eq!(decide(&cluster, &[(1, 0), (2, *silent_ms)]), expected, "up {up}, silent {silent_ms} ms");
    }
}

#[test]
fn a_node_not_watched_yet_is_not_judged() {
    let cluster = Cluster::of(&[MEDIUM; 2]);
    assert_eq!(decide(&cluster, &[(1, 0)]), []);
}

#[test]
fn a_node_without_a_report_is_not_up_however_well_it_is_heard() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    cluster.done(Command::AddNode(holm_model::command::AddNode {
        name: "late".into(),
        peer_addr: "127.0.0.1:1".into(),
        api_addr: "127.0.0.1:2".into(),
    }));
    assert_eq!(decide(&cluster, &[(1, 0), (2, 0)]), []);
    cluster.report(2, MEDIUM);
    assert_eq!(decide(&cluster, &[(1, 0), (2, 0)]), [(2, true)]);
}

#[test]
fn without_a_leadership_nothing_is_decided() {
    let facts = Facts { silent_ms: [(NodeId(1), 60_000)].into(), ..Facts::default() };
    assert_eq!(NodeHealth.decide(&State::default(), &facts), []);
}
