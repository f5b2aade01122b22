//! What was done and what came of it: every operation with its beginning, its end and its outcome, on one
//! monotonic clock; and the journal, a JSONL file that is written as things happen.

pub mod journal;
pub mod operation;
pub mod recorder;
pub mod stored;

pub use journal::Journal;
pub use operation::{Fault, FaultKind, Operation, Outcome};
pub use recorder::Recorder;
