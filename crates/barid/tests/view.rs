//! Views: a reader's view does not change, whatever others do to the mailbox.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use barid::message::strip_owned;
use barid::query::parse_imap;
use barid::{
    ChangeOptions, CreateOptions, Error, Flag, FlagChange, FormatName, Keyword, Mailbox,
    MailboxChange, MailboxSpec, ModSeq, NewMessage, OpenOptions, ReadAs, SortProgram,
    ThreadAlgorithm, Uid, UidSet, View, Window, WriteWhen,
};
use barid_testkit::Scratch;
use barid_testkit::corpus::Corpus;
use barid_vfs::{OsVfs, Timestamp, Vfs};

use crate::arena::{add, expunge, flag, memory};

const MESSAGES: u64 = 40;

/// A mailbox of a format, with the texts of its messages.
struct World {
    vfs: Arc<dyn Vfs>,
    root: PathBuf,
    spec: MailboxSpec,
    texts: Vec<Vec<u8>>,
}

impl World {
    fn in_memory(name: FormatName) -> Self {
        let memory = memory();
        memory.set_now(Timestamp { unix_nanos: 1_800_000_000_000_000_000 });
        Self::new(Arc::new(memory), "/", name)
    }

    fn new(vfs: Arc<dyn Vfs>, root: impl AsRef<Path>, name: FormatName) -> Self {
        let root = root.as_ref().to_owned();
        let spec = MailboxSpec { format: Some(name), path: root.join("box") };
        let mut world = Self { vfs, root, spec, texts: Vec::new() };
        world.create();
        let corpus = Corpus::new(9, MESSAGES);
        let texts: Vec<_> = (0..MESSAGES).map(|number| corpus.message(number).bytes).collect();
        world.append(&texts);
        let view = world.view();
        world.texts = (1..=MESSAGES as u32).map(|uid| read(&view, uid).unwrap()).collect();
        world
    }

    fn create(&self) {
        let format = self.spec.format.unwrap().format();
        let (path, options) = (&self.spec.path, CreateOptions::default());
        barid::create(&self.vfs, path, format, &options, &self.root.join("state")).unwrap();
    }

    fn open(&self) -> Mailbox {
        let options = OpenOptions::new(Some(self.root.join("cache")), self.root.join("state"));
        Mailbox::open_in(Arc::clone(&self.vfs), &self.spec, &options).unwrap()
    }

    fn view(&self) -> View {
        self.open().view()
    }

    fn append(&self, texts: &[Vec<u8>]) {
        let appends: Vec<_> =
            texts.iter().map(|bytes| NewMessage { bytes, ..NewMessage::default() }).collect();
        let request = barid::ChangeRequest { appends: &appends, ..Default::default() };
        self.open().change(&request, &ChangeOptions::default()).unwrap();
    }

    fn change(&self, request: &barid::ChangeRequest<'_>) {
        self.open().change(request, &ChangeOptions::default()).unwrap();
    }

    /// Returns the original text of a message.
    fn text(&self, uid: u32) -> &[u8] {
        &self.texts[uid as usize - 1]
    }
}

/// Reads a message without the header fields in which an mbox stores flags.
fn read(view: &View, uid: u32) -> Result<Vec<u8>, Error> {
    let read = view.read(Uid::new(uid).unwrap(), ReadAs::Message)?;
    Ok(strip_owned(&read.bytes).into_owned())
}

fn search(view: &View, program: &str) -> Vec<u32> {
    let program = parse_imap(program.as_bytes()).unwrap().program;
    view.search(&program, &UidSet::default()).unwrap().rows
}

/// Returns everything that a view answers without the messages themselves.
fn answers(view: &View) -> String {
    let mut all = String::new();
    let rows: Vec<u32> = (0..view.len()).collect();
    view.summaries(&rows, &mut |summary| {
        let (uid, flags) = (summary.uid, summary.flags);
        all += &format!("{} {uid} {flags:?} {:?}\n", summary.row, summary.fields.subject);
        true
    })
    .unwrap();
    let program = SortProgram::parse(["-subject"]).unwrap();
    let sorted = view.sorted(&program, Window::All).unwrap().rows;
    let threads = view.threads(ThreadAlgorithm::References).unwrap().to_bytes();
    let found = ["ALL", "UNSEEN", "FLAGGED", "SUBJECT e"].map(|program| search(view, program));
    all + &format!("{sorted:?} {threads:?} {found:?} {:?}", view.uids().unwrap())
}

