//! The cluster comes out whole: no daemon ended although nobody asked, and nothing is left on the host once
//! all have stopped: no process, no cgroup.

use super::Verdict;

const NAME: &str = "whole";

/// Judges what the harness saw.
pub fn check(ended_by_themselves: &[String], left_behind: &[String]) -> Verdict {
    let left = left_behind.iter().map(|what| format!("left behind: {what}"));
    let violations: Vec<_> = ended_by_themselves.iter().cloned().chain(left).collect();
    Verdict::of(NAME, violations, "daemons, processes and cgroups".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_crashed_and_a_process_left_behind_are_invalid() {
        assert!(check(&[], &[]).is_valid());
        assert!(!check(&["n1 ended by itself (exit status: 101)".into()], &[]).is_valid());
        assert!(!check(&[], &["process 7 (holmd shim)".into()]).is_valid());
    }
}
