//! What a run was worth in numbers, for its report and for the matrix.

use std::time::Duration;

use crate::history::{Fault, Operation, Outcome};
use crate::report::Counts;

/// What a matrix shows of a run.
pub(super) fn counts<C, A>(faults: &[Fault], operations: &[Operation<C, A>], unavailable_ms: u64) -> Counts {
    let mut counts = Counts { faults: faults.len(), unavailable_ms, ..Counts::default() };
    for operation in operations {
        match operation.outcome {
            Outcome::Ok(_) => counts.ok += 1,
            Outcome::Fail(_) => counts.fail += 1,
            Outcome::Info(_) => counts.info += 1,
        }
    }
    counts
}

/// From each fault to the first acknowledgement of a write that was sent after it.
pub(super) fn unavailability<'a, C, A>(
    what: &str,
    faults: impl Iterator<Item = &'a Fault>,
    operations: &[Operation<C, A>],
    is_write: impl Fn(&C) -> bool,
) -> Option<String> {
    let written = |after: u64| {
        let acknowledged = operations
            .iter()
            .filter(|op| op.invoked_ns > after && op.outcome.ok().is_some() && is_write(&op.call));
        acknowledged.map(|op| op.completed_ns).min()
    };
    let mut gaps: Vec<_> = faults
        .filter_map(|fault| Some(Duration::from_nanos(written(fault.began_ns)? - fault.began_ns)))
        .collect();
    gaps.sort();
    let (median, longest) = (gaps.get(gaps.len() / 2)?, gaps.last()?);
    Some(format!(
        "writes after {what}: acknowledged again within {} ms at the median, {} ms at most ({} times)",
        median.as_millis(),
        longest.as_millis(),
        gaps.len()
    ))
}
