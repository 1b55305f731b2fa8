//! How the program ends: exit code, error and hint.

use std::io;
use std::process::ExitCode;

use anyhow::Error;
use barid::Uid;

use crate::context::Context;
use crate::output::escape::visible;
use crate::output::sink::SaidOtherwise;

/// How a command ended that was not stopped by an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All is well, also where a mailbox is empty.
    Done,
    /// What was asked for is not there.
    NothingMatched,
    /// The work was done, but something could not be read; that was reported already.
    Incomplete,
    /// Another code was asked for.
    Code(u8),
}

/// An error of the program itself, with a way out.
#[derive(Debug)]
pub(crate) struct WithHint {
    message: String,
    hint: String,
}

impl WithHint {
    /// An error that says what to do about it.
    pub(crate) fn error(message: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::new(Self { message: message.into(), hint: hint.into() })
    }
}

impl std::fmt::Display for WithHint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for WithHint {}

/// What was asked for is not there: reported like an error, but no failure.
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
    /// Says what is not there, and where to look.
    pub(crate) fn error(message: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::new(Self(WithHint { message: message.into(), hint: hint.into() }))
    }
}

/// Tells whether an error says that something is not there.
pub(crate) fn is_not_there(error: &Error) -> bool {
    error.is::<NotThere>()
        || matches!(
            error.downcast_ref(),
            Some(
                barid::Error::NoSuchMessage { .. }
                    | barid::Error::NothingToUndo { .. }
                    | barid::Error::NotKept { .. }
                    | barid::Error::NoSuchExpunge { .. }
            )
        )
}

/// Writes what is left, reports an error if there is one, and gives the exit code.
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

/// The error and those of its causes that it does not name itself.
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
            return Some(own.hint.clone());
        }
        let printing = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if printing.is_some_and(|inner| inner.is::<SaidOtherwise>()) {
            return Some("run it again".to_owned());
        }
        cause.downcast_ref::<barid::Error>()?.hint()
    })
}

/// Tells whether nobody reads standard output any more.
fn is_closed_pipe(error: &Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
