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
        request.image.is_some() || request.kernel.is_some()
    }

    fn weigh(&self, request: &Request<'_>, host: &Host<'_>) -> i64 {
        let images = request.image.iter().chain(&request.kernel);
        let held = images.filter(|image| image.holders.contains(&host.node.id));
        held.fold(0, |sum: i64, image| sum.saturating_add_unsigned(image.size_bytes))
    }
}
