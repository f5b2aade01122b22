//! `cargo xtask check-deps`: which crate of the workspace may depend on which. The table is the arrows of
//! the design; an arrow that is not in it is forbidden, development dependencies included, so that a test
//! cannot tie together what the code keeps apart. And bugs on demand, for the test suites, are in no build that
//! did not ask for them: no default feature and no normal dependency turns them on.

use std::collections::BTreeMap;
use std::fmt;
use std::process::Command;

use anyhow::{Context, bail};
use serde::Deserialize;

/// What each crate may depend on. `model ← api, raft, sched, vmm ← node ← sim, jepsen`; `cli → api` only; `raft ← raft/sim`.
const ALLOWED: &[(&str, &[&str])] = &[
    ("holm-model", &[]),
    ("holm-api", &["holm-model"]),
    ("holm-raft", &["holm-model"]),
    ("holm-raft-sim", &["holm-model", "holm-raft"]),
    ("holm-sched", &["holm-model"]),
    ("holm-vmm", &["holm-model"]),
    ("holm-node", BELOW_NODE),
    ("holm-sim", FROM_NODE),
    ("holm-jepsen", FROM_NODE),
    ("holm", &["holm-api"]),
    ("xtask", &[]),
];
const BELOW_NODE: &[&str] = &["holm-model", "holm-api", "holm-raft", "holm-sched", "holm-vmm"];
const FROM_NODE: &[&str] = &["holm-model", "holm-api", "holm-raft", "holm-sched", "holm-vmm", "holm-node"];

/// Features that plant bugs, or put a simulation in the place of the host.
const PLANTED: &[&str] = &["planted", "planted-faults", "simulation"];
/// The simulation, shipped nowhere, is made of the last.
const SIMULATION: (&str, &str) = ("holm-raft-sim", "simulation");

/// The part of `cargo metadata` that matters here.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
    #[serde(default)]
    features: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    /// `dev`, `build`, or null for a normal one.
    kind: Option<String>,
    #[serde(default)]
    features: Vec<String>,
}

/// What is wrong with the graph.
#[derive(Debug, PartialEq, Eq)]
enum Fault {
    Forbidden { from: String, to: String, kind: String },
    Unknown { package: String },
    Planted { package: String },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forbidden { from, to, kind } => {
                let allowed = allowed(from).filter(|to| !to.is_empty()).map(|to| to.join(", "));
                let allowed = allowed.unwrap_or_else(|| "no crate of the workspace".to_owned());
                write!(f, "forbidden: {from} → {to} ({kind} dependency); {from} may depend on {allowed}")
            }
            Self::Planted { package } => {
                write!(f, "planted: {package} turns bugs on that only a test suite may ask for")
            }
            Self::Unknown { package } => {
                write!(
                    f,
                    "unknown: {package} has no line in the table of allowed arrows; add one in check_deps.rs"
                )
            }
        }
    }
}

/// Checks the workspace this is run in.
///
/// # Errors
/// When an arrow is forbidden; each is printed.
pub fn run() -> anyhow::Result<()> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("cannot run cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let metadata: Metadata =
        serde_json::from_slice(&output.stdout).context("cargo metadata is not as expected")?;
    let faults = faults(&metadata);
    for fault in &faults {
        eprintln!("{fault}");
    }
    if !faults.is_empty() {
        bail!("{} of the workspace's arrows are not allowed", faults.len());
    }
    println!("check-deps: {} crates, every arrow between them is allowed", metadata.packages.len());
    Ok(())
}

fn allowed(from: &str) -> Option<&'static [&'static str]> {
    ALLOWED.iter().find(|(name, _)| *name == from).map(|(_, to)| *to)
}

fn faults(metadata: &Metadata) -> Vec<Fault> {
    let members: BTreeMap<&str, &Package> = metadata.packages.iter().map(|p| (p.name.as_str(), p)).collect();
    let mut faults = Vec::new();
    for package in members.values() {
        if plants(package) {
            faults.push(Fault::Planted { package: package.name.clone() });
        }
        let Some(allowed) = allowed(&package.name) else {
            faults.push(Fault::Unknown { package: package.name.clone() });
            continue;
        };
        // A crate may name itself, to build its tests with other features.
        let arrows = package.dependencies.iter().filter(|to| {
            members.contains_key(to.name.as_str())
                && to.name != package.name
                && !allowed.contains(&to.name.as_str())
        });
        faults.extend(arrows.map(|to| Fault::Forbidden {
            from: package.name.clone(),
            to: to.name.clone(),
            kind: to.kind.clone().unwrap_or_else(|| "normal".to_owned()),
        }));
    }
    faults
}

