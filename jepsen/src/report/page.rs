//! A run's folder made readable: `index.html` with the verdicts and what broke them, the charts, the timeline, the
//! history as Jepsen writes it, and `repro.sh`. Everything comes from the files of the run.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::svg::{escape, seconds};
use super::{Report, charts, edn, moves, rules, series, svg, timeline, vms};
use crate::checker::{Finding, Verdict};
use crate::history::{Fault, stored};

/// Writes all pages of `report` into its folder.
///
/// # Errors
/// When its history cannot be read, or a file not be written.
pub fn write(report: &Report) -> Result<()> {
    let folder = &report.store;
    let lines = stored::lines(&folder.join("history.jsonl"))?;
    let (points, faults) = (series::points(&lines), stored::faults(&lines)?);
    let end_ns = series::end_ns(&lines);
    let evidence: Value = fs::read(folder.join("evidence.json"))
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or(Value::Null);
    let put = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    edn::write(&lines, &folder.join("history.edn"))?;
    put("latency.svg", &charts::latency(&points, &faults, end_ns))?;
    put("rate.svg", &charts::rate(&points, &faults, end_ns))?;
    let named: BTreeSet<u64> = report.verdicts.iter().flat_map(named_operations).collect();
    put("timeline.html", &timeline::page(&points, &faults, &named, end_ns))?;
    let about_vms = vms::chart(&points, &evidence, &faults, end_ns);
    if let Some(chart) = &about_vms {
        put("vms.svg", chart)?;
    }
    put("repro.sh", &repro(report))?;
    let moves = moves::tables(&evidence, &faults);
    put("index.html", &index(report, &faults, about_vms.is_some(), &moves, folder))
}

/// Operations that a verdict names, as `op 17`.
fn named_operations(verdict: &Verdict) -> Vec<u64> {
    let Finding::Invalid(because) = &verdict.finding else { return Vec::new() };
    let words = because.iter().flat_map(|line| line.split("op ").skip(1));
    words.filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()).collect()
}

fn repro(report: &Report) -> String {
    format!(
        "#!/bin/sh\n# The same choices of clients and faults. How real processes interleave is not fixed: repeat it a few times.\n\
         set -e\ncd \"${{HOLM:?set HOLM to a checkout}}\"\n{}\n",
        report.command
    )
}

fn index(report: &Report, faults: &[Fault], about_vms: bool, moves: &str, folder: &Path) -> String {
    let word = match (report.is_valid(), report.is_invalid()) {
        (true, _) => "valid",
        (false, true) => "invalid",
        (false, false) => "unknown",
    };
    let mut page = format!(
        "{}<h1>{} <span class='{word}'>{word}</span></h1>\n",
        head(&report.test),
        escape(&report.test)
    );
    let counts = report.counts;
    let _ = writeln!(
        page,
        "<p>seed {} · {} faults · operations: {} ok, {} failed, {} unknown · no acknowledged write for {} ms at most</p>\n\
         <pre>{}</pre>",
        report.seed,
        counts.faults,
        counts.ok,
        counts.fail,
        counts.info,
        counts.unavailable_ms,
        escape(&report.command)
    );
    page.push_str("<h2>Verdicts</h2>\n<table><tr><th>checker</th><th>the rule</th><th>verdict</th><th>looked at</th></tr>\n");
    for verdict in &report.verdicts {
        let (word, because) = match &verdict.finding {
            Finding::Valid => ("valid", String::new()),
            Finding::Invalid(because) => ("invalid", because.join("\n")),
            Finding::Unknown(because) => ("unknown", because.clone()),
        };
        let because = if because.is_empty() { because } else { format!("<pre>{}</pre>", escape(&because)) };
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td class='{word}'>{word}</td><td>{}{because}</td></tr>",
            verdict.checker,
            rules::of(verdict.checker),
            escape(&verdict.figures)
        );
    }
    page.push_str("</table>\n<ul>\n");
    for figure in &report.figures {
        let _ = writeln!(page, "<li>{}</li>", escape(figure));
    }
    page.push_str("</ul>\n<h2>Faults</h2>\n<table><tr><th>fault</th><th>nodes</th><th>leader among them</th><th>from</th><th>healed</th></tr>\n");
    for fault in faults {
        let healed = fault.healed_ns.map_or("never".to_owned(), |ns| format!("{:.2} s", seconds(ns)));
        let held = if fault.took_hold { "" } else { " (did not take hold)" };
        let _ = writeln!(
            page,
            "<tr><td>{}{held}</td><td>{}</td><td>{}</td><td>{:.2} s</td><td>{healed}</td></tr>",
            svg::kind(fault),
            escape(&fault.node),
            if fault.was_leader { "yes" } else { "no" },
            seconds(fault.began_ns)
        );
    }
    page.push_str(
        "</table>\n<h2>Over time</h2>\n<p><a href='timeline.html'>every operation by client</a></p>\n",
    );
    let charts = [("vms.svg", about_vms), ("latency.svg", true), ("rate.svg", true)];
    for (chart, _) in charts.into_iter().filter(|(_, there)| *there) {
        let _ = writeln!(page, "<p><a href='{chart}'><img src='{chart}' alt='{chart}'></a></p>");
    }
    page.push_str(moves);
    page.push_str("<h2>Files</h2>\n<ul>\n");
    for name in names(folder) {
        let _ = writeln!(page, "<li><a href='{0}'>{0}</a></li>", escape(&name));
    }
    page.push_str("</ul>\n");
    page
}

/// What every page begins with.
pub(super) fn head(title: &str) -> String {
    format!(
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>{}</title>\n<style>\
         body{{font-family:sans-serif;margin:24px;max-width:1200px}} table{{border-collapse:collapse}} \
         td,th{{border:1px solid #ccc;padding:3px 9px;text-align:left;vertical-align:top}} pre{{white-space:pre-wrap;margin:4px 0}} \
         .valid{{color:#1a7f37}} .invalid{{color:#c00;font-weight:bold}} .unknown{{color:#b35900;font-weight:bold}} img{{max-width:100%}}\
         </style>\n",
        escape(title)
    )
}

/// What else lies in the folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name != "index.html");
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_that_broke_a_rule_are_found_in_its_words() {
        let verdict = Verdict::of(
            "fresh",
            vec!["op 17 at n1 did not see 4\n op 203 wrote it".to_owned()],
            String::new(),
        );
        assert_eq!(named_operations(&verdict), [17, 203]);
        assert!(named_operations(&Verdict::of("fresh", Vec::new(), String::new())).is_empty());
    }
}
