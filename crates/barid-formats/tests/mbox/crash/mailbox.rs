//! A mailbox as the crash world sees it: what a scan knows of it, and what is in its messages.

use std::path::Path;
use std::sync::{Arc, Mutex};

use barid_formats::{
    EmptyKnown, Error, Known, KnownMessage, Location, Mailbox, MboxMailbox, MboxOptions, ReadAs,
    ScanContext, ScanReport, ScanSink, ScannedMessage, SinkError, Sinks, Stamp, Variant,
};
use barid_message::strip_owned;
use barid_state::{Access, Identity, Ledger, MessageKey};
use barid_types::{FlagSet, KeywordMask, KeywordTable, Uid, UidValidity};
use barid_vfs::Vfs;

/// Where the mailbox is.
pub(super) const PATH: &str = "/mail/box";
/// Its folder.
pub(super) const DIR: &str = "/mail";
/// Its journal, where the folder can be written.
pub(super) const JOURNAL: &str = "/mail/.box.barid-journal";
/// The state folder.
pub(super) const STATE: &str = "/state";
/// The longest file read back.
pub(super) const SIZE_MAX: u64 = 1 << 26;

/// What a mailbox is opened as.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub(super) variant: Variant,
    pub(super) options: MboxOptions,
}

/// A message as a scan gave it.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) location: Location<'static>,
    pub(super) flags: FlagSet,
    pub(super) mask: KeywordMask,
    key: MessageKey,
}

/// What a cache would know after a scan.
#[derive(Clone, Debug)]
pub(super) struct Cached {
    pub(super) report: ScanReport,
    pub(super) seen: Vec<Seen>,
}

impl Known for Cached {
    fn stamp(&self) -> Option<Stamp> {
        Some(self.report.stamp)
    }
    fn state(&self) -> &[u8] {
        &self.report.state
    }
    fn uidvalidity(&self) -> Option<UidValidity> {
        Some(self.report.uidvalidity)
    }
    fn uidnext(&self) -> Option<Uid> {
        Some(self.report.uidnext)
    }
    fn keywords(&self) -> &KeywordTable {
        &self.report.keywords
    }
    fn len(&self) -> u32 {
        self.seen.len() as u32
    }
    fn visit(
        &self,
        first: u32,
        visit: &mut dyn FnMut(&KnownMessage<'_>) -> bool,
    ) -> Result<(), SinkError> {
        for (seen, uid) in self.seen.iter().zip(&self.report.new_uids).skip(first as usize) {
            let message = KnownMessage {
                uid: *uid,
                flags: seen.flags,
                keywords: seen.mask,
                location: seen.location,
                key: seen.key,
            };
            if !visit(&message) {
                break;
            }
        }
        Ok(())
    }
}

impl Cached {
    /// The UIDs, in order.
    pub(super) fn uids(&self) -> &[Uid] {
        &self.report.new_uids
    }

    /// The keywords of a message, sorted.
    pub(super) fn keywords_of(&self, seen: &Seen) -> Vec<String> {
        let names = self.report.keywords.select(seen.mask);
        let mut names: Vec<String> = names.map(|name| name.as_str().to_owned()).collect();
        names.sort();
        names
    }
}

#[derive(Default)]
struct Collect(Mutex<Vec<(u32, Vec<Seen>)>>);

struct Chunk<'a>(u32, Vec<Seen>, &'a Collect);

impl Sinks for Collect {
    fn sink(&self, chunk: u32) -> Box<dyn ScanSink + '_> {
        Box::new(Chunk(chunk, Vec::new(), self))
    }
}

impl ScanSink for Chunk<'_> {
    fn message(&mut self, message: &ScannedMessage<'_>) -> Result<(), SinkError> {
        let Location::Span { offset, separator_len, header_len, body_len } = message.location
        else {
            return Err("no span".into());
        };
        self.1.push(Seen {
            location: Location::Span { offset, separator_len, header_len, body_len },
            flags: message.flags,
            mask: message.keywords,
            key: message.key,
        });
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), SinkError> {
        self.2.0.lock().expect("because no sink panics").push((self.0, self.1));
        Ok(())
    }
}

/// The mailbox on some disk.
pub(super) fn open(vfs: &Arc<dyn Vfs>, spec: &Spec) -> Result<MboxMailbox, Error> {
    let options = spec.options.clone();
    MboxMailbox::open_with(Arc::clone(vfs), Path::new(PATH), Some(spec.variant), options)
}

/// The ledger of the mailbox in some folder: [`STATE`], or one where nothing is known.
pub(super) fn ledger(vfs: &Arc<dyn Vfs>, folder: &str) -> Result<Ledger, Error> {
    let identity = Identity { id: 7, path: PATH.into(), inode: 1 };
    Ok(Ledger::open(Arc::clone(vfs), Path::new(folder), &identity, Access::ReadWrite)?)
}

/// Scans all of it.
pub(super) fn scan(vfs: &Arc<dyn Vfs>, spec: &Spec, folder: &str) -> Result<Cached, Error> {
    let mut ledger = ledger(vfs, folder)?;
    let mut context = ScanContext {
        ledger: &mut ledger,
        read_only: false,
        full_check: false,
        threads: 1,
        progress: None,
    };
    let sinks = Collect::default();
    let report = open(vfs, spec)?.scan(&EmptyKnown::default(), &sinks, &mut context)?;
    ledger.commit()?;
    let mut chunks = sinks.0.into_inner().expect("because no sink panics");
    chunks.sort_by_key(|(chunk, _)| *chunk);
    let seen: Vec<_> = chunks.into_iter().flat_map(|(_, seen)| seen).collect();
    assert_eq!(seen.len(), report.new_uids.len());
    Ok(Cached { report, seen })
}

/// The same bytes of every message, in order: nothing that formats own, no line end at the end.
pub(super) fn texts(
    vfs: &Arc<dyn Vfs>,
    spec: &Spec,
    cached: &Cached,
) -> Result<Vec<Vec<u8>>, Error> {
    let mailbox = open(vfs, spec)?;
    let text = |seen: &Seen| {
        let mut buffer = Vec::new();
        mailbox.read(&seen.location, ReadAs::Message, &mut buffer)?;
        Ok(without_lengths(&strip_owned(&buffer)).trim_ascii_end().to_vec())
    };
    cached.seen.iter().map(text).collect()
}

/// A message without `Content-Length`, which some variants add.
fn without_lengths(text: &[u8]) -> Vec<u8> {
    let mut in_header = true;
    let kept = |line: &&[u8]| {
        in_header &= !line.trim_ascii().is_empty();
        !(in_header && line.starts_with(b"Content-Length:"))
    };
    text.split_inclusive(|byte| *byte == b'\n').filter(kept).collect::<Vec<_>>().concat()
}
