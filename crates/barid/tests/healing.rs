//! //! Damaged, unwritable or outdated caches: they lead neither to errors nor to wrong answers.

use std::path::{Path, PathBuf};

use barid::{CacheState, NoteKind, OpenOptions, ReadAs, SortProgram, ThreadAlgorithm, Uid, Window};
use barid_vfs::{OpenOptions as FileOptions, Vfs};

use crate::world::{World, told};

fn both(check: impl Fn(World)) {
    check(World::maildir(1));
    check(World::mbox(1));
}

fn cache_file(world: &World) -> PathBuf {
    let mut found = None;
    let mut see = |name: &[u8], _| {
        if name.ends_with(b".bhc") {
            found = Some(Path::new("/cache").join(String::from_utf8_lossy(name).as_ref()));
        }
    };
    world.memory.open_dir(Path::new("/cache")).unwrap().list(&mut see).unwrap();
    found.unwrap()
}

/// /// Damages every block of the cache except the header page.
fn damage(world: &World) {
    let path = cache_file(world);
    let mut bytes = world.memory.read(&path, u64::MAX).unwrap();
    for at in (5000..bytes.len()).step_by(1000) {
        bytes[at] ^= 0x55;
    }
    let file = world.memory.open(&path, FileOptions::WRITE).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
}

#[test]
fn damage_found_late_is_healed() {
    both(|mut world| {
        world.deliver(60);
        world.wait();
        world.open();
        let before = told(&world.open());
        damage(&world);
        let mut mailbox = world.open();
        assert_eq!(mailbox.status().cache.state, CacheState::Fresh);
        let rows: Vec<u32> = (0..mailbox.len()).collect();
        let error = mailbox.summaries(&rows, &mut |_| true).unwrap_err();
        mailbox.heal(error).unwrap();
        assert_eq!(mailbox.notes().len(), 1, "{:?}", mailbox.notes());
        assert_eq!(mailbox.notes()[0].kind, NoteKind::Cache);
        assert_eq!(mailbox.status().cache.state, CacheState::Populated);
        assert_eq!(told(&mailbox), before);
        assert_eq!(told(&world.open()), before);
        // // If the disk damages the cache again, the cache is no longer used.
        damage(&world);
        let error = mailbox.threads(ThreadAlgorithm::References).unwrap_err();
        mailbox.heal(error).unwrap();
        assert_eq!(mailbox.status().cache.state, CacheState::None);
        assert_eq!(told(&mailbox), before);
    });
}

#[test]
fn only_the_caches_errors_are_healed() {
    both(|world| {
        let mut mailbox = world.open();
        let error = mailbox.read(Uid::MIN, ReadAs::Message).unwrap_err();
        let error = mailbox.heal(error).unwrap_err();
        assert!(matches!(error, barid::Error::NoSuchMessage { .. }), "{error}");
    });
}

#[test]
fn a_message_is_read_though_the_cache_is_damaged() {
    both(|mut world| {
        world.deliver(20);
        world.wait();
        world.open();
        damage(&world);
        let message = world.open().read(Uid::new(3).unwrap(), ReadAs::Message).unwrap();
        assert_eq!(message.bytes, world.corpus.message(2).bytes);
    });
}

#[test]
fn an_order_of_damaged_keys_is_not_kept() {
    both(|mut world| {
        world.deliver(60);
        world.wait();
        let program = SortProgram::parse(["subject"]).unwrap();
        let expected = world.open_from_scratch().sorted(&program, Window::All).unwrap().rows;
        world.open();
        let sound = world.memory.read(&cache_file(&world), u64::MAX).unwrap();
        damage(&world);
        world.open().sorted(&program, Window::All).unwrap_err();
        // // If the cache were kept, it would be used again as soon as the disk reads correctly.
        let file = world.memory.open(&cache_file(&world), FileOptions::WRITE).unwrap();
        file.write_all_at(&sound, 0).unwrap();
        assert_eq!(world.open().sorted(&program, Window::All).unwrap().rows, expected);
    });
}

