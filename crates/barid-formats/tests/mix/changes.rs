//! Writes of changes, and what a later scan reports of them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use barid_mailbox::{ChangeSet, Error, FlagChange, ReadAs, SyncContext};
use barid_types::{Flag, FlagSet};
use barid_vfs::{CallKind, CountingVfs, LockKind, LockMode, MemVfs, OpenOptions, Vfs};

use super::support::{MixBox, add, create, keyword, new_message, uid};

const PATH: &str = "/mail/box";

fn mailbox() -> (MixBox, MemVfs) {
    let disk = MemVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    (create(&vfs, Path::new(PATH)), disk)
}

fn text(number: usize, len: usize) -> Vec<u8> {
    let mut text = format!("Subject: message {number}\n\n").into_bytes();
    text.resize(text.len() + len, b'x');
    text.push(b'\n');
    text
}

fn filled(lens: &[usize]) -> (MixBox, MemVfs) {
    let (mut mailbox, disk) = mailbox();
    let texts: Vec<_> = lens.iter().enumerate().map(|(n, len)| text(n, *len)).collect();
    for text in &texts {
        mailbox.sync(&ChangeSet::default(), &[new_message(text)]).unwrap();
    }
    (mailbox, disk)
}

#[test]
fn appends_flags_and_expunges_are_seen_by_the_next_scan() {
    let (mut mailbox, _) = mailbox();
    let texts: Vec<_> = (0..5).map(|n| text(n, 100 * n)).collect();
    let mut messages: Vec<_> = texts.iter().map(|text| new_message(text)).collect();
    messages[2].flags = FlagSet::EMPTY.with(Flag::Seen).with(Flag::Draft);
    messages[2].keywords = vec![keyword("todo")];
    let known = mailbox.scan();
    let report = mailbox.sync(&ChangeSet::default(), &messages).unwrap();
    assert_eq!(report.appended, (1..=5).map(|n| Some(uid(n))).collect::<Vec<_>>());
    let (report, known) = mailbox.rescan(&known);
    assert_eq!((report.reset, known.seen.len()), (false, 5));
    assert_eq!(known.report.uidnext, uid(6));
    let contents = mailbox.contents(&known);
    let third = &contents[&3];
    assert!(third.text.starts_with(b"Subject: message 2\r\n\r\nxxx"));
    assert!(third.flags.contains(Flag::Recent) && third.flags.contains(Flag::Draft));
    assert_eq!(third.keywords, ["todo"]);

    let mut changes = ChangeSet { drop_recent: true, ..ChangeSet::default() };
    changes.flags = vec![
        add(1, FlagSet::EMPTY.with(Flag::Answered), &["todo", "Junk"]),
        (uid(3), FlagChange { remove: FlagSet::EMPTY.with(Flag::Seen), ..FlagChange::default() }),
        add(77, FlagSet::EMPTY.with(Flag::Seen), &[]),
    ]
    .into();
    let report = mailbox.sync(&changes, &[]).unwrap();
    assert_eq!(report.gone, [uid(77)]);
    assert!(report.figures.barriers > 0);
    let (report, known) = mailbox.rescan(&known);
    assert_eq!((report.reset, report.changed.len(), report.stats.messages_read), (false, 5, 0));
    let contents = mailbox.contents(&known);
    assert_eq!(contents[&1].keywords, ["todo", "Junk"]);
    assert!(contents.values().all(|content| !content.flags.contains(Flag::Recent)));
    assert!(!contents[&3].flags.contains(Flag::Seen));

    let changes = ChangeSet { expunge: vec![uid(2), uid(5), uid(9)], ..ChangeSet::default() };
    let report = mailbox.sync(&changes, &[]).unwrap();
    assert_eq!((&*report.expunged, &*report.gone), (&[uid(2), uid(5)][..], &[uid(9)][..]));
    let (_, known) = mailbox.rescan(&known);
    let left: Vec<u32> = mailbox.contents(&known).into_keys().collect();
    assert_eq!(left, [1, 3, 4]);
    assert_eq!(known.report.uidnext, uid(6));
    // Nothing of the expunged messages is left.
    let files = mailbox.files();
    assert_eq!(files.len(), 4, "{:?}", files.keys());
    assert_eq!(files[".mix5f000000"].len() as u64, known.report.size_bytes);
    let (report, _) = mailbox.rescan(&known);
    assert_eq!(report.stats.messages_read, 0);
}

