//! Clusters whose VMs are simulated: short runs of the workloads under faults, and cases that such runs brought to light.
//! One program, so that what waits for daemons waits side by side.

mod forming;
mod isolated;
#[path = "../isolation/mod.rs"]
mod isolation;
mod rounds;
mod stale_read;
mod vm_lifecycle;
mod workloads;
