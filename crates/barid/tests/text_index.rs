//! The text index: a search with it finds what one without it finds, whatever happened to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid::query::{Day, SearchProgram, parse_imap, parse_short};
use barid::{Flag, IndexAmount, Mailbox, OpenOptions, ReadAs, UidSet};
use barid_testkit::{Scratch, corpora, disk};
use barid_vfs::{CallKind, Fault, FaultVfs, OpenOptions as FileOptions, Vfs};
use fastrand::Rng;

use crate::arena::{Arena, add, expunge, flag, memory, now, uid};
use crate::attachment_search::AttachmentMirror;
use crate::search_programs::Matter;

/// Programs for each pack of real mail; `BARID_INDEX_PROGRAMS` asks for more.
const PROGRAMS: usize = 250;

fn up_to(messages: u32) -> IndexAmount {
    IndexAmount::UpTo { messages, bytes: u64::MAX }
}

/// Finds the rows of a program.
fn found(mailbox: &Mailbox, program: &SearchProgram) -> Vec<u32> {
    let found = mailbox.view().search(program, &UidSet::new()).unwrap();
    assert!(found.unreadable.is_empty());
    found.rows
}

/// Opens a mailbox with options that are adjusted.
type Open<'a> = dyn Fn(&dyn Fn(&mut OpenOptions)) -> Mailbox + 'a;

/// Compares searches with the index and without it.
struct Pair {
    indexed: Mailbox,
    plain: Mailbox,
    matter: Matter,
    random: Rng,
}

impl Pair {
    fn new(open: &Open<'_>, seed: u64) -> Self {
        let indexed = open(&|_| {});
        let plain = open(&|options| options.use_index = false);
        let mut pair =
            Self { indexed, plain, matter: Matter::default(), random: Rng::with_seed(seed) };
        for number in pair.plain.uids().unwrap() {
            if let Ok(message) = pair.plain.read(uid(number), ReadAs::Message) {
                pair.matter.learn(&message.bytes, 0, &mut pair.random);
            }
        }
        pair
    }

    /// Compares patterns made of words of the mail; returns the number that find some messages.
    fn compare_patterns(&mut self, queries: usize, keys: &[&str], what: &str) -> usize {
        let mut words: Vec<String> = Vec::new();
        for number in self.plain.uids().unwrap() {
            let Ok(message) = self.plain.read(uid(number), ReadAs::Message) else { continue };
            let text = String::from_utf8_lossy(&message.bytes).into_owned();
            let found = text.split(|c: char| !c.is_alphabetic()).filter(|word| word.len() > 2);
            let found: Vec<&str> = found.collect();
            for _ in 0..20.min(found.len()) {
                words.push(found[self.random.usize(..found.len())].to_owned());
            }
        }
        let mut telling = 0;
        for _ in 0..queries {
            let mut word = || words[self.random.usize(..words.len())].clone();
            let (one, two) = (word(), word());
            let start: String = one.chars().take(3).collect();
            let key = keys[self.random.usize(..keys.len())];
            let query = match self.random.u8(..8) {
                0 => format!("{key}{start}*"),
                1 => format!("{key}\"{one} {two}*\"~30"),
                2 => format!("{key}/{start}[a-z]/ -/{two}/"),
                3 => format!("{key}/^.*{one}$/ or {key}{two}*"),
                4 => format!("-{key}/\\b{start}.{{2,}}{two}?/"),
                // In quotes `and` and `not` are words.
                5 => format!("{key}\"{one}\" or {key}\"{one} {two}\""),
                6 => format!("-{key}\"{one}\" {key}\"{start}\""),
                _ => format!("{key}/({one}|{two})/"),
            };
            let program = parse_short(&query, Day(0)).unwrap();
            let (ours, expected) = (found(&self.indexed, &program), found(&self.plain, &program));
            assert_eq!(ours, expected, "{what}: {query}");
            telling += usize::from(!ours.is_empty() && ours.len() < self.plain.len() as usize);
        }
        telling
    }