#[test]
fn data_files_roll() {
    let (mailbox, _) = filled(&[700_000, 348_000, 400, 2_000_000, 5]);
    let known = mailbox.scan();
    let file = |at: usize| known.seen[at].location.offset() >> 32;
    assert_eq!(file(0), 0x5f00_0000);
    // The second still fits below 1 MiB, the third does not, and a large one gets a file of its
    // own.
    assert_eq!(file(1), file(0));
    let rolled: Vec<bool> = (1..5).map(|at| file(at) != file(at - 1)).collect();
    assert_eq!(rolled, [false, true, true, true]);
    assert_eq!(mailbox.now().len(), 5);
}

#[test]
fn gaps_stay_while_somebody_has_it_open() {
    let (mut mailbox, _) = filled(&[10, 20, 30]);
    let before = mailbox.scan();
    let session = mailbox.vfs.open(&mailbox.path.join(".mixmeta"), OpenOptions::READ).unwrap();
    assert!(session.try_lock(LockKind::Flock, LockMode::Shared).unwrap());
    let changes = ChangeSet { expunge: vec![uid(1)], ..ChangeSet::default() };
    mailbox.sync(&changes, &[]).unwrap();
    let size = |mailbox: &MixBox| mailbox.files()[".mix5f000000"].len() as u64;
    assert_eq!(size(&mailbox), before.report.size_bytes);
    let (report, known) = mailbox.rescan(&before);
    assert_eq!((report.reset, &*report.expunged), (false, &[uid(1)][..]));
    drop(session);
    let changes = ChangeSet { expunge: vec![uid(2)], ..ChangeSet::default() };
    mailbox.sync(&changes, &[]).unwrap();
    let (report, known) = mailbox.rescan(&known);
    // Messages that have moved are read again.
    assert_eq!((report.reset, known.seen.len()), (true, 1));
    assert_eq!(size(&mailbox), known.report.size_bytes);
}

#[test]
fn what_cannot_be_held_is_refused() {
    let (mut mailbox, _) = filled(&[10]);
    let before = mailbox.files();
    let refused = mailbox.sync(&ChangeSet::default(), &[new_message(b"")]);
    assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
    let words: Vec<String> = (0..31).map(|n| format!("word{n}")).collect();
    let keywords: Vec<&str> = words.iter().map(String::as_str).collect();
    let flags = vec![add(1, FlagSet::EMPTY, &keywords)];
    let changes = ChangeSet { flags: flags.into(), ..ChangeSet::default() };
    let refused = mailbox.sync(&changes, &[]);
    assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
    assert_eq!(mailbox.files(), before);
    let flags = vec![add(1, FlagSet::EMPTY, &keywords[..30])];
    mailbox.sync(&ChangeSet { flags: flags.into(), ..ChangeSet::default() }, &[]).unwrap();
    assert_eq!(mailbox.now()[&1].keywords.len(), 30);
}

#[test]
fn a_dry_run_writes_nothing() {
    let (mailbox, _) = filled(&[10, 20]);
    let before = mailbox.files();
    let known = mailbox.scan();
    let flags = vec![add(1, FlagSet::EMPTY.with(Flag::Seen), &["x"])];
    let changes = ChangeSet { flags: flags.into(), expunge: vec![uid(2)], ..ChangeSet::default() };
    let mut context = barid_mailbox::SyncContext::new(&known);
    context.dry_run = true;
    let text = text(9, 9);
    let report = mailbox.mailbox.sync(&changes, &[new_message(&text)], &mut context).unwrap();
    assert_eq!(report.expunged, [uid(2)]);
    assert!(report.figures.bytes_in_place > 0 && report.figures.bytes_appended > 0);
    assert_eq!(mailbox.files(), before);
}

