//! Output while a bench runs.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

use barid_bench::Screen;

/// Lines on standard output, and the current activity on standard error, if that is a terminal.
pub(super) struct Terminal {
    has_status: bool,
    shows_status: bool,
    shows_lines: bool,
}

impl Terminal {
    pub(super) fn new(is_json: bool, is_quiet: bool) -> Self {
        let shows_status = !is_quiet && io::stderr().is_terminal();
        Self { has_status: false, shows_status, shows_lines: !is_json && !is_quiet }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.has_status) {
            // A terminal that rejects output is not a reason to stop working.
            let _ = io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

impl Screen for Terminal {
    fn line(&mut self, text: &str) -> io::Result<()> {
        self.clear();
        if !self.shows_lines {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        writeln!(out, "{}", visible(text))?;
        out.flush()
    }

    fn folder(&mut self, folder: &Path) -> io::Result<()> {
        let text = format!("Running in {}", folder.display());
        if !self.shows_lines {
            print_error("note", &text);
            return Ok(());
        }
        self.line(&text)
    }

    fn status(&mut self, text: &str) {
        self.clear();
        if self.shows_status {
            self.has_status = io::stderr().write_all(text.as_bytes()).is_ok();
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Prints a line to standard error.
pub(super) fn print_error(kind: &str, text: &str) {
    // If standard error is closed, nobody can be told.
    let _ = writeln!(io::stderr(), "{kind}: {}", visible(text));
}

/// Returns the text with its control characters replaced, so that a path with any characters keeps
/// the columns aligned.
fn visible(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}
