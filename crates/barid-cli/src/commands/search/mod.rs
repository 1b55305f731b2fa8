//! `barid search`: prints the messages that match.

mod addresses;
mod links;
mod output;

use std::ffi::OsString;
use std::path::PathBuf;

use barid::query::SearchProgram;
use clap::{Args, ValueEnum, ValueHint};

use crate::commands::index;
use crate::context::Context;
use crate::exit::{Outcome, WithHint};
use crate::mail::mailboxes::{FoundMailbox, FoundMailboxes, MailboxesArgs};
use crate::mail::order::OrderArgs;
use crate::mail::query::{Query, QueryArgs};
use crate::mail::ranking::Ranking;
use crate::output::json::Json;

const EXAMPLES: &str = "\
Examples:
  barid search ~/Maildir from:ann subject:\"release plan\" since:2024-01-01
  barid search --list ~/Maildir has:attachment larger:1M is:unread -from:bob
  barid search archive.mbox '(from:ann or from:bob) budget'
  barid search archive.mbox subject:/^re:.*budget/ 'budg*' '\"annual report\"~5'
  barid search --sort date --reverse --limit 10 --output messages ~/Maildir list:rust
  barid search --in inbox --tree ~/archive --sort date -l filename:contract newer:2y
  barid search --sort relevance --limit 10 -l ~/Maildir budget plan    the ten best matches
  barid search --output addresses ~/Maildir list:rust newer:1y
  barid search --output links --to found --tree ~/mail budget    a Maildir of links, as for mutt
  barid search archive.mbox 'OR FROM ann TEXT budget'     in IMAP's syntax
  barid search --imap archive.mbox 'RETURN (MIN COUNT) SINCE 1-Feb-2024 UNSEEN'
  barid show ~/Maildir id:4711@mail.example               a query in another command

