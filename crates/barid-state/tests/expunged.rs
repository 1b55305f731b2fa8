//! Kept messages: whole or not at all, and each with its own checksum.

use std::time::Duration;

use barid_state::{
    Expunged, Kept, KeptBounds, KeptFolder, KeptForm, KeptFrom, KeptMessage, LeftOut, Result,
};
use barid_types::{Flag, InternalDate, Keyword};
use barid_vfs::{CrashVfs, Fault, FaultVfs, Host as _, MemVfs, OpenOptions, OsVfs, Timestamp};

use super::*;

const SIZE_MAX: u64 = 1 << 24;

fn folder_path() -> std::path::PathBuf {
    Path::new(DIR).join(format!("{:032x}.kept", mailbox().id))
}

fn path() -> std::path::PathBuf {
    folder_path().join("00000001")
}

fn message(number: u32) -> KeptMessage {
    KeptMessage {
        large: None,
        uid: uid(number + 1),
        key: MessageKey(u64::from(number) + 2),
        internal_date: InternalDate { unix_seconds: -i64::from(number), zone_minutes: -90 },
        flags: [Flag::Seen, Flag::Flagged].into_iter().collect(),
        keywords: vec![Keyword::new("Junk").unwrap(); number as usize % 3],
        sender: (number % 2 == 1).then(|| format!("ann{number}@example.org")),
        form: [KeptForm::Message, KeptForm::Stored { separator_len: 7 }][number as usize % 2],
        bytes: format!("Subject: {number}\n\ntext\n").repeat(1 + number as usize).into_bytes(),
    }
}

fn from(generation: u32) -> KeptFrom {
    KeptFrom {
        path: mailbox().path,
        format: 1,
        uidvalidity: validity(generation),
        uidnext: uid(1000),
        kept: Timestamp { unix_nanos: 1_700_000_000_000_000_000 },
        until: Timestamp { unix_nanos: 1_702_592_000_000_000_000 },
        continues: generation == 8,
        left_out: (generation == 9).then_some(LeftOut { messages: 10, bytes: 1000 }),
    }
}

