//! A message with other flags or another position, reported while a change is planned.

use barid_mailbox::{Extent, MovedMessage};
use barid_types::{FlagSet, KeywordMask, ModSeq, Uid};
use barid_vfs::le::{PutLe, u32_at, u64_at};

use crate::core_row::{Core, RowLocation};
use crate::error::{Error, Result, ScanFault};
use crate::log::ChangedPlace;

/// Length in bytes of a message in a spool.
pub(crate) const RESTATED_LEN: usize = 40;

/// Bit of the flags of a message in a spool that has a position.
const HAS_EXTENT: u32 = 1 << 8;

/// The new state of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Restated {
    pub(crate) uid: Uid,
    pub(crate) flags: FlagSet,
    pub(crate) keywords: KeywordMask,
    /// `None` if the message is where its neighbours are.
    extent: Option<Extent>,
}

impl Restated {
    pub(crate) fn of(message: &MovedMessage) -> Result<Self> {
        let MovedMessage { uid, flags, keywords, location } = *message;
        let extent = match location {
            Some(location) => Some(location.extent().ok_or(Error::Scan(ScanFault::NoSpan))?),
            None => None,
        };
        Ok(Self { uid, flags, keywords, extent })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let has_extent = if self.extent.is_some() { HAS_EXTENT } else { 0 };
        let none = Extent { offset: 0, separator_len: 0, header_len: 0, body_len: 0 };
        let Extent { offset, separator_len, header_len, body_len } = self.extent.unwrap_or(none);
        out.put_u32(self.uid.get());
        out.put_u32(u32::from(self.flags.bits()) | has_extent);
        out.put_u64(self.keywords.0);
        out.put_u32(separator_len);
        out.put_u32(header_len);
        out.put_u64(offset);
        out.put_u64(body_len);
    }

    /// Decodes the result of [`Restated::encode`].
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let extent = Extent {
            separator_len: u32_at(bytes, 16),
            header_len: u32_at(bytes, 20),
            offset: u64_at(bytes, 24),
            body_len: u64_at(bytes, 32),
        };
        Some(Self {
            uid: Uid::new(u32_at(bytes, 0))?,
            flags: FlagSet::from_bits(bytes[4]),
            keywords: KeywordMask(u64_at(bytes, 8)),
            extent: (u32_at(bytes, 4) & HAS_EXTENT != 0).then_some(extent),
        })
    }

    /// Returns `true` if flags and keywords equal those of `core`.
    pub(crate) fn keeps_flags(&self, core: &Core) -> bool {
        (self.flags, self.keywords) == (core.flags, core.keywords)
    }

    /// Returns the new position; `None` if the message is where its neighbours are.
    pub(crate) fn place(&self, physical: u32) -> Option<ChangedPlace> {
        let Extent { offset, separator_len, header_len, body_len } = self.extent?;
        Some(ChangedPlace { physical, separator_len, offset, header_len, body_len })
    }

    /// Updates flags and keywords of a core; `modseq` applies if they differ, apart from \Recent.
    pub(crate) fn flags_in(&self, core: &mut Core, modseq: ModSeq) {
        if !self.keeps_flags(core) {
            core.modseq = core.modseq_with(self.flags, self.keywords, modseq);
            (core.flags, core.keywords) = (self.flags, self.keywords);
        }
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