A word alone matches anywhere in the message, headers included; \"quotes\" keep words together.
`all` matches every message.
  from: to: cc: bcc: subject: body: text: header:NAME=TEXT list: id:
  list-id: reply-to: sender: x-mailer: ...   other header fields
  filename:            the name of an attached file; mimetype:application/pdf, mimetype:image/*
  attachment:          the same name, and with --attachments the text of an attached document
  since: before: on:   2024-05-17, 2024-05, 2024, today, yesterday, 7d, 2w; on:2024-01..2024-03
                       by the date sent; received-since: and so on go by the date of arrival
  older: newer:        time since arrival: 90s, 15min, 2h, 7d, 2w, 3m, 1y
  larger: smaller:     20000, 500k, 1M
  is:                  unread, read, flagged, unflagged, answered, unanswered, deleted, draft,
                       recent, spam or ham
  has:attachment  tag:KEYWORD  uid:1,5:9  seq:1:10  modseq:N
  thread:UID           all messages of the thread of that message
  in:MAILBOX           only in this one of several mailboxes
  query:NAME           a query of the configuration (`barid config`)
In place of a text, with every key that takes one:
  /budg(et|ets)/       a regular expression, in any case; `.` matches no line end
  budg*                a word that begins with it
  \"annual report\"~5    these words in any order, with at most 5 others between them
All terms must match. `or` between two terms matches either, `-` or `not` before a term negates it,
and parentheses group terms. Texts match anywhere, ignoring case but not accents. A query that
begins with a search key in capitals is read as IMAP's SEARCH (RFC 9051). Other commands take UIDs
or a query; here a number is a text, and uid:17 a UID.

Exit status: 1 if nothing matches, 2 if a message or mailbox could not be read.";

const USAGE: &str = "\
barid search [OPTIONS] <MAILBOX> <QUERY>...
       barid search [OPTIONS] --in <MAILBOX>... --tree <DIR>... <QUERY>...";

/// Search the messages of a mailbox, or of several
///
/// Prints the UIDs of the messages that match. Flags, dates, sizes, addresses and subjects are
/// looked up in the cache; messages are read only to search their text, on all cores.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, override_usage = USAGE)]
pub(crate) struct SearchArgs {
    #[command(flatten)]
    what: SearchedArgs,
    #[command(flatten)]
    order: OrderArgs,
    /// Print what was found as FORM
    #[arg(long, value_enum, value_name = "FORM", group = "form")]
    output: Option<OutputForm>,
    /// With --output links, create the Maildir DIR, which must be empty or not exist yet
    ///
    /// Other mail programs open it. `barid sync DIR` brings the flags of links and messages
    /// together; a link that is removed changes nothing.
    #[arg(long = "to", value_name = "DIR", value_hint = ValueHint::DirPath)]
    links_dir: Option<PathBuf>,
    /// List the messages as `barid ls` does: --output messages
    #[arg(short, long, group = "form")]
    list: bool,
    /// Print how many messages match
    #[arg(short, long, group = "form")]
    count: bool,
    /// Print the ESEARCH response of IMAP (RFC 4731)
    #[arg(long, group = "form", conflicts_with_all = ["json", "sort", "limit", "reverse"])]
    imap: bool,
    /// Print sequence numbers instead of UIDs
    #[arg(long, conflicts_with_all = ["list", "json", "output"])]
    seq: bool,
}

/// The mailboxes and the query.
#[derive(Clone, Debug, Args)]
pub(super) struct SearchedArgs {
    /// The mailbox: a path, or FORMAT:PATH. With --in or --tree, the query begins here
    #[arg(value_hint = ValueHint::AnyPath, required_unless_present_any = ["mailboxes", "trees"])]
    mailbox: Option<OsString>,
    /// The query; several words are joined by spaces
    ///
    /// The end of `barid search --help` lists its terms.
    #[arg(value_name = "QUERY")]
    query: Vec<String>,
    #[command(flatten)]
    several: MailboxesArgs,
    #[command(flatten)]
    options: QueryArgs,
}

impl SearchedArgs {
    /// Parses the query.
    fn parse(&self, context: &Context, words: &[String]) -> anyhow::Result<Query> {
        self.several.check()?;
        context.prepare(self.options);
        match self.several.is_many() {
            true => self.options.parse_for_mailboxes(&context.config, words),
            false => self.options.parse(&context.config, words),
        }
    }

    /// Searches, and has indexes built that are worth their while.
    fn search(
        &self,
        context: &Context,
        program: &SearchProgram,
        needs_size: bool,
    ) -> anyhow::Result<(FoundMailboxes, Outcome)> {
        let (searched, outcome) = match self.several.one(&self.mailbox) {
            Some(name) => (FoundMailboxes::one(context, name, program)?, Outcome::Done),
            None => self.several.search(context, program, needs_size)?,
        };
        if !searched.unindexed.is_empty() {
            index::build_in_background(context, &searched.unindexed);
        }
        Ok((searched, outcome))
    }
}

/// The form in which messages are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputForm {
    /// A line for each, as `barid ls` prints
    Messages,
    /// A line of CSV for each, under a line with the names of the columns
    Csv,
    /// The threads that they are in, as `barid thread` prints
    Threads,
    /// The paths of their files, for Maildir and MH
    Files,
    /// Their UIDs
    Uids,
    /// Their senders, the most frequent first
    Addresses,
    /// A new Maildir of links to their files, or of copies for formats without files
    Links,
}

/// Searches and prints.
pub(crate) fn run(context: &mut Context, args: &SearchArgs) -> anyhow::Result<Outcome> {
    let words = args.what.several.words(args.what.mailbox.as_deref(), &args.what.query)?;
    if words.is_empty() {
        let hint = "`all` is every message, and `barid search --help` describes queries";
        return Err(WithHint::error("no query is given", hint));
    }
    match (args.output, &args.links_dir) {
        (Some(OutputForm::Links), None) => {
            let hint = "`--output links --to DIR` creates the Maildir DIR";
            return Err(WithHint::error("--output links needs a folder", hint));
        }
        (output, Some(_)) if output != Some(OutputForm::Links) => {
            let hint = "leave it out, or add --output links";
            return Err(WithHint::error("--to is for --output links", hint));
        }
        _ => {}
    }
    let query = args.what.parse(context, &words)?;
    let ranking = Ranking::of(&args.order, &query.program)?;
    let needs_size = args.order.asks_size();
    let (mut searched, outcome) = args.what.search(context, &query.program, needs_size)?;
    if args.count {
        print_count(context, &searched)?;
        return Ok(searched.outcome(context, outcome));
    }
    let found = ranking.order(&args.order, &mut searched)?;
    context.clear_progress();
    if args.imap || args.seq {
        let [only] = &searched.parts[..] else {
            return Err(WithHint::error(
                "--imap and --seq are for one mailbox",
                "--output uids prints the UIDs of each",
            ));
        };
        output::write_numbers(context, args, (only, &found.places), query.returns)?;
    } else {
        let form = match (args.output, args.list) {
            (Some(form), _) => form,
            (None, true) => OutputForm::Messages,
            // JSON has always been of messages.
            (None, false) if context.global.json => OutputForm::Messages,
            (None, false) => OutputForm::Uids,
        };
        return output::print(context, args, form, (searched, &found), outcome);
    }
    Ok(searched.outcome(context, outcome))
}

/// Searches and prints the number of messages: of all without a query.
pub(super) fn count_messages(
    context: &mut Context,
    what: &SearchedArgs,
) -> anyhow::Result<Outcome> {
    let mut words = what.several.words(what.mailbox.as_deref(), &what.query)?;
    if words.is_empty() {
        words.push("all".to_owned());
    }
    let query = what.parse(context, &words)?;
    let (searched, outcome) = what.search(context, &query.program, false)?;
    print_count(context, &searched)?;
    Ok(searched.outcome(context, outcome))
}

/// Prints the number of messages.
fn print_count(context: &mut Context, searched: &FoundMailboxes) -> anyhow::Result<()> {
    let total: u64 = searched.parts.iter().map(|part| part.rows.len() as u64).sum();
    if !context.global.json {
        return Ok(context.out.line(&total.to_string())?);
    }
    let mut json = Json::line(context.out.buffer(), "search");
    json.key("count").number(total);
    json.key("read").number(searched.parts.iter().map(|part| u64::from(part.read)).sum());
    if searched.is_many {
        json.key("mailboxes").open(b'[');
        for FoundMailbox { name, rows, .. } in &searched.parts {
            json.open(b'{');
            json.key("mailbox").bytes(name.as_encoded_bytes());
            json.key("count").number(rows.len() as u64);
            json.close(b'}');
        }
        json.close(b']');
    }
    json.end_line();
    Ok(())
}
