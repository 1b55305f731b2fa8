//! The messages that a user got lately, so that none is stored twice.
//!
//! A file in the state folder has a line for each step of a delivery: `P` before a message is
//! stored, `D` after that, `X` if it was not stored. A message with a `P` alone may or may not be
//! in its mailbox: the next delivery of it looks there. So a message is stored once, wherever a
//! delivery is killed. A line ends with a part of its SHA-256; reading stops at the first line that
//! is torn.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use barid::vfs::{
    File, LockKind, LockMode, OpenOptions, Vfs, atomic_replace, create_dir_durable, lock_file,
};

use super::error::DeliveryError;
use crate::limits::{DUPLICATES_FILE_LEN_MAX, DUPLICATES_LOCK_TIMEOUT, DUPLICATES_MAX};

/// Identity of a message: a part of the SHA-256 of its Message-ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MessageKey([u8; 16]);

impl MessageKey {
    pub(crate) fn of(message_id: &[u8]) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, message_id);
        let mut key = [0; 16];
        key.copy_from_slice(&digest.as_ref()[..16]);
        Self(key)
    }
}

/// The place to which a message is about to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingPlace {
    /// The name of the mailbox.
    pub(crate) mailbox: String,
    /// Its UIDVALIDITY.
    pub(crate) uidvalidity: u32,
    /// Its UIDNEXT, which the message has or exceeds.
    pub(crate) uidnext: u32,
}

/// State of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Earlier {
    /// It is not known.
    Unknown,
    /// It may be in a mailbox.
    Pending(PendingPlace),
    /// It was stored.
    Stored,
}

#[derive(Clone, Debug)]
struct Entry {
    seconds: i64,
    pending: Option<PendingPlace>,
}

/// The messages of one user, locked until dropped.
pub(crate) struct Duplicates {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    file: Box<dyn File>,
    _lock: Box<dyn File>,
    entries: HashMap<MessageKey, Entry>,
    end: u64,
    oldest: i64,
}

impl Duplicates {
    /// Opens the file of a state folder, and waits for other deliveries.
    ///
    /// # Errors
    /// Errors of the file system; a lock that others keep.
    pub(crate) fn open(
        vfs: &Arc<dyn Vfs>,
        state_dir: &Path,
        window: Duration,
    ) -> Result<Self, DeliveryError> {
        create_dir_durable(&**vfs, state_dir, 0o700)?;
        let lock_path = state_dir.join("deliveries.lock");
        let lock = vfs.open(&lock_path, OpenOptions::create(0o600))?;
        let kind = (LockKind::Flock, LockMode::Exclusive);
        lock_file(&**vfs, &*lock, &lock_path, kind, DUPLICATES_LOCK_TIMEOUT)
            .map_err(DeliveryError::temporary)?;
        let path = state_dir.join("deliveries");
        let is_new = vfs.metadata(&path).is_err();
        let file = vfs.open(&path, OpenOptions::create(0o600))?;
        if is_new {
            vfs.sync_dir(state_dir)?;
        }
        let now = vfs.now().unix_seconds();
        let oldest = now.saturating_sub_unsigned(window.as_secs());
        let (entries, end) = (HashMap::new(), 0);
        let mut store =
            Self { vfs: Arc::clone(vfs), path, file, _lock: lock, entries, end, oldest };
        store.read()?;
        Ok(store)
    }

    /// Returns the state of a message.
    pub(crate) fn earlier(&self, key: MessageKey) -> Earlier {
        match self.entries.get(&key) {
            None => Earlier::Unknown,
            Some(entry) if entry.seconds < self.oldest => Earlier::Unknown,
            Some(Entry { pending: Some(place), .. }) => Earlier::Pending(place.clone()),
            Some(Entry { pending: None, .. }) => Earlier::Stored,
        }
    }

    /// Notes, durably, that a message is about to be stored.
    pub(crate) fn begin(&mut self, key: MessageKey, place: &PendingPlace) -> io::Result<()> {
        let mut rest = format!(" {} {} ", place.uidvalidity, place.uidnext);
        place.mailbox.bytes().for_each(|byte| {
            let _ = write!(rest, "{byte:02x}");
        });
        self.append('P', key, &rest)?;
        self.file.sync_data()
    }

