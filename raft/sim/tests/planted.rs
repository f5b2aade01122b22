//! Bugs planted in the product's own code (`holm_model::planted`) are found, each in processes of its own, since a process
//! has one for life.
//!
//! `cargo test -p holm-raft-sim --features planted --test planted -- --nocapture`

use std::process::Command;
use std::time::Instant;

/// Those that are in code which is simulated here.
const PLANTS: &[&str] = &[
    "skip-fsync",
    "whole-values",
    "recreate-store",
    "forget-window",
    "applied-not-atomic",
    "renumber-events",
    "local-read",
    "read-without-quorum",
    "no-begin-leadership",
    "unknown-as-refused",
    "no-dedup",
];

#[test]
fn every_bug_in_simulated_code_is_found() {
    for plant in PLANTS {
        let began = Instant::now();
        let args = ["--seeds", "2000", "--plant", plant];
        let output = Command::new(env!("CARGO_BIN_EXE_holm-raft-sim")).args(args).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout);
        let found = said.lines().last().unwrap_or_default();
        println!("{plant}: {:.1} s: {found}", began.elapsed().as_secs_f64());
        assert!(!output.status.success() && found.starts_with("seed "), "{plant}: {said}");
    }
}
