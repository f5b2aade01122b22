//! The agent makes this host match the replicated record: observe → plan → execute, one task a VM.
//! Level-triggered: it reads the state, never "what just happened", so a lost message heals itself.

pub mod adopt;
pub mod execute;
pub mod fence;
pub mod host_facts;
pub mod host_parts;
pub mod host_topology;
pub mod images;
pub mod node_report;
pub mod orphans;
pub mod plan;
pub mod report;
mod start;
pub mod start_order;
pub mod vms;
mod worker;
