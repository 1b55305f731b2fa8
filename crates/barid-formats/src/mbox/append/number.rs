//! UIDs for appended messages, in the mailbox itself.
//!
//! Messages get an `X-UID` if all before them have theirs in the file, and if the last UID in
//! `X-IMAPbase` (or `X-IMAP`) has ten digits, so that it can be raised in place. Otherwise, such as
//! when another program is in the middle of numbering, the next scan numbers them. A UID is never
//! assigned twice, so the last UID must be raised in one write: all digits that change must lie in
//! one sector of the disk.
//!
//! The first messages of an empty mailbox get theirs, and the first of them an `X-IMAPbase` with
//! the UIDVALIDITY of the ledger, if some messages bring UIDs with them, if keywords are to be
//! listed, or if later messages are to get UIDs without a scan. The field is right after the From_
//! line, where its digits are in the first sector of the file.

use barid_mailbox::{ChangeSet, Error, Known, NewMessage, Result, SyncContext, sink_error};
use barid_message::fields;
use barid_state::Ledger;
use barid_types::{Keyword, KeywordTable, Uid, UidValidity};
use barid_vfs::{File, FileStamp, OpenOptions};

use super::UnseenAppends;
use crate::file_stamps::FileStamps;
use crate::given::{GivenUids, given_uids};
use crate::mbox::MboxMailbox;
use crate::mbox::change::{Raise, is_portable};
use crate::mbox::file_end::size_without_nuls;
use crate::mbox::layout::{BASE_NUMBER_MAX, KEYWORDS_MAX, MboxScanState, SECTOR_LEN};
use crate::mbox::lock::MboxWriteLocks;
use crate::mbox::scan::key_of;
use crate::mbox::status::{self, Owned};

/// State of a locked file, taken from the last scan because its size is unchanged, or because only
/// our own messages were appended since.
#[derive(Clone, Copy, Debug)]
pub(in crate::mbox) struct Believed {
    /// The notes of that scan, or of a change since.
    pub(in crate::mbox) notes: MboxScanState,
    /// The UID of the last message, which is to be checked; `None` if there is none, or it is our
    /// own.
    pub(in crate::mbox) last: Option<Uid>,
    /// The lowest UID not assigned yet.
    pub(in crate::mbox) uidnext: Uid,
}

impl Believed {
    /// Returns the known state if the file still has the inode and size that it had then, or is as
    /// our own appends have left it; `None` also if nothing is known. A message that was delivered
    /// and expunged meanwhile leaves both unchanged, and its UID in the ledger.
    pub(in crate::mbox) fn of(
        mailbox: &MboxMailbox,
        locks: &MboxWriteLocks,
        known: &dyn Known,
        ledger: Option<&Ledger>,
    ) -> Result<Option<Self>> {
        let metadata = locks.file().metadata().map_err(Error::at(&mailbox.path))?;
        let as_it_was = FileStamps::of_known(known).is_some_and(|stamp| {
            let file = stamp.files[0];
            (file.inode, file.size) == (metadata.inode, metadata.size)
        });
        let now = mailbox.stamp_of(FileStamp::from(&metadata));
        let unseen = UnseenAppends::of(mailbox, known, &now).filter(|_| !as_it_was);
        let notes = MboxScanState::from_bytes(known.state()).filter(|notes| {
            notes.variant == mailbox.variant && notes.profile == mailbox.options.profile
        });
        let is_believed = as_it_was || unseen.is_some();
        let (true, Some(notes), Some(uidnext)) = (is_believed, notes, known.uidnext()) else {
            return Ok(None);
        };
        if known.uidvalidity() != notes.base_validity {
            return Ok(None);
        }
        let mut last = None;
        if unseen.is_none()
            && let Some(before) = known.len().checked_sub(1)
        {
            sink_error(known.visit(before, &mut |message| {
                last = Some(message.uid);
                false
            }))?;
        }
        let same = ledger.filter(|ledger| ledger.uidvalidity() == known.uidvalidity());
        let given = same.and_then(Ledger::uidnext).unwrap_or(uidnext);
        let ours = unseen.map_or(uidnext, |unseen| unseen.uidnext);
        Ok(Some(Self { notes, last, uidnext: uidnext.max(given).max(ours) }))
    }
}

