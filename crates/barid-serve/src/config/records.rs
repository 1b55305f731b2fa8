//! Settings of the log.

use std::path::PathBuf;

use super::reader::Section;

/// Form of the lines of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// A line of text.
    #[default]
    Text,
    /// An object of JSON.
    Json,
}

/// Importance of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Details for finding an error.
    Debug,
    /// Logins, deliveries, ends of sessions.
    #[default]
    Info,
    /// Something that an administrator should look at.
    Warn,
    /// Something failed.
    Error,
}

impl LogLevel {
    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// The place of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard error, for the journal of systemd.
    #[default]
    Stderr,
    /// A file, opened again at SIGHUP.
    File(PathBuf),
}

/// Settings of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogSettings {
    /// The form of lines.
    pub format: LogFormat,
    /// The place.
    pub target: LogTarget,
    /// The least importance of events.
    pub level: LogLevel,
}

impl LogSettings {
    pub(super) fn read(section: Option<&Section<'_>>) -> Self {
        let Some(section) = section else { return Self::default() };
        let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
        let levels = [LogLevel::Debug, LogLevel::Info, LogLevel::Warn, LogLevel::Error]
            .map(|level| (level.name(), level));
        let target = section.parsed("target", |text| match text {
            "stderr" => Ok(LogTarget::Stderr),
            path if path.starts_with('/') => Ok(LogTarget::File(path.into())),
            _ => Err(format!("{text:?} is not \"stderr\", and not an absolute path")),
        });
        Self {
            format: section.choice("format", &formats).unwrap_or_default(),
            target: target.unwrap_or_default(),
            level: section.choice("level", &levels).unwrap_or_default(),
        }
    }
}
