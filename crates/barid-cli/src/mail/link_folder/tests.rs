//! Power failures and failing calls at every change of the disk, while a folder of links is made
//! and while flags are brought together.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use barid::vfs::{CallKind, CrashVfs, Fault, FaultEffect, FaultVfs, Host as _, MemVfs};
use barid::{CreateOptions, MailboxSpec, NewMessage, OpenOptions as MailboxOptions, WriteWhen};

use super::super::links::links_file;
use super::*;

/// The mailboxes: one with files of messages, one without.
const MAILBOXES: [&str; 2] = ["maildir:/box", "mboxrd:/file"];
const DIR: &str = "/found";
const STATE: &str = "/state";
/// Number of states of the disk at each crash point.
const SEEDS: u64 = 8;
/// The flags of each message before, and of its link or its message afterwards.
const MESSAGES: [MessageCase; 6] = [
    MessageCase { before: "S", link: "FS", message: "S", merged: "FS" },
    MessageCase { before: "S", link: "", message: "S", merged: "" },
    MessageCase { before: "", link: "", message: "FR", merged: "FR" },
    MessageCase { before: "FS", link: "FS", message: "S", merged: "S" },
    MessageCase { before: "S", link: "RS", message: "F", merged: "FR" },
    MessageCase { before: "", link: "S", message: "S", merged: "S" },
];

struct MessageCase {
    before: &'static str,
    /// The flags that a mail program gives the link.
    link: &'static str,
    /// The flags that somebody gives the message.
    message: &'static str,
    /// The flags of both after that.
    merged: &'static str,
}

fn memory() -> MemVfs {
    let disk = MemVfs::new();
    disk.set_tick(Duration::from_micros(10));
    disk
}

fn open(vfs: &Arc<dyn Vfs>, spec: &str) -> Mailbox {
    let options = MailboxOptions::new(Some("/cache".into()), STATE.into());
    let options = MailboxOptions { threads: 1, ..options };
    Mailbox::open_in(Arc::clone(vfs), &MailboxSpec::parse(spec), &options).unwrap()
}

fn pending() -> ChangeOptions {
    ChangeOptions { write: WriteWhen::Pending, ..ChangeOptions::default() }
}

/// Sets flags of messages, by their UIDs from 1.
fn set_flags(vfs: &Arc<dyn Vfs>, spec: &str, wanted: &[&str]) {
    let mut flags = FlagChanges::default();
    for (uid, letters) in (1..).zip(wanted) {
        let add = flags_of(letters.as_bytes());
        let remove = FlagSet::from_bits(flags_of(b"DFRST").bits() & !add.bits());
        flags.push((Uid::new(uid).unwrap(), FlagChange { add, remove, ..FlagChange::default() }));
    }
    let request = ChangeRequest { flags, ..ChangeRequest::default() };
    open(vfs, spec).change(&request, &pending()).unwrap();
}

/// A disk with mailboxes.
fn mailboxes() -> MemVfs {
    let disk = memory();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    for spec in MAILBOXES {
        let parsed = MailboxSpec::parse(spec);
        let options = CreateOptions::default();
        let format = parsed.format.as_ref().unwrap().format();
        barid::create(&vfs, &parsed.path, format, &options, Path::new(STATE)).unwrap();
        let texts: Vec<String> =
            (0..MESSAGES.len()).map(|number| format!("Subject: {number}\n\ntext\n")).collect();
        let appends: Vec<NewMessage<'_>> = texts
            .iter()
            .zip(MESSAGES)
            .map(|(text, case)| NewMessage {
                bytes: text.as_bytes(),
                flags: flags_of(case.before.as_bytes()),
                ..NewMessage::default()
            })
            .collect();
        let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
        open(&vfs, spec).change(&request, &ChangeOptions::default()).unwrap();
    }
    disk
}

fn make_links(vfs: &Arc<dyn Vfs>) -> anyhow::Result<MadeLinks> {
    let mut opened = MAILBOXES.map(|spec| open(vfs, spec));
    let (mut linked, mut messages) = (Vec::new(), Vec::new());
    for (part, (mailbox, name)) in opened.iter_mut().zip(MAILBOXES).enumerate() {
        let uidvalidity = mailbox.status().uidvalidity.get();
        linked.push(LinkedMailbox { name: name.into(), uidvalidity, links: Vec::new() });
        let rows: Vec<u32> = (0..mailbox.len()).collect();
        mailbox.summaries(&rows, &mut |it| {
            let (row, uid, flags) = (it.row, it.uid, it.flags);
            messages.push(MessageToLink { part, row, uid, flags, arrived: 1000 });
            true
        })?;
    }
    let mut opened: Vec<&mut Mailbox> = opened.iter_mut().collect();
    make(&**vfs, (Path::new(DIR), Path::new(STATE)), linked, &mut opened, &messages)
}