/// Content of the `X-IMAPbase` that the first message of an empty mailbox gets, so that UIDs and
/// the names of keywords are in the file from the beginning.
#[derive(Clone, Debug)]
pub(in crate::mbox) struct FirstBase {
    validity: UidValidity,
    uidnext: Uid,
    keywords: Vec<Keyword>,
}

impl FirstBase {
    /// Returns the field for an empty mailbox if the change only appends messages and lists
    /// keywords, and there are keywords to list, or messages with a UID of their own, or messages
    /// that nobody is to look at.
    pub(in crate::mbox) fn of(
        mailbox: &MboxMailbox,
        locks: &MboxWriteLocks,
        (changes, messages): (&ChangeSet, &[NewMessage<'_>]),
        context: &SyncContext<'_>,
    ) -> Result<Option<Self>> {
        let only_keywords =
            ChangeSet { keywords: changes.keywords.clone(), ..ChangeSet::default() };
        let is_wished =
            !changes.keywords.is_empty() || messages.iter().any(|message| message.uid.is_some());
        let is_wished = is_wished || context.unseen;
        let is_new = messages.first().is_some_and(|first| first.stored.is_none());
        let may = is_wished && is_new && *changes == only_keywords && locks.excludes_sessions();
        let known = context.known;
        let (true, Some(validity)) = (may && known.is_empty(), known.uidvalidity()) else {
            return Ok(None);
        };
        let size = locks.file().metadata().map_err(Error::at(&mailbox.path))?.size;
        let size = size_without_nuls(locks.file(), size).map_err(Error::at(&mailbox.path))?;
        let ledger = context.ledger.as_ref();
        let is_same = ledger.is_none_or(|ledger| ledger.uidvalidity() == Some(validity));
        if size > 0 || !is_same || validity.get() > BASE_NUMBER_MAX {
            return Ok(None);
        }
        let given = ledger.and_then(|ledger| ledger.uidnext());
        let uidnext = known.uidnext().max(given).unwrap_or(Uid::MIN);
        let mut keywords: Vec<Keyword> = Vec::new();
        let of_messages = messages.iter().flat_map(|message| &message.keywords);
        for keyword in changes.keywords.iter().chain(of_messages) {
            let is_new = is_portable(keyword) && !keywords.contains(keyword);
            if is_new && keywords.len() < KEYWORDS_MAX {
                keywords.push(keyword.clone());
            }
        }
        Ok(Some(Self { validity, uidnext, keywords }))
    }
}

/// The UIDs of appended messages.
#[derive(Debug)]
pub(super) struct Numbers {
    uids: Vec<Uid>,
    last: LastUidField,
}

/// Place of the last UID of the mailbox.
#[derive(Debug)]
enum LastUidField {
    /// An existing field, whose digits are raised.
    Raised(Raise),
    /// A new field of the first message, which is this.
    First(String),
}

impl Numbers {
    /// Numbers messages after the known ones; `None` if they must be left to the next scan.
    ///
    /// Costs two reads: the headers of the first and the last message.
    pub(super) fn plan(
        mailbox: &MboxMailbox,
        locks: &MboxWriteLocks,
        believed: &Believed,
        messages: &[NewMessage<'_>],
    ) -> Result<Option<Self>> {
        let notes = &believed.notes;
        if notes.base_validity.is_none() || !locks.excludes_sessions() {
            return Ok(None);
        }
        let read = |offset, len| read_header(mailbox, locks.file(), offset, len);
        let (header, owned) = read(notes.base_offset, notes.base_len)?;
        let base = owned.base(&header).filter(|base| Some(base.validity) == notes.base_validity);
        let (Some(base), Some((digits_at, digits))) = (base, last_uid(&header)) else {
            return Ok(None);
        };
        if let Some(last) = believed.last {
            let offset = notes.last_offset + u64::from(notes.last_separator_len);
            let (header, owned) = read(offset, notes.last_header_len)?;
            let is_numbered = owned.uid == Some(last.get()) && last.get() <= base.uid_last;
            if !is_numbered || key_of(&header) != notes.last_key {
                return Ok(None);
            }
        }
        let next = base.uid_last.checked_add(1).map(|next| next.max(believed.uidnext.get()));
        let given = next.and_then(|next| given_uids(next, messages)).unwrap_or_default();
        let GivenUids { uids, last } = given;
        if uids.is_empty() {
            return Ok(None);
        }
        let offset = notes.base_offset + digits_at as u64;
        let raise = raise(offset, digits, format!("{last:010}").as_bytes());
        Ok(raise.map(|raise| Self { uids, last: LastUidField::Raised(raise) }))
    }

    /// Numbers the first messages of a mailbox.
    pub(super) fn first(base: &FirstBase, messages: &[NewMessage<'_>]) -> Option<Self> {
        let GivenUids { uids, last } = given_uids(base.uidnext.get(), messages)?;
        let mut field = format!("X-IMAPbase: {} {last:010}", base.validity);
        for keyword in &base.keywords {
            field.push(' ');
            field.push_str(keyword.as_str());
        }
        field.push('\n');
        Some(Self { uids, last: LastUidField::First(field) })
    }

    /// Returns the UID of a message.
    pub(super) fn uid(&self, index: usize) -> Option<Uid> {
        self.uids.get(index).copied()
    }

    /// Returns the field that the first message gets, if it gets one.
    pub(super) fn base(&self) -> Option<&str> {
        match &self.last {
            LastUidField::First(field) => Some(field),
            LastUidField::Raised { .. } => None,
        }
    }

    /// Returns the change of the last UID, unless that comes with the first message.
    pub(super) fn raise(&self) -> Option<Raise> {
        match &self.last {
            LastUidField::Raised(raise) => Some(*raise),
            LastUidField::First(_) => None,
        }
    }
}

/// Returns the keywords of messages to be appended that `X-IMAPbase` lacks and has room for.
/// Dovecot deletes the keywords of a message if one of them is not in the list.
///
/// Reads the first header if any message has keywords.
pub(in crate::mbox) fn unlisted_keywords(
    mailbox: &MboxMailbox,
    locks: &MboxWriteLocks,
    believed: &Believed,
    messages: &[NewMessage<'_>],
) -> Result<Vec<Keyword>> {
    let mut wanted = messages.iter().flat_map(|message| &message.keywords).peekable();
    let notes = &believed.notes;
    if wanted.peek().is_none() || notes.base_validity.is_none() {
        return Ok(Vec::new());
    }
    let (header, owned) = read_header(mailbox, locks.file(), notes.base_offset, notes.base_len)?;
    let base = owned.base(&header).filter(|base| Some(base.validity) == notes.base_validity);
    let Some(base) = base else { return Ok(Vec::new()) };
    let mut unlisted: Vec<Keyword> = Vec::new();
    let room = KEYWORDS_MAX.saturating_sub(base.keywords.names().len());
    for keyword in wanted {
        let is_new = base.keywords.slot(keyword).is_none() && !unlisted.contains(keyword);
        if is_new && is_portable(keyword) && unlisted.len() < room {
            unlisted.push(keyword.clone());
        }
    }
    Ok(unlisted)
}

/// Returns the keywords that `X-IMAPbase` lists, read without a lock.
pub(in crate::mbox) fn listed_keywords(
    mailbox: &MboxMailbox,
    known: &dyn Known,
) -> Result<KeywordTable> {
    let Some(notes) = MboxScanState::from_bytes(known.state()) else {
        return Ok(KeywordTable::default());
    };
    if notes.base_validity.is_none() {
        return Ok(KeywordTable::default());
    }
    let file = mailbox.vfs.open(&mailbox.path, OpenOptions::READ);
    let file = file.map_err(Error::at(&mailbox.path))?;
    let (header, owned) = read_header(mailbox, &*file, notes.base_offset, notes.base_len)?;
    Ok(owned.base(&header).map_or_else(|| known.keywords().clone(), |base| base.keywords))
}

fn read_header(
    mailbox: &MboxMailbox,
    file: &dyn File,
    offset: u64,
    len: u32,
) -> Result<(Vec<u8>, Owned)> {
    let mut header = vec![0; len as usize];
    let read = file.read_full_at(&mut header, offset);
    let len = read.map_err(Error::at(&mailbox.path))?;
    header.truncate(len);
    let mut owned = Owned::default();
    let found = status::head(&header, true, mailbox.separators(), &mut owned);
    header.truncate(found.map_or(0, |(len, _)| len));
    Ok((header, owned))
}

/// Returns the change of the digits at `offset`; `None` if it crosses a sector boundary.
fn raise(offset: u64, old: &[u8], new: &[u8]) -> Option<Raise> {
    let first = old.iter().zip(new).position(|(old, new)| old != new)?;
    let last = old.iter().zip(new).rposition(|(old, new)| old != new)?;
    let sector = |at: usize| (offset + at as u64) / SECTOR_LEN;
    let (old, new) = (old.try_into().ok()?, new.try_into().ok()?);
    (sector(first) == sector(last)).then_some(Raise { offset, old, new })
}

/// Returns the ten digits of the last UID in the header of the first message, with their offset.
fn last_uid(header: &[u8]) -> Option<(usize, &[u8])> {
    let is_base = |name: &[u8]| {
        name.eq_ignore_ascii_case(b"X-IMAPbase") || name.eq_ignore_ascii_case(b"X-IMAP")
    };
    let field = fields(header).find(|field| is_base(field.name))?;
    let is_space = |byte: &u8| byte.is_ascii_whitespace();
    let mut at = field.offset + memchr::memchr(b':', &header[field.offset..field.end])? + 1;
    let mut word = &header[at..at];
    for _ in 0..2 {
        at += word.len();
        at += header[at..field.end].iter().take_while(|byte| is_space(byte)).count();
        let len = header[at..field.end].iter().take_while(|byte| !is_space(byte)).count();
        word = &header[at..at + len];
    }
    (word.len() == 10 && word.iter().all(u8::is_ascii_digit)).then_some((at, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: &str, expected: Option<(usize, &str)>) {
        let found = last_uid(header.as_bytes());
        assert_eq!(found, expected.map(|(at, digits)| (at, digits.as_bytes())), "{header:?}");
    }

    #[test]
    fn ten_digits_are_found_where_they_stand() {
        check("X-IMAPbase: 1700000000 0000000007 a\n\n", Some((23, "0000000007")));
        check("A: b\nx-imap:1 0000000007\n", Some((14, "0000000007")));
        check("X-IMAPbase: 1\n 0000000007\n", Some((15, "0000000007")));
        check("X-IMAPbase: 1700000000 7\n", None);
        check("X-IMAPbase: 1700000000 000000000x\n", None);
        check("X-IMAPbase: 1700000000\n", None);
        check("X-IMAPbase:\n", None);
        check("A: 1 0000000007\n", None);
    }

    #[test]
    fn what_changes_is_in_one_sector() {
        let is_raised =
            |offset, old: &str, new: &str| raise(offset, old.as_bytes(), new.as_bytes()).is_some();
        assert!(is_raised(20, "0000000009", "0000000010"));
        assert!(!is_raised(503, "0000000009", "0000000010"));
        assert!(is_raised(504, "0000000009", "0000000010"));
        assert!(is_raised(503, "0000000009", "0000000109"));
        assert!(is_raised(502, "0000000009", "0000000010"));
    }
}
