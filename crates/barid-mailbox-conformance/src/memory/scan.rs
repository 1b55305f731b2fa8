//! Scans: the known messages and those of the head, both ascending by UID, are merged.

use barid_mailbox::{
    ChangedMessage, Known, Location, MessageName, Result, ScanContext, ScanReport, ScanSink,
    ScanStats, ScannedMessage, Sinks, sink_error,
};
use barid_message::{body_offset, header_key, rfc822_size};
use barid_state::MessageKey;
use barid_types::Uid;

use super::stamp_of;
use super::store::{Head, HeadMessage, ObjectStore};

/// Messages of one chunk.
const CHUNK_MESSAGES: usize = 64;

pub(super) fn scan(
    store: &ObjectStore,
    known: &dyn Known,
    sinks: &dyn Sinks,
    context: &ScanContext<'_>,
) -> Result<ScanReport> {
    let head = store.head();
    let stamp = stamp_of(&head);
    let mut report = ScanReport {
        stamp,
        state: Vec::new(),
        uidvalidity: head.uidvalidity,
        uidnext: head.uidnext,
        keywords: head.keywords.clone(),
        reset: known.uidvalidity() != Some(head.uidvalidity),
        expunged: Vec::new(),
        changed: Vec::new(),
        new_uids: Vec::new(),
        tail_verified: false,
        size_bytes: head.messages.iter().map(|message| message.size).sum(),
        defects: Vec::new(),
        stats: ScanStats::default(),
    };
    let is_same = known.stamp().is_some_and(|known| known.is_same(&stamp));
    if is_same && !report.reset && !context.full_check {
        return Ok(report);
    }
    let mut new = &head.messages[..];
    if report.reset {
        sinks.expect_whole();
    } else {
        let after = compare(&head, known, &mut report)?;
        new = &head.messages[after..];
    }
    read_new(store, new, sinks, &mut report)?;
    Ok(report)
}

/// Reports what happened to the known messages; returns the index of the first new one. New
/// messages have higher UIDs than all that were known.
fn compare(head: &Head, known: &dyn Known, report: &mut ScanReport) -> Result<usize> {
    let last_given = known.uidnext().unwrap_or(Uid::MIN);
    let after = head.messages.partition_point(|message| message.uid < last_given);
    let visited = known.visit(0, &mut |message| {
        match head.messages.binary_search_by_key(&message.uid, |message| message.uid) {
            Err(_) => report.expunged.push(message.uid),
            Ok(at) => {
                let HeadMessage { uid, flags, keywords, .. } = head.messages[at];
                if (flags, keywords) != (message.flags, message.keywords) {
                    report.changed.push(ChangedMessage { uid, flags, keywords, file: None });
                }
            }
        }
        true
    });
    sink_error(visited)?;
    Ok(after)
}

fn read_new(
    store: &ObjectStore,
    new: &[HeadMessage],
    sinks: &dyn Sinks,
    report: &mut ScanReport,
) -> Result<()> {
    for (number, chunk) in new.chunks(CHUNK_MESSAGES).enumerate() {
        let mut sink = sinks.sink(number as u32);
        for message in chunk {
            sink_error(read_one(store, message, &mut *sink, report))?;
        }
        sink_error(sink.finish())?;
    }
    Ok(())
}

/// Passes one message to the sink. One that another writer has expunged meanwhile is left out, and
/// reported to the next scan by no message at all.
fn read_one(
    store: &ObjectStore,
    message: &HeadMessage,
    sink: &mut dyn ScanSink,
    report: &mut ScanReport,
) -> std::result::Result<(), barid_mailbox::SinkError> {
    let Some(body) = store.body(&message.body) else { return Ok(()) };
    let header = &body.bytes[..body_offset(&body.bytes)];
    report.stats.messages_read += 1;
    report.stats.bytes_read += body.bytes.len() as u64;
    sink.message(&ScannedMessage {
        uid: Some(message.uid),
        location: Location::from(MessageName { name: &message.body, in_new: false, mark: 0 }),
        header,
        size: message.size,
        rfc822_size: Some(rfc822_size(&body.bytes)),
        internal_date: message.date,
        flags: message.flags,
        keywords: message.keywords,
        key: MessageKey(header_key(header)),
    })
}
