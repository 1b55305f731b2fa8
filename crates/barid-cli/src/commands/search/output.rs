//! The forms in which found messages are printed.

use std::ffi::OsStr;

use barid::ThreadAlgorithm;
use barid::query::{ReturnOptions, SearchResult};

use super::addresses::Senders;
use super::mailboxes::{Mailboxes, SearchedMailbox};
use super::{Form, SearchArgs};
use crate::commands::thread::{nodes_of, print as print_threads};
use crate::context::Context;
use crate::exit::{Outcome, WithHint};
use crate::lines::{WriteLine, write_lines};
use crate::mail::json::MessageJson;
use crate::mail::line::MessageLine;
use crate::mail::order::OrderArgs;
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::table::{width, write_left};

/// Columns of the name of a mailbox on a terminal.
const NAME_WIDTH_MAX: usize = 24;

/// A message: the index of its mailbox, and its row.
type Place = (usize, u32);

/// Prints messages in a form, and returns the outcome of the command.
pub(super) fn print(
    context: &mut Context,
    form: Form,
    order: &OrderArgs,
    searched: Mailboxes,
    mut outcome: Outcome,
) -> anyhow::Result<Outcome> {
    let places = in_order(&searched, order)?;
    match form {
        Form::Messages => write_messages(context, &searched, &places)?,
        Form::Threads => write_threads(context, &searched, &places)?,
        Form::Uids => write_uids(context, &searched, &places, !order.is_given())?,
        Form::Files => {
            if !write_files(context, &searched, &places)? {
                outcome = Outcome::Incomplete;
            }
        }
        Form::Addresses => {
            let mut senders = Senders::default();
            for (part, rows) in runs(&searched, &places) {
                senders.add(&part.mailbox, &rows)?;
            }
            for line in senders.lines(context.global.json) {
                context.out.block(&line)?;
            }
        }
    }
    Ok(searched.outcome(context, outcome))
}

/// Returns the messages in the order in which they are printed.
fn in_order(searched: &Mailboxes, order: &OrderArgs) -> anyhow::Result<Vec<Place>> {
    let parts = &searched.parts;
    let mut places: Vec<Place> = match (order.program(), &parts[..]) {
        (Some(program), [only]) => {
            let sorted = only.mailbox.sorted_among(&program, &only.rows)?;
            sorted.rows.into_iter().map(|row| (0, row)).collect()
        }
        (Some(program), _) => {
            let views = parts.iter().map(|part| (&*part.mailbox, &part.rows[..]));
            barid::sorted_together(&views.collect::<Vec<_>>(), &program)?
        }
        (None, _) => {
            let of_part = |(at, part): (usize, &SearchedMailbox)| {
                part.rows.iter().map(|row| (at, *row)).collect::<Vec<_>>()
            };
            parts.iter().enumerate().flat_map(of_part).collect()
        }
    };
    order.finish(&mut places);
    Ok(places)
}

/// Returns stretches of messages of the same mailbox.
fn runs<'s>(
    searched: &'s Mailboxes,
    places: &[Place],
) -> impl Iterator<Item = (&'s SearchedMailbox, Vec<u32>)> {
    places.chunk_by(|before, place| before.0 == place.0).filter_map(|run| {
        let part = searched.parts.get(run.first()?.0)?;
        Some((part, run.iter().map(|(_, row)| *row).collect()))
    })
}

/// Returns the messages of each mailbox, in their order.
fn by_mailbox<'s>(
    searched: &'s Mailboxes,
    places: &[Place],
) -> Vec<(&'s SearchedMailbox, Vec<u32>)> {
    let mut parts: Vec<_> = searched.parts.iter().map(|part| (part, Vec::new())).collect();
    for (at, row) in places {
        parts[*at].1.push(*row);
    }
    parts.retain(|(_, rows)| !rows.is_empty());
    parts
}

