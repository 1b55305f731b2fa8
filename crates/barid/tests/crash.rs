//! Power failures and failing calls in the middle of every verb: every message exists once, in its
//! state before or after the change, and acknowledged changes are there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use barid::{ChangeRequest, Flag, FlagChange, FlagSet, Mailbox, ReadAs};
use barid_vfs::{CrashVfs, Fault, FaultVfs, Host as _, MemVfs, Vfs};

use crate::arena::{
    Arena, Expected, FORMATS, Found, add, expunge, flag, found, keeping, keyword, later, memory,
    now,
};

/// Number of random choices of what survives at each crash point.
const SEEDS: u64 = 4;
/// Every crash with a multiple of this number is followed by crashes of the next opening.
const AGAIN: u64 = 9;

/// A verb: its effect on the mailbox, and on the expected messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Accept,
    Flag,
    Sync,
    Expunge,
    Append,
    AppendUnseen,
    Undo,
}

const VERBS: [Verb; 7] = [
    Verb::Accept,
    Verb::Flag,
    Verb::Sync,
    Verb::Expunge,
    Verb::Append,
    Verb::AppendUnseen,
    Verb::Undo,
];

/// A message by its number in the corpus.
type State = BTreeMap<u64, Found>;

/// A mailbox on a disk, and its messages.
struct Scene {
    disk: MemVfs,
    arena: Arena,
    expected: Vec<Expected>,
    kept: Vec<Expected>,
}

/// Creates messages with flags, some of them pending, and an expunge that can be undone.
fn scene(format: &str, seed: u64) -> Scene {
    let disk = memory();
    let mut arena = Arena::new(Arc::new(disk.clone()), std::path::Path::new("/"), format, seed);
    arena.deliver(8);
    let mut mailbox = arena.open();
    mailbox.sync(&now()).unwrap();
    let texts = texts(&arena);
    let mut expected = expected(&mut mailbox, &texts);
    mailbox.change(&expunge(&[expected[3].uid]), &keeping()).unwrap();
    let kept = vec![expected.remove(3)];
    let change = FlagChange { add_keywords: vec![keyword("Junk")], ..add(Flag::Seen) };
    let uids = [expected[0].uid, expected[5].uid];
    mailbox.change(&flag(&uids, &change), &later()).unwrap();
    expected[0].apply(&change);
    expected[5].apply(&change);
    Scene { disk, arena, expected, kept }
}

fn texts(arena: &Arena) -> BTreeMap<Vec<u8>, u64> {
    let text = |number| barid::message::strip_owned(&arena.text(number)).into_owned();
    (0..16).map(|number| (text(number), number)).collect()
}

fn expected(mailbox: &mut Mailbox, texts: &BTreeMap<Vec<u8>, u64>) -> Vec<Expected> {
    let state = state(mailbox, texts, usize::MAX).unwrap();
    let of = |(number, found): (u64, Found)| Expected {
        uid: found.uid,
        number,
        flags: found.flags,
        keywords: found.keywords,
        date: found.date,
    };
    let mut all: Vec<Expected> = state.into_iter().map(of).collect();
    all.sort_by_key(|message| message.uid);
    all
}

/// Returns the messages of a mailbox; an error if one exists twice or is not of the corpus, except
/// for pieces of messages that were never reported, after the `pieces_from`-th.
fn state(
    mailbox: &mut Mailbox,
    texts: &BTreeMap<Vec<u8>, u64>,
    pieces_from: usize,
) -> Result<State, String> {
    let mut state = State::new();
    for (at, found) in found(mailbox).into_iter().enumerate() {
        let read = mailbox.read(crate::arena::uid(found.uid), ReadAs::Message);
        let bytes = read.map_err(|error| error.to_string())?.bytes;
        let stripped = barid::message::strip_owned(&bytes).into_owned();
        let number = texts.get(&stripped);
        if number.is_none() && at >= pieces_from {
            continue;
        }
        let number = number.ok_or_else(|| format!("UID {} is no message", found.uid))?;
        if state.insert(*number, found).is_some() {
            return Err(format!("message {number} is there twice"));
        }
    }
    Ok(state)
}

