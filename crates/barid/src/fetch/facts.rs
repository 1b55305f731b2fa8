//! Items that the fixed-size facts of the cache answer: neither header fields nor messages are
//! read.

use std::ops::Range;

use barid_cache::Record;
use barid_types::Uid;

use super::fetched::{Fetched, Needs, ReadParts};
use super::{FetchItem, FetchItems, FetchReport, TakeFetched, WriteFetched};
use crate::limits::{FETCH_FACTS_ROWS, FETCH_FACTS_SPREAD};
use crate::{Result, Summary, View};

/// Returns `true` if the facts are enough for the items; for RFC822.SIZE only if it is known.
fn are_enough(items: &FetchItems) -> bool {
    items.items().iter().all(|item| {
        matches!(
            item,
            FetchItem::Flags
                | FetchItem::Uid
                | FetchItem::ModSeq
                | FetchItem::InternalDate
                | FetchItem::Rfc822Size
        )
    })
}

/// Fetches messages from the first one on, as long as the facts are enough for the items, and as
/// they ascend and are not far apart. Returns the messages that remain.
pub(super) fn run<'u>(
    view: &View,
    uids: &'u [Uid],
    items: &FetchItems,
    write: &WriteFetched<'_>,
    report: &mut FetchReport,
    take: &mut TakeFetched<'_>,
) -> Result<&'u [Uid]> {
    if !are_enough(items) || !uids.is_sorted() {
        return Ok(uids);
    }
    let (mut rest, mut out) = (uids, Vec::new());
    while !rest.is_empty() {
        let (now, later) = rest.split_at(rest.len().min(FETCH_FACTS_ROWS));
        out.clear();
        if !facts(view, now, items, write, report, &mut out)? {
            return Ok(rest);
        }
        if !take(&mut out) {
            return Ok(&[]);
        }
        rest = later;
    }
    Ok(rest)
}

/// Writes the answers of some messages to `out`; returns `false` if something else is needed for
/// one of them.
fn facts(
    view: &View,
    uids: &[Uid],
    items: &FetchItems,
    write: &WriteFetched<'_>,
    report: &mut FetchReport,
    out: &mut Vec<u8>,
) -> Result<bool> {
    let (Some(first), Some(last)) = (uids.first(), uids.last()) else { return Ok(true) };
    let rows = view.row_from(*first)?..match last.next() {
        Some(next) => view.row_from(next)?,
        None => view.len(),
    };
    // A listed view has nothing else to answer from.
    if !view.is_listed() && rows.len() > uids.len().saturating_mul(FETCH_FACTS_SPREAD) {
        return Ok(false);
    }
    if items.has(&FetchItem::Rfc822Size) && !are_sizes_known(view, rows.clone())? {
        return Ok(false);
    }
    let (about, names, fields) = ((items, Needs::of(items)), view.keywords(), Record::default());
    let mut wanted = uids.iter().peekable();
    let read = view.snapshot.cores(rows, &mut |row, core| {
        while let Some(uid) = wanted.next_if(|uid| **uid < core.uid) {
            report.gone.push(*uid);
        }
        while wanted.next_if(|uid| **uid == core.uid).is_some() {
            let summary = Summary::new(row, core, &fields, names, &view.shown);
            write(&Fetched::new(&summary, None, None, about, ReadParts::default()), out);
            report.fetched += 1;
        }
    });
    view.done(read)?;
    report.gone.extend(wanted.copied());
    Ok(true)
}

/// Returns `true` if RFC822.SIZE is known of all messages in a range of rows.
fn are_sizes_known(view: &View, rows: Range<u32>) -> Result<bool> {
    let mut are_known = true;
    let read = view.snapshot.cores(rows, &mut |_, core| are_known &= core.rfc822_size.is_some());
    view.done(read)?;
    Ok(are_known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mailbox, test_mailbox};

    /// Returns a mailbox with gaps between its UIDs, and a message with a flag.
    fn mailbox() -> (Mailbox, Vec<Uid>) {
        let (mut mailbox, uids) = test_mailbox::maildir(50);
        test_mailbox::change(&mut mailbox, &uids[7..9], &[uids[3], uids[40]]);
        (mailbox, uids)
    }

    /// Returns the answers, one each, the messages that are gone, and the number of the others.
    fn fetched(view: &View, uids: &[Uid], items: &FetchItems) -> (Vec<String>, Vec<Uid>, u64) {
        let mut out = Vec::new();
        let write = |fetched: &Fetched<'_>, out: &mut Vec<u8>| fetched.write_imap(out);
        let report = view
            .fetch(uids, items, &write, &mut |bytes| {
                out.extend_from_slice(bytes);
                true
            })
            .unwrap();
        let text = String::from_utf8(out).unwrap();
        (text.lines().map(str::to_owned).collect(), report.gone, report.fetched)
    }

    #[test]
    fn answers_are_those_of_the_records() {
        let (mailbox, uids) = mailbox();
        let view = mailbox.view();
        let check = |uids: &[Uid], text: &str| {
            let items = FetchItems::parse(text).unwrap();
            let ours = fetched(&view, uids, &items);
            // In this order the records are read.
            let backwards: Vec<Uid> = uids.iter().rev().copied().collect();
            let (mut lines, mut gone, count) = fetched(&view, &backwards, &items);
            lines.reverse();
            gone.reverse();
            assert_eq!(ours, (lines, gone, count), "{text}");
            ours
        };
        let items = "(UID FLAGS MODSEQ INTERNALDATE)";
        let (lines, gone, count) = check(&uids, items);
        assert_eq!((lines.len(), count, gone), (48, 48, vec![uids[7], uids[8]]));
        assert!(lines[3].contains("\\Seen") && !lines[4].contains("\\Seen"), "{lines:?}");
        check(&uids[5..9], "(FLAGS)");
        check(&uids[7..9], "(FLAGS)");
        check(&[uids[0], uids[49]], "(FLAGS UID)");
        check(&[uids[0], Uid::MAX], "(FLAGS)");
        // Sizes are not known before they are asked for.
        check(&uids[10..30], "(UID RFC822.SIZE)");
    }

    #[test]
    fn the_receiver_ends_a_fetch() {
        let (mailbox, uids) = mailbox();
        let items = FetchItems::parse("(UID)").unwrap();
        let mut calls = 0;
        let write = |fetched: &Fetched<'_>, out: &mut Vec<u8>| fetched.write_imap(out);
        let mut take = |_: &mut Vec<u8>| {
            calls += 1;
            false
        };
        mailbox.view().fetch(&uids, &items, &write, &mut take).unwrap();
        assert_eq!(calls, 1);
    }
}
