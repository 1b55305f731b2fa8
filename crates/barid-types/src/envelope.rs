//! The envelope of a message (RFC 9051 §7.5.2, ENVELOPE).

/// One address of an address list, or the start or end of a group.
///
/// As in RFC 9051: a group starts with an address whose `host` is `None` and whose `mailbox` is the
/// group's name, and ends with one where both are `None`. Texts are raw header bytes, encoded words
/// not decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// The display name.
    pub name: Option<Vec<u8>>,
    /// The obsolete source route (`@a,@b`).
    pub route: Option<Vec<u8>>,
    /// The local part, or the name of a group.
    pub mailbox: Option<Vec<u8>>,
    /// The domain.
    pub host: Option<Vec<u8>>,
}

/// The header fields that name a message, as bytes of the header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    /// `Date`, unfolded.
    pub date: Option<Vec<u8>>,
    /// `Subject`, unfolded.
    pub subject: Option<Vec<u8>>,
    /// `From`.
    pub from: Vec<Address>,
    /// `Sender`, or `From` where absent.
    pub sender: Vec<Address>,
    /// `Reply-To`, or `From` where absent.
    pub reply_to: Vec<Address>,
    /// `To`.
    pub to: Vec<Address>,
    /// `Cc`.
    pub cc: Vec<Address>,
    /// `Bcc`.
    pub bcc: Vec<Address>,
    /// `In-Reply-To`, unfolded.
    pub in_reply_to: Option<Vec<u8>>,
    /// `Message-ID`, unfolded.
    pub message_id: Option<Vec<u8>>,
}
