//! Whether a file is what an image record says it is, told before a VMM sees it. Reads headers only.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use holm_model::image::ImageKind;

/// Program headers of a kernel; real ones have fewer than ten.
const MAX_PROGRAM_HEADERS: u16 = 64;
/// Notes of a kernel take some hundred bytes.
const MAX_NOTES_BYTES: u64 = 64 * 1024;
const PT_NOTE: u32 = 4;
const XEN_ELFNOTE_PHYS32_ENTRY: u32 = 18;
/// Longest backing file name of qcow2; a longer one is damage.
const MAX_BACKING_NAME: u64 = 1023;

/// Why a file cannot be used as this kind of image. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("the image is empty")]
    Empty,
    #[error("the kernel is neither an ELF file nor a bzImage: import an uncompressed vmlinux, or a bzImage")]
    NotKernel,
    #[error(
        "the kernel is an ELF file without a PVH entry note: build it with CONFIG_PVH=y, or import a bzImage"
    )]
    NoPvhNote,
    #[error("the kernel is damaged: {0}")]
    DamagedKernel(&'static str),
    #[error("the disk is not a qcow2 file: import it as raw, or convert it")]
    NotQcow2,
    #[error("the disk is a qcow2 file: import it as qcow2, or convert it to raw")]
    IsQcow2,
    #[error(
        "the qcow2 disk has the backing file {name:?}, which other nodes do not have: flatten it (qemu-img convert)"
    )]
    BackingFile { name: String },
    #[error("the qcow2 disk keeps its data in another file: flatten it (qemu-img convert)")]
    ExternalData,
    #[error("the qcow2 disk is damaged: {0}")]
    DamagedQcow2(&'static str),
    #[error("the image cannot be read")]
    Io(#[source] io::Error),
}

/// Checks the file at `path`.
pub fn check(path: &Path, kind: ImageKind) -> Result<(), Refusal> {
    let file = File::open(path).map_err(Refusal::Io)?;
    let len = file.metadata().map_err(Refusal::Io)?.len();
    if len == 0 {
        return Err(Refusal::Empty);
    }
    match kind {
        ImageKind::Kernel => check_kernel(&file, len),
        ImageKind::RawDisk => match read(&file, 0, 4) {
            Ok(magic) if magic == b"QFI\xfb" => Err(Refusal::IsQcow2),
            Ok(_) => Ok(()),
            // Shorter than a magic number, so it has none.
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            Err(e) => Err(Refusal::Io(e)),
        },
        ImageKind::Qcow2Disk => check_qcow2(&file),
    }
}

fn check_kernel(file: &File, len: u64) -> Result<(), Refusal> {
    let or_not_kernel = |e: io::Error| match e.kind() {
        io::ErrorKind::UnexpectedEof => Refusal::NotKernel,
        _ => Refusal::Io(e),
    };
    if read(file, 0, 4).map_err(or_not_kernel)? == b"\x7fELF" {
        return check_elf(file, len);
    }
    // Boot sector signature, then the magic of the setup header.
    let setup = read(file, 0x1fe, 8).map_err(or_not_kernel)?;
    if setup[..2] == [0x55, 0xaa] && &setup[4..8] == b"HdrS" { Ok(()) } else { Err(Refusal::NotKernel) }
}

fn check_elf(file: &File, len: u64) -> Result<(), Refusal> {
    let damaged = Refusal::DamagedKernel;
    let header = read(file, 0, 64).map_err(|_| damaged("its ELF header is cut short"))?;
    if header[4] != 2 || header[5] != 1 || u16_at(&header, 18) != 62 {
        return Err(damaged("it is not for 64-bit x86"));
    }
    let (at, size, count) = (u64_at(&header, 32), u16_at(&header, 54), u16_at(&header, 56));
    if size != 56 || count == 0 || count > MAX_PROGRAM_HEADERS {
        return Err(damaged("its program headers are not those of a kernel"));
    }
    for i in 0..u64::from(count) {
        let header_at = at.checked_add(i * 56).ok_or(damaged("its program headers are out of range"))?;
        let program =
            read(file, header_at, 56).map_err(|_| damaged("its program headers are out of range"))?;
        let (offset, bytes) = (u64_at(&program, 8), u64_at(&program, 32));
        if offset.checked_add(bytes).is_none_or(|end| end > len) {
            return Err(damaged("a segment reaches beyond the end of the file"));
        }
        if u32_at(&program, 0) == PT_NOTE && bytes <= MAX_NOTES_BYTES {
            let notes = read(file, offset, bytes as usize).map_err(Refusal::Io)?;
            if has_pvh_note(&notes) {
                return Ok(());
            }
        }
    }
    Err(Refusal::NoPvhNote)
}

/// Walks the notes: sizes of name and description, type, then both, padded to four bytes.
fn has_pvh_note(mut notes: &[u8]) -> bool {
    while notes.len() >= 12 {
        let (name_len, desc_len, kind) = (u32_at(notes, 0), u32_at(notes, 4), u32_at(notes, 8));
        let padded = |n: u32| (n as usize).next_multiple_of(4);
        let Some(name) = notes.get(12..12 + name_len as usize) else { return false };
        if kind == XEN_ELFNOTE_PHYS32_ENTRY && name == b"Xen\0" {
            return true;
        }
        let Some(rest) = notes.get(12 + padded(name_len) + padded(desc_len)..) else { return false };
        notes = rest;
    }
    false
}

fn check_qcow2(file: &File) -> Result<(), Refusal> {
    let header = match read(file, 0, 72) {
        Ok(header) if &header[..4] == b"QFI\xfb" => header,
        Ok(_) => return Err(Refusal::NotQcow2),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Err(Refusal::NotQcow2),
        Err(e) => return Err(Refusal::Io(e)),
    };
    let be32 = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let be64 = |at: usize| u64::from(be32(at)) << 32 | u64::from(be32(at + 4));
    if !matches!(be32(4), 2 | 3) {
        return Err(Refusal::DamagedQcow2("its version is neither 2 nor 3"));
    }
    let (name_at, name_len) = (be64(8), u64::from(be32(16)));
    if name_at != 0 {
        let name = match name_len <= MAX_BACKING_NAME {
            true => read(file, name_at, name_len as usize).unwrap_or_default(),
            false => Vec::new(),
        };
        return Err(Refusal::BackingFile { name: String::from_utf8_lossy(&name).into_owned() });
    }
    if be32(4) == 3 {
        let features = read(file, 72, 8).map_err(|_| Refusal::DamagedQcow2("its header is cut short"))?;
        // Incompatible feature bit 2.
        if features[7] & (1 << 2) != 0 {
            return Err(Refusal::ExternalData);
        }
    }
    Ok(())
}

fn read(file: &File, at: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_guest::{Variant, elf};

    fn outcome(bytes: &[u8], kind: ImageKind) -> Result<(), String> {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("image");
        std::fs::write(&path, bytes).expect("written");
        check(&path, kind).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn kernels_are_elf_with_a_pvh_note_or_bzimage() {
        let guest = elf(Variant::Banner);
        assert_eq!(outcome(&guest, ImageKind::Kernel), Ok(()));

        let mut bz_image = vec![0; 1024];
        bz_image[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
        bz_image[0x202..0x206].copy_from_slice(b"HdrS");
        assert_eq!(outcome(&bz_image, ImageKind::Kernel), Ok(()));
    }

    #[test]
    fn what_is_no_kernel_is_refused_with_a_reason() {
        let mut no_note = elf(Variant::Banner);
        no_note[64 + 56] = 6; // the note's program header becomes another kind
        let mut other_machine = elf(Variant::Banner);
        other_machine[18] = 183;
        let whole = elf(Variant::Banner);
        let cases: [(&[u8], &str); 6] = [
            (b"", "empty"),
            (b"#!/bin/sh", "neither an ELF file nor a bzImage"),
            (&[0; 4096], "neither an ELF file nor a bzImage"),
            (&no_note, "without a PVH entry note"),
            (&other_machine, "not for 64-bit x86"),
            (&whole[..whole.len() - 1], "beyond the end of the file"),
        ];
        for (bytes, reason) in cases {
            let message = outcome(bytes, ImageKind::Kernel).expect_err(reason);
            assert!(message.contains(reason), "{message:?} should say {reason:?}");
        }
    }

    #[test]
    fn every_cut_of_a_kernel_is_refused_without_a_panic() {
        let whole = elf(Variant::Echo);
        for cut in 0..whole.len() {
            assert!(outcome(&whole[..cut], ImageKind::Kernel).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_qcow2_with_a_backing_file_is_refused_by_its_name() {
        let mut image = vec![0; 1024];
        image[..4].copy_from_slice(b"QFI\xfb");
        image[7] = 3;
        assert_eq!(outcome(&image, ImageKind::Qcow2Disk), Ok(()));
        assert!(outcome(&image, ImageKind::RawDisk).expect_err("qcow2").contains("import it as qcow2"));
        image[8..16].copy_from_slice(&512u64.to_be_bytes());
        image[16..20].copy_from_slice(&9u32.to_be_bytes());
        image[512..521].copy_from_slice(b"base.img\n");
        assert!(outcome(&image, ImageKind::Qcow2Disk).expect_err("backing").contains("base.img"));
    }

    #[test]
    fn a_raw_disk_is_anything_that_is_not_empty() {
        assert_eq!(outcome(b"x", ImageKind::RawDisk), Ok(()));
        assert_eq!(outcome(b"", ImageKind::RawDisk), Err("the image is empty".to_owned()));
    }
}
