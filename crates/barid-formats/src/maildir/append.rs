//! Delivery of messages: written to `tmp`, made durable, and renamed. A message that is a file of
//! another Maildir on the same file system is linked and neither read nor written, as in Dovecot:
//! to its final name if the system wrote its bytes to the disk long ago, else to `tmp`.
//!
//! Order: write and fsync every file in `tmp` (where there are many, sync the file system instead);
//! give all messages UIDs by appending to `dovecot-uidlist` under its lock (fdatasync); rename the
//! files to `new` or `cur`, and link the others there; fsync these. Commit point of each message:
//! its rename or link; acknowledged after the last fsync. The names in `tmp` need not be durable,
//! since nothing looks for a message there. After a crash before it, leftovers in `tmp` and UIDs
//! that belong to no file do no harm; a message is complete or missing: a file that is linked to
//! its final name is complete and durable before.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};

use barid_mailbox::{ChangeProgress, Error, Known, MessageRest, NewMessage, Result, SyncContext};
use barid_state::MessageKey;
use barid_types::{Flag, FlagSet, Uid, UidValidity};
use barid_vfs::{File, Metadata, OpenOptions, Ownership, Process, Timestamp};

use super::keywords::Keywords;
use super::layout::{INFO_SEP, NAME_TRIES_MAX, UIDLIST_TAIL_LEN_MAX};
use super::name::{self, Letters};
use super::state::MaildirState;
use super::uidlist::{self, UidList, UidListRead};
use super::{Maildir, path_of, uids};
use crate::durable::{NewFiles, SYNC_FS_FILES_MIN};
use crate::files::{remove_link, write_message_file};
use crate::given::given_uids;

/// Time after which the system has written the content of a file to the disk: Linux begins after 30
/// seconds (`vm.dirty_expire_centisecs`) and looks every 5.
const WRITTEN_BACK_NANOS: i64 = 120_000_000_000;

/// A message that gets its final name once its UID is durable.
struct Delivery<'a> {
    base: Vec<u8>,
    target: PathBuf,
    source: Source<'a>,
}

/// The file that becomes a message.
enum Source<'a> {
    /// A durable file in `tmp`.
    Tmp(PathBuf),
    /// The file of this message, which is durable where it is.
    Elsewhere(&'a NewMessage<'a>),
}

impl Delivery<'_> {
    fn tmp(&self) -> Option<&PathBuf> {
        match &self.source {
            Source::Tmp(path) => Some(path),
            Source::Elsewhere(_) => None,
        }
    }
}

/// The common properties of the new files of an append.
struct NewFileTerms<'a> {
    maildir: &'a Maildir,
    keywords: &'a Keywords,
    process: Process,
    ownership: Ownership,
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
pub(super) fn append<'a>(
    maildir: &Maildir,
    context: &mut SyncContext<'_>,
    keywords: &Keywords,
    appends: &'a [NewMessage<'a>],
) -> Result<MaildirAppend> {
    if appends.is_empty() {
        return Ok(MaildirAppend::default());
    }
    let mut steps = context.steps(appends.len());
    let cur = &maildir.paths.cur;
    let ownership = Ownership::in_folder(&maildir.vfs.metadata(cur).map_err(Error::at(cur))?);
    let terms = NewFileTerms { maildir, keywords, process: maildir.vfs.process(), ownership };
    let mut deliveries = Vec::with_capacity(appends.len());
    let delivered = write_all(&terms, appends, &mut deliveries, &mut steps);
    let delivered = delivered.and_then(|synced| {
        let given = give_uids(maildir, context, &deliveries, appends)?;
        let placed = place_all(&terms, &deliveries)?;
        let (uidvalidity, uids, listed) = match given {
            Some((uidvalidity, uids)) => {
                (Some(uidvalidity), uids.into_iter().map(Some).collect(), 1)
            }
            None => (None, vec![None; appends.len()], 0),
        };
        let key = |delivery: &Delivery<'_>| MessageKey(name::base_hash(&delivery.base));
        let keys = deliveries.iter().map(key).collect();
        Ok(MaildirAppend { uids, uidvalidity, keys, barriers: synced + listed + placed })
    });
    if delivered.is_err() {
        // Renamed files are no longer there; the others may stay, since leftovers do no harm.
        let left: Vec<_> = deliveries.iter().filter_map(Delivery::tmp).cloned().collect();
        maildir.vfs.remove_files(&left);
    }
    delivered
}

