//! The properties of a mailbox format.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// A mailbox format, which is its properties; two are equal if they have the same name.
#[derive(Clone, Copy)]
pub struct Format(&'static FormatProperties);

/// Properties of a mailbox format, for all code outside its backend.
#[derive(Debug)]
pub struct FormatProperties {
    /// Name, as `status` prints it and as written before the colon of a forced format.
    pub name: &'static str,
    /// Arrangement of the messages.
    pub layout: MessageLayout,
    /// Arrangement of the mailboxes below one.
    pub subfolders: Subfolders,
    /// Folders of the mailbox itself that contain its messages.
    pub message_folders: &'static [&'static str],
    /// Its other folders.
    pub work_folders: &'static [&'static str],
    /// Returns `true` for a name that a file of a message can have, and a subfolder cannot.
    pub is_message_name: fn(&str) -> bool,
    /// `true` if lines end with CRLF in every mailbox of the format.
    pub has_crlf: bool,
    /// `true` if flags, keywords and UID of a message are in fields of its header.
    pub has_status_fields: bool,
    /// `true` if a From_ line before each message names its sender.
    pub has_senders: bool,
    /// `true` if lines that begin with `From ` are quoted, and reading does not undo it.
    pub keeps_quotes: bool,
    /// `true` if internal dates have a time zone.
    pub keeps_zone: bool,
    /// `true` if an empty mailbox stores its UIDVALIDITY. Otherwise the ledger does: an mbox stores
    /// none before its first message, an MH folder never does.
    pub holds_uidvalidity: bool,
    /// `true` if no program changes the file of a message in place, so that two mailboxes can have
    /// one file.
    pub has_fixed_files: bool,
    /// `true` if mailboxes of the format can only be read, and none can be created.
    pub is_read_only: bool,
    /// Number of the form in which a message is stored, as kept expunges record it. An undo writes
    /// the stored bytes back unchanged if the mailbox still has this number, and otherwise composes
    /// the message anew.
    pub stored_form: u8,
}

/// Arrangement of the messages of a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageLayout {
    /// One file with all messages.
    OneFile,
    /// A folder whose files contain many messages each.
    DataFiles,
    /// A folder with one file for each message.
    FilePerMessage,
}

/// Arrangement of the mailboxes below a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subfolders {
    /// It cannot contain mailboxes.
    None,
    /// They are folders in its folder.
    Nested,
    /// They are folders in its folder, or all levels below it are in names like `.A.B` (Maildir++).
    Dotted,
}

impl FormatProperties {
    /// Makes the properties that most formats of a layout have, for a format with a name: LF, no
    /// data on a message in its header, nested subfolders of folders.
    pub const fn new(name: &'static str, layout: MessageLayout) -> Self {
        Self {
            name,
            layout,
            subfolders: if matches!(layout, MessageLayout::OneFile) {
                Subfolders::None
            } else {
                Subfolders::Nested
            },
            message_folders: &[],
            work_folders: &[],
            is_message_name: |_| false,
            has_crlf: false,
            has_status_fields: false,
            has_senders: false,
            keeps_quotes: false,
            keeps_zone: false,
            holds_uidvalidity: false,
            has_fixed_files: false,
            is_read_only: false,
            stored_form: 0,
        }
    }
}

impl Format {
    /// Makes the format with these properties.
    pub const fn new(properties: &'static FormatProperties) -> Self {
        Self(properties)
    }

    /// Returns the name, as `status` prints it and as written before the colon of a forced format.
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// Returns `true` if a mailbox is a folder rather than a file.
    pub const fn is_folder(self) -> bool {
        !matches!(self.0.layout, MessageLayout::OneFile)
    }

    /// Returns `true` if every message is a file of its own.
    pub const fn has_message_files(self) -> bool {
        matches!(self.0.layout, MessageLayout::FilePerMessage)
    }
}

impl Deref for Format {
    type Target = FormatProperties;

    fn deref(&self) -> &FormatProperties {
        self.0
    }
}

impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Format {}

impl Hash for Format {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}
