//! The fixed-size part of a message (`docs/formats/cache.md`, "Core row").

use barid_mailbox::{Extent, Location, LocationParts, MessageName, ScannedMessage};
use barid_state::MessageKey;
use barid_types::{Flag, FlagSet, InternalDate, KeywordMask, ModSeq, SentDate, Uid};
use barid_vfs::le::{u16_at, u32_at, u64_at};

/// Position of bytes in the heap: block and offset in it. For a record in a key-value store: its
/// number and the salt of its checksum. In the log: unused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeapRef {
    pub(crate) block: u32,
    pub(crate) offset: u32,
}

/// Returns the number of the record of a row, if records are numbered.
pub(crate) fn record_number(row: &[u8]) -> u32 {
    HeapRef::from_bits(u64_at(row, 88)).block
}

impl HeapRef {
    fn from_bits(bits: u64) -> Self {
        Self { block: (bits >> 32) as u32, offset: bits as u32 }
    }
    fn bits(self) -> u64 {
        u64::from(self.block) << 32 | u64::from(self.offset)
    }
}

/// Location of a message, without the bytes of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowLocation {
    /// The parts of a [`barid_mailbox::MessageName`] but the name, which
    /// [`crate::Snapshot::location`] returns.
    Name { in_new: bool, mark: u32 },
    /// A stretch of the storage's bytes.
    Extent(Extent),
}

/// The fixed-size facts of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Core {
    /// Its UID.
    pub uid: Uid,
    /// Its flags.
    pub flags: FlagSet,
    /// Its keywords, by slots of [`crate::Meta::keywords`].
    pub keywords: KeywordMask,
    /// Mod-sequence of its last change.
    pub modseq: ModSeq,
    /// Its arrival time.
    pub internal_date: InternalDate,
    /// Its sent time (RFC 5256 §2.2), or the internal date if it has none.
    pub sent_date: SentDate,
    /// `true` if the sent date comes from the message itself.
    pub sent_date_own: bool,
    /// Bytes as stored.
    pub size: u64,
    /// RFC822.SIZE, if known.
    pub rfc822_size: Option<u64>,
    /// Length of the header in the scan, in bytes.
    pub header_len: u32,
    pub(crate) location: RowLocation,
    /// Its message key.
    pub key: MessageKey,
    /// `true` if the message has more of some header field than is stored: the field is longer, or
    /// occurs again.
    pub cut: bool,
    pub(crate) heap: HeapRef,
    pub(crate) name: HeapRef,
    pub(crate) name_len: u32,
}

/// Bytes of a row.
pub(crate) const CORE_ROW_LEN: usize = 96;
/// Offset of the UID in a row.
pub(crate) const UID_AT: usize = 0;
/// Offset of the size in a row.
const SIZE_AT: usize = 48;
/// Offset of the message key in a row.
const KEY_AT: usize = 56;
/// Offset of the length of the header in a row.
const HEADER_LEN_AT: usize = 80;
/// Offset of the modseq in a row.
pub(crate) const MODSEQ_AT: usize = 40;

/// Returns the UID, the message key, the size and the length of the header of a row.
#[inline]
pub(crate) fn identity_of(row: &[u8]) -> (u32, MessageKey, u64, u32) {
    let key = MessageKey(u64_at(row, KEY_AT));
    (u32_at(row, UID_AT), key, u64_at(row, SIZE_AT), u32_at(row, HEADER_LEN_AT))
}

const BIT_SENT_OWN: u8 = 1;
const BIT_RFC822_SIZE: u8 = 2;
const BIT_FILE: u8 = 4;
const BIT_IN_NEW: u8 = 8;
const BIT_CUT: u8 = 16;

impl Core {
    /// Returns the modseq of the message with these flags and keywords: `next` if they differ from
    /// those before. \Recent is of a session, and does not count (RFC 9051 §2.3.2).
    pub(crate) fn modseq_with(
        &self,
        flags: FlagSet,
        keywords: KeywordMask,
        next: ModSeq,
    ) -> ModSeq {
        if self.has_marks(flags, keywords) { self.modseq } else { next }
    }

    /// Returns `true` if the message has these flags and keywords, apart from \Recent.
    pub(crate) fn has_marks(&self, flags: FlagSet, keywords: KeywordMask) -> bool {
        let lasting = |flags: FlagSet| flags.without(Flag::Recent);
        lasting(self.flags) == lasting(flags) && self.keywords == keywords
    }

    /// Returns the facts of a message just scanned; values that are known only at the end of the
    /// scan get their least value.
    pub(crate) fn of(message: &ScannedMessage<'_>, sent: Option<SentDate>) -> Self {
        let date = message.internal_date;
        let fallback =
            SentDate { unix_seconds: date.unix_seconds, zone_minutes: date.zone_minutes };
        let (location, name_len) = match *message.location.parts() {
            LocationParts::Name(MessageName { name, in_new, mark }) => {
                (RowLocation::Name { in_new, mark }, name.len() as u32)
            }
            LocationParts::Extent(extent) => (RowLocation::Extent(extent), 0),
        };
        Self {
            uid: message.uid.unwrap_or(Uid::MIN),
            flags: message.flags,
            keywords: message.keywords,
            modseq: ModSeq::default(),
            internal_date: date,
            sent_date: sent.unwrap_or(fallback),
            sent_date_own: sent.is_some(),
            size: message.size,
            rfc822_size: message.rfc822_size,
            header_len: match location {
                RowLocation::Extent(extent) => extent.header_len,
                RowLocation::Name { .. } => u32::try_from(message.header.len()).unwrap_or(u32::MAX),
            },
            location,
            key: message.key,
            cut: false,
            heap: HeapRef::default(),
            name: HeapRef::default(),
            name_len,
        }
    }

