//! Appending messages.
//!
//! Written messages can be read by all three programs named in `from_line.rs`: they have a From_
//! line of a form that all accept, and the owned fields at the end of the header as c-client writes
//! them. Owned fields and the `Content-Length` that a message came with are dropped, as in Dovecot.
//!
//! **Order of writing.** With all locks held: (1) a journal that lists what will be appended
//! (`change/intent.rs`), `fsync`; its folder, `fsync`, unless the first made its name durable
//! ([`File::syncs_name`]); (2) the bytes missing at the end of the file, the messages and, where
//! they get UIDs (`number.rs`), the raised last UID of `X-IMAPbase`; `fsync`, which is the commit
//! point. Before that the first From_ line of an empty file is made durable, or a crash could leave
//! a file that no program accepts as a mailbox. Then the journal is removed, without waiting for
//! the disk. A crash before (2) leaves the old file. A crash during (2) leaves parts of the
//! appended bytes after the old file, and the next opening removes those that are not a complete
//! message (`change/mend.rs`), even if others have delivered after them. An error cuts the file
//! back to its old size at once. If no journal can be written at all, the first From_ line and the
//! last UID are made durable first, too, and a message that a crash leaves incomplete stays. NULs
//! at the end belong to no message, and the next append cuts them off.
//!
//! **Line ends.** If the first line of the file ends with CRLF, all written lines do, including
//! those of messages that came with LF. In any other file a message keeps its line ends.
//!
//! **UIDs.** A crash or an error after the last UID was raised wastes the UIDs up to it and no
//! more: they were never reported, and none is assigned again. The raised last UID and the `X-UID`
//! fields become durable by the same `fsync`; if a crash keeps complete messages without the
//! raised number, recovery writes it (`change/mend.rs`). Without a journal the raised number is
//! made durable first.

mod compose;
mod number;
mod unseen;

use std::cell::Cell;
use std::io;
use std::path::Path;

#[cfg(test)]
use barid_mailbox::Known;
use barid_mailbox::{Error, NewMessage, Result};
use barid_types::{InternalDate, Uid};
use barid_vfs::File;

pub use self::compose::write_message;
use self::compose::{Composed, Form, UidHeader, write_numbered};
use self::number::Numbers;
pub(super) use self::number::{Believed, FirstBase, listed_keywords, unlisted_keywords};
pub(super) use self::unseen::UnseenAppends;
use super::change::{AppendJournal, IntentBuilder, Raise};
use super::file_end::size_without_nuls;
use super::layout::{LARGE_LEN_MAX, MMDF_SEPARATOR, PAGE_LEN, SECTOR_LEN, WRITE_LEN};
#[cfg(test)]
use super::lock::MboxLockPurpose;
use super::lock::MboxWriteLocks;
use super::{MboxMailbox, Variant};

/// Bytes read at the end of a file, to see what is missing before the next separator.
const TAIL_LEN: u64 = 8;
/// Bytes read of the first line, a From_ line, to find out how lines end.
const FIRST_LINE_LEN: u64 = 512;
/// Result of an append.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MboxAppend {
    /// UIDs of the messages, durable in the mailbox; `None` for those that the next scan assigns.
    pub(super) uids: Vec<Option<Uid>>,
    /// Bytes written after the old end.
    pub(super) bytes: u64,
    /// Size of the file after the append.
    pub(super) size: u64,
    /// Number of fsync calls.
    pub(super) barriers: u64,
}

