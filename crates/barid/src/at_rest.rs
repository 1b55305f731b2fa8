//! A mailbox that is not open: its identity and its UIDVALIDITY, found without a scan.

use std::path::Path;
use std::sync::Arc;

use barid_cache::{Opened, Snapshot};
use barid_formats::MailboxSpec;
use barid_state::{Access, Identity, Ledger};
use barid_types::UidValidity;
use barid_vfs::Vfs;

use crate::create::sync_attributes;
use crate::opening::{CachePlace, LEDGER_LOCK_TIMEOUT, is_current, storage_of};
use crate::{OpenOptions, Result};

/// State of a mailbox that is not open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailboxAtRest {
    /// Its identity (`user.barid.id`).
    pub id: u128,
    /// The UIDVALIDITY that the mailbox itself stores.
    pub stored_uidvalidity: Option<UidValidity>,
    /// The UIDVALIDITY that the ledger has.
    pub ledger_uidvalidity: Option<UidValidity>,
    /// `true` if a change of it was begun and not finished; opening it completes the change.
    pub is_unfinished: bool,
}

impl MailboxAtRest {
    /// Returns the UIDVALIDITY that an opening would find; `None` if the mailbox has never had one.
    pub fn uidvalidity(&self) -> Option<UidValidity> {
        self.stored_uidvalidity.or(self.ledger_uidvalidity)
    }
}

/// Returns the state of a mailbox. Costs some system calls and the read of a small file or of one
/// header, whatever the size of the mailbox.
///
/// # Errors
/// As [`crate::Mailbox::open_in`].
pub fn at_rest(
    vfs: &Arc<dyn Vfs>,
    spec: &MailboxSpec,
    options: &OpenOptions,
) -> Result<MailboxAtRest> {
    let (storage, identity) = storage_of(vfs, spec, options)?;
    let ledger = Ledger::open(Arc::clone(vfs), &options.state_dir, &identity, Access::ReadOnly)?;
    Ok(MailboxAtRest {
        id: identity.id,
        stored_uidvalidity: storage.stored_uidvalidity()?,
        ledger_uidvalidity: ledger.uidvalidity(),
        is_unfinished: storage.unfinished(Some(&options.state_dir))?.is_some(),
    })
}

/// Size of a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MailboxFigures {
    /// Its identity.
    pub id: u128,
    /// Number of messages.
    pub messages: u32,
    /// Bytes of the mailbox: the file, or the sum of the messages.
    pub size_bytes: u64,
}

/// Returns the size of a mailbox as its cache has it, if the mailbox has not changed since; `None`
/// if it must be opened for that. Costs some system calls, whatever the size of the mailbox.
///
/// # Errors
/// As [`crate::Mailbox::open_in`].
pub fn figures_at_rest(
    vfs: &Arc<dyn Vfs>,
    spec: &MailboxSpec,
    options: &OpenOptions,
) -> Result<Option<MailboxFigures>> {
    let (storage, identity) = storage_of(vfs, spec, options)?;
    let place = CachePlace::of(vfs, options, &identity);
    if !place.on_disk || storage.unfinished(Some(&options.state_dir))?.is_some() {
        return Ok(None);
    }
    // An error of the cache is one for the opening, which repairs it.
    let Ok(Opened::Fresh(snapshot)) = Snapshot::open(place.vfs, &place.path, identity.id) else {
        return Ok(None);
    };
    if !is_current(&*storage, &snapshot, &storage.stamp()?, options.full_check) {
        return Ok(None);
    }
    let size_bytes = snapshot.meta().size_bytes;
    Ok(Some(MailboxFigures { id: identity.id, messages: snapshot.len(), size_bytes }))
}

/// Changes the UIDVALIDITY of a mailbox, durably. Returns `false`, with nothing changed, if the
/// mailbox stores one that cannot be changed without a rewrite: that of an mbox, mbx or mix.
///
/// Commit point: that of the format ([`barid_mailbox::Storage::set_uidvalidity`]), or the commit of
/// the ledger where the mailbox stores no UIDVALIDITY.
///
/// # Errors
/// As [`crate::Mailbox::open_in`]; errors of the file system and of the ledger.
pub fn renumber(
    vfs: &Arc<dyn Vfs>,
    spec: &MailboxSpec,
    options: &OpenOptions,
    uidvalidity: UidValidity,
) -> Result<bool> {
    let (storage, identity) = storage_of(vfs, spec, options)?;
    if storage.set_uidvalidity(uidvalidity)? {
        return Ok(true);
    }
    if storage.stored_uidvalidity()?.is_some() {
        return Ok(false);
    }
    if let Some(path) = storage.path() {
        sync_attributes(&**vfs, path, storage.format().is_folder())?;
    }
    let access = Access::ReadWrite;
    let mut ledger = Ledger::open(Arc::clone(vfs), &options.state_dir, &identity, access)?;
    ledger.lock(LEDGER_LOCK_TIMEOUT)?;
    ledger.set_uidvalidity(uidvalidity);
    ledger.commit()?;
    Ok(true)
}

