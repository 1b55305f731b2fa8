//! `barid spam dump`, `load`, `merge` and `stats`: commands for the word list itself.

use std::ffi::OsString;
use std::io::{self, Read as _, Write};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use barid::vfs::{Metadata, OsVfs, Vfs as _};
use barid_spam::wordlist::{self, Load, WordList, keys};
use barid_spam::{Filter, SpamOptions};
use clap::{Args, ValueHint};

use super::{DateArgs, ListArgs, damage};
use crate::context::Context;
use crate::exit::{Outcome, WithHint};
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::{counted, grouped};
use crate::output::sink::Sink;

const DUMP_EXAMPLES: &str = "\
Examples:
  barid spam dump > words.txt
  barid spam dump | bogoutil -l ~/.bogofilter/wordlist.db
  barid spam dump --wordlist other/words | sort -k2,2nr | head
  barid spam dump --json | jq -r 'select(.spam > 9 and .ham == 0).token'

The lines are those of `bogoutil -d`: the word, the numbers of spam and ham messages with it, the
date. The dump does not contain which messages the filter was trained with.

Exit status: 2 if the list is damaged, so that words may be missing.";

const LOAD_EXAMPLES: &str = "\
Examples:
  barid spam load words.txt
  bogoutil -d ~/.bogofilter/wordlist.db | barid spam load
  barid spam load --wordlist new/words words.txt

Loading a dump into a new list recreates the dumped list.";

const MERGE_EXAMPLES: &str = "\
Examples:
  barid spam merge other/words             add the other list to this one
  barid spam merge --wordlist all/words one/words two/words";

const STATS_EXAMPLES: &str = "\
Examples:
  barid spam stats
  barid spam stats --json --wordlist other/words";

/// The largest dump that is loaded, in bytes.
const DUMP_LEN_MAX: u64 = 4 << 30;

/// Print all words of the list, as bogoutil does
#[derive(Debug, Args)]
#[command(after_long_help = DUMP_EXAMPLES)]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    list: ListArgs,
}

/// Add the words of a dump, as bogoutil does
#[derive(Debug, Args)]
#[command(after_long_help = LOAD_EXAMPLES)]
pub(crate) struct LoadArgs {
    /// The dump; without FILE, or with `-`, it is read from standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    date: DateArgs,
}

/// Add other word lists to this one
///
/// Adds up the counts. Messages that both lists were trained with count twice; a warning gives
/// their number.
#[derive(Debug, Args)]
#[command(after_long_help = MERGE_EXAMPLES)]
pub(crate) struct MergeArgs {
    /// The other lists
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::FilePath)]
    others: Vec<OsString>,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    date: DateArgs,
}

/// Show the figures of the word list
#[derive(Debug, Args)]
#[command(after_long_help = STATS_EXAMPLES)]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    list: ListArgs,
}

fn options(date: &DateArgs) -> SpamOptions {
    SpamOptions { date: date.date, ..SpamOptions::default() }
}

/// Standard output as a writer.
struct Out<'a>(&'a mut Sink);

