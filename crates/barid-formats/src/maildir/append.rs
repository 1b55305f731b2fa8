//! Delivery of messages: written to `tmp`, made durable, and renamed. A message that is a file of
//! another Maildir on the same file system is linked to `tmp` and neither read nor written, as in
//! Dovecot.
//!
//! Order: write and fsync every file in `tmp` (where there are many, sync the file system instead);
//! give them UIDs by appending to `dovecot-uidlist` under its lock (fdatasync); rename them to
//! `new` or `cur`; fsync these. Commit point of each message: its rename; acknowledged after the
//! last fsync. The names in `tmp` need not be durable, since nothing looks for a message there.
//! After a crash before it, leftovers in `tmp` and UIDs that belong to no file do no harm; a
//! message is complete or missing.

use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};

use barid_mailbox::{ChangeProgress, Error, Known, NewMessage, Result, SyncContext};
use barid_state::MessageKey;
use barid_types::{Flag, FlagSet, Uid, UidValidity};
use barid_vfs::{File, OpenOptions, Ownership, Process, Timestamp};

use super::keywords::Keywords;
use super::layout::{INFO_SEP, NAME_TRIES_MAX, UIDLIST_TAIL_LEN_MAX};
use super::name::{self, Letters};
use super::state::MaildirState;
use super::uidlist::{self, UidList, UidListRead};
use super::{Maildir, path_of, uids};
use crate::durable::{NewFiles, SYNC_FS_FILES_MIN};
use crate::files::write_message_file;
use crate::given::given_uids;

/// Time after which the system has written the content of a file to the disk: Linux begins after 30
/// seconds (`vm.dirty_expire_centisecs`) and looks every 5.
const WRITTEN_BACK_NANOS: i64 = 120_000_000_000;

/// A message written to `tmp`.
struct Delivery {
    base: Vec<u8>,
    tmp: PathBuf,
    target: PathBuf,
}

/// Result of an append.
#[derive(Debug, Default)]
pub(super) struct MaildirAppend {
    /// The UIDs that could be given at once.
    pub(super) uids: Vec<Option<Uid>>,
    /// UIDVALIDITY of the UIDs; `None` if they could not be given.
    pub(super) uidvalidity: Option<UidValidity>,
    /// The keys of their names.
    pub(super) keys: Vec<MessageKey>,
    /// Number of barriers.
    pub(super) barriers: u64,
}

