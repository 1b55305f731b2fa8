//! `barid spam maintain`: removes old and rare words from the word list.

use barid_spam::SpamOptions;
use barid_spam::wordlist::{self, Maintain, Robx, day_of, oldest};
use clap::Args;

use super::{DateArgs, ListArgs, damage};
use crate::context::Context;
use crate::exit::Outcome;
use crate::output::json::Json;
use crate::output::number::counted;

const EXAMPLES: &str = "\
Examples:
  barid spam maintain                      make the list as compact as possible
  barid spam maintain --age 180 --count 1  forget rare words not seen for half a year
  barid spam maintain --len 3,30
  barid spam maintain --robx               compute the probability of an unknown word

With several of --age, --count and --len, a word is removed only if all of them apply.";

/// Forget words that are old or rare, and make the list compact
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct MaintainArgs {
    /// Forget words last changed at least this many days ago, or on this date (YYYYMMDD) or earlier
    #[arg(long, value_name = "DAYS|DATE", value_parser = parse_age)]
    age: Option<u32>,
    /// Forget words seen in at most N messages of each class
    #[arg(long, value_name = "N", value_parser = parse_count)]
    count: Option<u32>,
    /// Forget words that are shorter than MIN bytes or longer than MAX
    #[arg(long, value_name = "MIN,MAX", value_parser = parse_len)]
    len: Option<(usize, usize)>,
    /// Replace every byte beyond ASCII by `?`, and add up words that become equal
    #[arg(long)]
    ascii: bool,
    /// Compute the probability of an unknown word, and store it in the list
    #[arg(long)]
    robx: bool,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    date: DateArgs,
}

fn parse_age(text: &str) -> Result<u32, String> {
    let age = text.parse().map_err(|_| "a number of days, as in 180, or a date, YYYYMMDD")?;
    let is_date = day_of(age).is_some();
    // A large number that is not a date would mean a day before or after all others.
    match age < 1_000_000 || is_date {
        true => Ok(age),
        false => Err("not a date: write YYYYMMDD, as in 20261122".to_owned()),
    }
}

fn parse_count(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "a number of messages, as in 1".to_owned())
}

fn parse_len(text: &str) -> Result<(usize, usize), String> {
    let pair = text.split_once(',');
    let number = |text: &str| text.trim().parse::<usize>().ok();
    let pair = pair.and_then(|(min, max)| Some((number(min)?, number(max)?)));
    let pair = pair.ok_or("two numbers of bytes with a comma between them, as in 3,30")?;
    if pair.0 > pair.1 {
        return Err("the shorter length comes first, as in 3,30".to_owned());
    }
    Ok(pair)
}

/// Maintains the word list.
pub(crate) fn run(context: &mut Context, args: &MaintainArgs) -> anyhow::Result<Outcome> {
    let options = SpamOptions { date: args.date.date, ..SpamOptions::default() };
    let filter = args.list.filter(context, options)?;
    let (mut list, today) = (filter.open_list()?, filter.date());
    let what = Maintain {
        date: args.age.map(|age| oldest(age, today)),
        count: args.count,
        len: args.len,
        replace_non_ascii: args.ascii,
    };
    let done = wordlist::maintain(&mut *list, &what).map_err(barid_spam::Error::from)?;
    let robx: Option<Robx> = match args.robx {
        true => wordlist::store_robx(&mut *list, today).map_err(barid_spam::Error::from)?,
        false => None,
    };
    filter.look_for_damage(&*list);
    damage::warn_of(context, &filter);
    if context.global.json {
        let mut json = Json::line(context.out.buffer(), "spam_maintained");
        json.key("kept").number(done.kept);
        json.key("dropped").number(done.dropped);
        json.key("changed").number(done.changed);
        json.key("robx");
        match robx {
            Some(robx) => json.real(robx.value),
            None => json.null(),
        }
        json.end_line();
        return Ok(Outcome::Done);
    }
    let (kept, dropped) = (counted(done.kept, "word"), counted(done.dropped, "word"));
    let changed = match done.changed {
        0 => String::new(),
        changed => format!("; {} changed", counted(changed, "word")),
    };
    context.out.line(&format!("{dropped} forgotten, {kept} kept{changed}"))?;
    match robx {
        Some(Robx { value, tokens, .. }) => {
            let words = counted(tokens, "word");
            context
                .out
                .line(&format!("probability of an unknown word: {value:.6}, from {words}"))?;
        }
        None if args.robx => {
            context.warn("too few words to compute the probability of an unknown one")
        }
        None => {}
    }
    Ok(Outcome::Done)
}
