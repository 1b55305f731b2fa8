//! The forms in which found messages are printed.

use std::ffi::OsStr;

use barid::query::{ReturnOptions, SearchResult};
use barid::{ThreadAlgorithm, Uid};

use super::addresses::Senders;
use super::{OutputForm, SearchArgs, links};
use crate::commands::thread::{nodes_of, print as print_threads};
use crate::context::Context;
use crate::exit::{Outcome, WithHint};
use crate::lines::write_lines;
use crate::mail::csv::{MessageCsv, csv_head};
use crate::mail::listing::{runs, write_messages};
use crate::mail::mailboxes::{FoundMailbox, FoundMailboxes};
use crate::mail::ranking::{MessagePlace, Ordered};
use crate::output::escape::visible;
use crate::output::json::Json;

/// Prints messages in a form, and returns the outcome of the command. UIDs that are not in an order
/// are printed as sets.
pub(super) fn print(
    context: &mut Context,
    args: &SearchArgs,
    form: OutputForm,
    (mut searched, found): (FoundMailboxes, &Ordered),
    mut outcome: Outcome,
) -> anyhow::Result<Outcome> {
    let places = &found.places;
    match form {
        OutputForm::Messages => write_messages(context, &searched, found, false)?,
        OutputForm::Csv => write_csv(context, &searched, places)?,
        OutputForm::Threads => write_threads(context, &searched, places)?,
        OutputForm::Uids => write_uids(context, &searched, places, !args.order.is_given())?,
        OutputForm::Files => {
            if !write_files(context, &searched, places)? {
                outcome = Outcome::Incomplete;
            }
        }
        OutputForm::Links => {
            if let Some(dir) = &args.links_dir {
                outcome = outcome.worse(links::create(context, &mut searched, places, dir)?);
            }
        }
        OutputForm::Addresses => {
            let mut senders = Senders::default();
            for (at, rows) in runs(places) {
                senders.add(&searched.parts[at].mailbox, &rows)?;
            }
            for line in senders.lines(context.global.json) {
                context.out.block(&line)?;
            }
        }
    }
    Ok(searched.outcome(context, outcome))
}

/// Returns the messages of each mailbox, in their order.
fn by_mailbox<'s>(
    searched: &'s FoundMailboxes,
    places: &[MessagePlace],
) -> Vec<(&'s FoundMailbox, Vec<u32>)> {
    let mut parts: Vec<_> = searched.parts.iter().map(|part| (part, Vec::new())).collect();
    for (at, row) in places {
        parts[*at].1.push(*row);
    }
    parts.retain(|(_, rows)| !rows.is_empty());
    parts
}

/// Prints messages as CSV, also with --json.
fn write_csv(
    context: &mut Context,
    searched: &FoundMailboxes,
    places: &[MessagePlace],
) -> anyhow::Result<()> {
    context.out.block(csv_head(searched.is_many).as_bytes())?;
    for (at, rows) in runs(places) {
        let part = &searched.parts[at];
        let writer = MessageCsv { mailbox: searched.is_many.then_some(&*part.name) };
        write_lines(&mut context.out, &part.mailbox, &rows, || writer)?;
    }
    Ok(())
}

/// Prints the threads of each mailbox, each with a line before them if there are several.
fn write_threads(
    context: &mut Context,
    searched: &FoundMailboxes,
    places: &[MessagePlace],
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

/// Returns the UIDs of rows, as numbers.
fn numbers_of(part: &FoundMailbox, rows: &[u32]) -> barid::Result<Vec<u32>> {
    Ok(part.mailbox.uids_of(rows)?.into_iter().map(Uid::get).collect())
}

/// Prints UIDs: a set for each mailbox, or with an order of the messages as a list.
fn write_uids(
    context: &mut Context,
    searched: &FoundMailboxes,
    places: &[MessagePlace],
    is_set: bool,
) -> anyhow::Result<()> {
    let parts: Vec<_> = match is_set {
        true => by_mailbox(searched, places),
        false => runs(places).map(|(at, rows)| (&searched.parts[at], rows)).collect(),
    };
    for (part, rows) in parts {
        let uids = numbers_of(part, &rows)?;
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
    searched: &FoundMailboxes,
    places: &[MessagePlace],
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
    (part, places): (&FoundMailbox, &[MessagePlace]),
    returns: Option<ReturnOptions>,
) -> anyhow::Result<()> {
    let mut numbers: Vec<u32> = places.iter().map(|(_, row)| *row).collect();
    match args.seq {
        true => numbers.iter_mut().for_each(|row| *row += 1),
        false => numbers = numbers_of(part, &numbers)?,
    }
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
