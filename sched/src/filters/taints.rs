//! Taints keep VMs off that do not tolerate them, as in Kubernetes. What already runs stays.

use holm_model::feasible::Refusal;
use holm_model::scheduling::{Effect, Taint};

use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

/// The VM tolerates every `NoSchedule` taint of the host.
#[derive(Clone, Copy, Debug)]
pub struct Taints;

/// The taints of `host` with this effect that the VM does not tolerate.
pub(crate) fn untolerated<'h>(
    request: &Request<'_>,
    host: &'h Host<'_>,
    effect: Effect,
) -> impl Iterator<Item = &'h Taint> {
    let tolerations = &request.vm.spec.scheduling.tolerations;
    let taints = host.node.taints.iter().filter(move |taint| taint.effect == effect);
    taints.filter(move |taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint)))
}

impl Filter for Taints {
    fn name(&self) -> &'static str {
        "Taints"
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        match untolerated(request, host, Effect::NoSchedule).next() {
            Some(Taint { key, value, .. }) if value.is_empty() => {
                Err(format!("taint `{key}`: the VM does not tolerate it"))
            }
            Some(Taint { key, value, .. }) => {
                Err(format!("taint `{key}={value}`: the VM does not tolerate it"))
            }
            None => Ok(()),
        }
    }

    fn fix(&self, request: &Request<'_>, host: &Host<'_>) -> String {
        let Some(Taint { key, value, .. }) = untolerated(request, host, Effect::NoSchedule).next() else {
            return String::new();
        };
        let tolerated = if value.is_empty() { key.clone() } else { format!("{key}={value}") };
        format!(
            "create it with `--toleration {tolerated}`, or open the node to all: \
             `holm node taint NODE {key}:NoSchedule-`"
        )
    }

    #[inline]
    fn passes(&self, request: &Request<'_>, host: &Host<'_>) -> bool {
        !host.digest().no_schedule || untolerated(request, host, Effect::NoSchedule).next().is_none()
    }
}
