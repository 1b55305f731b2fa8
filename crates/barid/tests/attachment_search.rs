//! Searches in the texts of attachments: what an index of them knows changes no answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use barid::query::{Day, SearchProgram, ShortOptions, parse_short_with};
use barid::{
    AttachmentReader, AttachmentText, AttachmentToRead, ChangeOptions, ChangeRequest, Flag,
    FoundMessages, IndexAmount, Mailbox, NewMessage, UidSet,
};
use fastrand::Rng;

use crate::arena::{Arena, add, expunge, flag, now};
use crate::text_index::{damage, index_files, open, remove_files};

/// Words of which texts and names are made.
const WORDS: [&str; 12] = [
    "budget",
    "budgets",
    "plan",
    "Plan",
    "annual",
    "report",
    "caf\u{e9}",
    "a1",
    "gr\u{fc}n",
    "\u{4e2d}\u{6587}",
    "x",
    "contract",
];
const GAPS: [&str; 5] = [" ", ", ", "-", "\r\n", ". "];

/// Reads attachments whose text is written from right to left, or by the second reader as it is.
#[derive(Debug)]
pub(crate) struct AttachmentMirror {
    id: u32,
    /// Number of attachments that were read.
    reads: AtomicU32,
}

impl AttachmentMirror {
    pub(crate) fn new(id: u32) -> Arc<Self> {
        Arc::new(Self { id, reads: AtomicU32::new(0) })
    }

    fn reads(&self) -> u32 {
        self.reads.swap(0, Ordering::Relaxed)
    }
}

impl AttachmentReader for AttachmentMirror {
    fn id(&self) -> u32 {
        self.id
    }

    fn len_max(&self) -> usize {
        1 << 20
    }

    fn read(&self, attachment: AttachmentToRead, _: Option<&Arc<AtomicBool>>) -> AttachmentText {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let text = String::from_utf8_lossy(&attachment.bytes).into_owned();
        match text.get(..1) {
            _ if text.len() > self.len_max() => AttachmentText::Failed,
            _ if attachment.media_type == "image/png" => AttachmentText::NoText,
            Some("!") => AttachmentText::Failed,
            Some("?") => AttachmentText::FailedNow,
            _ if self.id == 1 => AttachmentText::Text(text.chars().rev().collect()),
            _ => AttachmentText::Text(text),
        }
    }
}

fn text(random: &mut Rng, words: usize) -> String {
    let mut text = String::new();
    for _ in 0..random.usize(0..=words) {
        text.push_str(WORDS[random.usize(..WORDS.len())]);
        text.push_str(GAPS[random.usize(..GAPS.len())]);
    }
    text
}

/// An attachment as a test knows it.
struct Attached {
    name: String,
    /// The bytes, before their transfer encoding.
    content: String,
    media_type: &'static str,
}

impl Attached {
    fn new(random: &mut Rng) -> Self {
        let name = format!("{}{}.pdf", text(random, 1).trim(), random.u8(..)).replace("\r\n", "");
        let media_type = ["application/pdf", "text/plain", "image/png"][random.usize(..3)];
        let mark = ["", "", "", "", "", "!", "?"][random.usize(..7)];
        Self { name, content: format!("{mark}{}", text(random, 30)), media_type }
    }
}

fn quoted(text: &str) -> String {
    let line = |bytes: &[u8]| bytes.iter().map(|byte| format!("={byte:02X}")).collect::<String>();
    text.as_bytes().chunks(20).map(line).collect::<Vec<_>>().join("=\n")
}

