//! The files of a data directory, but for the store's: the host's, or those of a simulated disk.

#[cfg(feature = "simulation")]
pub(crate) use crate::simulated::files::{
    File, create_dir_all, exists, read, remove_dir_all, remove_file, rename,
};
#[cfg(not(feature = "simulation"))]
pub(crate) use std::fs::{File, create_dir_all, exists, read, remove_dir_all, remove_file, rename};
