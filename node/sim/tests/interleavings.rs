//! Each interleaving breaks the protocol without its rule, and does not with every rule.

use holm_sim::fencing::{Rules, interleaving, walk};

#[test]
fn each_interleaving_breaks_what_lacks_its_rule_and_nothing_else() {
    for (numbers, availability, steps) in interleaving::every() {
        let (_, with_all) = walk::replay(Rules::all(), availability, &steps);
        assert_eq!(with_all, None, "{numbers}");
        let (taken, found) = walk::replay(without(numbers), availability, &steps);
        assert!(found.is_some(), "without {numbers}: {taken:?}");
    }
}

fn without(numbers: &str) -> Rules {
    format!("without-{numbers}").parse().expect("rules of the page")
}