/// Returns a message, and its attachments.
fn message(random: &mut Rng, number: u64) -> (Vec<u8>, Vec<Attached>) {
    let body = text(random, 20).replace("\r\n", "\n");
    let header = format!(
        "From: {}@example.org\nSubject: {number} {}\nMIME-Version: 1.0\n",
        ["ann", "bob"][random.usize(..2)],
        WORDS[random.usize(..2)],
    );
    let attached: Vec<Attached> = (0..random.usize(0..4)).map(|_| Attached::new(random)).collect();
    if attached.is_empty() {
        let header = header + "Content-Type: text/plain; charset=utf-8\n\n";
        return (format!("{header}{body}\n").into_bytes(), attached);
    }
    let mut raw =
        format!("{header}Content-Type: multipart/mixed; boundary=-b-\n\n---b-\n\n{body}\n");
    for Attached { name, content, media_type } in &attached {
        let name: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        raw.push_str(&format!(
            "---b-\nContent-Type: {media_type}; charset=utf-8\n\
             Content-Disposition: attachment; filename*=utf-8''{name}\n\
             Content-Transfer-Encoding: quoted-printable\n\n{}\n",
            quoted(content)
        ));
    }
    raw.push_str("---b---\n");
    (raw.into_bytes(), attached)
}

/// Appends messages; returns their attachments.
fn append(arena: &mut Arena, random: &mut Rng, count: u64) -> Vec<Vec<Attached>> {
    let first = arena.delivered;
    arena.delivered += count;
    let (raw, attached): (Vec<_>, Vec<_>) =
        (first..first + count).map(|number| message(random, number)).unzip();
    let new = raw.iter().map(|bytes| NewMessage { bytes, ..NewMessage::default() });
    let appends: Vec<NewMessage<'_>> = new.collect();
    let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
    open(arena, &|_| {}).change(&request, &ChangeOptions::default()).unwrap();
    attached
}

/// Opens a mailbox that reads attachments, or not.
fn open_with(arena: &Arena, reader: Option<&Arc<AttachmentMirror>>, use_index: bool) -> Mailbox {
    open(arena, &|options| {
        options.use_index = use_index;
        options.attachments = reader.map(|reader| Arc::clone(reader) as Arc<dyn AttachmentReader>);
    })
}

fn index(
    arena: &Arena,
    reader: Option<&Arc<AttachmentMirror>>,
    amount: IndexAmount,
) -> barid::IndexReport {
    open_with(arena, reader, true).view().index_texts(amount).unwrap()
}

fn search(mailbox: &Mailbox, program: &SearchProgram) -> FoundMessages {
    let found = mailbox.view().search(program, &UidSet::new()).unwrap();
    assert!(found.unreadable.is_empty());
    found
}

fn program(query: &str, fold_accents: bool) -> SearchProgram {
    parse_short_with(query, ShortOptions { today: Day(0), fold_accents }).unwrap()
}

/// Returns a query of one key.
fn key(random: &mut Rng) -> String {
    let word = |random: &mut Rng| WORDS[random.usize(..WORDS.len())];
    let (one, two) = (word(random), word(random));
    let start: String = one.chars().take(2).collect();
    let key = ["attachment", "attachment", "attachment", "filename", "body"][random.usize(..5)];
    match random.u8(..9) {
        0..=2 => format!("{key}:{one}"),
        3 => format!("{key}:\"{one} {two}\""),
        4 => format!("{key}:{start}*"),
        5 => format!("{key}:/{start}[a-z]*{two}?/"),
        6 => format!("{key}:\"{one} {two}*\"~3"),
        7 => ["is:flagged", "from:ann", "subject:budgets", "has:attachment"][random.usize(..4)]
            .to_owned(),
        _ => format!("{key}:\"{}\"", ["-", ".", "dget", "gets pl", "1.pdf"][random.usize(..5)]),
    }
}

fn query(random: &mut Rng) -> String {
    let mut query = String::new();
    for at in 0..random.usize(1..4) {
        let joint = ["", " ", " or "][if at == 0 { 0 } else { random.usize(1..3) }];
        let not = if random.u8(..3) == 0 { "-" } else { "" };
        query.push_str(&format!("{joint}{not}{}", key(random)));
    }
    query
}

