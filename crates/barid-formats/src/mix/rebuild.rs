//! Search for messages without the index: by the lines before them in the data files.
//!
//! Messages follow one another, each as long as its line says. Where the chain breaks, the search
//! continues with the next line whose message is complete and is followed by another line or the
//! end. A message whose writing was interrupted, so that others are in its place, does not count.
//!
//! The status shows which of the messages found were expunged: it lists all existing messages, up
//! to the last that it knows. An append that was interrupted leaves a message that belongs to
//! nobody; the next append gives its UID again, so of two with the same UID the last counts.

use std::collections::BTreeMap;

use barid_mailbox::{Error, Result};
use barid_vfs::{File, OpenOptions};

use super::MixMailbox;
use super::data::data_number;
use super::layout::{
    HEADER_LEN_MAX, INDEX, MESSAGE_LINE_LEN_MAX, MESSAGE_TOKEN, RESYNC_TRIES_MAX, SEARCH_LEN,
};
use super::lock::Locks;
use super::record::{MessageLine, MixMessage, StatusRecord, parse_message_line, write_index};
use super::snapshot::Snapshot;

/// Adds the messages that the index should list after its last intact record.
pub(super) fn complete(
    mailbox: &MixMailbox,
    snapshot: &mut Snapshot,
    statuses: &[StatusRecord],
) -> Result<()> {
    let known = snapshot.messages.last().map_or(0, |last| last.uid);
    let last_status = statuses.last().map_or(0, |last| last.uid);
    let is_there = |uid: u32| {
        uid > last_status || statuses.binary_search_by_key(&uid, |status| status.uid).is_ok()
    };
    let mut found: BTreeMap<u32, MixMessage> = BTreeMap::new();
    for number in mailbox.data_files()? {
        let path = mailbox.data_path(number);
        let broken = search(mailbox, number, |message| {
            if message.uid > known && is_there(message.uid) {
                found.insert(message.uid, message);
            }
        })?;
        if let Some(offset) = broken {
            let what = format!("{}: no message begins where expected", path.display());
            snapshot.defect(offset, None, what);
        }
    }
    let count = found.len();
    snapshot.messages.extend(found.into_values());
    let last = snapshot.messages.last().map_or(0, |last| last.uid);
    snapshot.meta.uid_last = snapshot.meta.uid_last.max(last);
    if count > 0 {
        let what = format!("{INDEX}: {count} messages were found without it");
        snapshot.defect(0, None, what);
    }
    Ok(())
}

/// Rewrites the index after data files were compacted, if it no longer locates their messages: in
/// place, since c-client holds it open, and again if that is interrupted.
pub(super) fn reposition(mailbox: &MixMailbox, locks: &Locks, names: &[&[u8]]) -> Result<()> {
    let mut snapshot = Snapshot::load(mailbox, locks)?;
    for number in names.iter().filter_map(|name| data_number(name)) {
        let mut places: BTreeMap<u32, MixMessage> = BTreeMap::new();
        search(mailbox, number, |message| {
            places.insert(message.uid, message);
        })?;
        for message in snapshot.messages.iter_mut().filter(|message| message.file == number) {
            if let Some(found) = places.get(&message.uid) {
                message.pos = found.pos;
            }
        }
    }
    let Some(file) = locks.index() else { return Ok(()) };
    let text = write_index(snapshot.index_seq.saturating_add(1), &snapshot.messages);
    let written = file.write_all_at(&text, 0).and_then(|()| file.set_len(text.len() as u64));
    written.and_then(|()| file.sync_all()).map_err(Error::at(&mailbox.path.join(INDEX)))
}

/// Finds all messages of a data file; returns the offset at which the chain first broke.
fn search(mailbox: &MixMailbox, number: u32, add: impl FnMut(MixMessage)) -> Result<Option<u64>> {
    let path = mailbox.data_path(number);
    let file = mailbox.vfs.open(&path, OpenOptions::READ).map_err(Error::at(&path))?;
    let size = file.metadata().map_err(Error::at(&path))?.size.min(u64::from(u32::MAX));
    let mut broken = None;
    let search = DataFileSearch { file: &*file, size, number };
    search.all(add, &mut broken).map_err(Error::at(&path))?;
    Ok(broken)
}

/// A data file that is searched.
pub(super) struct DataFileSearch<'a> {
    pub(super) file: &'a dyn File,
    pub(super) size: u64,
    pub(super) number: u32,
}

