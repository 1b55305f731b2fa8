//! Completion in shells: the program itself answers what may stand at the cursor.
//!
//! The scripts of `barid completions` call the program with a variable of the environment set. The
//! definition of the command line then gets completers for what it does not know: names of
//! mailboxes and their folders, keys of queries, keys of orders.

mod bash;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use barid::SortKey;
use barid::vfs::OsVfs;
use clap::{Arg, Command, ValueHint};
use clap_complete::CompleteEnv;
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use clap_complete::env::{Elvish, Fish, Powershell, Shells, Zsh};

use self::bash::Bash;
use crate::config::{UserConfig, load};
use crate::lazy;

/// The variable with which the scripts call the program: the name of the shell.
pub(crate) const VARIABLE: &str = "BARID_COMPLETE";
/// The shells.
const SHELLS: Shells<'static> = Shells(&[&Bash, &Elvish, &Fish, &Powershell, &Zsh]);

/// Answers a shell, if one asks, about the program that `define` defines; there is nothing else to
/// do then.
pub(crate) fn answer_shell(define: fn() -> Command) -> bool {
    if std::env::var_os(VARIABLE).is_none_or(|shell| shell.is_empty()) {
        return false;
    }
    let asked = CompleteEnv::with_factory(|| with_completers(lazy::whole(define)))
        .var(VARIABLE)
        .shells(SHELLS);
    let folder = std::env::current_dir().ok();
    asked.try_complete(std::env::args_os(), folder.as_deref()).unwrap_or_else(|error| error.exit())
}

/// Writes the script that makes a shell ask.
pub(crate) fn write_script(shell: &str, out: &mut Vec<u8>) -> std::io::Result<()> {
    match SHELLS.completer(shell) {
        Some(shell) => shell.write_registration(VARIABLE, "barid", "barid", "barid", out),
        None => Ok(()),
    }
}

/// Returns a definition whose arguments have completers.
fn with_completers(command: Command) -> Command {
    let names: Vec<String> =
        command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
    let command = command.mut_args(with_completer);
    names.iter().fold(command, |command, name| command.mut_subcommand(name, with_completers))
}

/// Arguments that are mailboxes, by their ids.
const MAILBOXES: [&str; 7] = ["mailbox", "mailboxes", "trees", "source", "target", "to", "from"];
/// Arguments that are queries.
const QUERIES: [&str; 3] = ["query", "messages", "message"];

fn with_completer(arg: Arg) -> Arg {
    let id = arg.get_id().as_str();
    let is_path = matches!(arg.get_value_hint(), ValueHint::AnyPath | ValueHint::DirPath);
    match id {
        _ if is_path && MAILBOXES.contains(&id) => arg.add(ArgValueCompleter::new(mailboxes)),
        _ if QUERIES.contains(&id) => arg.add(ArgValueCompleter::new(query)),
        "sort" => arg.add(ArgValueCompleter::new(sort_keys)),
        _ => arg,
    }
}

/// Returns the values that begin with a text.
fn beginning<'v>(
    current: &str,
    values: impl IntoIterator<Item = &'v str>,
) -> Vec<CompletionCandidate> {
    let values = values.into_iter().filter(|value| value.starts_with(current));
    values.map(CompletionCandidate::new).collect()
}

/// Completes a mailbox: a path, perhaps behind its format, or a name of the configuration.
fn mailboxes(current: &OsStr) -> Vec<CompletionCandidate> {
    let text = current.to_str().unwrap_or_default();
    if text.starts_with('@') {
        let (config, _) = load(&[]);
        return named(&config, text);
    }
    let format = text.split_once(':').filter(|(name, _)| barid::FormatName::named(name).is_some());
    match format {
        Some((name, path)) => {
            let paths = PathCompleter::any().complete(OsStr::new(path)).into_iter();
            paths.map(|path| path.add_prefix(format!("{name}:"))).collect()
        }
        None => PathCompleter::any().complete(current),
    }
}

/// Completes `@NAME`, and `@NAME/FOLDER` from the mailboxes that are there.
fn named(config: &UserConfig, text: &str) -> Vec<CompletionCandidate> {
    let Some((name, _)) = text.split_once('/') else {
        let names: Vec<String> = config.mailbox_names().map(|name| format!("@{name}")).collect();
        return beginning(text, names.iter().map(String::as_str));
    };
    let Ok(root) = config.mailbox_named(OsStr::new(&format!("{name}/"))) else { return Vec::new() };
    let root = Path::new(&root);
    let folders = barid::folders(&OsVfs, root).unwrap_or_default();
    let mailboxes = folders.iter().filter(|folder| folder.format.is_some());
    let below = mailboxes.filter_map(|folder| folder.path.strip_prefix(root).ok()?.to_str());
    let below: Vec<String> = below.map(|path| format!("{name}/{path}")).collect();
    beginning(text, below.iter().map(String::as_str))
}

/// Completes a term of a query: a key, a state behind `is:`, the name of a saved query.
fn query(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(text) = current.to_str() else { return Vec::new() };
    let (minus, term) = match text.strip_prefix('-') {
        Some(term) => ("-", term),
        None => ("", text),
    };
    let found = match term.split_once(':') {
        None => beginning(term, barid::query::short_keys()),
        Some(("is", state)) => beginning(state, barid::query::short_states()),
        Some(("query", name)) => {
            let (config, _) = load(&[]);
            let names: Vec<String> = config.query_names().map(str::to_owned).collect();
            beginning(name, names.iter().map(String::as_str))
        }
        Some(("in", mailbox)) => mailboxes(OsStr::new(mailbox)),
        Some(_) => Vec::new(),
    };
    let key = term.split_once(':').map_or_else(String::new, |(key, _)| format!("{key}:"));
    let prefix = OsString::from(format!("{minus}{key}"));
    found.into_iter().map(|value| value.add_prefix(prefix.clone())).collect()
}

/// Completes a key of `--sort`.
fn sort_keys(current: &OsStr) -> Vec<CompletionCandidate> {
    let text = current.to_str().unwrap_or_default();
    match text.strip_prefix("reverse:") {
        Some(key) => {
            let keys = beginning(key, SortKey::ALL.map(SortKey::name)).into_iter();
            keys.map(|key| key.add_prefix("reverse:")).collect()
        }
        None => beginning(text, SortKey::ALL.map(SortKey::name).into_iter().chain(["reverse:"])),
    }
}
