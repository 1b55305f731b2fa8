//! Output, and the early end of a run.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::dropin::Error;

/// The exit code of a failure.
pub(crate) const ERROR: u8 = 3;

/// The early end of a run, by an error or as requested.
#[derive(Debug)]
pub(crate) struct Stop {
    pub(crate) code: u8,
    /// The text for standard error, or for standard output if the code is 0.
    pub(crate) text: String,
    /// `true` if a word list has a format that this program was built without.
    pub(crate) list_is_foreign: bool,
}

impl Stop {
    /// Creates a failure.
    pub(crate) fn error(text: impl Into<String>) -> Self {
        Self { code: ERROR, text: text.into(), list_is_foreign: false }
    }

    /// Creates a successful end.
    pub(crate) fn success(text: impl Into<String>) -> Self {
        Self { code: 0, text: text.into(), list_is_foreign: false }
    }

    /// Prints the text and returns the exit code.
    pub(crate) fn print_text(self) -> u8 {
        let Self { code, mut text, .. } = self;
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        if code == 0 {
            return print(text.as_bytes()).map_or(ERROR, |()| 0);
        }
        print_error(text.as_bytes());
        code
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        let hint = match error {
            Error::List(error) => return error.into(),
            Error::NoList { .. } => {
                ".\nerror #2 - No such file or directory.\n\n\
                 Remember to register some spam and ham messages before you\n\
                 use bogofilter to evaluate mail for its probable spam status!"
            }
            _ => "",
        };
        Self::error(format!("{error}{hint}"))
    }
}

impl From<barid_wordlist::Error> for Stop {
    fn from(error: barid_wordlist::Error) -> Self {
        let list_is_foreign = matches!(error, barid_wordlist::Error::Unsupported { .. });
        Self { list_is_foreign, ..Self::error(error.to_string()) }
    }
}

/// Writes to standard error and ignores errors.
pub(crate) fn print_error(bytes: &[u8]) {
    drop(io::stderr().lock().write_all(bytes));
}

/// Writes to standard output.
pub(crate) fn print(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Returns bytes as a path.
pub(crate) fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Returns bytes as text for messages.
pub(crate) fn shown(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
