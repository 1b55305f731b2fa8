//! Defaults of options: from the environment and from the file.
//!
//! They become options right after the names of the subcommands, where the parser checks them like
//! all others. What the command line has, or excludes, is left out.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;

use barid_serve::config::{PlainValue, nearest};
use clap::builder::Arg;
use clap::error::{ContextKind, ErrorKind};
use clap::{ArgMatches, Command, Error};

use super::{OptionDefault, SettingSource, UserConfig};
use crate::hint::WithHint;

/// Environment variables of options, by the long names of these.
pub(crate) const VARIABLES: [(&str, &str); 6] = [
    ("cache-dir", "BARID_CACHE_DIR"),
    ("state-dir", "BARID_STATE_DIR"),
    ("store", "BARID_STORE"),
    ("compress", "BARID_COMPRESS"),
    ("color", "BARID_COLOR"),
    ("wordlist", "BARID_WORDLIST"),
];

/// Options that decide if there are defaults, and so have none.
const WITHOUT_DEFAULT: [&str; 4] = ["config-file", "no-defaults", "help", "version"];

/// A default for the command that is run.
#[derive(Debug)]
pub(crate) struct Candidate {
    /// The long name of the option.
    pub(crate) option: String,
    value: PlainValue,
    source: SettingSource,
    /// The key or variable, for messages.
    key: String,
    /// `true` if the command must have the option.
    must_exist: bool,
}

/// An error in a default: its place, and what the parser says of it.
#[derive(Debug)]
pub(crate) struct DefaultError {
    pub(crate) source: SettingSource,
    pub(crate) message: String,
}

impl fmt::Display for DefaultError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl DefaultError {
    /// Returns the error of a command that cannot run with this default.
    pub(crate) fn into_error(self, config: &UserConfig) -> anyhow::Error {
        let place = self.source.place_in(config);
        let hint = match self.source {
            SettingSource::Variable(variable) => format!("change or unset {variable}"),
            _ => "`barid config check` finds all problems of the file; --no-defaults ignores the \
                  defaults of options"
                .to_owned(),
        };
        WithHint::error(format!("{place}: {}", self.message), hint)
    }
}

impl UserConfig {
    /// Returns the defaults for a command, the most important first, one for each option.
    pub(crate) fn candidates(&self, path: &[String]) -> Vec<Candidate> {
        let mut found: Vec<Candidate> = VARIABLES.into_iter().filter_map(of_variable).collect();
        // The defaults for fewer commands count before those for more.
        let mut of_file: Vec<_> =
            self.options.iter().filter(|default| path.starts_with(&default.command)).collect();
        of_file.sort_by_key(|default| usize::MAX - default.command.len());
        found.extend(of_file.into_iter().map(|default| Candidate::of_file(default, path)));
        let mut seen = Vec::new();
        found.retain(|candidate| {
            let is_first = !seen.contains(&candidate.option);
            seen.push(candidate.option.clone());
            is_first
        });
        found
    }
}

