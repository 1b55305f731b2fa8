//! The bytes of a ledger; `docs/formats/ledger.md` is their map.

use barid_types::{ModSeq, Uid};
use barid_vfs::le::{u32_at, u64_at};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::{LedgerEntry, MessageKey, Vanished};
use crate::limits::VANISHED_READ_MAX;

/// The version of the layout.
pub(super) const VERSION: u32 = 3;

/// The layouts of the versions of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LedgerLayout {
    /// Version 1: every byte is stored once.
    V1,
    /// Version 2: every block is stored twice, and a footer has more fields.
    V2,
    /// Version 3: vanished UIDs are recorded, and a footer has fields for them.
    V3,
}

impl LedgerLayout {
    /// Returns its version number in a header and in footers.
    fn version(self) -> u32 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
            Self::V3 => VERSION,
        }
    }

    /// Returns the length of a footer in bytes.
    pub(super) fn footer_len(self) -> usize {
        match self {
            Self::V1 => 144,
            Self::V2 => 168,
            Self::V3 => FOOTER_LEN,
        }
    }

    /// Returns the number of copies of each byte.
    pub(super) fn copies(self) -> usize {
        match self {
            Self::V1 => 1,
            Self::V2 | Self::V3 => 2,
        }
    }
}

const HEADER_MAGIC: &[u8; 8] = b"baridLDG";
pub(super) const BATCH_MAGIC: &[u8; 4] = b"BTCH";
/// The first bytes of a footer.
pub(super) const FOOTER_MAGIC: &[u8; 8] = b"baridEND";

pub(super) const HEADER_LEN: u64 = 64;
pub(super) const BATCH_HEAD_LEN: usize = 8;
pub(super) const FOOTER_LEN: usize = 184;
/// The end of every footer, so that no sector of a whole batch is all zeros.
const FOOTER_END: &[u8; 8] = b"BaridEnd";
/// Bytes of a footer before the fields that version 1 does not have.
const NOTICES_AT: usize = 136;
/// Bytes of a footer before the fields that versions 1 and 2 do not have, except for the count.
const VANISHED_AT: usize = 152;
/// Length of an entry in bytes.
pub(super) const ENTRY_LEN: usize = 12;
/// Length of a range of vanished UIDs in bytes.
pub(super) const VANISHED_LEN: usize = 16;
pub(super) const RECORD_HEAD_LEN: usize = 8;

pub(super) const ENTRIES: u32 = 1;
pub(super) const EXPUNGED: u32 = 2;
pub(super) const REPLACED: u32 = 3;
pub(super) const PATH: u32 = 4;
pub(super) const VANISHED: u32 = 5;

/// The numbers in the footer of the last batch, which are all that opening needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    /// Number of the batch, from 1; 0 before the first.
    pub(super) sequence: u64,
    /// The UIDVALIDITY; 0 if there is none.
    pub(super) uidvalidity: u32,
    /// The highest UIDVALIDITY ever.
    pub(super) uidvalidity_max: u32,
    /// UIDNEXT; 0 if there is none.
    pub(super) uidnext: u32,
    /// The highest UID pushed under this UIDVALIDITY.
    pub(super) uid_last: u32,
    pub(super) modseq: u64,
    /// Number of live entries; a hint for compaction.
    pub(super) live: u64,
    /// Offset in the stream of the batch from which entries are read: the last replacement.
    pub(super) entries_offset: u64,
    pub(super) inode: u64,
    pub(super) fingerprint: u64,
    pub(super) path_hash: u64,
    /// Offset in the stream of the bytes of the path.
    pub(super) path_offset: u64,
    pub(super) path_len: u32,
    /// Bits of [`DAMAGED`], [`LOST`] and [`RENUMBERED`]: the fate of an earlier file.
    pub(super) notices: u32,
    /// The UIDVALIDITY that was lost with an earlier file; 0 if it is unknown.
    pub(super) lost_uidvalidity: u32,
    /// The random number in the second name of an earlier file; 0 if none is kept.
    pub(super) aside: u32,
    /// The mod-sequence up to which vanished UIDs may be missing.
    pub(super) vanished_floor: u64,
    /// Offset in the stream of the batch from which vanished UIDs are read.
    pub(super) vanished_offset: u64,
    /// Number of ranges of vanished UIDs from there on.
    pub(super) vanished_count: u32,
}

