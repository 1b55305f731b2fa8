//! The log of all processes, and its last events for `barid admin log`.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;

use barid::vfs::{Host as _, OsVfs};
use serde_json::{Value, json};

use crate::config::{LogLevel, LogSettings, LogTarget};
use crate::limits::LOG_LINES_MAX;
use crate::log::{Log, LogEvent};
use crate::server::messages::{Level, LogLine};

/// Opens standard error, for a log that is not a file.
pub type OpenStderr = fn() -> Box<dyn Write + Send>;

/// The log, and its last events.
pub(super) struct ServerLog {
    log: Log,
    open_stderr: OpenStderr,
    last: VecDeque<Value>,
}

impl ServerLog {
    /// Opens the log.
    ///
    /// # Errors
    /// A file that cannot be opened, with its path.
    pub(super) fn open(settings: &LogSettings, open_stderr: OpenStderr) -> io::Result<Self> {
        Ok(Self { log: open(settings, open_stderr)?, open_stderr, last: VecDeque::new() })
    }

    /// Opens the place of the log again, by other settings or after a rotation.
    ///
    /// # Errors
    /// As [`ServerLog::open`]; the log goes on where it was.
    pub(super) fn reopen(&mut self, settings: &LogSettings) -> io::Result<()> {
        self.log = open(settings, self.open_stderr)?;
        Ok(())
    }

    /// Writes an event; `name` is that of the process, or of the event.
    pub(super) fn line(&mut self, name: &'static str, line: &LogLine) {
        let level = match line.level {
            Level::Info => LogLevel::Info,
            Level::Warning => LogLevel::Warn,
            Level::Error => LogLevel::Error,
        };
        let session = line.session.map(|session| session.to_string());
        let event = LogEvent {
            session: session.as_deref(),
            user: line.user.as_deref(),
            peer: line.peer,
            ..LogEvent::new(level, name)
        };
        self.log.write(&event.text("text", &line.text));
        if self.last.len() == LOG_LINES_MAX {
            self.last.pop_front();
        }
        self.last.push_back(json!({
            "time": OsVfs.now().unix_nanos / 1_000_000_000, "level": level.name(), "event": name,
            "text": line.text, "user": line.user, "peer": line.peer, "session": line.session,
        }));
    }

    /// Returns the last events.
    pub(super) fn last(&self, count: usize) -> Vec<Value> {
        let skipped = self.last.len().saturating_sub(count);
        self.last.iter().skip(skipped).cloned().collect()
    }
}

fn open(settings: &LogSettings, open_stderr: OpenStderr) -> io::Result<Log> {
    /// Permission bits of the file: it has names and addresses.
    const MODE: u32 = 0o640;
    let target = settings.target.clone();
    let open = move || -> io::Result<Box<dyn Write + Send>> {
        match &target {
            LogTarget::Stderr => Ok(open_stderr()),
            LogTarget::File(path) => match OsVfs.open_log(path, MODE) {
                Ok(file) => Ok(Box::new(file)),
                Err(error) => {
                    let text = format!("{}: {error}", path.display());
                    Err(io::Error::new(error.kind(), text))
                }
            },
        }
    };
    Log::new(Arc::new(OsVfs), settings, Box::new(open))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_events_are_kept() {
        let mut log = ServerLog::open(&LogSettings::default(), || Box::new(io::sink())).unwrap();
        for number in 0..LOG_LINES_MAX + 5 {
            log.line("x", &LogLine::new(Level::Info, number.to_string()));
        }
        assert_eq!(log.last(usize::MAX).len(), LOG_LINES_MAX);
        assert_eq!(log.last(1)[0]["text"], (LOG_LINES_MAX + 4).to_string());
    }
}
