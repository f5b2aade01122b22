//! The shapes of shared volumes on the wire.

use holm_api::{CreateVolume, Timestamp, Volume, VolumeLock};
use serde_json::json;
use uuid::Uuid;

#[test]
fn a_volume_shows_where_it_is_how_it_is_guarded_and_who_has_it() {
    let volume = Volume {
        id: Uuid::nil(),
        name: "data".into(),
        project: "default".into(),
        path: "/dev/disk/by-id/wwn-0x5000c500a0b1c2d3".into(),
        read_only: false,
        lock: VolumeLock::PersistentReservation,
        vms: vec!["db".into()],
        created_at: Timestamp("2026-11-30T12:00:00.000Z".into()),
        revision: 4,
    };
    insta::assert_json_snapshot!(volume);
}

#[test]
fn a_request_takes_its_defaults_and_refuses_what_is_misspelt() {
    let request = |body| serde_json::from_value::<CreateVolume>(body);
    let plain = request(json!({"name": "data", "path": "/srv/data.img"})).unwrap();
    assert_eq!((plain.read_only, plain.lock), (false, VolumeLock::None));
    assert!(request(json!({"name": "data", "path": "/a", "lock": "flock"})).is_err());
    assert!(request(json!({"name": "data", "path": "/a", "readonly": true})).is_err());
}
