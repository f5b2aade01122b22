//! The driver against the real Cloud Hypervisor, and against programs that stand in for a broken one.
//! Where it or `/dev/kvm` is missing, each test says so in a line and passes.

mod console;
mod disks;
mod leases;
mod lifecycle;
mod misbehaviour;
mod rig;
