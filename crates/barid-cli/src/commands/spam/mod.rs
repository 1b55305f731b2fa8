//! `barid spam`: the spam filter.

mod classify;
pub(crate) mod daemon;
mod damage;
mod input;
mod list;
mod maintain;
mod moving;
mod roc;
mod train;
mod tune;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use barid::vfs::OsVfs;
use barid_spam::bayes::{Parameters, Profile, Status};
use barid_spam::wordlist::day_of;
use barid_spam::{Filter, SpamOptions};
use clap::{Args, Subcommand, ValueEnum, ValueHint};

use crate::context::Context;
use crate::exit::Outcome;
use crate::signals;

const EXAMPLES: &str = "\
Examples:
  barid spam train --spam ~/Maildir/.Junk  these are spam
  barid spam train --ham ~/Maildir         and these are not
  barid spam classify ~/Maildir            score messages; the next time only new mail is read
  barid spam classify --explain < message.eml
  barid spam retrain --ham ~/Maildir/.Junk --uids 17
  barid spam move ~/Maildir --to ~/Maildir/.Junk
  bogoutil -d ~/.bogofilter/wordlist.db | barid spam load
  barid spam stats                         the figures of the word list
  barid spam tune --spam ~/Maildir/.Junk --ham ~/Maildir --save  better parameters
  barid spam daemon --milter inet:127.0.0.1:8893  for Postfix, and for bogofilter's recipes

The word list is in the state folder, which must be kept; --wordlist names another file.";

/// Separate spam from ham: train the filter, and classify messages
///
/// The filter counts the spam and ham messages in which each word was seen, and computes scores as
/// bogofilter does. It remembers the messages it was trained with, so that none counts twice and
/// each can be untrained.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct SpamArgs {
    #[command(subcommand)]
    command: SpamCommand,
}

/// The commands of the spam filter.
#[derive(Debug, Subcommand)]
enum SpamCommand {
    Train(train::TrainArgs),
    Untrain(train::UntrainArgs),
    Retrain(train::RetrainArgs),
    Classify(classify::ClassifyArgs),
    Move(moving::MoveArgs),
    Dump(list::DumpArgs),
    Load(list::LoadArgs),
    Merge(list::MergeArgs),
    Maintain(maintain::MaintainArgs),
    Stats(list::StatsArgs),
    Tune(tune::TuneArgs),
    Daemon(daemon::DaemonArgs),
}

/// Runs the command.
pub(crate) fn run(context: &mut Context, args: &SpamArgs) -> anyhow::Result<Outcome> {
    match &args.command {
        SpamCommand::Train(args) => train::train(context, args),
        SpamCommand::Untrain(args) => train::untrain(context, args),
        SpamCommand::Retrain(args) => train::retrain(context, args),
        SpamCommand::Classify(args) => classify::run(context, args),
        SpamCommand::Move(args) => moving::run(context, args),
        SpamCommand::Dump(args) => list::dump(context, args),
        SpamCommand::Load(args) => list::load(context, args),
        SpamCommand::Merge(args) => list::merge(context, args),
        SpamCommand::Maintain(args) => maintain::run(context, args),
        SpamCommand::Stats(args) => list::stats(context, args),
        SpamCommand::Tune(args) => tune::run(context, args),
        SpamCommand::Daemon(args) => daemon::run(context, args),
    }
}

/// The option that selects the word list.
#[derive(Clone, Debug, Args)]
struct ListArgs {
    /// Use the word list PATH [default: the one in the state folder]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    wordlist: Option<PathBuf>,
}

impl ListArgs {
    fn path(&self, context: &Context) -> anyhow::Result<PathBuf> {
        match &self.wordlist {
            Some(path) => Ok(path.clone()),
            None => Ok(Filter::default_path(&context.state_dir()?)),
        }
    }

    fn filter(&self, context: &Context, options: SpamOptions) -> anyhow::Result<Filter> {
        Ok(Filter::new(Arc::new(OsVfs), self.path(context)?, options))
    }
}

/// The option for the date of changes.
#[derive(Clone, Debug, Args)]
struct DateArgs {
    /// Date of changed words, YYYYMMDD, or 0 for no date [default: today]
    #[arg(long, value_name = "DATE", value_parser = parse_date)]
    date: Option<u32>,
}

/// The option for the way in which words are made of messages.
#[derive(Clone, Debug, Args)]
struct ProfileArgs {
    /// The way in which messages are split into words; use the same for all messages of a list
    #[arg(long, value_enum, value_name = "PROFILE", default_value = "bogofilter")]
    profile: ProfileName,
}

/// The profiles by their names.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ProfileName {
    /// As bogofilter 1.2.5, word for word
    Bogofilter,
    /// Without bogofilter's faults, with pairs of words and other weights
    Modern,
    /// The first version of `modern`, for lists that were trained with it
    #[value(name = "modern-1")]
    Modern1,
}

impl ProfileName {
    fn name(self) -> &'static str {
        match self {
            Self::Bogofilter => "bogofilter",
            Self::Modern => "modern",
            Self::Modern1 => "modern-1",
        }
    }

    fn profile(self) -> Profile {
        match self {
            Self::Bogofilter => Profile::Bogofilter,
            Self::Modern => Profile::Modern,
            Self::Modern1 => Profile::Modern1,
        }
    }
}

/// The options of commands that score messages.
#[derive(Clone, Debug, Args)]
struct ScoringArgs {
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    profile: ProfileArgs,
    #[command(flatten)]
    score: ScoreArgs,
}