    /// Notes that a message was stored. Need not be durable: until it is, the mailbox tells.
    pub(crate) fn stored(&mut self, key: MessageKey) -> io::Result<()> {
        self.append('D', key, "")
    }

    /// Notes that a message was not stored.
    pub(crate) fn failed(&mut self, key: MessageKey) -> io::Result<()> {
        self.append('X', key, "")
    }

    fn append(&mut self, kind: char, key: MessageKey, rest: &str) -> io::Result<()> {
        let now = self.vfs.now().unix_seconds();
        let line = line_of(kind, key, now, rest);
        self.file.write_all_at(line.as_bytes(), self.end)?;
        self.end += line.len() as u64;
        Ok(())
    }

    fn read(&mut self) -> io::Result<()> {
        let len = self.file.metadata()?.size;
        let mut bytes = vec![0; len.min(DUPLICATES_FILE_LEN_MAX) as usize];
        let found = self.file.read_full_at(&mut bytes, 0)?;
        bytes.truncate(found);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let Some((kind, key, entry)) = parse_line(line) else { break };
            match kind {
                'X' => drop(self.entries.remove(&key)),
                _ => drop(self.entries.insert(key, entry)),
            }
            self.end += line.len() as u64;
        }
        if self.end < len {
            self.file.set_len(self.end)?;
        }
        let is_long = self.end > DUPLICATES_FILE_LEN_MAX / 2;
        if is_long || self.entries.len() > DUPLICATES_MAX * 2 { self.compact() } else { Ok(()) }
    }

    /// Writes the file anew, with the newest messages only.
    fn compact(&mut self) -> io::Result<()> {
        let oldest = self.oldest;
        self.entries.retain(|_, entry| entry.seconds >= oldest);
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.seconds));
        entries.truncate(DUPLICATES_MAX);
        let mut text = String::new();
        for (key, entry) in entries.iter().rev() {
            let line = match &entry.pending {
                None => line_of('D', **key, entry.seconds, ""),
                Some(place) => {
                    let hex: String =
                        place.mailbox.bytes().map(|byte| format!("{byte:02x}")).collect();
                    let rest = format!(" {} {} {hex}", place.uidvalidity, place.uidnext);
                    line_of('P', **key, entry.seconds, &rest)
                }
            };
            text.push_str(&line);
        }
        let keys: HashSet<MessageKey> = entries.iter().map(|(key, _)| **key).collect();
        self.entries.retain(|key, _| keys.contains(key));
        self.file = atomic_replace(&*self.vfs, &self.path, 0o600, true, |file| {
            file.write_all_at(text.as_bytes(), 0)
        })?;
        self.end = text.len() as u64;
        Ok(())
    }
}

fn line_of(kind: char, key: MessageKey, seconds: i64, rest: &str) -> String {
    let mut line = format!("{kind} ");
    for byte in key.0 {
        let _ = write!(line, "{byte:02x}");
    }
    let _ = write!(line, " {seconds}{rest}");
    let check = check_of(line.as_bytes());
    let _ = writeln!(line, " {check}");
    line
}

/// Returns the file with the right checksum in every line.
pub(crate) fn sealed(file: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(file.len());
    for line in file.split_inclusive(|byte| *byte == b'\n') {
        match line.iter().rposition(|byte| *byte == b' ') {
            Some(at) if line.ends_with(b"\n") => {
                sealed.extend_from_slice(&line[..=at]);
                sealed.extend_from_slice(check_of(&line[..at]).as_bytes());
                sealed.push(b'\n');
            }
            _ => sealed.extend_from_slice(line),
        }
    }
    sealed
}

