//! `holm node …` as typed.

use clap::{Args, Subcommand};

use super::value::{InventoryOptions, key_change};

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Lists the nodes.
    List,
    /// Shows everything about a node.
    Show(Target),
    /// Places nothing new on a node; what runs there goes on.
    Cordon(Cordon),
    /// Allows new VMs on a node again.
    Uncordon(Target),
    /// Sets labels of a node (`disk=nvme`) and removes them (`disk-`); VMs select nodes by them.
    Label(Label),
    /// Taints a node (`gpu=yes:NoSchedule`) so that only VMs that tolerate it are placed there, and removes
    /// taints (`gpu-`, `gpu:NoSchedule-`).
    Taint(Taint),
    /// Gives a node traits (`CUSTOM_QUIET`) beside those it reports, and takes them away (`CUSTOM_QUIET-`).
    Trait(Trait),
    /// Says what a node offers of a resource class, whatever it reports.
    SetInventory(SetInventory),
    /// Removes a node from the cluster for good.
    Remove(Remove),
}

#[derive(Debug, Args)]
pub struct Target {
    /// Name or id.
    pub node: String,
}

#[derive(Debug, Args)]
pub struct Cordon {
    /// Name or id.
    pub node: String,
    /// Why, for those who will wonder.
    #[arg(long)]
    pub reason: Option<String>,
}

#[derive(Debug, Args)]
pub struct Label {
    /// Name or id.
    pub node: String,
    /// `KEY=VALUE` sets a label, `KEY-` removes one.
    #[arg(required = true, value_name = "CHANGE", value_parser = key_change)]
    pub changes: Vec<(String, Option<String>)>,
}

#[derive(Debug, Args)]
pub struct Taint {
    /// Name or id.
    pub node: String,
    /// `KEY=VALUE:EFFECT` or `KEY:EFFECT` sets a taint, `KEY-` or `KEY:EFFECT-` removes; the effect is
    /// `NoSchedule`, or `PreferNoSchedule` for a mere preference.
    #[arg(required = true, value_name = "CHANGE", value_parser = taint_change)]
    pub changes: Vec<TaintChange>,
}

/// One taint to set, or those to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaintChange {
    Set(holm_api::Taint),
    Remove { key: String, effect: Option<holm_api::Effect> },
}

fn taint_change(text: &str) -> Result<TaintChange, String> {
    let Some(removed) = text.strip_suffix('-') else {
        return text.parse().map(TaintChange::Set).map_err(|error: holm_api::scheduling::Unreadable| {
            format!("{error}; KEY- or KEY:EFFECT- removes one")
        });
    };
    let removed: Option<holm_api::Toleration> = removed.parse().ok();
    match removed {
        Some(holm_api::Toleration { key: Some(key), value: None, effect }) => {
            Ok(TaintChange::Remove { key, effect })
        }
        _ => Err(format!("`{text}` does not name a taint to remove; write KEY- or KEY:EFFECT-")),
    }
}

#[derive(Debug, Args)]
pub struct Trait {
    /// Name or id.
    pub node: String,
    /// `NAME` gives a trait, `NAME-` takes one away.
    #[arg(required = true, value_name = "CHANGE")]
    pub changes: Vec<String>,
}

#[derive(Debug, Args)]
pub struct SetInventory {
    /// Name or id.
    pub node: String,
    #[command(flatten)]
    pub inventory: InventoryOptions,
}

#[derive(Debug, Args)]
pub struct Remove {
    /// Name or id.
    pub node: String,
    /// You state that the machine is off and will stay off: its VMs are given up. If it is not, they run
    /// on unseen, with their disks and addresses.
    #[arg(long)]
    pub confirm_node_off: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_are_set_and_removed() {
        let remove = |key: &str, effect| Ok(TaintChange::Remove { key: key.to_owned(), effect });
        assert_eq!(taint_change("gpu-"), remove("gpu", None));
        assert_eq!(taint_change("gpu:NoSchedule-"), remove("gpu", Some(holm_api::Effect::NoSchedule)));
        assert!(matches!(taint_change("gpu=yes:NoSchedule"), Ok(TaintChange::Set(_))));
        for text in ["gpu", "gpu=yes", "gpu:Never", "-", "*-", "gpu=yes-"] {
            assert!(taint_change(text).is_err(), "{text}");
        }
    }
}
