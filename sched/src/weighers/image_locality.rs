//! Prefers hosts that hold what the VM boots from: it starts sooner and the network stays free. Kubernetes'
//! `ImageLocality`, which counts bytes too.

use crate::host::Host;
use crate::request::Request;
use crate::weigher::Weigher;

/// Bytes of the VM's image and kernel that are in the host's image store.
#[derive(Clone, Copy, Debug)]
pub struct ImageLocality;

impl Weigher for ImageLocality {
    fn name(&self) -> &'static str {
        "ImageLocality"
    }

    fn applies(&self, request: &Request<'_>) -> bool {
        !request.boots_from.is_empty()
    }

    fn weigh(&self, request: &Request<'_>, host: &Host<'_>) -> i64 {
        let here = request.boots_from.iter().filter(|held| held.is_on(host.id()));
        here.fold(0, |sum: i64, held| sum.saturating_add_unsigned(held.size_bytes))
    }
}
