//! The last decision about a VM is made again on request: of one that was placed and of one that fitted nowhere, also by
//! a daemon that has restarted since.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_is_made_again_the_same_also_after_a_restart() {
    let mut daemon = one_node(1).await;
    daemon.get("/v1/vms/nobody/replay").await.expect(404);
    daemon.post("/v1/vms", vm("placed", json!({}))).await.expect(202);
    daemon.until_status("placed", "ACTIVE").await;
    daemon.post("/v1/vms", vm("waits", json!({}))).await.expect(202);
    let decision = daemon
        .until("it was decided", async |daemon| {
            let decision = daemon.get("/v1/vms/waits").await.json["decision"].clone();
            (!decision.is_null()).then_some(decision)
        })
        .await;
    assert_eq!((&decision["chosen"], &decision["candidates"]), (&Value::Null, &json!(0)), "{decision}");
    // The policy is another by now, and nodes and VMs are too.
    set_policy(&daemon, json!({"weighers": {"Ram": -1}})).await;
    narrow(&daemon, "n1", 4).await;
    daemon.until_status("waits", "ACTIVE").await;
    for restarted in [false, true] {
        for name in ["placed", "waits"] {
            let replay = daemon.get(&format!("/v1/vms/{name}/replay")).await.expect(200).json;
            assert_eq!(replay["same"], true, "restarted: {restarted}: {replay}");
            assert_eq!(replay["again"], replay["decision"]);
            assert_eq!(replay["again"]["chosen"], "n1");
        }
        daemon.kill();
        daemon = daemon.again().await;
    }
}
