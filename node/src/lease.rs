//! This node's lease: its permission to run VMs that may be failed over (FENCING.md, rules 6, 11, 15 and 16).
//! [`keeper`] asks the leader for it once a second, [`holder`] decides what a grant means, [`current`] is what
//! the rest of the daemon sees. The lease is enforced elsewhere: by each VM's shim, from the lease file.

pub mod current;
pub mod holder;
pub mod keeper;

pub use current::{Current, Standing};
pub use holder::{Holder, InForce};
