//! Threads as trees and as JSON.

use std::ffi::OsStr;

use barid::{Mailbox, Summary, ThreadNode, Threads};

use super::nodes_of;
use crate::context::Context;
use crate::mail::json::{write_addresses, write_dates, write_subject};
use crate::mail::line::MessageLine;
use crate::mail::listing::{NameColumn, runs};
use crate::mail::mailboxes::FoundMailboxes;
use crate::mail::ranking::MessagePlace;
use crate::output::json::Json;
use crate::output::sink::Sink;
use crate::output::tree::{Branches, last_children};

/// Prints threads as trees, or as JSON; `name` is that of the mailbox, where several are searched.
pub(crate) fn print(
    context: &mut Context,
    mailbox: &Mailbox,
    nodes: &[ThreadNode],
    name: Option<&OsStr>,
) -> anyhow::Result<()> {
    print_from(context, ThreadSource::One(mailbox), nodes, name)
}

/// Prints threads as trees for people.
pub(crate) fn print_trees(
    context: &mut Context,
    mailbox: &Mailbox,
    threads: &Threads,
    newest: Option<usize>,
) -> anyhow::Result<()> {
    print_nodes(context, ThreadSource::One(mailbox), &nodes_of(threads, newest, None))
}

/// Prints threads of one or several mailboxes as trees, or as JSON.
pub(super) fn print_from(
    context: &mut Context,
    source: ThreadSource<'_>,
    nodes: &[ThreadNode],
    name: Option<&OsStr>,
) -> anyhow::Result<()> {
    if !context.global.json {
        return print_nodes(context, source, nodes);
    }
    let several = match source {
        ThreadSource::One(_) => None,
        ThreadSource::Several(all, _) => Some(all),
    };
    walk(&mut context.out, source, nodes, &mut JsonThreads { name, several, open: false })
}

fn print_nodes(
    context: &mut Context,
    source: ThreadSource<'_>,
    nodes: &[ThreadNode],
) -> anyhow::Result<()> {
    let depths: Vec<u32> = nodes.iter().map(|node| node.depth).collect();
    let (names, width, uidnext) = match source {
        ThreadSource::One(mailbox) => (None, context.width, Some(mailbox.status().uidnext)),
        ThreadSource::Several(all, _) => {
            let names = NameColumn::of(context, all);
            let uidnext = all.parts.iter().map(|part| part.mailbox.status().uidnext).max();
            let width = names.rest;
            (Some(names), width, uidnext)
        }
    };
    let mut writer = Trees {
        names: names.as_ref(),
        line: MessageLine::new(width, context.style, uidnext.unwrap_or(barid::Uid::MIN)),
        branches: Branches::new(context.glyphs()),
        last: last_children(&depths),
        prefix: Vec::new(),
    };
    walk(&mut context.out, source, nodes, &mut writer)
}

/// Receives the nodes of threads in their order.
trait WriteNode {
    /// Appends the message at index `at`, or a missing message.
    fn node(&mut self, out: &mut Vec<u8>, at: usize, depth: u32, message: Option<NodeMessage<'_>>);
    /// Appends the end of the list.
    fn end(&mut self, _out: &mut Vec<u8>) {}
}

/// The message of a node: the index of its mailbox, and its summary.
type NodeMessage<'a> = (usize, &'a Summary<'a>);

/// The messages that the rows of threads stand for.
#[derive(Clone, Copy)]
pub(super) enum ThreadSource<'a> {
    /// Rows of a mailbox.
    One(&'a Mailbox),
    /// Indices of messages of several mailboxes.
    Several(&'a FoundMailboxes, &'a [MessagePlace]),
}

impl ThreadSource<'_> {
    fn place(self, row: u32) -> MessagePlace {
        match self {
            Self::One(_) => (0, row),
            Self::Several(_, places) => places[row as usize],
        }
    }

    fn mailbox(&self, part: usize) -> &Mailbox {
        match self {
            Self::One(mailbox) => mailbox,
            Self::Several(all, _) => &all.parts[part].mailbox,
        }
    }
}

/// Visits the nodes of threads together with the summaries of their messages.
fn walk(
    sink: &mut Sink,
    source: ThreadSource<'_>,
    nodes: &[ThreadNode],
    writer: &mut dyn WriteNode,
) -> anyhow::Result<()> {
    let places = nodes.iter().filter_map(|node| node.row).map(|row| source.place(row));
    let places: Vec<MessagePlace> = places.collect();
    let mut at = 0;
    for (part, rows) in runs(&places) {
        let mut written = Ok(());
        source.mailbox(part).summaries(&rows, &mut |summary| {
            while nodes[at].row.is_none() {
                writer.node(sink.buffer(), at, nodes[at].depth, None);
                at += 1;
            }
            writer.node(sink.buffer(), at, nodes[at].depth, Some((part, summary)));
            at += 1;
            written = sink.settle();
            written.is_ok()
        })?;
        written?;
    }
    writer.end(sink.buffer());
    Ok(())
}

/// Threads as trees, a line for each message.
struct Trees<'a> {
    /// The names of several mailboxes.
    names: Option<&'a NameColumn>,
    line: MessageLine,
    branches: Branches,
    last: Vec<bool>,
    prefix: Vec<u8>,
}

impl WriteNode for Trees<'_> {
    fn node(&mut self, out: &mut Vec<u8>, at: usize, depth: u32, message: Option<NodeMessage<'_>>) {
        self.prefix.clear();
        self.branches.write(&mut self.prefix, depth, self.last[at]);
        match (self.names, message) {
            (Some(names), Some((part, _))) => names.write(out, part),
            (Some(names), None) => names.write_blank(out),
            (None, _) => {}
        }
        match message {
            Some((_, summary)) => self.line.write_branched(out, &self.prefix, summary),
            None => self.line.write_missing(out, &self.prefix),
        }
    }
}

/// Threads as JSON, a line for each thread.
struct JsonThreads<'a> {
    /// The name of the mailbox of all messages.
    name: Option<&'a OsStr>,
    /// The mailboxes of the messages.
    several: Option<&'a FoundMailboxes>,
    open: bool,
}

impl WriteNode for JsonThreads<'_> {
    fn node(&mut self, out: &mut Vec<u8>, _: usize, depth: u32, message: Option<NodeMessage<'_>>) {
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
        match message {
            None => {
                json.key("uid").null();
                json.key("seq").null();
            }
            Some((part, summary)) => {
                if let Some(several) = self.several {
                    json.key("mailbox").bytes(several.parts[part].name.as_encoded_bytes());
                }
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
