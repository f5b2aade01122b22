//! Bugs on demand are in no program that is shipped, and the suite finds one where it is planted.

mod isolation;

use std::path::PathBuf;

use holm_jepsen::harness::binary;
use holm_jepsen::mutants;

/// What the planted program reads to learn what to break.
const VARIABLE: &[u8] = b"HOLM_PLANT";

fn mentions(program: &PathBuf) -> bool {
    let bytes = std::fs::read(program).expect("the program can be read");
    bytes.windows(VARIABLE.len()).any(|window| window == VARIABLE)
}

#[test]
fn what_is_shipped_cannot_be_told_to_break_anything() {
    let shipped = binary::holmd().expect("holmd is built");
    let planted = binary::holmd_planted().expect("holmd-planted is built");
    assert!(!mentions(&shipped), "{} reads HOLM_PLANT", shipped.display());
    assert!(mentions(&planted), "this test would not notice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planted_bug_is_found() {
    if isolation::skipped("a_planted_bug_is_found") {
        return;
    }
    let store = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("jepsen-planted");
    let found = Box::pin(mutants::run(&["impure-apply".to_owned()], 1, &store)).await;
    assert!(found.expect("there is such a bug"), "impure-apply was not found");
    std::fs::remove_dir_all(&store).expect("the runs' folder can be removed");
}
