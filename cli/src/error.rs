//! Every way a command can fail, with its exit code and what the operator reads: what went wrong, the
//! field, the request id, and the next step. Printed once, at the edge, by [`Error::print`].

use std::io::{self, Write};
use std::path::PathBuf;

use holm_api::{Code, Problem};
use serde::Serialize;

use crate::args::Format;

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cluster refused, and said why.
    #[error("{}", .0.detail)]
    Problem(Box<Problem>),
    /// The cluster did what it could and the outcome is bad: a VM in ERROR, a check that found something.
    #[error("{detail}")]
    Failed { detail: String, hint: Option<String> },
    /// What was typed cannot be meant.
    #[error("{detail}")]
    Usage { detail: String, hint: Option<String> },
    /// No node answered; nothing was changed.
    #[error("{detail}")]
    Unreachable { detail: String, hint: Option<String> },
    /// It may or may not have happened, or may still happen.
    #[error("{detail}")]
    OutcomeUnknown { detail: String, hint: Option<String> },
    /// A local file or directory could not be used.
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The command's own output could not be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

/// What a failure looks like with `-o json`: the API's problem, with codes of the command's own.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(rename = "type")]
    kind: String,
    title: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    code: &'a str,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<&'a holm_api::QuotaExceeded>,
    exit_code: u8,
}

impl Error {
    /// A failure without a hint.
    pub fn failed(detail: impl Into<String>) -> Self {
        Self::Failed { detail: detail.into(), hint: None }
    }

    /// A usage error with the way out of it.
    pub fn usage(detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { detail: detail.into(), hint: Some(hint.into()) }
    }

    /// The `map_err` of file operations.
    pub fn file(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { what, path, source }
    }

    /// The process' exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            // The reader of our output left, as in `holm vm list | head -1`: nothing is wrong.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Problem(problem) if problem.status >= 500 && problem.code != Code::StorageFull => 3,
            Self::Problem(_) | Self::Failed { .. } | Self::File { .. } | Self::Output(_) => 1,
            Self::Usage { .. } => 2,
            Self::Unreachable { .. } | Self::OutcomeUnknown { .. } => 3,
        }
    }

    /// Tells the operator, on stderr.
    pub fn print(&self, format: Format) {
        // A closed stderr leaves nobody to tell.
        let _ = io::stderr().write_all(self.render(format).as_bytes());
    }

    fn render(&self, format: Format) -> String {
        if self.exit_code() == 0 {
            return String::new();
        }
        let shown = self.shown();
        if format == Format::Json {
            return serde_json::to_string_pretty(&shown).expect("strings and numbers are JSON") + "\n";
        }
        let mut text = format!("error: {}\n", shown.detail);
        let rows = [("field", shown.field), ("hint", shown.hint), ("request", shown.request_id)];
        for (label, value) in rows {
            if let Some(value) = value {
                text += &format!("  {label}: {value}\n");
            }
        }
        text
    }

    fn shown(&self) -> Shown<'_> {
        let own = |code: &'static str, title: &'static str, hint: Option<&'static str>| Shown {
            kind: format!("urn:holm:problem:{code}"),
            title,
            status: None,
            code,
            detail: self.to_string(),
            field: None,
            request_id: None,
            hint,
            quota: None,
            exit_code: self.exit_code(),
        };
        match self {
            Self::Problem(problem) => Shown {
                kind: problem.kind.clone(),
                title: &problem.title,
                status: Some(problem.status),
                code: problem.code.as_str(),
                detail: problem.detail.clone(),
                field: problem.field.as_deref(),
                request_id: Some(problem.request_id.as_str()).filter(|id| !id.is_empty()),
                hint: problem.hint.as_deref(),
                quota: problem.quota.as_ref(),
                exit_code: self.exit_code(),
            },
            Self::Failed { hint, .. } => Shown { hint: hint.as_deref(), ..own("failed", "Failed", None) },
            Self::Usage { hint, .. } => Shown { hint: hint.as_deref(), ..own("usage", "Wrong usage", None) },
            Self::Unreachable { hint, .. } => {
                Shown { hint: hint.as_deref(), ..own("unreachable", "No node answers", None) }
            }
            Self::OutcomeUnknown { hint, .. } => {
                Shown { hint: hint.as_deref(), ..own("outcome_unknown", "The outcome is not known", None) }
            }
            Self::File { .. } => own("file", "A file cannot be used", None),
            Self::Output(_) => own("output", "The output cannot be written", None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_taken() -> Error {
        Error::Problem(Box::new(Problem {
            kind: "urn:holm:problem:name_taken".into(),
            title: Code::NameTaken.title().into(),
            status: 409,
            code: Code::NameTaken,
            detail: "the VM name `web` is taken".into(),
            field: Some("name".into()),
            request_id: "r-17".into(),
            quota: None,
            hint: Some("choose another name, or delete the VM".into()),
        }))
    }

    #[test]
    fn a_refusal_is_told_with_field_hint_and_request() {
        insta::assert_snapshot!(name_taken().render(Format::Table), @r"
        error: the VM name `web` is taken
          field: name
          hint: choose another name, or delete the VM
          request: r-17
        ");
    }

    #[test]
    fn with_json_a_refusal_is_a_problem() {
        insta::assert_snapshot!(name_taken().render(Format::Json));
    }

    #[test]
    fn exit_codes_are_as_designed() {
        let unknown = Error::OutcomeUnknown { detail: String::new(), hint: None };
        let unreachable = Error::Unreachable { detail: String::new(), hint: None };
        let pipe = Error::Output(io::Error::from(io::ErrorKind::BrokenPipe));
        let full = Error::Output(io::Error::from(io::ErrorKind::StorageFull));
        let codes = [name_taken(), Error::usage("", ""), unreachable, unknown, pipe, full];
        assert_eq!(codes.map(|error| error.exit_code()), [1, 2, 3, 3, 0, 1]);
    }

    #[test]
    fn a_reader_that_left_is_not_an_error() {
        let error = Error::Output(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(error.render(Format::Table), "");
    }
}
