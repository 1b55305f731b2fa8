//! Threads over the messages of several mailboxes.

use std::ffi::OsStr;

use barid::View;

use super::writing::{ThreadSource, print_from};
use super::{ThreadArgs, nodes_of};
use crate::context::Context;
use crate::exit::{Outcome, report};
use crate::mail::mailboxes::{FoundMailbox, FoundMailboxes};
use crate::mail::selection::{MessageSelection, Selector};
use crate::mail::uids::UidRanges;

/// Finds the threads and prints them.
pub(super) fn run(
    context: &mut Context,
    args: &ThreadArgs,
    selector: Selector,
) -> anyhow::Result<Outcome> {
    let (mut all, is_choice, outcome) = match named(args) {
        Some((name, ranges)) => {
            let (all, outcome) = with_named(context, args, name, ranges)?;
            (all, true, outcome)
        }
        None => {
            let words = args.several.words(args.mailbox.as_deref(), &args.messages)?;
            let program =
                MessageSelection::parse_for_mailboxes(context, &words, args.query, selector)?;
            // Copies are left out where messages are threaded: one of them may be in a thread.
            let (all, outcome) = args.several.search_all(context, &program)?;
            (all, !words.is_empty(), outcome)
        }
    };
    let views: Vec<&View> = all.parts.iter().map(|part| &*part.mailbox).collect();
    let copies = args.several.shows_copies();
    let joined = barid::threads_together(&views, args.algorithm.into(), copies)?;
    let indices = |(part, of_part): (&FoundMailbox, &Vec<u32>)| -> Vec<u32> {
        part.rows.iter().filter_map(|row| of_part.get(*row as usize)).copied().collect()
    };
    let found: Vec<u32> = all.parts.iter().zip(&joined.indices).flat_map(indices).collect();
    let nodes = nodes_of(&joined.threads, args.newest, is_choice.then_some(&*found));
    print_from(context, ThreadSource::Several(&all, &joined.messages), &nodes, None)?;
    Ok(match is_choice {
        true => all.outcome(context, outcome),
        false => all.report(context, outcome),
    })
}

/// Returns the mailbox and the UIDs that the command line names, if it is so: `MAILBOX UIDS`.
fn named(args: &ThreadArgs) -> Option<(&OsStr, UidRanges)> {
    let name = args.mailbox.as_deref()?;
    let is_uids = |word: &str| word.parse::<UidRanges>().is_ok();
    if args.messages.is_empty() || name.to_str().is_some_and(is_uids) {
        return None;
    }
    let ranges = args.messages.iter().map(|word| word.parse()).collect::<Result<_, String>>();
    ranges.ok().map(|ranges| (name, UidRanges::joined(ranges)))
}

/// Opens the named mailbox and the others, and selects messages of the named one.
fn with_named(
    context: &Context,
    args: &ThreadArgs,
    name: &OsStr,
    ranges: UidRanges,
) -> anyhow::Result<(FoundMailboxes, Outcome)> {
    let selection = MessageSelection::Uids(ranges);
    let spec = context.spec(name)?;
    let (mailbox, selected) = context.open_spec_and(&spec, |mailbox| selection.select(mailbox))?;
    let mut outcome = selected.report(context, name);
    let rows = selected.rows(&mailbox)?;
    let mut all = FoundMailboxes::of(FoundMailbox::new(name, mailbox, rows));
    for (name, other) in args.several.specs(context, Some(&spec))? {
        match context.open_spec(&other) {
            Ok(mailbox) => all.parts.push(FoundMailbox::new(&name, mailbox, Vec::new())),
            Err(error) => {
                report(context, &error);
                outcome = Outcome::Incomplete;
            }
        }
    }
    Ok((all, outcome))
}
