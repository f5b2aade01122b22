//! Tiny guests made of a few machine instructions each: a PVH ELF that Cloud Hypervisor boots directly.
//! They show within milliseconds that a VM really runs, and misbehave on purpose where a test needs it.
//! Not one byte comes from elsewhere: `elf` assembles header, note and code.

/// What the guest does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Prints [`BANNER`], then halts with interrupts off: it idles without burning a core.
    Banner,
    /// Prints [`BANNER`], echoes its serial input and powers off on `q`. It polls, so it burns a core.
    Echo,
    /// Powers itself off (ACPI S5) at once.
    Poweroff,
    /// Resets through the keyboard controller at once, for ever.
    Reset,
    /// Prints for ever.
    Flood,
    /// Prints [`BANNER`], waits for one byte of input, then resets.
    ResetOnInput,
    /// Jumps to where there is no memory: its vCPU dies, and Cloud Hypervisor exits with code 0.
    Crash,
}

impl Variant {
    /// Every variant, with the name the command line uses.
    pub const ALL: [(&'static str, Variant); 7] = [
        ("banner", Variant::Banner),
        ("echo", Variant::Echo),
        ("poweroff", Variant::Poweroff),
        ("reset", Variant::Reset),
        ("flood", Variant::Flood),
        ("reset-on-input", Variant::ResetOnInput),
        ("crash", Variant::Crash),
    ];
}

impl std::str::FromStr for Variant {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, variant)| *variant).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|(known, _)| *known).collect();
            format!("no test guest is called {name:?}; there are {}", names.join(", "))
        })
    }
}

/// First line on the console of the guests that print one.
pub const BANNER: &str = "Holm test guest\r\n";

/// Where the file is loaded, as a whole.
const BASE: u32 = 0x20_0000;
const EHDR_LEN: usize = 64;
const PHDR_LEN: usize = 56;
const NOTE_AT: usize = EHDR_LEN + 2 * PHDR_LEN;
const NOTE_LEN: usize = 20;
const CODE_AT: usize = NOTE_AT + NOTE_LEN;
const XEN_ELFNOTE_PHYS32_ENTRY: u32 = 18;

/// The guest as an ELF64 file with a PVH entry note, of a few hundred bytes.
pub fn elf(variant: Variant) -> Vec<u8> {
    let code = code(variant);
    let entry = BASE + CODE_AT as u32;
    let file_len = (CODE_AT + code.len()) as u64;
    let mut out = Vec::with_capacity(CODE_AT + code.len());

    out.extend(b"\x7fELF");
    out.extend([2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]); // 64 bit, little endian, version 1
    out.extend(2u16.to_le_bytes()); // executable
    out.extend(62u16.to_le_bytes()); // x86-64
    out.extend(1u32.to_le_bytes());
    out.extend(u64::from(entry).to_le_bytes());
    out.extend((EHDR_LEN as u64).to_le_bytes()); // program headers follow
    out.extend(0u64.to_le_bytes()); // no sections
    out.extend(0u32.to_le_bytes());
    for half in [EHDR_LEN as u16, PHDR_LEN as u16, 2, 0, 0, 0] {
        out.extend(half.to_le_bytes());
    }
    program_header(&mut out, 1, 7, 0, file_len, 0x1000); // PT_LOAD, the whole file
    program_header(&mut out, 4, 4, NOTE_AT as u64, NOTE_LEN as u64, 4); // PT_NOTE
    for word in [4, 4, XEN_ELFNOTE_PHYS32_ENTRY] {
        out.extend(word.to_le_bytes());
    }
    out.extend(b"Xen\0");
    out.extend(entry.to_le_bytes());
    debug_assert_eq!(out.len(), CODE_AT);
    out.extend(code);
    out
}

fn program_header(out: &mut Vec<u8>, kind: u32, flags: u32, offset: u64, len: u64, align: u64) {
    out.extend(kind.to_le_bytes());
    out.extend(flags.to_le_bytes());
    let address = u64::from(BASE) + offset;
    for word in [offset, address, address, len, len, align] {
        out.extend(word.to_le_bytes());
    }
}

