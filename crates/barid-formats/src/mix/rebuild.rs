//! Finding messages without the index: by the lines before them in the data files.
//!
//! Messages stand one behind the other, each as long as its line says. Where the chain breaks, the
//! next line is looked for whose message is whole and is followed by another line or the end. Which
//! of the messages found were expunged, the status tells: it names all that are there, up to the
//! last that it knows.

use std::collections::BTreeMap;

use barid_vfs::{File, OpenOptions};

use super::MixMailbox;
use super::layout::{HEADER_LEN_MAX, INDEX, MESSAGE_LINE_LEN_MAX, MESSAGE_TOKEN, SEARCH_LEN};
use super::record::{Message, MessageLine, Status, parse_message_line};
use super::snapshot::Snapshot;
use crate::{Error, Result};

/// Adds what the index should name behind its last sound record.
pub(super) fn complete(
    mailbox: &MixMailbox,
    snapshot: &mut Snapshot,
    statuses: &[Status],
) -> Result<()> {
    let known = snapshot.messages.last().map_or(0, |last| last.uid);
    let last_status = statuses.last().map_or(0, |last| last.uid);
    let is_there = |uid: u32| {
        uid > last_status || statuses.binary_search_by_key(&uid, |status| status.uid).is_ok()
    };
    let mut found: BTreeMap<u32, Message> = BTreeMap::new();
    for number in mailbox.data_files()? {
        let path = mailbox.data_path(number);
        let file = mailbox.vfs.open(&path, OpenOptions::READ).map_err(Error::at(&path))?;
        let size = file.metadata().map_err(Error::at(&path))?.size.min(u64::from(u32::MAX));
        let search = Search { file: &*file, size, number };
        let mut broken = None;
        let add = |message: Message| {
            if message.uid > known && is_there(message.uid) {
                found.entry(message.uid).or_insert(message);
            }
        };
        search.all(add, &mut broken).map_err(Error::at(&path))?;
        if let Some(offset) = broken {
            let what = format!("{}: no message begins where one should", path.display());
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

struct Search<'a> {
    file: &'a dyn File,
    size: u64,
    number: u32,
}

impl Search<'_> {
    /// Finds all messages; `broken` is where the chain first broke.
    fn all(&self, mut add: impl FnMut(Message), broken: &mut Option<u64>) -> std::io::Result<()> {
        let mut pos = 0;
        while pos < self.size {
            let line = match self.line_at(pos)? {
                Some(line) => line,
                None => {
                    broken.get_or_insert(pos);
                    match self.next_line(pos + 1)? {
                        Some((at, line)) => {
                            pos = at;
                            line
                        }
                        None => break,
                    }
                }
            };
            add(Message {
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

    /// The line at `pos`, if a whole message is behind it.
    fn line_at(&self, pos: u64) -> std::io::Result<Option<MessageLine>> {
        let mut bytes = [0; MESSAGE_LINE_LEN_MAX];
        let len = self.file.read_full_at(&mut bytes, pos)?;
        let line = parse_message_line(&bytes[..len]);
        Ok(line.filter(|line| {
            line.uid > 0 && pos + u64::from(line.len) + u64::from(line.size) <= self.size
        }))
    }

    /// The next line at or after `from` whose message is followed by another or by the end.
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

    /// Bytes of the header of the message at `start`, up to and with its blank line; all of the
    /// message, if it has none.
    fn header_len(&self, start: u64, size: u32) -> std::io::Result<u32> {
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
