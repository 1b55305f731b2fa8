//! Mail that others delivered while a change was unfinished.
//!
//! Such mail follows the end that the file had at that time. It is in the way if the file
//! still has to grow, and beyond the new end if the file still has to be cut. It is copied to the
//! journal, cut off, and put at the new end when all else is done. The FOREIGN record holds the
//! state of this, and never lags behind the file, so that mail delivered between two attempts is
//! found, too.

use std::io;

use barid_mailbox::{Error, Result};
use xxhash_rust::xxh3::Xxh3;

use super::apply::read_or_zeros;
use super::assemble::pieces;
use super::header::RecordKind;
use super::limits::FOREIGN_TRIED_MAX;
use super::source::{BufferedFile, hash_of};
use super::work::PlannedChange;
use crate::mbox::Variant;

/// The mail is in the journal, and in the file unless it was just cut off.
const SAVED: u64 = 1;
/// The mail is in the journal only.
const CUT: u64 = 2;
/// All else is done; the file has room for the mail at its end, and the mail may be there already.
const PLACED: u64 = 3;

/// Another program has rewritten the file, and the mail is put after its end. The fourth number of
/// the record is that offset times four, plus the number of line ends before the mail.
const RETURNED: u64 = 4;

/// Bytes of the mail that are searched for.
const NEEDLE_LEN: u64 = 4096;

/// Mail of others in the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Foreign {
    /// Its length in bytes.
    pub(super) len: u64,
    hash: u64,
    state: u64,
    /// Number of line ends before it.
    lead: u64,
}

impl Foreign {
    /// Decodes the words of a FOREIGN record.
    pub(super) fn from_words(words: [u64; 4]) -> Self {
        let [len, hash, state, lead] = words;
        Self { len, hash, state, lead }
    }

    fn words(self) -> [u64; 4] {
        [self.len, self.hash, self.state, self.lead]
    }

    /// Returns the offset of the mail after the rewritten file, and the number of line ends before
    /// it, if it is put there.
    pub(super) fn returned(&self) -> Option<(u64, u64)> {
        (self.state == RETURNED).then_some((self.lead / 4, self.lead % 4))
    }

    /// Returns the line ends before it.
    fn lead(&self) -> &'static [u8] {
        &b"\n\n"[..(self.lead as usize).min(2)]
    }

    /// Returns `true` if all else is done.
    pub(super) fn is_placed(&self) -> bool {
        self.state == PLACED
    }
}