    /// Returns the number of programs that some messages match, and others do not.
    fn compare(&mut self, programs: usize, what: &str) -> usize {
        let mut telling = 0;
        for _ in 0..programs {
            let text = self.matter.program(&mut self.random).text;
            let program = parse_imap(&text).unwrap().program;
            let (ours, expected) = (found(&self.indexed, &program), found(&self.plain, &program));
            assert_eq!(ours, expected, "{what}: {}", String::from_utf8_lossy(&text));
            telling += usize::from(!ours.is_empty() && ours.len() < self.plain.len() as usize);
        }
        telling
    }
}

fn maildir_of(files: &[PathBuf], scratch: &Scratch) -> PathBuf {
    let maildir = scratch.path().join("box");
    for folder in ["cur", "new", "tmp"] {
        disk::create_dir_all(&maildir.join(folder)).unwrap();
    }
    for (number, file) in files.iter().enumerate() {
        let name = format!("{}.M{number:06}.host:2,", 1_600_000_000 + number);
        let path = maildir.join("cur").join(name);
        disk::write(&path, &disk::read(file).unwrap()).unwrap();
        // A new message without the end of its header counts as not delivered yet.
        disk::set_mtime(&disk::open_append(&path).unwrap(), 1_500_000_000).unwrap();
    }
    maildir
}

/// Compares programs on one in `step` of the messages of a pack, of which a third is not indexed.
fn compare_pack(pack: &str, step: usize) {
    let Some(files) = corpora::files(pack) else { return };
    let step = corpora::either(pack, step, 1);
    let files: Vec<PathBuf> = files.into_iter().step_by(step).collect();
    let scratch = Scratch::new("index").unwrap();
    let maildir = maildir_of(&files, &scratch);
    let dir = |name: &str| scratch.path().join(name);
    let open = |adjust: &dyn Fn(&mut OpenOptions)| {
        let mut options = OpenOptions::new(Some(dir("cache")), dir("state"));
        adjust(&mut options);
        Mailbox::open(maildir.to_str().unwrap(), &options).unwrap()
    };
    let mut pair = Pair::new(&open, 17);
    let view = pair.indexed.view();
    let limit = view.len() / 3 * 2;
    let report = view.index_texts(up_to(limit)).unwrap();
    let status = view.index_status().unwrap().unwrap();
    assert_eq!((report.added, report.unreadable), (limit, 0));
    assert_eq!((status.covered, status.messages), (limit, view.len()));
    assert!(status.read_always * 33 <= status.covered, "{status:?}");
    let asked = std::env::var("BARID_INDEX_PROGRAMS").ok().and_then(|count| count.parse().ok());
    let programs = asked.unwrap_or(PROGRAMS);
    let telling = pair.compare(programs, pack);
    assert!(telling > programs / 5, "{telling}");
    let keys = ["", "body:", "subject:", "from:", "received:", "list-id:", "cc:"];
    let telling = pair.compare_patterns(programs / 2, &keys, pack);
    assert!(telling > programs / 10, "{telling}");
    assert_truth(&pair, programs);
    let keys = ["attachment:", "attachment:", "filename:", "body:"];
    pair.compare_patterns(programs / 4, &keys, &format!("{pack}, names of files"));
    let open = |adjust: &dyn Fn(&mut OpenOptions)| {
        open(&|options| {
            options.attachments = Some(AttachmentMirror::new(2));
            adjust(options);
        })
    };
    let mut pair = Pair::new(&open, 18);
    pair.indexed.view().index_texts(up_to(limit / 2)).unwrap();
    pair.compare_patterns(programs / 10, &keys, &format!("{pack}, attachments"));
}

#[test]
fn a_mailing_list_is_searched_as_without_an_index() {
    compare_pack("dev-list-man", 8);
}

#[test]
fn rich_mail_is_searched_as_without_an_index() {
    compare_pack("dev-rich", 1);
}

