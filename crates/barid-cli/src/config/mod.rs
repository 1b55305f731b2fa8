//! The configuration file of the program: names of mailboxes, saved queries, defaults of options.
//!
//! `file.rs` reads it with the reader of the server's file, `names.rs` and `queries.rs` use names
//! and queries, `defaults.rs` turns the rest into options, and the program's `startup.rs` parses
//! the command line with these. Precedence: the command line, then the environment, then the file.
//! `docs/design/config.md` has the reasons.

pub(crate) mod defaults;
mod file;
mod load;
mod names;
mod queries;
mod survey;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;

use barid_serve::config::{ConfigErrors, ConfigPlace, PlainValue};

pub(crate) use self::load::load;
pub(crate) use self::survey::{Setting, SettingSource};

/// The environment variable that names the file.
pub(crate) const FILE_VARIABLE: &str = "BARID_CONFIG_FILE";
/// The environment variable with the default mailbox.
pub(crate) const MAILBOX_VARIABLE: &str = "BARID_MAILBOX";

/// The configuration that a command uses.
#[derive(Clone, Debug, Default)]
pub(crate) struct UserConfig {
    /// The file; `None` if neither the environment nor an option names one, and there is no home.
    pub(crate) path: Option<PathBuf>,
    /// The origin of the path.
    path_source: SettingSource,
    /// The state of the file.
    pub(crate) state: FileState,
    /// The default mailbox, from the environment or the file.
    mailbox: Option<(OsString, SettingSource)>,
    /// Names of mailboxes, without the at sign.
    names: BTreeMap<String, MailboxName>,
    /// Saved queries.
    queries: BTreeMap<String, (String, ConfigPlace)>,
    /// Defaults of options, in the order of the file.
    options: Vec<OptionDefault>,
    /// Long names of the global options on the command line; only for `barid config`.
    given: BTreeSet<String>,
}

impl UserConfig {
    /// Returns `true` if there is a default mailbox.
    pub(crate) fn has_mailbox(&self) -> bool {
        self.mailbox.is_some()
    }

    /// Notes the long names of the global options that are on the command line.
    pub(crate) fn set_given(&mut self, given: BTreeSet<String>) {
        self.given = given;
    }
}

/// The state of a configuration file.
#[derive(Clone, Debug, Default)]
pub(crate) enum FileState {
    /// It was not read, because the command does not use it.
    #[default]
    NotUsed,
    /// It does not exist.
    Missing,
    /// It was read.
    Read,
    /// It has problems; nothing of it counts.
    Wrong(ConfigErrors),
}

/// A name of a mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MailboxName {
    kind: NameKind,
    /// `PATH`, `FORMAT:PATH` or `@NAME`, with the home for `~`.
    target: String,
    /// The folder of the mailboxes `@NAME/...`, if it is not the target.
    root: Option<String>,
    place: ConfigPlace,
}

/// The section that defines a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameKind {
    Mailbox,
    Special,
    Account,
}

/// The default of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OptionDefault {
    /// The subcommands, such as `spam` and `classify`; none for all commands.
    command: Vec<String>,
    /// The long name of the option.
    option: String,
    value: PlainValue,
    /// The key as the file has it, such as `options.ls.sort`.
    key: String,
    place: ConfigPlace,
}
