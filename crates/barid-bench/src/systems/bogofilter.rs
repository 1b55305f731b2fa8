//! bogofilter and `bogoutil`: the builds that are installed, and barid in their place.

use std::path::{Path, PathBuf};
use std::process::Command;

use barid_testkit::peers::program;

use crate::lab::{quoted, with_libraries};

/// The programs that filter messages and that read and write word lists, as called in a shell.
#[derive(Clone, Debug)]
pub(crate) struct BogofilterPrograms {
    pub(crate) filter: String,
    pub(crate) util: String,
    /// The files that are run: the filter, and its libraries.
    pub(crate) files: Vec<PathBuf>,
}

impl BogofilterPrograms {
    /// Returns the small programs beside barid if both are installed there, otherwise barid itself.
    pub(crate) fn of_barid(barid: &Path) -> Self {
        let beside = ["bogofilter", "bogoutil"].map(|tool| barid.with_file_name(tool));
        let is_own = |path: &PathBuf| database(path).is_some_and(|name| name.starts_with("barid"));
        if beside.iter().all(is_own) {
            let [filter, util] = beside.each_ref().map(|path| quoted(&path.to_string_lossy()));
            return Self { filter, util, files: with_libraries(&beside[0]) };
        }
        let name = quoted(&barid.to_string_lossy());
        let [filter, util] = ["bogofilter", "bogoutil"].map(|tool| format!("{name} {tool}"));
        Self { filter, util, files: with_libraries(barid) }
    }

    /// Returns the programs of a build of bogofilter: by Debian's names (`bogofilter-sqlite`), or
    /// by bogofilter's own names if the installed one has the right database. Returns `None` if
    /// neither exists.
    pub(crate) fn of_build(build: &str) -> Option<Self> {
        let by_name = |suffix: &str| {
            let [filter, util] =
                ["bogofilter", "bogoutil"].map(|tool| program(&format!("{tool}{suffix}")));
            let (filter, util) = (filter?, util?);
            let is_right = database(&filter).is_some_and(|name| is_of(build, &name));
            is_right.then(|| Self {
                files: with_libraries(&filter),
                filter: quoted(&filter.to_string_lossy()),
                util: quoted(&util.to_string_lossy()),
            })
        };
        by_name(&format!("-{build}")).or_else(|| by_name(""))
    }
}

/// Returns the database that a bogofilter reports in its version.
pub(crate) fn database(filter: &Path) -> Option<String> {
    let output = Command::new(filter).arg("-V").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find_map(|line| line.trim().strip_prefix("Database:"));
    line.map(|name| name.trim().to_owned())
}

fn is_of(build: &str, database: &str) -> bool {
    let name: String = database.to_ascii_lowercase().chars().filter(|c| *c != ' ').collect();
    name.starts_with(if build == "bdb" { "berkeleydb" } else { build })
}

/// Returns a script that runs a process for each message of a folder.
pub(crate) fn each(command: &str, folder: &Path) -> String {
    let folder = quoted(&folder.to_string_lossy());
    format!("for file in {folder}/*; do {command} < \"$file\" || test $? -lt 3 || exit; done")
}

/// Returns the command that runs a script.
pub(crate) fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_are_known_by_their_databases() {
        let check = |database, expected: Option<&str>| {
            let found = ["bdb", "tokyocabinet", "sqlite"].into_iter();
            let found = found.into_iter().find(|build| is_of(build, database));
            assert_eq!(found, expected, "{database}");
        };
        check("Berkeley DB 5.3.28: (September  9, 2013) AUTO-XA", Some("bdb"));
        check("TokyoCabinet (version 1.4.48, B+tree API)", Some("tokyocabinet"));
        check("SQLite 3.40.1", Some("sqlite"));
        check("LMDB", None);
    }
}