#[test]
fn spam_is_searched_as_without_an_index() {
    compare_pack("spamassassin", 6);
    compare_pack("csdmc2010", 2);
}

#[test]
fn broken_mail_is_searched_as_without_an_index() {
    compare_pack("dev-torture", 1);
}

/// Compares words of the mail with what a plain search in the bytes of simple messages finds, which
/// shares no code with the library.
fn assert_truth(pair: &Pair, words: usize) {
    let mailbox = &pair.indexed;
    let uids = mailbox.uids().unwrap();
    let is_simple = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
        let encodings = ["content-transfer-encoding", "=?", "multipart/", "message/"];
        bytes.is_ascii()
            && !encodings.iter().any(|odd| text.contains(odd))
            && (!text.contains("content-type:") || text.contains("content-type: text/plain"))
    };
    let mut bodies: Vec<(u32, Vec<u8>)> = Vec::new();
    for (row, number) in uids.iter().enumerate() {
        let message = mailbox.view().read(uid(*number), ReadAs::Message).unwrap();
        if is_simple(&message.bytes) {
            let body = message.bytes[message.header_len..].to_ascii_lowercase();
            bodies.push((row as u32, body));
        }
    }
    let mut random = Rng::with_seed(5);
    for _ in 0..words.min(200).min(bodies.len() * 10) {
        let (_, body) = &bodies[random.usize(..bodies.len())];
        let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
        let start = random.usize(..=body.len());
        let len = 1 + random.usize(..12);
        let word: Vec<u8> = body[start..].iter().copied().take_while(is_plain).take(len).collect();
        let text = String::from_utf8(word.clone()).unwrap();
        let program = parse_imap(format!("BODY \"{text}\"").as_bytes()).unwrap().program;
        let rows = found(mailbox, &program);
        for (row, body) in &bodies {
            let is_in = memchr::memmem::find(body, &word).is_some();
            assert_eq!(rows.binary_search(row).is_ok(), is_in, "{text} in row {row}");
        }
    }
}

/// Opens a mailbox in memory.
pub(crate) fn open(arena: &Arena, adjust: &dyn Fn(&mut OpenOptions)) -> Mailbox {
    let mut options = arena.options();
    options.threads = 2;
    adjust(&mut options);
    arena.try_open(&options).unwrap()
}

/// Returns the number of programs that some messages match, and others do not.
fn compare(arena: &Arena, programs: usize, seed: u64, what: &str) -> usize {
    Pair::new(&|adjust| open(arena, adjust), seed).compare(programs, what)
}

pub(crate) fn index_files(arena: &Arena) -> Vec<PathBuf> {
    let cache = arena.root.join("cache");
    let mut files = Vec::new();
    let dir = arena.vfs.open_dir(&cache).unwrap();
    dir.list(&mut |name, _| {
        let name = String::from_utf8_lossy(name).into_owned();
        if name.contains(".text") && !name.ends_with("-lock") {
            files.push(cache.join(name));
        }
    })
    .unwrap();
    files.sort();
    files
}

/// Changes a byte of a file.
pub(crate) fn damage(vfs: &dyn Vfs, path: &Path, random: &mut Rng) {
    let file = vfs.open(path, FileOptions::WRITE).unwrap();
    let len = file.metadata().unwrap().size;
    if len > 0 {
        let at = random.u64(..len);
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1 << random.u32(..8)], at).unwrap();
    }
}