/// Takes the locks and appends messages.
#[cfg(test)]
pub(super) fn append(
    mailbox: &MboxMailbox,
    messages: &[NewMessage<'_>],
    known: &dyn Known,
) -> Result<MboxAppend> {
    if messages.is_empty() {
        return Ok(MboxAppend::default());
    }
    let locks = MboxWriteLocks::acquire(mailbox, MboxLockPurpose::Append)?;
    let believed = Believed::of(mailbox, &locks, known, None)?;
    append_locked(mailbox, &locks, messages, Base::of(believed.as_ref(), None), None)
}

/// Source of the UIDs of appended messages.
#[derive(Clone, Copy, Debug)]
pub(super) enum Base<'a> {
    /// Numbering continues from the state known of the mailbox.
    Believed(&'a Believed),
    /// The mailbox is empty; its first message gets an `X-IMAPbase`.
    First(&'a FirstBase),
    /// The next scan assigns UIDs.
    None,
}

impl<'a> Base<'a> {
    pub(super) fn of(believed: Option<&'a Believed>, first: Option<&'a FirstBase>) -> Self {
        match (first, believed) {
            (Some(first), _) => Self::First(first),
            (None, Some(believed)) => Self::Believed(believed),
            (None, None) => Self::None,
        }
    }
}

/// Appends messages to the file whose locks are held, in the order that the module describes. They
/// get UIDs if the known state is still true and allows it, or if the mailbox is empty and `base`
/// is [`Base::First`]. Costs two barriers, and a third if the name of a new file is not durable
/// with it.
///
/// # Errors
/// [`Error::Io`]; the file is then unchanged, or restored by the next opening, except that some
/// UIDs may have been used up.
pub(super) fn append_locked(
    mailbox: &MboxMailbox,
    locks: &MboxWriteLocks,
    messages: &[NewMessage<'_>],
    base: Base<'_>,
    state_dir: Option<&Path>,
) -> Result<MboxAppend> {
    if messages.is_empty() {
        return Ok(MboxAppend::default());
    }
    for message in messages {
        check(mailbox, message)?;
    }
    let at = || Error::at(&mailbox.path);
    let size = locks.file().metadata().map_err(at())?.size;
    let end = End::find(locks.file(), size).map_err(at())?;
    let numbers = match base {
        Base::Believed(believed) => Numbers::plan(mailbox, locks, believed, messages)?,
        Base::First(first) => Numbers::first(first, messages),
        Base::None => None,
    };
    let variant = mailbox.variant.unwrap_or(Variant::Mboxo);
    let now = InternalDate { unix_seconds: mailbox.vfs.now().unix_seconds(), zone_minutes: 0 };
    let form = Form { variant, is_crlf: end.is_crlf, zone: mailbox.zone() };
    let texts = AppendTexts { lead: end.missing(variant), form, now, numbers, messages };
    let mut intent = IntentBuilder::new(end.size);
    let mut head = Vec::new();
    texts.compose(&mut |text, is_end| {
        if head.is_empty() {
            head.extend_from_slice(&text[..texts.head_len(text)]);
        }
        intent.push(text);
        if is_end {
            intent.end_message();
        }
        locks.touch()
    })?;
    let (len, kept) = (intent.len(), intent.bytes().map(<[u8]>::to_vec));
    let raise = texts.numbers.as_ref().and_then(Numbers::raise);
    let journal = AppendJournal::begin(mailbox, locks, state_dir, intent, raise)?;
    let offset = end.size;
    // A file that does not begin as a mailbox is not accepted as one, so its journal is not found.
    let head = (offset == 0 || journal.is_none()).then_some(head);
    let barriers = 1 + journal.as_ref().map_or(0, |journal| journal.barriers);
    let barriers = barriers + u64::from(head.is_some());
    let writer = Writer { mailbox, locks, offset, size, raise, head, end: Cell::new(size) };
    if let Err(error) = writer.write(&texts, kept.as_deref()) {
        if writer.take_back().is_ok()
            && let Some(journal) = journal
        {
            journal.end();
        }
        return Err(error);
    }
    if let Some(journal) = journal {
        journal.end();
    }
    let uid = |index| texts.numbers.as_ref().and_then(|numbers| numbers.uid(index));
    let uids = (0..messages.len()).map(uid).collect();
    Ok(MboxAppend { uids, bytes: len, size: end.size + len, barriers })
}

/// Rejects a large message whose header does not end within the bytes in memory, and one that would
/// take too much memory for the hashes of its journal.
fn check(mailbox: &MboxMailbox, message: &NewMessage<'_>) -> Result<()> {
    message.check_size(&mailbox.path, LARGE_LEN_MAX)?;
    let has_body = |text: &[u8]| {
        barid_message::body_offset(text) < text.len()
            || text.ends_with(b"\n\n")
            || text.ends_with(b"\n\r\n")
            || text == b"\n"
            || text == b"\r\n"
    };
    let start = message.start()?;
    let is_all = start.len() as u64 == message.size();
    match is_all || has_body(&start) {
        true => Ok(()),
        false => {
            let what = "a header of more than 16 MB cannot be stored in an mbox";
            Err(Error::Unsupported { path: mailbox.path.clone(), what })
        }
    }
}

/// Returns the number of bytes by which messages grow the file, without their UIDs.
///
/// # Errors
/// Errors of reading large messages.
pub(super) fn len_of(mailbox: &MboxMailbox, messages: &[NewMessage<'_>]) -> Result<u64> {
    let variant = mailbox.variant.unwrap_or(Variant::Mboxo);
    let form = Form { variant, is_crlf: false, zone: mailbox.zone() };
    let (lead, now) = (&b""[..], InternalDate::default());
    let texts = AppendTexts { lead, form, now, numbers: None, messages };
    let mut len = 0;
    texts.compose(&mut |text, _| {
        len += text.len() as u64;
        Ok(())
    })?;
    Ok(len)
}

/// The end of a file before an append.
struct End {
    /// Size of the file without the NULs at its end.
    size: u64,
    /// The last bytes before `size`.
    tail: Vec<u8>,
    /// `true` if the first line of the file ends with CRLF.
    is_crlf: bool,
}

impl End {
    fn find(file: &dyn File, size: u64) -> io::Result<Self> {
        let size = size_without_nuls(file, size)?;
        let mut tail = vec![0; size.min(TAIL_LEN) as usize];
        let start = size - tail.len() as u64;
        file.read_exact_at(&mut tail, start)?;
        let mut first = vec![0; size.min(FIRST_LINE_LEN) as usize];
        file.read_exact_at(&mut first, 0)?;
        let line = memchr::memchr(b'\n', &first).map_or(&first[..0], |end| &first[..end]);
        Ok(Self { size, tail, is_crlf: line.ends_with(b"\r") })
    }

    /// Returns the bytes that must be written before the next separator.
    fn missing(&self, variant: Variant) -> &'static [u8] {
        if self.tail.is_empty() {
            return b"";
        }
        let ends = |with: &[u8]| self.tail.ends_with(with);
        if variant == Variant::Mmdf {
            return match () {
                () if ends(MMDF_SEPARATOR) => b"",
                () if ends(b"\n") => MMDF_SEPARATOR,
                () => b"\n\x01\x01\x01\x01\n",
            };
        }
        match () {
            () if ends(b"\n\n") || ends(b"\n\r\n") || self.tail == b"\n" => b"",
            () if ends(b"\n") && self.is_crlf => b"\r\n",
            () if self.is_crlf => b"\r\n\r\n",
            () if ends(b"\n") => b"\n",
            () => b"\n\n",
        }
    }
}

/// Messages in the form in which the file stores them.
struct AppendTexts<'a> {
    /// Bytes before the first message.
    lead: &'static [u8],
    form: Form<'a>,
    now: InternalDate,
    numbers: Option<Numbers>,
    messages: &'a [NewMessage<'a>],
}

impl AppendTexts<'_> {
    /// Returns the length of the start of the first text: up to its From_ line, including an
    /// `X-IMAPbase` after that, and, in a file that was empty, up to the end of a piece of the
    /// journal: remains that end between two pieces could be those of another program.
    fn head_len(&self, text: &[u8]) -> usize {
        let separator = if self.form.variant == Variant::Mmdf { MMDF_SEPARATOR.len() } else { 0 };
        let start = self.lead.len() + separator;
        let line = memchr::memchr(b'\n', &text[start..]).map_or(0, |at| at + 1);
        let base = self.numbers.as_ref().and_then(Numbers::base).map_or(0, str::len);
        (start + line + base).next_multiple_of(SECTOR_LEN as usize).min(text.len())
    }

    /// Passes each message to `visit`, the same bytes every time; a large one in pieces, of which
    /// the last comes with `true`.
    fn compose(&self, visit: &mut dyn FnMut(&[u8], bool) -> Result<()>) -> Result<()> {
        let mut out = self.lead.to_vec();
        for (index, message) in self.messages.iter().enumerate() {
            let date = message.internal_date.unwrap_or(self.now);
            let numbers = self.numbers.as_ref();
            let base = numbers.and_then(Numbers::base).filter(|_| index == 0);
            let uid = numbers.and_then(|numbers| numbers.uid(index));
            let mut flush = |text: &[u8]| visit(text, false);
            let mut composed = Composed { bytes: &mut out, flush: Some(&mut flush) };
            write_numbered(&self.form, message, UidHeader { uid, base }, date, &mut composed)?;
            visit(&out, true)?;
            out.clear();
        }
        Ok(())
    }
}

