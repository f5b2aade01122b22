//! What tests of nodes with networks and disks of their own share.

use std::path::PathBuf;

use holm_jepsen::harness::Hypervisor;
use holm_jepsen::harness::cluster::isolation_missing;
use holm_jepsen::nemesis::{Extent, Nemesis};
use holm_jepsen::run::{self, Options, Test, Trouble};

/// Whether `test` must be skipped, which it then says in one visible line.
pub fn skipped(test: &str) -> bool {
    match isolation_missing() {
        Some(why) => {
            // Past libtest's capture, which hides what passing tests print.
            drop(std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("SKIPPED: {test}: {why}\n")));
            true
        }
        None => false,
    }
}

/// Some rounds of one kind of fault.
#[allow(dead_code)] // Not every test runs workloads.
pub async fn run(name: &str, test: Test, nemesis: Nemesis, rounds: u64) {
    if skipped(name) {
        return;
    }
    let options = Options {
        rounds,
        seed: rand::random(),
        nodes: 3,
        hypervisor: Hypervisor::Simulated,
        plant: None,
        store: PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("jepsen"),
    };
    let trouble = Trouble { nemesis, extent: Extent::Rounds(rounds) };
    let report = run::run_under(test, &options, Some(trouble)).await;
    let report = report.unwrap_or_else(|error| panic!("{name}: the harness failed: {error:#}"));
    println!("{report}");
    assert!(report.is_valid(), "{report}");
    // Evidence is kept only of runs that need it.
    std::fs::remove_dir_all(&report.store).expect("the run's folder can be removed");
}
