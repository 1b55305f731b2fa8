//! Folders of scripts.

use std::io;
use std::path::Path;

use barid_testkit::disk;

use super::parse::Script;
use super::report::{Outcome, Report, ScriptResult};
use super::run::{RunOptions, run_script};
use crate::server::Server;

/// The messages of scripts without an mbox of their own.
const DEFAULT_MBOX: &str = "default.mbox";

/// Returns the names of the scripts in a folder, sorted: the files that are not mailboxes.
///
/// # Errors
/// Errors of the file system.
pub fn script_names(folder: &Path) -> io::Result<Vec<String>> {
    let files = disk::list(folder)?.into_iter().filter(|path| disk::is_file(path));
    let names = files.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    Ok(names.filter(|name| !name.ends_with(".mbox")).collect())
}

/// Runs the scripts of a folder, one by one; `is_wanted` gets their names.
///
/// # Errors
/// Errors of the file system. Errors in scripts are results.
pub fn run_folder(
    server: &dyn Server,
    folder: &Path,
    options: RunOptions,
    is_wanted: &dyn Fn(&str) -> bool,
) -> io::Result<Report> {
    let mut report = Report::default();
    for name in script_names(folder)?.into_iter().filter(|name| is_wanted(name)) {
        let own = folder.join(format!("{name}.mbox"));
        let mbox = if disk::exists(&own) { own } else { folder.join(DEFAULT_MBOX) };
        let messages = if disk::exists(&mbox) { disk::read(&mbox)? } else { Vec::new() };
        let result = match Script::parse(&name, &disk::read(&folder.join(&name))?) {
            Ok(script) => run_script(server, &script, &messages, options),
            Err(error) => ScriptResult {
                name,
                outcome: Outcome::Fail(error.to_string()),
                commands: 0,
                transcript: String::new(),
            },
        };
        report.results.push(result);
    }
    Ok(report)
}