#[test]
fn rows_stay_and_messages_are_followed() {
    for name in FormatName::all() {
        let world = World::in_memory(name);
        let view = world.view();
        let before = answers(&view);
        // All messages move in a format of one file.
        world.change(&expunge(&[1, 7, 8, 20]));
        world.change(&flag(&[2, 30], &add(Flag::Flagged)));
        world.append(&[b"Subject: new\n\nnew text\n".to_vec()]);
        assert_eq!(answers(&view), before, "{name:?}");
        let newer = world.view();
        assert_eq!((view.len(), newer.len()), (40, 37), "{name:?}");
        for uid in 1..=MESSAGES as u32 {
            let text = read(&view, uid);
            match [1, 7, 8, 20].contains(&uid) {
                true => assert!(
                    matches!(text, Err(Error::NoSuchMessage { .. })),
                    "{name:?} {uid}: {text:?}"
                ),
                false => assert!(text.unwrap() == world.text(uid), "{name:?} {uid}"),
            }
        }
        let found = search(&view, "NOT TEXT nosuchword");
        let there: Vec<u32> = (0..40).filter(|row| ![0, 6, 7, 19].contains(row)).collect();
        assert_eq!(found, there, "{name:?}");
        assert_eq!(search(&newer, "BODY \"new text\""), [36], "{name:?}");
    }
}

/// The state of a message that changes can affect.
type State = (Vec<Flag>, Vec<String>);

fn states(view: &View) -> BTreeMap<Uid, State> {
    let (mut states, rows) = (BTreeMap::new(), (0..view.len()).collect::<Vec<u32>>());
    view.summaries(&rows, &mut |summary| {
        let flags = [Flag::Seen, Flag::Flagged, Flag::Deleted];
        let flags = flags.into_iter().filter(|flag| summary.flags.contains(*flag)).collect();
        let keywords = summary.keyword_names().map(str::to_owned).collect();
        states.insert(summary.uid, (flags, keywords));
        true
    })
    .unwrap();
    states
}

fn modseqs(view: &View) -> BTreeMap<Uid, ModSeq> {
    let marks = view.marks_of(&view.uids_of(&(0..view.len()).collect::<Vec<u32>>()).unwrap());
    marks.unwrap().into_iter().map(|marks| (marks.uid, marks.modseq)).collect()
}

/// Returns the changes between two states, found by comparing all messages.
fn compared(before: &View, now: &View) -> Vec<MailboxChange> {
    let (old_modseqs, new_modseqs) = (modseqs(before), modseqs(now));
    let (before, now) = (states(before), states(now));
    let gone = before.keys().filter(|uid| !now.contains_key(uid));
    let flags = now.iter().filter_map(|(uid, state)| match before.get(uid)? {
        old if old != state => Some(MailboxChange::Flags(*uid)),
        _ => (old_modseqs[uid] != new_modseqs[uid]).then_some(MailboxChange::ModSeq(*uid)),
    });
    let new = now.keys().filter(|uid| !before.contains_key(uid));
    gone.map(|uid| MailboxChange::Expunged(*uid))
        .chain(flags)
        .chain(new.map(|uid| MailboxChange::New(*uid)))
        .collect()
}

/// An mbox in which the header of a message grows while its body is read.
#[test]
fn a_large_message_is_followed_between_its_pieces() {
    for name in ["mboxo", "mboxrd", "mboxcl2", "mmdf", "mbx", "maildir"] {
        let world = World::in_memory(FormatName::named(name).unwrap());
        let lines = (0..900_000).map(|line| format!("line {line}\n"));
        let large: String = std::iter::once("Subject: large\n\n".to_owned()).chain(lines).collect();
        world.append(&[large.clone().into_bytes()]);
        let view = world.view();
        let uid = Uid::new(MESSAGES as u32 + 1).unwrap();
        let (mut read, mut pieces) = (Vec::new(), 0);
        view.read_pieces(uid, ReadAs::Message, &mut |piece| {
            read.extend_from_slice(piece);
            pieces += 1;
            if pieces == 1 {
                let change = FlagChange {
                    add_keywords: vec![Keyword::new("a-long-name-of-a-keyword").unwrap()],
                    ..add(Flag::Flagged)
                };
                world.change(&flag(&[uid.get()], &change));
                world.change(&expunge(&[1, 2]));
            }
            true
        })
        .unwrap();
        assert!(pieces > 1, "{name}");
        let body = |text: &[u8]| text[memchr::memmem::find(text, b"line 0").unwrap()..].to_vec();
        let is_crlf = read.ends_with(b"\r\n");
        let expected = if is_crlf { large.replace('\n', "\r\n") } else { large.clone() };
        assert!(body(&read) == body(expected.as_bytes()), "{name}");
    }
}