/// Does something at random to a mailbox or its index.
fn step(arena: &mut Arena, random: &mut Rng) -> String {
    let mut mailbox = open(arena, &|_| {});
    let uids = mailbox.uids().unwrap();
    let some = |random: &mut Rng, uids: &[u32]| -> Vec<u32> {
        uids.iter().copied().filter(|_| random.u8(..8) == 0).collect()
    };
    match random.u8(..9) {
        0 | 1 => {
            arena.deliver(random.u64(1..30));
            "deliver".to_owned()
        }
        2 => {
            let uids = some(random, &uids);
            mailbox.change(&flag(&uids, &add(Flag::Flagged)), &now()).unwrap();
            format!("flag {uids:?}")
        }
        3 => {
            let uids = some(random, &uids);
            mailbox.change(&expunge(&uids), &now()).unwrap();
            format!("expunge {uids:?}")
        }
        4..=6 => {
            let limit = random.u32(1..40);
            mailbox.view().index_texts(up_to(limit)).unwrap();
            format!("index {limit}")
        }
        7 => {
            let files = index_files(arena);
            if files.is_empty() {
                return "nothing".to_owned();
            }
            let path = &files[random.usize(..files.len())];
            match random.u8(..4) {
                0 => arena.vfs.remove_file(path).unwrap(),
                _ => damage(&*arena.vfs, path, random),
            }
            format!("damage {}", path.display())
        }
        _ => {
            // Without the ledger and the cache, messages get other UIDs in some formats.
            for folder in ["cache", "state"] {
                remove_files(&*arena.vfs, &arena.root.join(folder), folder == "state");
            }
            "renumber".to_owned()
        }
    }
}

/// Removes the files of a folder: all of them, or all but the index.
pub(crate) fn remove_files(vfs: &dyn Vfs, folder: &Path, all: bool) {
    let Ok(dir) = vfs.open_dir(folder) else { return };
    let mut names = Vec::new();
    dir.list(&mut |name, _| names.push(String::from_utf8_lossy(name).into_owned())).unwrap();
    for name in names.iter().filter(|name| all || !name.contains(".text")) {
        let _ = vfs.remove_file(&folder.join(name));
    }
}

#[test]
fn an_index_is_right_after_any_history() {
    let mut telling = 0;
    for (format, seed) in [("maildir", 1), ("mboxrd", 2), ("mboxcl2", 3)] {
        for round in 0..4 {
            let mut arena = Arena::in_memory(format, seed);
            let mut random = Rng::with_seed(seed * 100 + round);
            arena.deliver(60);
            open(&arena, &|_| {}).view().index_texts(IndexAmount::All).unwrap();
            for number in 0..12 {
                let done = step(&mut arena, &mut random);
                let what = format!("{format} {round} {number}: {done}");
                telling += compare(&arena, 12, number, &what);
            }
        }
    }
    assert!(telling > 300, "{telling}");
}

#[test]
fn many_small_segments_become_one() {
    let mut arena = Arena::in_memory("maildir", 3);
    for _ in 0..20 {
        arena.deliver(10);
        open(&arena, &|_| {}).view().index_texts(IndexAmount::All).unwrap();
    }
    let mut mailbox = open(&arena, &|_| {});
    let status = mailbox.view().index_status().unwrap().unwrap();
    assert_eq!((status.covered, status.messages), (200, 200));
    assert!(status.segments <= 9, "{status:?}");
    assert_eq!(index_files(&arena).len(), status.segments as usize + 1);
    compare(&arena, 60, 4, "merged");
    // Expunged messages are dropped by the next merge.
    let uids = mailbox.uids().unwrap();
    mailbox.change(&expunge(&uids[..150]), &now()).unwrap();
    for _ in 0..10 {
        arena.deliver(1);
        open(&arena, &|_| {}).view().index_texts(IndexAmount::All).unwrap();
    }
    let after = open(&arena, &|_| {}).view().index_status().unwrap().unwrap();
    assert_eq!((after.covered, after.messages), (60, 60));
    assert!(after.bytes < status.bytes, "{after:?}");
    compare(&arena, 60, 5, "merged again");
}

