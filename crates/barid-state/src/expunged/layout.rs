//! The bytes of kept messages; `docs/formats/expunged.md` is their map.

use barid_types::{FlagSet, InternalDate, Keyword, Uid, UidValidity};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::{KeptFrom, KeptMessage};
use crate::MessageKey;
use crate::bytes::{Take, u32_at, u64_at};

/// The version of the layout.
pub(super) const VERSION: u32 = 1;

const HEADER_MAGIC: &[u8; 8] = b"baridEXP";
const MESSAGE_MAGIC: &[u8; 4] = b"EMSG";
const FOOTER_MAGIC: &[u8; 4] = b"EEND";

pub(super) const HEADER_LEN: usize = 64;
pub(super) const HEAD_LEN: usize = 56;
pub(super) const FOOTER_LEN: usize = 24;

/// What a header says.
pub(super) enum Header {
    Good(KeptFrom),
    /// One of a later version.
    Version(u32),
    /// No such file, or one of another mailbox.
    Bad,
}

pub(super) fn header(id: u128, from: &KeptFrom) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_LEN);
    bytes.extend(HEADER_MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((HEADER_LEN as u32).to_le_bytes());
    bytes.extend(id.to_le_bytes());
    bytes.extend(from.kept.unix_nanos.to_le_bytes());
    bytes.extend(from.uidvalidity.get().to_le_bytes());
    bytes.extend(from.uidnext.get().to_le_bytes());
    bytes.extend([0; 8]);
    bytes.extend(xxh3_64(&bytes).to_le_bytes());
    bytes
}

pub(super) fn read_header(header: &[u8; HEADER_LEN], id: u128) -> Header {
    if !header.starts_with(HEADER_MAGIC) || u64_at(header, 56) != xxh3_64(&header[..56]) {
        return Header::Bad;
    }
    let version = u32_at(header, 8);
    if version != VERSION {
        return Header::Version(version);
    }
    let kept = barid_vfs::Timestamp { unix_nanos: u64_at(header, 32).cast_signed() };
    let numbers = (UidValidity::new(u32_at(header, 40)), Uid::new(u32_at(header, 44)));
    match numbers {
        (Some(uidvalidity), Some(uidnext)) if header[16..32] == id.to_le_bytes() => {
            Header::Good(KeptFrom { uidvalidity, uidnext, kept })
        }
        _ => Header::Bad,
    }
}

/// The head of a message.
pub(super) struct Head {
    pub(super) uid: Uid,
    key: MessageKey,
    pub(super) bytes_len: u64,
    internal_date: InternalDate,
    flags: FlagSet,
    keyword_count: u8,
    keywords_len: u16,
    sender_len: u16,
    text_hash: u64,
}

impl Head {
    /// Bytes of keywords and sender, which come before those of the message.
    pub(super) fn names_len(&self) -> u64 {
        u64::from(self.keywords_len) + u64::from(self.sender_len)
    }

    pub(super) fn decode(bytes: &[u8; HEAD_LEN]) -> Option<Self> {
        let good = bytes.starts_with(MESSAGE_MAGIC) && u64_at(bytes, 48) == xxh3_64(&bytes[..48]);
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let uid = Uid::new(u32_at(bytes, 4)).filter(|_| good)?;
        Some(Self {
            uid,
            key: MessageKey(u64_at(bytes, 8)),
            bytes_len: u64_at(bytes, 16),
            internal_date: InternalDate {
                unix_seconds: u64_at(bytes, 24).cast_signed(),
                zone_minutes: half(32).cast_signed(),
            },
            flags: FlagSet::from_bits(bytes[34]),
            keyword_count: bytes[35],
            keywords_len: half(36),
            sender_len: half(38),
            text_hash: u64_at(bytes, 40),
        })
    }

    /// The message, if `names` and `bytes` are what was kept.
    pub(super) fn message(&self, names: &[u8], bytes: Vec<u8>) -> Option<KeptMessage> {
        if text_hash(names, &bytes) != self.text_hash {
            return None;
        }
        let mut take = Take(names);
        let mut keywords = Vec::with_capacity(usize::from(self.keyword_count));
        for _ in 0..self.keyword_count {
            let len = take.bytes(1)?[0];
            let name = std::str::from_utf8(take.bytes(usize::from(len))?).ok()?;
            keywords.push(Keyword::new(name)?);
        }
        let sender = std::str::from_utf8(take.0).ok()?;
        Some(KeptMessage {
            uid: self.uid,
            key: self.key,
            internal_date: self.internal_date,
            flags: self.flags,
            keywords,
            sender: (!sender.is_empty()).then(|| sender.to_owned()),
            bytes,
        })
    }
}

/// Appends all of a message.
pub(super) fn put_message(out: &mut Vec<u8>, message: &KeptMessage) {
    let mut names = Vec::new();
    let count = message.keywords.len().min(usize::from(u8::MAX));
    for keyword in &message.keywords[..count] {
        names.push(keyword.as_str().len() as u8);
        names.extend(keyword.as_str().as_bytes());
    }
    // At most 255 names of 255 bytes fit in 16 bits.
    let keywords_len = names.len() as u16;
    let sender = message.sender.as_deref().unwrap_or_default();
    let sender = if sender.len() <= usize::from(u16::MAX) { sender } else { "" };
    names.extend(sender.as_bytes());
    let start = out.len();
    out.extend(MESSAGE_MAGIC);
    out.extend(message.uid.get().to_le_bytes());
    out.extend(message.key.0.to_le_bytes());
    out.extend((message.bytes.len() as u64).to_le_bytes());
    out.extend(message.internal_date.unix_seconds.to_le_bytes());
    out.extend(message.internal_date.zone_minutes.to_le_bytes());
    out.extend([message.flags.bits(), count as u8]);
    out.extend(keywords_len.to_le_bytes());
    out.extend((sender.len() as u16).to_le_bytes());
    out.extend(text_hash(&names, &message.bytes).to_le_bytes());
    let checksum = xxh3_64(&out[start..]);
    out.extend(checksum.to_le_bytes());
    out.extend(&names);
    out.extend(&message.bytes);
}

fn text_hash(names: &[u8], bytes: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(names);
    hash.update(bytes);
    hash.digest()
}

pub(super) fn footer(count: u32, len: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(FOOTER_LEN);
    bytes.extend(FOOTER_MAGIC);
    bytes.extend(count.to_le_bytes());
    bytes.extend(len.to_le_bytes());
    bytes.extend(xxh3_64(&bytes).to_le_bytes());
    bytes
}

/// How many messages there are, if this is the footer of a file whose messages end at `end`.
pub(super) fn read_footer(bytes: &[u8; FOOTER_LEN], end: u64) -> Option<u32> {
    let good = bytes.starts_with(FOOTER_MAGIC)
        && u64_at(bytes, 16) == xxh3_64(&bytes[..16])
        && u64_at(bytes, 8) == end;
    good.then(|| u32_at(bytes, 4))
}
