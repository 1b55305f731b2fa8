//! The project's own commands: `cargo xtask VERB`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

mod args;
mod corpus;
mod crash;
mod dist;
mod fuzz;
mod install;
mod picture;
mod powercut;
mod shell;
mod spam_eval;
mod test;
mod tidy;

use std::process::ExitCode;

use args::Args;

const HELP: &str = "\
Usage: cargo xtask VERB

  test                   install what is missing, then run every check and every test
      --no-install       install nothing
      --own-corpora      only the tests that use corpora, with the small ones of our own
  dist                   build the programs as they are installed: barid, barid-bench, and
                         bogofilter linked statically, with its other names
      --dir DIR          where they go (target/dist)
      --dev              without optimising
  tidy                   check what the compiler does not: edges between crates, sizes, names
  corpus DIR             write generated mail
      --messages N       how many (20000)
      --format FORMAT    maildir, mboxo, mboxrd, mboxcl, mboxcl2, mmdf (maildir)
      --seed S           another seed, other mail (1)
      --classic          mail of 2004: small headers
      --no-status        no Status headers in an mbox: every message is new
      --crlf             CRLF line ends in an mbox
  crash                  the crash tests, with many seeds
      --seeds N          how many (1000)
      --points N         how many crash points of every writer (100000, and no less)
  fuzz [TARGET...]       mutated inputs for every parser and file format
      --seconds N        how long each target runs (60)
      --input FILE       run the target on a file, or on each file of a folder
      --first N          number of the first input; the same numbers are the same inputs
      --seeds DIR        write the seeds of each target to DIR/TARGET, for libFuzzer
      --list             names of the targets
  picture                draw docs/architecture.svg from the lists of ARCHITECTURE.md
  powercut               cut the power of ext4 and XFS while an mbox is changed; as root
      --only KINDS       some of ext4,xfs
      --random N         images of each beside those after every flush (300)
      --messages N       of the mailbox (1000)
      --seed S           other cuts, other mail (1)
      --barid PROGRAM    cut this one instead of a release build
  spam-eval              count the errors of the spam filter on dev-spam and dev-trec07p-first8000
      --only NAMES       some of trec07p,spamassassin,csdmc2010
      --roc DIR          draw curves into DIR
      --bogofilter       compare scores with those of the program
      --resamples N      for the intervals (400)
      --seed S           other splits (1)
      --programs         ask the installed programs, in folds and by dates of dev-spam:
      --folds N          and by dates (10)
      --halves           only by dates
      --no-tune          only with the parameters that there are
      --seed S           other folds (1)
      --barid PROGRAM    ask this one instead of a release build
";

fn main() -> ExitCode {
    let mut args = Args::from_environment();
    let result = match args.verb() {
        Some("test") => test::run(args),
        Some("tidy") => tidy::run(args),
        Some("corpus") => corpus::run(args),
        Some("dist") => dist::run(args),
        Some("crash") => crash::run(args),
        Some("fuzz") => fuzz::run(args),
        Some("picture") => picture::run(args),
        Some("powercut") => powercut::run(args),
        Some("spam-eval") => spam_eval::run(args),
        Some("help") => {
            print!("{HELP}");
            Ok(())
        }
        other => Err(anyhow::anyhow!("unknown verb {:?}\n\n{HELP}", other.unwrap_or_default())),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
