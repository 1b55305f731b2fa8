//! The bytes of kept messages; `docs/formats/expunged.md` is their map.

use std::os::unix::ffi::OsStrExt;

use barid_types::{FlagSet, InternalDate, Keyword, Uid, UidValidity};
use barid_vfs::Timestamp;
use barid_vfs::le::{LeReader, u32_at, u64_at};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::{KEPT_SECONDS, KeptForm, KeptFrom, KeptMessage, LeftOut};
use crate::MessageKey;
use crate::limits::PATH_LEN_MAX;

/// The version of the layout that is written.
pub(super) const VERSION: u32 = 3;
/// The older version that can still be read: no message is a link, and the header has no expiry
/// time.
const VERSION_2: u32 = 2;

const HEADER_MAGIC: &[u8; 8] = b"baridEXP";
const MESSAGE_MAGIC: &[u8; 4] = b"EMSG";
const FOOTER_MAGIC: &[u8; 4] = b"EEND";

/// The header without the path.
const HEADER_LEN: usize = 80;
const HEADER_LEN_2: usize = 72;
pub(super) const HEADER_LEN_MAX: usize = HEADER_LEN + PATH_LEN_MAX;
pub(super) const HEAD_LEN: usize = 64;
pub(super) const INDEX_ENTRY_LEN: usize = 16;
pub(super) const FOOTER_LEN: usize = 40;
const FOOTER_LEN_2: usize = 32;
/// Bytes stored instead of the text of a linked message: the modification time of its file.
pub(super) const LINKED_LEN: u64 = 8;

/// Header bit: the expunge continues the one kept before it.
const CONTINUES: u8 = 1;
/// Header bit: the messages were not kept.
const LEFT_OUT: u8 = 2;

/// The result of parsing a header.
pub(super) enum ExpungedHeader {
    /// The mailbox, and the lengths of the header and of the footer in bytes.
    Good(Box<KeptFrom>, u64, usize),
    /// A header of another version.
    Version(u32),
    /// Not a file of kept messages of this mailbox, or damaged.
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
    bytes.extend(from.until.unix_nanos.to_le_bytes());
    bytes.extend(text_hash(&bytes, path).to_le_bytes());
    bytes.extend(path);
    bytes
}

/// Parses the header at the start of `bytes`.
pub(super) fn read_header(bytes: &[u8], id: u128) -> ExpungedHeader {
    let Some(start) = bytes.get(..HEADER_LEN_2) else { return ExpungedHeader::Bad };
    if !start.starts_with(HEADER_MAGIC) {
        return ExpungedHeader::Bad;
    }
    let (fixed_len, footer_len) = match u32_at(start, 8) {
        VERSION => (HEADER_LEN, FOOTER_LEN),
        VERSION_2 => (HEADER_LEN_2, FOOTER_LEN_2),
        version => return ExpungedHeader::Version(version),
    };
    let Some(fixed) = bytes.get(..fixed_len) else { return ExpungedHeader::Bad };
    let len = u32_at(fixed, 12) as usize;
    let path_len = usize::from(u16::from_le_bytes([fixed[50], fixed[51]]));
    let path = bytes.get(fixed_len..len).filter(|path| path.len() == path_len);
    let (checked, checksum) = fixed.split_at(fixed_len - 8);
    let Some(path) = path.filter(|path| u64_at(checksum, 0) == text_hash(checked, path)) else {
        return ExpungedHeader::Bad;
    };
    let kept = Timestamp { unix_nanos: u64_at(fixed, 32).cast_signed() };
    let until = match fixed_len {
        HEADER_LEN => u64_at(fixed, 64).cast_signed(),
        _ => kept.unix_nanos.saturating_add(KEPT_SECONDS.saturating_mul(1_000_000_000)),
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
                kept,
                until: Timestamp { unix_nanos: until },
                continues: fixed[48] & CONTINUES != 0,
                left_out: (fixed[48] & LEFT_OUT != 0).then_some(left_out),
            };
            ExpungedHeader::Good(Box::new(from), len as u64, footer_len)
        }
        _ => ExpungedHeader::Bad,
    }
}

/// The head of a message.
pub(super) struct Head {
    pub(super) uid: Uid,
    key: MessageKey,
    pub(super) message_len: u64,
    internal_date: InternalDate,
    flags: FlagSet,
    keyword_count: u8,
    keywords_len: u16,
    sender_len: u16,
    text_hash: u64,
    form: Form,
}

/// The form of a message's bytes, according to its head.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Here(KeptForm),
    Linked,
}

