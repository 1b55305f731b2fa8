//! Finding and reading the file.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use barid::vfs::{OsVfs, Vfs as _};
use barid_serve::config::{ConfigErrors, load_config_text};

use super::defaults::option_on;
use super::{FILE_VARIABLE, FileState, MAILBOX_VARIABLE, SettingSource, UserConfig};
use crate::dirs;
use crate::hint::WithHint;
use crate::output::number::counted;

/// Reads the file; returns also the error that it has problems.
pub(crate) fn load(args: &[OsString]) -> (UserConfig, Option<anyhow::Error>) {
    let (path, source) = place(args);
    let mut config = UserConfig { path_source: source, ..UserConfig::default() };
    let mut problem = None;
    if let Some(path) = path {
        match read(&path, config.path_source != SettingSource::Default) {
            Ok(Some(found)) => {
                let path_source = config.path_source;
                config = UserConfig { path_source, state: FileState::Read, ..found };
            }
            Ok(None) => config.state = FileState::Missing,
            Err(errors) => {
                problem = Some(WithHint::error(
                    first_of(&errors),
                    "`barid config check` checks the file again; --config-file /dev/null does \
                     without it",
                ));
                config.state = FileState::Wrong(errors);
            }
        }
        config.path = Some(path);
    }
    if let Some(mailbox) = env::var_os(MAILBOX_VARIABLE).filter(|value| !value.is_empty()) {
        config.mailbox = Some((mailbox, SettingSource::Variable(MAILBOX_VARIABLE)));
    }
    (config, problem)
}

fn first_of(errors: &ConfigErrors) -> String {
    match errors.0.as_slice() {
        [] => "the configuration file has problems".to_owned(),
        [only] => only.to_string(),
        [first, rest @ ..] => format!("{first}; {} more", counted(rest.len() as u64, "problem")),
    }
}

/// Returns the path of the file, and what names it.
fn place(args: &[OsString]) -> (Option<PathBuf>, SettingSource) {
    if let Some(path) = option_on(args, "--config-file") {
        return (Some(path.into()), SettingSource::Option("config-file"));
    }
    match env::var_os(FILE_VARIABLE).filter(|value| !value.is_empty()) {
        Some(path) => (Some(path.into()), SettingSource::Variable(FILE_VARIABLE)),
        None => (dirs::config_dir().map(|dir| dir.join("config.toml")), SettingSource::Default),
    }
}

/// Reads and parses a file; `None` if it does not exist and need not.
fn read(path: &Path, is_named: bool) -> Result<Option<UserConfig>, ConfigErrors> {
    let is_missing =
        |kind: ErrorKind| matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory);
    if !is_named && OsVfs.metadata(path).is_err_and(|error| is_missing(error.kind())) {
        return Ok(None);
    }
    let text = load_config_text(&OsVfs, path)?;
    let home = env::var_os("HOME").filter(|home| Path::new(home).is_absolute());
    super::file::parse(path, &text, home.as_deref().map(OsStr::new)).map(Some)
}
