//! Reports of opening a mailbox, the first time and again.

use barid::{CacheState, Mailbox, MailboxSpec, NoteKind, OpenOptions, ReadAs, Uid};
use barid_vfs::{CallKind, Fault, FaultEffect, FaultVfs, OpenOptions as FileOptions, Vfs};
use std::path::Path;
use std::sync::Arc;

use crate::world::{World, told};

fn both(check: impl Fn(World)) {
    check(World::maildir(1));
    check(World::mbox(1));
}

#[test]
fn an_unchanged_mailbox_is_answered_from_the_cache() {
    both(|mut world| {
        world.deliver(50);
        world.wait();
        let first = world.open();
        assert_eq!(first.status().cache.state, CacheState::Populated);
        assert_eq!(first.status().cache.messages_read, 50);
        world.wait();
        // The first opening may itself have written UIDs beside the mailbox.
        world.open();
        let again = world.open();
        assert_eq!(again.status().cache.state, CacheState::Fresh);
        assert_eq!(again.status().cache.messages_read, 0);
        assert_eq!(told(&first), told(&again));
        assert_eq!(again.status().unseen, 50);
    });
}

#[test]
fn deleting_the_cache_changes_no_uid() {
    both(|mut world| {
        world.deliver(30);
        let before = world.open();
        world.deliver(3);
        world.open();
        let cache = world.options().cache_dir.unwrap();
        remove_all(&world, &cache);
        let after = world.open();
        assert_eq!(after.status().cache.state, CacheState::Populated);
        assert_eq!(told(&before), told(&after)[..30]);
        assert_eq!(before.status().uidvalidity, after.status().uidvalidity);
        assert!(after.status().highest_modseq > before.status().highest_modseq);
    });
}

#[test]
fn losing_the_state_never_reuses_a_uid_under_the_same_uidvalidity() {
    let mut world = World::mbox(2);
    world.deliver(10);
    let before = world.open().status();
    remove_all(&world, &world.options().state_dir);
    world.wait();
    let after = world.open().status();
    assert!(after.uidvalidity > before.uidvalidity, "{after:?}");
}

#[test]
fn read_only_writes_nothing_to_the_mailbox() {
    both(|mut world| {
        world.deliver(5);
        let before = world.memory.metadata(world.path()).unwrap();
        let options = OpenOptions { read_only: true, ..world.options() };
        let first = told(&world.open_with(&options));
        assert_eq!(first.len(), 5);
        assert_eq!(world.memory.metadata(world.path()).unwrap(), before);
        assert!(world.memory.metadata(Path::new("/mail/box/dovecot-uidlist")).is_err());
        assert_eq!(world.memory.xattr(world.path(), "user.barid.id").unwrap(), None);
        // The ledger keeps the UIDs.
        remove_all(&world, &options.cache_dir.clone().unwrap());
        assert_eq!(told(&world.open_with(&options)), first);
    });
}

#[test]
fn a_state_folder_that_cannot_be_written_is_told() {
    both(|mut world| {
        world.deliver(5);
        world.memory.create_dir(Path::new("/state"), 0o500).unwrap();
        let mailbox = world.open();
        assert_eq!(mailbox.len(), 5);
        assert!(mailbox.notes().iter().any(|note| note.kind == NoteKind::State));
    });
}

#[test]
fn a_damaged_cache_is_told_and_made_anew() {
    both(|mut world| {
        world.deliver(40);
        world.wait();
        let before = told(&world.open());
        for file in cache_files(&world) {
            let file = world.memory.open(&file, FileOptions::WRITE).unwrap();
            file.write_all_at(b"damage", 100).unwrap();
        }
        let mailbox = world.open();
        assert_eq!(mailbox.notes().len(), 1, "{:?}", mailbox.notes());
        assert_eq!(mailbox.notes()[0].kind, NoteKind::Cache);
        assert_eq!(told(&mailbox), before);
    });
}

