//! Each interleaving breaks the protocol without its rule, and does not with every rule.

use std::collections::BTreeSet;

use holm_sim::fencing::{Rule, Rules, interleaving, walk};

#[test]
fn each_interleaving_breaks_what_lacks_its_rule_and_nothing_else() {
    for (numbers, availability, steps) in interleaving::every() {
        let (_, with_all) = walk::replay(Rules::all(), availability, &steps);
        assert_eq!(with_all, None, "{numbers}");
        let (taken, found) = walk::replay(without(numbers), availability, &steps);
        assert!(found.is_some(), "without {numbers}: {taken:?}");
    }
}

#[test]
fn every_rule_has_one() {
    let all = interleaving::every();
    let had: BTreeSet<&str> = all.iter().flat_map(|(numbers, ..)| numbers.split(',')).collect();
    let rules: BTreeSet<&str> = Rule::ALL.iter().map(|rule| rule.number()).collect();
    assert_eq!(had, rules);
}

fn without(numbers: &str) -> Rules {
    format!("without-{numbers}").parse().expect("rules of the page")
}
