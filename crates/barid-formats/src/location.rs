//! Location of the bytes of a message.

/// Location of a message in its mailbox, as the cache stores it for the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location<'a> {
    /// A file of a Maildir.
    File {
        /// Its name, flags included.
        name: &'a [u8],
        /// `true` if it is in `new` rather than `cur`.
        in_new: bool,
        /// A mark by which a Maildir recognises it under another name; 0 if it has none.
        mark: u32,
    },
    /// A stretch of a file that holds many messages.
    Span {
        /// Offset of the separator (From_ line), in bytes.
        offset: u64,
        /// Bytes of the separator line, its line end included.
        separator_len: u32,
        /// Bytes of the header, the blank line included.
        header_len: u32,
        /// Bytes of the body as stored, without the separator's blank line.
        body_len: u64,
    },
}
