//! What a file is, by its first bytes. Only a default for `--kind`: the node checks the whole file.

use holm_api::ImageKind;

/// As many bytes of a file's start as [`guess`] looks at.
pub const LOOKED_AT: usize = 0x206;

/// ELF and bzImage are kernels, `QFI\xfb` is qcow2, anything else is a raw disk.
pub fn guess(start: &[u8]) -> ImageKind {
    // The Linux/x86 boot protocol puts this magic at 0x202 of a bzImage.
    let is_bzimage = start.get(0x202..0x206) == Some(b"HdrS");
    if start.starts_with(b"\x7fELF") || is_bzimage {
        ImageKind::Kernel
    } else if start.starts_with(b"QFI\xfb") {
        ImageKind::Qcow2Disk
    } else {
        ImageKind::RawDisk
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_by_their_magic() {
        let mut bzimage = vec![0; 0x202];
        bzimage.extend_from_slice(b"HdrS");
        let cases: [(&[u8], ImageKind); 6] = [
            (b"\x7fELF\x02\x01", ImageKind::Kernel),
            (&bzimage, ImageKind::Kernel),
            (b"QFI\xfb\0\0\0\x03", ImageKind::Qcow2Disk),
            (&bzimage[..0x205], ImageKind::RawDisk),
            (b"\xeb\x63\x90", ImageKind::RawDisk),
            (b"", ImageKind::RawDisk),
        ];
        for (start, kind) in cases {
            assert_eq!(guess(start), kind);
        }
    }
}
