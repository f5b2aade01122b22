//! `holm node …` as typed.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::value::{InventoryOptions, Wait, duration, key_change};

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
    /// Empties a node, and waits until nothing of what was to leave runs there.
    ///
    /// The node is cordoned. Failover VMs leave it a few at a time, each only while another node has room for it;
    /// one that fits nowhere runs on. Pinned VMs run nowhere else: say whether they are stopped or kept. Run again,
    /// it goes on waiting for the drain under way.
    Drain(Drain),
    /// Announces work on a machine, or ends it: `on` cordons and drains the node, which is then not fenced, also
    /// while it is off and across its boots; `off` opens it again and starts what its drain stopped.
    Maintenance(Maintenance),
    /// Lists VMs found on nodes that this cluster never placed there; nothing is done about them.
    Orphans {
        /// Only on this node, by name or id.
        node: Option<String>,
    },
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
pub struct Drain {
    /// Name or id.
    pub node: String,
    #[command(flatten)]
    pub how: DrainOptions,
    /// Change nothing; say what would become of each VM there.
    #[arg(long)]
    pub dry_run: bool,
    /// Call the drain off: what has left stays away, what runs there runs on, the node stays cordoned.
    #[arg(long, conflicts_with_all = ["timeout", "pinned", "dry_run"])]
    pub cancel: bool,
    #[command(flatten)]
    pub wait: Wait,
}

/// How a node is emptied.
#[derive(Clone, Copy, Debug, Args)]
pub struct DrainOptions {
    /// Each guest's time: cut the power when it is not off after this long [default: 60s].
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// What becomes of pinned VMs; must be said when some run there.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub pinned: Option<Pinned>,
}

/// What becomes of pinned VMs on a node that is being drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pinned {
    /// They are shut down, and started again when the node is uncordoned.
    Stop,
    /// They run on, so the machine cannot be switched off.
    Keep,
}

#[derive(Debug, Args)]
pub struct Maintenance {
    /// Name or id.
    pub node: String,
    #[arg(value_enum)]
    pub switch: Switch,
    /// Why, for those who will wonder.
    #[arg(long)]
    pub reason: Option<String>,
    #[command(flatten)]
    pub how: DrainOptions,
    #[command(flatten)]
    pub wait: Wait,
}

/// Begins or ends something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    On,
    Off,
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
