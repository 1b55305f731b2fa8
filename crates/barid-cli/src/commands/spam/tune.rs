//! `barid spam tune`: finds better parameters of scoring.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use barid::vfs::{File, OsVfs, atomic_replace};
use barid_spam::bayes::{Parameters, Profile};
use barid_spam::wordlist::Class;
use barid_spam::{
    At, Errors, Filter, Samples, Source, SpamOptions, Taken, TuneOptions, Tuned, bogofilter_config,
};
use clap::{Args, ValueHint};

use super::input::{Input, inputs, select};
use super::{ScoringArgs, parse_share, roc, stop_on_signal};
use crate::context::Context;
use crate::exit::{Outcome, WithHint, report};
use crate::limits::FAILED_SHOWN;
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::{counted, grouped};
use crate::output::table::{Align, Table};

const EXAMPLES: &str = "\
Examples:
  barid spam tune --spam ~/Maildir/.Junk --ham ~/Maildir archive.mbox
  barid spam tune --spam junk/*.eml --ham ~/Maildir --save --roc roc.svg
  barid spam tune --spam ~/Maildir/.Junk --ham ~/Maildir --bogofilter-config tuned.cf
  barid spam tune --spam ~/Maildir/.Junk --ham ~/Maildir --profile modern --chronological
  barid spam tune --spam ~/Maildir/.Junk --ham ~/Maildir --evaluate --min-dev 0.1

Messages are dealt into folds, and each is scored by a filter trained with all other folds; the word
list is not used. The recommended parameters were chosen with these messages and do a little better
on them than on others: the last row of the table counts errors on messages not used for the choice.

Exit status: 2 if a message could not be read.";

/// Choose the parameters of scoring with messages whose class is known
///
/// Tries some hundred sets of parameters, and recommends the one that misses the fewest spam while
/// few ham are classified as spam (--false-positives). The word list is not trained, and without
/// --save nothing is changed.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct TuneArgs {
    /// Messages that are spam: mailboxes (paths, or FORMAT:PATH) and files with one message each
    #[arg(long, required = true, num_args = 1.., value_name = "MAILBOX|FILE")]
    #[arg(value_hint = ValueHint::AnyPath)]
    spam: Vec<OsString>,
    /// Messages that are ham
    #[arg(long, required = true, num_args = 1.., value_name = "MAILBOX|FILE")]
    #[arg(value_hint = ValueHint::AnyPath)]
    ham: Vec<OsString>,
    /// Classify at most this share of ham as spam
    #[arg(long, value_name = "SHARE", default_value_t = 0.001, value_parser = parse_share)]
    false_positives: f64,
    /// Deal messages into N folds
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u64).range(2..=100))]
    folds: u64,
    /// Seed for dealing messages into folds
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Choose with the older half of the messages, and count errors on the newer
    #[arg(long)]
    chronological: bool,
    /// Try other cut-offs only: count errors with the present parameters
    #[arg(long, conflicts_with_all = ["save", "bogofilter_config"])]
    evaluate: bool,
    /// Save the recommended parameters beside the word list, for `barid spam classify` and `move`
    #[arg(long)]
    save: bool,
    /// Write the recommended parameters as lines of bogofilter's configuration, for `bogofilter -c
    /// FILE.cf` or the end of ~/.bogofilter.cf; `barid bogofilter` does not read those of --save
    #[arg(long, value_name = "FILE.cf", value_hint = ValueHint::FilePath)]
    bogofilter_config: Option<PathBuf>,
    /// Draw the ROC curve, spam found by share of ham classified as spam, as SVG
    #[arg(long, value_name = "FILE.svg", value_hint = ValueHint::FilePath)]
    roc: Option<PathBuf>,
    #[command(flatten)]
    scoring: ScoringArgs,
}

/// The alignment of the columns of the table.
const ALIGNS: [Align; 6] =
    [Align::Left, Align::Right, Align::Right, Align::Right, Align::Right, Align::Right];

/// The number of messages per class below which the result is doubtful.
const FEW_SAMPLES: u32 = 100;

/// Messages that could not be used, or were given twice.
#[derive(Default)]
struct UnusedMessages {
    twice: u64,
    otherwise: u64,
    failed: Vec<anyhow::Error>,
}

/// Chooses parameters, and prints and saves them.
pub(crate) fn run(context: &mut Context, args: &TuneArgs) -> anyhow::Result<Outcome> {
    if args.bogofilter_config.is_some()
        && args.scoring.profile.profile.profile() != Profile::Bogofilter
    {
        let hint = "choose parameters for bogofilter with --profile bogofilter";
        return Err(WithHint::error("bogofilter splits messages into other words", hint));
    }
    let classes =
        [(Class::Spam, inputs(context, &args.spam)?), (Class::Ham, inputs(context, &args.ham)?)];
    let stop = stop_on_signal(context)?;
    let options = SpamOptions { stop: Some(Arc::clone(&stop)), ..SpamOptions::default() };
    let (mut told, line) = (UnusedMessages::default(), &*context);
    let (filter, tuned) = context.with_line(Some(stop), |progress| {
        let options = SpamOptions { progress, ..options };
        let filter = args.scoring.filter(line, options)?;
        let mut samples = filter.samples();
        for (class, inputs) in &classes {
            for input in inputs {
                add(line, &mut samples, *class, input, &mut told)?;
            }
        }
        let tuned = samples.tune(&TuneOptions {
            folds: args.folds as usize,
            seed: args.seed,
            false_positives: args.false_positives,
            is_chronological: args.chronological,
            searches: !args.evaluate,
        });
        drop(samples);
        anyhow::Ok((filter, tuned?))
    })?;
    warn_of_doubts(context, told.otherwise, &tuned);
    if told.twice > 0 {
        context
            .detail(&format!("{} given twice, and counted once", counted(told.twice, "message")));
    }
    if let Some(path) = &args.roc {
        let svg = roc::svg(&tuned);
        replace(path, &svg)?;
    }
    if let Some(path) = &args.bogofilter_config {
        replace(path, &bogofilter_config(&tuned.recommended.parameters))?;
    }
    let saved = args.save.then(|| save(&filter, &tuned)).transpose()?;
    if context.global.json {
        json(context, args, &tuned, told.failed.len());
    } else {
        print(context, args, &tuned)?;
        let shown = |path: &Path| visible(path.as_os_str().as_encoded_bytes());
        if let Some(path) = saved {
            context.out.line(&format!("saved in {}", shown(&path)))?;
        }
        if let Some(path) = &args.bogofilter_config {
            context.out.line(&format!("written to {}", shown(path)))?;
        }
    }
    let count = told.failed.len();
    told.failed.iter().take(FAILED_SHOWN).for_each(|error| report(context, error));
    if count > FAILED_SHOWN {
        let more = counted((count - FAILED_SHOWN) as u64, "more message");
        context.error_line("error", &format!("{more} could not be read"));
    }
    Ok(if count == 0 { Outcome::Done } else { Outcome::Incomplete })
}

/// Writes a file, replacing an existing one.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let write = |file: &dyn File| file.write_all_at(text.as_bytes(), 0);
    let written = atomic_replace(&OsVfs, path, 0o644, false, write);
    written.map(drop).with_context(|| path.display().to_string())
}

/// Warns if the result is doubtful.
fn warn_of_doubts(context: &Context, otherwise: u64, tuned: &Tuned) {
    if otherwise > 0 {
        let count = counted(otherwise, "message");
        context.warn(&format!("{count} given as spam and as ham: counted as spam"));
    }
    let counts = [tuned.tested, tuned.trained];
    let least = counts.map(|counts| counts.spam.min(counts.ham)).into_iter().min().unwrap_or(0);
    if least < FEW_SAMPLES {
        let few = counted(least.into(), "message");
        context.warn(&format!(
            "only {few} of a class for training or counting: the result may be chance; some \
             hundred of each class are better"
        ));
    }
}

fn save(filter: &Filter, tuned: &Tuned) -> barid_spam::Result<PathBuf> {
    filter.save_parameters(&tuned.recommended.parameters)
}

fn add(
    context: &Context,
    samples: &mut Samples<'_>,
    class: Class,
    input: &Input,
    told: &mut UnusedMessages,
) -> anyhow::Result<()> {
    let mut take = |name: &dyn Fn() -> String, taken: Taken| match taken {
        Taken::Twice => told.twice += 1,
        Taken::Otherwise(_) => told.otherwise += 1,
        Taken::Unreadable(error) => {
            told.failed.push(anyhow::Error::new(error).context(name()));
        }
        _ => {}
    };
    let added = match input {
        Input::Mailbox(name) => {
            let mut mailbox = context.open(name)?;
            let selected = select(&mut mailbox, None)?.selected;
            let source = Source::Mailbox(&mut mailbox, &selected.uids);
            samples.add(class, source, &mut |at, taken| {
                let At::Uid(uid) = at else { return };
                take(&|| format!("{}, UID {uid}", name.display()), taken);
            })
        }
        Input::Files(files) => samples.add(class, Source::Files(files), &mut |at, taken| {
            let At::Index(index) = at else { return };
            let Some(file) = files.get(index) else { return };
            take(&|| file.display().to_string(), taken);
        }),
        Input::Stdin => {
            let hint = "name mailboxes, or files with one message each";
            return Err(WithHint::error("one message is too few to tune with", hint));
        }
    };
    Ok(added?)
}

/// Returns the rows of the table: a name for people, one for JSON, and the errors.
fn rows(tuned: &Tuned, args: &TuneArgs) -> Vec<(&'static str, &'static str, Errors)> {
    let mut rows = vec![
        ("now", "now", tuned.now.errors),
        ("now, other cut-offs", "recut", tuned.recut.errors),
    ];
    if !args.evaluate {
        rows.push(("recommended", "recommended", tuned.recommended.errors));
    }
    if !args.chronological {
        rows.push(("on messages not chosen by", "expected", tuned.expected));
    }
    rows
}

/// Returns the parameters with their names in bogofilter's configuration.
fn named(parameters: &Parameters) -> [(&'static str, f64); 7] {
    [
        ("robx", parameters.robx),
        ("robs", parameters.robs),
        ("min_dev", parameters.min_dev),
        ("sp_esf", parameters.sp_esf),
        ("ns_esf", parameters.ns_esf),
        ("spam_cutoff", parameters.spam_cutoff),
        ("ham_cutoff", parameters.ham_cutoff),
    ]
}

fn print(context: &mut Context, args: &TuneArgs, tuned: &Tuned) -> anyhow::Result<()> {
    let (spam, ham) = (tuned.tested.spam, tuned.tested.ham);
    let how = if args.chronological {
        let trained = (grouped(tuned.trained.spam.into()), grouped(tuned.trained.ham.into()));
        format!("scored by the {} spam and {} ham before them", trained.0, trained.1)
    } else {
        format!("in {} folds", args.folds)
    };
    let text = format!(
        "{} spam and {} ham, {how}; {} of parameters tried",
        grouped(spam.into()),
        grouped(ham.into()),
        counted(tuned.tried as u64, "set")
    );
    context.out.line(&text)?;
    if tuned.undated > 0 {
        let undated = counted(tuned.undated as u64, "message");
        context.out.line(&format!("{undated} without a date left out"))?;
    }
    context.out.line("")?;
    let mut table = Table::new(&ALIGNS);
    let head = ["", "ham as spam", "", "ham unsure", "spam missed", ""];
    table.row(head.map(str::to_owned));
    let share =
        |count: u32, of: u32| format!("{:.2} %", f64::from(count) / f64::from(of.max(1)) * 100.0);
    for (name, _, errors) in rows(tuned, args) {
        table.row([
            name.to_owned(),
            grouped(errors.ham_as_spam.into()),
            share(errors.ham_as_spam, ham),
            grouped(errors.ham_unsure.into()),
            grouped(errors.missed().into()),
            share(errors.missed(), spam),
        ]);
    }
    table.write(context.out.buffer(), "");
    if args.evaluate {
        return Ok(context.out.flush()?);
    }
    context.out.line("")?;
    context.out.line("recommended:")?;
    for (name, value) in named(&tuned.recommended.parameters) {
        context.out.line(&format!("  {name}={value}"))?;
    }
    Ok(())
}

fn json(context: &mut Context, args: &TuneArgs, tuned: &Tuned, failed: usize) {
    let mut json = Json::line(context.out.buffer(), "spam_tuned");
    json.key("profile").str(args.scoring.profile.profile.name());
    let counts = [
        ("spam", tuned.tested.spam.into()),
        ("ham", tuned.tested.ham.into()),
        ("taught_spam", tuned.trained.spam.into()),
        ("taught_ham", tuned.trained.ham.into()),
        ("tokens", tuned.tokens as u64),
        ("tried", tuned.tried as u64),
        ("undated", tuned.undated as u64),
        ("failed", failed as u64),
    ];
    for (key, count) in counts {
        json.key(key).number(count);
    }
    for (_, key, errors) in rows(tuned, args) {
        json.key(key).open(b'{');
        json.key("ham_as_spam").number(errors.ham_as_spam.into());
        json.key("ham_unsure").number(errors.ham_unsure.into());
        json.key("spam_as_ham").number(errors.spam_as_ham.into());
        json.key("spam_unsure").number(errors.spam_unsure.into());
        json.close(b'}');
    }
    json.key("parameters").open(b'{');
    for (name, value) in named(&tuned.recommended.parameters) {
        json.key(name).real(value);
    }
    json.close(b'}');
    json.key("saved").bool(args.save);
    json.end_line();
}
