//! What charts draw, from any workload's history: each operation with its times and how it ended.

use crate::history::stored::Line;

/// One operation.
#[derive(Clone, Debug)]
pub struct Point {
    pub op: u64,
    pub process: u64,
    pub node: String,
    pub f: String,
    /// What was asked for and what came of it, in words.
    pub detail: String,
    pub invoked_ns: u64,
    /// None: it never completed.
    pub completed_ns: Option<u64>,
    pub end: End,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Ok,
    Fail,
    Info,
}

impl End {
    pub const ALL: [Self; 3] = [Self::Ok, Self::Info, Self::Fail];

    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Fail => "fail",
            Self::Info => "info",
        }
    }

    pub fn colour(self) -> &'static str {
        match self {
            Self::Ok => "#3b7dd8",
            Self::Fail => "#c04ab0",
            Self::Info => "#f0a030",
        }
    }
}

/// The operations of a history.
pub fn points(lines: &[Line]) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    for line in lines {
        let Some(op) = line.number("op") else { continue };
        let words = |name: &str| line.body.get(name).map(ToString::to_string).unwrap_or_default();
        if line.kind() == "invoke" {
            points.push(Point {
                op,
                process: line.number("process").unwrap_or(0),
                node: line.text("node").to_owned(),
                f: line.text("f").to_owned(),
                detail: words("value"),
                invoked_ns: line.time_ns,
                completed_ns: None,
                end: End::Info,
            });
        } else if let Some(point) = usize::try_from(op).ok().and_then(|op| points.get_mut(op)) {
            point.completed_ns = Some(line.time_ns);
            point.detail = format!("{} → {} {}", point.detail, line.kind(), words("answer"));
            point.end = match line.kind() {
                "ok" => End::Ok,
                "fail" => End::Fail,
                _ => End::Info,
            };
        }
    }
    points
}

/// When the history ends.
pub fn end_ns(lines: &[Line]) -> u64 {
    lines.last().map_or(0, |line| line.time_ns)
}
