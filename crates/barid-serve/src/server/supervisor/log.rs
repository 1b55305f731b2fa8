//! The log of all processes.

use std::collections::VecDeque;

use barid::vfs::Timestamp;
use serde_json::{Value, json};

use crate::limits::LOG_LINES_MAX;
use crate::server::messages::{Level, LogLine};

/// Writes a line somewhere.
pub type WriteLine = Box<dyn FnMut(&str)>;

/// The log: every line is written, and the last ones are kept for `barid admin log`.
pub(super) struct Log {
    write: WriteLine,
    last: VecDeque<Value>,
}

impl Log {
    pub(super) fn new(write: WriteLine) -> Self {
        Self { write, last: VecDeque::new() }
    }

    /// Writes a line of a process.
    pub(super) fn line(&mut self, now: Timestamp, process: &str, line: &LogLine) {
        let level = match line.level {
            Level::Info => "info",
            Level::Warning => "warning",
            Level::Error => "error",
        };
        let mut text = format!("{level}: {process}: {}", escaped(&line.text));
        if let Some(user) = &line.user {
            text.push_str(&format!(" user={}", escaped(user)));
        }
        if let Some(peer) = line.peer {
            text.push_str(&format!(" peer={peer}"));
        }
        if let Some(session) = line.session {
            text.push_str(&format!(" session={session}"));
        }
        (self.write)(&text);
        if self.last.len() == LOG_LINES_MAX {
            self.last.pop_front();
        }
        self.last.push_back(json!({
            "time": now.unix_nanos / 1_000_000_000, "level": level, "process": process,
            "text": line.text, "user": line.user, "peer": line.peer, "session": line.session,
        }));
    }

    /// Returns the last lines.
    pub(super) fn last(&self, count: usize) -> Vec<Value> {
        let skipped = self.last.len().saturating_sub(count);
        self.last.iter().skip(skipped).cloned().collect()
    }
}

/// Returns a text in which control characters are visible, so that it is one line.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\\' => out.push_str("\\\\"),
            char if char.is_control() || matches!(char, '\u{2028}' | '\u{2029}') => {
                out.extend(char.escape_default());
            }
            char => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    #[test]
    fn lines_stay_lines() {
        let lines = Rc::new(RefCell::new(Vec::new()));
        let written = Rc::clone(&lines);
        let write = move |line: &str| written.borrow_mut().push(line.to_owned());
        let mut log = Log::new(Box::new(write));
        let user = Some("a\nb".to_owned());
        let line = LogLine { user, session: Some(7), ..LogLine::new(Level::Info, "x\r\ny\u{1b}") };
        for _ in 0..=LOG_LINES_MAX {
            log.line(Timestamp { unix_nanos: 0 }, "auth", &line);
        }
        assert_eq!(lines.borrow()[0], "info: auth: x\\r\\ny\\u{1b} user=a\\nb session=7");
        assert_eq!(log.last(usize::MAX).len(), LOG_LINES_MAX);
        assert_eq!(log.last(2).len(), 2);
    }
}
