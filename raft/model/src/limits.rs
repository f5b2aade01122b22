//! Bounds on everything a user can send, with the words that name the field and the fix.

use crate::flavor::Size;
use crate::reply::Reason;

/// Longest name of anything.
pub const NAME_MAX: usize = 63;
/// Most VMs a cluster holds.
pub const VMS_MAX: usize = 100_000;
/// Most flavors and most images a cluster holds.
pub const CATALOG_MAX: usize = 10_000;
/// Most nodes a cluster holds.
pub const NODES_MAX: usize = 256;
/// Most vCPUs of a VM.
pub const VCPUS_MAX: u32 = 254;
/// Least and most memory of a VM, in MiB.
pub const MEMORY_MIB: std::ops::RangeInclusive<u64> = 16..=12 * 1024 * 1024;
/// Most disk of a VM, in GiB.
pub const DISK_GIB_MAX: u64 = 64 * 1024;
/// Longest kernel command line, in bytes.
pub const CMDLINE_MAX: usize = 2048;
/// Longest message kept from a node's report or an operator's reason, in bytes.
pub const MESSAGE_MAX: usize = 1024;
/// Longest time-out of a graceful stop, in seconds.
pub const STOP_TIMEOUT_S_MAX: u32 = 3600;
/// Longest idempotency key, in bytes.
pub const KEY_MAX: usize = 128;

fn invalid(field: &str, message: impl Into<String>) -> Reason {
    Reason::Invalid { field: field.to_owned(), message: message.into() }
}

/// A name: 1 to 63 of letters, digits, `-`, `_` and `.`, beginning with a letter or digit, and not
/// shaped like an id, so that "name or id" is never ambiguous.
///
/// # Errors
/// [`Reason::Invalid`] naming `field`.
pub fn name(field: &str, name: &str) -> Result<(), Reason> {
    if name.is_empty() {
        return Err(invalid(field, "must not be empty"));
    }
    if name.len() > NAME_MAX {
        return Err(invalid(field, format!("is {} bytes long, at most {NAME_MAX} are allowed", name.len())));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if let Some(bad) = name.chars().find(|c| !allowed(*c)) {
        return Err(invalid(field, format!("has {bad:?}; use letters, digits, `-`, `_` and `.`")));
    }
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Err(invalid(field, "must begin with a letter or a digit"));
    }
    if uuid::Uuid::parse_str(name).is_ok() || name.chars().all(|c| c.is_ascii_digit()) {
        return Err(invalid(field, "looks like an id; use a name that is not a UUID or a bare number"));
    }
    Ok(())
}

/// The sizes of a flavor.
///
/// # Errors
/// [`Reason::Invalid`] naming the field.
pub fn size(size: &Size) -> Result<(), Reason> {
    if size.vcpus == 0 || size.vcpus > VCPUS_MAX {
        return Err(invalid("vcpus", format!("is {}, must be 1 to {VCPUS_MAX}", size.vcpus)));
    }
    if !MEMORY_MIB.contains(&size.memory_mib) {
        return Err(invalid(
            "memory_mib",
            format!("is {}, must be {} to {}", size.memory_mib, MEMORY_MIB.start(), MEMORY_MIB.end()),
        ));
    }
    if !size.memory_mib.is_multiple_of(2) {
        return Err(invalid("memory_mib", format!("is {}, must be even", size.memory_mib)));
    }
    if size.disk_gib > DISK_GIB_MAX {
        return Err(invalid("disk_gib", format!("is {}, must be at most {DISK_GIB_MAX}", size.disk_gib)));
    }
    Ok(())
}

/// Most shared volumes of a VM.
pub const VM_VOLUMES_MAX: usize = 16;
/// Longest path of a volume, in bytes.
pub const PATH_MAX: usize = 1024;

/// Where a volume is: an absolute path without detours, so that one volume has one spelling.
///
/// # Errors
/// [`Reason::Invalid`] naming `field`.
pub fn volume_path(field: &str, path: &str) -> Result<(), Reason> {
    text(field, path, PATH_MAX)?;
    let Some(rest) = path.strip_prefix('/') else {
        return Err(invalid(field, "must be absolute, as /dev/disk/by-id/…"));
    };
    if rest.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(invalid(field, "must name a file, without `//`, `.`, `..` or a `/` at its end"));
    }
    Ok(())
}

/// A free text with a bound, for reasons and command lines.
///
/// # Errors
/// [`Reason::Invalid`] naming `field`.
pub fn text(field: &str, text: &str, max: usize) -> Result<(), Reason> {
    if text.len() > max {
        return Err(invalid(field, format!("is {} bytes long, at most {max} are allowed", text.len())));
    }
    if text.chars().any(|c| c.is_control()) {
        return Err(invalid(field, "must not contain control characters"));
    }
    Ok(())
}

