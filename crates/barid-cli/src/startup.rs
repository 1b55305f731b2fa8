//! The way from the words of the command line to a command with its configuration.

use std::ffi::OsString;
use std::mem::ManuallyDrop;

use clap::{ArgMatches, Command, CommandFactory as _, Error, FromArgMatches as _};

use crate::cli::Cli;
use crate::config::defaults::{
    excludes, is_given, lacks_mailbox, option_on, subcommands_of, with_words,
};
use crate::config::{UserConfig, load};
use crate::usage;

/// Commands that run for others than the one who started them, or before there is any mail: they
/// use no file of a user, and no default mailbox. The environment counts.
const WITHOUT_FILE: [&str; 12] = [
    "serve",
    "admin",
    "deliver",
    "lmtp",
    "bogofilter",
    "bogoutil",
    "bogolexer",
    "completions",
    "man",
    "demo",
    "help",
    "version",
];

/// The command that shows the configuration, and so must run with a wrong one.
const CONFIG: &str = "config";

/// A command line that was understood.
pub(crate) struct Startup {
    /// The command and the global options.
    pub(crate) cli: Cli,
    /// The configuration.
    pub(crate) config: UserConfig,
    /// A problem of the configuration, which ends the command.
    pub(crate) problem: Option<anyhow::Error>,
}

/// Parses a command line, which begins with the name of the program, with the defaults of the
/// environment and of the configuration file. A file is read only for a command that uses it.
///
/// # Errors
/// Errors of the command line, and requests for help.
pub(crate) fn start(args: &[OsString]) -> Result<Startup, Error> {
    // The process ends soon, and dropping the definition takes a sixth of its start.
    let mut root = ManuallyDrop::new(Cli::command());
    let mut parsed = root.try_get_matches_from_mut(args);
    let Some((at, path, _)) = subcommands_of(args, &root) else {
        return finished(parsed, &mut root, UserConfig::default());
    };
    let command = path.first().map(String::as_str).unwrap_or_default();
    let has_file = !WITHOUT_FILE.contains(&command);
    let (mut config, problem) = if has_file { load(args) } else { (UserConfig::default(), None) };
    let problem = problem.filter(|_| command != CONFIG);
    let mut args = args.to_vec();
    if has_file && parsed.as_ref().is_err_and(lacks_mailbox) {
        if config.has_mailbox() {
            args = with_words(&args, at, &["@".into()]);
            parsed = root.try_get_matches_from_mut(&args);
        } else if let Err(error) = parsed {
            return Err(usage::with_default_mailbox(error));
        }
    }
    if problem.is_some() || parsed.is_err() {
        return finished(parsed, &mut root, config).map(|it| Startup { problem, ..it });
    }
    let matches = parsed?;
    if command == CONFIG {
        note_given(&mut config, &matches, &root);
    }
    if option_on(&args, "--no-defaults").is_some() || matches.get_flag("no_defaults") {
        return finished(Ok(matches), &mut root, config);
    }
    match with_defaults(&args, (at, &path), &matches, (&mut root, &config)) {
        Ok(with) => finished(Ok(with.unwrap_or(matches)), &mut root, config),
        Err(_) if command == CONFIG => finished(Ok(matches), &mut root, config),
        Err(problem) => {
            let started = finished(Ok(matches), &mut root, config)?;
            Ok(Startup { problem: Some(problem), ..started })
        }
    }
}

fn finished(
    parsed: Result<ArgMatches, Error>,
    root: &mut Command,
    config: UserConfig,
) -> Result<Startup, Error> {
    let cli = Cli::from_arg_matches_mut(&mut parsed?).map_err(|error| error.format(root))?;
    Ok(Startup { cli, config, problem: None })
}

/// Parses the command line with the defaults that it allows; `None` if it gets none.
fn with_defaults(
    args: &[OsString],
    (at, path): (usize, &[String]),
    matches: &ArgMatches,
    (root, config): (&mut Command, &UserConfig),
) -> anyhow::Result<Option<ArgMatches>> {
    let candidates = config.candidates(path);
    let leaf = leaf_of(matches);
    let mut words = Vec::new();
    let Some((_, _, command)) = subcommands_of(args, root) else { return Ok(None) };
    for candidate in candidates {
        if is_given(leaf, command, &candidate.option) {
            continue;
        }
        let own = candidate.words(command, root).map_err(|error| error.into_error(config))?;
        if !own.is_empty() {
            words.push((candidate, own));
        }
    }
    if words.is_empty() {
        return Ok(None);
    }
    let all: Vec<OsString> = words.iter().flat_map(|(_, own)| own.clone()).collect();
    if let Ok(matches) = root.try_get_matches_from_mut(with_words(args, at, &all)) {
        return Ok(Some(matches));
    }
    let (mut kept, mut last) = (Vec::new(), None);
    for (candidate, own) in words {
        let with = [kept.clone(), own].concat();
        match root.try_get_matches_from_mut(with_words(args, at, &with)) {
            Ok(matches) => (kept, last) = (with, Some(matches)),
            Err(error) if excludes(&error) => {}
            Err(error) => return Err(candidate.refused(&error).into_error(config)),
        }
    }
    Ok(last)
}

fn leaf_of(matches: &ArgMatches) -> &ArgMatches {
    let mut leaf = matches;
    while let Some((_, inner)) = leaf.subcommand() {
        leaf = inner;
    }
    leaf
}

/// Notes the global options on the command line.
fn note_given(config: &mut UserConfig, matches: &ArgMatches, root: &Command) {
    let leaf = leaf_of(matches);
    let names = root.get_arguments().filter_map(clap::Arg::get_long);
    let given = names.filter(|name| is_given(leaf, root, name));
    config.set_given(given.map(str::to_owned).collect());
}
