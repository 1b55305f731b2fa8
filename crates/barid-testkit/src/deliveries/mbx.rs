//! c-client's append to an mbx (`mbx_append` of its `mbx.c`).

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use barid_vfs::{File, LockKind, LockMode, OpenOptions, Timestamp, Vfs};

use super::hex;

const HEADER_LEN: u64 = 2048;
/// Offset of the last UID in the header.
const UID_LAST_OFFSET: u64 = 15;
/// Bytes that are read to find a line.
const LINE_LEN_MAX: usize = 64;

/// Appends as mailutil and dmail do, which looks at nothing but the header and the size. The
/// message gets no UID.
///
/// # Errors
/// Errors of the file system; a lock is taken.
pub fn deliver_to_mbx(vfs: &dyn Vfs, path: &Path, text: &[u8]) -> io::Result<bool> {
    deliver(vfs, path, text, false)
}

/// Appends as an IMAP server with UIDPLUS does, which gives a UID to every message first, and
/// refuses a file with an invalid line.
///
/// # Errors
/// Errors of the file system; a lock is taken.
pub fn deliver_to_mbx_with_uid(vfs: &dyn Vfs, path: &Path, text: &[u8]) -> io::Result<bool> {
    deliver(vfs, path, text, true)
}

fn deliver(vfs: &dyn Vfs, path: &Path, text: &[u8], with_uid: bool) -> io::Result<bool> {
    let file = vfs.open(path, OpenOptions::WRITE)?;
    let mut header = [0; 25];
    let is_whole = file.read_full_at(&mut header, 0)? == header.len();
    let digits = std::str::from_utf8(&header[UID_LAST_OFFSET as usize..23]).ok().and_then(hex);
    let Some(mut uid_last) = digits.filter(|_| is_whole && header.starts_with(b"*mbx*\r\n")) else {
        return Ok(false);
    };
    let lock = Permission::acquire(vfs, &*file)?;
    let before = file.metadata()?;
    if with_uid {
        match number(&*file, before.size, uid_last)? {
            Some(last) => uid_last = last + 1,
            None => return lock.release(vfs).map(|()| false),
        }
    }
    let uid = if with_uid { uid_last } else { 0 };
    let line = format!(" 9-Sep-2001 01:46:40 +0000,{};000000000000-{uid:08x}\r\n", text.len());
    file.write_all_at(&[line.as_bytes(), text].concat(), before.size)?;
    if with_uid {
        file.write_all_at(format!("{uid_last:08x}").as_bytes(), UID_LAST_OFFSET)?;
    }
    let second = Duration::from_secs(1).as_nanos() as i64;
    let accessed = Timestamp { unix_nanos: vfs.now().unix_nanos - second };
    file.set_times(accessed, before.modified)?;
    lock.release(vfs).map(|()| true)
}

/// Gives a UID to every message without one. Returns the last one, or `None` at an invalid line.
fn number(file: &dyn File, size: u64, mut uid_last: u32) -> io::Result<Option<u32>> {
    let mut at = HEADER_LEN;
    while at < size {
        let mut line = [0; LINE_LEN_MAX];
        let len = file.read_full_at(&mut line, at)?;
        let Some((line_len, message_len, uid)) = parse(&line[..len]) else { return Ok(None) };
        if uid > uid_last {
            return Ok(None);
        }
        if uid == 0 {
            uid_last += 1;
            file.write_all_at(format!("{uid_last:08x}").as_bytes(), at + line_len - 10)?;
        }
        at += line_len + message_len;
    }
    file.write_all_at(format!("{uid_last:08x}").as_bytes(), UID_LAST_OFFSET)?;
    Ok(Some(uid_last))
}

/// Returns the length of a line, the length of its message, and its UID.
fn parse(line: &[u8]) -> Option<(u64, u64, u32)> {
    let end = memchr::memmem::find(line, b"\r\n")?;
    let text = std::str::from_utf8(&line[..end]).ok().filter(|text| !text.contains('\0'))?;
    let (len, status) = text.split_once(',')?.1.split_once(';')?;
    let uid = hex(status.split_once('-')?.1.get(..8)?)?;
    let len = len.parse().ok().filter(|len| *len > 0)?;
    Some((end as u64 + 2, len, uid))
}

/// The permission to parse and to append: a lock file named by device and inode.
struct Permission {
    path: PathBuf,
    _file: Box<dyn File>,
}

impl Permission {
    fn acquire(vfs: &dyn Vfs, mailbox: &dyn File) -> io::Result<Self> {
        let found = mailbox.metadata()?;
        let path = PathBuf::from(format!("/tmp/.{:x}.{:x}", found.device, found.inode));
        let file = vfs.open(&path, OpenOptions::create(0o666))?;
        let is_free = mailbox.try_lock(LockKind::Flock, LockMode::Shared)?
            && file.try_lock(LockKind::Flock, LockMode::Exclusive)?;
        let lock = Self { path, _file: file };
        is_free.then_some(lock).ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    fn release(self, vfs: &dyn Vfs) -> io::Result<()> {
        vfs.remove_file(&self.path)
    }
}
