//! Location of a message in its storage.

/// Location of a message in its storage, as a cache stores it for the backend. Only the backend
/// knows what it means; others pass it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location<'a>(LocationParts<'a>);

/// Parts of a [`Location`], for the backends that make it and the caches that store it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocationParts<'a> {
    /// A message with a name of its own.
    Name(MessageName<'a>),
    /// A stretch of bytes of a storage that has many messages in one file.
    Extent(Extent),
}

/// Name of a message in a storage that names each message, such as a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageName<'a> {
    /// The name.
    pub name: &'a [u8],
    /// A bit that the backend defines. A Maildir sets it for messages in `new`.
    pub in_new: bool,
    /// A number that the backend defines; 0 if there is none. A Maildir recognises a message under
    /// another name by it.
    pub mark: u32,
}

/// Stretch of a storage's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset of the separator (From_ line), in bytes. A backend with several files uses some bits
    /// for the number of the file; [`crate::Shift`] moves offsets.
    pub offset: u64,
    /// Bytes of the separator, its line end included.
    pub separator_len: u32,
    /// Bytes of the header, the blank line included.
    pub header_len: u32,
    /// Bytes of the body as stored, without the separator's blank line.
    pub body_len: u64,
}

impl<'a> Location<'a> {
    /// Returns its parts. Only backends and caches use them.
    pub const fn parts(&self) -> &LocationParts<'a> {
        &self.0
    }

    /// Returns the name of the message, if the storage names messages.
    pub const fn message_name(&self) -> Option<MessageName<'a>> {
        match self.0 {
            LocationParts::Name(name) => Some(name),
            LocationParts::Extent(_) => None,
        }
    }

    /// Returns the stretch of bytes, if the storage has many messages in one.
    pub const fn extent(&self) -> Option<Extent> {
        match self.0 {
            LocationParts::Name(_) => None,
            LocationParts::Extent(extent) => Some(extent),
        }
    }

    /// Returns the offset that errors name, in bytes; 0 if the message has a name.
    pub fn offset(&self) -> u64 {
        self.extent().map_or(0, |extent| extent.offset)
    }

    /// Returns the bytes of the separator before the message; `None` if the storage has none.
    pub fn separator_len(&self) -> Option<u32> {
        self.extent().map(|extent| extent.separator_len)
    }

    /// Returns the location of separator and header alone; `None` if the storage has no separators.
    pub fn without_body(&self) -> Option<Location<'static>> {
        self.extent().map(|extent| Extent { body_len: 0, ..extent }.into())
    }
}

impl<'a> From<MessageName<'a>> for Location<'a> {
    fn from(name: MessageName<'a>) -> Self {
        Self(LocationParts::Name(name))
    }
}

impl From<Extent> for Location<'_> {
    fn from(extent: Extent) -> Self {
        Self(LocationParts::Extent(extent))
    }
}
