//! The workloads that are not about VMs alone, a few faults of each: registers and lists must be linearizable and
//! serializable, quota and capacity hold. `holm-jepsen matrix --profile ci` runs the others.

use holm_jepsen::nemesis::Nemesis;
use holm_jepsen::run::Test;

use crate::isolation;
use crate::rounds;

#[tokio::test(flavor = "multi_thread")]
async fn registers_are_linearizable_while_leaders_restart() {
    rounds::run(Test::Register, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_serializable_while_a_leader_is_cut_off() {
    isolation::run("lists_are_serializable", Test::Append, Nemesis::PartitionLeader, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quota_and_capacity_hold_while_nodes_are_killed() {
    rounds::run(Test::Limits, 2).await;
}
