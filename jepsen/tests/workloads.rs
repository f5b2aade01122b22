//! The workloads that are not about VMs alone, a few faults of each: registers and lists must be linearizable and
//! serializable, quota and capacity hold, and a store that was lost does not begin anew.

mod isolation;
mod rounds;

use holm_jepsen::nemesis::Nemesis;
use holm_jepsen::run::Test;

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

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_lost_its_store_does_not_come_back_under_its_old_id() {
    isolation::run("a_node_that_lost_its_store", Test::Wiped, Nemesis::Kill, 1).await;
}

/// Entries that were under way when the clock of the log was set came behind that, and set it back; each setting
/// moved all time-outs, and VMs that had just been created were given up.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_given_up_because_a_clock_was_set() {
    isolation::run("nobody_is_given_up", Test::Limits, Nemesis::ClockJump, 2).await;
}