/// Cuts a node's message at [`MESSAGE_MAX`] bytes, at a character boundary.
pub fn clip(message: &str) -> String {
    let mut end = message.len().min(MESSAGE_MAX);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message[..end].to_owned()
}

/// Most keys in any map or list a user sends: labels, metadata, properties, selectors.
pub const KEYS_MAX: usize = 64;
/// Longest key or value of those.
pub const KEY_BYTES_MAX: usize = 255;
/// Most VMs in one batch.
pub const BATCH_MAX: usize = 1_000;
/// VMs that a rebalancing has on their way at the same time: each writes its disk anew somewhere.
pub const MOVES_AT_ONCE: usize = 4;
/// Greatest priority, either sign.
pub const PRIORITY_MAX: i32 = 1_000_000;

/// A key of labels, metadata, properties or extra specs: 1 to 255 of letters, digits and `-_./:`.
///
/// # Errors
/// [`Reason::Invalid`] naming `field`.
pub fn key(field: &str, key: &str) -> Result<(), Reason> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':');
    if key.len() > KEY_BYTES_MAX {
        let message = format!("has a key of {} bytes, at most {KEY_BYTES_MAX} are allowed", key.len());
        return Err(invalid(field, message));
    }
    if key.is_empty() || !key.chars().all(allowed) {
        let message = format!("has the key {key:?}; use 1 to {KEY_BYTES_MAX} letters, digits and `-_./:`");
        return Err(invalid(field, message));
    }
    Ok(())
}

/// A map of such keys to bounded text.
///
/// # Errors
/// [`Reason::Invalid`] naming `field`.
pub fn map(field: &str, map: &std::collections::BTreeMap<String, String>) -> Result<(), Reason> {
    count(field, map.len())?;
    for (name, value) in map {
        key(field, name)?;
        text(field, value, KEY_BYTES_MAX)?;
    }
    Ok(())
}

/// What a flavor or an image says of a trait, `trait:NAME`: that it is required or forbidden.
///
/// # Errors
/// [`Reason::Invalid`] naming `field` and the key.
pub fn trait_demand(field: &str, key: &str, value: &str) -> Result<(), Reason> {
    if key.starts_with("trait:") && !matches!(value, "required" | "forbidden") {
        return Err(invalid(field, format!("{key}={value}: must be `required` or `forbidden`")));
    }
    Ok(())
}

/// Where Placement's own traits are, by their beginning; `CUSTOM_` is an operator's.
const TRAITS: [&str; 6] = ["CUSTOM_", "COMPUTE_", "HW_", "MISC_", "OWNER_", "STORAGE_"];

/// The name of a trait, as Placement has them: no host could ever have another.
///
/// # Errors
/// [`Reason::Invalid`] naming `field` and the name.
pub fn trait_name(field: &str, name: &str) -> Result<(), Reason> {
    let allowed = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let rest = TRAITS.iter().find_map(|beginning| name.strip_prefix(beginning));
    if rest.is_none_or(str::is_empty) || !name.chars().all(allowed) {
        let message =
            format!("{name:?} is no trait: use CUSTOM_… of capitals, digits and `_`, or one of Placement's");
        return Err(invalid(field, message));
    }
    Ok(())
}

/// At most [`KEYS_MAX`].
///
/// # Errors
/// [`Reason::Invalid`] naming `field`.
pub fn count(field: &str, count: usize) -> Result<(), Reason> {
    if count > KEYS_MAX {
        return Err(invalid(field, format!("has {count} entries, at most {KEYS_MAX} are allowed")));
    }
    Ok(())
}

/// Greatest amount of a class a VM may ask for.
pub const AMOUNT_MAX: u64 = 1 << 40;

/// A class an operator may name: one of Placement's standard classes here, or `CUSTOM_…` of capitals,
/// digits and `_`.
///
/// # Errors
/// [`Reason::Invalid`] naming `field`.
pub fn resource_class(field: &str, class: &crate::resources::ResourceClass) -> Result<(), Reason> {
    let crate::resources::ResourceClass::Custom(name) = class else { return Ok(()) };
    if name == crate::parts::PCPU {
        let message = "PCPU: a flavor asks for dedicated CPUs with `hw:cpu_policy=dedicated`, and quotas count them as \
                       VCPU, like all vCPUs";
        return Err(invalid(field, message));
    }
    let allowed = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let custom =
        name.strip_prefix("CUSTOM_").is_some_and(|rest| !rest.is_empty() && rest.chars().all(allowed));
    if !custom || name.len() > KEY_BYTES_MAX {
        let message = format!("{name:?} is no resource class: use VCPU, MEMORY_MB, DISK_GB or CUSTOM_…");
        return Err(invalid(field, message));
    }
    Ok(())
}
