//! An error of the program, with a hint.

use anyhow::Error;

/// An error of the program itself, with a hint.
#[derive(Debug)]
pub(crate) struct WithHint {
    message: String,
    hint: String,
}

impl WithHint {
    /// Creates an error with a hint on what to do about it.
    pub(crate) fn error(message: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::new(Self::new(message, hint))
    }

    /// Creates the value of such an error.
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }

    /// Returns the hint.
    pub(crate) fn hint(&self) -> &str {
        &self.hint
    }
}

impl std::fmt::Display for WithHint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for WithHint {}