impl Verb {
    fn act(self, arena: &mut Arena, mailbox: &mut Mailbox, scene: &Scene) -> barid::Result<()> {
        let uid = |at: usize| scene.expected[at].uid;
        let change = add(Flag::Flagged);
        match self {
            Self::Accept => mailbox.change(&flag(&[uid(1), uid(5)], &change), &later()).map(drop),
            Self::Flag => mailbox.change(&flag(&[uid(1), uid(5)], &change), &now()).map(drop),
            Self::Sync => mailbox.sync(&now()).map(drop),
            Self::Expunge => mailbox.change(&expunge(&[uid(2), uid(4)]), &keeping()).map(drop),
            Self::Undo => mailbox.undo(&now()).map(drop),
            Self::Append | Self::AppendUnseen => {
                let texts = [arena.text(10), arena.text(11)];
                let new = texts.iter().map(|bytes| barid::NewMessage {
                    bytes,
                    internal_date: None,
                    flags: [Flag::Draft].into_iter().collect(),
                    keywords: Vec::new(),
                    ..barid::NewMessage::default()
                });
                let appends: Vec<_> = new.collect();
                let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
                let appends_unseen = self == Self::AppendUnseen;
                let options = barid::ChangeOptions { appends_unseen, ..now() };
                mailbox.change(&request, &options).map(drop)
            }
        }
    }

    fn appends(self) -> bool {
        matches!(self, Self::Append | Self::AppendUnseen)
    }

    /// Returns the expected flags and keywords of every message, by number.
    fn after(self, scene: &Scene) -> BTreeMap<u64, (FlagSet, BTreeSet<String>)> {
        let mut expected = scene.expected.clone();
        match self {
            Self::Accept | Self::Flag => {
                expected[1].apply(&add(Flag::Flagged));
                expected[5].apply(&add(Flag::Flagged));
            }
            Self::Expunge => {
                expected.remove(4);
                expected.remove(2);
            }
            Self::Undo => expected.extend(scene.kept.iter().cloned()),
            Self::Sync | Self::Append | Self::AppendUnseen => {}
        }
        let mut after: BTreeMap<_, _> = expected
            .into_iter()
            .map(|message| (message.number, (message.flags, message.keywords)))
            .collect();
        if self.appends() {
            let draft: FlagSet = [Flag::Draft].into_iter().collect();
            after.extend([10, 11].map(|number| (number, (draft, BTreeSet::new()))));
        }
        after
    }

    /// Opens the mailbox left on a disk and describes what is wrong with it.
    fn check(self, scene: &Scene, disk: &MemVfs, done: bool) -> Result<Mailbox, String> {
        let arena = scene.arena.on(Arc::new(disk.clone()));
        let mut mailbox = arena.try_open(&arena.options()).map_err(|error| error.to_string())?;
        if let Some(left) = mailbox.unfinished() {
            return Err(format!("{left:?} {:?}", mailbox.notes()));
        }
        let may_grow = self.appends() || self == Self::Undo;
        let has_pieces = may_grow && !done && !arena.is_maildir;
        let pieces_from = if has_pieces { scene.expected.len() } else { usize::MAX };
        let state = state(&mut mailbox, &texts(&arena), pieces_from)?;
        let before = scene
            .expected
            .iter()
            .map(|message| (message.number, (message.flags, message.keywords.clone())));
        let before: BTreeMap<_, _> = before.collect();
        let after = self.after(scene);
        for number in 0..16 {
            let found = state.get(&number);
            let now = found.map(|found| (found.flags, found.keywords.clone()));
            let now = now.as_ref();
            let is_new = now == after.get(&number);
            if !(is_new || !done && now == before.get(&number)) {
                return Err(format!("message {number} is {now:?}"));
            }
            let same = scene.expected.iter().find(|message| message.number == number);
            let uids = found.map(|found| found.uid).zip(same.map(|message| message.uid));
            if uids.is_some_and(|(found, before)| found != before) {
                return Err(format!("message {number} has another UID"));
            }
        }
        Ok(mailbox)
    }

