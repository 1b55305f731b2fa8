//! A message with other flags or another position, reported while a change is planned.

use barid_mailbox::{Extent, MovedMessage};
use barid_types::{FlagSet, KeywordMask, ModSeq, Uid};
use barid_vfs::le::{PutLe, u32_at, u64_at};

use crate::core_row::{Core, RowLocation};
use crate::error::{Error, Result, ScanFault};
use crate::log::ChangedPlace;

/// Length in bytes of a message in a spool.
pub(crate) const RESTATED_LEN: usize = 40;

/// The new state of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Restated {
    pub(crate) uid: Uid,
    pub(crate) flags: FlagSet,
    pub(crate) keywords: KeywordMask,
    separator_len: u32,
    offset: u64,
    header_len: u32,
    body_len: u64,
}

impl Restated {
    pub(crate) fn of(message: &MovedMessage) -> Result<Self> {
        let MovedMessage { uid, flags, keywords, location } = *message;
        let Some(Extent { offset, separator_len, header_len, body_len }) = location.extent() else {
            return Err(Error::Scan(ScanFault::NoSpan));
        };
        Ok(Self { uid, flags, keywords, separator_len, offset, header_len, body_len })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.uid.get());
        out.put_u32(u32::from(self.flags.bits()));
        out.put_u64(self.keywords.0);
        out.put_u32(self.separator_len);
        out.put_u32(self.header_len);
        out.put_u64(self.offset);
        out.put_u64(self.body_len);
    }

    /// Decodes the result of [`Restated::encode`].
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            uid: Uid::new(u32_at(bytes, 0))?,
            flags: FlagSet::from_bits(bytes[4]),
            keywords: KeywordMask(u64_at(bytes, 8)),
            separator_len: u32_at(bytes, 16),
            header_len: u32_at(bytes, 20),
            offset: u64_at(bytes, 24),
            body_len: u64_at(bytes, 32),
        })
    }

    /// Returns `true` if flags and keywords equal those of `core`.
    pub(crate) fn keeps_flags(&self, core: &Core) -> bool {
        (self.flags, self.keywords) == (core.flags, core.keywords)
    }

    pub(crate) fn place(&self, physical: u32) -> ChangedPlace {
        let Self { separator_len, offset, header_len, body_len, .. } = *self;
        ChangedPlace { physical, separator_len, offset, header_len, body_len }
    }

    /// Updates a core; `modseq` applies if flags or keywords differ.
    pub(crate) fn state_in(&self, core: &mut Core, modseq: ModSeq) {
        if !self.keeps_flags(core) {
            (core.flags, core.keywords, core.modseq) = (self.flags, self.keywords, modseq);
        }
        self.place(0).state_in(core);
    }
}

impl ChangedPlace {
    /// Moves a message of a file to this position. Its size changes by the growth of header and
    /// body.
    pub(crate) fn state_in(&self, core: &mut Core) {
        let Self { separator_len, offset, header_len, body_len, .. } = *self;
        if let RowLocation::Extent(Extent {
            header_len: header_before,
            body_len: body_before,
            ..
        }) = core.location
        {
            let before = body_before.wrapping_add(u64::from(header_before));
            let now = body_len.wrapping_add(u64::from(header_len));
            core.size = core.size.wrapping_sub(before).wrapping_add(now);
            core.location =
                RowLocation::Extent(Extent { offset, separator_len, header_len, body_len });
            core.header_len = header_len;
        }
    }
}