/// 32-bit protected mode, flat segments, no stack. Jumps are short and relative.
fn code(variant: Variant) -> Vec<u8> {
    const CLI: u8 = 0xfa;
    let power_off: &[u8] = &[0x66, 0xba, 0x00, 0x06, 0xb0, 0x34, 0xee]; // out 0x600, 0x34
    let reset: &[u8] = &[0x66, 0xba, 0x64, 0x00, 0xb0, 0xfe, 0xee]; // out 0x64, 0xfe
    let halt: &[u8] = &[0xf4, 0xeb, 0xfd]; // hlt; jmp to it
    let wait_input: &[u8] = &[0x66, 0xba, 0xfd, 0x03, 0xec, 0xa8, 0x01, 0x74, 0xf7]; // until 0x3fd bit 0
    match variant {
        Variant::Banner => with_banner(halt),
        Variant::Echo => {
            let mut tail = wait_input.to_vec();
            tail.extend([0x66, 0xba, 0xf8, 0x03, 0xec]); // al = in 0x3f8
            tail.extend([0x3c, b'q', 0x74, 0x03]); // q: over the next two
            tail.extend([0xee, 0xeb, 0xeb]); // print it, back to the wait
            tail.extend(power_off);
            tail.extend(halt);
            with_banner(&tail)
        }
        Variant::Poweroff => [&[CLI], power_off, halt].concat(),
        Variant::Reset => [&[CLI], reset, halt].concat(),
        Variant::Flood => {
            // A line of 0123456789:;<=>? and a newline, for ever.
            let mut code = vec![CLI, 0x66, 0xba, 0xf8, 0x03]; // dx = 0x3f8
            code.extend([0xb0, b'0']); // al = '0'
            code.extend([0xee, 0xfe, 0xc0, 0x3c, b'?', 0x76, 0xf9]); // out; inc al; while al <= '?'
            code.extend([0xb0, b'\n', 0xee, 0xeb, 0xf2]); // newline, again
            code
        }
        Variant::Crash => vec![CLI, 0xb8, 0x00, 0x00, 0x00, 0xd0, 0xff, 0xe0], // jmp 0xd0000000
        Variant::ResetOnInput => with_banner(&[wait_input, reset, halt].concat()),
    }
}

/// Prints the banner, then runs `tail`.
fn with_banner(tail: &[u8]) -> Vec<u8> {
    const PRINT_LEN: usize = 18;
    let text = BASE + (CODE_AT + PRINT_LEN + tail.len()) as u32;
    let mut code = vec![0xfa, 0xbe]; // cli; esi = text
    code.extend(text.to_le_bytes());
    code.extend([0x66, 0xba, 0xf8, 0x03]); // dx = 0x3f8
    code.extend([0xac, 0x84, 0xc0, 0x74, 0x03]); // next byte; zero: to the tail
    code.extend([0xee, 0xeb, 0xf8]); // print it, again
    debug_assert_eq!(code.len(), PRINT_LEN);
    code.extend(tail);
    code.extend(BANNER.as_bytes());
    code.push(0);
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_is_a_small_elf_with_a_pvh_note() {
        for (name, variant) in Variant::ALL {
            let elf = elf(variant);
            assert!(elf.len() < 400, "{name} has {} bytes", elf.len());
            assert_eq!(&elf[..4], b"\x7fELF");
            assert_eq!(&elf[NOTE_AT + 12..NOTE_AT + 16], b"Xen\0");
        }
    }

    #[test]
    fn a_variant_is_found_by_its_name_and_an_unknown_name_lists_them() {
        assert_eq!("echo".parse(), Ok(Variant::Echo));
        assert_eq!(
            "ecko".parse::<Variant>().unwrap_err(),
            "no test guest is called \"ecko\"; there are banner, echo, poweroff, reset, flood, reset-on-input, crash"
        );
    }
}