#[test]
fn damage_anywhere_only_costs_time() {
    let mut arena = Arena::in_memory("mboxrd", 4);
    arena.deliver(80);
    open(&arena, &|_| {}).view().index_texts(IndexAmount::All).unwrap();
    let mut random = Rng::with_seed(6);
    // The first search keeps which rows the index covers.
    compare(&arena, 3, 5, "whole");
    let files = index_files(&arena);
    assert!(files.iter().any(|path| path.to_string_lossy().ends_with(".text-rows")));
    let whole: Vec<Vec<u8>> =
        files.iter().map(|path| arena.vfs.read(path, u64::MAX).unwrap()).collect();
    let mut pair = Pair::new(&|adjust| open(&arena, adjust), 7);
    for round in 0..500 {
        let at = random.usize(..files.len());
        damage(&*arena.vfs, &files[at], &mut random);
        pair.compare(3, &format!("damage {round}"));
        let file = arena.vfs.open(&files[at], FileOptions::WRITE).unwrap();
        file.write_all_at(&whole[at], 0).unwrap();
    }
}

#[test]
fn an_interrupted_build_loses_nothing() {
    let disk = memory();
    let mut arena = Arena::new(Arc::new(disk.clone()), Path::new("/"), "mboxrd", 5);
    arena.deliver(40);
    drop(arena.open());
    let mut interrupted = 0;
    for point in 0.. {
        let fault = Fault::nth(point).of(CallKind::Write).forever();
        let faulty = Arc::new(FaultVfs::new(disk.clone(), fault));
        let on_fault = arena.on(faulty.clone());
        let result = on_fault.open().view().index_texts(IndexAmount::All);
        if !faulty.fired() {
            assert_eq!(result.unwrap().added, 0);
            break;
        }
        interrupted += 1;
        compare(&arena, 6, point, &format!("interrupted at write {point}"));
        // Some is there already, so that other writes are reached.
        if point % 3 == 2 {
            open(&arena, &|_| {}).view().index_texts(up_to(5)).unwrap();
        }
    }
    assert!(interrupted > 5, "{interrupted}");
    let status = open(&arena, &|_| {}).view().index_status().unwrap().unwrap();
    assert_eq!(status.covered, 40);
}

#[test]
fn two_builders_do_not_meet() {
    let mut arena = Arena::in_memory("maildir", 6);
    arena.deliver(30);
    let (one, other) = (open(&arena, &|_| {}), open(&arena, &|_| {}));
    let added: u32 = std::thread::scope(|scope| {
        let build =
            |mailbox: &'_ Mailbox| mailbox.view().index_texts(IndexAmount::All).unwrap().added;
        let builders = [&one, &other].map(|mailbox| scope.spawn(move || build(mailbox)));
        builders.map(|builder| builder.join().unwrap()).into_iter().sum()
    });
    let status = one.view().index_status().unwrap().unwrap();
    assert_eq!((added, status.covered, status.segments), (30, 30, 1));
    assert_eq!(index_files(&arena).len(), 2);
}

#[test]
fn a_search_adds_the_messages_that_it_had_to_read() {
    let mut arena = Arena::in_memory("mboxrd", 8);
    arena.deliver(60);
    open(&arena, &|_| {}).view().index_texts(IndexAmount::All).unwrap();
    let program = parse_imap(b"BODY the").unwrap().program;
    let covered_after = |arena: &mut Arena, delivered| {
        arena.deliver(delivered);
        let mailbox = open(arena, &|_| {});
        found(&mailbox, &program);
        mailbox.view().index_status().unwrap().unwrap().covered
    };
    assert_eq!(covered_after(&mut arena, 20), 60);
    assert_eq!(covered_after(&mut arena, 280), 360);
}

#[test]
fn removing_an_index_frees_its_files() {
    let mut arena = Arena::in_memory("maildir", 7);
    arena.deliver(30);
    let mailbox = open(&arena, &|_| {});
    mailbox.view().index_texts(IndexAmount::All).unwrap();
    assert!(mailbox.view().remove_index().unwrap().unwrap() > 1_000);
    assert!(index_files(&arena).is_empty());
    let status = mailbox.view().index_status().unwrap().unwrap();
    assert_eq!((status.covered, status.segments), (0, 0));
    compare(&arena, 20, 8, "removed");
}