impl DataFileSearch<'_> {
    /// Finds all messages; sets `broken` to the offset at which the chain first broke.
    pub(super) fn all(
        &self,
        mut add: impl FnMut(MixMessage),
        broken: &mut Option<u64>,
    ) -> std::io::Result<()> {
        let mut pos = 0;
        while pos < self.size {
            let line = self.line_at(pos)?;
            let other = match line {
                Some(line) => self.instead_of(pos, line)?,
                None => self.next_line(pos + 1)?,
            };
            if line.is_none() || other.is_some() {
                broken.get_or_insert(pos);
            }
            let Some((at, line)) = other.or(line.map(|line| (pos, line))) else { break };
            pos = at;
            add(MixMessage {
                uid: line.uid,
                date: line.date,
                size: line.size,
                file: self.number,
                pos: pos as u32,
                line_len: line.len,
                header_len: self.header_len(pos + u64::from(line.len), line.size)?,
                keywords: 0,
                flags: 0,
                modseq: 0,
            });
            pos += u64::from(line.len) + u64::from(line.size);
        }
        Ok(())
    }

    /// Returns the line at `pos`, if a complete message follows it.
    fn line_at(&self, pos: u64) -> std::io::Result<Option<MessageLine>> {
        let mut bytes = [0; MESSAGE_LINE_LEN_MAX];
        let len = self.file.read_full_at(&mut bytes, pos)?;
        let line = parse_message_line(&bytes[..len]);
        Ok(line.filter(|line| {
            line.uid > 0 && pos + u64::from(line.len) + u64::from(line.size) <= self.size
        }))
    }

    /// Returns `true` if a line or the end of the file is at `pos`.
    fn goes_on(&self, pos: u64) -> std::io::Result<bool> {
        let mut bytes = [0; MESSAGE_LINE_LEN_MAX];
        let len = self.file.read_full_at(&mut bytes, pos)?;
        Ok(len == 0 || parse_message_line(&bytes[..len]).is_some())
    }

    /// Returns the first of the messages in the place of one whose writing was interrupted: neither
    /// a line nor the end follows it, but messages that begin in it continue after it.
    fn instead_of(
        &self,
        pos: u64,
        line: MessageLine,
    ) -> std::io::Result<Option<(u64, MessageLine)>> {
        let end = pos + u64::from(line.len) + u64::from(line.size);
        let mut from = pos + 1;
        if self.goes_on(end)? {
            return Ok(None);
        }
        for _ in 0..RESYNC_TRIES_MAX {
            let Some((at, inner)) = self.next_line(from)?.filter(|(at, _)| *at < end) else {
                break;
            };
            let (mut next, mut walked) = (at, Some(inner));
            while let Some(line) = walked.filter(|_| next < end) {
                next += u64::from(line.len) + u64::from(line.size);
                walked = self.line_at(next)?;
            }
            if next > end {
                return Ok(Some((at, inner)));
            }
            from = at + 1;
        }
        Ok(None)
    }

    /// Returns the next line at or after `from` whose message is followed by another one or by the
    /// end.
    fn next_line(&self, from: u64) -> std::io::Result<Option<(u64, MessageLine)>> {
        let mut bytes = vec![0; SEARCH_LEN];
        let mut from = from;
        while from < self.size {
            let len = self.file.read_full_at(&mut bytes, from)?;
            if len < MESSAGE_TOKEN.len() {
                break;
            }
            for at in memchr::memmem::find_iter(&bytes[..len], MESSAGE_TOKEN) {
                let pos = from + at as u64;
                let Some(line) = self.line_at(pos)? else { continue };
                let end = pos + u64::from(line.len) + u64::from(line.size);
                if end == self.size || self.line_at(end)?.is_some() {
                    return Ok(Some((pos, line)));
                }
            }
            from += (len - MESSAGE_TOKEN.len() + 1) as u64;
        }
        Ok(None)
    }

    /// Returns the length of the header of the message at `start` in bytes, including its blank
    /// line; the size of the message if it has none.
    pub(super) fn header_len(&self, start: u64, size: u32) -> std::io::Result<u32> {
        let mut len = 4096.min(size as usize);
        loop {
            let mut bytes = vec![0; len];
            let read = self.file.read_full_at(&mut bytes, start)?;
            if let Some(at) = memchr::memmem::find(&bytes[..read], b"\r\n\r\n") {
                return Ok(at as u32 + 4);
            }
            if len == size as usize || len >= HEADER_LEN_MAX {
                return Ok(size);
            }
            len = (len * 8).min(size as usize);
        }
    }
}