    /// Returns the location of the message if it has no name there; otherwise
    /// [`crate::Snapshot::location`] does.
    pub fn nameless_location(&self) -> Option<Location<'static>> {
        match self.location {
            RowLocation::Name { .. } => None,
            RowLocation::Extent(extent) => Some(extent.into()),
        }
    }

    fn bits(&self) -> u8 {
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        let location = match self.location {
            RowLocation::Name { in_new, .. } => BIT_FILE | bit(in_new, BIT_IN_NEW),
            RowLocation::Extent(_) => 0,
        };
        location
            | bit(self.sent_date_own, BIT_SENT_OWN)
            | bit(self.rfc822_delta().is_some(), BIT_RFC822_SIZE)
            | bit(self.cut, BIT_CUT)
    }

    fn rfc822_delta(&self) -> Option<i32> {
        let delta = i128::from(self.rfc822_size?) - i128::from(self.size);
        i32::try_from(delta).ok()
    }

    /// Encodes the row.
    pub(crate) fn encode(&self) -> [u8; CORE_ROW_LEN] {
        let mut row = [0; CORE_ROW_LEN];
        let (span_offset, length, body_len) = match self.location {
            RowLocation::Name { mark, .. } => (self.name.bits(), self.name_len, mark.into()),
            RowLocation::Extent(Extent { offset, separator_len, body_len, .. }) => {
                (offset, separator_len, body_len)
            }
        };
        row[0..4].copy_from_slice(&self.uid.get().to_le_bytes());
        row[4] = self.flags.bits();
        row[5] = self.bits();
        row[6..8].copy_from_slice(&self.internal_date.zone_minutes.to_le_bytes());
        row[8..16].copy_from_slice(&self.internal_date.unix_seconds.to_le_bytes());
        row[16..24].copy_from_slice(&self.sent_date.unix_seconds.to_le_bytes());
        row[24..26].copy_from_slice(&self.sent_date.zone_minutes.to_le_bytes());
        row[28..32].copy_from_slice(&length.to_le_bytes());
        row[32..40].copy_from_slice(&self.keywords.0.to_le_bytes());
        row[40..48].copy_from_slice(&self.modseq.get().to_le_bytes());
        row[48..56].copy_from_slice(&self.size.to_le_bytes());
        row[56..64].copy_from_slice(&self.key.0.to_le_bytes());
        row[64..72].copy_from_slice(&span_offset.to_le_bytes());
        row[72..80].copy_from_slice(&body_len.to_le_bytes());
        row[80..84].copy_from_slice(&self.header_len.to_le_bytes());
        row[84..88].copy_from_slice(&self.rfc822_delta().unwrap_or(0).to_le_bytes());
        row[88..96].copy_from_slice(&self.heap.bits().to_le_bytes());
        row
    }

    /// Decodes a row of [`CORE_ROW_LEN`] bytes; `None` for an impossible value.
    #[inline]
    pub(crate) fn decode(row: &[u8]) -> Option<Self> {
        let row: &[u8; CORE_ROW_LEN] = row.try_into().ok()?;
        let i16_at = |at| u16_at(row, at).cast_signed();
        let i64_at = |at| u64_at(row, at).cast_signed();
        let bits = row[5];
        let header_len = u32_at(row, HEADER_LEN_AT);
        let is_file = bits & BIT_FILE != 0;
        let location = if is_file {
            RowLocation::Name { in_new: bits & BIT_IN_NEW != 0, mark: u32_at(row, 72) }
        } else {
            RowLocation::Extent(Extent {
                offset: u64_at(row, 64),
                separator_len: u32_at(row, 28),
                header_len,
                body_len: u64_at(row, 72),
            })
        };
        let size = u64_at(row, SIZE_AT);
        let delta = i64::from(u32_at(row, 84).cast_signed());
        Some(Self {
            uid: Uid::new(u32_at(row, UID_AT))?,
            flags: FlagSet::from_bits(row[4]),
            keywords: KeywordMask(u64_at(row, 32)),
            modseq: ModSeq::new(u64_at(row, MODSEQ_AT))?,
            internal_date: InternalDate { unix_seconds: i64_at(8), zone_minutes: i16_at(6) },
            sent_date: SentDate { unix_seconds: i64_at(16), zone_minutes: i16_at(24) },
            sent_date_own: bits & BIT_SENT_OWN != 0,
            size,
            rfc822_size: match bits & BIT_RFC822_SIZE {
                0 => None,
                _ => Some(size.checked_add_signed(delta)?),
            },
            header_len,
            location,
            key: MessageKey(u64_at(row, KEY_AT)),
            cut: bits & BIT_CUT != 0,
            heap: HeapRef::from_bits(u64_at(row, 88)),
            name: if is_file { HeapRef::from_bits(u64_at(row, 64)) } else { HeapRef::default() },
            name_len: if is_file { u32_at(row, 28) } else { 0 },
        })
    }
}