/// Compares searches with the index and without it, for no reader and for both; returns the number
/// that find some messages.
fn compare(
    arena: &Arena,
    readers: &[Arc<AttachmentMirror>; 2],
    queries: usize,
    seed: u64,
    what: &str,
) -> u32 {
    let mut random = Rng::with_seed(seed);
    let mut telling = 0;
    for reader in [None, Some(&readers[0]), Some(&readers[1])] {
        let (indexed, plain) = (open_with(arena, reader, true), open_with(arena, reader, false));
        for _ in 0..queries {
            let query = query(&mut random);
            let program = program(&query, random.u8(..6) == 0);
            let (ours, expected) = (search(&indexed, &program), search(&plain, &program));
            let id = reader.map(|reader| reader.id);
            assert_eq!(ours.rows, expected.rows, "{what}, reader {id:?}: {query}");
            if program.nodes().len() == 1 {
                let unread = (ours.attachments_unread, expected.attachments_unread);
                assert_eq!(unread.0, unread.1, "{what}, reader {id:?}: {query}");
            }
            telling += u32::from(!ours.rows.is_empty() && ours.rows.len() < plain.len() as usize);
        }
    }
    telling
}

fn readers() -> [Arc<AttachmentMirror>; 2] {
    [AttachmentMirror::new(1), AttachmentMirror::new(2)]
}

#[test]
fn names_and_texts_are_found_as_a_plain_comparison_finds_them() {
    let readers = readers();
    let mut random = Rng::with_seed(41);
    let mut arena = Arena::in_memory("maildir", 1);
    let messages = append(&mut arena, &mut random, 150);
    index(&arena, Some(&readers[0]), IndexAmount::All);
    let fold = |text: &str| text.to_lowercase().replace("\r\n", "\n");
    let (mut found, mut unread) = (0, 0);
    for word in WORDS.iter().chain(&["get", "port,", "plan-", ".pdf", "nothing", "1.p"]) {
        let wanted = fold(word);
        let program = program(&format!("attachment:\"{word}\""), false);
        for reader in [None, Some(&readers[0]), Some(&readers[1])] {
            let read = |attached: &Attached| match reader {
                None => String::new(),
                _ if attached.media_type == "image/png" => String::new(),
                _ if attached.content.starts_with(['!', '?']) => String::new(),
                Some(reader) if reader.id == 1 => attached.content.chars().rev().collect(),
                Some(_) => attached.content.clone(),
            };
            let is_in = |attached: &Attached| {
                fold(&attached.name).contains(&wanted) || fold(&read(attached)).contains(&wanted)
            };
            let fails = |attached: &Attached| {
                attached.media_type != "image/png" && attached.content.starts_with(['!', '?'])
            };
            let mut expected = (Vec::new(), 0);
            for (row, attached) in (0..).zip(&messages) {
                if attached.iter().any(is_in) {
                    expected.0.push(row);
                } else if reader.is_some() && attached.iter().any(fails) {
                    expected.1 += 1;
                }
            }
            for use_index in [false, true] {
                let ours = search(&open_with(&arena, reader, use_index), &program);
                let ours = (ours.rows, ours.attachments_unread);
                assert_eq!(ours, expected, "{word} {:?} {use_index}", reader.map(|it| it.id));
            }
            found += expected.0.len();
            unread += expected.1;
        }
    }
    assert!(found > 1_000 && unread > 500, "{found} {unread}");
}

#[test]
fn attachments_are_searched_by_no_other_key() {
    let readers = readers();
    let mut arena = Arena::in_memory("mboxrd", 1);
    append(&mut arena, &mut Rng::with_seed(42), 80);
    index(&arena, Some(&readers[0]), IndexAmount::All);
    assert!(readers[0].reads() > 50);
    for query in ["body:budget", "budget", "filename:contract", "-text:annual"] {
        let program = program(query, false);
        let rows = |reader| search(&open_with(&arena, reader, true), &program).rows;
        assert_eq!(rows(Some(&readers[0])), rows(None), "{query}");
        assert_eq!(readers[0].reads(), 0);
    }
}

