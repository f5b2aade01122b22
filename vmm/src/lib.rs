//! Drives VMs on one host: the [`Hypervisor`] trait, Cloud Hypervisor behind a shim process per VM, a
//! simulated driver that needs no host support, and the store of images they boot from.

pub mod cloud_hypervisor;
mod disk;
pub mod disk_floor;
mod durable;
pub mod host;
pub mod hypervisor;
pub mod image_check;
pub mod image_store;
mod last_run;
pub mod lease;
pub mod pci;
pub mod shim;
pub mod simulated;
pub mod test_guest;
mod vm_dir;
mod vm_files;
pub mod vm_state;
pub mod volume;
pub mod watchdog;

pub use cloud_hypervisor::CloudHypervisor;
pub use hypervisor::Hypervisor;
pub use image_store::ImageStore;
pub use simulated::Simulated;
