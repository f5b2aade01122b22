//! VMs are created and deleted while nodes, the leader among them, are killed: nothing acknowledged is lost,
//! nothing deleted comes back, all replicas agree.

use holm_jepsen::run::Test;

use crate::rounds;

#[tokio::test(flavor = "multi_thread")]
async fn vms_keep_every_promise_while_nodes_are_killed() {
    rounds::run(Test::VmLifecycle, 4).await;
}