#[test]
fn everything_else_decides_first() {
    let readers = readers();
    let reader = &readers[0];
    let mut arena = Arena::in_memory("maildir", 1);
    let messages = append(&mut arena, &mut Rng::with_seed(43), 40);
    let reads_for = |query: &str, use_index: bool| {
        search(&open_with(&arena, Some(reader), use_index), &program(query, false));
        reader.reads()
    };
    let all: usize = messages.iter().map(Vec::len).sum();
    assert_eq!(reads_for("attachment:nothing", false) as usize, all);
    assert_eq!(reads_for("attachment:nothing is:flagged", false), 0);
    assert_eq!(reads_for("attachment:nothing subject:nothing", false), 0);
    assert_eq!(reads_for("attachment:nothing body:nothing", false), 0);
    assert_eq!(reads_for("attachment:nothing or has:attachment or -has:attachment", false), 0);
    assert_eq!(reads_for("body:plan", false), 0);
    // A name decides before the texts.
    let named = messages.iter().filter(|all| all.iter().any(|it| it.name.contains(".pdf")));
    let unnamed: usize = all - named.map(Vec::len).sum::<usize>();
    assert_eq!(reads_for("attachment:.pdf", false) as usize, unnamed);
    // The index has the names without the texts.
    index(&arena, None, IndexAmount::All);
    assert_eq!(reader.reads(), 0);
    assert_eq!(reads_for("attachment:nothing", true) as usize, all);
    let status = open_with(&arena, Some(reader), true).view().index_status().unwrap().unwrap();
    assert_eq!((status.covered, status.attachment_texts), (40, 0));
    let report = index(&arena, Some(reader), IndexAmount::All);
    let with = messages.iter().filter(|all| !all.is_empty()).count() as u32;
    assert_eq!((report.added, reader.reads() as usize), (with, all));
    let fails = |mark: char| {
        let fails = |it: &Attached| it.content.starts_with(mark) && it.media_type != "image/png";
        messages.iter().filter(|all| all.iter().any(fails)).count() as u32
    };
    let status = open_with(&arena, Some(reader), true).view().index_status().unwrap().unwrap();
    assert_eq!((status.covered, status.attachments), (40, with));
    assert_eq!(status.attachment_texts, with - fails('?'));
    assert!(status.attachments_unread > 0 && status.attachments_unread <= fails('!'));
    assert!((reads_for("attachment:nothing", true) as usize) < all / 2);
    // Another reader has read nothing.
    let status = open_with(&arena, Some(&readers[1]), true).view().index_status().unwrap().unwrap();
    assert_eq!((status.covered, status.attachment_texts), (40, 0));
}

/// Does something at random to a mailbox or its index.
fn step(arena: &mut Arena, readers: &[Arc<AttachmentMirror>; 2], random: &mut Rng) -> String {
    let reader = [None, Some(&readers[0]), Some(&readers[0]), Some(&readers[1])][random.usize(..4)];
    let uids = open(arena, &|_| {}).uids().unwrap();
    let some: Vec<u32> = uids.iter().copied().filter(|_| random.u8(..8) == 0).collect();
    match random.u8(..10) {
        0 | 1 => {
            let count = random.u64(1..20);
            append(arena, random, count);
            format!("append {count}")
        }
        2 => {
            let mut mailbox = open(arena, &|_| {});
            mailbox.change(&flag(&some, &add(Flag::Flagged)), &now()).unwrap();
            format!("flag {some:?}")
        }
        3 => {
            open(arena, &|_| {}).change(&expunge(&some), &now()).unwrap();
            format!("expunge {some:?}")
        }
        4..=7 => {
            let messages = random.u32(1..60);
            let amount = match random.bool() {
                true => IndexAmount::All,
                false => IndexAmount::UpTo { messages, bytes: u64::MAX },
            };
            index(arena, reader, amount);
            format!("index {amount:?} by {:?}", reader.map(|reader| reader.id))
        }
        8 => {
            let files = index_files(arena);
            if files.is_empty() {
                return "nothing".to_owned();
            }
            let path = &files[random.usize(..files.len())];
            damage(&*arena.vfs, path, random);
            format!("damage {}", path.display())
        }
        _ => {
            for folder in ["cache", "state"] {
                remove_files(&*arena.vfs, &arena.root.join(folder), folder == "state");
            }
            "renumber".to_owned()
        }
    }
}

