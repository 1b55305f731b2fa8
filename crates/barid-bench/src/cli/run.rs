//! Running a bench and printing its report.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result, bail};
use barid_bench::{Launcher, Report, Screen};
use barid_testkit::disk;
use barid_testkit::peers::program;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;

use super::GlobalArgs;
use super::terminal::{Terminal, print_error};

/// The programs and the output options of all benches.
#[derive(Debug)]
pub(super) struct Run {
    /// The program under test.
    pub(super) barid: PathBuf,
    /// This program, as the process that starts the measured ones.
    pub(super) launcher: Launcher,
    is_json: bool,
    is_quiet: bool,
}

impl Run {
    /// Finds the programs.
    pub(super) fn new(global: &GlobalArgs) -> Result<Self> {
        let own = std::env::current_exe().context("this program cannot be found")?;
        let beside = || Some(own.with_file_name("barid")).filter(|path| disk::exists(path));
        let barid = global.barid.clone().or_else(beside).or_else(|| program("barid"));
        let barid = barid.context("no program barid is found; name one with --barid PROGRAM")?;
        let launcher = Launcher::new(own);
        Ok(Self { barid, launcher, is_json: global.json, is_quiet: global.quiet })
    }

    /// Runs a bench and prints its report.
    pub(super) fn measure<Results>(
        &self,
        bench: impl FnOnce(&mut dyn Screen, &AtomicBool) -> Result<Report<Results>>,
    ) -> Result<ExitCode> {
        let stop: Arc<AtomicBool> = Arc::default();
        set_when_told_to_end(&stop).context("signals cannot be caught")?;
        let report = bench(&mut Terminal::new(self.is_json, self.is_quiet), &stop)?;
        let mut out = io::stdout().lock();
        if self.is_json {
            report.json_lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        } else {
            writeln!(out, "\n{}", report.text.trim_end())?;
        }
        if report.interrupted {
            let folder = report.folder.display();
            let text = format!("interrupted; what was measured so far is in {folder}");
            if !self.is_quiet {
                print_error("warning", &text);
            }
            return Ok(ExitCode::from(2));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Makes the signals that ask for an end set a flag; the second one ends the program at once. One
/// that is ignored, as SIGHUP by `nohup`, stays so.
fn set_when_told_to_end(stop: &Arc<AtomicBool>) -> io::Result<()> {
    let ignored = ignored();
    let is_heeded = |signal: &i32| ignored >> (signal - 1) & 1 == 0;
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM].into_iter().filter(is_heeded) {
        flag::register_conditional_default(signal, Arc::clone(stop))?;
        flag::register(signal, Arc::clone(stop))?;
    }
    Ok(())
}

/// Returns the signals that this process was started to ignore, a bit each, as Linux reports them;
/// 0 if unknown.
fn ignored() -> u64 {
    let status = disk::read_text("/proc/self/status".as_ref()).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Returns the words of lists that are separated by blanks or commas.
pub(super) fn words(lists: &[String]) -> impl Iterator<Item = &str> {
    let is_between = |c: char| c.is_whitespace() || c == ',';
    lists.iter().flat_map(move |list| list.split(is_between)).filter(|word| !word.is_empty())
}

/// Returns the items that the words of lists name, in the order of `all`.
pub(super) fn named<T: Copy>(
    what: &str,
    lists: &[String],
    all: &[T],
    name: fn(T) -> &'static str,
) -> Result<Vec<T>> {
    let wanted: Vec<&str> = words(lists).filter(|word| *word != "none").collect();
    let names: Vec<&str> = all.iter().map(|one| name(*one)).collect();
    if let Some(unknown) = wanted.iter().find(|word| !names.contains(word)) {
        bail!("no {what} {unknown:?}; there are {}, none", names.join(", "));
    }
    Ok(all.iter().copied().filter(|one| wanted.contains(&name(*one))).collect())
}

#[cfg(test)]
mod tests {
    use barid_bench::formats::Program;

    use super::*;

    #[test]
    fn lists_are_words_between_blanks_and_commas() {
        let lists = ["lmdb  qdbm,tdb", "", " native "].map(str::to_owned);
        assert_eq!(words(&lists).collect::<Vec<_>>(), ["lmdb", "qdbm", "tdb", "native"]);
    }

    #[test]
    fn what_is_measured_has_names() {
        let check = |text: &str, expected: Option<&[Program]>| {
            let found = named("peer", &[text.to_owned()], &Program::PEERS, Program::name);
            assert_eq!(found.ok().as_deref(), expected, "{text}");
        };
        check("dovecot, c-client", Some(&[Program::CClient, Program::Dovecot]));
        check("none", Some(&[]));
        check("barid", None);
    }
}