#[test]
fn changes_are_those_between_any_two_views() {
    let mut touched = 0;
    for (seed, name) in FormatName::all().enumerate() {
        let world = World::in_memory(name);
        let mut random = fastrand::Rng::with_seed(seed as u64);
        let mut mailbox = world.open();
        let mut views = vec![mailbox.view()];
        for round in 0..30 {
            let uids = mailbox.uids().unwrap();
            let some: Vec<u32> = uids.iter().copied().filter(|_| random.u8(0..8) == 0).collect();
            let change = match random.u8(0..4) {
                0 => add(Flag::Flagged),
                1 => {
                    FlagChange { remove: [Flag::Seen].into_iter().collect(), ..Default::default() }
                }
                _ => {
                    let keyword = Keyword::new(["a", "b", "c"][random.usize(0..3)]).unwrap();
                    FlagChange { add_keywords: vec![keyword], ..add(Flag::Seen) }
                }
            };
            let write = [WriteWhen::Now, WriteWhen::Pending][random.usize(0..2)];
            let options = ChangeOptions { write, ..ChangeOptions::default() };
            mailbox.change(&flag(&some, &change), &options).unwrap();
            if round % 3 == 0 {
                world.append(&[format!("Subject: {round}\n\nnew\n").into_bytes()]);
            }
            if round % 4 == 0 {
                let gone: Vec<u32> = some.iter().copied().take(2).collect();
                world.change(&expunge(&gone));
            }
            mailbox.refresh().unwrap();
            views.push(mailbox.view());
        }
        for _ in 0..60 {
            let now = random.usize(0..views.len());
            let before = &views[random.usize(0..=now)];
            let found = views[now].changes_since(before).unwrap();
            assert_eq!(found, compared(before, &views[now]), "{name:?}");
            touched += found.iter().filter(|it| matches!(it, MailboxChange::ModSeq(_))).count();
        }
    }
    assert!(touched > 0, "no flags were changed back");
}

#[test]
fn a_mailbox_that_was_replaced_is_not_followed() {
    for name in ["mboxrd", "maildir", "mbx", "mix", "mh"] {
        let world = World::in_memory(FormatName::named(name).unwrap());
        let view = world.view();
        world.vfs.rename(&world.spec.path, Path::new("/aside")).unwrap();
        // Another mailbox has a message with the same UID.
        world.create();
        world.append(&[b"Subject: another\n\nanother\n".to_vec()]);
        match read(&view, 1) {
            Ok(text) => assert_eq!(text, world.text(1), "{name}"),
            Err(Error::NoSuchMessage { .. } | Error::Renumbered { .. }) => {}
            Err(error) => panic!("{name}: {error}"),
        }
    }
}

#[test]
fn many_threads_read_one_view_while_others_change_the_mailbox() {
    for name in ["mboxrd", "maildir", "mix", "mbx", "mh"] {
        let scratch = Scratch::new("view").unwrap();
        let name = FormatName::named(name).unwrap();
        let world = World::new(Arc::new(OsVfs), scratch.path(), name);
        let view = world.view();
        let before = answers(&view);
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for reader in 0..4 {
                let (view, world, is_done) = (view.clone(), &world, &is_done);
                scope.spawn(move || {
                    let mut uid = reader + 1;
                    while !is_done.load(Ordering::Relaxed) {
                        match read(&view, uid) {
                            Ok(text) => assert!(text == world.text(uid), "{name:?} {uid}"),
                            Err(Error::NoSuchMessage { .. }) if uid % 4 == 0 => {}
                            Err(error) => panic!("{name:?} {uid}: {error}"),
                        }
                        uid = uid % MESSAGES as u32 + 1;
                    }
                });
            }
            for round in 1..=8 {
                world.change(&expunge(&[round * 4]));
                world.change(&flag(&[round * 4 + 1], &add(Flag::Seen)));
                world.append(&[format!("Subject: {round}\n\nnew\n").into_bytes()]);
            }
            is_done.store(true, Ordering::Relaxed);
        });
        assert_eq!(answers(&view), before, "{name:?}");
    }
}
