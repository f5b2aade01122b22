//! Prefers hosts with fewer of the VM's group, where its policy is `soft-anti-affinity`.

use holm_model::group::GroupPolicy;

use crate::host::Host;
use crate::request::Request;
use crate::weigher::Weigher;

/// Members of the group here, as a negative number, Nova's `ServerGroupSoftAntiAffinityWeigher`.
#[derive(Clone, Copy, Debug)]
pub struct SoftAntiAffinity;

impl Weigher for SoftAntiAffinity {
    fn name(&self) -> &'static str {
        "SoftAntiAffinity"
    }

    fn applies(&self, request: &Request<'_>) -> bool {
        request.group.as_ref().is_some_and(|group| group.record.policy == GroupPolicy::SoftAntiAffinity)
    }

    fn weigh(&self, request: &Request<'_>, host: &Host<'_>) -> i64 {
        -super::members(request, host, GroupPolicy::SoftAntiAffinity)
    }
}
