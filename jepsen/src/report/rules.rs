//! What each checker's verdict is about, in a sentence: whoever reads a report should argue about the rule, not about
//! what was looked at. The file of the checker says it at length.

/// The rule that this checker judges by.
pub fn of(checker: &str) -> &'static str {
    match checker {
        "acknowledged" => {
            "What was acknowledged is there, what was deleted is not, and every node says the same."
        }
        "capacity" => "At no revision do the VMs placed on a node need more than it has.",
        "claims" => "What a node counts as used is the sum over the VMs it holds, and no more than it has.",
        "epochs" => "Every process of a VM runs where the cluster placed it, at the epoch of that placement.",
        "events" => {
            "Every node's stream gave the same events in the same order, without a gap or a repetition."
        }
        "failover" => {
            "No VM has two processes at once; none stops without a fault that explains it; each runs in the end."
        }
        "faults" => "Every fault took hold and was healed, as many as were asked for.",
        "fresh" => "No read misses a write that was acknowledged before the read began.",
        "given-back" => "A VM that its host gave back does not start there again.",
        "heals" => "The cluster comes back whole from every fault, within the time it has.",
        "identity" => "A store that was lost does not begin anew under the id of its node.",
        "kept" => "What was acknowledged is there in the end, at every node.",
        "leaders" => "A term has one leader, and terms only rise.",
        "lifetimes" => {
            "No VM has two processes at once, none is interrupted but by power, and what is ACTIVE runs."
        }
        "linearizable" => {
            "Each key behaves as one register on which every operation acts at one moment of its time."
        }
        "once" => "A request acts once, however often it is sent under its key.",
        "patience" => "No VM that waits for room is given up before its time.",
        "power" => "A VM that was asked to be on is on in the end, whatever was asked in between.",
        "quota" => "At no revision does a project have more VMs than its quota.",
        "reads" => {
            "A read finds what was created before and not deleted since, and a VM seen gone stays gone."
        }
        "replicas" => "All nodes have the same state at the same log index.",
        "serializable" => "Transactions are as if made one after another, in an order that agrees with time.",
        "settled" => "In the end every VM is ACTIVE, or in ERROR with a reason, and nothing is under way.",
        "spared" => "Faults of network, power and daemons leave no VM in ERROR.",
        "states" => {
            "Every state in which a VM was seen can follow from what its client asked for until then."
        }
        "unique" => "No two things of a kind ever have the same id.",
        "untouched" => "A guest is not touched by a host whose replica has not seen why it runs.",
        "vacuity" => "Every kind of operation succeeded at every node: the run put the promises to the test.",
        "whole" => "No daemon ended by itself, and nothing was left running in the end.",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::of;

    #[test]
    fn every_checker_has_its_rule_told() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/checker");
        let mut count = 0;
        for file in fs::read_dir(folder).expect("the checkers' folder").flatten() {
            let text = fs::read_to_string(file.path()).expect("a source file");
            let Some((_, rest)) = text.split_once("const NAME: &str = \"") else { continue };
            let (name, _) = rest.split_once('"').expect("a closed string");
            assert_ne!(of(name), "", "{name}");
            count += 1;
        }
        assert!(count > 20, "{count} checkers");
    }
}