#[test]
fn a_cache_that_cannot_be_extended_is_told() {
    both(|mut world| {
        world.deliver(5);
        world.open();
        world.memory.set_mode(&cache_file(&world), 0o400).unwrap();
        world.deliver(1);
        let mailbox = world.open();
        assert_eq!(mailbox.len(), 6);
        assert_eq!(mailbox.notes().len(), 1, "{:?}", mailbox.notes());
        assert_eq!(mailbox.notes()[0].kind, NoteKind::Cache);
    });
}

#[test]
fn a_message_moved_after_a_verified_tail_is_found() {
    let mut world = World::mbox(1);
    world.deliver(4);
    world.open();
    // // One body loses what another gains, so that the last message and everything after it keep
    // their offsets.
    let mut bytes = world.read_mbox();
    let start = |bytes: &[u8], number: usize| {
        let starts = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"\nFrom "));
        starts.map(|at| at + 1).nth(number - 1).unwrap()
    };
    let gap = start(&bytes, 1) - 6..start(&bytes, 1) - 2;
    let taken: Vec<u8> = bytes.drain(gap).collect();
    let end = start(&bytes, 2) - 2;
    bytes.splice(end..end, taken);
    world.write_mbox(&bytes);
    world.deliver(1);
    world.wait();
    world.open();
    let mut mailbox = world.open();
    assert_eq!(mailbox.status().cache.state, CacheState::Fresh);
    let second = mailbox.read(Uid::new(2).unwrap(), ReadAs::Message).unwrap();
    let expected = world.corpus.message(1).bytes;
    assert!(second.bytes.starts_with(&expected[..second.header_len]));
}

#[test]
fn a_damaged_ledger_voids_the_cache() {
    let mut world = World::mbox(1);
    world.deliver(5);
    world.wait();
    let before = world.open().status();
    let mut see = |name: &[u8], _| {
        if name.ends_with(b".ledger") {
            let path = Path::new("/state").join(String::from_utf8_lossy(name).as_ref());
            world.memory.open(&path, FileOptions::WRITE).unwrap().set_len(10).unwrap();
        }
    };
    world.memory.open_dir(Path::new("/state")).unwrap().list(&mut see).unwrap();
    world.wait();
    assert!(world.open().status().uidvalidity > before.uidvalidity);
}

#[test]
fn two_that_share_no_cache_hand_out_different_modseqs() {
    both(|mut world| {
        world.deliver(1);
        let options = OpenOptions { cache_dir: None, ..world.options() };
        let (mut one, mut two) = (world.open_with(&options), world.open_with(&options));
        world.deliver(1);
        // // The other mailbox has assigned one to its first scan since this one was refreshed.
        one.refresh().unwrap();
        assert!(one.status().highest_modseq > two.status().highest_modseq);
        two.refresh().unwrap();
        assert!(two.status().highest_modseq > one.status().highest_modseq);
    });
}

#[test]
fn a_ledger_damaged_in_its_middle_is_begun_anew() {
    both(|mut world| {
        let options = OpenOptions { read_only: true, cache_dir: None, ..world.options() };
        let mut before = None;
        for _ in 0..3 {
            world.deliver(100);
            before = Some(world.open_with(&options).status());
        }
        let mut see = |name: &[u8], _| {
            if name.ends_with(b".ledger") {
                let path = Path::new("/state").join(String::from_utf8_lossy(name).as_ref());
                let file = world.memory.open(&path, FileOptions::WRITE).unwrap();
                for copy in [200, 200 + 4096] {
                    file.write_all_at(b"damage", copy).unwrap();
                }
            }
        };
        world.memory.open_dir(Path::new("/state")).unwrap().list(&mut see).unwrap();
        world.wait();
        let after = world.open_with(&options).status();
        assert_eq!(after.messages, 300);
        assert!(after.uidvalidity > before.unwrap().uidvalidity);
        assert_eq!(world.open_with(&options).status().uidvalidity, after.uidvalidity);
    });
}