/// Returns the identity of the mailbox or folder at `path`. With `may_write`, one that has none
/// gets one, which changes its ctime; otherwise it is derived from the path.
///
/// # Errors
/// The path does not exist or is not accessible.
pub fn identity_of(vfs: &dyn Vfs, path: &Path, may_write: bool) -> Result<u128> {
    Ok(Identity::of(vfs, path, may_write)?.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CreateOptions, FormatName, Mailbox};
    use barid_vfs::MemVfs;

    /// Creates a mailbox with a UIDVALIDITY, changes that, and opens it.
    fn check(format: &str, stored: bool, renumbered: bool) {
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        vfs.create_dir_all(Path::new("/mail"), 0o700).unwrap();
        let spec = MailboxSpec::parse(&format!("{format}:/mail/box"));
        let kind = FormatName::named(format).unwrap().format();
        let options = OpenOptions::new(None, "/state".into());
        let validity = |number| UidValidity::new(number).unwrap();
        let create = CreateOptions { uidvalidity: Some(validity(55)), ..CreateOptions::default() };
        crate::create(&vfs, &spec.path, kind, &create, &options.state_dir).unwrap();
        let found = at_rest(&vfs, &spec, &options).unwrap();
        assert_eq!(found.stored_uidvalidity, stored.then_some(validity(55)), "{format}");
        assert_eq!(found.uidvalidity(), Some(validity(55)), "{format}");
        assert!(!found.is_unfinished);
        let done = renumber(&vfs, &spec, &options, validity(66)).unwrap();
        assert_eq!(done, renumbered, "{format}");
        let expected = validity(if renumbered { 66 } else { 55 });
        assert_eq!(at_rest(&vfs, &spec, &options).unwrap().uidvalidity(), Some(expected));
        let opened = Mailbox::open_in(Arc::clone(&vfs), &spec, &options).unwrap();
        assert_eq!(opened.status().uidvalidity, expected, "{format}");
        let id = identity_of(&*vfs, &spec.path, false).unwrap();
        assert_eq!(id, at_rest(&vfs, &spec, &options).unwrap().id);
    }

    #[test]
    fn uidvalidity_is_found_and_changed_without_a_scan() {
        check("maildir", true, true);
        check("mbx", true, false);
        check("mix", true, false);
        check("mh", false, true);
        check("mboxrd", false, true);
        check("mmdf", false, true);
    }

    /// Counts a mailbox without opening it, before and after a change.
    fn check_figures(format: &str) {
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        vfs.create_dir_all(Path::new("/mail"), 0o700).unwrap();
        let spec = MailboxSpec::parse(&format!("{format}:/mail/box"));
        let kind = FormatName::named(format).unwrap().format();
        let options = OpenOptions::new(Some("/cache".into()), "/state".into());
        let create = CreateOptions::default();
        crate::create(&vfs, &spec.path, kind, &create, &options.state_dir).unwrap();
        assert_eq!(figures_at_rest(&vfs, &spec, &options).unwrap(), None, "{format}: no cache");
        for messages in 1..3 {
            let mut mailbox = Mailbox::open_in(Arc::clone(&vfs), &spec, &options).unwrap();
            let appends = [crate::NewMessage { bytes: b"A: b\n\nc\n", ..Default::default() }];
            let request = crate::ChangeRequest { appends: &appends, ..Default::default() };
            mailbox.change(&request, &crate::ChangeOptions::default()).unwrap();
            vfs.sleep(std::time::Duration::from_secs(10));
            let opened = Mailbox::open_in(Arc::clone(&vfs), &spec, &options).unwrap().status();
            let found = figures_at_rest(&vfs, &spec, &options).unwrap();
            let (id, size_bytes) = (mailbox.view().id(), opened.size_bytes);
            assert_eq!(found, Some(MailboxFigures { id, messages, size_bytes }), "{format}");
            let changed = mailbox.change(&request, &crate::ChangeOptions::default()).unwrap();
            drop(mailbox);
            // A stamp that may hide a change is not trusted; the caches may follow the change.
            if let Some(found) = figures_at_rest(&vfs, &spec, &options).unwrap() {
                assert_eq!(found.messages, messages + 1, "{format}");
            }
            let mut mailbox = Mailbox::open_in(Arc::clone(&vfs), &spec, &options).unwrap();
            let expunge = crate::ChangeRequest { expunge: changed.appended, ..Default::default() };
            mailbox.change(&expunge, &crate::ChangeOptions::default()).unwrap();
        }
    }

    #[test]
    fn figures_are_found_without_opening() {
        for format in ["maildir", "mboxrd", "mbx", "mix", "mh"] {
            check_figures(format);
        }
    }

    #[test]
    fn an_mbox_has_its_uidvalidity_in_its_first_header() {
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        let text = b"From a Thu Jan  1 00:00:00 1970\nX-IMAPbase: 77 0000000003\n\nb\n";
        let file = barid_vfs::OpenOptions::create_new(0o600);
        let file = vfs.open(Path::new("/box"), file).unwrap();
        file.write_all_at(text, 0).unwrap();
        let options = OpenOptions::new(None, "/state".into());
        let found = at_rest(&vfs, &MailboxSpec::parse("/box"), &options).unwrap();
        assert_eq!(found.uidvalidity().map(UidValidity::get), Some(77));
    }
}