/// A disk with mailboxes and a folder of links to all messages.
fn made() -> MemVfs {
    let disk = mailboxes();
    let made = make_links(&(Arc::new(disk.clone()) as Arc<dyn Vfs>)).unwrap();
    assert_eq!((made.links, made.copies, made.failed.len()), (6, 6, 0));
    disk
}

fn sync(vfs: &Arc<dyn Vfs>) -> anyhow::Result<[u64; 2]> {
    let mut folder = LinkFolder::open(&**vfs, Path::new(DIR), Path::new(STATE))?;
    let mut sum = [0; 2];
    for at in 0..folder.links.mailboxes.len() {
        let name = folder.links.mailboxes[at].name.to_str().unwrap().to_owned();
        let options = MailboxOptions::new(Some("/cache".into()), STATE.into());
        let spec = MailboxSpec::parse(&name);
        let mut mailbox = Mailbox::open_in(Arc::clone(vfs), &spec, &options)?;
        let synced = folder.sync_mailbox(at, &mut mailbox, &pending())?;
        anyhow::ensure!((synced.gone, synced.left) == (0, 0), "messages were left out");
        sum = [sum[0] + synced.flagged, sum[1] + synced.followed];
    }
    Ok(sum)
}

/// The letters of the flags of all links, by mailbox and UID from 1.
fn link_flags(vfs: &dyn Vfs) -> [Vec<String>; 2] {
    let mut letters = BTreeMap::new();
    vfs.open_dir(&Path::new(DIR).join("cur"))
        .unwrap()
        .list(&mut |name, _| {
            if is_temporary(name) {
                return;
            }
            let name = std::str::from_utf8(name).unwrap();
            let (base, flags) = name.split_once(":2,").expect("because no other file is there");
            let number = base.split(['L', '.']).nth(2).unwrap();
            let is_new = letters.insert(number.parse::<usize>().unwrap(), flags.to_owned());
            assert_eq!(is_new, None, "{name} is there twice");
        })
        .unwrap();
    let mut all = letters.into_values();
    [(); 2].map(|()| all.by_ref().take(MESSAGES.len()).collect())
}

fn message_flags(vfs: &Arc<dyn Vfs>) -> [Vec<String>; 2] {
    MAILBOXES.map(|spec| {
        let (mailbox, mut all) = (open(vfs, spec), Vec::new());
        let rows: Vec<u32> = (0..mailbox.len()).collect();
        mailbox
            .summaries(&rows, &mut |it| {
                all.push(letters(it.flags));
                true
            })
            .unwrap();
        all
    })
}

/// Gives the links the flags that mail programs have given them, and does not wait for the disk.
fn rename_links(vfs: &dyn Vfs) {
    let cur = Path::new(DIR).join("cur");
    for (number, case) in (0..MAILBOXES.len() * MESSAGES.len()).zip(MESSAGES.iter().cycle()) {
        let name = |letters| cur.join(format!("1000.L{}.barid:2,{letters}", number + 1));
        if case.link != case.before {
            vfs.rename(&name(case.before), &name(case.link)).unwrap();
        }
    }
}

fn flag_messages(vfs: &Arc<dyn Vfs>) {
    for spec in MAILBOXES {
        set_flags(vfs, spec, &MESSAGES.map(|case| case.message));
    }
}

fn bits(letters: &str) -> u8 {
    flags_of(letters.as_bytes()).bits()
}

