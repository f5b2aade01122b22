//! The scheduler against the real state machine: clusters are made by applying commands, and decisions
//! are judged by applying them.

mod admission;
mod advice;
mod batches;
mod candidates;
mod cluster;
mod drain;
mod explain;
mod fencing;
mod filters;
mod filters_facts;
mod filters_nova;
mod fixtures;
mod groups;
mod health;
mod in_use;
mod n_plus_one;
mod node_health;
mod odd_cases;
mod overdue;
mod parts;
mod placement;
mod preempt;
mod properties;
mod rebalance;
mod reference;
mod reference_parts;
mod reserve;
mod rest;
mod restart;
mod retry;
mod steps;
mod weighers;
mod what_if;
mod world;
