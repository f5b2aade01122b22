//! Where a VM goes, and why not there: filters, weighers, batch selection, explanations, what-if and the
//! leader's controllers. All pure: state and facts in, commands out, the same answer everywhere.

pub mod admission;
pub mod admitted_part;
pub mod advice;
pub mod candidates;
mod column;
pub mod controller;
pub mod controllers;
pub mod explain;
pub mod extra_specs;
pub mod filter;
pub mod filters;
pub mod foresee;
pub mod host;
mod ignored;
mod imagine;
pub mod n_plus_one;
pub mod places;
pub mod policy;
pub mod preempt;
pub mod queue;
pub mod rebalance;
pub mod request;
pub mod reserve;
pub mod select;
mod shape;
mod steady;
pub mod weigher;
pub mod weighers;
pub mod what_if;

pub use advice::{Advice, advise};
pub use controller::{Controller, Facts, Rest};
pub use explain::{Explanation, explain, explain_request};
pub use filter::Filter;
pub use foresee::{Foresight, foresee};
pub use host::Host;
pub use ignored::ignored;
pub use n_plus_one::{After, NPlusOne, n_plus_one, n_plus_one_after};
pub use policy::Policy;
pub use queue::{decide_again, replay};
pub use rebalance::rebalance;
pub use request::Request;
pub use select::Batch;
pub use shape::Chosen;
pub use weigher::Weigher;
pub use what_if::{WhatIf, what_if};
