//! What to do next about the hosts that refuse a VM: the filters' own advice ([`crate::Filter::fix`]), hosts with the same
//! advice together. Worked out when somebody asks; records hold the refusals only.

use holm_model::vm::Vm;
use holm_model::{NodeId, State};
use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::policy::Policy;
use crate::request::{Placed, Request};

/// What stands for the host in a filter's advice.
const NODE: &str = "NODE";

/// A next step, and the hosts that would then pass the filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// The filter that refuses.
    pub by: String,
    /// By id.
    pub nodes: Vec<NodeId>,
    /// A clause with commands in backquotes; of a single host, with its name in them, else with `NODE`.
    pub fix: String,
}

/// About the hosts that the record of `vm`, which has none, says refused it: few, however many there are. What
/// [`crate::explain`] tells beside it, about all of them, costs more than a record that is only looked at may.
pub fn advise(state: &State, policy: &Policy, vm: &Vm) -> Vec<Advice> {
    let request = Request::new(state, &Placed::new(), vm);
    let mut hosts = Host::all(state);
    let mut gathered = Gathered::default();
    for refusal in &vm.refusals {
        let Ok(at) = hosts.binary_search_by_key(&refusal.node, Host::id) else { continue };
        hosts[at].keep();
        gathered.add(policy, &request, &hosts[at]);
    }
    gathered.told(state)
}

/// Advice about many hosts and VMs, as it is gathered.
#[derive(Debug, Default)]
pub struct Gathered {
    advice: Vec<Advice>,
}

impl Gathered {
    /// Takes up why `host` refuses `request`, if it does.
    pub fn add(&mut self, policy: &Policy, request: &Request<'_>, host: &Host<'_>) {
        let Some(filter) = policy.refusing(request, host) else { return };
        let (by, fix, node) = (filter.name(), filter.fix(request, host), host.id());
        match self.advice.iter_mut().find(|advice| advice.by == by && advice.fix == fix) {
            Some(advice) => match advice.nodes.binary_search(&node) {
                Ok(_) => {}
                Err(at) => advice.nodes.insert(at, node),
            },
            None => self.advice.push(Advice { by: by.to_owned(), nodes: vec![node], fix }),
        }
    }

    /// What concerns most hosts first, else in the order it was found.
    pub fn told(mut self, state: &State) -> Vec<Advice> {
        self.advice.sort_by_key(|advice| std::cmp::Reverse(advice.nodes.len()));
        for advice in &mut self.advice {
            if let [only] = advice.nodes[..]
                && let Some(node) = state.nodes.get(&only)
            {
                advice.fix = named(&advice.fix, &node.name);
            }
        }
        self.advice
    }
}

/// `fix` with the host's name in its commands.
fn named(fix: &str, name: &str) -> String {
    let word = |word: &str| match word.strip_prefix(NODE) {
        Some("") => name.to_owned(),
        Some(rest) if rest.starts_with('`') => format!("{name}{rest}"),
        _ => word.to_owned(),
    };
    fix.split(' ').map(word).collect::<Vec<_>>().join(" ")
}