fn write_messages(
    context: &mut Context,
    searched: &Mailboxes,
    places: &[Place],
) -> anyhow::Result<()> {
    let shown = |part: &SearchedMailbox| visible(part.name.as_encoded_bytes());
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
    for (part, rows) in runs(searched, places) {
        let mailbox = &part.mailbox;
        if json {
            let name = searched.is_many.then_some(&*part.name);
            let writer = MessageJson { mailbox: name, ..MessageJson::default() };
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
    fn write_line(&mut self, out: &mut Vec<u8>, summary: &barid::Summary<'_>) {
        write_left(out, self.name, self.name_width);
        out.extend_from_slice(b"  ");
        self.line.write(out, summary);
    }
}

/// Prints the threads of each mailbox, each with a line before them if there are several.
fn write_threads(
    context: &mut Context,
    searched: &Mailboxes,
    places: &[Place],
) -> anyhow::Result<()> {
    for (part, rows) in by_mailbox(searched, places) {
        let threads = part.mailbox.threads(ThreadAlgorithm::References)?;
        if searched.is_many && !context.global.json {
            let name = visible(part.name.as_encoded_bytes());
            context.out.line(&format!("{name}:"))?;
        }
        let name = searched.is_many.then_some(&*part.name);
        let nodes = nodes_of(&threads, None, Some(&rows));
        print_threads(context, &part.mailbox, &nodes, name)?;
    }
    Ok(())
}

/// Prints UIDs: a set for each mailbox, or with an order of the messages as a list.
fn write_uids(
    context: &mut Context,
    searched: &Mailboxes,
    places: &[Place],
    is_set: bool,
) -> anyhow::Result<()> {
    let parts: Vec<_> = match is_set {
        true => by_mailbox(searched, places),
        false => runs(searched, places).collect(),
    };
    for (part, rows) in parts {
        let uids = rows.iter().map(|row| Ok(part.mailbox.uid_of(*row)?.get()));
        let uids = uids.collect::<barid::Result<Vec<u32>>>()?;
        let out = context.out.buffer();
        if context.global.json {
            let mut json = Json::line(out, "uids");
            if searched.is_many {
                json.key("mailbox").bytes(part.name.as_encoded_bytes());
            }
            json.key("uids").open(b'[');
            uids.iter().for_each(|uid| json.number((*uid).into()));
            json.close(b']');
            json.end_line();
        } else {
            if searched.is_many {
                let name = visible(part.name.as_encoded_bytes());
                out.extend_from_slice(format!("{name}: ").as_bytes());
            }
            SearchResult { numbers: &uids, uid: true }.write_set(out);
            out.push(b'\n');
        }
        context.out.settle()?;
    }
    Ok(())
}

/// Prints the paths of messages. Returns `false` after an error that some are not files.
fn write_files(
    context: &mut Context,
    searched: &Mailboxes,
    places: &[Place],
) -> anyhow::Result<bool> {
    let mut nameless: Vec<&OsStr> = Vec::new();
    for (at, row) in places {
        let part = &searched.parts[*at];
        let Some(path) = part.mailbox.message_file(*row)? else {
            if !nameless.contains(&&*part.name) {
                nameless.push(&part.name);
            }
            continue;
        };
        let out = context.out.buffer();
        if context.global.json {
            let mut json = Json::line(out, "file");
            if searched.is_many {
                json.key("mailbox").bytes(part.name.as_encoded_bytes());
            }
            json.key("uid").number(part.mailbox.uid_of(*row)?.get().into());
            json.key("path").bytes(path.as_os_str().as_encoded_bytes());
            json.end_line();
        } else {
            out.extend_from_slice(path.as_os_str().as_encoded_bytes());
            out.push(b'\n');
        }
        context.out.settle()?;
    }
    for name in &nameless {
        let error = WithHint::error(
            format!("{}: its messages are not files of their own", name.display()),
            "`barid show --raw MAILBOX UID` prints a message",
        );
        crate::exit::report(context, &error);
    }
    Ok(nameless.is_empty())
}

/// Prints sequence numbers, or the response of IMAP.
pub(super) fn write_numbers(
    context: &mut Context,
    args: &SearchArgs,
    part: &SearchedMailbox,
    returns: Option<ReturnOptions>,
) -> anyhow::Result<()> {
    let mut rows = part.rows.clone();
    if let Some(program) = args.order.program() {
        rows = part.mailbox.sorted_among(&program, &rows)?.rows;
    }
    args.order.finish(&mut rows);
    let number = |row: &u32| match args.seq {
        true => Ok(row + 1),
        false => Ok(part.mailbox.uid_of(*row)?.get()),
    };
    let numbers = rows.iter().map(number).collect::<barid::Result<Vec<u32>>>()?;
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
