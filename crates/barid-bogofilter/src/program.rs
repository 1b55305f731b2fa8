//! The three programs.

use std::env::current_exe;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use crate::output::Stop;
use crate::{filter, lexer, util};

/// A program of bogofilter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `bogofilter`: scores, registers and passes through messages.
    Filter,
    /// `bogoutil`: dumps, loads and tends word lists.
    Util,
    /// `bogolexer`: prints the words of messages.
    Lexer,
}

/// The reaction to a word list in a foreign database whose library is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// Report an error.
    Refuse,
    /// Replace this process with `barid`, which may have been built with more libraries.
    HandOver,
}

impl Program {
    /// Returns the program with this name. A suffix after a hyphen is ignored, as Debian names the
    /// builds of bogofilter that way.
    pub fn named(name: &OsStr) -> Option<Self> {
        let name = name.to_str()?;
        let is = |program: &Self| {
            let rest = name.strip_prefix(program.name());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        [Self::Filter, Self::Util, Self::Lexer].into_iter().find(is)
    }

    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Filter => "bogofilter",
            Self::Util => "bogoutil",
            Self::Lexer => "bogolexer",
        }
    }

    /// Runs the program and returns its exit code; `args` does not include the program's name. With
    /// [`Foreign::HandOver`] it may not return.
    pub fn run(self, args: Vec<OsString>, foreign: Foreign) -> u8 {
        let args: Vec<Vec<u8>> = args.into_iter().map(OsString::into_vec).collect();
        let done = match self {
            Self::Filter => filter::run(&args),
            Self::Util => util::run(&args),
            Self::Lexer => lexer::run(&args),
        };
        match done {
            Ok(code) => code,
            // Lists are opened before any message is read.
            Err(stop) if stop.list_is_foreign && foreign == Foreign::HandOver => {
                self.hand_over(args, stop).print_text()
            }
            Err(stop) => stop.print_text(),
        }
    }

    /// Replaces this process with `barid`, the one beside this program or else the one in the
    /// search path; returns only if neither can be executed.
    fn hand_over(self, args: Vec<Vec<u8>>, stop: Stop) -> Stop {
        let beside = current_exe().map(|path| path.with_file_name("barid")).unwrap_or_default();
        let mut failed = String::new();
        for program in [beside, PathBuf::from("barid")] {
            let mut command = Command::new(&program);
            command.arg(self.name()).args(args.iter().cloned().map(OsString::from_vec));
            let error = command.exec();
            failed.push_str(&format!("\n{}: {error}", program.display()));
        }
        Stop::error(format!("{}\nbarid itself may be able to{failed}", stop.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_known_by_their_names() {
        let check = |name: &str, expected| {
            assert_eq!(Program::named(OsStr::new(name)), expected, "{name}");
        };
        check("bogofilter", Some(Program::Filter));
        check("bogofilter-bdb", Some(Program::Filter));
        check("bogoutil", Some(Program::Util));
        check("bogolexer-sqlite", Some(Program::Lexer));
        check("bogofilters", None);
        check("barid", None);
        check("", None);
    }
}
