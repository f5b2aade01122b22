//! Runs that are done again: with the same choices, or with ever more of them until the rule breaks again. The
//! first faults of a seed are the same however many follow, so the fewest that suffice can be found by trying.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use super::{Options, Parameters, Test, Trouble, run_under, stored};
use crate::harness::Hypervisor;
use crate::nemesis::{Extent, Nemesis};
use crate::report::Report;

/// How real processes interleave is not fixed: each length is tried this often.
const ATTEMPTS: usize = 2;

/// Does the run in `folder` again.
///
/// # Errors
/// When the folder is not one of a run, or the harness fails.
pub async fn replay(folder: &Path) -> Result<Report> {
    let (test, options, trouble) = asked(folder)?;
    run_under(test, &options, trouble).await
}

/// Looks for the fewest faults under which the seed of the run in `folder` breaks a rule, and gives that run; the
/// last one tried if none did.
///
/// # Errors
/// As [`replay`], and where the run's length was given in seconds.
pub async fn shrink(folder: &Path) -> Result<Report> {
    let (test, options, trouble) = asked(folder)?;
    let by_rounds = trouble.is_none_or(|trouble| matches!(trouble.extent, Extent::Rounds(_)));
    ensure!(by_rounds, "only runs of a number of rounds can be shrunk");
    let mut last = None;
    for rounds in lengths(options.rounds) {
        for _ in 0..ATTEMPTS {
            let options = Options { rounds, ..options.clone() };
            let trouble = trouble.map(|trouble| Trouble { extent: Extent::Rounds(rounds), ..trouble });
            let report = Box::pin(run_under(test, &options, trouble)).await?;
            let broke = report.is_invalid();
            eprintln!("{rounds} rounds: {}", if broke { "broken" } else { "not broken" });
            if broke {
                return Ok(report);
            }
            last = Some(report);
        }
    }
    last.context("a run has at least one round")
}

/// 1, 2, 4 … and the whole.
fn lengths(whole: u64) -> Vec<u64> {
    let powers = std::iter::successors(Some(1_u64), |length| length.checked_mul(2));
    powers.take_while(|length| *length < whole).chain([whole]).collect()
}

fn asked(folder: &Path) -> Result<(Test, Options, Option<Trouble>)> {
    let parameters = stored::parameters(folder)?;
    let below = folder.canonicalize()?;
    let store = below.parent().and_then(Path::parent).context("a run's folder lies two below the store")?;
    parameters.asked(store)
}

impl Parameters {
    /// What to give to [`run_under`] for the same run.
    fn asked(&self, store: &Path) -> Result<(Test, Options, Option<Trouble>)> {
        let named = |what: &str, name: &str| format!("there is no {what} `{name}`");
        let test =
            Test::from_str(&self.test, false).map_err(|_| anyhow::anyhow!(named("test", &self.test)))?;
        let hypervisor = [Hypervisor::Simulated, Hypervisor::CloudHypervisor];
        let hypervisor = hypervisor.into_iter().find(|known| known.as_str() == self.hypervisor);
        let extent = match self.seconds {
            Some(seconds) => Extent::Seconds(seconds),
            None => Extent::Rounds(self.rounds.unwrap_or(1)),
        };
        let trouble = match &self.nemesis {
            Some(name) => {
                let nemesis =
                    Nemesis::from_str(name, false).map_err(|_| anyhow::anyhow!(named("nemesis", name)))?;
                Some(Trouble { nemesis, extent })
            }
            None => None,
        };
        let options = Options {
            rounds: self.rounds.unwrap_or(1),
            seed: self.seed,
            nodes: self.nodes,
            hypervisor: hypervisor.with_context(|| named("hypervisor", &self.hypervisor))?,
            plant: self.plant.clone(),
            store: store.to_owned(),
        };
        Ok((test, options, trouble))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_double_and_end_with_the_whole() {
        assert_eq!(lengths(1), [1]);
        assert_eq!(lengths(6), [1, 2, 4, 6]);
        assert_eq!(lengths(8), [1, 2, 4, 8]);
    }

    #[test]
    fn what_a_run_was_asked_for_is_found_in_its_parameters() {
        let options = Options {
            rounds: 4,
            seed: 7,
            nodes: 5,
            hypervisor: Hypervisor::CloudHypervisor,
            plant: Some("local-read".to_owned()),
            store: "/store".into(),
        };
        for trouble in [None, Some(Trouble { nemesis: Nemesis::PowerAll, extent: Extent::Rounds(4) })] {
            let parameters = Parameters::of(Test::Register, &options, trouble);
            let (test, again, under) = parameters.asked(Path::new("/store")).unwrap();
            assert_eq!((test, under), (Test::Register, trouble));
            assert_eq!(format!("{again:?}"), format!("{options:?}"));
        }
    }
}
