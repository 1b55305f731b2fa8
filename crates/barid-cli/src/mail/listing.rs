//! Messages of one or several mailboxes as lines.

use barid::Summary;

use super::json::MessageJson;
use super::line::MessageLine;
use super::mailboxes::{FoundMailbox, Mailboxes};
use super::ranking::{Ordered, Place};
use crate::context::Context;
use crate::lines::{WriteLine, write_lines};
use crate::output::escape::visible;
use crate::output::table::{width, write_left};

/// Columns of the name of a mailbox on a terminal.
const NAME_WIDTH_MAX: usize = 24;

/// Returns stretches of messages of the same mailbox, with its index.
pub(crate) fn runs<'s>(
    searched: &'s Mailboxes,
    places: &[Place],
) -> impl Iterator<Item = (usize, &'s FoundMailbox, Vec<u32>)> {
    places.chunk_by(|before, place| before.0 == place.0).filter_map(|run| {
        let (at, _) = *run.first()?;
        Some((at, searched.parts.get(at)?, run.iter().map(|(_, row)| *row).collect()))
    })
}

/// Writes a line for each message, with the name of its mailbox if there are several.
pub(crate) fn write_messages(
    context: &mut Context,
    searched: &Mailboxes,
    found: &Ordered,
) -> anyhow::Result<()> {
    let shown = |part: &FoundMailbox| visible(part.name.as_encoded_bytes());
    let names = searched.parts.iter().map(|part| width(&shown(part)));
    let mut name_width = names.max().unwrap_or(0);
    if context.width.is_some() {
        name_width = name_width.min(NAME_WIDTH_MAX);
    }
    let (json, style) = (context.global.json, context.style);
    let rest = match searched.is_many {
        true => context.width.map(|width| width.saturating_sub(name_width + 2)),
        false => context.width,
    };
    for (at, part, rows) in runs(searched, &found.places) {
        let mailbox = &part.mailbox;
        if json {
            let (name, scores) = (searched.is_many.then_some(&*part.name), found.scores(at));
            let writer = MessageJson { mailbox: name, scores, ..MessageJson::default() };
            write_lines(&mut context.out, mailbox, &rows, || writer)?;
            continue;
        }
        let uidnext = mailbox.status().uidnext;
        let line = || MessageLine::new(rest, style, uidnext);
        if searched.is_many {
            let name = shown(part);
            let named = || NamedLine { name: &name, name_width, line: line() };
            write_lines(&mut context.out, mailbox, &rows, named)?;
        } else {
            write_lines(&mut context.out, mailbox, &rows, line)?;
        }
    }
    Ok(())
}

/// A line with the name of the mailbox before it.
struct NamedLine<'a> {
    name: &'a str,
    name_width: usize,
    line: MessageLine,
}

impl WriteLine for NamedLine<'_> {
    fn write_line(&mut self, out: &mut Vec<u8>, summary: &Summary<'_>) {
        write_left(out, self.name, self.name_width);
        out.extend_from_slice(b"  ");
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
