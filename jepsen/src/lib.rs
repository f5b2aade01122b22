//! Real daemons, real faults, and checkers that do not take the daemon's word.
//!
//! A test is a workload (clients that record every operation), a nemesis (faults that are verified to have
//! taken hold) and checkers (pure functions over what was recorded). `run` puts one together, `report`
//! prints its verdicts; the harness starts and ends the daemons and leaves nothing behind.

pub mod checker;
pub mod harness;
pub mod history;
pub mod matrix;
pub mod mutants;
pub mod nemesis;
pub mod report;
pub mod run;
pub mod seed;
pub mod workload;
