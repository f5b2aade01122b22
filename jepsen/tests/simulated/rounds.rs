//! Runs a test with as many rounds as there is time for: `HOLM_JEPSEN_ROUNDS` makes it more, and
//! `HOLM_JEPSEN_SEED` repeats one.

use std::path::PathBuf;

use holm_jepsen::harness::Hypervisor;
use holm_jepsen::run::{self, Options, Test};

pub async fn run(test: Test, rounds: u64) {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|value| value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
    };
    let options = Options {
        rounds: number("HOLM_JEPSEN_ROUNDS").unwrap_or(rounds),
        seed: number("HOLM_JEPSEN_SEED").unwrap_or_else(rand::random),
        nodes: 3,
        hypervisor: Hypervisor::Simulated,
        plant: None,
        store: PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("jepsen"),
    };
    let report = run::run(test, &options).await.unwrap_or_else(|error| {
        panic!("{} with seed {}: the harness failed: {error:#}", test.name(), options.seed)
    });
    println!("{report}");
    assert!(report.is_valid(), "{report}");
    // Evidence is kept only of runs that need it.
    std::fs::remove_dir_all(&report.store).expect("the run's folder can be removed");
}
