//! `holm image …` as typed.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::project::ListOfProject;

use super::value::key_value;

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Uploads a file as an image.
    Import(Import),
    /// Lists the images a project may use: its own and those of `default`.
    List(ListOfProject),
    /// Shows an image.
    Show(Target),
    /// Deletes an image that no VM uses.
    Delete(Target),
}

#[derive(Debug, Args)]
pub struct Target {
    /// Name or id.
    pub image: String,
}

#[derive(Debug, Args)]
pub struct Import {
    pub file: PathBuf,
    /// 1 to 63 letters, digits, `-`, `_` and `.`; without it, the file's name without its ending.
    #[arg(long)]
    pub name: Option<String>,
    /// What the file is; without it, told from its first bytes.
    #[arg(long, value_enum)]
    pub kind: Option<Kind>,
    /// What the image needs of a host, such as `hw_architecture=x86_64`; may be repeated.
    #[arg(long = "property", value_name = "KEY=VALUE", value_parser = key_value)]
    pub properties: Vec<(String, String)>,
}

/// How a VMM uses the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// An ELF file with a PVH note, or a bzImage.
    Kernel,
    /// A disk, byte for byte.
    #[value(name = "raw-disk", alias = "raw")]
    RawDisk,
    /// A qcow2 disk without a backing file.
    #[value(name = "qcow2-disk", alias = "qcow2")]
    Qcow2Disk,
}