/// Notice: an earlier file was damaged.
pub(super) const DAMAGED: u32 = 1;
/// Notice: the UIDVALIDITY was lost, and the mailbox has no new one yet.
pub(super) const LOST: u32 = 2;
/// Notice: the messages have new UIDs.
pub(super) const RENUMBERED: u32 = 4;

/// A footer as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LedgerFooter {
    pub(super) summary: Summary,
    pub(super) batch_offset: u64,
    pub(super) payload_len: u32,
    /// Checksum of the batch's head and payload.
    pub(super) payload_hash: u64,
}

impl LedgerFooter {
    /// Returns the end of the batch, as an offset in the stream.
    pub(super) fn end(&self, layout: LedgerLayout) -> u64 {
        let len = BATCH_HEAD_LEN as u64 + u64::from(self.payload_len) + layout.footer_len() as u64;
        self.batch_offset.saturating_add(len)
    }

    /// Decodes a footer; `None` if it is damaged, or not a footer of this ledger.
    pub(super) fn decode(bytes: &[u8], layout: LedgerLayout, id: u128) -> Option<Self> {
        let rest = bytes.get(..layout.footer_len())?;
        let rest = match layout {
            LedgerLayout::V1 => rest,
            LedgerLayout::V2 | LedgerLayout::V3 => rest.strip_suffix(FOOTER_END)?,
        };
        let (body, hash) = rest.split_at(rest.len() - 8);
        let good = body.starts_with(FOOTER_MAGIC)
            && u32_at(body, 8) == layout.version()
            && body[16..32] == id.to_le_bytes()
            && u64_at(hash, 0) == xxh3_64(body);
        let more = body.get(NOTICES_AT..NOTICES_AT + 16);
        let vanished = body.get(VANISHED_AT..VANISHED_AT + 16);
        let modseq = u64_at(body, 64);
        good.then(|| Self {
            payload_len: u32_at(body, 12),
            batch_offset: u64_at(body, 40),
            payload_hash: u64_at(body, 128),
            summary: Summary {
                sequence: u64_at(body, 32),
                uidvalidity: u32_at(body, 48),
                uidvalidity_max: u32_at(body, 52),
                uidnext: u32_at(body, 56),
                uid_last: u32_at(body, 60),
                modseq,
                live: u64_at(body, 72),
                entries_offset: u64_at(body, 80),
                inode: u64_at(body, 88),
                fingerprint: u64_at(body, 96),
                path_hash: u64_at(body, 104),
                path_offset: u64_at(body, 112),
                path_len: u32_at(body, 120),
                notices: more.map_or(0, |more| u32_at(more, 0)),
                lost_uidvalidity: more.map_or(0, |more| u32_at(more, 4)),
                aside: more.map_or(0, |more| u32_at(more, 8)),
                // Earlier versions recorded nothing.
                vanished_floor: vanished.map_or(modseq, |at| u64_at(at, 0)),
                vanished_offset: vanished.map_or(0, |at| u64_at(at, 8)),
                vanished_count: more.map_or(0, |more| u32_at(more, 12)),
            },
        })
    }