impl Head {
    /// Returns the bytes of keywords and sender, which precede the message.
    pub(super) fn names_len(&self) -> u64 {
        u64::from(self.keywords_len) + u64::from(self.sender_len)
    }

    /// Returns `true` if the message is kept as a link to its own file.
    pub(super) fn is_linked(&self) -> bool {
        self.form == Form::Linked
    }

    /// Returns the number of bytes that follow keywords and sender.
    pub(super) fn bytes_len(&self) -> u64 {
        if self.is_linked() { LINKED_LEN } else { self.message_len }
    }

    pub(super) fn decode(bytes: &[u8; HEAD_LEN]) -> Option<Self> {
        let good = bytes.starts_with(MESSAGE_MAGIC) && u64_at(bytes, 56) == xxh3_64(&bytes[..56]);
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let uid = Uid::new(u32_at(bytes, 4)).filter(|_| good)?;
        let form = match bytes[52] {
            0 => Form::Here(KeptForm::Message),
            1 => Form::Here(KeptForm::Stored { separator_len: u32_at(bytes, 48) }),
            2 => Form::Here(KeptForm::LeftOut),
            3 => Form::Linked,
            _ => return None,
        };
        Some(Self {
            uid,
            key: MessageKey(u64_at(bytes, 8)),
            message_len: u64_at(bytes, 16),
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

    /// Returns `true` if `text_hash` is the recorded checksum of the names and bytes.
    pub(super) fn is_of(&self, text_hash: u64) -> bool {
        text_hash == self.text_hash
    }

    /// Returns the message if the checksum of `names` and `kept` is right; its text is `bytes` if
    /// given (from a link), else `kept`.
    pub(super) fn message(
        &self,
        names: &[u8],
        kept: Vec<u8>,
        bytes: Option<Vec<u8>>,
    ) -> Option<KeptMessage> {
        let is_whole = self.is_of(text_hash(names, &kept));
        is_whole.then(|| self.named(names, bytes.unwrap_or(kept))).flatten()
    }

    /// Returns the message with these names and bytes, whose checksum the caller has verified.
    /// `None` if the names cannot be parsed.
    pub(super) fn named(&self, names: &[u8], bytes: Vec<u8>) -> Option<KeptMessage> {
        let form = match self.form {
            Form::Here(form) => form,
            Form::Linked => KeptForm::Message,
        };
        let mut take = LeReader(names);
        let mut keywords = Vec::with_capacity(usize::from(self.keyword_count));
        for _ in 0..self.keyword_count {
            let len = take.take(1)?[0];
            let name = std::str::from_utf8(take.take(usize::from(len))?).ok()?;
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
            form,
            bytes,
            large: None,
        })
    }
}

/// Appends a message; for a linked one, the size and modification time of its file.
pub(super) fn put_message(out: &mut Vec<u8>, message: &KeptMessage, linked: Option<&LinkedFile>) {
    let modified = linked.map(|file| file.modified.unix_nanos.to_le_bytes());
    let text = modified.as_ref().map_or(message.bytes.as_slice(), |bytes| bytes);
    let len = linked.map_or(message.bytes.len() as u64, |file| file.size);
    let names = Names::of(message);
    let hash = text_hash(&names.bytes, text);
    put_head(out, (message, &names), (len, hash), linked.is_some());
    out.extend(&names.bytes);
    out.extend(text);
}

/// Keywords and sender of a message.
pub(super) struct Names {
    pub(super) bytes: Vec<u8>,
    keyword_count: u8,
    keywords_len: u16,
}

impl Names {
    pub(super) fn of(message: &KeptMessage) -> Self {
        let mut bytes = Vec::new();
        let count = message.keywords.len().min(usize::from(u8::MAX));
        for keyword in &message.keywords[..count] {
            bytes.push(keyword.as_str().len() as u8);
            bytes.extend(keyword.as_str().as_bytes());
        }
        // At most 255 names of 255 bytes fit in 16 bits.
        let keywords_len = bytes.len() as u16;
        let sender = message.sender.as_deref().unwrap_or_default();
        let sender = if sender.len() <= usize::from(u16::MAX) { sender } else { "" };
        bytes.extend(sender.as_bytes());
        Self { bytes, keyword_count: count as u8, keywords_len }
    }
}

/// Appends the head of a message of `len` bytes; `hash` is the checksum of names and bytes.
pub(super) fn put_head(
    out: &mut Vec<u8>,
    (message, names): (&KeptMessage, &Names),
    (len, hash): (u64, u64),
    is_linked: bool,
) {
    let sender_len = (names.bytes.len() - usize::from(names.keywords_len)) as u16;
    let start = out.len();
    out.extend(MESSAGE_MAGIC);
    out.extend(message.uid.get().to_le_bytes());
    out.extend(message.key.0.to_le_bytes());
    out.extend(len.to_le_bytes());
    out.extend(message.internal_date.unix_seconds.to_le_bytes());
    out.extend(message.internal_date.zone_minutes.to_le_bytes());
    out.extend([message.flags.bits(), names.keyword_count]);
    out.extend(names.keywords_len.to_le_bytes());
    out.extend(sender_len.to_le_bytes());
    out.extend(hash.to_le_bytes());
    let (form, separator_len) = match message.form {
        _ if is_linked => (3, 0),
        KeptForm::Message => (0, 0),
        KeptForm::Stored { separator_len } => (1, separator_len),
        KeptForm::LeftOut => (2, 0),
    };
    out.extend(separator_len.to_le_bytes());
    out.extend([form, 0, 0, 0]);
    let checksum = xxh3_64(&out[start..]);
    out.extend(checksum.to_le_bytes());
}

/// The file of a message that is kept as a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkedFile {
    pub(super) size: u64,
    pub(super) modified: Timestamp,
}

impl LinkedFile {
    /// Decodes the size and modification time of a linked file; `None` if the message is not a
    /// link.
    pub(super) fn decode(head: &Head, bytes: &[u8]) -> Option<Self> {
        let nanos = bytes.try_into().ok().map(i64::from_le_bytes)?;
        let modified = Timestamp { unix_nanos: nanos };
        head.is_linked().then_some(Self { size: head.message_len, modified })
    }
}

fn text_hash(names: &[u8], bytes: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(names);
    hash.update(bytes);
    hash.digest()
}

/// Appends the index entry of a message: its UID and key.
pub(super) fn put_index(out: &mut Vec<u8>, message: &KeptMessage) {
    out.extend(message.uid.get().to_le_bytes());
    out.extend([0; 4]);
    out.extend(message.key.0.to_le_bytes());
}

/// Parses the UIDs and keys of an index; `None` if its checksum is not that of the footer.
pub(super) fn read_index(bytes: &[u8], footer: &ExpungedFooter) -> Option<Vec<(Uid, MessageKey)>> {
    let (entries, _) = bytes.as_chunks::<INDEX_ENTRY_LEN>();
    let entry =
        |bytes: &[u8; 16]| Some((Uid::new(u32_at(bytes, 0))?, MessageKey(u64_at(bytes, 8))));
    let good = xxh3_64(bytes) == footer.index_hash;
    good.then(|| entries.iter().map(entry).collect()).flatten()
}

/// A parsed footer.
#[derive(Debug)]
pub(super) struct ExpungedFooter {
    pub(super) count: u32,
    /// Byte offset at which the messages end and the index begins.
    pub(super) index_at: u64,
    index_hash: u64,
    /// Bytes of the linked files.
    pub(super) linked_bytes: u64,
}

pub(super) fn footer(count: u32, index_at: u64, index: &[u8], linked_bytes: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(FOOTER_LEN);
    bytes.extend(FOOTER_MAGIC);
    bytes.extend(count.to_le_bytes());
    bytes.extend(index_at.to_le_bytes());
    bytes.extend(xxh3_64(index).to_le_bytes());
    bytes.extend(linked_bytes.to_le_bytes());
    bytes.extend(xxh3_64(&bytes).to_le_bytes());
    bytes
}

/// Parses a footer, which is at offset `at` and has the length of the file's version.
pub(super) fn read_footer(bytes: &[u8], at: u64) -> Option<ExpungedFooter> {
    let (checked, checksum) = bytes.split_at_checked(bytes.len().checked_sub(8)?)?;
    let footer = ExpungedFooter {
        count: u32_at(bytes, 4),
        index_at: u64_at(bytes, 8),
        index_hash: u64_at(bytes, 16),
        linked_bytes: if bytes.len() == FOOTER_LEN { u64_at(bytes, 24) } else { 0 },
    };
    let index_len = u64::from(footer.count) * INDEX_ENTRY_LEN as u64;
    let good = bytes.starts_with(FOOTER_MAGIC)
        && u64_at(checksum, 0) == xxh3_64(checked)
        && footer.index_at.checked_add(index_len) == Some(at);
    good.then_some(footer)
}
