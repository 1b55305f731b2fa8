//! Messages of a view, for appending them to another mailbox: they are read while they are written,
//! or linked.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fmt, io};

use barid_mailbox::{Error as FormatError, MessageRest, ReadAs, TakeRest, WHOLE_LEN_MAX};
use barid_types::{FlagSet, InternalDate, Keyword, Uid};
use barid_vfs::Metadata;

use crate::large::ends_header;
use crate::{Error, Result, View};

/// A message of a view, without its bytes. As [`NewMessage::rest`](crate::NewMessage::rest) with
/// empty `bytes` it is appended to another mailbox.
///
/// A message that has moved since is not followed, because that may wait for a change of its
/// mailbox: the append fails, and [`ViewMessage::has_failed`] returns `true`. So does the append to
/// the mailbox of the view, if that is one file.
pub struct ViewMessage {
    view: View,
    row: u32,
    uid: Uid,
    size: u64,
    /// Date of arrival.
    pub internal_date: InternalDate,
    /// Flags, without \Recent.
    pub flags: FlagSet,
    /// Keywords.
    pub keywords: Vec<Keyword>,
    has_failed: AtomicBool,
}

impl View {
    /// Returns messages for appending them elsewhere, in the order of `uids`. Reads no message of a
    /// format that stores them unchanged.
    ///
    /// # Errors
    /// [`Error::NoSuchMessage`] if one of them is not in the view; a damaged cache; where messages
    /// are quoted, as [`View::read`].
    pub fn messages_to_append(&self, uids: &[Uid]) -> Result<Vec<ViewMessage>> {
        let rows: Vec<u32> =
            uids.iter().map(|uid| self.existing_row(*uid)).collect::<Result<_>>()?;
        let mut messages = Vec::with_capacity(rows.len());
        self.summaries(&rows, &mut |summary| {
            let keywords = self.keywords().select(summary.keywords).cloned().collect();
            messages.push(ViewMessage {
                view: self.clone(),
                row: summary.row,
                uid: summary.uid,
                size: summary.size,
                internal_date: summary.internal_date,
                flags: summary.flags.without(barid_types::Flag::Recent),
                keywords,
                has_failed: AtomicBool::new(false),
            });
            true
        })?;
        if !self.storage.format().has_message_files() {
            for message in &mut messages {
                message.size = message.measure()?;
            }
        }
        Ok(messages)
    }
}

impl ViewMessage {
    /// Returns the UID.
    pub fn uid(&self) -> Uid {
        self.uid
    }

    /// Returns `true` if the message could not be read while it was appended.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    fn measure(&self) -> Result<u64> {
        let mut size = 0;
        self.view.row_pieces(self.row, ReadAs::Message, &mut |piece| {
            size += piece.len() as u64;
            true
        })?;
        Ok(size)
    }

    /// Records an error of the source, and returns one after which a change is not tried again.
    fn fail(&self, error: &Error) -> FormatError {
        self.has_failed.store(true, Ordering::Relaxed);
        FormatError::at(self.view.path())(io::Error::other(error.to_string()))
    }
}

impl fmt::Debug for ViewMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.view.path();
        f.debug_struct("ViewMessage").field("path", &path).field("uid", &self.uid).finish()
    }
}

impl MessageRest for ViewMessage {
    fn size(&self) -> u64 {
        self.size
    }

    fn header(&self) -> barid_mailbox::Result<Option<Vec<u8>>> {
        let mut header = Vec::new();
        let read = self.view.row_pieces(self.row, ReadAs::Message, &mut |piece| {
            header.extend_from_slice(piece);
            false
        });
        read.map_err(|error| self.fail(&error))?;
        if ends_header(&header) || header.len() as u64 == self.size {
            return Ok(Some(header));
        }
        // A header that fits and has no end is not that of the message any more.
        match header.len() as u64 >= WHOLE_LEN_MAX {
            true => Ok(None),
            false => Err(self.fail(&Error::KeepsChanging { path: self.view.path().to_owned() })),
        }
    }

    /// Takes it from the name of the file, as delivery agents write it.
    fn noted_crlf_size(&self) -> Option<u64> {
        let mut name = Vec::new();
        let location = self.view.snapshot.location(self.row, &mut name).ok()?;
        let name = location.message_name()?.name;
        let at = memchr::memmem::find(name, b",W=")? + 3;
        let digits = name[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&name[at..at + digits]).ok()?.parse().ok()
    }

