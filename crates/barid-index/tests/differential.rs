//! Segments beside a plain search in the same texts.

use std::path::Path;

use barid_index::{Answer, AttachmentTexts, Builder, Doc, Merged, Segment, merge};
use barid_query::search::{TextKind, TextScope};
use barid_vfs::MemVfs;
use memchr::memmem;

/// A message: texts of all kinds.
type Message = Vec<(TextKind, Vec<u8>)>;

const WORDS: [&str; 22] = [
    "A",
    "B",
    "AB",
    "THE",
    "QUICK",
    "BROWN",
    "FOX",
    "FOXES",
    "LINUX",
    "X86",
    "2026",
    "GRU\u{308}N",
    "\u{4e2d}",
    "\u{4e2d}\u{6587}",
    "\u{43c}\u{438}\u{440}",
    "KERNEL",
    "ORG",
    "COM",
    "BROWNFOX",
    "INGS",
    "I",
    "Z9",
];
/// Kinds of a sparse mailbox, in which kinds have nothing but shared terms.
const SPARSE: [TextKind; 3] = [TextKind::Subject, TextKind::To, TextKind::Cc];
const SEPARATORS: [&str; 12] =
    [" ", " ", " ", "-", ".", "@", "\n", ", ", "\r\n", "\n> ", "      ", "->"];

fn word(random: &mut fastrand::Rng, out: &mut String) {
    match random.u32(0..40) {
        0 => (0..random.usize(1..20)).for_each(|_| out.push_str("0123456789ABCDEF")),
        1 => (0..random.usize(1..30)).for_each(|_| out.push_str("\u{4e2d}\u{6587}\u{5b57}")),
        2 => out.push_str("\u{4e2d}\u{6587}LINUX\u{5b57}\u{4e2d}\u{6587}\u{5b57}\u{4e2d}\u{6587}"),
        3 => out.push_str(&format!("{:X}", random.u64(..))),
        4 => (0..random.usize(30..80)).for_each(|_| out.push(random.char('A'..='C'))),
        _ => out.push_str(WORDS[random.usize(..WORDS.len())]),
    }
}

fn text(random: &mut fastrand::Rng, words: usize) -> String {
    let mut out = String::new();
    for _ in 0..random.usize(0..=words) {
        word(random, &mut out);
        out.push_str(SEPARATORS[random.usize(..SEPARATORS.len())]);
    }
    out
}

fn messages(random: &mut fastrand::Rng, count: usize) -> Vec<Message> {
    let message = |random: &mut fastrand::Rng| {
        let texts = random.usize(0..6);
        let kind = |random: &mut fastrand::Rng| TextKind::ALL[random.usize(..TextKind::ALL.len())];
        let of_kind = |random: &mut fastrand::Rng| {
            let kind = kind(random);
            let text = text(random, 12);
            // A header field is on one line.
            let is_line = matches!(kind, TextKind::Header | TextKind::OpaqueHeader);
            let text = if is_line { text.replace(['\r', '\n'], " ") + "\n" } else { text };
            (kind, text.into_bytes())
        };
        (0..texts).map(|_| of_kind(random)).collect()
    };
    (0..count).map(|_| message(random)).collect()
}

/// Returns a part of a text, or something else.
fn needle(random: &mut fastrand::Rng, messages: &[Message]) -> Vec<u8> {
    let texts = &messages[random.usize(..messages.len())];
    if texts.is_empty() || random.u32(0..8) == 0 {
        let text = text(random, 2);
        return text.replace("\r\n", "\n").into_bytes();
    }
    let text = String::from_utf8(texts[random.usize(..texts.len())].1.clone()).unwrap();
    let chars: Vec<char> = text.replace("\r\n", "\n").chars().collect();
    let (one, other) = (random.usize(..=chars.len()), random.usize(..=chars.len()));
    let (start, end) = (one.min(other), one.max(other));
    let len = [2, 6, 40, 300][random.usize(..4)];
    chars[start..end.min(start + len)].iter().collect::<String>().into_bytes()
}

