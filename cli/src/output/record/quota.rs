//! A quota as people see it: usage beside limit.

use holm_api::Quota;

use super::Record;
use crate::output::table::Table;
use crate::output::text::Now;

impl Record for Quota {
    const COLUMNS: &'static [&'static str] = &["PROJECT", "USED"];

    fn name(&self) -> String {
        self.project.clone()
    }

    fn row(&self, _now: Now) -> Vec<String> {
        let one = |(class, of): (&String, &holm_api::QuotaClass)| match of.limit {
            Some(limit) => format!("{class} {}/{limit}", of.used),
            None => format!("{class} {}", of.used),
        };
        vec![self.project.clone(), self.classes.iter().map(one).collect::<Vec<_>>().join(", ")]
    }

    fn detail(&self, _now: Now) -> String {
        let mut classes = Table::new(&["CLASS", "USED", "LIMIT"]);
        for (class, of) in &self.classes {
            let limit = of.limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
            classes.row(vec![class.clone(), of.used.to_string(), limit]);
        }
        format!("Project: {}\n\n{}", self.project, classes.render())
    }
}
