//! Data about the mailbox as a whole (`docs/formats/cache.md`, "Metadata").

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use barid_mailbox::Stamp;
use barid_types::{Keyword, KeywordTable, ModSeq, Uid, UidValidity};
use barid_vfs::le::{LeReader, PutLe};

/// Data about the mailbox as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The path at the time of the scan.
    pub path: PathBuf,
    /// The inode at that time.
    pub inode: u64,
    /// The name of its format, from the caller.
    pub format: String,
    /// The stamp of the mailbox that everything here describes.
    pub stamp: Stamp,
    /// The format's own notes.
    pub state: Vec<u8>,
    /// The UIDVALIDITY.
    pub uidvalidity: UidValidity,
    /// The lowest unassigned UID.
    pub uidnext: Uid,
    /// The highest modseq of any message or expunge.
    pub highest_modseq: ModSeq,
    /// The keywords; their slots are the bits of [`crate::Core::keywords`].
    pub keywords: KeywordTable,
    /// Number of messages with \Recent.
    pub recent: u32,
    /// Number of messages without \Seen.
    pub unseen: u32,
    /// Bytes of the mailbox on disk.
    pub size_bytes: u64,
    /// `true` if only the tail of the mailbox was read: data about the rest must be verified when
    /// it is fetched.
    pub tail_verified: bool,
    /// A random number that changes whenever physical rows are renumbered.
    pub generation: u64,
}

const BIT_TAIL_VERIFIED: u32 = 1;

impl Meta {
    /// Encodes the data without the generation, which is stored elsewhere.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(512 + self.state.len());
        out.extend_from_slice(&self.stamp.to_bytes());
        out.put_u32(self.uidvalidity.get());
        out.put_u32(self.uidnext.get());
        out.put_u64(self.highest_modseq.get());
        out.put_u64(self.size_bytes);
        out.put_u32(self.recent);
        out.put_u32(self.unseen);
        out.put_u32(if self.tail_verified { BIT_TAIL_VERIFIED } else { 0 });
        out.put_u64(self.inode);
        out.put_bytes(self.path.as_os_str().as_bytes());
        out.put_bytes(self.format.as_bytes());
        out.put_bytes(&self.state);
        let names: Vec<&str> = self.keywords.names().iter().map(Keyword::as_str).collect();
        out.put_bytes(names.join("\0").as_bytes());
        out
    }

    /// Decodes the result of [`Meta::encode`]; `None` for impossible values.
    pub(crate) fn decode(bytes: &[u8], generation: u64) -> Option<Self> {
        let mut reader = LeReader(bytes);
        let stamp = Stamp::from_bytes(reader.take(Stamp::LEN)?.try_into().ok()?);
        let uidvalidity = UidValidity::new(reader.u32()?)?;
        let uidnext = Uid::new(reader.u32()?)?;
        let highest_modseq = ModSeq::new(reader.u64()?)?;
        let size_bytes = reader.u64()?;
        let (recent, unseen, bits) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let inode = reader.u64()?;
        let path = PathBuf::from(OsStr::from_bytes(reader.bytes()?));
        let format = String::from_utf8(reader.bytes()?.to_vec()).ok()?;
        let state = reader.bytes()?.to_vec();
        let names = std::str::from_utf8(reader.bytes()?).ok()?;
        let mut keywords = KeywordTable::default();
        for name in names.split('\0').filter(|name| !name.is_empty()) {
            keywords.intern(&Keyword::new(name)?).ok()?;
        }
        Some(Self {
            path,
            inode,
            format,
            stamp,
            state,
            uidvalidity,
            uidnext,
            highest_modseq,
            keywords,
            recent,
            unseen,
            size_bytes,
            tail_verified: bits & BIT_TAIL_VERIFIED != 0,
            generation,
        })
    }
}