impl PlannedChange<'_> {
    /// Saves the bytes after `end` to the journal and cuts them off. NULs in front of them are not
    /// mail, but the room that was made for the change.
    ///
    /// # Errors
    /// [`Error::Changed`], with nothing done, if another program wrote before the saved mail.
    pub(super) fn take_foreign(
        &mut self,
        end: u64,
        known: Option<Foreign>,
    ) -> Result<Option<Foreign>> {
        let size = self.file().metadata().map_err(self.at())?.size;
        let mut from = end + self.nuls(end, size).map_err(self.at())?;
        let mut foreign = known;
        if let Some(known) = known.filter(|known| known.state == SAVED) {
            let stands = size - from >= known.len && {
                let found = hash_of(self.file(), from, known.len, self.options.buffer_len);
                found.map_err(self.at())? == known.hash
            };
            match stands {
                true => from += known.len,
                // The bytes before it are not ours.
                false if self.has_mail(known, from)? => return Err(self.changed()),
                false => {}
            }
        }
        if from < size {
            let saved = self.save(from, size, known.map_or(0, |known| known.len))?;
            foreign = Some(saved);
            self.record(RecordKind::Foreign, saved.words())?;
        }
        if size > end {
            self.file().set_len(end).map_err(self.at())?;
            self.sync_all()?;
        }
        if let Some(foreign) = &mut foreign {
            foreign.state = CUT;
            self.record(RecordKind::Foreign, foreign.words())?;
        }
        Ok(foreign)
    }

    /// Returns the number of NULs at `from`.
    pub(super) fn nuls(&self, from: u64, size: u64) -> io::Result<u64> {
        let mut nuls = 0;
        let mut at = from;
        let mut source = self.source();
        while at < size {
            let len = (size - at).min(self.options.buffer_len as u64);
            let mut ended = false;
            source.visit(at, len, |bytes| {
                if !ended {
                    let more = bytes.iter().take_while(|byte| **byte == 0).count();
                    nuls += more as u64;
                    ended = more < bytes.len();
                }
                Ok(())
            })?;
            if ended {
                break;
            }
            at += len;
        }
        Ok(nuls)
    }

    /// Appends the bytes from `from` to `to` to the `saved` ones in the journal, durably.
    fn save(&mut self, from: u64, to: u64, saved: u64) -> Result<Foreign> {
        let foreign_at = self.header.foreign_at();
        let mut bytes = vec![0; self.options.buffer_len];
        let mut at = from;
        while at < to {
            let len = (to - at).min(bytes.len() as u64) as usize;
            self.file().read_exact_at(&mut bytes[..len], at).map_err(self.at())?;
            self.write_journal(&bytes[..len], foreign_at + saved + (at - from))?;
            at += len as u64;
            self.locks.touch()?;
        }
        self.sync_journal()?;
        let len = saved + (to - from);
        let Some(journal) = self.journal.file() else { return Err(self.changed()) };
        let hash = hash_of(journal, foreign_at, len, self.options.buffer_len);
        Ok(Foreign { len, hash: hash.map_err(self.at_journal())?, state: SAVED, lead: 0 })
    }

    /// Puts the mail at the end of the file, where everything else is done and durable. The caller
    /// syncs it.
    pub(super) fn restore_foreign(&mut self, foreign: Foreign) -> Result<()> {
        let end = self.header.new_size;
        let lead: &[u8] = match foreign.is_placed() {
            true => foreign.lead(),
            false => self.lead(end)?,
        };
        if !foreign.is_placed() {
            // Room first, so that later deliveries of others come after it.
            let room = end + lead.len() as u64 + foreign.len;
            self.file().set_len(room).map_err(self.at())?;
            self.sync_all()?;
            let placed = Foreign { state: PLACED, lead: lead.len() as u64, ..foreign };
            self.record(RecordKind::Foreign, placed.words())?;
        }
        self.put_foreign(foreign, end, lead)
    }

    /// Writes the mail, and the line ends before it, at `end`.
    fn put_foreign(&self, foreign: Foreign, end: u64, lead: &[u8]) -> Result<()> {
        let file = self.file();
        let mut at = end + lead.len() as u64;
        file.write_all_at(lead, end).map_err(self.at())?;
        let Some(journal) = self.journal.file() else { return Err(self.changed()) };
        let mut source = BufferedFile::new(journal, self.options.buffer_len);
        let mut hash = Xxh3::new();
        let written = source.visit(self.header.foreign_at(), foreign.len, |bytes| {
            hash.update(bytes);
            file.write_all_at(bytes, at)?;
            at += bytes.len() as u64;
            Ok(())
        });
        written.map_err(self.at())?;
        match hash.digest() == foreign.hash {
            true => Ok(()),
            false => Err(Error::Unrecoverable {
                path: self.places.mailbox.to_owned(),
                what: "mail saved in the journal is damaged".to_owned(),
            }),
        }
    }

    /// Returns `true` if at `end` there are only the mail, the line ends before it, and the room
    /// that was made for them, in any state that an interrupted write can leave.
    pub(super) fn has_room(&self, end: u64, foreign: Foreign) -> Result<bool> {
        let lead = foreign.lead();
        let len = lead.len() as u64 + foreign.len;
        if self.file().metadata().map_err(self.at())?.size < end + len {
            return Ok(false);
        }
        let Some(journal) = self.journal.file() else { return Err(self.changed()) };
        let mut there = self.source();
        let mut kept = BufferedFile::new(journal, self.options.buffer_len);
        let mut kept_at = self.header.foreign_at();
        let (mut found, mut mail) = (Vec::new(), lead.to_vec());
        let mut is_room = true;
        let checked = pieces(end, len, |at, len| {
            read_or_zeros(&mut there, u64::MAX, at, len, &mut found)?;
            let more = len.saturating_sub(mail.len() as u64);
            kept.visit(kept_at, more, |bytes| {
                mail.extend_from_slice(bytes);
                Ok(())
            })?;
            kept_at += more;
            let same = found.iter().zip(&mail).take_while(|(found, mail)| found == mail).count();
            is_room &= found[same..].iter().all(|byte| *byte == 0);
            mail.drain(..found.len());
            Ok(())
        });
        checked.map_err(self.at())?;
        Ok(is_room)
    }

    /// Puts the mail after the file that another program has rewritten, unless it is there
    /// already; durable on return. Returns the number of bytes written.
    pub(super) fn return_foreign(&mut self, foreign: Foreign) -> Result<u64> {
        let Foreign { len, hash, .. } = foreign;
        let Some(journal) = self.journal.file() else { return Err(self.changed()) };
        match hash_of(journal, self.header.foreign_at(), len, self.options.buffer_len) {
            Ok(found) if found == hash => {}
            // The journal is kept, with the rest of the mail.
            Ok(_) => return Ok(0),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
            Err(error) => return Err(self.at_journal()(error)),
        }
        let begun = foreign.returned().map(|(end, lead)| (end, Foreign { lead, ..foreign }));
        let (end, foreign) = match begun {
            Some((end, foreign)) if self.has_room(end, foreign)? => (end, foreign),
            _ if self.has_mail(foreign, 0)? => return Ok(0),
            _ => {
                let end = self.file().metadata().map_err(self.at())?.size;
                let lead = self.lead(end)?.len() as u64;
                let words = Foreign { len, hash, state: RETURNED, lead: end * 4 + lead }.words();
                self.record(RecordKind::Foreign, words)?;
                self.file().set_len(end + lead + len).map_err(self.at())?;
                self.sync_all()?;
                (end, Foreign { len, hash, state: RETURNED, lead })
            }
        };
        self.put_foreign(foreign, end, foreign.lead())?;
        self.sync_all()?;
        Ok(len)
    }

    /// Returns `true` if the mail is in the file at `from` or after.
    fn has_mail(&self, foreign: Foreign, from: u64) -> Result<bool> {
        let Foreign { len, hash, .. } = foreign;
        let (file, buffer_len) = (self.file(), self.options.buffer_len);
        let size = file.metadata().map_err(self.at())?.size;
        let mut needle = vec![0; len.min(NEEDLE_LEN) as usize];
        self.journal.read(&mut needle, self.header.foreign_at()).map_err(self.at_journal())?;
        let finder = memchr::memmem::Finder::new(&needle);
        let mut window = vec![0; buffer_len.max(2 * needle.len())];
        let (mut at, mut tried) = (from, 0);
        while at + len <= size {
            let read = file.read_full_at(&mut window, at).map_err(self.at())?;
            for found in finder.find_iter(&window[..read]) {
                let begin = at + found as u64;
                if begin + len > size || tried == FOREIGN_TRIED_MAX {
                    return Ok(false);
                }
                tried += 1;
                if hash_of(file, begin, len, buffer_len).map_err(self.at())? == hash {
                    return Ok(true);
                }
            }
            if read < window.len() {
                break;
            }
            at += (read - needle.len() + 1) as u64;
            self.locks.touch()?;
        }
        Ok(len == 0)
    }

    /// Returns the line ends that must be between the end of the file and the mail.
    fn lead(&self, end: u64) -> Result<&'static [u8]> {
        let mut last = [0; 2];
        let len = end.min(2) as usize;
        let last = &mut last[..len];
        self.file().read_exact_at(last, end - len as u64).map_err(self.at())?;
        let Some(journal) = self.journal.file() else { return Ok(b"") };
        let mut first = [0];
        let read = journal.read_full_at(&mut first, self.header.foreign_at());
        let starts_line = read.map_err(self.at_journal())? == 1 && first[0] == b'\n';
        let is_mmdf = self.mailbox.variant == Some(Variant::Mmdf);
        Ok(match last {
            [] => b"",
            [.., b'\n'] if starts_line || is_mmdf => b"",
            [b'\n', b'\n'] | [b'\n'] => b"",
            [.., b'\n'] => b"\n",
            _ if starts_line => b"\n",
            _ => b"\n\n",
        })
    }
}