/// Writes the messages to `tmp`, durably, except those that can be linked to their final names;
/// returns the number of barriers. A request to stop is noticed between two messages.
fn write_all<'a>(
    terms: &NewFileTerms<'_>,
    appends: &'a [NewMessage<'a>],
    deliveries: &mut Vec<Delivery<'a>>,
    steps: &mut ChangeProgress<'_>,
) -> Result<u64> {
    let maildir = terms.maildir;
    let tmp = &maildir.paths.tmp;
    match maildir.vfs.create_dir(tmp, 0o700) {
        Ok(()) => maildir.vfs.sync_dir(&maildir.path).map_err(Error::at(&maildir.path))?,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(source) => return Err(Error::at(tmp)(source)),
    }
    let mut files = NewFiles::begin(maildir.vfs.as_ref(), tmp, appends.len())?;
    let (mut are_all_linked, mut can_link) = (true, false);
    for message in appends {
        steps.check(&maildir.path)?;
        steps.advance(1);
        // The first one shows whether files can be linked.
        if can_link && let Some(delivery) = link_later(terms, message) {
            deliveries.push(delivery);
            continue;
        }
        if let Some((base, tmp, found)) = link_to_tmp(terms, message)? {
            can_link = true;
            let target = terms.target_of(message, &base);
            deliveries.push(Delivery { base, target, source: Source::Tmp(tmp.clone()) });
            if !is_written_back(maildir, found.modified) {
                are_all_linked = false;
                let file = maildir.vfs.open(&tmp, OpenOptions::READ).map_err(Error::at(&tmp))?;
                files.written(&*file).map_err(Error::at(&tmp))?;
            }
            continue;
        }
        are_all_linked = false;
        let (base, tmp, file) = write_one(terms, message)?;
        let written = files.written(&*file).map_err(Error::at(&tmp));
        let target = terms.target_of(message, &base);
        deliveries.push(Delivery { base, target, source: Source::Tmp(tmp) });
        written?;
    }
    // The bytes of old linked files are on the disk.
    if are_all_linked { Ok(0) } else { files.finish_files() }
}

/// Returns `true` if the system wrote the bytes of a file to the disk long ago, even if the program
/// that wrote the file left that to the system.
fn is_written_back(maildir: &Maildir, modified: Timestamp) -> bool {
    let (modified, now) = (modified.unix_nanos, maildir.vfs.now().unix_nanos);
    modified < now && now - modified > WRITTEN_BACK_NANOS
}

/// Prepares the link of a message to its final name; `None` if its date, which is that of its file,
/// does not say that its bytes are on the disk.
fn link_later<'a>(terms: &NewFileTerms<'_>, message: &'a NewMessage<'a>) -> Option<Delivery<'a>> {
    let (whole, date) = (message.whole()?, message.internal_date?);
    let unix_nanos = date.unix_seconds.saturating_mul(1_000_000_000);
    if !is_written_back(terms.maildir, Timestamp { unix_nanos }) {
        return None;
    }
    let base = terms.unique_name(whole.size(), whole.noted_crlf_size());
    let target = terms.target_of(message, &base);
    Some(Delivery { base, target, source: Source::Elsewhere(message) })
}

/// Links the file of a message to `tmp`; returns its base name, its path and its metadata. `None`
/// if it is to be written.
fn link_to_tmp(
    terms: &NewFileTerms<'_>,
    message: &NewMessage<'_>,
) -> Result<Option<(Vec<u8>, PathBuf, Metadata)>> {
    let Some(whole) = message.whole() else { return Ok(None) };
    let base = terms.unique_name(whole.size(), whole.noted_crlf_size());
    let tmp = path_of(&terms.maildir.paths.tmp, &base);
    Ok(terms.link(whole, &tmp, |_| true)?.map(|found| (base, tmp, found)))
}

impl NewFileTerms<'_> {
    /// Links the file of a message to a path; returns its metadata. `None`, and no link, if that is
    /// not possible, or `may_be` refuses it, or somebody may read the file who may not read the
    /// other files of the folder, or the reverse.
    fn link(
        &self,
        whole: &dyn MessageRest,
        to: &Path,
        may_be: impl FnOnce(&Metadata) -> bool,
    ) -> Result<Option<Metadata>> {
        let Some(found) = whole.link(to)? else { return Ok(None) };
        if self.ownership.admits(&found) && may_be(&found) {
            return Ok(Some(found));
        }
        remove_link(self.maildir.vfs.as_ref(), to).map_err(Error::at(to))?;
        Ok(None)
    }

    fn unique_name(&self, size: u64, crlf_size: Option<u64>) -> Vec<u8> {
        unique_name(self.maildir.vfs.now(), &self.process, (size, crlf_size))
    }

    /// Returns the path of a message in `new` or `cur`.
    fn target_of(&self, message: &NewMessage<'_>, base: &[u8]) -> PathBuf {
        let letters = Letters {
            flags: message.flags.without(Flag::Recent),
            keywords: self.keywords.letters(&message.keywords),
        };
        // As in Dovecot, `new` is for messages without flags except \Recent.
        match letters == Letters::default() {
            true => path_of(&self.maildir.paths.new, base),
            false => path_of(&self.maildir.paths.cur, &name::with_letters(base, letters)),
        }
    }
}

