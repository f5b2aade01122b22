//! The promises about restarts and host shutdown rest on a few settings of the units.

use std::collections::BTreeMap;

fn unit(name: &str) -> BTreeMap<String, Vec<String>> {
    let path = format!("{}/systemd/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let mut settings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, value) in text.lines().filter(|line| !line.starts_with('#')).filter_map(|l| l.split_once('=')) {
        settings.entry(key.to_owned()).or_default().push(value.to_owned());
    }
    settings
}

#[test]
fn the_daemons_unit_never_ends_a_vm() {
    let unit = unit("holmd.service");
    for (key, value) in [
        ("Type", "notify"),
        ("KillMode", "process"),
        ("Delegate", "yes"),
        ("OOMPolicy", "continue"),
        ("OOMScoreAdjust", "-900"),
        ("TasksMax", "infinity"),
        ("LimitNOFILE", "65536"),
        ("RuntimeDirectoryPreserve", "yes"),
        ("Restart", "always"),
    ] {
        assert_eq!(unit.get(key), Some(&vec![value.to_owned()]), "{key}");
    }
}

#[test]
fn guests_are_stopped_at_host_shutdown_only() {
    let unit = unit("holm-guests.service");
    assert_eq!(unit["ExecStop"], ["/usr/local/bin/holmd stop-guests"]);
    assert_eq!(unit["RemainAfterExit"], ["yes"]);
    assert_eq!(unit["RefuseManualStop"], ["yes"]);
    let after: Vec<&str> = unit["After"][0].split(' ').collect();
    assert!(after.contains(&"holmd.service"), "stopped before the daemon");
    // Also where the daemon is not running: guests go before what they need goes.
    let daemon = self::unit("holmd.service");
    for needed in daemon["After"][0].split(' ') {
        assert!(after.contains(&needed), "{needed}");
    }
    for binding in ["Requires", "BindsTo", "PartOf", "Requisite"] {
        assert!(!unit.contains_key(binding), "{binding} would stop guests with the daemon");
    }
}

#[test]
fn the_watchdog_is_fed_through_anything_and_rests_after_the_guests() {
    let unit = unit("holm-watchdog.service");
    assert_eq!(unit["ExecStart"], ["/usr/local/bin/holmd watchdog --timeout 4"]);
    assert_eq!(unit["ConditionPathExists"], ["/dev/watchdog"]);
    assert_eq!(unit["Restart"], ["always"]);
    assert_eq!(unit["StartLimitIntervalSec"], ["0"], "it is never given up");
    assert_eq!(unit["OOMScoreAdjust"], ["-1000"]);
    assert_eq!(unit["LimitMEMLOCK"], ["infinity"]);
    assert!(unit["Before"][0].contains("holm-guests.service"), "stopped after the guests");
    let restart_ms: u64 =
        unit["RestartSec"][0].strip_suffix("ms").and_then(|ms| ms.parse().ok()).expect("ms");
    assert!(restart_ms < 2000, "well within the time-out of the device");
}