#[test]
fn an_index_of_attachments_is_right_after_any_history() {
    let readers = readers();
    let mut telling = 0;
    for (format, seed) in [("maildir", 1), ("mboxrd", 2), ("mboxcl2", 3)] {
        for round in 0..3 {
            let mut random = Rng::with_seed(seed * 100 + round);
            let mut arena = Arena::in_memory(format, seed);
            append(&mut arena, &mut random, 60);
            let first = [None, Some(&readers[0]), Some(&readers[1])][round as usize];
            index(&arena, first, IndexAmount::All);
            for number in 0..12 {
                let done = step(&mut arena, &readers, &mut random);
                let what = format!("{format} {round} {number}: {done}");
                telling += compare(&arena, &readers, 8, round * 100 + number, &what);
            }
        }
    }
    assert!(telling > 1_000, "{telling}");
}

#[test]
fn segments_of_several_readers_become_one() {
    let readers = readers();
    let mut random = Rng::with_seed(44);
    let mut arena = Arena::in_memory("maildir", 1);
    for round in 0..20 {
        append(&mut arena, &mut random, 8);
        let reader = [None, Some(&readers[1]), Some(&readers[0])][round % 3];
        index(&arena, reader, IndexAmount::UpTo { messages: 8, bytes: u64::MAX });
        index(&arena, None, IndexAmount::All);
    }
    let status = |reader| open_with(&arena, reader, true).view().index_status().unwrap().unwrap();
    assert_eq!((status(None).covered, status(None).messages), (160, 160));
    assert!(status(None).segments <= 9, "{:?}", status(None));
    compare(&arena, &readers, 40, 4, "merged");
    index(&arena, Some(&readers[0]), IndexAmount::All);
    let (with, texts) = (status(Some(&readers[0])).attachments, status(Some(&readers[0])));
    assert!(texts.attachment_texts * 10 > with * 6, "{texts:?}");
    let telling = compare(&arena, &readers, 40, 5, "indexed after that");
    assert!(telling > 30, "{telling}");
}

#[test]
fn a_stopped_search_gives_no_answer() {
    let readers = readers();
    let mut arena = Arena::in_memory("maildir", 1);
    append(&mut arena, &mut Rng::with_seed(45), 40);
    let stop = Arc::new(AtomicBool::new(false));
    let mailbox = open(&arena, &|options| {
        options.attachments = Some(Arc::clone(&readers[0]) as Arc<dyn AttachmentReader>);
        options.stop = Some(Arc::clone(&stop));
    });
    let program = program("-attachment:nothing", false);
    assert_eq!(search(&mailbox, &program).rows.len(), 40);
    stop.store(true, Ordering::Relaxed);
    let stopped = mailbox.view().search(&program, &UidSet::new());
    assert!(matches!(stopped, Err(barid::Error::Stopped)), "{stopped:?}");
}

#[test]
fn attachments_of_a_message_that_is_too_large_are_read_in_pieces() {
    let readers = readers();
    let mut arena = Arena::in_memory("maildir", 1);
    let filler = format!("{}\n", "x".repeat(75)).repeat((20 << 20) / 76);
    let raw = format!(
        "Subject: large\nContent-Type: multipart/mixed; boundary=-b-\n\n---b-\n\nbody\n---b-\n\
         Content-Type: application/octet-stream; name=filler\n\n{filler}\n---b-\n\
         Content-Type: application/pdf; name=small\n\
         Content-Transfer-Encoding: quoted-printable\n\n{}\n---b---\n",
        quoted("tegdub eht")
    );
    let appends = [NewMessage { bytes: raw.as_bytes(), ..NewMessage::default() }];
    let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
    open(&arena, &|_| {}).change(&request, &ChangeOptions::default()).unwrap();
    append(&mut arena, &mut Rng::with_seed(46), 40);
    let program = program("attachment:\"the budget\"", false);
    for use_index in [false, true] {
        let found = search(&open_with(&arena, Some(&readers[0]), use_index), &program);
        assert_eq!(found.rows, [0]);
        let found = search(&open_with(&arena, None, use_index), &program);
        assert!(found.rows.is_empty());
        index(&arena, Some(&readers[0]), IndexAmount::All);
    }
    readers[0].reads();
    let found = search(
        &open_with(&arena, Some(&readers[0]), true),
        &crate::attachment_search::program("attachment:budget", false),
    );
    assert!(found.rows.contains(&0));
}
