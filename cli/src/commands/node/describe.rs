//! `holm node label`, `taint`, `trait` and `set-inventory`: what an operator says of a node.

use holm_api::{Effect, Node, PatchNode, Taint};
use hyper::Method;

use crate::args::node::{self, TaintChange};
use crate::args::value::once;
use crate::client::path;
use crate::commands::{Context, inventory};
use crate::error::Error;

pub async fn label(cx: &Context, typed: node::Label) -> Result<(), Error> {
    let labels = once(typed.changes)?;
    patch(cx, &typed.node, &PatchNode { labels, ..PatchNode::default() }).await
}

pub async fn set_inventory(cx: &Context, typed: &node::SetInventory) -> Result<(), Error> {
    let inventory = inventory::change(&typed.inventory);
    patch(cx, &typed.node, &PatchNode { inventory, ..PatchNode::default() }).await
}

async fn patch(cx: &Context, node: &str, body: &PatchNode) -> Result<(), Error> {
    let look = format!("holm node show {node}");
    let node: Node = cx.client.write(Method::PATCH, &path::of("nodes", node, "")?, body, &look).await?;
    cx.output.done(&node, &format!("node {} changed", node.name))
}

pub async fn taint(cx: &Context, typed: &node::Taint) -> Result<(), Error> {
    let change = |node: &Node| {
        let taints = Some(tainted(&node.name, node.taints.clone(), &typed.changes)?);
        Ok(PatchNode { taints, ..PatchNode::default() })
    };
    amend(cx, &typed.node, change).await
}

pub async fn traits(cx: &Context, typed: &node::Trait) -> Result<(), Error> {
    let change = |node: &Node| {
        let traits = Some(with_traits(&node.name, node.traits.clone(), &typed.changes)?);
        Ok(PatchNode { traits, ..PatchNode::default() })
    };
    amend(cx, &typed.node, change).await
}

/// These are replaced as a whole, so the change is made from what there is, and only while it is so.
async fn amend(
    cx: &Context,
    node: &str,
    change: impl Fn(&Node) -> Result<PatchNode, Error>,
) -> Result<(), Error> {
    let (target, look) = (path::of("nodes", node, "")?, format!("holm node show {node}"));
    let node = cx.client.amend(Method::PATCH, &target, &look, |node: &Node| node.revision, change).await?;
    cx.output.done(&node, &format!("node {} changed", node.name))
}

fn tainted(node: &str, mut taints: Vec<Taint>, changes: &[TaintChange]) -> Result<Vec<Taint>, Error> {
    for (at, change) in changes.iter().enumerate() {
        if changes[..at].iter().any(|other| meets(other, change)) {
            return Err(twice("taint", of(change).0));
        }
        match change {
            TaintChange::Set(taint) => {
                taints.retain(|there| (&there.key, there.effect) != (&taint.key, taint.effect));
                taints.push(taint.clone());
            }
            TaintChange::Remove { key, effect } => {
                let before = taints.len();
                taints
                    .retain(|there| there.key != *key || effect.is_some_and(|effect| effect != there.effect));
                if taints.len() == before {
                    return Err(absent(node, "taint", key));
                }
            }
        }
    }
    Ok(taints)
}

/// Key and effect that a change is about; no effect for all.
fn of(change: &TaintChange) -> (&str, Option<Effect>) {
    match change {
        TaintChange::Set(taint) => (&taint.key, Some(taint.effect)),
        TaintChange::Remove { key, effect } => (key, *effect),
    }
}

/// Whether both are about one taint.
fn meets(one: &TaintChange, other: &TaintChange) -> bool {
    let ((key, effect), (other_key, other_effect)) = (of(one), of(other));
    key == other_key && effect.zip(other_effect).is_none_or(|(effect, other)| effect == other)
}

fn twice(what: &str, name: &str) -> Error {
    Error::Usage { detail: format!("the {what} `{name}` is given twice: give it once"), hint: None }
}

fn with_traits(node: &str, mut traits: Vec<String>, changes: &[String]) -> Result<Vec<String>, Error> {
    let name = |change: &String| change.strip_suffix('-').unwrap_or(change).to_owned();
    for (at, change) in changes.iter().enumerate() {
        if changes[..at].iter().any(|other| name(other) == name(change)) {
            return Err(twice("trait", &name(change)));
        }
        match change.strip_suffix('-') {
            Some(name) if traits.iter().any(|there| there == name) => traits.retain(|there| there != name),
            Some(name) => return Err(absent(node, "trait", name)),
            None if traits.contains(change) => {}
            None => traits.push(change.clone()),
        }
    }
    Ok(traits)
}

fn absent(node: &str, what: &str, name: &str) -> Error {
    let hint = Some(format!("`holm node show {node}` shows what it has"));
    Error::Failed { detail: format!("node `{node}` has no {what} `{name}` that was given to it"), hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> TaintChange {
        TaintChange::Set(text.parse().unwrap())
    }

    #[test]
    fn a_taint_replaces_the_one_of_its_key_and_effect() {
        let there = vec!["gpu=yes:NoSchedule".parse().unwrap(), "old:NoSchedule".parse().unwrap()];
        let remove = TaintChange::Remove { key: "old".into(), effect: None };
        let changes = [set("gpu=no:NoSchedule"), set("gpu:PreferNoSchedule"), remove];
        let taints = tainted("n1", there.clone(), &changes).unwrap();
        let shown: Vec<_> = taints.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["gpu=no:NoSchedule", "gpu:PreferNoSchedule"]);

        let gone = |effect| TaintChange::Remove { key: "gpu".into(), effect };
        for contradiction in [set("gpu=no:NoSchedule"), gone(None), gone(Some(Effect::NoSchedule))] {
            let changes = [set("gpu=yes:NoSchedule"), contradiction];
            let refused = tainted("n1", there.clone(), &changes).unwrap_err();
            assert_eq!(refused.to_string(), "the taint `gpu` is given twice: give it once");
        }

        let other = TaintChange::Remove { key: "gpu".into(), effect: Some(Effect::PreferNoSchedule) };
        assert!(tainted("n1", there, &[other]).unwrap_err().to_string().contains("has no taint `gpu`"));
    }

    #[test]
    fn traits_are_given_and_taken_away() {
        let there = vec!["CUSTOM_A".to_owned()];
        let changes = ["CUSTOM_B", "CUSTOM_A-"].map(str::to_owned);
        assert_eq!(with_traits("n1", there, &changes).unwrap(), ["CUSTOM_B"]);
        assert!(with_traits("n1", vec![], &["CUSTOM_A-".to_owned()]).is_err());
        let twice = ["CUSTOM_B", "CUSTOM_B-"].map(str::to_owned);
        assert!(with_traits("n1", vec![], &twice).unwrap_err().to_string().contains("given twice"));
    }
}
