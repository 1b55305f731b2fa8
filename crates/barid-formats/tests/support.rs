//! Cached state of a mailbox whose messages are stretches of files.

use std::sync::{Arc, Mutex};

use barid_formats::FormatName;
use barid_mailbox::{
    Error, Extent, Known, KnownMessage, Location, ScanContext, ScanReport, ScanSink,
    ScannedMessage, SinkError, Sinks, Stamp, Storage,
};
use barid_state::{Access, Identity, Ledger, MessageKey};
use barid_types::{Flag, FlagSet, InternalDate, KeywordMask, KeywordTable, Uid, UidValidity};
use barid_vfs::{MemVfs, Vfs};

/// Returns the formats whose messages are stretches of files.
pub(crate) fn in_stretches() -> impl Iterator<Item = FormatName> {
    FormatName::all().filter(|name| !name.format().has_message_files())
}

/// A message as a sink received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) uid: Uid,
    pub(crate) location: Location<'static>,
    pub(crate) size: u64,
    pub(crate) rfc822_size: Option<u64>,
    pub(crate) header: Vec<u8>,
    pub(crate) date: InternalDate,
    pub(crate) flags: FlagSet,
    pub(crate) mask: KeywordMask,
    pub(crate) key: MessageKey,
}

/// Content of a cache after a scan.
#[derive(Clone, Debug)]
pub(crate) struct Cached {
    pub(crate) report: ScanReport,
    pub(crate) seen: Vec<Seen>,
}

impl Cached {
    /// Scans for messages that are not known yet.
    pub(crate) fn scan(
        mailbox: &dyn Storage,
        known: &dyn Known,
        context: &mut ScanContext<'_>,
    ) -> Result<Self, Error> {
        let sinks = Collect::default();
        let report = mailbox.scan(known, &sinks, context)?;
        let mut chunks = sinks.0.into_inner().expect("because no sink panics");
        chunks.sort_by_key(|(chunk, _)| *chunk);
        let mut new_uids = report.new_uids.iter();
        let found = chunks.into_iter().flat_map(|(_, found)| found);
        let seen = found.map(|(uid, seen)| {
            let uid = uid.or_else(|| new_uids.next().copied());
            Seen { uid: uid.expect("because every message has a UID then"), ..seen }
        });
        let seen = seen.collect();
        assert_eq!(new_uids.next(), None);
        Ok(Self { report, seen })
    }

    pub(crate) fn uids(&self) -> Vec<u32> {
        self.seen.iter().map(|seen| seen.uid.get()).collect()
    }

    /// Returns flags as letters, then keywords.
    pub(crate) fn flags(&self) -> Vec<String> {
        self.seen.iter().map(|seen| self.flags_of(seen)).collect()
    }

    pub(crate) fn flags_of(&self, seen: &Seen) -> String {
        let letters = [
            (Flag::Answered, "A"),
            (Flag::Deleted, "D"),
            (Flag::Flagged, "F"),
            (Flag::Seen, "S"),
            (Flag::Draft, "T"),
            (Flag::Recent, "R"),
        ];
        let set = letters.iter().filter(|(flag, _)| seen.flags.contains(*flag));
        let mut text: String = set.map(|(_, letter)| *letter).collect();
        text.push('-');
        for keyword in self.report.keywords.select(seen.mask) {
            text.push(' ');
            text.push_str(keyword.as_str());
        }
        text
    }

    /// Returns the keywords of a message, sorted.
    pub(crate) fn keywords_of(&self, seen: &Seen) -> Vec<String> {
        let names = self.report.keywords.select(seen.mask);
        let mut names: Vec<String> = names.map(|name| name.as_str().to_owned()).collect();
        names.sort();
        names
    }

    /// Returns the known messages after a scan that started from these.
    pub(crate) fn and(&self, next: Self) -> Self {
        if next.report.reset {
            return next;
        }
        let mut all = self.clone();
        all.seen.retain(|seen| !next.report.expunged.contains(&seen.uid));
        for changed in &next.report.changed {
            let seen = all.seen.iter_mut().find(|seen| seen.uid == changed.uid).unwrap();
            (seen.flags, seen.mask) = (changed.flags, changed.keywords);
        }
        all.seen.extend(next.seen);
        all.report = next.report;
        all
    }
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
        for seen in self.seen.iter().skip(first as usize) {
            let message = KnownMessage {
                uid: seen.uid,
                flags: seen.flags,
                keywords: seen.mask,
                location: seen.location,
                key: seen.key,
                size: seen.size,
            };
            if !visit(&message) {
                break;
            }
        }
        Ok(())
    }
}

/// Messages with the UIDs that the format gave them.
type Found = Vec<(Option<Uid>, Seen)>;

#[derive(Default)]
struct Collect(Mutex<Vec<(u32, Found)>>);

struct Chunk<'a>(u32, Found, &'a Collect);

impl Sinks for Collect {
    fn sink(&self, chunk: u32) -> Box<dyn ScanSink + '_> {
        Box::new(Chunk(chunk, Vec::new(), self))
    }
}

impl ScanSink for Chunk<'_> {
    fn message(&mut self, message: &ScannedMessage<'_>) -> Result<(), SinkError> {
        let Some(Extent { offset, separator_len, header_len, body_len }) =
            message.location.extent()
        else {
            return Err("no span".into());
        };
        let seen = Seen {
            uid: Uid::MIN,
            location: Location::from(Extent { offset, separator_len, header_len, body_len }),
            size: message.size,
            rfc822_size: message.rfc822_size,
            header: message.header.to_vec(),
            date: message.internal_date,
            flags: message.flags,
            mask: message.keywords,
            key: message.key,
        };
        self.1.push((message.uid, seen));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), SinkError> {
        self.2.0.lock().expect("because no sink panics").push((self.0, self.1));
        Ok(())
    }
}

/// Returns an empty ledger.
pub(crate) fn new_ledger() -> Ledger {
    let state: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    state.create_dir("/state".as_ref(), 0o700).unwrap();
    let identity = Identity { id: 1, path: "/mail/box".into(), inode: 1 };
    Ledger::open(state, "/state".as_ref(), &identity, Access::ReadWrite).unwrap()
}
