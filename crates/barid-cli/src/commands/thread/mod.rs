//! `barid thread`: prints the conversations of a mailbox, or of several.

mod several;
mod writing;

use std::ffi::OsString;

use barid::{Mailbox, ThreadAlgorithm, ThreadNode, Threads};
use clap::{Args, ValueEnum, ValueHint};

pub(crate) use self::writing::{print, print_trees};
use crate::context::Context;
use crate::exit::Outcome;
use crate::mail::mailboxes::MailboxesArgs;
use crate::mail::query::QueryArgs;
use crate::mail::selection::{MessageSelection, Selector};

const EXAMPLES: &str = "\
Examples:
  barid thread ~/Maildir
  barid thread --algorithm refs --newest 10 ~/Maildir    the ten most recently active threads
  barid thread ~/Maildir from:ann budget                 whole threads with a message that matches
  barid thread ~/Maildir 4711                            the thread of one message
  barid thread inbox 4711 --in sent --tree ~/archive     the same, with what is in other mailboxes
  barid thread --in inbox --in sent from:ann newer:1w    threads over several mailboxes
  barid thread --imap --uid archive.mbox                 as an IMAP server would answer

The columns are those of `barid ls`. `references` (RFC 5256) also joins threads of the same subject
and orders threads by their first message; `refs` follows only References and In-Reply-To and orders
threads by their last message; `orderedsubject` (RFC 5256) uses only the subject.

With --in or --tree, the messages of all these mailboxes are threaded together, each line with its
mailbox, and of copies (by Message-ID) the first is shown. UIDs are those of MAILBOX, which is one
of the mailboxes then; without UIDs, the words are a query, or all threads are shown.";

const USAGE: &str = "\
barid thread [OPTIONS] <MAILBOX> [UIDS|QUERY]...
       barid thread [OPTIONS] --in <MAILBOX>... --tree <DIR>... [QUERY]...
       barid thread [OPTIONS] <MAILBOX> <UIDS>... --in <MAILBOX>... --tree <DIR>...";

/// Show the threads of a mailbox, or of several, as trees
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, override_usage = USAGE)]
pub(crate) struct ThreadArgs {
    /// The mailbox: a path, or FORMAT:PATH. With --in or --tree, a query begins here, unless UIDs
    /// follow
    #[arg(value_hint = ValueHint::AnyPath, required_unless_present_any = ["mailboxes", "trees"])]
    mailbox: Option<OsString>,
    /// Only threads with these messages, whole: UIDs and ranges, as in 1:4,7,* (* is the last);
    /// or a query as for `barid search`
    #[arg(value_name = "UIDS|QUERY")]
    messages: Vec<String>,
    #[command(flatten)]
    several: MailboxesArgs,
    /// Find threads by this algorithm
    #[arg(short, long, value_enum, default_value = "references", value_name = "NAME")]
    algorithm: Algorithm,
    /// Show only the last N threads in the order of the algorithm
    #[arg(short = 'n', long, value_name = "N")]
    newest: Option<usize>,
    /// Print the THREAD response of IMAP (RFC 5256), with sequence numbers
    #[arg(long, conflicts_with_all = ["newest", "json", "messages", "mailboxes", "trees"])]
    imap: bool,
    /// With --imap, print UIDs instead of sequence numbers
    #[arg(long, requires = "imap", conflicts_with_all = ["newest", "json"])]
    uid: bool,
    #[command(flatten)]
    query: QueryArgs,
}

/// The algorithms by their IMAP names.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Algorithm {
    /// RFC 5256 REFERENCES
    References,
    /// REFS, as in Dovecot
    Refs,
    /// RFC 5256 ORDEREDSUBJECT
    #[value(name = "orderedsubject")]
    OrderedSubject,
}

impl From<Algorithm> for ThreadAlgorithm {
    fn from(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::References => Self::References,
            Algorithm::Refs => Self::Refs,
            Algorithm::OrderedSubject => Self::OrderedSubject,
        }
    }
}

/// Finds the threads and prints them.
pub(crate) fn run(context: &mut Context, args: &ThreadArgs) -> anyhow::Result<Outcome> {
    args.several.check()?;
    let selector = Selector::reading("nothing is shown");
    let Some(name) = args.several.one(&args.mailbox) else {
        return several::run(context, args, selector);
    };
    let selection =
        MessageSelection::parse_optional(context, &args.messages, args.query, selector)?;
    let (mailbox, (threads, selected, rows)) = context.open_and(name, |mailbox| {
        let selected = selection.as_ref().map(|messages| messages.select(mailbox)).transpose()?;
        let rows = selected.as_ref().map(|selected| selected.rows(mailbox)).transpose()?;
        Ok((mailbox.threads(args.algorithm.into())?, selected, rows))
    })?;
    if args.imap {
        return write_imap(context, &mailbox, &threads, args.uid);
    }
    print(context, &mailbox, &nodes_of(&threads, args.newest, rows.as_deref()), None)?;
    let is_nothing = rows.is_some_and(|rows| rows.is_empty());
    let outcome = selected.map(|selected| selected.report(context, name));
    Ok(outcome.unwrap_or(Outcome::Done).worse(Outcome::nothing_if(is_nothing)))
}

/// Returns the nodes of the threads with a message of `among`, or of all without it, the last
/// `newest` of them.
pub(crate) fn nodes_of(
    threads: &Threads,
    newest: Option<usize>,
    among: Option<&[u32]>,
) -> Vec<ThreadNode> {
    let Some(among) = among else {
        return match newest {
            Some(count) => threads.newest(count).collect(),
            None => threads.nodes().collect(),
        };
    };
    let mut is_among = vec![false; threads.rows() as usize];
    for row in among {
        if let Some(is_among) = is_among.get_mut(*row as usize) {
            *is_among = true;
        }
    }
    let nodes: Vec<ThreadNode> = threads.nodes().collect();
    let threads = nodes.chunk_by(|_, node| node.depth > 0);
    let has_one = |thread: &&[ThreadNode]| {
        thread.iter().any(|node| node.row.is_some_and(|row| is_among[row as usize]))
    };
    let found: Vec<&[ThreadNode]> = threads.filter(has_one).collect();
    found[found.len().saturating_sub(newest.unwrap_or(found.len()))..].concat()
}

fn write_imap(
    context: &mut Context,
    mailbox: &Mailbox,
    threads: &Threads,
    uid: bool,
) -> anyhow::Result<Outcome> {
    let uids = if uid { mailbox.uids()? } else { Vec::new() };
    let out = context.out.buffer();
    out.extend_from_slice(b"* THREAD");
    if !threads.is_empty() {
        out.push(b' ');
    }
    match uid {
        true => threads.write_imap(|row| uids[row as usize], out),
        false => threads.write_imap(|row| row + 1, out),
    }
    out.push(b'\n');
    Ok(Outcome::Done)
}
