//! The cost of opening, in calls and bytes: it stays incremental.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use barid::{Cancel, ChangeOptions, Flag, Mailbox, MailboxSpec, Mailboxes, OpenOptions, Uid};
use barid_vfs::{
    CallKind, CountingVfs, Counts, Host as _, MemVfs, OpenOptions as OpenFile, Timestamp, Vfs,
};

use crate::arena::{Arena, add, flag, later, memory, now};
use crate::world::World;

/// Returns the cost of one opening.
fn cost_of_opening(world: &World) -> Counts {
    let before = world.vfs.counts();
    drop(world.open());
    world.vfs.counts().since(&before)
}

fn quiet(world: &World) {
    world.wait();
    world.open();
}

#[test]
fn an_unchanged_mailbox_costs_the_same_whatever_its_size() {
    let cost = |mut world: World, count| {
        world.deliver(count);
        quiet(&world);
        quiet(&world);
        let cost = cost_of_opening(&world);
        assert_eq!(cost.of(CallKind::List), 0);
        assert_eq!(cost.bytes().written, 0);
        (cost.calls(), cost.bytes().read)
    };
    for world in [World::maildir, World::mbox] {
        let (small, large) = (cost(world(1), 10), cost(world(1), 3000));
        println!("calls and bytes read: {small:?}, {large:?}");
        assert_eq!(small.0, large.0);
        assert!(large.0 <= 30, "{large:?}");
        // Both copies of the ledger's end, and the rest of a block between them.
        assert!(large.1 <= 20 << 10, "{large:?}");
    }
}

#[test]
fn one_message_appended_to_an_mbox_costs_little() {
    let mut world = World::mbox(1);
    world.deliver(5000);
    quiet(&world);
    world.deliver(1);
    world.wait();
    let cost = cost_of_opening(&world);
    println!("{} calls, {:?}", cost.calls(), cost.bytes());
    assert!(cost.calls() <= 48, "{cost:?}");
    assert!(cost.bytes_under(world.path()).read <= 64 << 10, "{cost:?}");
    assert!(cost.bytes().written <= 256 << 10, "{cost:?}");
}

#[test]
fn one_delivery_to_a_maildir_lists_one_directory() {
    let mut world = World::maildir(1);
    world.deliver(3000);
    quiet(&world);
    quiet(&world);
    world.deliver(1);
    world.wait();
    let cost = cost_of_opening(&world);
    println!("{} calls, {:?}", cost.calls(), cost.bytes());
    assert_eq!(cost.of(CallKind::List), 1, "{cost:?}");
    // One read is spent on seeing that the messages in `new` are many.
    assert!(cost.calls() <= 86, "{cost:?}");
    let uidlist = cost.bytes_under(&world.path().join("dovecot-uidlist"));
    assert!(uidlist.read + uidlist.written <= 4 << 10, "{uidlist:?}");
    assert!(cost.bytes().written <= 256 << 10, "{cost:?}");
    let size = world.memory.metadata(&world.path().join("dovecot-uidlist")).unwrap().size;
    assert!(size > 100 << 10, "the list is long enough to tell");
}

#[test]
fn an_append_to_a_maildir_costs_the_same_whatever_its_size() {
    let cost = |count: u64| {
        let vfs = CountingVfs::new(memory());
        let mut arena = Arena::new(Arc::new(vfs.clone()), Path::new("/"), "maildir", 1);
        arena.deliver(count);
        let mut mailbox = arena.open();
        mailbox.sync(&now()).unwrap();
        vfs.sleep(Duration::from_secs(5));
        mailbox.refresh().unwrap();
        let options = ChangeOptions { appends_unseen: true, ..now() };
        let appends = [barid::NewMessage { bytes: b"A: b\n\nc\n", ..Default::default() }];
        let request = barid::ChangeRequest { appends: &appends, ..Default::default() };
        let before = vfs.counts();
        for _ in 0..3 {
            let changed = mailbox.change(&request, &options).unwrap();
            assert_eq!((changed.appended.len(), changed.figures.barriers), (1, 3));
        }
        let cost = vfs.counts().since(&before);
        assert_eq!(u64::from(mailbox.len()), count, "the view has not changed");
        assert_eq!((cost.of(CallKind::List), cost.of(CallKind::Sync)), (0, 9), "{cost:?}");
        (cost.calls(), cost.bytes().read)
    };
    let (small, large) = (cost(10), cost(3000));
    println!("calls and bytes read of three: {small:?}, {large:?}");
    assert!(large.0 <= small.0, "{small:?}, {large:?}");
    assert!(large.1 <= small.1 + 1000, "{small:?}, {large:?}");
}

