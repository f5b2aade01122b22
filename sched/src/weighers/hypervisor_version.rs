//! Prefers hosts with the newer hypervisor, Nova's `HypervisorVersionWeigher`; 0 where there is none.

use crate::host::Host;
use crate::request::Request;
use crate::weigher::Weigher;

/// `v53.2.1` as 53,002,001.
#[derive(Clone, Copy, Debug)]
pub struct HypervisorVersion;

impl Weigher for HypervisorVersion {
    fn name(&self) -> &'static str {
        "HypervisorVersion"
    }

    fn weigh(&self, _request: &Request<'_>, host: &Host<'_>) -> i64 {
        host.version
    }
}

/// The first three numbers of a version, 999 at most behind the first; 0 for what is no version. By hand and
/// over bytes, since it is asked of every host.
pub fn number(version: &str) -> i64 {
    let mut parts = [0i64; 3];
    let mut at = 0;
    for byte in version.strip_prefix('v').unwrap_or(version).bytes() {
        match byte {
            b'0'..=b'9' => parts[at] = (parts[at] * 10 + i64::from(byte - b'0')).min(1_000_000_000),
            b'.' | b'-' | b'+' if at < 2 => at += 1,
            _ => break,
        }
    }
    (parts[0] * 1000 + parts[1].min(999)) * 1000 + parts[2].min(999)
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn versions_compare_by_number() {
        let cases =
            [("v53.0", 53_000_000), ("53.0-246-g1", 53_000_246), ("9.10.11", 9_010_011), ("v9", 9_000_000)];
        for (version, expected) in cases {
            assert_eq!(number(version), expected, "{version}");
        }
        for nothing in ["", "v", "latest", "."] {
            assert_eq!(number(nothing), 0, "{nothing:?}");
        }
    }
}