impl Write for Out<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.block(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Prints the word list.
pub(crate) fn dump(context: &mut Context, args: &DumpArgs) -> anyhow::Result<Outcome> {
    let filter = args.list.filter(context, SpamOptions::default())?;
    let mut list = filter.open_list()?;
    let out = &mut context.out;
    let dumped = match context.global.json {
        true => dump_json(out, &mut *list),
        false => wordlist::dump(&mut *list, &mut Out(out), None).map(drop),
    };
    filter.look_for_damage(&*list);
    let is_damaged = damage::warn_of(context, &filter);
    match dumped {
        // An error of standard output is handled by its kind.
        Err(wordlist::Error::Stream(error)) => Err(error.into()),
        Err(error) => Err(barid_spam::Error::from(error).into()),
        // Damaged parts are missing from the dump.
        Ok(_) if is_damaged => Ok(Outcome::Incomplete),
        Ok(_) => Ok(Outcome::Done),
    }
}

/// Prints the word list as JSON, a line per word.
fn dump_json(out: &mut Sink, list: &mut dyn WordList) -> wordlist::Result<()> {
    let mut written = Ok(());
    list.scan(&mut |token, entry| {
        let mut json = Json::line(out.buffer(), "spam_word");
        json.key("token").bytes(token);
        json.key("spam").number(entry.spam.into());
        json.key("ham").number(entry.ham.into());
        json.key("date");
        match entry.date {
            0 => json.null(),
            date => json.number(date.into()),
        }
        json.end_line();
        written = out.settle();
        written.is_ok()
    })?;
    written.map_err(wordlist::Error::Stream)
}

/// Reads the dump; returns its name for messages, and its content.
fn read_dump(args: &LoadArgs) -> anyhow::Result<(String, Vec<u8>)> {
    match args.file.as_deref().filter(|file| *file != "-") {
        None => {
            let (name, mut bytes) = ("standard input".to_owned(), Vec::new());
            let read = io::stdin().lock().take(DUMP_LEN_MAX + 1).read_to_end(&mut bytes);
            if read.with_context(|| name.clone())? as u64 > DUMP_LEN_MAX {
                let message = format!("{name}: the dump has more than {DUMP_LEN_MAX} bytes");
                return Err(WithHint::error(message, "nothing was loaded: load it in parts"));
            }
            Ok((name, bytes))
        }
        Some(path) => {
            let name = path.display().to_string();
            let bytes = OsVfs.read(path, DUMP_LEN_MAX).with_context(|| name.clone())?;
            Ok((name, bytes))
        }
    }
}

/// Loads a dump.
pub(crate) fn load(context: &mut Context, args: &LoadArgs) -> anyhow::Result<Outcome> {
    let (name, dump) = read_dump(args)?;
    if dump.is_empty() {
        let message = format!("{name}: the dump is empty: nothing was loaded");
        return Err(WithHint::error(message, "check the command that wrote it"));
    }
    wordlist::check_dump(&mut &dump[..]).map_err(|error| {
        let hint = "nothing was loaded: `barid spam dump` and `bogoutil -d` write dumps";
        WithHint::error(format!("{name}: {error}"), hint)
    })?;
    let filter = args.list.filter(context, options(&args.date))?;
    let mut list = filter.open_or_create_list(true)?;
    let how = Load { today: filter.date(), all_keys: true, ..Load::default() };
    let loaded =
        wordlist::load(&mut *list, &mut &dump[..], &how).map_err(barid_spam::Error::from)?;
    filter.look_for_damage(&*list);
    damage::warn_of(context, &filter);
    if context.global.json {
        let mut json = Json::line(context.out.buffer(), "spam_loaded");
        json.key("tokens").number(loaded.tokens);
        json.key("skipped").number(loaded.skipped);
        json.end_line();
        return Ok(Outcome::Done);
    }
    let skipped = match loaded.skipped {
        0 => String::new(),
        skipped => format!("; {} skipped", counted(skipped, "line")),
    };
    context.out.line(&format!("{} loaded{skipped}", counted(loaded.tokens, "word")))?;
    Ok(Outcome::Done)
}

/// Merges word lists.
pub(crate) fn merge(context: &mut Context, args: &MergeArgs) -> anyhow::Result<Outcome> {
    let filter = args.list.filter(context, options(&args.date))?;
    let mut list = filter.open_or_create_list(false)?;
    let (mut tokens, mut twice, mut is_damaged) = (0, 0, false);
    let itself = OsVfs.metadata(filter.path()).ok();
    for other in &args.others {
        let is_itself = |itself: &Metadata| {
            OsVfs
                .metadata(other.as_ref())
                .is_ok_and(|it| (it.device, it.inode) == (itself.device, itself.inode))
        };
        if itself.as_ref().is_some_and(is_itself) {
            let message = format!(
                "{}: this is the list itself: all words would count twice",
                other.display()
            );
            return Err(WithHint::error(message, "name other lists, and this one with --wordlist"));
        }
        let other = Filter::new(Arc::new(OsVfs), other.into(), options(&args.date));
        let mut from = other.open_list()?;
        let merged = wordlist::merge(&mut *list, &mut *from, filter.date());
        let merged = merged.map_err(barid_spam::Error::from)?;
        tokens += merged.tokens;
        twice += merged.twice.len() as u64;
        other.look_for_damage(&*from);
        is_damaged |= damage::warn_of(context, &other);
    }
    filter.look_for_damage(&*list);
    damage::warn_of(context, &filter);
    let outcome = if is_damaged { Outcome::Incomplete } else { Outcome::Done };
    if context.global.json {
        let mut json = Json::line(context.out.buffer(), "spam_merged");
        json.key("tokens").number(tokens);
        json.key("twice").number(twice);
        json.end_line();
        return Ok(outcome);
    }
    context.out.line(&format!("{} added", counted(tokens, "word")))?;
    if twice > 0 {
        let messages = counted(twice, "message");
        context.warn(&format!("{messages} in both lists now count twice"));
    }
    Ok(outcome)
}

/// Prints the figures of the word list.
pub(crate) fn stats(context: &mut Context, args: &StatsArgs) -> anyhow::Result<Outcome> {
    let filter = args.list.filter(context, SpamOptions::default())?;
    let mut list = filter.open_list()?;
    let (mut tokens, mut once) = (0_u64, 0_u64);
    let scanned = list.scan(&mut |token, entry| {
        let counts = token.first() != Some(&b'.');
        tokens += u64::from(counts);
        once += u64::from(counts && u64::from(entry.spam) + u64::from(entry.ham) <= 1);
        true
    });
    scanned.map_err(barid_spam::Error::from)?;
    let mut receipts = 0;
    list.scan_receipts(&mut |_, _| receipts += 1).map_err(barid_spam::Error::from)?;
    let totals = list.totals().map_err(barid_spam::Error::from)?;
    let robx = list.entry(keys::ROBX).map_err(barid_spam::Error::from)?;
    let robx = robx.map(|entry| f64::from(entry.spam) / 1e6);
    let (generation, damages) = (list.generation(), list.damage().len() as u64);
    let name = filter.path().as_os_str().as_encoded_bytes();
    if context.global.json {
        let mut json = Json::line(context.out.buffer(), "spam_stats");
        json.key("wordlist").bytes(name);
        json.key("spam_messages").number(totals.spam.into());
        json.key("ham_messages").number(totals.ham.into());
        json.key("tokens").number(tokens);
        json.key("tokens_once").number(once);
        json.key("receipts").number(receipts);
        json.key("robx");
        match robx {
            Some(robx) => json.real(robx),
            None => json.null(),
        }
        json.key("generation").number(generation);
        json.key("damages").number(damages);
        json.end_line();
    } else {
        let out = &mut context.out;
        out.line(&visible(name))?;
        out.line(&format!("{:>12} spam messages", grouped(totals.spam.into())))?;
        out.line(&format!("{:>12} ham messages", grouped(totals.ham.into())))?;
        out.line(&format!("{:>12} of them can be untrained", grouped(receipts)))?;
        out.line(&format!("{:>12} words", grouped(tokens)))?;
        out.line(&format!("{:>12} of them seen in one message", grouped(once)))?;
        if let Some(robx) = robx {
            out.line(&format!("{robx:>12.6} for an unknown word"))?;
        }
    }
    filter.look_for_damage(&*list);
    damage::warn_of(context, &filter);
    Ok(if damages > 0 { Outcome::Incomplete } else { Outcome::Done })
}
