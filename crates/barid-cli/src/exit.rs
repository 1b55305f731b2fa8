//! The end of the program: exit code, error and hint.

use std::io;
use std::process::ExitCode;

use anyhow::Error;
use barid::Uid;

use crate::context::Context;
pub(crate) use crate::hint::WithHint;
use crate::output::escape::visible;
use crate::output::sink::SaidOtherwise;

/// The outcome of a command that was not ended by an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Success, even if a mailbox is empty.
    Done,
    /// The requested object does not exist.
    NothingMatched,
    /// The work was done, but something could not be read; that was reported already.
    Incomplete,
    /// A specific exit code.
    Code(u8),
}

impl Outcome {
    /// Returns the outcome of a command with two parts: what could not be read counts before what
    /// does not exist, and that before success.
    pub(crate) fn worse(self, other: Self) -> Self {
        match (self, other) {
            (Self::Incomplete, _) | (_, Self::Incomplete) => Self::Incomplete,
            (Self::Done, other) => other,
            (one, _) => one,
        }
    }

    /// Returns the outcome of a search or choice that may be empty.
    pub(crate) fn nothing_if(is_nothing: bool) -> Self {
        if is_nothing { Self::NothingMatched } else { Self::Done }
    }
}

/// The requested object does not exist: reported like an error, but not a failure.
#[derive(Debug)]
pub(crate) struct NotThere(pub(crate) WithHint);

impl std::fmt::Display for NotThere {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for NotThere {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

impl NotThere {
    /// Creates an error that says what does not exist, with a hint where to look.
    pub(crate) fn error(message: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::new(Self(WithHint::new(message, hint)))
    }
}

/// Returns `true` if an error says that a requested object does not exist.
pub(crate) fn is_not_there(error: &Error) -> bool {
    error.is::<NotThere>()
        || matches!(
            of_library(error),
            Some(
                barid::Error::NoSuchMessage { .. }
                    | barid::Error::NothingToUndo { .. }
                    | barid::Error::NotKept { .. }
                    | barid::Error::NoSuchExpunge { .. }
            )
        )
}

/// Returns the error of the library, also if the spam filter passes it on.
pub(crate) fn of_library(error: &Error) -> Option<&barid::Error> {
    error.downcast_ref().or_else(|| match error.downcast_ref()? {
        barid_spam::Error::Mailbox(error) => Some(error),
        _ => None,
    })
}

/// Writes the remaining output, reports an error if there is one, and returns the exit code.
pub(crate) fn finish(context: &mut Context, result: anyhow::Result<Outcome>) -> ExitCode {
    let result = match context.out.finish() {
        Err(error) if result.is_ok() => Err(error.into()),
        _ => result,
    };
    match result {
        Ok(_) if context.is_incomplete.get() => ExitCode::from(2),
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::NothingMatched) => ExitCode::from(1),
        Ok(Outcome::Incomplete) => ExitCode::from(2),
        Ok(Outcome::Code(code)) => ExitCode::from(code),
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            report(context, &error);
            ExitCode::from(if is_not_there(&error) { 1 } else { 2 })
        }
    }
}

/// Prints an error and its hint to standard error.
pub(crate) fn report(context: &Context, error: &Error) {
    context.error_line("error", &describe(error));
    if let Some(hint) = hint(error) {
        context.error_line("hint", &visible(hint.as_bytes()));
    }
}

/// Reports messages that could not be read.
pub(crate) fn report_unreadable(
    context: &Context,
    unreadable: Vec<(Uid, barid::Error)>,
) -> Outcome {
    let outcome = if unreadable.is_empty() { Outcome::Done } else { Outcome::Incomplete };
    for (uid, error) in unreadable {
        report(context, &Error::new(error).context(format!("UID {uid}")));
    }
    outcome
}

/// Returns the error, with those of its causes that its text lacks.
pub(crate) fn describe(error: &Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    visible(text.as_bytes())
}

fn hint(error: &Error) -> Option<String> {
    error.chain().find_map(|cause| {
        if let Some(own) = cause.downcast_ref::<WithHint>() {
            return Some(own.hint().to_owned());
        }
        let printing = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if printing.is_some_and(|inner| inner.is::<SaidOtherwise>()) {
            return Some("run it again".to_owned());
        }
        match cause.downcast_ref::<barid_spam::Error>() {
            Some(error) => error.hint(),
            None => cause.downcast_ref::<barid::Error>()?.hint(),
        }
    })
}

/// Returns `true` if standard output is a closed pipe.
fn is_closed_pipe(error: &Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
