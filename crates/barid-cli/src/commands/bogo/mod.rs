//! `barid bogofilter`, `barid bogoutil`, `barid bogolexer`: bogofilter's programs, their options,
//! files, answers and exit codes. The program does the same when it is called by these names.
//!
//! One process a message is how mail is delivered, so nothing is done before the message is read
//! that is not needed: what is done for other commands is not done here.

mod config;
mod filter;
mod getopt;
mod help;
mod input;
mod lexer;
mod options;
mod places;
mod query;
mod syslog;
mod util;

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;

use crate::context::Context;
use crate::exit::Outcome;

/// The exit code of a failure.
const ERROR: u8 = 3;

/// Do what bogofilter does: score, register and pass through messages
///
/// Takes bogofilter's options and configuration files, uses its word list where that is, and gives
/// its answers and exit codes. `barid bogofilter --help` tells the options.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct BogofilterArgs {
    #[command(flatten)]
    args: AllArgs,
}

/// Do what bogoutil does: dump, load and tend bogofilter's word lists
///
/// Takes bogoutil's options. `barid bogoutil --help` tells them.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct BogoutilArgs {
    #[command(flatten)]
    args: AllArgs,
}

/// Do what bogolexer does: print the words of messages
///
/// Takes bogolexer's options. `barid bogolexer --help` tells them.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct BogolexerArgs {
    #[command(flatten)]
    args: AllArgs,
}

/// Whatever comes.
#[derive(Debug, Args)]
struct AllArgs {
    /// Options and files as that program takes them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
    all: Vec<OsString>,
}

/// A program of bogofilter's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Filter,
    Util,
    Lexer,
}

/// Why a run ends before its end.
#[derive(Debug)]
struct Stop {
    code: u8,
    /// For standard error; for standard output if the code is 0.
    said: String,
}

impl Stop {
    /// A failure.
    fn error(said: impl Into<String>) -> Self {
        Self { code: ERROR, said: said.into() }
    }
}

impl From<barid::spam::dropin::Error> for Stop {
    fn from(error: barid::spam::dropin::Error) -> Self {
        use barid::spam::dropin::Error;
        let hint = match &error {
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

impl From<barid::wordlist::Error> for Stop {
    fn from(error: barid::wordlist::Error) -> Self {
        Self::error(error.to_string())
    }
}

impl Program {
    fn named(name: &OsStr) -> Option<Self> {
        let name = name.to_str()?;
        let is = |program: &str| {
            let rest = name.strip_prefix(program);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        match () {
            () if is("bogofilter") => Some(Self::Filter),
            () if is("bogoutil") => Some(Self::Util),
            () if is("bogolexer") => Some(Self::Lexer),
            () => None,
        }
    }

    /// Runs it; its exit code.
    fn run(self, args: impl Iterator<Item = OsString>) -> u8 {
        let args: Vec<Vec<u8>> = args.map(OsString::into_vec).collect();
        let done = match self {
            Self::Filter => filter::run(&args),
            Self::Util => util::run(&args),
            Self::Lexer => lexer::run(&args),
        };
        match done {
            Ok(code) => code,
            Err(Stop { code, said }) => {
                let said = if said.is_empty() || said.ends_with('\n') { said } else { said + "\n" };
                match code {
                    0 => tell_out(said.as_bytes()).map_or(ERROR, |()| 0),
                    code => {
                        tell(said.as_bytes());
                        code
                    }
                }
            }
        }
    }
}

/// Runs one of the programs if this process was called by its name, or as `barid` and the name.
pub(crate) fn called() -> Option<ExitCode> {
    let mut args = std::env::args_os();
    let own = args.next()?;
    let program = match Path::new(&own).file_name().and_then(Program::named) {
        Some(program) => program,
        None => {
            let first = args.next()?;
            let first = first.to_str()?;
            // Only the very name: other commands are for others to read.
            match first {
                "bogofilter" => Program::Filter,
                "bogoutil" => Program::Util,
                "bogolexer" => Program::Lexer,
                _ => return None,
            }
        }
    };
    Some(ExitCode::from(program.run(args)))
}

/// Does what was asked.
pub(crate) fn filter(_: &mut Context, args: &BogofilterArgs) -> anyhow::Result<Outcome> {
    Ok(Outcome::Code(Program::Filter.run(args.args.all.iter().cloned())))
}

/// Does what was asked.
pub(crate) fn util(_: &mut Context, args: &BogoutilArgs) -> anyhow::Result<Outcome> {
    Ok(Outcome::Code(Program::Util.run(args.args.all.iter().cloned())))
}

/// Does what was asked.
pub(crate) fn lexer(_: &mut Context, args: &BogolexerArgs) -> anyhow::Result<Outcome> {
    Ok(Outcome::Code(Program::Lexer.run(args.args.all.iter().cloned())))
}

/// Writes to standard error, whoever reads it.
fn tell(bytes: &[u8]) {
    drop(std::io::stderr().lock().write_all(bytes));
}

/// Writes to standard output.
fn tell_out(bytes: &[u8]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// What a path is as bytes are.
fn path_of(bytes: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt as _;
    Path::new(OsStr::from_bytes(bytes))
}

/// Bytes as text, for messages.
fn shown(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
