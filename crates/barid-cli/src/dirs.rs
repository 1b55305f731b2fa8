//! Default folders of caches, state and configuration (XDG Base Directory Specification 0.8).

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Returns the folder for caches, if the environment has one or a home.
pub(crate) fn cache_dir() -> Option<PathBuf> {
    resolve(env::var_os("XDG_CACHE_HOME"), env::var_os("HOME"), ".cache")
}

/// Returns the folder for state, if the environment has one or a home.
pub(crate) fn state_dir() -> Option<PathBuf> {
    resolve(env::var_os("XDG_STATE_HOME"), env::var_os("HOME"), ".local/state")
}

/// Returns the folder for configuration, if the environment has one or a home.
pub(crate) fn config_dir() -> Option<PathBuf> {
    resolve(env::var_os("XDG_CONFIG_HOME"), env::var_os("HOME"), ".config")
}

/// Returns the folder. Relative paths in the variables are invalid and ignored, as the
/// specification demands.
fn resolve(base: Option<OsString>, home: Option<OsString>, default: &str) -> Option<PathBuf> {
    let absolute = |path: &OsString| Path::new(path).is_absolute();
    let base = base.filter(absolute).map(PathBuf::from);
    let home = || home.filter(absolute).map(|home| Path::new(&home).join(default));
    base.or_else(home).map(|dir| dir.join("barid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(base: Option<&str>, home: Option<&str>, expected: Option<&str>) {
        let found = resolve(base.map(Into::into), home.map(Into::into), ".cache");
        assert_eq!(found, expected.map(PathBuf::from));
    }

    #[test]
    fn folders_follow_the_specification() {
        check(Some("/x"), Some("/home/me"), Some("/x/barid"));
        check(Some("relative"), Some("/home/me"), Some("/home/me/.cache/barid"));
        check(Some(""), Some("/home/me"), Some("/home/me/.cache/barid"));
        check(None, Some("/home/me"), Some("/home/me/.cache/barid"));
        check(None, Some(""), None);
        check(None, None, None);
    }
}
