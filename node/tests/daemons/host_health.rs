//! A host that is not well, under a real daemon: its VMs' disk hangs, or takes no writes. The node says so, takes no new
//! VM meanwhile, and takes one again when the disk is back. Work on VMs that hangs there holds up nothing else.

use holm_vmm::test_guest;
use hyper::Method;
use serde_json::json;

use crate::daemon::{Daemon, PATIENCE};
use crate::disk::{self, Disk};

async fn condition(daemon: &Daemon, name: &str) -> Option<String> {
    let node = daemon.try_get("/v1/nodes/n1").await?.json;
    node["conditions"][name]["message"].as_str().map(str::to_owned)
}

/// Waits until the node has the condition, and a VM that would not wait is refused for it.
async fn assert_refuses(daemon: &Daemon, condition_name: &str) {
    let shown = async |daemon: &Daemon| condition(daemon, condition_name).await;
    let words = daemon.until(&format!("{condition_name} is shown"), shown).await;
    assert!(words.contains("/vms"), "it names the disk: {words}");
    let name = format!("not-with-{}", condition_name.to_lowercase());
    daemon.post("/v1/vms", vm(&name)).await.expect(202);
    let refused = daemon.until_status(&name, "ERROR").await["refusals"].to_string();
    assert!(refused.contains("ComputeStatus") && refused.contains(condition_name), "{refused}");
}

async fn assert_takes_vms(daemon: &Daemon, name: &str) {
    let clear = async |daemon: &Daemon| {
        let node = daemon.try_get("/v1/nodes/n1").await?.json;
        let conditions = node["conditions"].as_object()?;
        (!conditions.keys().any(|name| name.starts_with("DiskHung") || name.starts_with("DiskRead")))
            .then_some(())
    };
    daemon.until("the condition is gone", clear).await;
    daemon.post("/v1/vms", vm(name)).await.expect(202);
    daemon.until_status(name, "ACTIVE").await;
}

async fn make_things_to_boot(daemon: &Daemon) {
    let tiny = json!({"name": "tiny", "vcpus": 1, "memory_mib": 16, "disk_gib": 0});
    daemon.post("/v1/flavors", tiny).await.expect(201);
    let kernel = test_guest::elf(test_guest::Variant::Banner);
    daemon.send(Method::POST, "/v1/images?name=guest&kind=kernel", &[], kernel.into()).await.expect(201);
}

/// A daemon whose VMs have a disk of their own, and that disk.
async fn with_a_disk_for_vms() -> (Daemon, Disk) {
    disk::enter_namespace();
    let mut vms = None;
    let daemon = Daemon::first_on(|dir| vms = Some(Disk::new(&dir.join("vms"), 256))).await;
    make_things_to_boot(&daemon).await;
    (daemon, vms.expect("it was mounted"))
}

fn vm(name: &str) -> serde_json::Value {
    json!({"name": name, "flavor": "tiny", "image": "guest", "on_no_host": "fail"})
}

#[tokio::test]
async fn a_disk_of_vms_that_hangs_or_is_read_only_is_told_and_takes_no_vm() {
    if disk::skipped("a_disk_of_vms_that_hangs_or_is_read_only_is_told_and_takes_no_vm") {
        return;
    }
    let (daemon, mut vms) = with_a_disk_for_vms().await;
    assert_takes_vms(&daemon, "first").await;

    vms.freeze();
    assert_refuses(&daemon, "DiskHung").await;
    vms.thaw();
    assert_takes_vms(&daemon, "after-the-thaw").await;

    vms.remount("ro");
    assert_refuses(&daemon, "DiskReadOnly").await;
    vms.remount("rw");
    assert_takes_vms(&daemon, "after-the-mount").await;
}

/// As many as one-vCPU VMs fit: four times the threads a runtime has.
fn many() -> usize {
    4 * std::thread::available_parallelism().map_or(1, usize::from)
}

#[tokio::test]
async fn vms_that_cannot_be_removed_from_a_disk_that_hangs_hold_up_nothing_else() {
    if disk::skipped("vms_that_cannot_be_removed_from_a_disk_that_hangs_hold_up_nothing_else") {
        return;
    }
    let (daemon, mut vms) = with_a_disk_for_vms().await;
    for n in 0..many() {
        assert_takes_vms(&daemon, &format!("vm{n}")).await;
    }

    vms.freeze();
    for n in 0..many() {
        daemon.send(Method::DELETE, &format!("/v1/vms/vm{n}"), &[], bytes::Bytes::new()).await.expect(202);
    }
    let answers = async {
        let shown = async |daemon: &Daemon| condition(daemon, "DiskHung").await;
        daemon.until("the condition is shown", shown).await;
        for n in 0..20 {
            daemon.get("/health").await.expect(200);
            let flavor = json!({"name": format!("f{n}"), "vcpus": 1, "memory_mib": 16, "disk_gib": 0});
            daemon.post("/v1/flavors", flavor).await.expect(201);
        }
        daemon.get("/v1/vms").await.json["items"].as_array().map(Vec::len)
    };
    let left = tokio::time::timeout(PATIENCE, answers).await.expect("the daemon answers");
    assert_eq!(left, Some(many()));

    vms.thaw();
    let gone = async |daemon: &Daemon| {
        daemon.get("/v1/vms").await.json["items"].as_array()?.is_empty().then_some(())
    };
    daemon.until("all are removed", gone).await;
}

#[tokio::test]
async fn uploads_to_a_disk_that_hangs_hold_up_nothing_else() {
    if disk::skipped("uploads_to_a_disk_that_hangs_hold_up_nothing_else") {
        return;
    }
    disk::enter_namespace();
    let mut images = None;
    let daemon = Daemon::first_on(|dir| images = Some(Disk::new(&dir.join("images"), 256))).await;
    let mut images = images.expect("it was mounted");
    images.freeze();
    let upload = |n: usize| {
        let daemon = &daemon;
        async move {
            let kernel = test_guest::elf(test_guest::Variant::Banner);
            let path = format!("/v1/images?name=guest-{n}&kind=kernel");
            daemon.send(Method::POST, &path, &[], kernel.into()).await.expect(201);
        }
    };
    let uploads = futures::future::join_all((0..many()).map(upload));
    let goes_on = async {
        // Each of them is under way: it is answered only after the thaw.
        for n in 0..20 {
            daemon.get("/health").await.expect(200);
            let flavor = json!({"name": format!("f{n}"), "vcpus": 1, "memory_mib": 16, "disk_gib": 0});
            daemon.post("/v1/flavors", flavor).await.expect(201);
        }
        images.thaw();
    };
    let both = async { tokio::join!(uploads, goes_on) };
    tokio::time::timeout(PATIENCE, both).await.expect("the daemon answers, and then they are stored");
    assert_eq!(daemon.get("/v1/images").await.json["items"].as_array().map(Vec::len), Some(many()));
}
