//! Mailboxes for the tests of this crate, on a disk in memory.

use std::path::Path;
use std::sync::Arc;

use barid_formats::{CreateOptions, MailboxSpec};
use barid_mailbox::{FlagChange, NewMessage};
use barid_types::{Flag, FlagSet, Uid};
use barid_vfs::{MemVfs, Vfs};

use crate::{ChangeOptions, ChangeRequest, Mailbox, OpenOptions};

/// Returns a disk with the folder `/mail`.
pub(crate) fn disk() -> Arc<dyn Vfs> {
    let vfs = MemVfs::new();
    vfs.create_dir_all(Path::new("/mail"), 0o700).unwrap();
    Arc::new(vfs)
}

/// Creates an empty mailbox and opens it, with caches in a folder or without one.
pub(crate) fn created(vfs: &Arc<dyn Vfs>, spec: &str, cache_dir: Option<&str>) -> Mailbox {
    let spec = MailboxSpec::parse(spec);
    let options = OpenOptions::new(cache_dir.map(Into::into), "/state".into());
    let format = spec.format.as_ref().unwrap().format();
    let dir = &options.state_dir;
    crate::create(vfs, &spec.path, format, &CreateOptions::default(), dir).unwrap();
    Mailbox::open_in(Arc::clone(vfs), &spec, &options).unwrap()
}

/// Creates a Maildir with equal small messages; returns their UIDs.
pub(crate) fn maildir(messages: usize) -> (Mailbox, Vec<Uid>) {
    let mut mailbox = created(&disk(), "maildir:/mail/box", Some("/cache"));
    let message = NewMessage { bytes: b"Subject: s\n\nt\n", ..NewMessage::default() };
    let appends = vec![message; messages];
    let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
    let uids = mailbox.change(&request, &ChangeOptions::default()).unwrap().appended;
    (mailbox, uids)
}

/// Expunges messages, and marks others as seen.
pub(crate) fn change(mailbox: &mut Mailbox, expunge: &[Uid], seen: &[Uid]) {
    let mut request = ChangeRequest { expunge: expunge.to_vec(), ..ChangeRequest::default() };
    let add = FlagSet::EMPTY.with(Flag::Seen);
    request.flags.push_all(seen.iter().copied(), &FlagChange { add, ..FlagChange::default() });
    mailbox.change(&request, &ChangeOptions::default()).unwrap();
}
