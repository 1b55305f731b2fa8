//! `barid thread`: prints the conversations of a mailbox.

use std::ffi::{OsStr, OsString};

use barid::{Mailbox, Summary, ThreadAlgorithm, ThreadNode, Threads};
use clap::{Args, ValueEnum, ValueHint};

use crate::context::Context;
use crate::exit::Outcome;
use crate::mail::json::{write_addresses, write_dates, write_subject};
use crate::mail::line::MessageLine;
use crate::mail::query::QueryArgs;
use crate::mail::selection::{MessageSelection, Selector};
use crate::output::json::Json;
use crate::output::sink::Sink;
use crate::output::tree::{Branches, last_children};

const EXAMPLES: &str = "\
Examples:
  barid thread ~/Maildir
  barid thread --algorithm refs --newest 10 ~/Maildir    the ten most recently active threads
  barid thread ~/Maildir from:ann budget                 whole threads with a message that matches
  barid thread ~/Maildir 4711                            the thread of one message
  barid thread --imap --uid archive.mbox                 as an IMAP server would answer

The columns are those of `barid ls`. `references` (RFC 5256) also joins threads of the same subject
and orders threads by their first message; `refs` follows only References and In-Reply-To and orders
threads by their last message; `orderedsubject` (RFC 5256) uses only the subject.";

/// Show the threads of a mailbox as trees
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ThreadArgs {
    /// The mailbox: a path, or FORMAT:PATH
    #[arg(value_hint = ValueHint::AnyPath)]
    mailbox: OsString,
    /// Only threads with these messages, whole: UIDs and ranges, as in 1:4,7,* (* is the last);
    /// or a query as for `barid search`
    #[arg(value_name = "UIDS|QUERY")]
    messages: Vec<String>,
    /// Find threads by this algorithm
    #[arg(short, long, value_enum, default_value = "references", value_name = "NAME")]
    algorithm: Algorithm,
    /// Show only the last N threads in the order of the algorithm
    #[arg(short = 'n', long, value_name = "N")]
    newest: Option<usize>,
    /// Print the THREAD response of IMAP (RFC 5256), with sequence numbers
    #[arg(long, conflicts_with_all = ["newest", "json", "messages"])]
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
    let selector = Selector::reading("nothing is shown");
    let selection =
        MessageSelection::parse_optional(&context.config, &args.messages, args.query, selector)?;
    let (mailbox, (threads, selected, rows)) = context.open_and(&args.mailbox, |mailbox| {
        let selected = selection.as_ref().map(|messages| messages.select(mailbox)).transpose()?;
        let rows = selected.as_ref().map(|selected| selected.rows(mailbox)).transpose()?;
        Ok((mailbox.threads(args.algorithm.into())?, selected, rows))
    })?;
    if args.imap {
        return write_imap(context, &mailbox, &threads, args.uid);
    }
    print(context, &mailbox, &nodes_of(&threads, args.newest, rows.as_deref()), None)?;
    let is_nothing = rows.is_some_and(|rows| rows.is_empty());
    let outcome = selected.map(|selected| selected.report(context, &args.mailbox));
    Ok(outcome.unwrap_or(Outcome::Done).worse(Outcome::nothing_if(is_nothing)))
}

/// Prints threads as trees, or as JSON; `name` is that of the mailbox, where several are searched.
pub(crate) fn print(
    context: &mut Context,
    mailbox: &Mailbox,
    nodes: &[ThreadNode],
    name: Option<&OsStr>,
) -> anyhow::Result<()> {
    if context.global.json {
        return walk(&mut context.out, mailbox, nodes, &mut JsonThreads { name, open: false });
    }
    print_nodes(context, mailbox, nodes)
}

/// Prints threads as trees for people.
pub(crate) fn print_trees(
    context: &mut Context,
    mailbox: &Mailbox,
    threads: &Threads,
    newest: Option<usize>,
) -> anyhow::Result<()> {
    print_nodes(context, mailbox, &nodes_of(threads, newest, None))
}

