//! CPUs and PCI devices that one VM has for itself: offered by `holmd.toml`, chosen when it is placed, shown with VM
//! and node.

use std::io::Write;

use super::*;

/// The address of a PCI device of this machine.
fn device() -> Option<String> {
    let devices = std::fs::read_dir("/sys/bus/pci/devices").ok()?;
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
    devices.filter_map(name).min()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dedicated_cpu_and_a_device_are_one_vms_and_the_next_is_told() {
    let Some(address) = device() else {
        let _ = writeln!(std::io::stderr(), "SKIPPED: parts: this machine has no PCI device");
        return;
    };
    let mut daemon = one_node(8).await;
    daemon.kill();
    let config = daemon.data_dir().join("holmd.toml");
    let mut text = std::fs::read_to_string(&config).unwrap();
    text +=
        &format!("\n[cpu]\ndedicated = \"0,8000\"\n\n[[pci]]\nalias = \"card\"\naddress = \"{address}\"\n");
    std::fs::write(&config, text).unwrap();
    let daemon = daemon.again().await;
    let node = daemon
        .until("the node offers both", async |daemon| {
            let node = daemon.get("/v1/nodes/n1").await.json;
            (node["dedicated_cpus"].get("0").is_some() && node["pci_devices"].get(&address).is_some())
                .then_some(node)
        })
        .await;
    assert_eq!(node["inventory"]["PCPU"]["total"], 1, "{node}");
    let missing = node["conditions"]["PartsMissing"]["message"].as_str().unwrap_or_default();
    assert!(missing.contains("CPU 8000 of `[cpu] dedicated`"), "{node}");
    for (name, specs) in [
        ("own-cpu", json!({"hw:cpu_policy": "dedicated"})),
        ("own-card", json!({"pci_passthrough:alias": "card:1"})),
        ("two-cards", json!({"pci_passthrough:alias": "card:2"})),
        ("no-card", json!({"pci_passthrough:alias": "piano:1"})),
    ] {
        let flavor = json!({"name": name, "vcpus": 1, "memory_mib": 16, "extra_specs": specs});
        daemon.post("/v1/flavors", flavor).await.expect(201);
    }
    for flavor in ["own-cpu", "own-card"] {
        let path = format!("/v1/allocation-candidates?flavor={flavor}");
        let candidates = daemon.get(&path).await.expect(200).json;
        assert_eq!(candidates["candidates"][0]["count"], 1, "{candidates}");
    }
    daemon.post("/v1/vms", vm("cpu", json!({"flavor": "own-cpu"}))).await.expect(202);
    assert_eq!(daemon.until_status("cpu", "ACTIVE").await["cpus"], json!([0]));
    daemon.post("/v1/vms", vm("card", json!({"flavor": "own-card"}))).await.expect(202);
    daemon
        .until("the card is held", async |daemon| {
            (daemon.get("/v1/vms/card").await.json["pci_devices"] == json!([address])).then_some(())
        })
        .await;
    for (flavor, by) in [
        ("own-cpu", "Capacity"),
        ("own-card", "PciDevices"),
        ("two-cards", "PciDevices"),
        ("no-card", "PciDevices"),
    ] {
        let dry = vm("next", json!({"flavor": flavor}));
        let dry = daemon.post("/v1/vms?dry_run=true", dry).await.expect(200).json;
        assert_eq!(dry["hosts"][0]["by"], by, "{flavor}: {dry}");
    }
}