/// Returns `true` if a message matches, by a plain search.
fn matches(message: &Message, scope: TextScope, needle: &[u8]) -> bool {
    let has = |kinds: &[TextKind]| {
        let texts = message.iter().filter(|(kind, _)| kinds.contains(kind));
        texts.into_iter().any(|(_, text)| {
            let text = String::from_utf8(text.clone()).unwrap().replace("\r\n", "\n");
            memmem::find(text.as_bytes(), needle).is_some()
        })
    };
    // The header as a whole, in which a text with a line end can be.
    let header: Vec<u8> = message
        .iter()
        .filter(|(kind, _)| matches!(kind, TextKind::Header | TextKind::OpaqueHeader))
        .flat_map(|(_, text)| text.clone())
        .collect();
    match scope {
        TextScope::Kind(kind) => has(&[kind]),
        TextScope::Message => has(&[TextKind::Body]) || memmem::find(&header, needle).is_some(),
    }
}

fn build(messages: &[Message]) -> (MemVfs, Segment) {
    let vfs = MemVfs::new();
    let mut builder = Builder::default();
    for (number, message) in messages.iter().enumerate() {
        builder.begin(number as u64);
        message.iter().for_each(|(kind, text)| builder.add(*kind, text));
        builder.end(false, AttachmentTexts::None);
    }
    builder.write(&vfs, Path::new("/segment"), 7).unwrap();
    let segment = Segment::open(&vfs, Path::new("/segment")).unwrap().unwrap();
    (vfs, segment)
}

fn scope(random: &mut fastrand::Rng) -> TextScope {
    let kind = TextKind::ALL[random.usize(..TextKind::ALL.len())];
    match random.u32(0..3) {
        0 => TextScope::Kind(kind),
        1 => TextScope::Kind(TextKind::Body),
        _ => TextScope::Message,
    }
}

#[test]
fn nothing_is_missed_and_what_is_certain_is_true() {
    let mut random = fastrand::Rng::with_seed(17);
    let (mut candidates, mut found, mut sure) = (0, 0, 0);
    for round in 0..40 {
        let count = [1, 10, 100, 400][round % 4];
        let messages = messages(&mut random, count);
        let (_vfs, segment) = build(&messages);
        assert_eq!(segment.docs().unwrap().unwrap().len(), count);
        for _ in 0..200 {
            let (scope, needle) = (scope(&mut random), needle(&mut random, &messages));
            let Answer { certain, possible } = segment.find(scope, &needle).unwrap().unwrap();
            for (doc, message) in messages.iter().enumerate() {
                let (doc, is_match) = (doc as u32, matches(message, scope, &needle));
                let told =
                    || format!("{scope:?} {:?}: {message:?}", String::from_utf8_lossy(&needle));
                assert!(!is_match || possible.contains(doc), "missed {}", told());
                assert!(is_match || !certain.contains(doc), "not there {}", told());
                assert!(!certain.contains(doc) || possible.contains(doc));
                found += u32::from(is_match);
            }
            candidates += possible.count();
            sure += certain.count();
        }
    }
    println!("{found} matches, {candidates} candidates, {sure} certain");
    assert!(found > 100_000 && candidates < found * 3 && sure > 10_000);
}

#[test]
fn a_damaged_segment_is_found_out() {
    let mut random = fastrand::Rng::with_seed(18);
    let messages = messages(&mut random, 60);
    let (vfs, segment) = build(&messages);
    let path = Path::new("/segment");
    let len = segment.bytes();
    drop(segment);
    let (mut whole, mut refused) = (0, 0);
    for at in 0..len {
        let file = barid_vfs::Vfs::open(&vfs, path, barid_vfs::OpenOptions::WRITE).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1 << random.u32(..8)], at).unwrap();
        if let Some(segment) = Segment::open(&vfs, path).unwrap() {
            let needle = needle(&mut random, &messages);
            for scope in [TextScope::Message, TextScope::Kind(TextKind::Subject)] {
                // What is read is whole: the same answer as before.
                match segment.find(scope, &needle).unwrap() {
                    Some(answer) => {
                        whole += 1;
                        for (doc, message) in messages.iter().enumerate() {
                            let is_match = matches(message, scope, &needle);
                            assert!(!is_match || answer.possible.contains(doc as u32));
                        }
                    }
                    None => refused += 1,
                }
            }
        } else {
            refused += 1;
        }
        file.write_all_at(&byte, at).unwrap();
    }
    assert!(whole > 100 && refused > 100, "{whole} {refused}");
}

