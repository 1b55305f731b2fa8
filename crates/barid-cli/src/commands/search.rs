//! `barid search`: prints the messages that match.

use std::ffi::OsString;

use barid::query::{
    Day, ReturnOptions, SearchError, SearchProgram, SearchRequest, SearchResult, looks_like_imap,
    parse_imap, parse_short,
};
use barid::vfs::{Host as _, OsVfs, local_zone_minutes};
use barid::{FoundMessages, Mailbox, UidSet};
use clap::{Args, ValueHint};

use crate::context::Context;
use crate::exit::{Outcome, WithHint, report_unreadable};
use crate::lines::write_lines;
use crate::mail::json::MessageJson;
use crate::mail::line::MessageLine;
use crate::output::json::Json;

const EXAMPLES: &str = "\
Examples:
  barid search ~/Maildir from:ann subject:\"release plan\" since:2024-01-01
  barid search --list ~/Maildir has:attachment larger:1M is:unread -from:bob
  barid search archive.mbox '(from:ann or from:bob) budget'
  barid search archive.mbox 'OR FROM ann TEXT budget'     in IMAP's syntax
  barid search --imap archive.mbox 'RETURN (MIN COUNT) SINCE 1-Feb-2024 UNSEEN'
  barid show ~/Maildir $(barid search ~/Maildir id:4711@mail.example)

A word alone matches anywhere in the message, headers included; \"quotes\" keep words together.
`all` matches every message.
  from: to: cc: bcc: subject: body: text: header:NAME=TEXT list: id:
  since: before: on:   2024-05-17, 2024-05, 2024, today, yesterday, 7d, 2w; on:2024-01..2024-03
                       by the date sent; received-since: and so on go by the date of arrival
  older: newer:        time since arrival: 90s, 15min, 2h, 7d, 2w, 3m, 1y
  larger: smaller:     20000, 500k, 1M
  is:                  unread, read, flagged, unflagged, answered, unanswered, deleted, draft
                       or recent
  has:attachment  tag:KEYWORD  uid:1,5:9  seq:1:10  modseq:N
  query:NAME           a query of the configuration (`barid config`)
All terms must match. `or` between two terms matches either, `-` or `not` before a term negates it,
and parentheses group terms. Texts match anywhere, ignoring case but not accents. A query that
begins with a search key in capitals is read as IMAP's SEARCH (RFC 9051).

Exit status: 1 if nothing matches, 2 if a message could not be read.";

/// Search the messages of a mailbox
///
/// Prints the UIDs of the messages that match. Flags, dates, sizes, addresses and subjects are
/// looked up in the cache; messages are read only to search their text, on all cores.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct SearchArgs {
    /// The mailbox: a path, or FORMAT:PATH
    #[arg(value_hint = ValueHint::AnyPath)]
    mailbox: OsString,
    /// The query; several words are joined by spaces
    ///
    /// The end of `barid search --help` lists its terms.
    #[arg(required = true, value_name = "QUERY")]
    query: Vec<String>,
    /// List the messages as `barid ls` does
    #[arg(short, long, group = "form")]
    list: bool,
    /// Print how many messages match
    #[arg(short, long, group = "form")]
    count: bool,
    /// Print the ESEARCH response of IMAP (RFC 4731)
    #[arg(long, group = "form", conflicts_with = "json")]
    imap: bool,
    /// Print sequence numbers instead of UIDs
    #[arg(long, conflicts_with_all = ["list", "json"])]
    seq: bool,
}

/// Searches and prints.
pub(crate) fn run(context: &mut Context, args: &SearchArgs) -> anyhow::Result<Outcome> {
    let (program, returns) = parse(&context.config.expand_query(&args.query)?)?;
    let (mailbox, found) =
        context.open_and(&args.mailbox, |mailbox| mailbox.search(&program, &UidSet::new()))?;
    print(context, args, &mailbox, &found, returns)?;
    Ok(match report_unreadable(context, found.unreadable) {
        Outcome::Done if found.rows.is_empty() => Outcome::NothingMatched,
        outcome => outcome,
    })
}