impl ScoringArgs {
    /// Returns a filter with the parameters of the command line, else those saved for the list,
    /// else the defaults of the profile.
    fn filter(&self, context: &Context, options: SpamOptions) -> anyhow::Result<Filter> {
        let options = SpamOptions { profile: self.profile.profile.profile(), ..options };
        let saved = self.list.filter(context, options.clone())?.saved_parameters()?;
        let of_profile = saved.filter(|saved| saved.profile == options.profile);
        if saved.is_some() && of_profile.is_none() {
            let text = "the saved parameters are for another --profile, and are not used";
            context.warn(text);
        }
        let unset = Parameters { robx: 0.0, ..Parameters::new(options.profile) };
        let unset = of_profile.map_or(unset, |saved| saved.parameters);
        let parameters = self.score.parameters(unset);
        self.list.filter(context, SpamOptions { parameters, ..options })
    }
}

/// The parameters of scoring.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Scoring (the defaults are those saved by `barid spam tune --save`)")]
struct ScoreArgs {
    /// Treat a message with at least this score as spam; 0.99, if nothing was saved
    #[arg(long, value_name = "SCORE", value_parser = parse_share)]
    spam_cutoff: Option<f64>,
    /// Treat a message with at most this score as ham; 0.45, and 0.0001 with `--profile modern`, if
    /// nothing was saved; with 0, all that is not spam is ham
    #[arg(long, value_name = "SCORE", value_parser = parse_share)]
    ham_cutoff: Option<f64>,
    /// Count words whose probability is farther than this from 0.5; 0.375, and 0.25 with
    /// `--profile modern`, if nothing was saved
    #[arg(long, value_name = "DEV", value_parser = parse_share)]
    min_dev: Option<f64>,
    /// Weight of an unknown word, in messages; 0.0178, and 0.8 with `--profile modern`, if nothing
    /// was saved
    #[arg(long, value_name = "WEIGHT", value_parser = parse_positive)]
    robs: Option<f64>,
    /// Probability of an unknown word; if nothing was saved, the one stored in the list (`barid
    /// spam maintain --robx`), else 0.52; 0.5 with `--profile modern`
    #[arg(long, value_name = "PROBABILITY", value_parser = parse_share)]
    robx: Option<f64>,
    /// The effective size factor of the evidence for spam; 1, if nothing was saved
    #[arg(long, value_name = "FACTOR", value_parser = parse_positive)]
    sp_esf: Option<f64>,
    /// The effective size factor of the evidence for ham; 1, and 1.75 with `--profile modern`, if
    /// nothing was saved
    #[arg(long, value_name = "FACTOR", value_parser = parse_positive)]
    ns_esf: Option<f64>,
    /// Count the N words that are farthest from 0.5; with 0, those beyond --min-dev
    #[arg(long, value_name = "N")]
    token_count: Option<usize>,
    /// Count at least N words
    #[arg(long, value_name = "N")]
    token_count_min: Option<usize>,
    /// Count at most N words
    #[arg(long, value_name = "N")]
    token_count_max: Option<usize>,
}

impl ScoreArgs {
    /// Returns the parameters of the command line; those not given are as in `unset`.
    fn parameters(&self, unset: Parameters) -> Parameters {
        Parameters {
            rule: unset.rule,
            robx: self.robx.unwrap_or(unset.robx),
            robs: self.robs.unwrap_or(unset.robs),
            min_dev: self.min_dev.unwrap_or(unset.min_dev),
            spam_cutoff: self.spam_cutoff.unwrap_or(unset.spam_cutoff),
            ham_cutoff: self.ham_cutoff.unwrap_or(unset.ham_cutoff),
            sp_esf: self.sp_esf.unwrap_or(unset.sp_esf),
            ns_esf: self.ns_esf.unwrap_or(unset.ns_esf),
            token_count: self.token_count.unwrap_or(unset.token_count),
            token_count_min: self.token_count_min.unwrap_or(unset.token_count_min),
            token_count_max: self.token_count_max.unwrap_or(unset.token_count_max),
        }
    }
}

fn parse_date(text: &str) -> Result<u32, String> {
    let date = text.parse().ok().filter(|date| *date == 0 || day_of(*date).is_some());
    date.ok_or_else(|| "a date is YYYYMMDD, as in 20261122, or 0".to_owned())
}

fn parse_share(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "a number from 0 to 1".to_owned())
}

fn parse_positive(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "a number, 0 or more".to_owned())
}

/// Makes signals request the end; returns the flag that they set.
fn stop_on_signal(context: &Context) -> anyhow::Result<Arc<AtomicBool>> {
    let stop: Arc<AtomicBool> = Arc::default();
    let quiet = context.global.quiet;
    signals::answer_signals(&stop, quiet).context("signals cannot be caught")?;
    Ok(stop)
}

fn is_set(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed)
}

/// Returns the name of a status.
fn name_of(status: Status) -> &'static str {
    match status {
        Status::Spam => "spam",
        Status::Ham => "ham",
        Status::Unsure => "unsure",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_checked() {
        let check = |text: &str, is_date: bool, is_share: bool, is_positive: bool| {
            assert_eq!(parse_date(text).is_ok(), is_date, "{text}");
            assert_eq!(parse_share(text).is_ok(), is_share, "{text}");
            assert_eq!(parse_positive(text).is_ok(), is_positive, "{text}");
        };
        check("20261122", true, false, true);
        check("20261131", false, false, true);
        check("0", true, true, true);
        check("0.5", false, true, true);
        check("-0.5", false, false, false);
        check("NaN", false, false, false);
        check("inf", false, false, false);
    }
}