#[test]
fn a_cache_that_cannot_be_written_is_kept_in_memory() {
    both(|mut world| {
        world.deliver(10);
        world.memory.open(Path::new("/cache"), FileOptions::create(0o600)).unwrap();
        let mailbox = world.open();
        assert_eq!(mailbox.status().cache.state, CacheState::None);
        assert_eq!(mailbox.notes()[0].kind, NoteKind::Cache);
        assert_eq!(told(&mailbox).len(), 10);
    });
}

#[test]
fn a_message_that_cannot_be_read_is_told_until_it_can() {
    let mut world = World::maildir(5);
    world.deliver(3);
    world.wait();
    let file = world.files().swap_remove(1);
    let denied = FaultEffect::Error(std::io::ErrorKind::PermissionDenied);
    let fault = Fault::nth(0).of(CallKind::Open).under(file).with(denied).forever();
    let faulty = Arc::new(FaultVfs::new(world.memory.clone(), fault));
    for _ in 0..3 {
        let mailbox = Mailbox::open_in(faulty.clone(), &world.spec, &world.options()).unwrap();
        let [note] = mailbox.notes() else { panic!("{:?}", mailbox.notes()) };
        assert_eq!(note.kind, NoteKind::Unreadable);
        assert!(note.text.starts_with("/mail/box: UID 2: cannot be read: new/"), "{}", note.text);
        assert_eq!(mailbox.len(), 3);
        world.wait();
    }
    let mailbox = world.open();
    assert!(mailbox.notes().is_empty(), "{:?}", mailbox.notes());
    assert_eq!(told(&mailbox), told(&world.open_from_scratch()));
    assert_eq!(world.open().status().cache.state, CacheState::Fresh);
}

#[test]
fn messages_are_read_where_they_are_now() {
    both(|mut world| {
        world.deliver(10);
        let mut mailbox = world.open();
        let uid = Uid::new(7).unwrap();
        let before = mailbox.read(uid, ReadAs::Message).unwrap();
        assert_eq!(before.bytes, world.corpus.message(6).bytes);
        // Another program moves it: by a rename, or by removing a message before it.
        if world.is_maildir() {
            let file = world.files().into_iter().nth(6).unwrap();
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            let to = world.path().join("cur").join(format!("{name}:2,S"));
            world.memory.rename(&file, &to).unwrap();
        } else {
            let bytes = world.read_mbox();
            let second = find(&bytes, b"\nFrom ", 5) + 1;
            world.write_mbox(&bytes[second..]);
        }
        assert_eq!(mailbox.read(uid, ReadAs::Message).unwrap(), before);
    });
}

#[test]
fn an_empty_mailbox_is_one() {
    both(|world| {
        let mailbox = world.open();
        assert!(mailbox.is_empty());
        assert_eq!(mailbox.status().uidnext, Uid::MIN);
        assert_eq!(world.open().len(), 0);
    });
}

#[test]
fn what_is_no_mailbox_is_told() {
    let world = World::maildir(3);
    let error = Mailbox::open_in(
        Arc::new(world.vfs.clone()),
        &MailboxSpec::parse("/mail"),
        &world.options(),
    )
    .unwrap_err();
    assert_eq!(error.kind(), barid::ErrorKind::User);
    assert!(error.hint().is_some());
    assert!(error.to_string().starts_with("/mail: not a mailbox"), "{error}");
}

fn find(bytes: &[u8], what: &[u8], from: usize) -> usize {
    let at = bytes[from..].windows(what.len()).position(|window| window == what);
    from + at.unwrap()
}

fn cache_files(world: &World) -> Vec<std::path::PathBuf> {
    let dir = world.options().cache_dir.unwrap();
    let mut files = list(world, &dir);
    files.retain(|file| file.extension().is_some_and(|extension| extension == "bhc"));
    files
}

fn list(world: &World, dir: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    let mut add = |name: &[u8], _| files.push(dir.join(String::from_utf8_lossy(name).as_ref()));
    world.memory.open_dir(dir).unwrap().list(&mut add).unwrap();
    files
}

fn remove_all(world: &World, dir: &Path) {
    for file in list(world, dir) {
        world.memory.remove_file(&file).unwrap();
    }
}
