//! The settings that count, with their origins, and the problems of the file: for `barid config`.

use std::env;
use std::ffi::OsString;
use std::path::Path;

use barid_serve::config::{ConfigPlace, ConfigProblem, PlainValue};
use clap::{Arg, Command};

use super::defaults::{Candidate, VARIABLES, excludes, with_words};
use super::{FileState, MailboxName, NameKind, OptionDefault, UserConfig};
use crate::dirs;
use crate::global::GlobalArgs;

/// The origin of a setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum SettingSource {
    /// The program.
    #[default]
    Default,
    /// An option on the command line, by its long name.
    Option(&'static str),
    /// An environment variable.
    Variable(&'static str),
    /// The configuration file.
    File(ConfigPlace),
}

impl SettingSource {
    /// Returns the place as errors and `barid config` show it.
    pub(crate) fn place_in(&self, config: &UserConfig) -> String {
        match self {
            Self::Default => "default".to_owned(),
            Self::Option(name) => format!("option --{name}"),
            Self::Variable(name) => format!("environment {name}"),
            Self::File(ConfigPlace { line, column }) => {
                let path = config.path.as_deref().unwrap_or(Path::new(""));
                format!("{}:{line}:{column}", path.display())
            }
        }
    }
}

/// A setting that counts.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// The key, as the file has it.
    pub(crate) key: String,
    /// The values; none if nothing is set.
    pub(crate) values: Vec<OsString>,
    /// The origin.
    pub(crate) source: SettingSource,
}

impl UserConfig {
    /// Returns everything that counts, for a command with these global options.
    pub(crate) fn settings(&self, global: &GlobalArgs) -> Vec<Setting> {
        let of = |key: &str, value: Option<OsString>, source: &SettingSource| Setting {
            key: key.to_owned(),
            values: value.into_iter().collect(),
            source: source.clone(),
        };
        let mut all = vec![of("config-file", self.path.clone().map(Into::into), &self.path_source)];
        let mailbox = self.mailbox.as_ref().map(|(mailbox, source)| (mailbox.clone(), source));
        let (mailbox, source) = mailbox.unzip();
        all.push(of("mailbox", mailbox, source.unwrap_or(&SettingSource::Default)));
        for (name, found) in &self.names {
            let place = &SettingSource::File(found.place);
            let MailboxName { kind, target, root, .. } = found;
            let key = match kind {
                NameKind::Mailbox => format!("mailboxes.{name}"),
                NameKind::Special => format!("special.{name}"),
                NameKind::Account => {
                    let key = format!("account.{name}.root");
                    all.push(of(&key, root.clone().map(Into::into), place));
                    format!("account.{name}.inbox")
                }
            };
            all.push(of(&key, Some(target.into()), place));
        }
        for (name, (text, place)) in &self.queries {
            let key = format!("queries.{name}");
            all.push(of(&key, Some(text.into()), &SettingSource::File(*place)));
        }
        for option in ["cache-dir", "state-dir", "store", "compress", "color"] {
            all.push(self.global_setting(option, global));
        }
        if global.no_defaults {
            return all;
        }
        let is_shown = |key: &str, all: &[Setting]| all.iter().any(|shown| shown.key == key);
        for default in &self.options {
            if is_shown(&default.key, &all) {
                continue;
            }
            let values = match &default.value {
                PlainValue::Flag(flag) => vec![flag.to_string().into()],
                PlainValue::Texts(texts) => texts.iter().map(Into::into).collect(),
            };
            let source = SettingSource::File(default.place);
            all.push(Setting { key: default.key.clone(), values, source });
        }
        if let Some(list) = env::var_os("BARID_WORDLIST").filter(|list| !list.is_empty()) {
            all.retain(|setting| setting.key != "spam.wordlist");
            let source = &SettingSource::Variable("BARID_WORDLIST");
            all.push(of("spam.wordlist", Some(list), source));
        }
        all
    }