    fn read(&self, take: &mut TakeRest<'_>) -> barid_mailbox::Result<()> {
        let (mut taken, mut size) = (Ok(()), 0);
        let read = self.view.row_pieces(self.row, ReadAs::Message, &mut |piece| {
            size += piece.len() as u64;
            taken = if size > self.size { Ok(()) } else { take(piece) };
            taken.is_ok() && size <= self.size
        });
        taken?;
        read.map_err(|error| self.fail(&error))?;
        match size == self.size {
            true => Ok(()),
            false => Err(self.fail(&Error::KeepsChanging { path: self.view.path().to_owned() })),
        }
    }

    fn link(&self, to: &Path) -> barid_mailbox::Result<Option<Metadata>> {
        // Somebody may change the other one of the two names' message in place.
        if !self.view.storage.format().has_fixed_files {
            return Ok(None);
        }
        let mut name = Vec::new();
        let location = self.view.snapshot.location(self.row, &mut name);
        let location = location.map_err(|error| self.fail(&error.into()))?;
        let linked = self.view.storage.link(&location, to);
        linked.map_err(|error| self.fail(&error.into()))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::{Arc, Mutex};

    use barid_vfs::{CallKind, OpenOptions as OpenFile, Vfs};

    use super::*;
    use crate::test_mailbox::{created, disk};
    use crate::{ChangeOptions, ChangeRequest, Mailbox, NewMessage};

    const FORMATS: [&str; 7] = ["maildir", "mh", "mboxo", "mboxrd", "mboxcl2", "mbx", "mix"];

    fn mailbox(vfs: &Arc<dyn Vfs>, format: &str, name: &str) -> Mailbox {
        created(vfs, &format!("{format}:/mail/{name}-{format}"), None)
    }

    fn texts() -> Vec<Vec<u8>> {
        let long = "x".repeat(70) + "\n";
        vec![
            b"Subject: a\n\nFrom here\n>From there\nto there\n".to_vec(),
            b"Subject: b\nTo: c@example.org\n\n".to_vec(),
            format!("Subject: c\n\n{}", long.repeat(40_000)).into_bytes(),
        ]
    }

    fn append(target: &mut Mailbox, appends: &[NewMessage<'_>]) -> Result<Vec<Uid>> {
        let request = ChangeRequest { appends, ..ChangeRequest::default() };
        Ok(target.change(&request, &ChangeOptions::default())?.appended)
    }

    fn copy(messages: &[ViewMessage], target: &mut Mailbox) -> Result<Vec<Uid>> {
        let new = messages.iter().map(|message| NewMessage {
            rest: Some(message),
            flags: message.flags,
            internal_date: Some(message.internal_date),
            ..NewMessage::default()
        });
        append(target, &new.collect::<Vec<_>>())
    }

    fn filled(vfs: &Arc<dyn Vfs>, format: &str) -> Mailbox {
        let mut source = mailbox(vfs, format, "from");
        let texts = texts();
        let new = texts.iter().map(|text| NewMessage {
            bytes: text,
            flags: FlagSet::EMPTY.with(barid_types::Flag::Seen),
            internal_date: Some(InternalDate { unix_seconds: 86_400, zone_minutes: 0 }),
            ..NewMessage::default()
        });
        append(&mut source, &new.collect::<Vec<_>>()).unwrap();
        source
    }

    fn read(mailbox: &Mailbox, uid: Uid) -> Vec<u8> {
        mailbox.view().read(uid, ReadAs::Message).unwrap().bytes
    }

    #[test]
    fn copies_are_the_same_in_every_format() {
        for from in FORMATS {
            for to in FORMATS {
                let vfs = disk();
                let source = filled(&vfs, from);
                let uids: Vec<Uid> =
                    source.uids().unwrap().into_iter().filter_map(Uid::new).collect();
                let messages = source.view().messages_to_append(&uids).unwrap();
                let mut target = mailbox(&vfs, to, "to");
                let copies = copy(&messages, &mut target).unwrap();
                assert_eq!(copies.len(), 3, "{from} {to}");
                for (uid, copied) in uids.iter().zip(copies) {
                    let crlf = |text: Vec<u8>| {
                        // Fields that belong to an mbox come and go.
                        let own = barid_message::strip_owned(&text).into_owned();
                        String::from_utf8(own).unwrap().replace("\r\n", "\n").trim_end().to_owned()
                    };
                    let (before, after) = (read(&source, *uid), read(&target, copied));
                    // A quote that an mboxo cannot tell from the text stays.
                    let is_text = |line: &&str| !line.starts_with("Content-Length:");
                    let plain = |text: String| {
                        let lines: Vec<&str> = text.lines().filter(is_text).collect();
                        lines.join("\n").replace(">From here", "From here")
                    };
                    let (before, after) = (plain(crlf(before)), plain(crlf(after)));
                    assert!(before == after, "{from} {to} {uid}\n{before:.90}\n{after:.90}");
                    let row = target.row_of(copied).unwrap().unwrap();
                    target
                        .summaries(&[row], &mut |summary| {
                            assert!(summary.flags.contains(barid_types::Flag::Seen));
                            assert_eq!(summary.internal_date.unix_seconds, 86_400);
                            false
                        })
                        .unwrap();
                }
            }
        }
    }

    #[test]
    fn files_of_maildirs_are_linked() {
        let vfs = disk();
        let source = filled(&vfs, "maildir");
        let uids: Vec<Uid> = source.uids().unwrap().into_iter().filter_map(Uid::new).collect();
        let messages = source.view().messages_to_append(&uids).unwrap();
        copy(&messages, &mut mailbox(&vfs, "maildir", "to")).unwrap();
        let inodes = |dir: &str| {
            let (path, mut names) = (Path::new(dir), Vec::new());
            let list = &mut |name: &[u8], _| names.push(String::from_utf8(name.to_vec()).unwrap());
            vfs.open_dir(path).unwrap().list(list).unwrap();
            let inode = |name: String| vfs.metadata(&path.join(name)).unwrap().inode;
            let mut inodes: Vec<u64> = names.into_iter().map(inode).collect();
            inodes.sort_unstable();
            inodes
        };
        let linked = inodes("/mail/from-maildir/cur");
        assert_eq!(linked.len(), 3);
        assert_eq!(linked, inodes("/mail/to-maildir/cur"));
    }

    #[test]
    fn a_failed_copy_leaves_the_file_of_somebody_else() {
        let memory = barid_vfs::MemVfs::new();
        memory.create_dir_all(Path::new("/mail"), 0o700).unwrap();
        let other = memory.clone();
        let taken = Arc::new(Mutex::new(PathBuf::new()));
        let taken_by_other = Arc::clone(&taken);
        let vfs = barid_vfs::MeanwhileVfs::new(memory.clone(), move |kind, path| {
            if kind != CallKind::Name || !path.starts_with("/mail/from-maildir/cur") {
                return;
            }
            let list = other.read(Path::new("/mail/to-maildir/dovecot-uidlist"), 1 << 16);
            let list = String::from_utf8(list.unwrap_or_default()).unwrap();
            // The names of all are in the list before they are linked.
            let mut taken = taken_by_other.lock().unwrap();
            if list.lines().count() == 5 && *taken == PathBuf::new() {
                let name = list.lines().last().and_then(|line| line.split_once(" :")).unwrap().1;
                *taken = format!("/mail/to-maildir/cur/{name}:2,S").into();
                let file = other.open(&taken, OpenFile::create_new(0o600)).unwrap();
                file.write_all_at(b"d: e\n\nf\n", 0).unwrap();
            }
        });
        let vfs: Arc<dyn Vfs> = Arc::new(vfs);
        let source = filled(&vfs, "maildir");
        let uids: Vec<Uid> = source.uids().unwrap().into_iter().filter_map(Uid::new).collect();
        let messages = source.view().messages_to_append(&uids).unwrap();
        let mut target = mailbox(&vfs, "maildir", "to");
        append(&mut target, &[NewMessage { bytes: b"a: b\n\nc\n", ..NewMessage::default() }])
            .unwrap();
        copy(&messages, &mut target).unwrap_err();
        let taken = taken.lock().unwrap().clone();
        assert_eq!(memory.read(&taken, 99).unwrap(), b"d: e\n\nf\n");
        target.refresh().unwrap();
        assert_eq!(target.len(), 2, "one of each program");
    }

    #[test]
    fn a_message_that_is_gone_fails_all() {
        for format in FORMATS {
            let vfs = disk();
            let mut source = filled(&vfs, format);
            let uids: Vec<Uid> = source.uids().unwrap().into_iter().filter_map(Uid::new).collect();
            let messages = source.view().messages_to_append(&uids).unwrap();
            let request = ChangeRequest { expunge: vec![uids[0]], ..ChangeRequest::default() };
            source.change(&request, &ChangeOptions::default()).unwrap();
            let mut target = mailbox(&vfs, "maildir", "to");
            let copied = copy(&messages, &mut target);
            if copied.is_err() {
                assert!(messages.iter().any(ViewMessage::has_failed), "{format}");
                assert_eq!(target.status().messages, 0, "{format}");
            } else {
                // A format that leaves the bytes where they were until it is compacted.
                assert_eq!(format, "mix");
            }
        }
    }
}
