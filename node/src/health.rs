//! Host health: what is wrong with this host, as conditions of its node. Facts are gathered by a thin shell
//! ([`Looker`]) and judged by a pure function ([`judge`]); a condition keeps the moment it began and goes by itself
//! when the facts do. What a condition does to placement is `holm_model::condition`'s business.

mod binary;
mod clock;
mod disk;
mod facts;
mod judge;
mod links;
mod look;
mod memory;

pub use facts::{Facts, Watchdog};
pub use judge::{conditions, judge};
pub use look::{Looker, Places};
