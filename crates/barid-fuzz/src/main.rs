//! The program behind `cargo xtask fuzz`: runs targets until a time is over, or repeats an input.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use barid_fuzz::{Extent, Failure, TARGETS, Target, hunt, input, replay, save, target_named};

const HELP: &str = "\
Usage: barid-fuzz [TARGET...] [--seconds N] [--first N] [--each] [--dir DIR]
                  [--input FILE | --save N | --seeds DIR]

  TARGET        targets to run, in turn; all if none is named
  --list        print the names of the targets
  --seconds N   how long each target runs (60)
  --first N     number of the first input (the time, so that each run is another)
  --each        print the number of each input before it runs, to find one that ends the process
  --dir DIR     where inputs that fail are written (target/fuzz)
  --input FILE  run the target on this file, or on each file of this folder
  --save N      write input N of the target to a file, without running it
  --seeds DIR   write the seeds of each target to a folder of DIR, for libFuzzer
";

/// Time between two reports of the number reached.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

struct Options {
    targets: Vec<&'static Target>,
    seconds: u64,
    first: u64,
    each: bool,
    dir: PathBuf,
    input: Option<PathBuf>,
    save: Option<u64>,
    seeds: Option<PathBuf>,
}

fn main() -> ExitCode {
    let result = match options(std::env::args().skip(1)) {
        Ok(Some(options)) => run(&options),
        Ok(None) => return ExitCode::SUCCESS,
        Err(problem) => Err(format!("{problem}\n\n{HELP}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    let mut options = Options {
        targets: Vec::new(),
        seconds: 60,
        first: since.as_secs() << 24,
        each: false,
        dir: PathBuf::from("target/fuzz"),
        input: None,
        save: None,
        seeds: None,
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number = |text: String| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
        match word.as_str() {
            "--seconds" => options.seconds = number(value()?)?,
            "--first" => options.first = number(value()?)?,
            "--each" => options.each = true,
            "--dir" => options.dir = value()?.into(),
            "--input" => options.input = Some(value()?.into()),
            "--save" => options.save = Some(number(value()?)?),
            "--seeds" => options.seeds = Some(value()?.into()),
            "--list" => {
                TARGETS.iter().for_each(|target| println!("{}", target.name));
                return Ok(None);
            }
            "--help" => {
                print!("{HELP}");
                return Ok(None);
            }
            name => {
                let target = target_named(name);
                options.targets.push(target.ok_or_else(|| format!("there is no target {name}"))?);
            }
        }
    }
    if options.targets.is_empty() {
        options.targets = TARGETS.iter().collect();
    }
    Ok(Some(options))
}

fn run(options: &Options) -> Result<(), String> {
    let mut failed = Vec::new();
    for target in &options.targets {
        let is_fine = match (&options.input, options.save, &options.seeds) {
            (Some(path), _, _) => repeat(target, path)?,
            (None, Some(number), _) => write_input(target, number, &options.dir)?,
            (None, None, Some(folder)) => write_seeds(target, folder)?,
            (None, None, None) => hunt_with(target, options)?,
        };
        if !is_fine {
            failed.push(target.name);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

fn repeat(target: &Target, path: &Path) -> Result<bool, String> {
    let at = |error| format!("{}: {error}", path.display());
    let (count, failed) = replay(target, path).map_err(at)?;
    if count == 0 {
        return Err(format!("{}: no input is here", path.display()));
    }
    println!("{}: {count} inputs repeated, {} failed", target.name, failed.len());
    failed.iter().for_each(|file| println!("  {}", file.display()));
    Ok(failed.is_empty())
}

fn write_input(target: &Target, number: u64, folder: &Path) -> Result<bool, String> {
    let bytes = input(target, &(target.seeds)(), number);
    let saved = save(target.name, number, &bytes, folder);
    println!("{}", saved.map_err(|error| format!("{}: {error}", folder.display()))?.display());
    Ok(true)
}

fn write_seeds(target: &Target, folder: &Path) -> Result<bool, String> {
    let folder = folder.join(target.name);
    let seeds = (target.seeds)();
    for (number, seed) in seeds.iter().enumerate() {
        let saved = save("seed", number as u64, seed, &folder);
        saved.map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    println!("{}: {} seeds", target.name, seeds.len());
    Ok(true)
}

fn hunt_with(target: &'static Target, options: &Options) -> Result<bool, String> {
    println!("{}: from input {}", target.name, options.first);
    let (each, last) = (options.each, Mutex::new(Instant::now()));
    let before = move |number| {
        let Ok(mut last) = last.lock() else { return };
        if each || last.elapsed() >= REPORT_INTERVAL {
            *last = Instant::now();
            println!("{}: input {number}", target.name);
        }
    };
    let extent = Extent::Time(Duration::from_secs(options.seconds));
    match hunt(target, options.first, extent, before) {
        Ok(tally) => {
            let (count, slowest) = (tally.inputs, tally.slowest);
            let time = tally.slowest_time;
            println!("{}: {count} inputs, the slowest {slowest} with {time:?}", target.name);
            Ok(true)
        }
        Err(failure) => report(&failure, options).map(|()| false),
    }
}

fn report(failure: &Failure, options: &Options) -> Result<(), String> {
    let saved = save(failure.target, failure.number, &failure.bytes, &options.dir);
    let saved = saved.map_err(|error| format!("{}: {error}", options.dir.display()))?;
    println!("{}: input {}: {:?}", failure.target, failure.number, failure.breach);
    println!("  cargo xtask fuzz {} --input {}", failure.target, saved.display());
    Ok(())
}