fn check_of(line: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, line);
    digest.as_ref()[..4].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_line(line: &[u8]) -> Option<(char, MessageKey, Entry)> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (content, check) = line.rsplit_once(' ')?;
    if check_of(content.as_bytes()) != check {
        return None;
    }
    let mut words = content.split(' ');
    let kind = words.next()?.chars().next()?;
    let key = MessageKey(<[u8; 16]>::try_from(unhex(words.next()?)?).ok()?);
    let seconds = words.next()?.parse().ok()?;
    let pending = match kind {
        'P' => {
            let uidvalidity = words.next()?.parse().ok()?;
            let uidnext = words.next()?.parse().ok()?;
            let mailbox = String::from_utf8(unhex(words.next()?)?).ok()?;
            Some(PendingPlace { mailbox, uidvalidity, uidnext })
        }
        'D' | 'X' => None,
        _ => return None,
    };
    Some((kind, key, Entry { seconds, pending }))
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let is_even = text.len().is_multiple_of(2) && text.is_ascii();
    let pairs = (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok());
    if is_even { pairs.collect() } else { None }
}

#[cfg(test)]
mod tests {
    use barid::vfs::MemVfs;

    use super::*;

    const WINDOW: Duration = Duration::from_secs(100);

    fn open(vfs: &Arc<dyn Vfs>) -> Duplicates {
        Duplicates::open(vfs, Path::new("/state"), WINDOW).unwrap()
    }

    fn place() -> PendingPlace {
        PendingPlace { mailbox: "Lists/\u{fc} x".to_owned(), uidvalidity: 7, uidnext: 9 }
    }

    #[test]
    fn every_step_is_remembered() {
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        let (a, b, c) = (MessageKey::of(b"a"), MessageKey::of(b"b"), MessageKey::of(b"c"));
        let mut store = open(&vfs);
        [a, b, c].iter().for_each(|key| store.begin(*key, &place()).unwrap());
        store.stored(b).unwrap();
        store.failed(c).unwrap();
        drop(store);
        let store = open(&vfs);
        assert_eq!(store.earlier(a), Earlier::Pending(place()));
        assert_eq!(store.earlier(b), Earlier::Stored);
        assert_eq!(store.earlier(c), Earlier::Unknown);
        drop(store);
        vfs.sleep(WINDOW + Duration::from_secs(2));
        assert_eq!(open(&vfs).earlier(b), Earlier::Unknown);
    }

    #[test]
    fn a_torn_line_is_cut() {
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        let (a, b) = (MessageKey::of(b"a"), MessageKey::of(b"b"));
        let mut store = open(&vfs);
        store.begin(a, &place()).unwrap();
        let whole = store.end;
        store.begin(b, &place()).unwrap();
        let end = store.end;
        drop(store);
        let path = Path::new("/state/deliveries");
        for len in (whole..end).rev() {
            vfs.open(path, OpenOptions::WRITE).unwrap().set_len(len).unwrap();
            let mut store = open(&vfs);
            assert_eq!(store.earlier(a), Earlier::Pending(place()));
            assert_eq!(store.earlier(b), Earlier::Unknown);
            assert_eq!(store.end, whole);
            if len == whole {
                store.stored(a).unwrap();
                drop(store);
                assert_eq!(open(&vfs).earlier(a), Earlier::Stored);
            }
        }
    }

    #[test]
    fn damaged_files_are_read_up_to_the_damage() {
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        let mut store = open(&vfs);
        for number in 0..20_u8 {
            store.begin(MessageKey::of(&[number]), &place()).unwrap();
        }
        let (line, path) = (store.end / 20, Path::new("/state/deliveries"));
        drop(store);
        let whole = vfs.read(path, 1 << 20).unwrap();
        for at in 0..whole.len() {
            for byte in [0, b'\n', b' ', 0xff, whole[at] ^ 1] {
                let mut bytes = whole.clone();
                bytes[at] = byte;
                let file = vfs.open(path, OpenOptions::WRITE).unwrap();
                file.set_len(0).unwrap();
                file.write_all_at(&bytes, 0).unwrap();
                let expected = if bytes == whole { 20 } else { at as u64 / line };
                assert_eq!(open(&vfs).entries.len() as u64, expected, "{at} {byte}");
            }
        }
    }

    #[test]
    fn the_file_does_not_grow_for_ever() {
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        let mut store = open(&vfs);
        let last = DUPLICATES_MAX as u64 * 2 + 10;
        for number in 0..=last {
            store.stored(MessageKey::of(&number.to_le_bytes())).unwrap();
        }
        drop(store);
        drop(open(&vfs));
        let store = open(&vfs);
        assert_eq!(store.entries.len(), DUPLICATES_MAX);
    }
}