    pub(super) fn encode(&self, id: u128) -> [u8; FOOTER_LEN] {
        let summary = &self.summary;
        let mut bytes = Vec::with_capacity(FOOTER_LEN);
        bytes.extend(FOOTER_MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.payload_len.to_le_bytes());
        bytes.extend(id.to_le_bytes());
        bytes.extend(summary.sequence.to_le_bytes());
        bytes.extend(self.batch_offset.to_le_bytes());
        for number in
            [summary.uidvalidity, summary.uidvalidity_max, summary.uidnext, summary.uid_last]
        {
            bytes.extend(number.to_le_bytes());
        }
        for number in [
            summary.modseq,
            summary.live,
            summary.entries_offset,
            summary.inode,
            summary.fingerprint,
            summary.path_hash,
            summary.path_offset,
            u64::from(summary.path_len),
            self.payload_hash,
        ] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(summary.notices.to_le_bytes());
        bytes.extend(summary.lost_uidvalidity.to_le_bytes());
        bytes.extend(summary.aside.to_le_bytes());
        bytes.extend(summary.vanished_count.to_le_bytes());
        bytes.extend(summary.vanished_floor.to_le_bytes());
        bytes.extend(summary.vanished_offset.to_le_bytes());
        bytes.extend(xxh3_64(&bytes).to_le_bytes());
        bytes.extend(FOOTER_END);
        bytes.try_into().expect("because the fields above add up to a footer")
    }
}

/// Returns the header of a ledger.
pub(super) fn header(id: u128, created_nanos: i64) -> Vec<u8> {
    let mut bytes = HEADER_MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((HEADER_LEN as u32).to_le_bytes());
    bytes.extend(id.to_le_bytes());
    bytes.extend(created_nanos.to_le_bytes());
    bytes.extend([0; 16]);
    bytes.extend(xxh3_64(&bytes).to_le_bytes());
    bytes
}

/// A parsed header of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LedgerHeader {
    /// A ledger of this mailbox.
    Ours(LedgerLayout),
    /// A ledger of another version.
    Version(u32),
    /// Anything else.
    Foreign,
}

impl LedgerHeader {
    pub(super) fn decode(bytes: &[u8], id: u128) -> Self {
        if bytes.len() < HEADER_LEN as usize || !bytes.starts_with(HEADER_MAGIC) {
            return Self::Foreign;
        }
        if u64_at(bytes, 56) != xxh3_64(&bytes[..56]) {
            return Self::Foreign;
        }
        let is_ours = bytes[16..32] == id.to_le_bytes();
        match u32_at(bytes, 8) {
            1 if is_ours => Self::Ours(LedgerLayout::V1),
            2 if is_ours => Self::Ours(LedgerLayout::V2),
            VERSION if is_ours => Self::Ours(LedgerLayout::V3),
            1..=VERSION => Self::Foreign,
            version => Self::Version(version),
        }
    }
}

/// Returns the length of the payload in bytes if `head` begins a batch.
pub(super) fn payload_len(head: &[u8]) -> Option<u32> {
    (head.len() >= BATCH_HEAD_LEN && head.starts_with(BATCH_MAGIC)).then(|| u32_at(head, 4))
}

/// Returns a hasher for [`hash`] of bytes in pieces.
pub(super) fn hasher() -> Xxh3 {
    Xxh3::new()
}

/// Returns the checksum of a batch's head and payload, or of a path.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// The records to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The entries.
    Entries,
    /// The vanished UIDs.
    Vanished,
}

/// The result of all records of one kind.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    wanted: Wanted,
    pub(super) entries: Vec<LedgerEntry>,
    pub(super) vanished: Vec<Vanished>,
}

impl Contents {
    pub(super) fn new(wanted: Wanted) -> Self {
        Self { wanted, entries: Vec::new(), vanished: Vec::new() }
    }

    /// Applies items of a record; `None` if they are malformed.
    fn apply(&mut self, kind: u32, items: &[u8]) -> Option<()> {
        match (self.wanted, kind) {
            (Wanted::Entries, ENTRIES) => apply_entries(items, &mut self.entries),
            (Wanted::Entries, EXPUNGED) => {
                apply_expunged(items, &mut self.entries);
                Some(())
            }
            (Wanted::Vanished, VANISHED) => apply_vanished(items, &mut self.vanished),
            _ => Some(()),
        }
    }
}