fn of_variable((option, variable): (&str, &'static str)) -> Option<Candidate> {
    let value = env::var_os(variable).filter(|value| !value.is_empty())?;
    Some(Candidate {
        option: option.to_owned(),
        value: PlainValue::Texts(vec![value.to_string_lossy().into_owned()]),
        source: SettingSource::Variable(variable),
        key: variable.to_owned(),
        must_exist: false,
    })
}

impl Candidate {
    /// Returns the default of a file for a command.
    pub(super) fn of_file(default: &OptionDefault, path: &[String]) -> Self {
        Self {
            option: default.option.clone(),
            value: default.value.clone(),
            source: SettingSource::File(default.place),
            key: default.key.clone(),
            // A command of commands passes its defaults on to those that have the option.
            must_exist: default.command.len() == path.len() || default.command.is_empty(),
        }
    }

    /// Returns the words of the option for a command; none if the command has no such option, or
    /// the default is that of the program.
    pub(crate) fn words(
        &self,
        command: &Command,
        root: &Command,
    ) -> Result<Vec<OsString>, DefaultError> {
        let has_name = |arg: &&Arg| arg.get_long() == Some(self.option.as_str());
        let global = root.get_arguments().find(has_name);
        let arg = match command.get_arguments().find(has_name) {
            Some(arg) if self.is_allowed(global.is_some()) => arg,
            _ if self.must_exist => return Err(self.unknown(command, root)),
            _ => return Ok(Vec::new()),
        };
        let name = format!("--{}", self.option);
        match (&self.value, arg.get_action().takes_values()) {
            (PlainValue::Flag(true), false) => Ok(vec![name.into()]),
            (PlainValue::Flag(false), false) => Ok(Vec::new()),
            (PlainValue::Texts(texts), true) => {
                Ok(texts.iter().map(|text| format!("{name}={text}").into()).collect())
            }
            (PlainValue::Flag(_), true) => Err(self.error("expected a text in quotes or a number")),
            (PlainValue::Texts(_), false) => Err(self.error("expected true or false")),
        }
    }

    /// Returns `true` if this may set the option; in `[options]` only those of every command are.
    fn is_allowed(&self, is_global: bool) -> bool {
        !WITHOUT_DEFAULT.contains(&self.option.as_str()) && (is_global || !self.is_for_all())
    }

    fn is_for_all(&self) -> bool {
        self.key.strip_prefix("options.").is_some_and(|rest| !rest.contains('.'))
    }

    fn unknown(&self, command: &Command, root: &Command) -> DefaultError {
        let (known, of) = match self.is_for_all() {
            true => (root, "all commands".to_owned()),
            false => (command, format!("`barid {}`", command.get_name())),
        };
        let names: Vec<&str> = known
            .get_arguments()
            .filter_map(Arg::get_long)
            .filter(|name| !WITHOUT_DEFAULT.contains(name))
            .collect();
        let hint = match nearest(&self.option, &names) {
            hint if hint.is_empty() => format!("; the options are {}", names.join(", ")),
            hint => hint,
        };
        self.error(&format!("`--{}` is not an option of {of} with a default{hint}", self.option))
    }

    fn error(&self, message: &str) -> DefaultError {
        let message = match self.source {
            SettingSource::Variable(_) => message.to_owned(),
            _ => format!("{}: {message}", self.key),
        };
        DefaultError { source: self.source.clone(), message }
    }

    /// Returns the error of a value that the parser refuses.
    pub(crate) fn refused(&self, error: &Error) -> DefaultError {
        let text = error.to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        let text = text.split("\n\n").next().unwrap_or_default().trim();
        let text: Vec<&str> = text.lines().map(str::trim).collect();
        self.error(&text.join("; "))
    }
}

/// Returns `true` if an option is on the command line.
pub(crate) fn is_given(matches: &ArgMatches, command: &Command, option: &str) -> bool {
    let arg = command.get_arguments().find(|arg| arg.get_long() == Some(option));
    let Some(id) = arg.map(|arg| arg.get_id().as_str()) else { return false };
    matches.try_contains_id(id).is_ok()
        && matches.value_source(id) == Some(clap::parser::ValueSource::CommandLine)
}

/// Returns `true` if the parser refuses a command line because of what else is on it.
pub(crate) fn excludes(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::ArgumentConflict | ErrorKind::MissingRequiredArgument)
}

/// Returns `true` if a command line lacks its mailbox, the first of its arguments.
pub(crate) fn lacks_mailbox(error: &Error) -> bool {
    let is_mailbox = |text: &String| text == "<MAILBOX>" || text == "<MAILBOX>...";
    error.kind() == ErrorKind::MissingRequiredArgument
        && match error.get(ContextKind::InvalidArg) {
            Some(clap::error::ContextValue::Strings(names)) => {
                names.first().is_some_and(is_mailbox)
            }
            _ => false,
        }
}

/// Returns the command line with words after its subcommands.
pub(crate) fn with_words(args: &[OsString], at: usize, words: &[OsString]) -> Vec<OsString> {
    let (before, after) = args.split_at(at.min(args.len()));
    let parts = [before, words, after];
    parts.concat()
}

/// Returns the index behind the last subcommand of a command line, and the subcommands.
pub(crate) fn subcommands_of<'c>(
    args: &[OsString],
    root: &'c Command,
) -> Option<(usize, Vec<String>, &'c Command)> {
    let mut found: Option<(usize, Vec<String>, &Command)> = None;
    let (mut command, mut at) = (root, 1);
    while let Some(arg) = args.get(at) {
        let text = arg.to_string_lossy();
        if text == "--" {
            break;
        }
        if text.starts_with('-') {
            at += if takes_next(&text, [root, command]) { 2 } else { 1 };
            continue;
        }
        let Some(sub) = command.find_subcommand(arg) else { break };
        let mut path = found.map(|(_, path, _)| path).unwrap_or_default();
        path.push(sub.get_name().to_owned());
        found = Some((at + 1, path, sub));
        (command, at) = (sub, at + 1);
    }
    found
}

/// Returns `true` if the value of an option is the next word.
fn takes_next(text: &str, commands: [&Command; 2]) -> bool {
    let Some(name) = text.strip_prefix("--") else { return false };
    let is_it = |arg: &Arg| arg.get_long() == Some(name) && arg.get_action().takes_values();
    commands.iter().any(|command| command.get_arguments().any(is_it))
}

/// Returns the value of an option of every command, as it stands on the command line.
pub(crate) fn option_on(args: &[OsString], name: &str) -> Option<OsString> {
    let mut args = args.iter().skip(1).take_while(|arg| *arg != OsStr::new("--"));
    while let Some(arg) = args.next() {
        let text = arg.to_string_lossy();
        match text.strip_prefix(name) {
            Some("") => return args.next().cloned(),
            Some(value) if value.starts_with('=') => return Some(value[1..].into()),
            _ => {}
        }
    }
    None
}
