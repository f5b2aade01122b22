//! A plan of moves as people see it: what it gains, the moves, and who stays.

use holm_api::Rebalance;

use super::{Record, field};
use crate::output::table::{self, Table};
use crate::output::text::{self, Now};

impl Record for Rebalance {
    const COLUMNS: &'static [&'static str] = &["IMBALANCE", "AFTER", "MOVES"];

    fn name(&self) -> String {
        "rebalance".into()
    }

    fn row(&self, _now: Now) -> Vec<String> {
        vec![points(self.imbalance), points(self.imbalance_after), self.moves.len().to_string()]
    }

    fn detail(&self, _now: Now) -> String {
        let planned = text::count(self.planned as usize, "move");
        let moves = match (self.planned, self.applied) {
            (0, _) => "nothing gains enough by moving".to_owned(),
            (_, false) => format!("{planned}, not begun (--apply begins them, a few at a time)"),
            (all, true) if self.moves.len() as u64 == all => format!("{planned} begun"),
            (_, true) if self.moves.is_empty() && self.under_way == 0 => format!(
                "{planned}, none begun: no host has room for one now beside what waits (`holm vm list`)"
            ),
            (_, true) => format!(
                "{} of {planned} begun; run it again when those under way have arrived",
                self.moves.len()
            ),
        };
        let mut text = table::fields(&[
            field(
                "Imbalance",
                format!("{} points now, {} after", points(self.imbalance), points(self.imbalance_after)),
            ),
            field("Plan", moves),
            field("Under way", format!("{} by earlier calls", self.under_way)),
            field("Revision", self.revision),
        ]);
        if !self.moves.is_empty() {
            let mut moves = Table::new(&["VM", "FROM", "TO", "GAIN"]);
            for moved in &self.moves {
                moves.row(vec![moved.vm.clone(), moved.from.clone(), moved.to.clone(), points(moved.gain)]);
            }
            text += &format!("\n{}", moves.render());
        }
        if !self.staying.is_empty() {
            let mut staying = Table::new(&["STAY", "WHY", "FOR EXAMPLE"]);
            for of in &self.staying {
                staying.row(vec![of.count.to_string(), of.why.clone(), of.vms.join(", ")]);
            }
            text += &format!("\n{}", staying.render());
        }
        text
    }
}

fn points(points: f64) -> String {
    format!("{points:.2}")
}
