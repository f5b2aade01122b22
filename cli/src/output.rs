//! How records leave the program: `-o table|json|yaml|name`, on stdout, with every write checked so that
//! a reader that went away ends the program quietly.

pub mod record;
pub mod table;
pub mod text;

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

pub use self::record::Record;
use self::table::Table;
use self::text::Now;
use crate::args::Format;
use crate::error::Error;

/// Where and how a command prints.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    pub format: Format,
    pub now: Now,
}

impl Output {
    /// The format asked for, at the present moment.
    pub fn new(format: Format) -> Self {
        Self { format, now: Now::read() }
    }

    /// Prints a list.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub fn list<R: Record>(&self, records: &[R]) -> Result<(), Error> {
        print(&self.render_list(records))
    }

    /// Prints one record: everything about it, one field a line, in a table.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub fn one<R: Record>(&self, record: &R) -> Result<(), Error> {
        print(&self.render_one(record))
    }

    /// Prints what a command did: the record for programs, a sentence for people.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub fn done<R: Record>(&self, record: &R, sentence: &str) -> Result<(), Error> {
        match self.format {
            Format::Table => print(&format!("{sentence}\n")),
            _ => self.one(record),
        }
    }

    /// The text of a list.
    pub fn render_list<R: Record>(&self, records: &[R]) -> String {
        match self.format {
            Format::Table => {
                let mut table = Table::new(R::COLUMNS);
                for record in records {
                    table.row(record.row(self.now));
                }
                let footer = R::footer(records);
                let gap = if footer.is_empty() { "" } else { "\n" };
                let footer: String = footer.into_iter().map(|line| line + "\n").collect();
                table.render() + gap + &footer
            }
            Format::Json => json(&records),
            Format::Yaml => yaml(&records),
            Format::Name => records.iter().map(|record| format!("{}\n", record.name())).collect(),
        }
    }

    /// The text of one record.
    pub fn render_one<R: Record>(&self, record: &R) -> String {
        match self.format {
            Format::Table => record.detail(self.now),
            Format::Json => json(record),
            Format::Yaml => yaml(record),
            Format::Name => format!("{}\n", record.name()),
        }
    }
}

/// Pretty JSON and a line end.
pub fn json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("the API's types are JSON") + "\n"
}

/// One line of JSON, for streams of records.
pub fn json_line(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("the API's types are JSON") + "\n"
}

/// A YAML document.
pub fn yaml(value: &impl Serialize) -> String {
    serde_yaml_ng::to_string(value).expect("the API's types are YAML")
}

/// Writes to stdout, at once.
///
/// # Errors
/// When stdout cannot be written.
pub fn print(text: &str) -> Result<(), Error> {
    print_bytes(text.as_bytes())
}

/// Writes to stdout, at once.
///
/// # Errors
/// When stdout cannot be written.
pub fn print_bytes(bytes: &[u8]) -> Result<(), Error> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()?;
    Ok(())
}

/// Tells the operator something beside the output, on stderr.
pub fn note(text: &str) {
    // A closed stderr leaves nobody to tell.
    let _ = writeln!(io::stderr(), "{text}");
}

/// What the cluster warns of beside its answer; on stderr, so that what is printed stays the record.
pub fn warn(warnings: &[String]) {
    warnings.iter().for_each(|warning| note(&format!("warning: {warning}")));
}

/// Whether somebody looks at stdout.
pub fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}