/// A mailbox that is kept open is not listed again only because the clock of its file system stands
/// still; what changed unnoticed within the same tick is found by the first refresh after it.
#[test]
fn a_flag_in_a_shared_maildir_does_not_list_it() {
    let vfs = CountingVfs::new(memory());
    let mut arena = Arena::new(Arc::new(vfs.clone()), Path::new("/"), "maildir", 1);
    arena.deliver(50);
    let mailboxes = Mailboxes::new(Arc::clone(&arena.vfs), arena.options(), None);
    let shared = mailboxes.open_spec(&arena.spec).unwrap();
    let cancel = Cancel::new();
    shared.update(&cancel, |mailbox, _| mailbox.sync(&now())).unwrap();
    vfs.sleep(Duration::from_secs(5));
    shared.refresh(&cancel).unwrap();

    let before = vfs.counts();
    shared
        .update(&cancel, |mailbox, _| mailbox.change(&flag(&[7], &add(Flag::Seen)), &now()))
        .unwrap();
    assert_eq!(shared.refresh(&cancel).unwrap().len(), 50);
    let cost = vfs.counts().since(&before);
    assert_eq!(cost.of(CallKind::List), 0, "{cost:?}");

    // Whole milliseconds would be those of a file system with a coarser clock.
    const TICK_NANOS: i64 = 10_000_037;
    vfs.inner().set_granularity(Duration::from_nanos(TICK_NANOS.unsigned_abs()));
    vfs.inner().set_now(Timestamp { unix_nanos: 170_000_000_001 * TICK_NANOS });
    let refreshed = || {
        let before = vfs.counts();
        shared.refresh(&cancel).unwrap();
        let listings = vfs.counts().since(&before).of(CallKind::List);
        let unseen = shared.update(&cancel, |mailbox, _| Ok(mailbox.status().unseen)).unwrap();
        (unseen, listings)
    };
    let (unseen, _) = refreshed();
    // Another program marks messages as read.
    let cur = Path::new("/box/cur");
    let mut names = Vec::new();
    let visit = &mut |name: &[u8], _| names.push(String::from_utf8(name.to_vec()).unwrap());
    vfs.open_dir(cur).unwrap().list(visit).unwrap();
    let mut new = names.iter().filter(|name| name.ends_with(":2,"));
    let mut mark_one = || {
        let name = new.next().unwrap();
        vfs.rename(&cur.join(name), &cur.join(format!("{name}S"))).unwrap();
    };
    mark_one();
    assert_eq!(refreshed(), (unseen - 1, 1));
    mark_one();
    assert_eq!(refreshed(), (unseen - 1, 0), "no time shows the second one");
    vfs.sleep(Duration::from_millis(30));
    assert_eq!(refreshed(), (unseen - 2, 1));
    assert_eq!(refreshed(), (unseen - 2, 0));
}

/// Returns an mbox of the given number of messages that barid has written once, and the counter of
/// its calls.
fn written(count: u64) -> (Arena, CountingVfs<MemVfs>) {
    let vfs = CountingVfs::new(memory());
    let mut arena = Arena::new(Arc::new(vfs.clone()), Path::new("/"), "mboxrd", 1);
    arena.deliver(count);
    arena.open().sync(&now()).unwrap();
    vfs.sleep(Duration::from_secs(5));
    (arena, vfs)
}