/// Delivers messages. Every keyword must have a letter already.
pub(super) fn append(
    maildir: &Maildir,
    context: &mut SyncContext<'_>,
    keywords: &Keywords,
    appends: &[NewMessage<'_>],
) -> Result<MaildirAppend> {
    if appends.is_empty() {
        return Ok(MaildirAppend::default());
    }
    let mut steps = context.steps(appends.len());
    let mut deliveries = Vec::with_capacity(appends.len());
    let delivered = write_all(maildir, keywords, appends, &mut deliveries, &mut steps);
    let delivered = delivered.and_then(|synced| {
        let given = give_uids(maildir, context, &deliveries, appends)?;
        let renamed = rename_all(maildir, &deliveries)?;
        let (uidvalidity, uids, listed) = match given {
            Some((uidvalidity, uids)) => {
                (Some(uidvalidity), uids.into_iter().map(Some).collect(), 1)
            }
            None => (None, vec![None; appends.len()], 0),
        };
        let key = |delivery: &Delivery| MessageKey(name::base_hash(&delivery.base));
        let keys = deliveries.iter().map(key).collect();
        Ok(MaildirAppend { uids, uidvalidity, keys, barriers: synced + listed + renamed })
    });
    if delivered.is_err() {
        // Renamed files are no longer there; the others may stay, since leftovers do no harm.
        let left: Vec<_> = deliveries.into_iter().map(|delivery| delivery.tmp).collect();
        maildir.vfs.remove_files(&left);
    }
    delivered
}

/// Writes all messages to `tmp`, durably; returns the number of barriers. A request to stop is
/// noticed between two messages.
fn write_all(
    maildir: &Maildir,
    keywords: &Keywords,
    appends: &[NewMessage<'_>],
    deliveries: &mut Vec<Delivery>,
    steps: &mut ChangeProgress<'_>,
) -> Result<u64> {
    let tmp = &maildir.paths.tmp;
    match maildir.vfs.create_dir(tmp, 0o700) {
        Ok(()) => maildir.vfs.sync_dir(&maildir.path).map_err(Error::at(&maildir.path))?,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(source) => return Err(Error::at(tmp)(source)),
    }
    let mut files = NewFiles::begin(maildir.vfs.as_ref(), tmp, appends.len())?;
    let mut are_all_linked = true;
    let process = maildir.vfs.process();
    let cur = &maildir.paths.cur;
    let ownership = Ownership::in_folder(&maildir.vfs.metadata(cur).map_err(Error::at(cur))?);
    for message in appends {
        steps.check(&maildir.path)?;
        steps.advance(1);
        if let Some(linked) = link_one(maildir, keywords, message, &process, &ownership)? {
            let written = sync_linked(maildir, &linked, &mut files);
            deliveries.push(linked);
            are_all_linked &= written?;
            continue;
        }
        are_all_linked = false;
        let (delivery, file) = write_one(maildir, keywords, message, &process, &ownership)?;
        let written = files.written(&*file).map_err(Error::at(&delivery.tmp));
        deliveries.push(delivery);
        written?;
    }
    // The bytes of old linked files are on the disk.
    if are_all_linked { Ok(0) } else { files.finish_files() }
}

/// Makes the bytes of a linked file durable, which the program that wrote them may have left to the
/// system; returns `true` if that was long ago, and nothing had to be done.
fn sync_linked(maildir: &Maildir, linked: &Delivery, files: &mut NewFiles<'_>) -> Result<bool> {
    let vfs = maildir.vfs.as_ref();
    let at = || Error::at(&linked.tmp);
    let modified = vfs.metadata(&linked.tmp).map_err(at())?.modified.unix_nanos;
    let now = vfs.now().unix_nanos;
    if modified < now && now - modified > WRITTEN_BACK_NANOS {
        return Ok(true);
    }
    let file = vfs.open(&linked.tmp, OpenOptions::READ).map_err(at())?;
    files.written(&*file).map_err(at())?;
    Ok(false)
}

/// Links the file of a message to `tmp`; `None` if it is to be written.
fn link_one(
    maildir: &Maildir,
    keywords: &Keywords,
    message: &NewMessage<'_>,
    process: &Process,
    ownership: &Ownership,
) -> Result<Option<Delivery>> {
    let Some(whole) = message.whole() else { return Ok(None) };
    let vfs = maildir.vfs.as_ref();
    let base = unique_name(vfs.now(), process, (whole.size(), whole.noted_crlf_size()));
    let tmp = path_of(&maildir.paths.tmp, &base);
    if !whole.link(&tmp)? {
        return Ok(None);
    }
    // Everybody who may read the other files of the folder may read this one, and nobody else.
    match vfs.metadata(&tmp) {
        Ok(found) if ownership.admits(&found) => {
            Ok(Some(Delivery { target: target_of(maildir, keywords, message, &base), base, tmp }))
        }
        other => {
            vfs.remove_file(&tmp).map_err(Error::at(&tmp))?;
            other.map(|_| None).map_err(Error::at(&tmp))
        }
    }
}

/// Returns the path of a message in `new` or `cur`.
fn target_of(
    maildir: &Maildir,
    keywords: &Keywords,
    message: &NewMessage<'_>,
    base: &[u8],
) -> PathBuf {
    let letters = Letters {
        flags: message.flags.without(Flag::Recent),
        keywords: keywords.letters(&message.keywords),
    };
    // As in Dovecot, `new` is for messages without flags except \Recent.
    match letters == Letters::default() {
        true => path_of(&maildir.paths.new, base),
        false => path_of(&maildir.paths.cur, &name::with_letters(base, letters)),
    }
}

/// Writes one message to `tmp`.
fn write_one(
    maildir: &Maildir,
    keywords: &Keywords,
    message: &NewMessage<'_>,
    process: &Process,
    ownership: &Ownership,
) -> Result<(Delivery, Box<dyn File>)> {
    let vfs = maildir.vfs.as_ref();
    let sizes = (message.size(), Some(message.crlf_size()?));
    let mut tries = 0;
    let (base, tmp, file) = loop {
        let base = unique_name(vfs.now(), process, sizes);
        let tmp = path_of(&maildir.paths.tmp, &base);
        match ownership.create(vfs, &tmp) {
            Ok(file) => break (base, tmp, file),
            Err(error)
                if error.kind() == std::io::ErrorKind::AlreadyExists && tries < NAME_TRIES_MAX =>
            {
                tries += 1;
            }
            Err(source) => return Err(Error::at(&tmp)(source)),
        }
    };
    let write = || {
        write_message_file(message, &*file, &tmp)?;
        if let Some(date) = message.internal_date {
            let unix_nanos = date.unix_seconds.saturating_mul(1_000_000_000);
            file.set_times(vfs.now(), Timestamp { unix_nanos }).map_err(Error::at(&tmp))?;
        }
        Ok(())
    };
    if let Err(error) = write() {
        let _ = vfs.remove_file(&tmp);
        return Err(error);
    }
    let target = target_of(maildir, keywords, message, &base);
    Ok((Delivery { base, tmp, target }, file))
}

/// Returns the number of barriers of a delivery on a system with full support: for each file, or
/// for the file system; for the list of UIDs; and for each target folder.
pub(super) fn barriers(appends: &[NewMessage<'_>]) -> u64 {
    let is_recent = |message: &NewMessage<'_>| {
        message.flags.without(Flag::Recent) == FlagSet::EMPTY && message.keywords.is_empty()
    };
    let folders = [true, false]
        .into_iter()
        .filter(|recent| appends.iter().any(|message| is_recent(message) == *recent));
    match appends.len() {
        0 => 0,
        SYNC_FS_FILES_MIN.. => 2 + folders.count() as u64,
        files => files as u64 + 1 + folders.count() as u64,
    }
}

/// Appends the new names to `dovecot-uidlist`; returns its UIDVALIDITY and their UIDs. `None` if
/// it does not exist or is not to be believed, or if other UIDs are known elsewhere: then the next
/// scan gives them.
fn give_uids(
    maildir: &Maildir,
    context: &mut SyncContext<'_>,
    deliveries: &[Delivery],
    appends: &[NewMessage<'_>],
) -> Result<Option<(UidValidity, Vec<Uid>)>> {
    if let Some(ledger) = context.ledger.as_deref_mut()
        && !ledger.entries()?.is_empty()
    {
        return Ok(None);
    }
    let vfs = maildir.vfs.as_ref();
    let path = &maildir.paths.uidlist;
    let steps = context.steps(appends.len());
    let Some(_lock) = uids::take_lock_unless(&maildir.vfs, path, &steps)? else {
        return Ok(None);
    };
    let Some(list) = read_list(maildir, context.known)? else { return Ok(None) };
    if let Some(ledger) = context.ledger.as_deref()
        && ledger.uidvalidity() == Some(list.header.uidvalidity)
        && ledger.uidnext() > Some(list.uidnext())
    {
        return Ok(None);
    }
    let Some(given) = given_uids(list.uidnext().get(), appends) else { return Ok(None) };
    let mut text = Vec::new();
    for (delivery, uid) in deliveries.iter().zip(&given.uids) {
        uidlist::write_new_line(*uid, &delivery.base, &mut text);
    }
    if let Some(reserved) = Uid::new(given.last).filter(|last| given.uids.last() < Some(last)) {
        // Acts as if a message with this UID had existed: the next one comes after it.
        let stem = unique_stem(vfs.now(), &vfs.process());
        uidlist::write_new_line(reserved, &stem, &mut text);
    }
    uidlist::append(vfs, path, list.end_offset, &text)?;
    Ok(Some((list.header.uidvalidity, given.uids)))
}

/// Reads `dovecot-uidlist`: what was appended to it since the last scan, or else all of it. `None`
/// if it must be written anew, gives UIDs again that are known, or has grown by so much that a scan
/// is better.
fn read_list(maildir: &Maildir, known: &dyn Known) -> Result<Option<UidList>> {
    let (vfs, path) = (maildir.vfs.as_ref(), &maildir.paths.uidlist);
    let state = MaildirState::from_bytes(known.state()).and_then(|state| state.list);
    let tail = match &state {
        Some(state) => {
            let size = vfs.metadata(path).map_or(0, |metadata| metadata.size);
            if size.saturating_sub(state.offset) > UIDLIST_TAIL_LEN_MAX {
                return Ok(None);
            }
            UidList::read_tail(vfs, path, state)?
        }
        None => None,
    };
    let list = match tail {
        Some(list) => list,
        None => match UidList::read(vfs, path)? {
            UidListRead::Read(list) => *list,
            UidListRead::Missing | UidListRead::Corrupt(_) => return Ok(None),
        },
    };
    let goes_back = known.uidvalidity() == Some(list.header.uidvalidity)
        && known.uidnext().is_some_and(|uidnext| uidnext > list.uidnext());
    Ok(if list.rewrite || goes_back { None } else { Some(list) })
}

/// Renames all files; returns the number of barriers. On error, none of them remains.
fn rename_all(maildir: &Maildir, deliveries: &[Delivery]) -> Result<u64> {
    let renamed = try_rename_all(maildir, deliveries);
    if renamed.is_err() {
        let targets: Vec<_> = deliveries.iter().map(|delivery| delivery.target.clone()).collect();
        drop(maildir.vfs.remove_files(&targets));
    }
    renamed
}

fn try_rename_all(maildir: &Maildir, deliveries: &[Delivery]) -> Result<u64> {
    for delivery in deliveries {
        let rename = maildir.vfs.rename(&delivery.tmp, &delivery.target);
        rename.map_err(Error::at(&delivery.target))?;
    }
    let mut barriers = 0;
    for dir in [&maildir.paths.new, &maildir.paths.cur] {
        if deliveries.iter().any(|delivery| delivery.target.parent() == Some(dir)) {
            maildir.vfs.sync_dir(dir).map_err(Error::at(dir))?;
            barriers += 1;
        }
    }
    Ok(barriers)
}

/// Returns a unique file name: seconds, microseconds that grow within this process, process, host;
/// then the sizes on disk and, if it is known, with CRLF.
fn unique_name(
    now: Timestamp,
    process: &Process,
    (size, crlf_size): (u64, Option<u64>),
) -> Vec<u8> {
    let mut sizes = format!(",S={size}");
    if let Some(crlf_size) = crlf_size {
        sizes.push_str(&format!(",W={crlf_size}"));
    }
    let mut name = unique_stem(now, process);
    name.extend_from_slice(sizes.as_bytes());
    name
}

/// Returns the part of [`unique_name`] before the sizes.
pub(super) fn unique_stem(now: Timestamp, process: &Process) -> Vec<u8> {
    static LAST_MICROS: AtomicI64 = AtomicI64::new(0);
    let micros = now.unix_nanos / 1000;
    let last = LAST_MICROS
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(micros.max(last + 1)))
        .unwrap_or(micros);
    let micros = micros.max(last + 1);
    let (seconds, rest) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    let mut name = format!("{seconds}.M{rest}P{}.", process.pid).into_bytes();
    for byte in process.host.bytes() {
        match byte {
            b'/' | INFO_SEP | b'\n' | b'\r' => name.extend(format!("\\{byte:03o}").bytes()),
            _ => name.push(byte),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_never_repeat() {
        let process = Process { pid: 7, host: "a/b:c".to_owned() };
        let now = Timestamp { unix_nanos: 1_700_000_000_123_456_789 };
        let first = unique_name(now, &process, (3, Some(4)));
        assert_ne!(first, unique_name(now, &process, (3, Some(4))));
        let text = String::from_utf8(first).unwrap();
        assert!(text.ends_with("P7.a\\057b\\072c,S=3,W=4"), "{text}");
    }
}