/// Whether a build of this package has bugs that nobody asked for.
fn plants(package: &Package) -> bool {
    let is_planted = |feature: &String| {
        let name = feature.rsplit('/').next().unwrap_or(feature);
        PLANTED.contains(&name) && SIMULATION != (&package.name, name)
    };
    let by_default = package.features.get("default").is_some_and(|features| features.iter().any(is_planted));
    let normal = package.dependencies.iter().filter(|dependency| dependency.kind.is_none());
    by_default || normal.flat_map(|dependency| &dependency.features).any(is_planted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(arrows: &[(&str, &str, Option<&str>)]) -> Metadata {
        let mut packages: Vec<Package> = ALLOWED
            .iter()
            .map(|(name, _)| Package {
                name: (*name).to_owned(),
                dependencies: Vec::new(),
                features: BTreeMap::new(),
            })
            .collect();
        for (from, to, kind) in arrows {
            let kind = kind.map(str::to_owned);
            let dependency = Dependency { name: (*to).to_owned(), kind, features: Vec::new() };
            match packages.iter_mut().find(|package| package.name == *from) {
                Some(package) => package.dependencies.push(dependency),
                None => packages.push(Package {
                    name: (*from).to_owned(),
                    dependencies: vec![dependency],
                    features: BTreeMap::new(),
                }),
            }
        }
        Metadata { packages }
    }

    fn said(arrows: &[(&str, &str, Option<&str>)]) -> Vec<String> {
        faults(&graph(arrows)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_arrows_of_the_design_are_allowed() {
        let arrows: Vec<_> =
            ALLOWED.iter().flat_map(|(from, to)| to.iter().map(move |to| (*from, *to, None))).collect();
        assert_eq!(said(&arrows), [""; 0]);
    }

    #[test]
    fn the_forbidden_arrows_of_the_design_are_each_named() {
        for (from, to) in [
            ("holm-sched", "holm-raft"),
            ("holm-raft", "holm-sched"),
            ("holm-vmm", "holm-raft"),
            ("holm", "holm-node"),
            ("holm", "holm-model"),
            ("holm-api", "holm-node"),
            ("holm-model", "holm-api"),
            ("xtask", "holm-api"),
            ("holm-node", "holm-jepsen"),
        ] {
            let said = said(&[(from, to, None)]);
            assert_eq!(said.len(), 1, "{from} → {to}");
            assert!(
                said[0].starts_with(&format!("forbidden: {from} → {to} (normal dependency)")),
                "{said:?}"
            );
        }
    }

    #[test]
    fn a_development_dependency_counts_and_the_message_says_what_is_allowed() {
        let arrows = [("holm-sched", "holm-raft", Some("dev")), ("xtask", "holm-sched", Some("dev"))];
        let expected = [
            "forbidden: holm-sched → holm-raft (dev dependency); holm-sched may depend on holm-model",
            "forbidden: xtask → holm-sched (dev dependency); xtask may depend on no crate of the workspace",
        ];
        assert_eq!(said(&arrows), expected);
    }

    #[test]
    fn a_crate_without_a_line_in_the_table_is_a_fault() {
        let expected =
            ["unknown: holm-new has no line in the table of allowed arrows; add one in check_deps.rs"];
        assert_eq!(said(&[("holm-new", "holm-model", None)]), expected);
    }

    #[test]
    fn crates_from_elsewhere_and_a_crate_itself_do_not_matter() {
        assert_eq!(said(&[("holm-sched", "serde", None), ("holm-raft", "holm-raft", Some("dev"))]), [""; 0]);
    }

    #[test]
    fn bugs_on_demand_are_asked_for_by_nobody_but_tests() {
        let planted = |kind: Option<&str>, feature: &str| Package {
            name: "holm-node".to_owned(),
            dependencies: vec![Dependency {
                name: "holm-model".to_owned(),
                kind: kind.map(str::to_owned),
                features: vec![feature.to_owned()],
            }],
            features: BTreeMap::new(),
        };
        assert!(plants(&planted(None, "planted")));
        assert!(plants(&planted(None, "simulation")));
        let simulation = |feature| Package { name: "holm-raft-sim".to_owned(), ..planted(None, feature) };
        assert!(!plants(&simulation("simulation")));
        assert!(plants(&simulation("planted-faults")));
        assert!(!plants(&planted(Some("dev"), "planted-faults")));
        assert!(!plants(&planted(None, "other")));
        let default = |feature: &str| Package {
            features: BTreeMap::from([("default".to_owned(), vec![feature.to_owned()])]),
            ..planted(None, "other")
        };
        assert!(plants(&default("holm-model/planted")));
        assert!(!plants(&default("tls")));
    }
}
