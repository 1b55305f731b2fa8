//! The bytes of kept messages; `docs/formats/expunged.md` is their map.

use std::os::unix::ffi::OsStrExt;

use barid_types::{FlagSet, InternalDate, Keyword, Uid, UidValidity};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::{KeptForm, KeptFrom, KeptMessage, LeftOut};
use crate::MessageKey;
use crate::bytes::{Take, u32_at, u64_at};
use crate::limits::PATH_LEN_MAX;

/// The version of the layout.
pub(super) const VERSION: u32 = 2;

const HEADER_MAGIC: &[u8; 8] = b"baridEXP";
const MESSAGE_MAGIC: &[u8; 4] = b"EMSG";
const FOOTER_MAGIC: &[u8; 4] = b"EEND";

/// The header without the path.
pub(super) const HEADER_LEN: usize = 72;
pub(super) const HEADER_LEN_MAX: usize = HEADER_LEN + PATH_LEN_MAX;
pub(super) const HEAD_LEN: usize = 64;
pub(super) const INDEX_ENTRY_LEN: usize = 16;
pub(super) const FOOTER_LEN: usize = 32;

/// The bit of what goes on with the expunge before.
const CONTINUES: u8 = 1;
/// The bit of what was not kept.
const LEFT_OUT: u8 = 2;

/// What a header says.
pub(super) enum Header {
    Good(Box<KeptFrom>, u64),
    /// One of another version.
    Version(u32),
    /// No such file.
    Bad,
}

pub(super) fn header(id: u128, from: &KeptFrom) -> Vec<u8> {
    let path = from.path.as_os_str().as_bytes();
    let path = if path.len() <= PATH_LEN_MAX { path } else { b"" };
    let left_out = from.left_out.unwrap_or_default();
    let continues = if from.continues { CONTINUES } else { 0 };
    let bits = continues | if from.left_out.is_some() { LEFT_OUT } else { 0 };
    let mut bytes = Vec::with_capacity(HEADER_LEN + path.len());
    bytes.extend(HEADER_MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(((HEADER_LEN + path.len()) as u32).to_le_bytes());
    bytes.extend(id.to_le_bytes());
    bytes.extend(from.kept.unix_nanos.to_le_bytes());
    bytes.extend(from.uidvalidity.get().to_le_bytes());
    bytes.extend(from.uidnext.get().to_le_bytes());
    bytes.extend([bits, from.format]);
    bytes.extend((path.len() as u16).to_le_bytes());
    bytes.extend(left_out.messages.to_le_bytes());
    bytes.extend(left_out.bytes.to_le_bytes());
    bytes.extend(text_hash(&bytes, path).to_le_bytes());
    bytes.extend(path);
    bytes
}

/// Reads the header at the start of `bytes`; tells its length, too.
pub(super) fn read_header(bytes: &[u8], id: u128) -> Header {
    let Some(fixed) = bytes.get(..HEADER_LEN) else { return Header::Bad };
    if !fixed.starts_with(HEADER_MAGIC) {
        return Header::Bad;
    }
    let version = u32_at(fixed, 8);
    if version != VERSION {
        return Header::Version(version);
    }
    let len = u32_at(fixed, 12) as usize;
    let path_len = usize::from(u16::from_le_bytes([fixed[50], fixed[51]]));
    let path = bytes.get(HEADER_LEN..len).filter(|path| path.len() == path_len);
    let Some(path) = path.filter(|path| u64_at(fixed, 64) == text_hash(&fixed[..64], path)) else {
        return Header::Bad;
    };
    let left_out = LeftOut { messages: u32_at(fixed, 52), bytes: u64_at(fixed, 56) };
    let numbers = (UidValidity::new(u32_at(fixed, 40)), Uid::new(u32_at(fixed, 44)));
    match numbers {
        (Some(uidvalidity), Some(uidnext)) if fixed[16..32] == id.to_le_bytes() => {
            let from = KeptFrom {
                path: std::ffi::OsStr::from_bytes(path).into(),
                format: fixed[49],
                uidvalidity,
                uidnext,
                kept: barid_vfs::Timestamp { unix_nanos: u64_at(fixed, 32).cast_signed() },
                continues: fixed[48] & CONTINUES != 0,
                left_out: (fixed[48] & LEFT_OUT != 0).then_some(left_out),
            };
            Header::Good(Box::new(from), len as u64)
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
    form: KeptForm,
}

impl Head {
    /// Bytes of keywords and sender, which come before those of the message.
    pub(super) fn names_len(&self) -> u64 {
        u64::from(self.keywords_len) + u64::from(self.sender_len)
    }

    pub(super) fn decode(bytes: &[u8; HEAD_LEN]) -> Option<Self> {
        let good = bytes.starts_with(MESSAGE_MAGIC) && u64_at(bytes, 56) == xxh3_64(&bytes[..56]);
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let uid = Uid::new(u32_at(bytes, 4)).filter(|_| good)?;
        let form = match bytes[52] {
            0 => KeptForm::Message,
            1 => KeptForm::Stored { separator_len: u32_at(bytes, 48) },
            2 => KeptForm::LeftOut,
            _ => return None,
        };
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
            form,
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
            form: self.form,
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
    let (form, separator_len) = match message.form {
        KeptForm::Message => (0, 0),
        KeptForm::Stored { separator_len } => (1, separator_len),
        KeptForm::LeftOut => (2, 0),
    };
    out.extend(separator_len.to_le_bytes());
    out.extend([form, 0, 0, 0]);
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

/// Appends the place of a message in the index.
pub(super) fn put_index(out: &mut Vec<u8>, message: &KeptMessage) {
    out.extend(message.uid.get().to_le_bytes());
    out.extend([0; 4]);
    out.extend(message.key.0.to_le_bytes());
}

/// UIDs and keys of an index, if it is what the footer says.
pub(super) fn read_index(bytes: &[u8], footer: &Footer) -> Option<Vec<(Uid, MessageKey)>> {
    let (entries, _) = bytes.as_chunks::<INDEX_ENTRY_LEN>();
    let entry =
        |bytes: &[u8; 16]| Some((Uid::new(u32_at(bytes, 0))?, MessageKey(u64_at(bytes, 8))));
    let good = xxh3_64(bytes) == footer.index_hash;
    good.then(|| entries.iter().map(entry).collect()).flatten()
}

/// What a footer says.
#[derive(Debug)]
pub(super) struct Footer {
    pub(super) count: u32,
    /// Where the index begins, and the messages end.
    pub(super) index_at: u64,
    index_hash: u64,
}

pub(super) fn footer(count: u32, index_at: u64, index: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(FOOTER_LEN);
    bytes.extend(FOOTER_MAGIC);
    bytes.extend(count.to_le_bytes());
    bytes.extend(index_at.to_le_bytes());
    bytes.extend(xxh3_64(index).to_le_bytes());
    bytes.extend(xxh3_64(&bytes).to_le_bytes());
    bytes
}

/// The footer that begins at `at`.
pub(super) fn read_footer(bytes: &[u8; FOOTER_LEN], at: u64) -> Option<Footer> {
    let footer = Footer {
        count: u32_at(bytes, 4),
        index_at: u64_at(bytes, 8),
        index_hash: u64_at(bytes, 16),
    };
    let index_len = u64::from(footer.count) * INDEX_ENTRY_LEN as u64;
    let good = bytes.starts_with(FOOTER_MAGIC)
        && u64_at(bytes, 24) == xxh3_64(&bytes[..24])
        && footer.index_at.checked_add(index_len) == Some(at);
    good.then_some(footer)
}
