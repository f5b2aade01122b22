//! What was measured: a table for people, JSON for programs.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    pub name: String,
    pub unit: String,
    /// The number to compare: a rate, or the median.
    pub value: f64,
    pub p50: Option<f64>,
    pub p99: Option<f64>,
    pub max: Option<f64>,
    /// The target, or what the number needs to be understood.
    pub note: String,
}

impl Measurement {
    /// A single number.
    pub fn number(name: &str, unit: &str, value: f64, note: &str) -> Self {
        let (name, unit, note) = (name.to_owned(), unit.to_owned(), note.to_owned());
        Self { name, unit, value, p50: None, p99: None, max: None, note }
    }

    /// Many of a kind, of which the median counts.
    pub fn spread(name: &str, unit: &str, sample: &Sample, note: &str) -> Self {
        Self {
            p50: Some(sample.at(0.5)),
            p99: Some(sample.at(0.99)),
            max: Some(sample.at(1.0)),
            ..Self::number(name, unit, sample.at(0.5), note)
        }
    }
}

/// Measured values, sorted; at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample(Vec<f64>);

impl Sample {
    /// None of nothing.
    pub fn new(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        (!values.is_empty()).then_some(Self(values))
    }

    /// The least value that `share` of all do not exceed.
    pub fn at(&self, share: f64) -> f64 {
        let rank = (self.0.len() as f64 * share).ceil() as usize;
        self.0[rank.clamp(1, self.0.len()) - 1]
    }
}

/// Everything measured so far, or why it could not be.
#[derive(Debug, Default)]
pub struct Report {
    measurements: Vec<Measurement>,
    /// What was left out, with the reason.
    notes: Vec<String>,
}

impl Report {
    /// Adds lines and shows them at once.
    pub fn add(&mut self, measurements: impl IntoIterator<Item = Measurement>) {
        for measurement in measurements {
            eprintln!("  {}", line(&measurement));
            self.measurements.push(measurement);
        }
    }

    pub fn note(&mut self, note: String) {
        eprintln!("  {note}");
        self.notes.push(note);
    }

    /// The table.
    pub fn print(&self) {
        let head = ["what", "value", "unit", "p50", "p99", "max", "note"].map(str::to_owned);
        let rows: Vec<[String; 7]> =
            std::iter::once(head).chain(self.measurements.iter().map(cells)).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..7).map(width).collect();
        for row in &rows {
            let cell = |column: usize| {
                let (text, width) = (&row[column], widths[column]);
                if matches!(column, 1 | 3..=5) {
                    format!("{text:>width$}")
                } else {
                    format!("{text:<width$}")
                }
            };
            println!("{}", (0..7).map(cell).collect::<Vec<_>>().join("  ").trim_end());
        }
        for note in &self.notes {
            println!("note: {note}");
        }
    }

    /// The same as a JSON list.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_json(&self, file: &Path) -> anyhow::Result<()> {
        let json = serde_json::to_string_pretty(&self.measurements)?;
        fs::write(file, json + "\n").with_context(|| format!("cannot write {}", file.display()))
    }
}

fn cells(m: &Measurement) -> [String; 7] {
    let optional = |value: Option<f64>| value.map(number).unwrap_or_default();
    let (name, unit, note) = (m.name.clone(), m.unit.clone(), m.note.clone());
    [name, number(m.value), unit, optional(m.p50), optional(m.p99), optional(m.max), note]
}

fn line(m: &Measurement) -> String {
    let p99 = m.p99.map(|p99| format!(" (p99 {})", number(p99))).unwrap_or_default();
    format!("{}: {} {}{p99}", m.name, number(m.value), m.unit)
}

/// Three figures, and whole numbers from a hundred.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        v if v < 1.0 => format!("{value:.3}"),
        v if v < 10.0 => format!("{value:.2}"),
        v if v < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let hundred = Sample::new((1..=100).rev().map(f64::from).collect()).expect("not empty");
        assert_eq!(
            [hundred.at(0.0), hundred.at(0.5), hundred.at(0.99), hundred.at(1.0)],
            [1.0, 50.0, 99.0, 100.0]
        );
        let ten = Sample::new((1..=10).map(f64::from).collect()).expect("not empty");
        assert_eq!([ten.at(0.5), ten.at(0.99)], [5.0, 10.0]);
        assert_eq!(Sample::new(Vec::new()), None);
    }

    #[test]
    fn numbers_have_three_figures() {
        let cases = [
            (0.0, "0"),
            (0.1234, "0.123"),
            (1.234, "1.23"),
            (12.34, "12.3"),
            (123.4, "123"),
            (12345.6, "12346"),
        ];
        for (value, expected) in cases {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn json_lines_of_other_benchmarks_are_read() {
        let line = r#"{"name":"n","unit":"us","value":1.0,"p50":1.0,"p99":2.0,"max":null,"note":""}"#;
        let measurement: Measurement = serde_json::from_str(line).expect("it parses");
        assert_eq!((measurement.p99, measurement.max), (Some(2.0), None));
    }
}
