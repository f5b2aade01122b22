//! What goes on, while it goes on: one line on stderr that is drawn over and taken away at the end. Silent
//! when stderr is not a terminal, so scripts and logs see results only.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::output::text;

/// Not more often than this: a terminal may be far away.
const REDRAW: Duration = Duration::from_millis(100);

/// A line that tells what goes on.
pub struct Progress {
    shown: bool,
    start: Instant,
    last_draw: Option<Instant>,
    last_text: String,
}

impl Progress {
    /// Shown if stderr is a terminal.
    pub fn new() -> Self {
        Self {
            shown: io::stderr().is_terminal(),
            start: Instant::now(),
            last_draw: None,
            last_text: String::new(),
        }
    }

    /// Whether anybody sees it.
    pub fn is_shown(&self) -> bool {
        self.shown
    }

    /// Shows `text` with the time that has passed.
    pub fn step(&mut self, text: &str) {
        let text = format!("{text} · {}", text::span(self.start.elapsed()));
        self.draw(&text);
    }

    /// Shows how much of `total` bytes is done.
    pub fn bar(&mut self, what: &str, done: u64, total: u64) {
        let text = bar(what, done, total, self.start.elapsed());
        self.draw(&text);
    }

    fn draw(&mut self, text: &str) {
        let soon = self.last_draw.is_some_and(|last| last.elapsed() < REDRAW);
        if !self.shown || soon || text == self.last_text {
            return;
        }
        let width = terminal_width().unwrap_or(80).max(20);
        // One column less, so that the cursor never wraps to the next line.
        let line: String = text.chars().map(|c| if c == '\n' { ' ' } else { c }).take(width - 1).collect();
        let _ = write!(io::stderr(), "\r\x1b[2K{line}");
        self.last_draw = Some(Instant::now());
        self.last_text = text.into();
    }

    /// Takes the line away.
    pub fn clear(&mut self) {
        if self.last_draw.take().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Several lines that are drawn over in place, and taken away at the end. Silent where [`Progress`] is.
pub struct Board {
    shown: bool,
    lines: usize,
    last_text: String,
}

impl Board {
    /// Shown if stderr is a terminal.
    pub fn new() -> Self {
        Self { shown: io::stderr().is_terminal(), lines: 0, last_text: String::new() }
    }

    /// Shows `text` where the text before was.
    pub fn draw(&mut self, text: &str) {
        if !self.shown || text == self.last_text {
            return;
        }
        self.clear();
        let width = terminal_width().unwrap_or(80).max(20);
        // Cut, so that a line is a line and the way back up is known.
        let cut = text.lines().map(|line| line.chars().take(width - 1).collect::<String>() + "\n");
        let cut: Vec<String> = cut.collect();
        self.lines = cut.len();
        let _ = write!(io::stderr(), "{}", cut.concat());
        self.last_text = text.into();
    }

    /// Takes it away.
    pub fn clear(&mut self) {
        if self.lines > 0 {
            let _ = write!(io::stderr(), "\x1b[{}A\x1b[J", self.lines);
            self.lines = 0;
        }
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        self.clear();
    }
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn bar(what: &str, done: u64, total: u64, elapsed: Duration) -> String {
    const WIDTH: u64 = 16;
    let done = done.min(total);
    let filled = (done * WIDTH).checked_div(total).unwrap_or(WIDTH);
    let filled = usize::try_from(filled).unwrap_or(0);
    let seconds = elapsed.as_secs_f64();
    let rate = if seconds > 0.05 { (done as f64 / seconds) as u64 } else { 0 };
    let left = (total - done).checked_div(rate).map(|seconds| text::span(Duration::from_secs(seconds)));
    let left = left.unwrap_or_else(|| "?".into());
    let blocks = format!("{}{}", "#".repeat(filled), ".".repeat(WIDTH as usize - filled));
    let (done, total, rate) = (text::bytes(done), text::bytes(total), text::bytes(rate));
    format!("{what} [{blocks}] {done} of {total}, {rate}/s, {left} left")
}

/// Columns of the terminal on stderr.
pub fn terminal_width() -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ writes one `winsize`, which `size` is, and keeps no pointer.
    let status = unsafe { libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    (status == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_bytes_rate_and_rest() {
        let text = bar("uploading web", 6 << 20, 12 << 20, Duration::from_secs(3));
        assert_eq!(text, "uploading web [########........] 6.0 MiB of 12.0 MiB, 2.0 MiB/s, 3s left");
    }

    #[test]
    fn an_empty_or_unstarted_upload_divides_by_nothing() {
        assert!(bar("x", 0, 0, Duration::ZERO).starts_with("x [################] 0 B of 0 B"));
        assert!(bar("x", 0, 10, Duration::ZERO).ends_with("0 B/s, ? left"));
    }
}
