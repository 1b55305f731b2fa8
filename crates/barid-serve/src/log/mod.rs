//! Records of what the server does: the log of events, the figures for Prometheus, and the protocol
//! logs of users.

mod event;
mod metrics;
mod rawlog;

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use barid::vfs::Host;

pub use self::event::{LogEvent, LogValue};
pub use self::metrics::{Metrics, MetricsSnapshot};
pub use self::rawlog::{RawDirection, RawLog, RedactLines};

use crate::config::{LogFormat, LogLevel, LogSettings};

/// Opens the place of the log: at the start, and again after a rotation.
pub type OpenLog = Box<dyn Fn() -> io::Result<Box<dyn Write + Send>> + Send + Sync>;

/// The log of events. Each event is one line, written in one call.
pub struct Log {
    host: Arc<dyn Host>,
    format: LogFormat,
    level: LogLevel,
    open: OpenLog,
    output: Mutex<Box<dyn Write + Send>>,
}

impl Log {
    /// Opens the log.
    ///
    /// # Errors
    /// The error of `open`.
    pub fn new(host: Arc<dyn Host>, settings: &LogSettings, open: OpenLog) -> io::Result<Self> {
        let output = Mutex::new(open()?);
        Ok(Self { host, format: settings.format, level: settings.level, open, output })
    }

    /// Writes an event, if it is important enough. An event that cannot be written is lost: the
    /// server goes on.
    pub fn write(&self, event: &LogEvent<'_>) {
        if event.level < self.level {
            return;
        }
        let line = event.line(self.format, self.host.now());
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = output.write_all(line.as_bytes()).and_then(|()| output.flush());
    }

    /// Opens the place of the log again, after its file was renamed. If that fails, the log goes
    /// on where it was.
    ///
    /// # Errors
    /// The error of opening it.
    pub fn reopen(&self) -> io::Result<()> {
        let new = (self.open)()?;
        *self.output.lock().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { format, level, .. } = self;
        out.debug_struct("Log").field("format", format).field("level", level).finish()
    }
}

#[cfg(test)]
mod tests {
    use barid::vfs::MemVfs;

    use super::*;

    /// Files by name, the last of which is written.
    #[derive(Clone, Default)]
    struct Files(Arc<Mutex<Vec<Vec<u8>>>>);

    impl Write for Files {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut files = self.0.lock().unwrap();
            files.last_mut().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_log_is_filtered_and_rotated() {
        let files = Files::default();
        let opened = files.clone();
        let open: OpenLog = Box::new(move || {
            opened.0.lock().unwrap().push(Vec::new());
            Ok(Box::new(opened.clone()))
        });
        let log = Log::new(Arc::new(MemVfs::new()), &LogSettings::default(), open).unwrap();
        log.write(&LogEvent::new(LogLevel::Debug, "hidden"));
        log.write(&LogEvent::new(LogLevel::Info, "first"));
        log.reopen().unwrap();
        log.write(&LogEvent::new(LogLevel::Error, "second"));
        let files = files.0.lock().unwrap();
        let text: Vec<_> = files.iter().map(|file| String::from_utf8_lossy(file)).collect();
        assert_eq!(text.len(), 2);
        assert!(text[0].ends_with(" info first\n") && text[0].lines().count() == 1, "{text:?}");
        assert!(text[1].ends_with(" error second\n"), "{text:?}");
    }
}
