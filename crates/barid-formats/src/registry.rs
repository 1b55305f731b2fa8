//! The registry of formats: every format has a folder, and a line here.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;

use barid_mailbox::{Format, Result};

use crate::probe::Probe;
use crate::registered::RegisteredFormat;
use crate::{eml, maildir, mbox, mbx, mh, mix, public_inbox};

/// Every format, in the order in which they are tried.
static REGISTRY: [&[RegisteredFormat]; 7] = [
    &maildir::FORMATS,
    &mh::FORMATS,
    &mix::FORMATS,
    &mbx::FORMATS,
    &mbox::FORMATS,
    &public_inbox::FORMATS,
    &eml::FORMATS,
];

/// A registered format, selected by the name before a path (`mbox:PATH`).
#[derive(Clone, Copy)]
pub struct FormatName(&'static RegisteredFormat);

impl FormatName {
    /// Returns all formats in which a mailbox can be created, in the order of detection.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::readable().filter(|name| !name.format().is_read_only)
    }

    /// Returns all formats, those that can only be read included, in the order of detection.
    pub fn readable() -> impl Iterator<Item = Self> {
        registered().map(Self)
    }

    /// Returns the format with this name.
    pub fn named(name: &str) -> Option<Self> {
        registered().find(|registered| registered.name == name).map(Self)
    }

    /// Detects the format of a path; `None` if no format matches.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(crate) fn detect(probe: &Probe<'_>) -> Result<Option<Self>> {
        for registered in registered() {
            if let Some(is_this) = registered.probe
                && is_this(probe)?
            {
                return Ok(Some(Self(registered)));
            }
        }
        Ok(None)
    }

    /// Detects the format of a path that is to be opened and that [`FormatName::detect`] does not
    /// recognise; `None` if no format matches.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(crate) fn detect_to_open(probe: &Probe<'_>) -> Result<Option<Self>> {
        for registered in registered() {
            if let Some(is_this) = registered.opening_probe
                && is_this(probe)?
            {
                return Ok(Some(Self(registered)));
            }
        }
        Ok(None)
    }

    /// Returns the name, as written before the colon.
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// Returns the format. `mbox` names no variant; it is then that of a new mailbox.
    pub const fn format(self) -> Format {
        self.0.format
    }

    pub(crate) fn registered(self) -> &'static RegisteredFormat {
        self.0
    }
}

/// Returns the default format of a new mailbox that is a file or a folder.
pub fn default_format(is_folder: bool) -> Format {
    let mut formats = registered().map(|registered| registered.format);
    let found = if is_folder { formats.find(|format| format.is_folder()) } else { None };
    found.unwrap_or(mbox::DEFAULT_FORMAT)
}

/// Returns the registration of a format.
pub(crate) fn registered_as(format: Format) -> Option<&'static RegisteredFormat> {
    registered().find(|registered| registered.format == format)
}

fn registered() -> impl Iterator<Item = &'static RegisteredFormat> {
    REGISTRY.into_iter().flatten()
}

/// A mailbox as people name it: a path, with or without its format before it (`mbox:PATH`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailboxSpec {
    /// The format that was named.
    pub format: Option<FormatName>,
    /// The path.
    pub path: PathBuf,
}

impl MailboxSpec {
    /// Parses `PATH` or `FORMAT:PATH`. The text before the first colon is a format only if it is
    /// the name of one.
    pub fn parse(text: &str) -> Self {
        if let Some((name, path)) = text.split_once(':')
            && let format @ Some(_) = FormatName::named(name)
        {
            return Self { format, path: path.into() };
        }
        Self { format: None, path: text.into() }
    }
}

impl PartialEq for FormatName {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for FormatName {}

impl Hash for FormatName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl fmt::Debug for FormatName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}
