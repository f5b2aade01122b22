//! Which extra specs of a flavor anything here reads, and whether they can be read: what nobody would look at, in
//! Nova's namespaces or others, is refused instead of skipped. Keys without a scope are an operator's own, for the
//! metadata of aggregates and the facts of nodes.

use crate::decimal::Decimal;
use crate::feasible::RESOURCES;
use crate::limits;
use crate::parts::{CPU_POLICY, NUMA_NODES, PCI_ALIAS};
use crate::reply::Reason;

/// Scopes of which every key is read.
pub const CAPABILITIES: &str = "capabilities:";
pub const AGGREGATES: &str = "aggregate_instance_extra_specs:";
pub const TRAIT: &str = "trait:";
const SCOPES: [&str; 4] = [RESOURCES, TRAIT, CAPABILITIES, AGGREGATES];
/// Keys that are read though the rest of their scope is not.
const KEYS: [&str; 3] = [CPU_POLICY, NUMA_NODES, PCI_ALIAS];
/// Operators whose operand is a number, and those whose operand is text.
const NUMERIC: [&str; 5] = ["=", "==", "!=", ">=", "<="];
const TEXT: [&str; 8] = ["s==", "s!=", "s<", "s<=", "s>", "s>=", "<in>", "<all-in>"];
const OR: &str = "<or>";

/// Whether the key is an operator's own.
pub fn is_free(key: &str) -> bool {
    !key.contains(':')
}

/// Whether anything here reads the key.
pub fn is_read(key: &str) -> bool {
    let of_a_scope = |scope: &&str| key.strip_prefix(*scope).is_some_and(|rest| !rest.is_empty());
    is_free(key) || KEYS.contains(&key) || SCOPES.iter().any(of_a_scope)
}

/// What a flavor asks for can be asked, and is understood.
///
/// # Errors
/// [`Reason::Invalid`] naming the key, its value and what to write.
pub fn check(key: &str, value: &str) -> Result<(), Reason> {
    let wrong = |message: String| {
        Err(Reason::Invalid { field: "extra_specs".to_owned(), message: format!("{key}={value}: {message}") })
    };
    if !is_read(key) {
        return wrong(format!(
            "nothing in Holm reads it; it reads {}NAME, {CPU_POLICY}, {NUMA_NODES}, {PCI_ALIAS}, and keys without `:`, \
             which are compared with the metadata of aggregates and with what nodes report",
            SCOPES.join("NAME, ")
        ));
    }
    if let Some(name) = key.strip_prefix(TRAIT) {
        return limits::trait_name("extra_specs", name);
    }
    let is_compared = is_free(key) || key.starts_with(CAPABILITIES) || key.starts_with(AGGREGATES);
    match is_compared.then(|| misread(value)).flatten() {
        Some(message) => wrong(message),
        None => Ok(()),
    }
}

/// Why a requirement would not be read as it looks.
fn misread(requirement: &str) -> Option<String> {
    let mut words = requirement.split_whitespace();
    let operator = words.next()?;
    let operand = words.next();
    if NUMERIC.contains(&operator) {
        let number = operand.and_then(Decimal::parse);
        return number
            .is_none()
            .then(|| format!("`{operator}` wants a number behind it, such as `{operator} 2`"));
    }
    if TEXT.contains(&operator) {
        return operand.is_none().then(|| format!("`{operator}` wants a word behind it"));
    }
    if operator == OR {
        // Every second word is an alternative.
        let mut words = requirement.split_whitespace();
        let mut is_pair = || match (words.next(), words.next()) {
            (Some(OR), Some(_)) => Some(true),
            (None, _) => None,
            _ => Some(false),
        };
        let all = std::iter::from_fn(&mut is_pair).all(|is_pair| is_pair);
        return (!all).then(|| "alternatives are written `<or> a <or> b`".to_owned());
    }
    let signs = operator.strip_prefix('s').unwrap_or(operator);
    let looks_like_one = signs.starts_with(['<', '>', '=']) || signs.starts_with("!=");
    looks_like_one.then(|| {
        format!(
            "`{operator}` is no operator: numbers are compared by {}, words by {} and {OR}, with a blank behind it",
            NUMERIC.join(" "),
            TEXT.join(" ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(key: &str, value: &str) -> Option<String> {
        check(key, value).err().map(|reason| reason.to_string())
    }

    #[test]
    fn what_nothing_reads_is_refused() {
        for key in [
            "hw:mem_page_size",
            "hw:cpu_thread_policy",
            "os:secure_boot",
            "quota:cpu_shares",
            "bogus:x",
            ":",
            ":x",
            "capabilities:",
            "resources:",
            "trait:",
            "pci_passthrough:other",
            "aggregate_instance_extra_specs:",
        ] {
            let why = refusal(key, "1").unwrap_or_default();
            assert!(why.contains(key) && why.contains("nothing in Holm reads it"), "{key}: {why}");
        }
        for key in ["ssd", "required1", "hw:cpu_policy", "hw:numa_nodes", "capabilities:cpu_info:cores"] {
            assert_eq!(refusal(key, "1"), None, "{key}");
        }
    }

    #[test]
    fn traits_have_the_names_of_traits() {
        for key in ["trait:custom_quiet", "trait:FOO", "trait:CUSTOM_", "trait:CUSTOM_a"] {
            assert!(refusal(key, "required").is_some_and(|why| why.contains("is no trait")), "{key}");
        }
        for key in ["trait:CUSTOM_QUIET", "trait:HW_CPU_X86_AVX2", "trait:STORAGE_DISK_SSD"] {
            assert_eq!(refusal(key, "required"), None, "{key}");
        }
    }

    #[test]
    fn requirements_are_read_as_they_look() {
        for value in [
            "< 2", "> 0", "=> 2", "<> 2", "<2", ">=2", "s= a", "<any> a", "=", ">= two", "s==", "<in>",
            "<or> a b", "<or>", "!=2",
        ] {
            for key in ["capabilities:numa_nodes", "aggregate_instance_extra_specs:numa", "numa"] {
                assert!(refusal(key, value).is_some(), "{key}={value}");
            }
        }
        for value in [
            "",
            "1",
            "true",
            "= 2",
            "<= 2.5",
            "s== a",
            "<in> a",
            "<all-in> a b",
            "<or> a <or> b",
            "some=thing",
            "!",
            "s",
            "ssd",
        ] {
            assert_eq!(refusal("capabilities:numa_nodes", value), None, "{value}");
        }
    }

    #[test]
    fn the_operators_there_are_are_named() {
        let why = refusal("capabilities:numa_nodes", "< 2").unwrap_or_default();
        assert!(why.contains("`<` is no operator") && why.contains("<="), "{why}");
    }
}