/// Sees to it that after another run, messages and links have the flags that they should.
///
/// `undone` is `true` to take back what was changed at the messages before that run: then nothing
/// must bring it back.
fn go_on(vfs: &Arc<dyn Vfs>, is_acknowledged: bool, undone: bool) {
    let before = [link_flags(&**vfs), message_flags(vfs)];
    if undone {
        for (spec, now) in MAILBOXES.iter().zip(&before[1]) {
            let taken_back = |(now, case): (&String, &MessageCase)| {
                let theirs = bits(case.before) ^ bits(case.message);
                let ours = bits(case.before) ^ bits(case.link);
                let theirs = theirs & !ours;
                letters(FlagSet::from_bits(bits(now) & !theirs | bits(case.before) & theirs))
            };
            let wanted: Vec<String> = now.iter().zip(&MESSAGES).map(taken_back).collect();
            let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
            set_flags(vfs, spec, &wanted);
        }
    }
    sync(vfs).unwrap();
    let after = [link_flags(&**vfs), message_flags(vfs)];
    assert_eq!(after[0], after[1], "links and messages have the same flags");
    for part in 0..MAILBOXES.len() {
        for (at, case) in MESSAGES.iter().enumerate() {
            let ours = bits(case.before) ^ bits(case.link);
            let theirs = bits(case.before) ^ bits(case.message);
            // A name that was not on the disk yet is as if the mail program had never given it.
            let [link, message] = [&before[0][part][at], &before[1][part][at]].map(|it| bits(it));
            let seen = (link ^ bits(case.before) | message ^ bits(case.before)) & ours;
            assert!(!is_acknowledged || seen == ours, "{part} {at}: lost at the link");
            let expected = match undone {
                true => bits(case.before) ^ seen,
                false => bits(case.before) ^ (seen | theirs),
            };
            let found = &after[1][part][at];
            assert_eq!(bits(found), expected, "{part} {at}: {before:?} became {found}");
        }
    }
    assert_eq!(sync(vfs).unwrap(), [0, 0], "once more");
    assert_eq!([link_flags(&**vfs), message_flags(vfs)], after);
    for dir in ["", "cur", "new", "tmp"].map(|name| Path::new(DIR).join(name)) {
        let list = &mut |name: &[u8], _| assert!(!is_temporary(name), "left behind");
        vfs.open_dir(&dir).unwrap().list(list).unwrap();
    }
    for name in ["1000.L1", "1000.L7"] {
        let letters = &after[0][usize::from(name == "1000.L7")][0];
        let path = Path::new(DIR).join("cur").join(format!("{name}.barid:2,{letters}"));
        assert!(vfs.read(&path, 1 << 20).unwrap().ends_with(b"Subject: 0\n\ntext\n"), "{name}");
    }
}

#[test]
fn flags_of_links_and_messages_are_merged() {
    let vfs: Arc<dyn Vfs> = Arc::new(made());
    assert_eq!(sync(&vfs).unwrap(), [0, 0]);
    rename_links(&*vfs);
    flag_messages(&vfs);
    assert_eq!(sync(&vfs).unwrap(), [8, 6]);
    let merged = MESSAGES.map(|case| case.merged.to_owned()).to_vec();
    assert_eq!(message_flags(&vfs), [merged.clone(), merged]);
    assert_eq!(link_flags(&*vfs), message_flags(&vfs));
    // What has come to a link, and was taken away there, is taken away at the message.
    for number in [3, 9] {
        let name = format!("1000.L{number}.barid:2,");
        let name = |letters| Path::new(DIR).join("cur").join(format!("{name}{letters}"));
        vfs.rename(&name("FR"), &name("R")).unwrap();
    }
    assert_eq!(sync(&vfs).unwrap(), [2, 0]);
    assert_eq!(message_flags(&vfs).map(|flags| flags[2].clone()), ["R", "R"]);
}

#[test]
fn a_flag_that_cannot_be_written_is_tried_again() {
    let disk = memory();
    let vfs: Arc<dyn Vfs> = Arc::new(disk);
    let line = format!("X-Long: {}\n", "y".repeat(1000));
    // No header can be longer.
    let long = line.repeat(1024 * 1024 / line.len() + 1);
    let text = format!("From a@x Mon Jan  1 00:00:00 2024\n{long}\nbody\n\n");
    let file = vfs.open(Path::new("/box"), OpenOptions::create_new(0o600)).unwrap();
    file.write_all_at(text.as_bytes(), 0).unwrap();
    let mut mailbox = open(&vfs, "mboxrd:/box");
    let uidvalidity = mailbox.status().uidvalidity.get();
    let linked = LinkedMailbox { name: "/box".into(), uidvalidity, links: Vec::new() };
    let (row, uid, flags) = (0, Uid::new(1).unwrap(), FlagSet::EMPTY);
    let message = MessageToLink { part: 0, row, uid, flags, arrived: 1000 };
    let folders = (Path::new(DIR), Path::new(STATE));
    make(&*vfs, folders, vec![linked], &mut [&mut mailbox], &[message]).unwrap();
    let name = |letters| Path::new(DIR).join("cur").join(format!("1000.L1.barid:2,{letters}"));
    vfs.rename(&name(""), &name("F")).unwrap();
    for _ in 0..2 {
        let mut folder = LinkFolder::open(&*vfs, Path::new(DIR), Path::new(STATE)).unwrap();
        let options = ChangeOptions::default();
        let synced = folder.sync_mailbox(0, &mut mailbox, &options).unwrap();
        assert_eq!((synced.flagged, synced.followed, synced.left), (0, 0, 1));
    }
    assert!(vfs.symlink_metadata(&name("F")).is_ok());
}