fn print(
    context: &mut Context,
    args: &SearchArgs,
    mailbox: &Mailbox,
    found: &FoundMessages,
    returns: Option<ReturnOptions>,
) -> anyhow::Result<()> {
    let rows = &found.rows;
    if args.count {
        let out = context.out.buffer();
        if context.global.json {
            let mut json = Json::line(out, "search");
            json.key("count").number(rows.len() as u64);
            json.end_line();
        } else {
            out.extend_from_slice(format!("{}\n", rows.len()).as_bytes());
        }
        return Ok(());
    }
    if context.global.json {
        return write_lines(&mut context.out, mailbox, rows, MessageJson::default);
    }
    if args.list {
        let (width, style, uidnext) = (context.width, context.style, mailbox.status().uidnext);
        return write_lines(&mut context.out, mailbox, rows, || {
            MessageLine::new(width, style, uidnext)
        });
    }
    let numbers: Vec<u32> = match args.seq {
        true => rows.iter().map(|row| row + 1).collect(),
        false => {
            let uids = mailbox.uids()?;
            rows.iter().filter_map(|row| uids.get(*row as usize).copied()).collect()
        }
    };
    let result = SearchResult { numbers: &numbers, uid: !args.seq };
    let out = context.out.buffer();
    if args.imap {
        let all = ReturnOptions { all: true, ..ReturnOptions::default() };
        result.write_esearch(None, returns.unwrap_or(all), out);
        out.push(b'\n');
    } else if !numbers.is_empty() {
        result.write_set(out);
        out.push(b'\n');
    }
    Ok(())
}

/// Returns the program of a query, and the options of IMAP's RETURN.
pub(crate) fn parse(words: &[String]) -> anyhow::Result<(SearchProgram, Option<ReturnOptions>)> {
    let text = match words {
        [text] => text.clone(),
        words => join(words),
    };
    if looks_like_imap(&text) {
        let parsed = parse_imap(text.as_bytes());
        let SearchRequest { program, returns } = parsed.map_err(|error| explain(&error))?;
        return Ok((program, returns));
    }
    let seconds = OsVfs.now().unix_nanos / 1_000_000_000;
    let today = Day::in_zone(seconds, local_zone_minutes(&OsVfs, seconds));
    let program = parse_short(&text, today).map_err(|error| explain(&error))?;
    Ok((program, None))
}

/// Joins words as split by the shell, and restores the quotes that it removed around a key or text
/// with spaces.
fn join(words: &[String]) -> String {
    let mut text = String::new();
    for word in words {
        if !text.is_empty() {
            text.push(' ');
        }
        let has_space = word.contains(char::is_whitespace) && !word.contains(['"', '(']);
        match word.split_once(':').filter(|(key, _)| !key.contains(char::is_whitespace)) {
            Some((key, value)) if has_space => text.push_str(&format!("{key}:\"{value}\"")),
            None if has_space => match word.strip_prefix(['-', '!']) {
                Some(word) => text.push_str(&format!("!\"{word}\"")),
                None => text.push_str(&format!("\"{word}\"")),
            },
            _ => text.push_str(word),
        }
    }
    text
}

fn explain(error: &SearchError) -> anyhow::Error {
    let hint = match error {
        SearchError::UnknownKey(key) if key.ends_with(':') => {
            "`barid search --help` lists the keys; put \"quotes\" around a text with a colon in it"
        }
        SearchError::Numbers(_) => "put `uid:`, `seq:` or `text:` before it",
        _ => "`barid search --help` describes queries",
    };
    WithHint::error(error.to_string(), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &[&str], expected: &str) {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        assert_eq!(join(&words), expected);
    }

    #[test]
    fn quotes_that_the_shell_took_off_are_put_back() {
        check(&["from:ann", "subject:release plan"], "from:ann subject:\"release plan\"");
        check(&["release plan", "or", "-old news"], "\"release plan\" or !\"old news\"");
        check(&["-subject:a b", "(a or b)"], "-subject:\"a b\" (a or b)");
        check(&["say: hello", "x"], "say:\" hello\" x");
    }
}
