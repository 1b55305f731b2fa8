//! Kept messages: whole or not at all, and each with its own checksum.

use barid_state::{Expunged, ExpungedWriter, Kept, KeptFrom, KeptMessage, Result};
use barid_types::{Flag, InternalDate, Keyword};
use barid_vfs::{CrashVfs, Fault, FaultVfs, MemVfs, OpenOptions, OsVfs, Timestamp};

use super::*;

const SIZE_MAX: u64 = 1 << 24;

fn path() -> std::path::PathBuf {
    Path::new(DIR).join(format!("{:032x}.expunged", mailbox().id))
}

fn message(number: u32) -> KeptMessage {
    KeptMessage {
        uid: uid(number + 1),
        key: MessageKey(u64::from(number) + 2),
        internal_date: InternalDate { unix_seconds: -i64::from(number), zone_minutes: -90 },
        flags: [Flag::Seen, Flag::Flagged].into_iter().collect(),
        keywords: vec![Keyword::new("Junk").unwrap(); number as usize % 3],
        sender: (number % 2 == 1).then(|| format!("ann{number}@example.org")),
        bytes: format!("Subject: {number}\n\ntext\n").repeat(1 + number as usize).into_bytes(),
    }
}

fn from(generation: u32) -> KeptFrom {
    let kept = Timestamp { unix_nanos: 1_700_000_000_000_000_000 };
    KeptFrom { uidvalidity: validity(generation), uidnext: uid(1000), kept }
}

fn keep(vfs: &(impl Vfs + Clone + 'static), generation: u32, count: u32) -> Result<u64> {
    let vfs = Arc::new(vfs.clone());
    let mut writer = ExpungedWriter::create(vfs, Path::new(DIR), &mailbox(), &from(generation))?;
    (0..count).try_for_each(|number| writer.message(&message(number)))?;
    writer.finish()
}

fn open_kept(vfs: &(impl Vfs + Clone + 'static)) -> Result<Option<Expunged>> {
    Expunged::open(Arc::new(vfs.clone()), Path::new(DIR), &mailbox())
}

/// The generation of what is kept, and how many messages that are as they were.
fn found(disk: &MemVfs) -> Option<(u32, u32)> {
    let mut kept = open_kept(disk).unwrap()?;
    let mut count = 0;
    while let Some(next) = kept.next().unwrap() {
        assert_eq!(next, Kept::Message(Box::new(message(count))));
        count += 1;
    }
    assert_eq!(kept.count(), Some(count));
    Some((kept.from().uidvalidity.get(), count))
}

#[test]
fn what_is_kept_is_read_again() {
    let disk = MemVfs::new();
    assert!(open_kept(&disk).unwrap().is_none());
    let bytes = keep(&disk, 7, 20).unwrap();
    assert_eq!(disk.metadata(&path()).unwrap().size, bytes);
    assert_eq!(found(&disk), Some((7, 20)));
    let before = open_kept(&disk).unwrap().unwrap();
    keep(&disk, 8, 0).unwrap();
    assert_eq!(found(&disk), Some((8, 0)));
    // Only what was read is removed.
    before.remove().unwrap();
    assert_eq!(found(&disk), Some((8, 0)));
    open_kept(&disk).unwrap().unwrap().remove().unwrap();
    assert_eq!(found(&disk), None);
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
            assert!(found == Some((8, 200)) || !done && found == Some((7, 3)), "{point}, {seed}");
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
        match result {
            Ok(_) => assert_eq!(found(&disk), Some((8, 5))),
            Err(_) => assert!(matches!(found(&disk), Some((7, 3) | (8, 5))), "fault {fault}"),
        }
        let mut names = 0;
        disk.open_dir(Path::new(DIR)).unwrap().list(&mut |_, _| names += 1).unwrap();
        assert_eq!(names, 1, "fault {fault}");
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
        let mut kept = match open_kept(&disk) {
            Ok(kept) => kept.unwrap(),
            Err(_) if at < 64 => continue,
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
            }
            number += 1;
        }
        assert!(damaged > 0, "byte {at}");
        let aside = kept.set_aside().unwrap();
        assert!(disk.metadata(&aside).is_ok() && disk.metadata(&path()).is_err());
    }
    assert!(left > bytes.len());
}

fn fixture() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/expunged-v1.bin")
}

#[test]
fn version_1_reads_and_writes_as_ever() {
    let disk = MemVfs::new();
    keep(&disk, 7, 4).unwrap();
    let written = disk.read(&path(), SIZE_MAX).unwrap();
    let os = OsVfs;
    if os.metadata(&fixture()).is_err() && std::env::var_os("BLESS_FIXTURES").is_some() {
        let file = os.open(&fixture(), OpenOptions::create_new(0o644)).unwrap();
        file.write_all_at(&written, 0).unwrap();
    }
    let kept = os.read(&fixture(), SIZE_MAX).unwrap();
    let file = disk.open(&path(), OpenOptions::WRITE).unwrap();
    file.write_all_at(&kept, 0).unwrap();
    assert_eq!(found(&disk), Some((7, 4)));
    assert!(kept == written, "the layout changed without a new version");
}
