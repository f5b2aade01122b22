//! Replicas agree: at the same log index, all nodes have the same hash of the state.

use holm_api::Checkpoint;

use super::Verdict;

const NAME: &str = "replicas";

/// Judges one checkpoint of each of `nodes` nodes.
pub fn check(nodes: usize, checkpoints: &[Checkpoint]) -> Verdict {
    let Some(first) = checkpoints.first() else { return Verdict::unknown(NAME, "no node was asked") };
    let mut names: Vec<_> = checkpoints.iter().map(|of| &of.node).collect();
    names.sort();
    names.dedup();
    if names.len() != nodes {
        return Verdict::unknown(NAME, format!("{} of {nodes} nodes answered", names.len()));
    }
    if checkpoints.iter().any(|of| of.log_index != first.log_index) {
        return Verdict::unknown(NAME, "the nodes were never at one log index");
    }
    let differ = |of: &&Checkpoint| of.state_hash != first.state_hash || of.revision != first.revision;
    let violations = checkpoints.iter().filter(differ).map(|of| {
        format!(
            "at index {}: {} has {} (revision {}), {} has {} (revision {})",
            of.log_index, first.node, first.state_hash, first.revision, of.node, of.state_hash, of.revision
        )
    });
    let figures =
        format!("index {}, revision {}, {:.12}…", first.log_index, first.revision, first.state_hash);
    Verdict::of(NAME, violations.collect(), figures)
}

#[cfg(test)]
mod tests {
    use super::super::Finding;
    use super::*;

    fn at(node: &str, log_index: u64, hash: &str) -> Checkpoint {
        let state_hash = hash.to_owned();
        Checkpoint { node: node.to_owned(), node_id: 1, log_index, revision: 7, state_hash }
    }

    #[test]
    fn equal_hashes_at_one_index_are_valid() {
        assert!(check(2, &[at("n1", 9, "ab"), at("n2", 9, "ab")]).is_valid());
    }

    #[test]
    fn another_hash_at_the_same_index_is_invalid() {
        let verdict = check(2, &[at("n1", 9, "ab"), at("n2", 9, "cd")]);
        assert!(matches!(verdict.finding, Finding::Invalid(_)));
    }

    #[test]
    fn different_indexes_or_a_missing_node_prove_nothing() {
        for checkpoints in [vec![], vec![at("n1", 9, "ab")], vec![at("n1", 9, "ab"), at("n2", 8, "ab")]] {
            assert!(matches!(check(2, &checkpoints).finding, Finding::Unknown(_)));
        }
    }
}