/// Writes one message to `tmp`; returns its base name, its path and the file.
fn write_one(
    terms: &NewFileTerms<'_>,
    message: &NewMessage<'_>,
) -> Result<(Vec<u8>, PathBuf, Box<dyn File>)> {
    let (size, crlf_size) = (message.size(), message.crlf_size()?);
    let mut tries = 0;
    loop {
        let base = terms.unique_name(size, Some(crlf_size));
        let tmp = path_of(&terms.maildir.paths.tmp, &base);
        match terms.ownership.create(terms.maildir.vfs.as_ref(), &tmp) {
            Ok(file) => {
                write_content(terms, message, &tmp, &*file)?;
                return Ok((base, tmp, file));
            }
            Err(error)
                if error.kind() == std::io::ErrorKind::AlreadyExists && tries < NAME_TRIES_MAX =>
            {
                tries += 1;
            }
            Err(source) => return Err(Error::at(&tmp)(source)),
        }
    }
}

/// Writes a message to its new file in `tmp`; removes the file after an error.
fn write_content(
    terms: &NewFileTerms<'_>,
    message: &NewMessage<'_>,
    tmp: &Path,
    file: &dyn File,
) -> Result<()> {
    let vfs = terms.maildir.vfs.as_ref();
    let write = || {
        write_message_file(message, file, tmp)?;
        if let Some(date) = message.internal_date {
            let unix_nanos = date.unix_seconds.saturating_mul(1_000_000_000);
            file.set_times(vfs.now(), Timestamp { unix_nanos }).map_err(Error::at(tmp))?;
        }
        Ok(())
    };
    let written = write();
    if written.is_err() {
        let _ = vfs.remove_file(tmp);
    }
    written
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
    deliveries: &[Delivery<'_>],
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

/// Gives all files their final names; returns the number of barriers. On error, none of the names
/// remains.
fn place_all(terms: &NewFileTerms<'_>, deliveries: &[Delivery<'_>]) -> Result<u64> {
    let maildir = terms.maildir;
    let mut placed = 0;
    let result = try_place_all(terms, deliveries, &mut placed);
    if result.is_err() {
        let targets: Vec<_> =
            deliveries[..placed].iter().map(|delivery| delivery.target.clone()).collect();
        drop(maildir.vfs.remove_files(&targets));
    }
    result
}

/// Counts in `placed` the files whose final names may exist.
fn try_place_all(
    terms: &NewFileTerms<'_>,
    deliveries: &[Delivery<'_>],
    placed: &mut usize,
) -> Result<u64> {
    let maildir = terms.maildir;
    let mut barriers = 0;
    for delivery in deliveries {
        match &delivery.source {
            Source::Tmp(tmp) => {
                *placed += 1;
                let rename = maildir.vfs.rename(tmp, &delivery.target);
                rename.map_err(Error::at(&delivery.target))?;
            }
            Source::Elsewhere(message) => {
                // After an error nothing of ours has this name, but somebody else's file may.
                barriers += place_linked(terms, delivery, message)?;
                *placed += 1;
            }
        }
    }
    for dir in [&maildir.paths.new, &maildir.paths.cur] {
        if deliveries.iter().any(|delivery| delivery.target.parent() == Some(dir)) {
            maildir.vfs.sync_dir(dir).map_err(Error::at(dir))?;
            barriers += 1;
        }
    }
    Ok(barriers)
}

/// Links the file of a message to its final name; if it cannot be linked after all, the message is
/// written to `tmp`, made durable and renamed. Returns the number of barriers.
fn place_linked(
    terms: &NewFileTerms<'_>,
    delivery: &Delivery<'_>,
    message: &NewMessage<'_>,
) -> Result<u64> {
    let maildir = terms.maildir;
    let vfs = maildir.vfs.as_ref();
    let is_durable = |found: &Metadata| is_written_back(maildir, found.modified);
    if let Some(whole) = message.whole()
        && terms.link(whole, &delivery.target, is_durable)?.is_some()
    {
        return Ok(0);
    }
    let tmp = path_of(&maildir.paths.tmp, &delivery.base);
    let file = terms.ownership.create(vfs, &tmp).map_err(Error::at(&tmp))?;
    write_content(terms, message, &tmp, &*file)?;
    let renamed = file.sync_all().and_then(|()| vfs.rename(&tmp, &delivery.target));
    if renamed.is_err() {
        let _ = vfs.remove_file(&tmp);
    }
    renamed.map_err(Error::at(&delivery.target))?;
    Ok(1)
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
