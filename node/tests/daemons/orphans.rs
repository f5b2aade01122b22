//! What is found on a host: a VM that another cluster placed is named, and never stopped or deleted; what this
//! cluster placed, and knows no more, is removed.

use std::path::Path;

use serde_json::json;

use crate::daemon::Daemon;

const ORPHAN: &str = "01999999-0000-7000-8000-000000000001";
const LEFTOVER: &str = "01999999-0000-7000-8000-000000000002";
const OTHER_CLUSTER: &str = "01999999-0000-7000-8000-0000000000cc";

/// A VM's directory, with a disk, and a run that goes on in this boot.
fn vm(data_dir: &Path, vm: &str, cluster: Option<&str>) {
    let dir = data_dir.join("vms").join(vm);
    std::fs::create_dir_all(&dir).expect("a directory can be made");
    let mut mark = json!({"version": 1, "epoch": 1, "released": false});
    if let Some(cluster) = cluster {
        mark["cluster"] = cluster.into();
    }
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux has a boot id");
    let run = json!({"version": 1, "epoch": 1, "run": 1, "boot_id": boot.trim(), "ended": null});
    for (name, text) in [("epoch.json", mark), ("simulated.json", run), ("root.img", json!("precious"))] {
        std::fs::write(dir.join(name), text.to_string()).expect("a file can be written");
    }
}

#[tokio::test]
async fn a_vm_of_another_cluster_is_named_and_left_alone() {
    let node = Daemon::first_on(|data_dir| {
        vm(data_dir, ORPHAN, Some(OTHER_CLUSTER));
        vm(data_dir, LEFTOVER, None);
    })
    .await;
    let dir = |vm: &str| node.data_dir().join("vms").join(vm);
    node.until("what this cluster no longer knows is gone", async |_| {
        (!dir(LEFTOVER).exists()).then_some(())
    })
    .await;
    let orphans = node
        .until("the orphan is named", async |node| {
            let orphans = node.get("/v1/nodes/n1").await.json["orphans"].clone();
            orphans.as_array().is_some_and(|orphans| !orphans.is_empty()).then_some(orphans)
        })
        .await;
    assert_eq!(orphans.as_array().map(Vec::len), Some(1), "{orphans}");
    assert_eq!(orphans[0]["id"], ORPHAN);
    let message = orphans[0]["message"].as_str().unwrap_or_default();
    assert!(message.contains(OTHER_CLUSTER) && message.contains("it runs"), "{message}");
    let disk = std::fs::read_to_string(dir(ORPHAN).join("root.img")).expect("its disk is there");
    assert_eq!(disk, "\"precious\"");
    let run = std::fs::read_to_string(dir(ORPHAN).join("simulated.json")).expect("its run is there");
    assert!(run.contains("\"ended\":null"), "{run}");
}
