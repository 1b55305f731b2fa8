//! Pending writes of UIDs: lines of `dovecot-uidlist`, entries of the ledger.

use std::path::Path;

use barid_mailbox::Result;
use barid_state::{LedgerEntry, MessageKey};
use barid_types::{Uid, UidValidity};
use barid_vfs::{DotLock, FileStamp, Vfs};

use super::list::MaildirMatch;
use super::read::MaildirRead;
use super::state::ListState;
use super::uidlist::{self, UidList};
use super::uids::{LoadedUidList, MaildirLedger, MaildirUidPlan, UidInputs};

/// All UIDs, and the writes that make them durable.
#[derive(Debug)]
pub(super) struct UidAssignment {
    pub(super) uidvalidity: UidValidity,
    pub(super) uidnext: Uid,
    /// The fresh messages, ascending by UID.
    pub(super) jobs: Vec<MaildirRead>,
    /// The file as it has been read or will be written.
    pub(super) list: Option<ListState>,
    /// Hashes of lines without a file, ascending; `None` if not known.
    pub(super) orphans: Option<Vec<u64>>,
    /// Pending write of the file; it holds the lock.
    pub(super) write: Option<UidListWrite>,
    /// Pending change of the ledger.
    pub(super) ledger: Option<LedgerChange>,
    /// The change of the ledger if `write` fails.
    pub(super) fallback: Option<LedgerChange>,
    /// The stamp of the file as read.
    pub(super) file_stamp: FileStamp,
    pub(super) defects: Vec<String>,
}

/// A change of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LedgerChange {
    /// `true` if all its entries are void.
    pub(super) replace: bool,
    /// `true` if it was lost, and the file has all UIDs.
    pub(super) keep: bool,
    pub(super) uidvalidity: UidValidity,
    /// The entries, ascending.
    pub(super) entries: Vec<LedgerEntry>,
}

/// A change of `dovecot-uidlist`.
#[derive(Debug)]
pub(super) struct UidListWrite {
    _lock: DotLock,
    text: Vec<u8>,
    /// Offset at which to append; `None` to rewrite the file.
    append_at: Option<u64>,
}

impl UidListWrite {
    /// Writes, durably, and releases the lock; returns the file's stamp.
    pub(super) fn run(self, vfs: &dyn Vfs, dir: &Path, path: &Path) -> Result<FileStamp> {
        match self.append_at {
            Some(at) => uidlist::append(vfs, path, at, &self.text),
            None => uidlist::replace(vfs, dir, path, &self.text),
        }
    }
}

