//! Prefers hosts with more of the VM's group, where its policy is `soft-affinity`.

use holm_model::group::GroupPolicy;

use crate::host::Host;
use crate::request::Request;
use crate::weigher::Weigher;

/// Members of the group here, Nova's `ServerGroupSoftAffinityWeigher`.
#[derive(Clone, Copy, Debug)]
pub struct SoftAffinity;

impl Weigher for SoftAffinity {
    fn name(&self) -> &'static str {
        "SoftAffinity"
    }

    fn applies(&self, request: &Request<'_>) -> bool {
        request.group.as_ref().is_some_and(|group| group.record.policy == GroupPolicy::SoftAffinity)
    }

    fn weigh(&self, request: &Request<'_>, host: &Host<'_>) -> i64 {
        super::members(request, host, GroupPolicy::SoftAffinity)
    }
}
