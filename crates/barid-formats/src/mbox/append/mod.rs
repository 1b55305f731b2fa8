//! Appending messages.
//!
//! What is written can be read by all three programs of `from_line.rs`: a From_ line of the form
//! that all accept, and the owned fields at the end of the header as c-client writes them. A
//! message loses the owned fields that it came with, as at Dovecot, and its `Content-Length`.
//!
//! **Order of writing.** All locks held: (1) a journal that says what is to be appended
//! (`change/intent.rs`), `fsync`; its folder, `fsync`, unless the first made its name durable
//! ([`File::syncs_name`]); (2) what is missing at the end of the file, the
//! messages and, where they get UIDs (`number.rs`), the raised last UID of `X-IMAPbase`; `fsync`,
//! which is the commit point. Before that the first From_ line of an empty file is made durable,
//! or a crash could leave what nobody takes for a mailbox. Then the journal goes, which nothing
//! waits for. A crash before (2) leaves the old file. During (2) it leaves the old file and behind
//! it pieces of what was to be appended, and whoever opens the mailbox next takes back what is no
//! complete message (`change/mend.rs`), also if others have delivered behind it. An error cuts the
//! file back to its old size at once. Where no journal can be written at all the first From_ line
//! and the last UID are durable first, too, and what a crash leaves of a message stays. NULs at
//! the end count to no message, and the next append cuts them off.
//!
//! **Line ends.** Where the first line of the file ends with CRLF, so does all that is written, the
//! lines of messages that came with LF included. In any other file a message keeps its line ends.
//!
//! **UIDs.** A crash or an error after the last UID was raised wastes the UIDs up to it and no
//! more: nobody was told of them, and none is given out again, since no `X-UID` is on the disk
//! before the last UID that covers it.

mod compose;
mod number;

use std::cell::Cell;
use std::io;
use std::path::Path;

use barid_types::{InternalDate, Uid};
use barid_vfs::File;

pub use self::compose::write_message;
use self::compose::{Composed, Form, Numbered, write_numbered};
use self::number::Numbers;
pub(super) use self::number::{Believed, FirstBase, listed_keywords, unlisted_keywords};
use super::change::{AppendJournal, IntentBuilder, Raise};
use super::layout::{LARGE_LEN_MAX, MMDF_SEPARATOR, NULS_MAX, PAGE_LEN, WRITE_LEN};
#[cfg(test)]
use super::lock::Purpose;
use super::lock::WriteLocks;
use super::{MboxMailbox, Variant};
#[cfg(test)]
use crate::Known;
use crate::{Error, NewMessage, Result};

/// Bytes at the end of a file that tell what is missing there.
const TAIL_LEN: u64 = 8;
/// What is read to find out how lines end: a From_ line.
const FIRST_LINE_LEN: u64 = 512;
/// What an append did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Appended {
    /// The UIDs of the messages, durable in the mailbox; `None` where a scan is to give them.
    pub(super) uids: Vec<Option<Uid>>,
    /// Bytes by which the file grew, and those changed in it.
    pub(super) bytes: u64,
    /// The size of the file then.
    pub(super) size: u64,
    /// How often was waited for the disk.
    pub(super) barriers: u64,
}