impl UidInputs<'_> {
    /// Prepares the writes and the new state.
    pub(super) fn finish(
        &self,
        loaded: LoadedUidList,
        plan: MaildirUidPlan,
        ledger: &MaildirLedger,
        lock: Option<DotLock>,
    ) -> UidAssignment {
        let guid = guid(self.vfs.as_ref());
        let old = loaded.list.as_ref();
        let written = |at: u32| self.is_twin(at);
        let news: Vec<(Uid, u32)> = plan
            .uids
            .iter()
            .filter(|(_, at, is_written)| !is_written && !written(*at))
            .map(|(uid, at, _)| (*uid, *at))
            .collect();
        let mut assigned = UidAssignment {
            uidvalidity: plan.uidvalidity,
            uidnext: plan.uidnext,
            jobs: plan
                .uids
                .iter()
                .map(|(uid, at, _)| MaildirRead { uid: *uid, sighting: *at })
                .collect(),
            list: None,
            orphans: self.orphans(&loaded),
            write: None,
            ledger: self.ledger_change(&plan, ledger, lock.is_some()),
            fallback: None,
            file_stamp: old.map_or(self.stamp.files[2], |list| list.stamp),
            defects: Vec::new(),
        };
        if let Some(why) = loaded.corrupt {
            assigned.defects.push(format!("dovecot-uidlist: {why}; all messages get new UIDs"));
        }
        let Some(lock) = lock else {
            assigned.list = old
                .filter(|_| !plan.void && !plan.conflict)
                .map(|l| self.list_state(l, loaded.whole));
            return assigned;
        };
        assigned.fallback = self.ledger_change(&plan, ledger, false);
        let mut text = Vec::with_capacity(news.len() * 64 + 64);
        let rewrite = plan.rewrite || old.is_none();
        if rewrite {
            let list = self.rewrite(old, &plan, &guid, &mut text);
            assigned.list = Some(list);
        } else if let Some(old) = old {
            for (uid, at) in &news {
                uidlist::write_new_line(*uid, self.base_of(*at), &mut text);
            }
            let mut list = self.list_state(old, loaded.whole);
            list.offset += text.len() as u64;
            list.last_uid = news.last().map_or(list.last_uid, |(uid, _)| uid.get());
            list.lines += news.len() as u32;
            assigned.list = Some(list);
        }
        if !rewrite && text.is_empty() {
            return assigned;
        }
        let append_at = old.filter(|_| !rewrite).map(|list| list.end_offset);
        assigned.write = Some(UidListWrite { _lock: lock, text, append_at });
        assigned
    }

    pub(super) fn base_of(&self, sighting: u32) -> &[u8] {
        self.listing.names.base(self.listing.sightings[sighting as usize].name)
    }

    fn list_state(&self, list: &UidList, whole: bool) -> ListState {
        let known = self.before.state.as_ref().and_then(|state| state.list.as_ref());
        let lines_before = known.filter(|_| !whole).map_or(0, |known| known.lines);
        ListState {
            header: list.header.clone(),
            inode: list.stamp.inode,
            offset: list.end_offset,
            last_uid: list.last_uid(),
            lines: lines_before + list.lines().len() as u32,
        }
    }

    /// Writes the complete file: lines of files that may still exist, and those of new ones.
    fn rewrite(
        &self,
        old: Option<&UidList>,
        plan: &MaildirUidPlan,
        guid: &[u8; 32],
        text: &mut Vec<u8>,
    ) -> ListState {
        let mut header = match old {
            Some(list) => list.header.clone(),
            None => UidList::empty(plan.uidvalidity, *guid).header,
        };
        header.uidvalidity = plan.uidvalidity;
        header.version = 3;
        header.guid = header.guid.or(Some(*guid));
        header.uidnext = plan.uidnext;
        uidlist::write_header(&header, plan.uidnext, guid, text);
        let old_orphans = self.before.state.as_ref().and_then(|state| state.orphans.as_ref());
        // All lines in one buffer: there may be very many.
        let (mut lines, mut bytes) = (Vec::with_capacity(plan.uids.len()), Vec::new());
        bytes.reserve(plan.uids.len() * 64);
        if let Some(list) = old.filter(|_| !plan.void) {
            for line in list.lines() {
                let new_name = self.new_name(list, line);
                let dropped = new_name.is_none()
                    && !self.is_live(line.hash, list.name(line))
                    && old_orphans.is_some_and(|o| o.binary_search(&line.hash).is_ok());
                if !dropped {
                    let from = bytes.len();
                    list.write_line(line, new_name.unwrap_or(list.name(line)), &mut bytes);
                    lines.push((line.uid, from..bytes.len()));
                }
            }
        }
        let mut add = |uid: Uid, base: &[u8]| {
            let from = bytes.len();
            uidlist::write_new_line(uid, base, &mut bytes);
            lines.push((uid, from..bytes.len()));
        };
        if plan.void {
            for (row, seen) in self.before.rows.iter().zip(&self.listing.seen) {
                match seen {
                    _ if row.is_twin() => {}
                    MaildirMatch::Gone => {}
                    MaildirMatch::Same => add(row.uid, self.before.names.base(row.name)),
                    MaildirMatch::Changed(at) => add(row.uid, self.base_of(*at)),
                }
            }
        }
        for (uid, at, is_written) in &plan.uids {
            if !is_written && !self.is_twin(*at) {
                add(*uid, self.base_of(*at));
            }
        }
        lines.sort_by_key(|(uid, _)| *uid);
        lines.dedup_by_key(|(uid, _)| *uid);
        text.reserve(bytes.len());
        for (_, line) in &lines {
            text.extend_from_slice(&bytes[line.clone()]);
        }
        ListState {
            header,
            inode: 0,
            offset: text.len() as u64,
            last_uid: lines.last().map_or(0, |(uid, _)| uid.get()),
            lines: lines.len() as u32,
        }
    }

    /// Returns the change of the ledger: it must always store twins, and the other messages only if
    /// the file does not.
    fn ledger_change(
        &self,
        plan: &MaildirUidPlan,
        ledger: &MaildirLedger,
        in_file: bool,
    ) -> Option<LedgerChange> {
        let same = ledger.uidvalidity == Some(plan.uidvalidity);
        let entry = |uid: Uid, key: u64| LedgerEntry { uid, key: MessageKey(key) };
        let new_entries = |all: bool| -> Vec<LedgerEntry> {
            let wanted = |at: &u32, is_written: bool| match in_file {
                true => self.is_twin(*at),
                false => all || !is_written || self.is_twin(*at),
            };
            plan.uids
                .iter()
                .filter(|(_, at, is_written)| wanted(at, *is_written))
                .map(|(uid, at, _)| entry(*uid, self.listing.sightings[*at as usize].key))
                .collect()
        };
        let whole =
            !same || plan.conflict || (in_file && ledger.by_key.len() > self.before.twins.len());
        if !whole {
            let known = |e: &LedgerEntry| ledger.by_key.get(&{ e.key }.0) == Some(&e.uid);
            let mut entries = new_entries(plan.void || plan.conflict);
            entries.retain(|entry| !known(entry));
            let (replace, keep) = (false, false);
            let change = LedgerChange { replace, keep, uidvalidity: plan.uidvalidity, entries };
            return (!change.entries.is_empty()).then_some(change);
        }
        let rows = self.before.rows.iter().filter(|row| match in_file {
            true => row.is_twin(),
            false => plan.void || row.is_twin(),
        });
        let mut entries: Vec<LedgerEntry> = rows.map(|row| entry(row.uid, row.key)).collect();
        entries.extend(new_entries(plan.void || plan.conflict));
        entries.sort_by_key(|entry| entry.uid);
        entries.dedup_by_key(|entry| entry.uid);
        let is_used = !entries.is_empty() || !ledger.by_key.is_empty();
        let keep = ledger.is_lost && entries.is_empty() && !plan.conflict && !plan.void;
        let needed = is_used || plan.void || ledger.is_lost;
        let uidvalidity = plan.uidvalidity;
        needed.then_some(LedgerChange { replace: true, keep, uidvalidity, entries })
    }

    /// Returns the lines without a file.
    fn orphans(&self, loaded: &LoadedUidList) -> Option<Vec<u64>> {
        let Some(list) = &loaded.list else {
            return Some(Vec::new());
        };
        let mut orphans = Vec::new();
        if !loaded.whole {
            let known = self.before.state.as_ref().and_then(|state| state.orphans.as_ref())?;
            orphans.extend_from_slice(known);
            let gone = self.before.rows.iter().zip(&self.listing.seen);
            orphans.extend(
                gone.filter(|(_, seen)| **seen == MaildirMatch::Gone).map(|(row, _)| row.key),
            );
        }
        let lines = list.lines().iter();
        orphans.extend(
            lines.filter(|line| !self.is_live(line.hash, list.name(line))).map(|line| line.hash),
        );
        orphans.sort_unstable();
        orphans.dedup();
        Some(orphans)
    }
}

/// Returns a random GUID in hex.
pub(super) fn guid(vfs: &dyn Vfs) -> [u8; 32] {
    let mut random = [0; 16];
    if vfs.random(&mut random).is_err() {
        random = u128::from(vfs.now().unix_nanos.cast_unsigned()).to_be_bytes();
    }
    let mut guid = [0; 32];
    for (byte, out) in random.iter().zip(guid.chunks_exact_mut(2)) {
        out[0] = b"0123456789abcdef"[usize::from(byte >> 4)];
        out[1] = b"0123456789abcdef"[usize::from(byte & 15)];
    }
    guid
}
