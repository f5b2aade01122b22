//! Aligned text: columns under a header in capitals, two spaces apart, no boxes, nothing after the last
//! column; and the field-by-field view of one record.

/// Rows under a header.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new(columns: &[&str]) -> Self {
        Self { rows: vec![columns.iter().map(|&column| column.to_owned()).collect()] }
    }

    /// Adds a row; an empty cell is shown as `-`.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows
            .push(cells.into_iter().map(|cell| if cell.is_empty() { "-".into() } else { cell }).collect());
    }

    /// The text, a line a row.
    pub fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<_> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            let line = cells.collect::<Vec<_>>().join("  ");
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

/// `Label: value` lines with the values aligned; a value of several lines goes on below itself. Fields
/// without a value are left out.
pub fn fields(fields: &[(String, String)]) -> String {
    let shown: Vec<_> = fields.iter().filter(|(_, value)| !value.is_empty()).collect();
    let width = shown.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0) + 1;
    let mut text = String::new();
    for (label, value) in shown {
        let mut label = format!("{label}:");
        for line in value.lines() {
            text += format!("{label:<width$}  {line}").trim_end();
            text.push('\n');
            label.clear();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["NAME", "STATUS", "NODE"]);
        table.row(vec!["a".into(), "ACTIVE".into(), String::new()]);
        table.row(vec!["überlong".into(), "BUILD (scheduling)".into(), "n1".into()]);
        assert_eq!(
            table.render(),
            "NAME      STATUS              NODE\n\
             a         ACTIVE              -\n\
             überlong  BUILD (scheduling)  n1\n"
        );
    }

    #[test]
    fn a_field_of_several_lines_stays_in_its_column() {
        let text = fields(&[
            ("Name".into(), "web".into()),
            ("Kernel".into(), String::new()),
            ("Refusals".into(), "n1: full\nn2: down".into()),
        ]);
        assert_eq!(text, "Name:      web\nRefusals:  n1: full\n           n2: down\n");
    }
}
