//! A message in a segment, beside its terms.

const OPEN: u8 = 1;
const MORE: u8 = 2;
const ATTACHMENTS: u8 = 4;
const TEXTS: u8 = 8;
const UNREAD: u8 = 16;
const TEXTS_OPEN: u8 = 32;

/// A message in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doc {
    /// Digest of the message, as the caller computes it.
    pub digest: u64,
    /// `true` if not all of its terms are there, so that it is a candidate of every search.
    pub is_open: bool,
    /// `true` if it has a field that is not among its texts, as the caller says.
    pub has_more: bool,
    /// The texts of its attachments.
    pub attachments: AttachmentTexts,
}

/// Coverage of the texts of the attachments of a message. Their file names are always there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttachmentTexts {
    /// It has no attachments.
    #[default]
    None,
    /// Some are not there.
    Missing,
    /// All that can be read are there, as the programs of [`crate::Segment::reader`] read them.
    There {
        /// `true` if not all of their terms are there, so that the message is a candidate of every
        /// search in attachments.
        is_open: bool,
        /// `true` if one of them could not be read.
        has_unread: bool,
    },
}

impl Doc {
    pub(crate) fn bits(&self) -> u8 {
        let when = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        let attachments = match self.attachments {
            AttachmentTexts::None => 0,
            AttachmentTexts::Missing => ATTACHMENTS,
            AttachmentTexts::There { is_open, has_unread } => {
                ATTACHMENTS | TEXTS | when(is_open, TEXTS_OPEN) | when(has_unread, UNREAD)
            }
        };
        when(self.is_open, OPEN) | when(self.has_more, MORE) | attachments
    }

    pub(crate) fn of_bits(digest: u64, bits: u8) -> Self {
        let has = |bit: u8| bits & bit != 0;
        let attachments = match (has(ATTACHMENTS), has(TEXTS)) {
            (false, _) => AttachmentTexts::None,
            (true, false) => AttachmentTexts::Missing,
            (true, true) => {
                AttachmentTexts::There { is_open: has(TEXTS_OPEN), has_unread: has(UNREAD) }
            }
        };
        Self { digest, is_open: has(OPEN), has_more: has(MORE), attachments }
    }
}
