//! What would become of VMs, as people see it: where each would go, then those that would fit nowhere, with
//! every node's reason.

use holm_api::{Move, WhatIf};

use super::vm::hosts;
use super::{Record, field};
use crate::output::table::{self, Table};
use crate::output::text::Now;

impl Record for WhatIf {
    const COLUMNS: &'static [&'static str] = &["LOSE", "DRAIN", "FIT", "STRANDED"];

    fn name(&self) -> String {
        "what-if".into()
    }

    fn row(&self, _now: Now) -> Vec<String> {
        vec![self.lose.join(","), self.drain.join(","), self.fits.to_string(), self.stranded.to_string()]
    }

    fn detail(&self, _now: Now) -> String {
        let mut text = table::fields(&[
            field("Lose", self.lose.join(", ")),
            field("Drain", self.drain.join(", ")),
            field("Summary", &self.summary),
            field("Revision", self.revision),
        ]);
        if !self.vms.is_empty() {
            let mut moves = Table::new(&["VM", "FROM", "TO"]);
            for moved in &self.vms {
                let to = moved.to.clone().unwrap_or_else(|| "nowhere".into());
                moves.row(vec![moved.vm.clone(), moved.from.clone(), to]);
            }
            text += &format!("\n{}", moves.render());
        }
        for moved in self.vms.iter().filter(|moved| moved.to.is_none()) {
            text += &format!("\n{} would fit nowhere:\n{}", moved.vm, indented(moved));
        }
        text
    }
}

fn indented(moved: &Move) -> String {
    hosts(&moved.refusals).lines().map(|line| format!("  {line}\n")).collect()
}
