//! `barid spam maintain`: keeping the word list small.

use barid::spam::SpamOptions;
use barid::wordlist::{self, Maintain, Robx, oldest};
use clap::Args;

use super::{DateArgs, ListArgs, damage};
use crate::context::Context;
use crate::exit::Outcome;
use crate::output::json::Json;
use crate::output::number::counted;

const EXAMPLES: &str = "\
Examples:
  barid spam maintain                      make the list as compact as it can be
  barid spam maintain --age 180 --count 1  forget rare words that half a year has not seen
  barid spam maintain --len 3,30
  barid spam maintain --robx               compute what an unknown word says

A word goes if all that is given says so.";

/// Forget words that are old or rare, and make the list compact
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct MaintainArgs {
    /// Forget words last changed so many days ago or before, or at that date, YYYYMMDD, or before
    #[arg(long, value_name = "DAYS|DATE")]
    age: Option<u32>,
    /// Forget words that no more than N messages of either class had
    #[arg(long, value_name = "N")]
    count: Option<u32>,
    /// Forget words that are shorter than MIN bytes or longer than MAX
    #[arg(long, value_name = "MIN,MAX", value_parser = parse_len)]
    len: Option<(usize, usize)>,
    /// Replace every byte beyond ASCII by `?`, and add up what is the same then
    #[arg(long)]
    ascii: bool,
    /// Compute the probability of an unknown word, and keep it in the list
    #[arg(long)]
    robx: bool,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    date: DateArgs,
}

fn parse_len(text: &str) -> Result<(usize, usize), String> {
    let (min, max) = text.split_once(',').ok_or("two numbers with a comma between them")?;
    let number = |text: &str| text.trim().parse::<usize>().map_err(|error| error.to_string());
    Ok((number(min)?, number(max)?))
}

/// Maintains.
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
    let done = wordlist::maintain(&mut *list, &what).map_err(barid::Error::from)?;
    let robx: Option<Robx> = match args.robx {
        true => wordlist::store_robx(&mut *list, today).map_err(barid::Error::from)?,
        false => None,
    };
    filter.look_for_damage(&*list);
    damage::tell(context, &filter);
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
            context.out.line(&format!("an unknown word says {value:.6}, by {words}"))?;
        }
        None if args.robx => context.warn("there are too few words to say what an unknown one is"),
        None => {}
    }
    Ok(Outcome::Done)
}