fn print_nodes(
    context: &mut Context,
    mailbox: &Mailbox,
    nodes: &[ThreadNode],
) -> anyhow::Result<()> {
    let depths: Vec<u32> = nodes.iter().map(|node| node.depth).collect();
    let line = MessageLine::new(context.width, context.style, mailbox.status().uidnext);
    let mut writer = Trees {
        line,
        branches: Branches::new(context.glyphs()),
        last: last_children(&depths),
        prefix: Vec::new(),
    };
    walk(&mut context.out, mailbox, nodes, &mut writer)
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
    let uids: barid::Result<Vec<u32>> = match uid {
        true => (0..mailbox.len()).map(|row| mailbox.uid_of(row).map(barid::Uid::get)).collect(),
        false => Ok(Vec::new()),
    };
    let uids = uids?;
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

/// Receives the nodes of threads in their order.
trait WriteNode {
    /// Appends the message at index `at`, or a missing message.
    fn node(&mut self, out: &mut Vec<u8>, at: usize, depth: u32, summary: Option<&Summary<'_>>);
    /// Appends the end of the list.
    fn end(&mut self, _out: &mut Vec<u8>) {}
}

/// Visits the nodes of threads together with the summaries of their messages.
fn walk(
    sink: &mut Sink,
    mailbox: &Mailbox,
    nodes: &[ThreadNode],
    writer: &mut dyn WriteNode,
) -> anyhow::Result<()> {
    let rows: Vec<u32> = nodes.iter().filter_map(|node| node.row).collect();
    let mut at = 0;
    let mut written = Ok(());
    mailbox.summaries(&rows, &mut |summary| {
        while nodes[at].row.is_none() {
            writer.node(sink.buffer(), at, nodes[at].depth, None);
            at += 1;
        }
        writer.node(sink.buffer(), at, nodes[at].depth, Some(summary));
        at += 1;
        written = sink.settle();
        written.is_ok()
    })?;
    writer.end(sink.buffer());
    Ok(written?)
}

/// Threads as trees, a line for each message.
struct Trees {
    line: MessageLine,
    branches: Branches,
    last: Vec<bool>,
    prefix: Vec<u8>,
}

impl WriteNode for Trees {
    fn node(&mut self, out: &mut Vec<u8>, at: usize, depth: u32, summary: Option<&Summary<'_>>) {
        self.prefix.clear();
        self.branches.write(&mut self.prefix, depth, self.last[at]);
        match summary {
            Some(summary) => self.line.write_branched(out, &self.prefix, summary),
            None => self.line.write_missing(out, &self.prefix),
        }
    }
}

/// Threads as JSON, a line for each thread.
struct JsonThreads<'a> {
    name: Option<&'a OsStr>,
    open: bool,
}

impl WriteNode for JsonThreads<'_> {
    fn node(&mut self, out: &mut Vec<u8>, _at: usize, depth: u32, summary: Option<&Summary<'_>>) {
        if depth == 0 {
            self.end(out);
            let mut json = Json::line(out, "thread");
            if let Some(name) = self.name {
                json.key("mailbox").bytes(name.as_encoded_bytes());
            }
            json.key("messages").open(b'[');
            self.open = true;
        }
        let mut json = Json::more(out);
        json.open(b'{');
        json.key("depth").number(depth.into());
        match summary {
            None => {
                json.key("uid").null();
                json.key("seq").null();
            }
            Some(summary) => {
                json.key("uid").number(summary.uid.get().into());
                json.key("seq").number(u64::from(summary.row) + 1);
                write_dates(&mut json, summary);
                write_addresses(json.key("from"), summary.fields.from);
                write_subject(&mut json, summary.fields.subject);
            }
        }
        json.close(b'}');
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.open) {
            out.extend_from_slice(b"]}\n");
        }
    }
}