    /// Returns `true` if pending changes remain that were written, and nothing shows that any more.
    fn is_written_twice(scene: &Scene, disk: &MemVfs, written: Option<&[u8]>) -> bool {
        let arena = scene.arena.on(Arc::new(disk.clone()));
        let journal = arena.spec.path.with_file_name(".box.barid-journal");
        let is_pending = {
            let mut pending = false;
            let dir = disk.open_dir(std::path::Path::new("/state")).unwrap();
            dir.list(&mut |name, _| pending |= name.ends_with(b".pending")).unwrap();
            pending
        };
        let is_written = written.is_some_and(|written| arena.content() == written);
        is_written && is_pending && disk.metadata(&journal).is_err()
    }
}

#[test]
fn every_crash_leaves_every_message_once() {
    for (format, syncs_names) in
        FORMATS.map(|format| (format, false)).into_iter().chain([("mboxrd", true)])
    {
        let mut points = 0;
        for verb in VERBS {
            let scene = scene(format, 7);
            scene.disk.set_syncs_names(syncs_names);
            let world = CrashVfs::new(&scene.disk);
            let mut arena = scene.arena.on(Arc::new(world.vfs()));
            let mut mailbox = arena.open();
            let first = world.points();
            verb.act(&mut arena, &mut mailbox, &scene).unwrap();
            let last = world.points();
            let is_mbox = !arena.is_maildir && verb != Verb::Accept;
            let written = is_mbox.then(|| arena.content());
            for point in first..=last {
                for seed in 0..SEEDS {
                    let context = format!("{format}, {verb:?}, point {point}, seed {seed}");
                    let disk = world.crash_at(point, seed);
                    let twice = Verb::is_written_twice(&scene, &disk, written.as_deref());
                    assert!(!twice, "{context}: written and pending");
                    let again = CrashVfs::new(&disk);
                    let checked = verb.check(&scene, &again.vfs(), point == last);
                    let mut mailbox = checked.unwrap_or_else(|what| panic!("{context}: {what}"));
                    mailbox.sync(&now()).unwrap();
                    let done = point == last;
                    let end = again.points();
                    points += 1;
                    if !(point as u64 * SEEDS + seed).is_multiple_of(AGAIN) {
                        continue;
                    }
                    for second in 0..=end {
                        let disk = again.crash_at(second, seed);
                        let checked = verb.check(&scene, &disk, done);
                        checked.unwrap_or_else(|what| panic!("{context}, then {second}: {what}"));
                        points += 1;
                    }
                }
            }
        }
        println!("{format}: {points} crashes");
        assert!(points >= 300);
    }
}

#[test]
fn a_failing_call_loses_nothing() {
    for format in FORMATS {
        let mut faults = 0;
        for verb in VERBS {
            for nth in 0.. {
                let scene = scene(format, 7);
                let vfs = FaultVfs::new(scene.disk.clone(), Fault::nth(nth));
                let mut arena = scene.arena.on(Arc::new(vfs.clone()));
                let mut opened = arena.try_open(&arena.options()).map_err(Some);
                let done = match &mut opened {
                    Ok(mailbox) => verb.act(&mut arena, mailbox, &scene),
                    Err(error) => Err(error.take().unwrap()),
                };
                let context = format!("{format}, {verb:?}, fault {nth}: {done:?}");
                let has_fired = vfs.fired();
                // A lock file whose removal failed is stale by then.
                scene.disk.sleep(Duration::from_secs(600));
                // Every other time the same process continues before another opens the mailbox.
                if let (Ok(mailbox), true) = (&mut opened, has_fired && nth % 2 == 0) {
                    let synced = mailbox.sync(&now());
                    assert!(synced.is_ok(), "{context}: then {synced:?}");
                }
                let checked = verb.check(&scene, &scene.disk, done.is_ok());
                let mut mailbox = checked.unwrap_or_else(|what| panic!("{context}: {what}"));
                mailbox.sync(&now()).unwrap();
                if !has_fired {
                    assert!(done.is_ok(), "{context}");
                    break;
                }
                faults += 1;
            }
        }
        println!("{format}: {faults} faults");
        assert!(faults >= 100);
    }
}