/// Writes messages after the end of a file.
struct Writer<'a> {
    mailbox: &'a MboxMailbox,
    locks: &'a MboxWriteLocks,
    /// Offset of the first message.
    offset: u64,
    /// Size of the file before the append, NULs included.
    size: u64,
    raise: Option<Raise>,
    /// Bytes that must be durable before all others.
    head: Option<Vec<u8>>,
    /// End of the file as this append has left it.
    end: Cell<u64>,
}

impl Writer<'_> {
    fn at(&self) -> impl FnOnce(io::Error) -> Error {
        Error::at(&self.mailbox.path)
    }

    /// Runs step (2); `kept` is the text of all messages, if it was kept in memory.
    fn write(&self, texts: &AppendTexts<'_>, kept: Option<&[u8]>) -> Result<()> {
        let file = self.locks.file();
        if self.offset < self.size {
            file.set_len(self.offset).map_err(self.at())?;
            self.end.set(self.offset);
        }
        if let Some(raise) = &self.raise {
            file.write_all_at(&raise.new, raise.offset).map_err(self.at())?;
        }
        if let Some(head) = &self.head {
            self.put(head, self.offset)?;
            file.sync_data().map_err(self.at())?;
        }
        match kept {
            Some(kept) => self.put(kept, self.offset)?,
            None => self.write_long(texts)?,
        }
        file.sync_all().map_err(self.at())
    }

    /// Writes bytes at `offset`, and records how far that got.
    fn put(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let mut at = offset;
        while let Some(rest) = bytes.get((at - offset) as usize..).filter(|rest| !rest.is_empty()) {
            at += match self.locks.file().write_at(rest, at).map_err(self.at())? {
                0 => return Err(self.at()(io::ErrorKind::WriteZero.into())),
                len => len as u64,
            };
            self.end.set(self.end.get().max(at));
        }
        Ok(())
    }

    /// Composes the messages again and writes up to a page boundary each time, so that the remains
    /// of a crash end where a piece of the journal does.
    fn write_long(&self, texts: &AppendTexts<'_>) -> Result<()> {
        let (mut offset, mut out) = (self.offset, Vec::new());
        texts.compose(&mut |text, _| {
            out.extend_from_slice(text);
            if out.len() >= WRITE_LEN {
                let end = (offset + out.len() as u64) / PAGE_LEN * PAGE_LEN;
                let len = (end - offset) as usize;
                self.put(&out[..len], offset)?;
                offset = end;
                out.drain(..len);
            }
            self.locks.touch()
        })?;
        self.put(&out, offset)
    }

    /// Cuts the file back to its old size. Fails if another program has written after our bytes
    /// meanwhile: then the journal shows which are whose.
    fn take_back(&self) -> io::Result<()> {
        let file = self.locks.file();
        if file.metadata()?.size > self.end.get() {
            return Err(io::ErrorKind::Other.into());
        }
        file.set_len(self.offset)?;
        file.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use barid_vfs::{MemVfs, OpenOptions, Vfs as _};

    use super::*;
    use crate::mbox::MboxOptions;

    const OLD: &[u8] = b"From a@b Thu Nov 19 10:00:00 2009\nA: 1\n\nold\n\n";
    const THEIRS: &[u8] = b"From z@y Thu Nov 19 10:00:00 2009\nB: 1\n\ntheirs\n\n";

    /// Undoes half of an append after `nuls`, after another program has added `theirs`.
    fn check(nuls: usize, theirs: &[u8], is_taken_back: bool) {
        let (vfs, path) = (Arc::new(MemVfs::new()), Path::new("/box"));
        let file = vfs.open(path, OpenOptions::create(0o600)).unwrap();
        let size = (OLD.len() + nuls) as u64;
        file.write_all_at(&[OLD, &vec![0; nuls]].concat(), 0).unwrap();
        let options = MboxOptions::default();
        let mailbox = MboxMailbox::open_with(vfs.clone(), path, None, options).unwrap();
        let locks = MboxWriteLocks::acquire(&mailbox, MboxLockPurpose::Append).unwrap();
        let (offset, end) = (OLD.len() as u64, Cell::new(size));
        let (mailbox, locks) = (&mailbox, &locks);
        let writer = Writer { mailbox, locks, offset, size, raise: None, head: None, end };
        let half = [b'x'; 5000];
        if nuls == 0 {
            writer.put(&half, offset).unwrap();
        }
        let before = file.metadata().unwrap().size;
        file.write_all_at(theirs, before).unwrap();
        assert_eq!(writer.take_back().is_ok(), is_taken_back, "{nuls} {}", theirs.len());
        let found = vfs.read(path, 1 << 20).unwrap();
        let expected = if is_taken_back { OLD.len() } else { before as usize + theirs.len() };
        assert!(found.len() == expected && found.starts_with(OLD), "{nuls} {}", theirs.len());
    }

    #[test]
    fn what_others_appended_is_not_cut_off() {
        for nuls in [0, 100] {
            check(nuls, b"", true);
            check(nuls, THEIRS, false);
        }
    }
}
