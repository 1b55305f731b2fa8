//! The costs of search keys.

/// The data of a message that a key needs, in ascending order of cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cost {
    /// Fixed-size facts.
    Facts,
    /// Header fields that caches keep.
    Fields,
    /// The message, where its header or its length decides.
    Message,
    /// The text of the whole message.
    Text,
    /// The texts of its attachments, which programs for documents extract.
    Attachments,
}

impl Cost {
    pub(crate) const ALL: [Self; 5] =
        [Self::Facts, Self::Fields, Self::Message, Self::Text, Self::Attachments];
}
