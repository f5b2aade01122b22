//! Labels, as in Kubernetes' node affinity: every requirement must hold.

use holm_model::feasible::Refusal;
use holm_model::scheduling::Operator;

use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

/// The host's labels meet every requirement.
#[derive(Clone, Copy, Debug)]
pub struct NodeSelector;

impl Filter for NodeSelector {
    fn name(&self) -> &'static str {
        "NodeSelector"
    }

    fn applies(&self, request: &Request<'_>) -> bool {
        !request.vm.spec.scheduling.node_selector.is_empty()
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        let labels = &host.node.labels;
        let selector = &request.vm.spec.scheduling.node_selector;
        let Some(unmet) = selector.iter().find(|requirement| !requirement.holds(labels)) else {
            return Ok(());
        };
        let (key, values) = (&unmet.key, unmet.values.join(" or "));
        let is = labels.get(key).map_or("the node has none".to_owned(), |label| format!("it is `{label}`"));
        let wanted = match unmet.operator {
            Operator::In => values,
            Operator::NotIn => format!("other than {values}"),
            Operator::Exists => "any value".to_owned(),
            Operator::DoesNotExist => "none".to_owned(),
            Operator::Gt => format!("more than {values}"),
            Operator::Lt => format!("less than {values}"),
        };
        Err(format!("label `{key}`: {wanted} wanted, {is}"))
    }

    fn fix(&self, request: &Request<'_>, host: &Host<'_>) -> String {
        let selector = &request.vm.spec.scheduling.node_selector;
        let Some(unmet) = selector.iter().find(|requirement| !requirement.holds(&host.node.labels)) else {
            return String::new();
        };
        let key = &unmet.key;
        let change = match (unmet.operator, unmet.values.first()) {
            (Operator::In, Some(value)) => format!("{key}={value}"),
            (Operator::NotIn | Operator::DoesNotExist, _) => format!("{key}-"),
            (Operator::Gt | Operator::Lt, _) => format!("{key}=N"),
            (Operator::In | Operator::Exists, _) => format!("{key}=VALUE"),
        };
        format!("if the node is so: `holm node label NODE {change}`; or create it without that `--selector`")
    }

    fn passes(&self, request: &Request<'_>, host: &Host<'_>) -> bool {
        let selector = &request.vm.spec.scheduling.node_selector;
        selector.iter().all(|requirement| requirement.holds(&host.node.labels))
    }
}
