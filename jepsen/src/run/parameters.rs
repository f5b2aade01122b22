//! What a run was asked for, as its history begins: enough to do it again.

use serde::{Deserialize, Serialize};

use super::{Options, Test, Trouble};
use crate::history::Fault;
use crate::nemesis::Extent;

/// What a run was asked for: the first line of its history.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Parameters {
    pub test: String,
    /// Does it again, with the same choices.
    pub command: String,
    pub seed: u64,
    /// Faults it was to have; none: as many as there was time for.
    pub rounds: Option<u64>,
    pub nodes: usize,
    pub hypervisor: String,
    /// Whether nodes had networks and disks of their own.
    pub isolated: bool,
    /// Other faults than the test's own.
    pub nemesis: Option<String>,
    /// How long it was to go on, where that was not a number of faults.
    pub seconds: Option<u64>,
    /// Bugs the daemons had.
    pub plant: Option<String>,
}

impl Parameters {
    pub(super) fn of(test: Test, options: &Options, trouble: Option<Trouble>) -> Self {
        let (extent, rounds) = match trouble {
            None => (format!("--rounds {}", options.rounds), Some(options.rounds)),
            Some(Trouble { nemesis, extent: Extent::Rounds(rounds) }) => {
                (format!("--nemesis {} --rounds {rounds}", nemesis.name()), Some(rounds))
            }
            Some(Trouble { nemesis, extent: Extent::Seconds(seconds) }) => {
                (format!("--nemesis {} --seconds {seconds}", nemesis.name()), None)
            }
        };
        let (name, hypervisor) = (test.name(), options.hypervisor.as_str());
        let plant = options.plant.as_ref().map(|plant| format!(" --plant {plant}")).unwrap_or_default();
        let command = format!(
            "cargo run -p holm-jepsen -- run --test {name} {extent} --seed {} --nodes {} --hypervisor {hypervisor}{plant}",
            options.seed, options.nodes
        );
        Self {
            test: name,
            command,
            seed: options.seed,
            rounds,
            nodes: options.nodes,
            hypervisor: hypervisor.to_owned(),
            isolated: trouble.is_some() || test.is_isolated(),
            nemesis: trouble.map(|trouble| trouble.nemesis.name()),
            seconds: trouble.and_then(|trouble| match trouble.extent {
                Extent::Seconds(seconds) => Some(seconds),
                Extent::Rounds(_) => None,
            }),
            plant: options.plant.clone(),
        }
    }

    /// Faults there should have been.
    pub(super) fn expected(&self, happened: &[Fault]) -> u64 {
        self.rounds.unwrap_or_else(|| happened.len().max(1) as u64)
    }
}
