//! Our writer and c-client's sessions.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use barid_formats::{MboxMailbox, MboxOptions};
use barid_mailbox::{ChangeSet, EmptyKnown, Error, NewMessage, Storage, SyncContext};
use barid_testkit::disk;
use barid_testkit::peers::CClient;
use barid_types::FlagSet;
use barid_vfs::{LockKind, LockMode, OpenOptions, OsVfs, Vfs};

use super::rounds::Scanned;
use super::support::{Box_, utc};

const MESSAGE: &str = "From a@b Thu Nov 19 10:00:00 2009\nSubject: x\n\nbody\n\n";

/// Returns a mailbox of c-client's user with `count` messages.
fn shared(count: usize) -> Option<(CClient, std::path::PathBuf)> {
    let peer = CClient::new()?;
    let path = peer.folder().join("box");
    disk::write(&path, MESSAGE.repeat(count).as_bytes()).unwrap();
    Some((peer, path))
}

fn sync(path: &Path, changes: &ChangeSet, appends: &[NewMessage<'_>]) -> Result<(), Error> {
    let options = MboxOptions { lock_timeout: Duration::from_millis(200), ..utc() };
    let found = Box_::open(path, None).scan();
    let mailbox = MboxMailbox::open_with(Arc::new(OsVfs), path, None, options)?;
    mailbox.sync(changes, appends, &mut SyncContext::new(&Scanned(&found))).map(drop)
}

#[test]
fn nothing_moves_under_a_session_and_its_holder_is_named() {
    let Some((mut peer, path)) = shared(3) else { return };
    assert_eq!(peer.open("box").unwrap(), 3);
    peer.command("flag 2 \\Flagged").unwrap();
    let changes = ChangeSet { drop_recent: true, write_uids: true, ..ChangeSet::default() };
    match sync(&path, &changes, &[]) {
        Err(Error::Locked { holder, .. }) => {
            assert!(holder.ends_with(", cclient (c-client session)"), "{holder}");
        }
        other => panic!("{other:?}"),
    }
    let append = NewMessage {
        bytes: b"Subject: new\n\nbody\n",
        internal_date: None,
        flags: FlagSet::EMPTY,
        keywords: Vec::new(),
        ..NewMessage::default()
    };
    sync(&path, &ChangeSet::default(), std::slice::from_ref(&append)).unwrap();
    peer.command("check").unwrap();
    assert_eq!(peer.command("status").unwrap()[0].split(' ').next(), Some("4"));
    assert_eq!(peer.command("uids").unwrap(), ["1", "2", "3", "4"]);
    peer.command("close").unwrap();
    sync(&path, &changes, &[append]).unwrap();
    let found = Box_::open(&path, None).scan();
    let uids: Vec<u32> = found.report.new_uids.iter().map(|uid| uid.get()).collect();
    assert_eq!(uids, [1, 2, 3, 4, 5]);
}

#[test]
fn the_signal_of_c_client_ends_nobody() {
    let Some((mut peer, path)) = shared(1) else { return };
    // Locked as by our writer: c-client can only open it read-only, and this process survives.
    let metadata = OsVfs.metadata(&path).unwrap();
    let name = format!("/tmp/.{:x}.{:x}", metadata.device, metadata.inode);
    let session = OsVfs.open(Path::new(&name), OpenOptions::create(0o666)).unwrap();
    session.set_mode(0o666).unwrap();
    session.write_all_at(b"2147483647 1", 0).unwrap();
    assert!(session.try_lock(LockKind::Flock, LockMode::Exclusive).unwrap());
    let before = disk::read(&path).unwrap();
    peer.open("box").unwrap();
    assert!(peer.messages.iter().any(|said| said.contains("readonly")), "{:?}", peer.messages);
    peer.command("flag 1 \\Seen").unwrap();
    peer.command("close").unwrap();
    assert_eq!(disk::read(&path).unwrap(), before);
    OsVfs.remove_file(Path::new(&name)).unwrap();
    drop(session);
    peer.open("box").unwrap();
    peer.command("flag 1 \\Seen").unwrap();
    peer.command("close").unwrap();
    assert_ne!(disk::read(&path).unwrap(), before);
    let known = EmptyKnown::default();
    assert!(Box_::open(&path, None).mailbox.recover(&mut SyncContext::new(&known)).is_ok());
}