#[test]
fn a_flag_costs_the_same_whatever_the_size() {
    let cost = |count: u64, options: &ChangeOptions| {
        let (arena, vfs) = written(count);
        let mut mailbox = arena.open();
        // The first changes create everything that is created only once.
        for number in [2, 3] {
            mailbox.change(&flag(&[number], &add(Flag::Seen)), options).unwrap();
        }
        let before = vfs.counts();
        let changed = mailbox.change(&flag(&[7], &add(Flag::Seen)), options).unwrap();
        let cost = vfs.counts().since(&before);
        assert_eq!(changed.flagged, 1);
        assert_eq!(changed.figures.barriers, cost.of(CallKind::Sync));
        (cost.of(CallKind::Sync), cost.calls(), cost.bytes().read, cost.bytes().written)
    };
    for (options, barriers) in [(later(), 2), (now(), 6)] {
        let (small, large) = (cost(40, &options), cost(4000, &options));
        println!("barriers, calls, bytes read and written: {small:?}, {large:?}");
        assert!(large.0 <= barriers, "{large:?}");
        assert!(large.1 <= small.1 + 10 && large.1 <= 100, "{small:?}, {large:?}");
        assert!(large.2 <= 1 << 20, "{large:?}");
        assert!(large.3 <= 16 << 10, "{large:?}");
    }
}

#[test]
fn an_append_to_an_mbox_costs_three_barriers() {
    let (mut arena, vfs) = written(40);
    vfs.inner().set_syncs_names(true);
    let mut mailbox = arena.open();
    arena.append(&mut mailbox, vec![Default::default()]);
    let before = vfs.counts();
    let (changed, _) = arena.append(&mut mailbox, vec![Default::default()]);
    let cost = vfs.counts().since(&before);
    assert_eq!((cost.of(CallKind::Sync), changed.figures.barriers), (3, 3));
}

#[test]
fn after_an_append_no_more_than_the_end_is_read() {
    let (mut arena, vfs) = written(4000);
    let path = arena.spec.path.clone();
    let read = |before: &Counts| vfs.counts().since(before).bytes_under(&path).read;
    let limit = 128 << 10;
    for round in 0..4 {
        let before = vfs.counts();
        let mut mailbox = arena.open();
        arena.append(&mut mailbox, vec![Default::default()]);
        assert!(read(&before) <= limit, "{round}: {}", read(&before));
    }
    let before = vfs.counts();
    assert_eq!(arena.open().len(), 4004);
    assert!(read(&before) <= limit, "{}", read(&before));
    assert!(arena.content().len() as u64 > 4 * limit, "the mailbox is large enough to tell");
}

#[test]
fn a_large_message_is_read_when_its_rest_is_asked_for() {
    let text = format!("From a@b Sat Jan  3 01:05:34 1996\nA: b\n\n{}", "line\n".repeat(1 << 20));
    let body_len = 5 << 20;
    for (format, is_read_before) in [("mboxo", false), ("mboxrd", true), ("mboxcl2", false)] {
        let vfs = CountingVfs::new(memory());
        for (path, text) in [("/box", &*text), ("/target", "")] {
            let file = vfs.open(Path::new(path), OpenFile::create_new(0o600)).unwrap();
            file.write_all_at(text.as_bytes(), 0).unwrap();
        }
        let open = |path: &str| {
            let spec = MailboxSpec::parse(&format!("{format}:{path}"));
            let options = OpenOptions::new(None, "/state".into());
            Mailbox::open_in(Arc::new(vfs.clone()), &spec, &options).unwrap()
        };
        let (mut mailbox, target) = (open("/box"), open("/target"));
        let before = vfs.counts();
        let bytes_read = || vfs.counts().since(&before).bytes_under(Path::new("/box")).read;
        let large = mailbox.large_message(Uid::MIN, &target, None).unwrap().unwrap();
        assert_eq!(bytes_read() >= body_len, is_read_before, "{format}: {}", bytes_read());
        let mut size = 0;
        let mut take = |piece: &[u8]| {
            size += piece.len() as u64;
            Ok(())
        };
        large.rest().read(&mut take).unwrap();
        assert_eq!((size, large.rest().size()), (body_len, body_len), "{format}");
    }
}
