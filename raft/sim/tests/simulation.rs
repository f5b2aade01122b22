//! The Raft layer holds, seed after seed, and a seed is a run. More of them: `HOLM_RAFT_SIM_SEEDS=5000`.

use std::process::{Command, Output};

/// What fits into a run of all tests.
const SEEDS: u64 = 10;

fn simulate(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_holm-raft-sim")).args(args).output().expect("it runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn nothing_is_found() {
    let seeds =
        std::env::var("HOLM_RAFT_SIM_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    let output = simulate(&["--seeds", &seeds.to_string()]);
    print!("{}", said(&output));
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn a_member_that_was_set_back_to_a_copy_ends_nobody_and_is_given_what_it_lacks() {
    let output = simulate(&["--seeds", "3", "--set-back"]);
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn the_same_seed_twice_is_the_same_run_to_the_byte_and_another_is_another() {
    let [one, again, other] = ["7", "7", "8"].map(|seed| simulate(&["--from", seed, "--trace"]));
    assert!(one.status.success() && one.stdout.len() > 10_000, "{}", said(&one));
    assert!(one.stdout == again.stdout, "two runs of one seed");
    assert!(one.stdout != other.stdout, "two seeds, one run");
}