/// Runs `sync` after changes on both sides and crashes at every point. Returns their number.
fn crash_everywhere(fault: Option<Fault>, lying: bool) -> usize {
    let disk = made();
    flag_messages(&(Arc::new(disk.clone()) as Arc<dyn Vfs>));
    let world = if lying { CrashVfs::lying(&disk) } else { CrashVfs::new(&disk) };
    let vfs: Arc<dyn Vfs> = match fault {
        Some(fault) => Arc::new(FaultVfs::new(world.vfs(), fault)),
        None => Arc::new(world.vfs()),
    };
    rename_links(&*vfs);
    sync(&vfs).unwrap();
    let (last, mut crashes) = (world.points(), 0);
    for point in 0..=last {
        for seed in 0..SEEDS {
            for undone in [false, true] {
                let vfs: Arc<dyn Vfs> = Arc::new(world.crash_at(point, seed));
                let run = || go_on(&vfs, point == last, undone);
                if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
                    eprintln!("point {point} of {last}, seed {seed}, undone {undone}");
                    std::panic::resume_unwind(panic);
                }
                crashes += 1;
            }
        }
    }
    crashes
}

#[test]
fn after_every_crash_another_run_merges_the_flags() {
    let crashes = crash_everywhere(None, false);
    println!("{crashes} crashes");
    assert!(crashes > 1000, "{crashes}");
}

/// A crash test that passes without barriers tests nothing.
#[test]
fn crashes_on_a_disk_without_barriers_are_detected() {
    assert!(catch_unwind(|| crash_everywhere(None, true)).is_err());
    let skipped = |path: &str| Fault {
        kind: Some(CallKind::Sync),
        at: Some(Path::new(DIR).join(path)),
        effect: FaultEffect::Skip,
        forever: true,
        ..Fault::nth(0)
    };
    // Each barrier of its own.
    for path in ["cur", ""] {
        let found = catch_unwind(|| crash_everywhere(Some(skipped(path)), false));
        assert!(found.is_err(), "{path:?} needs no fsync");
    }
}

#[test]
fn after_every_failing_call_another_run_merges_the_flags() {
    let made = made();
    flag_messages(&(Arc::new(made.clone()) as Arc<dyn Vfs>));
    rename_links(&made);
    let mut faults = 0;
    for nth in 0.. {
        let disk = made.snapshot();
        let failing = FaultVfs::new(disk.clone(), Fault::nth(nth));
        let failed = sync(&(Arc::new(failing.clone()) as Arc<dyn Vfs>)).is_err();
        // A lock file whose removal failed is stale by then.
        disk.sleep(Duration::from_secs(600));
        go_on(&(Arc::new(disk) as Arc<dyn Vfs>), true, false);
        if !failing.fired() {
            break;
        }
        faults += usize::from(failed);
    }
    println!("{faults} faults");
    assert!(faults > 50, "{faults}");
}

#[test]
fn a_folder_that_was_not_finished_is_none_of_links() {
    let disk = mailboxes();
    let world = CrashVfs::new(&disk);
    let vfs: Arc<dyn Vfs> = Arc::new(world.vfs());
    make_links(&vfs).unwrap();
    let before = message_flags(&vfs);
    let (last, mut finished) = (world.points(), 0);
    for point in 0..=last {
        for seed in 0..SEEDS {
            let vfs: Arc<dyn Vfs> = Arc::new(world.crash_at(point, seed));
            assert_eq!(message_flags(&vfs), before, "point {point}, seed {seed}");
            if vfs.metadata(&links_file(Path::new(DIR))).is_err() {
                assert!(point < last, "seed {seed}: lost");
                continue;
            }
            // All links and copies are there and whole.
            finished += 1;
            assert_eq!(link_flags(&*vfs), before, "point {point}, seed {seed}");
            assert_eq!(sync(&vfs).unwrap(), [0, 0], "point {point}, seed {seed}");
            vfs.open_dir(&Path::new(DIR).join("cur"))
                .unwrap()
                .list(&mut |name, _| {
                    let path = Path::new(DIR).join("cur").join(OsStr::from_bytes(name));
                    let text = vfs.read(&path, 1 << 20).unwrap();
                    assert!(text.ends_with(b"\n\ntext\n"), "point {point}, seed {seed}");
                })
                .unwrap();
        }
    }
    println!("{finished} finished of {} at {last} points", last as u64 * SEEDS);
    assert!(last > 40 && finished >= SEEDS, "{last} {finished}");
}

#[test]
fn two_runs_at_once_are_refused() {
    let vfs: Arc<dyn Vfs> = Arc::new(made());
    let folder = LinkFolder::open(&*vfs, Path::new(DIR), Path::new(STATE)).unwrap();
    let other = sync(&vfs).unwrap_err().to_string();
    assert!(other.contains("another `barid sync`"), "{other}");
    drop(folder);
    sync(&vfs).unwrap();
    let elsewhere = LinkFolder::open(&*vfs, Path::new(DIR), Path::new("/other")).err().unwrap();
    assert!(elsewhere.to_string().contains("not made here"), "{elsewhere}");
}
