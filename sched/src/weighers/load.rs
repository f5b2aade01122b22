//! Avoids hosts under load, as they report it. Off by default: reports are coarse and a minute old.

use crate::host::Host;
use crate::request::Request;
use crate::weigher::Weigher;

/// One-minute load average per CPU, in thousandths, counted against the host.
#[derive(Clone, Copy, Debug)]
pub struct Load;

impl Weigher for Load {
    fn name(&self) -> &'static str {
        "Load"
    }

    fn against(&self) -> bool {
        true
    }

    fn floor(&self) -> Option<i64> {
        Some(0)
    }

    fn weigh(&self, _request: &Request<'_>, host: &Host<'_>) -> i64 {
        i64::from(host.digest().load_thousandths)
    }
}