    /// Returns the value of a global option, after the command line, the environment and the file
    /// were asked for it.
    fn global_setting(&self, option: &'static str, global: &GlobalArgs) -> Setting {
        let is_set = |name: &&(&str, &str)| {
            name.0 == option && env::var_os(name.1).is_some_and(|value| !value.is_empty())
        };
        let default = self.options.iter().find(|it| it.command.is_empty() && it.option == option);
        let source = match (VARIABLES.iter().find(is_set), default) {
            _ if self.given.contains(option) => SettingSource::Option(option),
            _ if global.no_defaults => SettingSource::Default,
            (Some((_, variable)), _) => SettingSource::Variable(variable),
            (None, Some(default)) => SettingSource::File(default.place),
            (None, None) => SettingSource::Default,
        };
        let value: Option<OsString> = match option {
            "cache-dir" => global.cache_dir.clone().or_else(dirs::cache_dir).map(Into::into),
            "state-dir" => global.state_dir.clone().or_else(dirs::state_dir).map(Into::into),
            "store" => Some(global.store.map_or("native".to_owned(), |it| it.to_string()).into()),
            "compress" => {
                Some(global.compress.map_or("none".to_owned(), |it| it.to_string()).into())
            }
            _ => Some(global.color.name().into()),
        };
        let values = value.into_iter().collect();
        Setting { key: format!("options.{option}"), values, source }
    }

    /// Returns the problems of the file: those of its text, queries that `parse` refuses, and
    /// defaults that no command of `root` takes.
    pub(crate) fn problems(
        &self,
        root: &mut Command,
        parse: &dyn Fn(&[String]) -> anyhow::Result<()>,
    ) -> Vec<ConfigProblem> {
        if let FileState::Wrong(errors) = &self.state {
            return errors.0.clone();
        }
        let path = self.path.clone().unwrap_or_default();
        let mut problems = Vec::new();
        let mut add = |place: ConfigPlace, message: String| {
            let ConfigPlace { line, column } = place;
            problems.push(ConfigProblem { path: path.clone(), line, column, message });
        };
        for (text, place) in self.queries.values() {
            if let Ok(words) = self.expand_query(std::slice::from_ref(text))
                && let Err(error) = parse(&words)
            {
                add(*place, error.to_string());
            }
        }
        for default in &self.options {
            if let Err(error) = Self::check_default(default, root) {
                add(default.place, error);
            }
        }
        problems.sort_by_key(|problem| (problem.line, problem.column));
        problems
    }

    /// Checks that a default is an option of its command, with a value that this takes.
    fn check_default(default: &OptionDefault, root: &mut Command) -> Result<(), String> {
        let mut command: &Command = root;
        for name in &default.command {
            let Some(sub) = command.find_subcommand(name) else {
                let names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
                let hint = barid_serve::config::nearest(name, &names);
                let key = &default.key;
                return Err(format!("{key}: `{name}` is not a command of barid{hint}"));
            };
            command = sub;
        }
        let mut path = default.command.clone();
        let has = |command: &Command| {
            let mut args = command.get_arguments().filter_map(Arg::get_long);
            args.any(|name| name == default.option)
        };
        if !has(command) {
            // A command of commands passes its defaults on.
            path.extend(
                command.get_subcommands().find(|sub| has(sub)).map(|sub| sub.get_name().to_owned()),
            );
        }
        // Every command has the global options; this one is the smallest.
        if path.is_empty() {
            path.push("ls".to_owned());
        }
        let candidate = Candidate::of_file(default, &path);
        let leaf = path.iter().try_fold(&*root, |at, name| at.find_subcommand(name));
        let Some(leaf) = leaf else { return Ok(()) };
        let words = candidate.words(leaf, root).map_err(|error| error.to_string())?;
        let names = ["barid".to_owned()].into_iter().chain(path).map(OsString::from);
        let names: Vec<OsString> = names.collect();
        match root.try_get_matches_from_mut(with_words(&names, names.len(), &words)) {
            Err(error) if !excludes(&error) => Err(candidate.refused(&error).to_string()),
            _ => Ok(()),
        }
    }
}
