//! `holm image import`: checksum first, then the upload, so that a file that changes or breaks on the way
//! is refused by the node instead of stored.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holm_api::{CreateImageQuery, Image, ImageKind};
use sha2::{Digest, Sha256};
use tokio::time::interval;

use super::kind;
use crate::args::image::{Import, Kind};
use crate::client::path;
use crate::client::upload::Upload;
use crate::commands::Context;
use crate::error::Error;
use crate::output::text;
use crate::progress::Progress;

/// Disks consist of these.
const SECTOR_BYTES: u64 = 512;
/// Endings that are not part of an image's name.
const ENDINGS: [&str; 6] = ["img", "raw", "qcow2", "elf", "bin", "bzimage"];

pub async fn run(cx: &Context, typed: &Import) -> Result<(), Error> {
    let found = inspect(&typed.file)?;
    let name = match &typed.name {
        Some(name) => name.clone(),
        None => default_name(&typed.file)?,
    };
    if found.size_bytes == 0 {
        let detail = format!("{} is empty", typed.file.display());
        return Err(Error::Failed { detail, hint: Some("give a kernel or a disk image".into()) });
    }
    let kind = typed.kind.map_or(found.kind, ImageKind::from);
    if kind == ImageKind::RawDisk && found.size_bytes % SECTOR_BYTES != 0 {
        let detail = format!(
            "{} is no raw disk: {} bytes are not a multiple of {SECTOR_BYTES}",
            typed.file.display(),
            found.size_bytes
        );
        let guessed = "it is neither an ELF file or bzImage nor qcow2; if it is, say so with --kind";
        return Err(Error::Failed { detail, hint: typed.kind.is_none().then(|| guessed.into()) });
    }
    let image_path = path::of("images", &name, "")?;
    // The node would say so only after it has taken all the bytes.
    if cx.client.find::<Image>(&image_path).await?.is_some() {
        let hint = format!("choose another with --name, or `holm image delete {name}` first");
        return Err(Error::Failed { detail: format!("the image name `{name}` is taken"), hint: Some(hint) });
    }
    let sha256 = checksum(&typed.file, found.size_bytes).await?;
    let uploaded = upload(cx, typed, &name, kind, found.size_bytes, sha256).await;
    let image = uploaded.map_err(|error| match error {
        Error::Problem(mut problem) if typed.name.is_none() && problem.field.as_deref() == Some("name") => {
            problem.hint = Some("the name was taken from the file's; give another with --name".into());
            Error::Problem(problem)
        }
        other => other,
    })?;
    let guessed = match (typed.kind, kind) {
        (None, ImageKind::RawDisk) => " (neither a kernel nor qcow2)",
        _ => "",
    };
    let size = text::bytes(image.size_bytes);
    cx.output.done(
        &image,
        &format!("image {} imported: {}{guessed}, {size}, sha256 {}", image.name, image.kind, image.sha256),
    )
}

impl From<Kind> for ImageKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Kernel => Self::Kernel,
            Kind::RawDisk => Self::RawDisk,
            Kind::Qcow2Disk => Self::Qcow2Disk,
        }
    }
}

struct Found {
    size_bytes: u64,
    kind: ImageKind,
}

fn inspect(file: &Path) -> Result<Found, Error> {
    let opened = File::open(file).map_err(Error::file("read", file))?;
    let facts = opened.metadata().map_err(Error::file("read", file))?;
    if !facts.is_file() {
        let detail = format!("{} is not a regular file", file.display());
        return Err(Error::Failed { detail, hint: Some("give a kernel or a disk image".into()) });
    }
    let mut start = Vec::new();
    opened.take(kind::LOOKED_AT as u64).read_to_end(&mut start).map_err(Error::file("read", file))?;
    Ok(Found { size_bytes: facts.len(), kind: kind::guess(&start) })
}

fn default_name(file: &Path) -> Result<String, Error> {
    let name = file.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| Error::usage("the file's name is not text", "give --name"))?;
    Ok(match name.rsplit_once('.') {
        Some((stem, ending)) if ENDINGS.contains(&ending.to_lowercase().as_str()) && !stem.is_empty() => {
            stem.into()
        }
        _ => name.into(),
    })
}

async fn checksum(file: &Path, size_bytes: u64) -> Result<String, Error> {
    let done = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&done);
    let path = file.to_owned();
    let hashing = tokio::task::spawn_blocking(move || {
        let mut file = File::open(&path)?;
        let mut hash = Sha256::new();
        let mut chunk = vec![0; 1 << 20];
        loop {
            let read = file.read(&mut chunk)?;
            if read == 0 {
                return Ok(hash.finalize());
            }
            hash.update(&chunk[..read]);
            counted.fetch_add(read as u64, Ordering::Relaxed);
        }
    });
    let hashed = show_while("checking", &done, size_bytes, hashing).await;
    let digest = hashed.map_err(|error| Error::failed(format!("the checksum was not finished: {error}")))?;
    let digest = digest.map_err(Error::file("read", file))?;
    Ok(digest.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    }))
}

async fn upload(
    cx: &Context,
    typed: &Import,
    name: &str,
    kind: ImageKind,
    size_bytes: u64,
    sha256: String,
) -> Result<Image, Error> {
    let query = CreateImageQuery { name: name.into(), kind };
    let properties: Vec<_> = typed.properties.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let properties: Vec<_> = properties.iter().map(|property| ("property", property.as_str())).collect();
    let upload = Upload {
        target: path::with_query("/v1/images", &query, &properties),
        file: &typed.file,
        size_bytes,
        sha256,
        look: format!("holm image show {name}"),
        sent_bytes: Arc::default(),
    };
    show_while("uploading", &upload.sent_bytes, size_bytes, cx.client.upload(&upload)).await
}

/// Waits for `work`, showing how far `done` has come.
async fn show_while<T>(what: &str, done: &AtomicU64, total: u64, work: impl Future<Output = T>) -> T {
    let mut progress = Progress::new();
    let mut work = std::pin::pin!(work);
    let mut tick = interval(Duration::from_millis(200));
    loop {
        tokio::select! {
            outcome = &mut work => return outcome,
            _ = tick.tick() => progress.bar(what, done.load(Ordering::Relaxed), total),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_named_after_its_file_without_the_ending_of_its_format() {
        let cases = [
            ("/x/debian-13.qcow2", "debian-13"),
            ("vmlinux-6.12", "vmlinux-6.12"),
            ("guest.ELF", "guest"),
            ("disk", "disk"),
            (".img", ".img"),
        ];
        for (file, name) in cases {
            assert_eq!(default_name(Path::new(file)).unwrap(), name);
        }
    }
}
