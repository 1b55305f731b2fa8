//! Messages of one or several mailboxes as lines.

use std::ffi::OsString;

use barid::Summary;

use super::json::MessageJson;
use super::line::MessageLine;
use super::mailboxes::FoundMailboxes;
use super::ranking::{MessagePlace, Ordered};
use crate::context::Context;
use crate::lines::{WriteLine, write_lines};
use crate::output::escape::visible;
use crate::output::table::{pad, width, write_left};

/// Columns of the name of a mailbox on a terminal.
const NAME_WIDTH_MAX: usize = 24;

/// Returns the rows of stretches of messages of the same mailbox, with its index.
pub(crate) fn runs(places: &[MessagePlace]) -> impl Iterator<Item = (usize, Vec<u32>)> {
    let runs = places.chunk_by(|before, place| before.0 == place.0);
    runs.map(|run| (run[0].0, run.iter().map(|(_, row)| *row).collect()))
}

/// Writes a line for each message, with the name of its mailbox if there are several.
/// `has_rfc822_size` is that of [`MessageJson`].
pub(crate) fn write_messages(
    context: &mut Context,
    searched: &FoundMailboxes,
    found: &Ordered,
    has_rfc822_size: bool,
) -> anyhow::Result<()> {
    let names = NameColumn::of(context, searched);
    let (json, style) = (context.global.json, context.style);
    for (at, rows) in runs(&found.places) {
        let part = &searched.parts[at];
        let mailbox = &part.mailbox;
        if json {
            let (name, scores) = (searched.is_many.then_some(&*part.name), found.scores(at));
            let writer = MessageJson { mailbox: name, has_rfc822_size, scores };
            write_lines(&mut context.out, mailbox, &rows, || writer)?;
            continue;
        }
        let uidnext = mailbox.status().uidnext;
        let line = || MessageLine::new(names.rest, style, uidnext);
        if searched.is_many {
            let named = || NamedLine { names: &names, part: at, line: line() };
            write_lines(&mut context.out, mailbox, &rows, named)?;
        } else {
            write_lines(&mut context.out, mailbox, &rows, line)?;
        }
    }
    Ok(())
}

/// The names of mailboxes before lines, as one column.
pub(crate) struct NameColumn {
    names: Vec<String>,
    width: usize,
    /// Columns for the rest of a line; `None` for whole lines.
    pub(crate) rest: Option<usize>,
}

impl NameColumn {
    /// Returns the names of mailboxes; that of a single one takes no room.
    pub(crate) fn of(context: &Context, searched: &FoundMailboxes) -> Self {
        let names = searched.parts.iter().filter(|_| searched.is_many);
        Self::new(context, names.map(|part| part.name.clone()))
    }

    /// Returns a column of names; without names it takes no room.
    pub(crate) fn new(context: &Context, names: impl Iterator<Item = OsString>) -> Self {
        let names: Vec<String> = names.map(|name| visible(name.as_encoded_bytes())).collect();
        let mut widest = names.iter().map(|name| width(name)).max().unwrap_or(0);
        if context.width.is_some() {
            widest = widest.min(NAME_WIDTH_MAX);
        }
        let taken = if names.is_empty() { 0 } else { widest + 2 };
        let rest = context.width.map(|width| width.saturating_sub(taken));
        Self { names, width: widest, rest }
    }

    /// Appends the name of a mailbox and the gap after it.
    pub(crate) fn write(&self, out: &mut Vec<u8>, part: usize) {
        write_left(out, &self.names[part], self.width);
        out.extend_from_slice(b"  ");
    }

    /// Appends as many blanks.
    pub(crate) fn write_blank(&self, out: &mut Vec<u8>) {
        pad(out, self.width + 2);
    }
}

/// A line with the name of the mailbox before it.
struct NamedLine<'a> {
    names: &'a NameColumn,
    part: usize,
    line: MessageLine,
}

impl WriteLine for NamedLine<'_> {
    fn write_line(&mut self, out: &mut Vec<u8>, summary: &Summary<'_>) {
        self.names.write(out, self.part);
        self.line.write(out, summary);
    }
}

impl WriteLine for MessageJson<'_> {
    fn write_line(&mut self, out: &mut Vec<u8>, summary: &Summary<'_>) {
        self.write(out, summary);
    }
}

impl WriteLine for MessageLine {
    fn write_line(&mut self, out: &mut Vec<u8>, summary: &Summary<'_>) {
        self.write(out, summary);
    }
}