#[test]
fn a_cache_can_follow_every_change() {
    let (mut mailbox, _) = filled(&[10, 20, 30, 700_000, 600_000, 5, 6]);
    let mut known = mailbox.scan();
    let mut rng = fastrand::Rng::with_seed(3);
    for round in 0..60 {
        let uids: Vec<u32> = known.seen.iter().map(|message| message.uid.get()).collect();
        let mut chosen =
            |of: u32| uids.iter().copied().filter(|_| rng.u32(..of) == 0).collect::<Vec<_>>();
        let flags = FlagSet::EMPTY.with(Flag::Flagged);
        let word = format!("word{}", round / 10);
        let (flag, expunge) = (chosen(4), chosen(9));
        let changes = ChangeSet {
            flags: flag.iter().map(|number| add(*number, flags, &[&word])).collect(),
            expunge: expunge.iter().map(|number| uid(*number)).collect(),
            drop_recent: round % 5 == 0,
            ..ChangeSet::default()
        };
        let texts: Vec<_> = (0..rng.usize(..3)).map(|_| text(round, rng.usize(..9_000))).collect();
        let messages: Vec<_> = texts.iter().map(|text| new_message(text)).collect();
        known = mailbox.sync_following(&known, &changes, &messages).1;
    }
}

#[test]
fn many_messages_are_read_with_one_open() {
    let counting = CountingVfs::new(MemVfs::new());
    let vfs: Arc<dyn Vfs> = Arc::new(counting.clone());
    let mut mailbox = create(&vfs, Path::new("/mail/box"));
    let texts: Vec<String> = (0..200).map(|n| format!("Subject: {n}\r\n\r\n{n}\r\n")).collect();
    let messages: Vec<_> = texts.iter().map(|text| new_message(text.as_bytes())).collect();
    mailbox.sync(&ChangeSet::default(), &messages).unwrap();
    let known = mailbox.scan();
    let opened = || counting.counts().of(CallKind::Open);
    let before = opened();
    let read = |number: usize| {
        let (location, mut buffer) = (&known.seen[number].location, Vec::new());
        let stamp = &known.report.stamp;
        let read = mailbox.mailbox.read_known(location, ReadAs::Message, stamp, &mut buffer);
        assert_eq!(read.map(|_| buffer).unwrap(), texts[number].as_bytes());
    };
    std::thread::scope(|scope| {
        for first in 0..2 {
            scope.spawn(move || (first..200).step_by(2).for_each(read));
        }
    });
    // Two threads may open it at once.
    assert!(opened() - before <= 3, "{}", opened() - before);
    // Files that are kept open do not lock out others.
    let meta = vfs.open("/mail/box/.mixmeta".as_ref(), OpenOptions::WRITE).unwrap();
    assert!(meta.try_lock(LockKind::Flock, LockMode::Exclusive).unwrap());
    drop(meta);
    let expunge = (1..=199).map(uid).collect();
    mailbox.sync(&ChangeSet { expunge, ..ChangeSet::default() }, &[]).unwrap();
    let left = mailbox.now();
    assert_eq!((left.len(), &*left[&200].text), (1, texts[199].as_bytes()));
}

#[test]
fn what_is_stopped_changes_nothing() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    let mut mailbox = create(&vfs, Path::new("/mail/box"));
    mailbox.sync(&ChangeSet::default(), &[new_message(b"Subject: 1\r\n\r\n")]).unwrap();
    let known = mailbox.scan();
    let before = mailbox.files();
    let stop = AtomicBool::new(true);
    let mut context = SyncContext::new(&known);
    context.stop = Some(&stop);
    let changes = ChangeSet { expunge: vec![uid(1)], ..ChangeSet::default() };
    let stopped = mailbox.mailbox.sync(&changes, &[], &mut context);
    assert!(matches!(stopped, Err(Error::Io { .. })), "{stopped:?}");
    assert_eq!(mailbox.files(), before);
}