#[test]
fn a_message_of_too_many_terms_is_a_candidate() {
    let vfs = MemVfs::new();
    let mut builder = Builder::default();
    let mut long = String::new();
    (0..2_000_000).for_each(|number| long.push_str(&format!("{number:X} ")));
    builder.begin(1);
    builder.add(TextKind::Body, long.as_bytes());
    builder.end(false, AttachmentTexts::None);
    builder.begin(2);
    builder.add(TextKind::Body, b"B");
    builder.add(TextKind::Body, "F".repeat(10_000_000).as_bytes());
    builder.end(false, AttachmentTexts::None);
    builder.write(&vfs, Path::new("/segment"), 7).unwrap();
    let segment = Segment::open(&vfs, Path::new("/segment")).unwrap().unwrap();
    let docs = segment.docs().unwrap().unwrap();
    assert!(docs[0].is_open && !docs[1].is_open);
    assert!(segment.bytes() < 8 << 20);
}

#[test]
fn an_attachment_of_too_many_terms_leaves_the_message_covered() {
    let vfs = MemVfs::new();
    let mut builder = Builder::default();
    let mut long = String::new();
    (0..2_000_000).for_each(|number| long.push_str(&format!("{number:X} ")));
    for text in [&*long, "SHORT"] {
        builder.begin(1);
        builder.add(TextKind::Body, b"B");
        builder.add_attachment(text.as_bytes());
        builder.end(false, AttachmentTexts::There { is_open: false, has_unread: true });
    }
    builder.write(&vfs, Path::new("/segment"), 7).unwrap();
    let segment = Segment::open(&vfs, Path::new("/segment")).unwrap().unwrap();
    let docs = segment.docs().unwrap().unwrap();
    let there = |is_open| AttachmentTexts::There { is_open, has_unread: true };
    assert_eq!(docs.iter().map(|doc| doc.is_open).collect::<Vec<_>>(), [false, false]);
    let attachments: Vec<_> = docs.iter().map(|doc| doc.attachments).collect();
    assert_eq!(attachments, [there(true), there(false)]);
    assert_eq!(segment.reader(), 7);
}

#[test]
fn merged_segments_answer_as_one() {
    let mut random = fastrand::Rng::with_seed(19);
    for round in 0..12 {
        let parts: Vec<Vec<Message>> =
            (0..5).map(|_| messages(&mut random, 1 + 30 * (round % 4))).collect();
        let built: Vec<(MemVfs, Segment)> = parts.iter().map(|part| build(part)).collect();
        // The documents of all in turn, without every seventh.
        let (mut all, mut docs) = (Vec::new(), Vec::new());
        let mut merged: Vec<Merged<'_>> = built
            .iter()
            .map(|(_, segment)| Merged { segment, docs: vec![None; segment.len() as usize] })
            .collect();
        for doc in 0..parts[0].len() {
            for part in 0..parts.len() {
                if (doc + part) % 7 != 3 {
                    merged[part].docs[doc] = Some(all.len() as u32);
                    let has_unread = doc % 3 == 0;
                    let there = AttachmentTexts::There { is_open: false, has_unread };
                    let attachments =
                        [AttachmentTexts::None, AttachmentTexts::Missing, there][doc % 3];
                    let digest = all.len() as u64;
                    docs.push(Doc { digest, is_open: false, has_more: doc % 2 == 0, attachments });
                    all.push(parts[part][doc].clone());
                }
            }
        }
        let vfs = MemVfs::new();
        merge(&vfs, Path::new("/merged"), &merged, &docs, 9).unwrap().unwrap();
        let segment = Segment::open(&vfs, Path::new("/merged")).unwrap().unwrap();
        let (_vfs, whole) = build(&all);
        assert_eq!((segment.docs().unwrap().unwrap(), segment.reader()), (docs, 9));
        for _ in 0..100 {
            let (scope, needle) = (scope(&mut random), needle(&mut random, &all));
            let (one, other) = (segment.find(scope, &needle), whole.find(scope, &needle));
            let (one, other) = (one.unwrap().unwrap(), other.unwrap().unwrap());
            assert_eq!((one.certain, one.possible), (other.certain, other.possible));
        }
    }
}

#[test]
fn a_kind_of_shared_terms_alone_is_found() {
    let message = |_| SPARSE.into_iter().map(|kind| (kind, b"ANN".to_vec())).collect();
    let messages: Vec<Message> = (0..3).map(message).collect();
    let (_vfs, segment) = build(&messages);
    for kind in SPARSE {
        let answer = segment.find(TextScope::Kind(kind), b"NN").unwrap().unwrap();
        assert_eq!(answer.certain.count(), 3, "{kind:?}");
    }
}
