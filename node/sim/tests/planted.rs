//! Bugs planted in the product's own code (`holm_model::planted`) are found by the simulation, each in a process
//! of its own, since a process has one for life.
//!
//! `cargo test -p holm-sim --features planted --test planted -- --nocapture`

use std::process::Command;

/// Those that are in code which the simulation runs.
const PLANTS: &[&str] = &[
    "claim-later",
    "leak-claim",
    "resurrect-delete",
    "quota-at-leader",
    "no-wait-after-election",
    "down-is-fenced",
    "start-without-lease",
    "trust-lagging-replica",
    "restart-touches-vms",
];

#[test]
fn every_bug_in_simulated_code_is_found() {
    for plant in PLANTS {
        let args = ["run", "--seeds", "3000", "--plant", plant];
        let output = Command::new(env!("CARGO_BIN_EXE_holm-sim")).args(args).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout);
        println!("{plant}: {said}");
        assert!(!output.status.success() && said.contains("seed "), "{plant}: {said}");
    }
}
