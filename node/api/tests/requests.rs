//! What a client sends, as it is on the wire: defaults, short forms, and what is misspelt.

use holm_api::*;
use insta::assert_json_snapshot;
use serde_json::json;

#[test]
fn requests_take_their_defaults() {
    let create: CreateVm =
        serde_json::from_value(json!({"name": "web", "flavor": "small", "image": "guest"})).unwrap();
    let flavor: CreateFlavor =
        serde_json::from_value(json!({"name": "small", "vcpus": 1, "memory_mib": 64})).unwrap();
    let stop: StopVm = serde_json::from_value(json!({})).unwrap();
    let reboot: RebootVm = serde_json::from_value(json!({"hard": true})).unwrap();
    let patch: PatchNode = serde_json::from_value(json!({"enabled": true})).unwrap();
    assert_json_snapshot!((create, flavor, stop, reboot, patch));
}

#[test]
fn a_selector_is_sent_as_an_object_or_in_short() {
    let read = |selector: serde_json::Value| {
        let body = json!({"name": "a", "flavor": "f", "image": "i", "node_selector": [selector]});
        serde_json::from_value::<CreateVm>(body).map(|vm| vm.node_selector)
    };
    let long = json!({"key": "disk", "operator": "In", "values": ["nvme"]});
    assert_eq!(read(long).unwrap(), read(json!("disk = nvme")).unwrap());
    for bad in [
        json!("disk ~ nvme"),
        json!(7),
        json!({"key": "disk"}),
        json!({"key": "a", "operator": "In", "x": 1}),
    ] {
        assert!(read(bad.clone()).is_err(), "{bad}");
    }
}

#[test]
fn a_node_refuses_what_a_client_misspells() {
    assert!(serde_json::from_value::<StopVm>(json!({"forse": true})).is_err());
    assert!(serde_json::from_value::<PatchNode>(json!({"enabled": true, "why": "x"})).is_err());
}