fn folder(vfs: &(impl Vfs + Clone + 'static)) -> KeptFolder {
    KeptFolder::new(Arc::new(vfs.clone()), Path::new(DIR), &mailbox())
}

fn keep(vfs: &(impl Vfs + Clone + 'static), generation: u32, count: u32) -> Result<u64> {
    keep_from(vfs, &from(generation), count)
}

fn keep_from(vfs: &(impl Vfs + Clone + 'static), from: &KeptFrom, count: u32) -> Result<u64> {
    let folder = folder(vfs);
    let last = folder.numbers()?.last().copied();
    let (_, mut writer) = folder.create(last, from)?;
    (0..count).try_for_each(|number| writer.message(&message(number)))?;
    writer.finish()
}

fn open_kept(vfs: &(impl Vfs + Clone + 'static), number: u64) -> Result<Option<Expunged>> {
    folder(vfs).open(number)
}

/// Checks all kept messages against the originals. Returns the UIDVALIDITY of each kept file and
/// its number of messages.
fn found(disk: &MemVfs) -> Vec<(u32, u32)> {
    let mut all = Vec::new();
    for number in folder(disk).numbers().unwrap() {
        let mut kept = open_kept(disk, number).unwrap().unwrap();
        let mut index = Vec::new();
        while let Some(next) = kept.next().unwrap() {
            let expected = message(index.len() as u32);
            index.push((expected.uid, expected.key));
            assert_eq!(next, Kept::Message(Box::new(expected)));
        }
        assert_eq!(kept.count(), Some(index.len() as u32));
        assert_eq!(kept.index().unwrap().unwrap(), index);
        let generation = kept.from().uidvalidity.get();
        assert_eq!(*kept.from(), from(generation));
        all.push((generation, index.len() as u32));
    }
    all
}

#[test]
fn what_is_kept_is_read_again() {
    let disk = MemVfs::new();
    assert_eq!(found(&disk), []);
    let bytes = keep(&disk, 7, 20).unwrap();
    assert_eq!(disk.metadata(&path()).unwrap().size, bytes);
    assert_eq!(found(&disk), [(7, 20)]);
    keep(&disk, 8, 0).unwrap();
    keep(&disk, 9, 3).unwrap();
    assert_eq!(found(&disk), [(7, 20), (8, 0), (9, 3)]);
    folder(&disk).remove(2).unwrap();
    open_kept(&disk, 1).unwrap().unwrap().remove().unwrap();
    assert_eq!(found(&disk), [(9, 3)]);
    assert_eq!(folder(&disk).discard().unwrap(), 1);
    assert_eq!(found(&disk), []);
}

#[test]
fn the_oldest_go_first() {
    let disk = MemVfs::new();
    for (generation, count) in [(7, 20), (8, 5), (9, 5)] {
        keep(&disk, generation, count).unwrap();
    }
    disk.open(&folder_path().join(".barid-1.tmp"), OpenOptions::create(0o600)).unwrap();
    let folder = folder(&disk);
    let size = |number: u64| disk.metadata(&folder_path().join(format!("{number:08}"))).unwrap();
    let last_two = size(2).size + size(3).size;
    let prune = |folder: &KeptFolder, bytes, count| {
        let bounds = KeptBounds { bytes, count, keeps_last: true };
        folder.prune(Timestamp { unix_nanos: 1_700_000_000_000_000_000 }, &bounds).unwrap();
    };
    prune(&folder, last_two + size(1).size, 3);
    assert_eq!(found(&disk), [(7, 20), (8, 5), (9, 5)]);
    assert!(disk.metadata(&folder_path().join(".barid-1.tmp")).is_err());
    prune(&folder, last_two, 3);
    assert_eq!(found(&disk), [(8, 5), (9, 5)]);
    prune(&folder, 0, 3);
    assert_eq!(found(&disk), [(9, 5)]);
    keep(&disk, 7, 1).unwrap();
    prune(&folder, u64::MAX, 1);
    assert_eq!(found(&disk), [(7, 1)]);
}

#[test]
fn a_mailbox_in_the_place_of_another_finds_what_that_left() {
    let disk = MemVfs::new();
    keep(&disk, 7, 2).unwrap();
    let of = |id: u128, path: &str| {
        let identity = Identity { id, path: path.into(), inode: 78 };
        KeptFolder::new(Arc::new(disk.clone()), Path::new(DIR), &identity).of_former().unwrap()
    };
    assert_eq!(of(mailbox().id, "/mail/inbox").len(), 0);
    assert_eq!(of(5, "/mail/other").len(), 0);
    let former = of(5, "/mail/inbox");
    assert_eq!(former.len(), 1);
    let kept = former[0].open(1).unwrap().unwrap();
    assert_eq!(kept.count(), Some(2));
}

#[test]
fn every_crash_leaves_it_whole() {
    let disk = MemVfs::new();
    keep(&disk, 7, 3).unwrap();
    let world = CrashVfs::new(&disk);
    keep(&world.vfs(), 8, 200).unwrap();
    println!("expunged: {} crash points, 40 seeds each", world.points() + 1);
    assert!(world.points() >= 5);
    for point in 0..=world.points() {
        for seed in 0..40 {
            let found = found(&world.crash_at(point, seed));
            let done = point == world.points();
            let is_whole = found == [(7, 3), (8, 200)] || !done && found == [(7, 3)];
            assert!(is_whole, "{point}, {seed}: {found:?}");
        }
    }
}

#[test]
fn a_failing_call_leaves_the_one_before() {
    let mut fault = 0;
    loop {
        let disk = MemVfs::new();
        keep(&disk, 7, 3).unwrap();
        let vfs = FaultVfs::new(disk.clone(), Fault::nth(fault));
        let result = keep(&vfs, 8, 5);
        let found = found(&disk);
        let is_kept = found == [(7, 3), (8, 5)];
        assert!(is_kept || result.is_err() && found == [(7, 3)], "fault {fault}");
        let mut names = 0;
        disk.open_dir(&folder_path()).unwrap().list(&mut |_, _| names += 1).unwrap();
        assert_eq!(names, found.len(), "fault {fault}");
        if !vfs.fired() {
            break;
        }
        fault += 1;
    }
    assert!(fault >= 5, "{fault}");
}

#[test]
fn damage_costs_the_messages_it_hits() {
    let disk = MemVfs::new();
    keep(&disk, 7, 8).unwrap();
    let bytes = disk.read(&path(), SIZE_MAX).unwrap();
    let mut left = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let disk = disk.snapshot();
        let file = disk.open(&path(), OpenOptions::WRITE).unwrap();
        file.write_all_at(&[byte ^ 1], at as u64).unwrap();
        let mut kept = match open_kept(&disk, 1) {
            Ok(kept) => kept.unwrap(),
            Err(_) if at < 80 + mailbox().path.as_os_str().len() => continue,
            Err(error) => panic!("byte {at}: {error}"),
        };
        let (mut number, mut damaged) = (0, u32::from(kept.count().is_none()));
        while let Some(next) = kept.next().unwrap() {
            match next {
                Kept::Message(found) => {
                    assert_eq!(*found, message(number));
                    left += 1;
                }
                Kept::Damaged { .. } => damaged += 1,
                Kept::Changed(_) => panic!("byte {at}: no message is a link"),
            }
            number += 1;
        }
        assert!(kept.count_damaged().unwrap() > 0, "byte {at}");
        let index = kept.index().unwrap();
        assert!(damaged > 0 || index.is_none(), "byte {at}");
        let aside = kept.set_aside().unwrap();
        assert!(disk.metadata(&aside).is_ok() && disk.metadata(&path()).is_err());
    }
    assert!(left > bytes.len());
}

fn fixture(version: u32) -> std::path::PathBuf {
    let name = format!("tests/fixtures/expunged-v{version}.bin");
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

#[test]
fn version_2_is_read_as_ever() {
    let disk = MemVfs::new();
    keep(&disk, 7, 1).unwrap();
    let kept = OsVfs.read(&fixture(2), SIZE_MAX).unwrap();
    let file = disk.open(&path(), OpenOptions::WRITE).unwrap();
    file.set_len(0).unwrap();
    file.write_all_at(&kept, 0).unwrap();
    assert_eq!(found(&disk), [(7, 4)]);
    assert_eq!(open_kept(&disk, 1).unwrap().unwrap().count_damaged().unwrap(), 0);
}

#[test]
fn version_3_reads_and_writes_as_ever() {
    let disk = MemVfs::new();
    keep(&disk, 7, 4).unwrap();
    let written = disk.read(&path(), SIZE_MAX).unwrap();
    let os = OsVfs;
    if os.metadata(&fixture(3)).is_err() && std::env::var_os("BLESS_FIXTURES").is_some() {
        let file = os.open(&fixture(3), OpenOptions::create_new(0o644)).unwrap();
        file.write_all_at(&written, 0).unwrap();
    }
    let kept = os.read(&fixture(3), SIZE_MAX).unwrap();
    let file = disk.open(&path(), OpenOptions::WRITE).unwrap();
    file.write_all_at(&kept, 0).unwrap();
    assert_eq!(found(&disk), [(7, 4)]);
    assert!(kept == written, "the layout changed without a new version");
}

/// A folder of messages that are files, `/mail/1` and so on, durable.
fn mail(count: u32) -> MemVfs {
    let disk = MemVfs::new();
    disk.create_dir_all(Path::new("/mail"), 0o700).unwrap();
    for number in 0..count {
        let file = disk.open(&mail_file(number), OpenOptions::create_new(0o600)).unwrap();
        file.write_all_at(&message(number).bytes, 0).unwrap();
        file.sync_all().unwrap();
    }
    disk.sync_dir(Path::new("/mail")).unwrap();
    disk
}

fn mail_file(number: u32) -> std::path::PathBuf {
    Path::new("/mail").join(number.to_string())
}

/// Keeps the files of `/mail` as links, and removes them from there.
fn link_all(vfs: &(impl Vfs + Clone + 'static), generation: u32, count: u32) -> Result<u64> {
    let folder = folder(vfs);
    let (_, mut writer) = folder.create(folder.numbers()?.last().copied(), &from(generation))?;
    writer.begin_links(count as usize)?;
    for number in 0..count {
        let message = KeptMessage { form: KeptForm::Message, bytes: Vec::new(), ..message(number) };
        vfs.hard_link(&mail_file(number), &writer.link_path(message.uid)).unwrap();
        writer.linked(&message)?;
    }
    let bytes = writer.finish()?;
    for number in 0..count {
        vfs.remove_file(&mail_file(number)).unwrap();
    }
    vfs.sync_dir(Path::new("/mail")).unwrap();
    Ok(bytes)
}

#[test]
fn linked_messages_survive_every_crash() {
    for (count, syncs) in [(3, true), (40, true), (40, false)] {
        let disk = mail(count);
        keep(&disk, 7, 3).unwrap();
        disk.set_syncs_file_system(syncs);
        let world = CrashVfs::new(&disk);
        world.vfs().set_syncs_file_system(syncs);
        link_all(&world.vfs(), 8, count).unwrap();
        assert!(world.points() >= 5);
        for point in 0..=world.points() {
            for seed in 0..8 {
                let disk = world.crash_at(point, seed);
                let context = format!("{count}, {syncs}, {point}, {seed}");
                let numbers = folder(&disk).numbers().unwrap();
                let is_kept = numbers == [1, 2];
                assert!(is_kept || numbers == [1], "{context}: {numbers:?}");
                let mut kept = open_kept(&disk, 2).unwrap();
                for number in 0..count {
                    let is_there = disk.metadata(&mail_file(number)).is_ok();
                    let next = kept.as_mut().map(|kept| kept.next().unwrap().unwrap());
                    assert!(is_there || is_kept, "{context}: {number} is nowhere");
                    let bytes = next.map(|next| match next {
                        Kept::Message(message) => message.bytes,
                        other => panic!("{context}: {other:?}"),
                    });
                    assert!(bytes.is_none_or(|bytes| bytes == message(number).bytes), "{context}");
                }
                // The next expunge removes the leftovers of a writer that died.
                let bounds = KeptBounds { bytes: u64::MAX, count: 9, keeps_last: true };
                folder(&disk).prune(Timestamp { unix_nanos: 0 }, &bounds).unwrap();
                let mut names = 0;
                disk.open_dir(&folder_path()).unwrap().list(&mut |_, _| names += 1).unwrap();
                assert_eq!(names, if is_kept { 3 } else { 1 }, "{context}");
            }
        }
    }
}

#[test]
fn a_link_tells_what_became_of_its_file() {
    let disk = mail(4);
    let texts: u64 = (0..4).map(|number| message(number).bytes.len() as u64).sum();
    let bytes = link_all(&disk, 7, 4).unwrap();
    let mut kept = open_kept(&disk, 1).unwrap().unwrap();
    assert_eq!(kept.len(), bytes);
    assert_eq!(bytes, texts + disk.metadata(&path()).unwrap().size);
    assert_eq!(kept.count_damaged().unwrap(), 0);
    let links = folder_path().join("00000001.links");
    let file = disk.open(&links.join("2"), OpenOptions::WRITE).unwrap();
    file.write_all_at(b"Other", 0).unwrap();
    disk.remove_file(&links.join("3")).unwrap();
    assert_eq!(kept.count_damaged().unwrap(), 2);
    let mut states = Vec::new();
    while let Some(next) = kept.next().unwrap() {
        states.push(match next {
            Kept::Message(_) => "whole",
            Kept::Changed(message) if message.bytes.starts_with(b"Other") => "changed",
            Kept::Changed(_) => "changed otherwise",
            Kept::Damaged { .. } => "damaged",
        });
    }
    assert_eq!(states, ["whole", "changed", "damaged", "whole"]);
    let aside = kept.set_aside().unwrap();
    assert!(disk.metadata(&aside).is_ok() && disk.metadata(&links).is_err());
    assert_eq!(folder(&disk).discard().unwrap(), 0);
    let mut names = 0;
    disk.open_dir(&folder_path()).unwrap().list(&mut |_, _| names += 1).unwrap();
    assert_eq!(names, 0);
}

#[test]
fn a_symbolic_link_is_not_followed() {
    let disk = mail(2);
    let secret = Path::new("/mail/secret");
    disk.open(secret, OpenOptions::create_new(0o600)).unwrap();
    link_all(&disk, 7, 2).unwrap();
    let link = folder_path().join("00000001.links/1");
    disk.remove_file(&link).unwrap();
    disk.symlink(secret, &link).unwrap();
    let mut kept = open_kept(&disk, 1).unwrap().unwrap();
    assert_eq!(kept.next().unwrap(), Some(Kept::Damaged { uid: Some(uid(1)) }));
    assert!(matches!(kept.next().unwrap(), Some(Kept::Message(_))));
    disk.set_syncs_file_system(false);
    let (_, mut writer) = folder(&disk).create(Some(1), &from(8)).unwrap();
    writer.begin_links(2).unwrap();
    disk.symlink(secret, &writer.link_path(uid(1))).unwrap();
    assert!(writer.linked(&message(0)).is_err());
}

#[test]
fn an_expunge_stays_until_its_own_end() {
    let disk = MemVfs::new();
    let until = |nanos| KeptFrom { until: Timestamp { unix_nanos: nanos }, ..from(7) };
    for nanos in [50, 10, 60, 20, 30] {
        keep_from(&disk, &until(nanos), 2).unwrap();
    }
    let bounds = KeptBounds { bytes: u64::MAX, count: 9, keeps_last: true };
    let check = |now, count, expected: &[u64]| {
        let bounds = KeptBounds { count, ..bounds };
        folder(&disk).prune(Timestamp { unix_nanos: now }, &bounds).unwrap();
        assert_eq!(folder(&disk).numbers().unwrap(), expected, "{now}");
    };
    check(15, 9, &[1, 3, 4, 5]);
    // Expired expunges take no room.
    check(25, 3, &[1, 3, 5]);
    check(55, 9, &[3, 5]);
    check(100, 9, &[5]);
}

#[test]
fn what_is_over_goes() {
    let disk = mail(4);
    keep(&disk, 7, 2).unwrap();
    link_all(&disk, 8, 4).unwrap();
    let other = Identity { id: 5, path: "/mail/other".into(), inode: 78 };
    let other = KeptFolder::new(Arc::new(disk.clone()), Path::new(DIR), &other);
    let until = from(7).until;
    let before = Timestamp { unix_nanos: until.unix_nanos - 1 };
    other.prune_others(before).unwrap();
    assert_eq!(folder(&disk).numbers().unwrap(), [1, 2]);
    assert_eq!(folder(&disk).summary().unwrap().bytes, {
        let len = |number| open_kept(&disk, number).unwrap().unwrap().len();
        len(1) + len(2)
    });
    let bounds = KeptBounds { bytes: u64::MAX, count: 9, keeps_last: true };
    folder(&disk).prune(before, &bounds).unwrap();
    assert_eq!(folder(&disk).numbers().unwrap(), [1, 2]);
    folder(&disk).prune(until, &bounds).unwrap();
    assert_eq!(folder(&disk).numbers().unwrap(), [2]);
    disk.sleep(Duration::from_secs(1));
    other.prune_others(until).unwrap();
    assert_eq!(folder(&disk).numbers().unwrap(), []);
    let mut names = 0;
    disk.open_dir(&folder_path()).unwrap().list(&mut |_, _| names += 1).unwrap();
    assert_eq!(names, 0);
}

/// Damages the newest kept expunge: another mailbox in the same place, and one that prunes, use
/// those that can be read.
#[test]
fn damaged_expunges_of_others_are_skipped() {
    let until = from(7).until;
    let of = |disk: &MemVfs, path: &str| {
        let identity = Identity { id: 5, path: path.into(), inode: 78 };
        KeptFolder::new(Arc::new(disk.clone()), Path::new(DIR), &identity)
    };
    for damage in [&b""[..], b"x", &[0xff; 200]] {
        let disk = MemVfs::new();
        for _ in 0..3 {
            keep(&disk, 7, 2).unwrap();
        }
        for number in [1, 3] {
            let damaged = folder_path().join(format!("{number:08}"));
            let file = disk.open(&damaged, OpenOptions::WRITE).unwrap();
            file.set_len(0).unwrap();
            file.write_all_at(damage, 0).unwrap();
        }
        assert!(open_kept(&disk, 1).is_err() && open_kept(&disk, 3).is_err());
        assert_eq!(of(&disk, "/mail/inbox").of_former().unwrap().len(), 1);
        assert_eq!(of(&disk, "/mail/other").of_former().unwrap().len(), 0);
        let other = of(&disk, "/mail/other");
        other.prune_others(Timestamp { unix_nanos: until.unix_nanos - 1 }).unwrap();
        assert_eq!(folder(&disk).numbers().unwrap(), [1, 2, 3]);
        // The damaged ones are left to their own mailbox.
        other.prune_others(until).unwrap();
        assert_eq!(folder(&disk).numbers().unwrap(), [1, 3]);
    }
}
