//! Drives VMs: the Hypervisor trait, Cloud Hypervisor behind a shim process, a simulated driver and the image store.
pub mod hypervisor;
