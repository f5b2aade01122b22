//! Real members on real sockets and disks, several in one process: writes, elections, leases, joining, leaving, lagging, no
//! stale read. One program, so that what waits for clocks waits side by side.

mod cluster;
mod history;
mod leases;
mod members;
mod reads;
mod snapshots;
#[path = "../support/mod.rs"]
mod support;
