//! Where a VM goes, and why not there: filters, weighers, batch selection, explanations and the leader's
//! controllers. All pure: state and facts in, commands out, the same answer everywhere.

pub mod controller;
pub mod controllers;
pub mod explain;
pub mod filter;
pub mod filters;
pub mod policy;
pub mod select;
pub mod weigher;
pub mod weighers;

pub use controller::{Controller, Facts};
pub use explain::{Explanation, explain};
pub use filter::{Filter, Host, Request};
pub use policy::Policy;
pub use select::Batch;
pub use weigher::Weigher;