/// Takes the locks and appends messages.
#[cfg(test)]
pub(super) fn append(
    mailbox: &MboxMailbox,
    messages: &[NewMessage<'_>],
    known: &dyn Known,
) -> Result<Appended> {
    if messages.is_empty() {
        return Ok(Appended::default());
    }
    let locks = WriteLocks::acquire(mailbox, Purpose::Append)?;
    let believed = Believed::of(mailbox, &locks, known)?;
    append_locked(mailbox, &locks, messages, Base::of(believed.as_ref(), None), None)
}

/// What UIDs of messages to be appended are founded on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Base<'a> {
    /// On what is believed of the mailbox.
    Believed(&'a Believed),
    /// On nothing, since it is empty.
    First(&'a FirstBase),
    /// The next scan is to give UIDs.
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

/// Appends messages to the file whose locks are held; the module's text says in which order. They
/// get UIDs if what is believed of the file is true and allows it, or if it is empty and `base`
/// tells of that. Costs two barriers, a third where the name of a new file is not durable with it.
///
/// # Errors
/// [`Error::Io`]; the file is then as it was, or will be when it is opened next, but that UIDs may
/// be wasted.
pub(super) fn append_locked(
    mailbox: &MboxMailbox,
    locks: &WriteLocks,
    messages: &[NewMessage<'_>],
    base: Base<'_>,
    state_dir: Option<&Path>,
) -> Result<Appended> {
    if messages.is_empty() {
        return Ok(Appended::default());
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
    let texts = Texts { lead: end.missing(variant), form, now, numbers, messages };
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
    // A file that does not begin as a mailbox is not taken for one, nor is its journal looked for.
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
    Ok(Appended { uids, bytes: len, size: end.size + len, barriers })
}

/// Refuses a large message whose header is not known to the end, and one that would take too much
/// memory for the hashes of its journal.
fn check(mailbox: &MboxMailbox, message: &NewMessage<'_>) -> Result<()> {
    message.check_size(&mailbox.path, LARGE_LEN_MAX)?;
    let has_body = |text: &[u8]| {
        barid_message::body_offset(text) < text.len()
            || text.ends_with(b"\n\n")
            || text.ends_with(b"\n\r\n")
            || text == b"\n"
            || text == b"\r\n"
    };
    match message.rest.is_none() || has_body(message.bytes) {
        true => Ok(()),
        false => {
            let what = "a header of more than 16 MB cannot be stored in an mbox";
            Err(Error::Unsupported { path: mailbox.path.clone(), what })
        }
    }
}

/// Bytes that messages take behind the others, but for their UIDs.
///
/// # Errors
/// Errors of reading large messages.
pub(super) fn len_of(mailbox: &MboxMailbox, messages: &[NewMessage<'_>]) -> Result<u64> {
    let variant = mailbox.variant.unwrap_or(Variant::Mboxo);
    let form = Form { variant, is_crlf: false, zone: mailbox.zone() };
    let (lead, now) = (&b""[..], InternalDate::default());
    let texts = Texts { lead, form, now, numbers: None, messages };
    let mut len = 0;
    texts.compose(&mut |text, _| {
        len += text.len() as u64;
        Ok(())
    })?;
    Ok(len)
}

/// The size of a file without the NULs that an interrupted append left behind its last line end, or
/// instead of everything. Costs one read of one byte where there are none.
pub(super) fn size_without_nuls(file: &dyn File, size: u64) -> io::Result<u64> {
    let mut end = size;
    let mut len = 1;
    while end > 0 {
        let start = end.saturating_sub(len as u64);
        let mut bytes = vec![0; (end - start) as usize];
        file.read_exact_at(&mut bytes, start)?;
        let nuls = bytes.iter().rev().take_while(|byte| **byte == 0).count();
        end -= nuls as u64;
        match bytes.len().checked_sub(nuls + 1) {
            Some(last) if bytes[last] == b'\n' => return Ok(end),
            Some(_) => return Ok(size),
            None => len = NULS_MAX,
        }
    }
    Ok(0)
}

/// The end of a file before an append.
struct End {
    /// Where its last byte that counts is.
    size: u64,
    /// The bytes that stand there.
    tail: Vec<u8>,
    /// The first line of the file ends with CRLF.
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

    /// What must stand before the next separator.
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

/// Messages as they are to stand in the file.
struct Texts<'a> {
    /// What goes before the first one.
    lead: &'static [u8],
    form: Form<'a>,
    now: InternalDate,
    numbers: Option<Numbers>,
    messages: &'a [NewMessage<'a>],
}

impl Texts<'_> {
    /// Bytes of the first text up to its From_ line, with an `X-IMAPbase` behind that.
    fn head_len(&self, text: &[u8]) -> usize {
        let separator = if self.form.variant == Variant::Mmdf { MMDF_SEPARATOR.len() } else { 0 };
        let start = self.lead.len() + separator;
        let line = memchr::memchr(b'\n', &text[start..]).map_or(0, |at| at + 1);
        let base = self.numbers.as_ref().and_then(Numbers::base).map_or(0, str::len);
        (start + line + base).min(text.len())
    }

    /// Visits each message, the same bytes every time; a large one in pieces, `true` with the last.
    fn compose(&self, visit: &mut dyn FnMut(&[u8], bool) -> Result<()>) -> Result<()> {
        let mut out = self.lead.to_vec();
        for (index, message) in self.messages.iter().enumerate() {
            let date = message.internal_date.unwrap_or(self.now);
            let numbers = self.numbers.as_ref();
            let base = numbers.and_then(Numbers::base).filter(|_| index == 0);
            let uid = numbers.and_then(|numbers| numbers.uid(index));
            let mut flush = |text: &[u8]| visit(text, false);
            let mut composed = Composed { bytes: &mut out, flush: Some(&mut flush) };
            write_numbered(&self.form, message, Numbered { uid, base }, date, &mut composed)?;
            visit(&out, true)?;
            out.clear();
        }
        Ok(())
    }
}

/// Writes messages behind the end of a file.
struct Writer<'a> {
    mailbox: &'a MboxMailbox,
    locks: &'a WriteLocks,
    /// Where they go.
    offset: u64,
    /// The size of the file before.
    size: u64,
    raise: Option<Raise>,
    /// What is to be durable before all else.
    head: Option<Vec<u8>>,
    /// The end of the file as this append has left it.
    end: Cell<u64>,
}

impl Writer<'_> {
    fn at(&self) -> impl FnOnce(io::Error) -> Error {
        Error::at(&self.mailbox.path)
    }

    /// Step (2); `kept` are all texts, if they were kept.
    fn write(&self, texts: &Texts<'_>, kept: Option<&[u8]>) -> Result<()> {
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

    /// Writes bytes at `offset`, and remembers how far that came.
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

    /// Composes the messages again, and writes up to a boundary of a page each time: so what a
    /// crash leaves ends where a piece of the journal does.
    fn write_long(&self, texts: &Texts<'_>) -> Result<()> {
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

    /// Cuts the file back to what it was, unless another has written behind what was written
    /// meanwhile: then the journal tells what is whose.
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

    /// Takes back half of what was to be appended behind `nuls`, after somebody added `theirs`.
    fn check(nuls: usize, theirs: &[u8], is_taken_back: bool) {
        let (vfs, path) = (Arc::new(MemVfs::new()), Path::new("/box"));
        let file = vfs.open(path, OpenOptions::create(0o600)).unwrap();
        let size = (OLD.len() + nuls) as u64;
        file.write_all_at(&[OLD, &vec![0; nuls]].concat(), 0).unwrap();
        let options = MboxOptions::default();
        let mailbox = MboxMailbox::open_with(vfs.clone(), path, None, options).unwrap();
        let locks = WriteLocks::acquire(&mailbox, Purpose::Append).unwrap();
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