/// Applies the records of a verified payload; `None` if they are malformed.
pub(super) fn apply(payload: &[u8], contents: &mut Contents) -> Option<()> {
    let mut records = Records::default();
    let applied = records.apply(payload, contents)?;
    (applied == payload.len() && records.is_between()).then_some(())
}

/// A parser of records that arrive in pieces.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// The kind of an unfinished record, and the number of its bytes that are missing.
    at_hand: Option<(u32, u64)>,
}

impl Records {
    /// Applies the whole items at the start of `bytes`; returns the number of bytes used, or `None`
    /// if they are malformed.
    pub(super) fn apply(&mut self, bytes: &[u8], contents: &mut Contents) -> Option<usize> {
        let mut rest = bytes;
        loop {
            let Some((kind, left)) = self.at_hand else {
                let Some((head, items)) = rest.split_at_checked(RECORD_HEAD_LEN) else { break };
                let kind = u32_at(head, 0);
                let len = u64::from(u32_at(head, 4)) * item_len(kind)? as u64;
                if kind == REPLACED {
                    contents.entries.clear();
                }
                (self.at_hand, rest) = ((len > 0).then_some((kind, len)), items);
                continue;
            };
            let len = left.min(rest.len() as u64) as usize;
            let (items, after) = rest.split_at(len - len % item_len(kind)?);
            if items.is_empty() {
                break;
            }
            contents.apply(kind, items)?;
            let left = left - items.len() as u64;
            (self.at_hand, rest) = ((left > 0).then_some((kind, left)), after);
        }
        Some(bytes.len() - rest.len())
    }

    /// Returns `true` between two records.
    pub(super) fn is_between(&self) -> bool {
        self.at_hand.is_none()
    }
}

/// Returns the length in bytes of an item of a record; `None` for an unknown kind.
fn item_len(kind: u32) -> Option<usize> {
    match kind {
        ENTRIES => Some(ENTRY_LEN),
        EXPUNGED => Some(8),
        REPLACED => Some(0),
        PATH => Some(1),
        VANISHED => Some(VANISHED_LEN),
        _ => None,
    }
}

fn apply_entries(data: &[u8], entries: &mut Vec<LedgerEntry>) -> Option<()> {
    let mut last = entries.last().map_or(0, |entry| entry.uid.get());
    for item in data.chunks_exact(ENTRY_LEN) {
        let uid = Uid::new(u32_at(item, 0)).filter(|uid| uid.get() > last)?;
        last = uid.get();
        entries.push(LedgerEntry { uid, key: MessageKey(u64_at(item, 4)) });
    }
    Some(())
}

fn apply_expunged(data: &[u8], entries: &mut Vec<LedgerEntry>) {
    let mut ranges = data.chunks_exact(8).map(|item| (u32_at(item, 0), u32_at(item, 4)));
    let mut range = ranges.next();
    let begin = entries.partition_point(|entry| range.is_some_and(|r| entry.uid.get() < r.0));
    let mut kept = begin;
    for at in begin..entries.len() {
        let uid = entries[at].uid.get();
        while range.is_some_and(|(_, last)| last < uid) {
            range = ranges.next();
        }
        if range.is_none_or(|(first, _)| uid < first) {
            entries[kept] = entries[at];
            kept += 1;
        }
    }
    entries.truncate(kept);
}

fn apply_vanished(data: &[u8], vanished: &mut Vec<Vanished>) -> Option<()> {
    for item in data.chunks_exact(VANISHED_LEN) {
        let (first, last) = (Uid::new(u32_at(item, 8))?, Uid::new(u32_at(item, 12))?);
        let modseq = ModSeq::new(u64_at(item, 0))?;
        if first > last || vanished.len() >= VANISHED_READ_MAX {
            return None;
        }
        vanished.push(Vanished { modseq, first, last });
    }
    Some(())
}
