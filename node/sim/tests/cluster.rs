//! The simulated cluster: hundreds of seeds without a violation, a seed that is a run byte for byte, and
//! bugs that are found when they are planted.

use clap::ValueEnum;
use holm_sim::cluster::{Bug, Figures, Options, run};

fn seed(seed: u64) -> Options {
    Options { seed, ..Options::default() }
}

#[test]
fn three_hundred_seeds_violate_nothing_and_settle() {
    let mut all = Figures::default();
    for n in 1..=300 {
        let outcome = run(seed(n));
        assert_eq!(outcome.violation, None, "cargo run -p holm-sim -- run --from {n} --seeds 1 --trace");
        all.add(&outcome.figures);
    }
    println!("{all}");
    // Nobody takes empty runs for good ones.
    assert!(all.leaders > 600 && all.faults > 2_000, "{all}");
    assert!(all.acknowledged > 3_000 && all.starts > 2_000 && all.fences > 60, "{all}");
}

#[test]
fn the_same_seed_twice_is_the_same_run_byte_for_byte() {
    for n in [7, 8, 9] {
        let [once, twice] = [(); 2].map(|()| run(Options { trace: true, ..seed(n) }));
        assert!(once.trace.lines().count() > 50, "{}", once.trace);
        assert_eq!(once, twice);
    }
}

#[test]
fn every_planted_bug_is_found() {
    for bug in Bug::value_variants() {
        let found = (1..=400).find_map(|n| {
            let outcome = run(Options { bug: Some(*bug), ..seed(n) });
            outcome.violation.map(|violation| (n, violation))
        });
        let (n, violation) = found.unwrap_or_else(|| panic!("{bug:?} is not found"));
        println!("{bug:?}: seed {n}: {violation}");
    }
}
