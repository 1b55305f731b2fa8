//! FETCH compared with Dovecot's, on real mail: every item, every part.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use barid::fetch::FetchItems;
use barid::message::{body_structure, numbered_parts};
use barid::{Mailbox, OpenOptions, Uid};
use barid_testkit::peers::Dovecot;
use barid_testkit::{Scratch, corpora, disk};

/// Items requested of every message.
const ITEMS: &str = "UID RFC822.SIZE ENVELOPE BODY BODYSTRUCTURE BODY.PEEK[] BODY.PEEK[HEADER] \
    BODY.PEEK[TEXT] BODY.PEEK[HEADER.FIELDS (SUBJECT X-LOOP RECEIVED)] \
    BODY.PEEK[HEADER.FIELDS.NOT (RECEIVED TO)] BODY.PEEK[]<10.100> BODY.PEEK[TEXT]<5.7>";

/// A word of an answer.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Token {
    Open,
    Close,
    Atom(String),
    Text(Vec<u8>),
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Open => f.write_str("("),
            Self::Close => f.write_str(")"),
            Self::Atom(atom) => f.write_str(atom),
            Self::Text(text) => write!(f, "{:?}", String::from_utf8_lossy(text)),
        }
    }
}

/// Reads the words of one answer; literals and quoted strings are equivalent. Returns the offset of
/// its end.
pub(crate) fn tokens(answer: &[u8]) -> (Vec<Token>, usize) {
    let (mut tokens, mut at, mut depth) = (Vec::new(), 0, 0);
    while at < answer.len() {
        match answer[at] {
            b' ' => at += 1,
            b'\r' if depth == 0 => return (tokens, at + 2),
            b'(' => {
                tokens.push(Token::Open);
                depth += 1;
                at += 1;
            }
            b')' => {
                tokens.push(Token::Close);
                depth -= 1;
                at += 1;
            }
            b'"' => {
                let mut text = Vec::new();
                at += 1;
                while answer[at] != b'"' {
                    at += usize::from(answer[at] == b'\\');
                    text.push(answer[at]);
                    at += 1;
                }
                at += 1;
                tokens.push(Token::Text(text));
            }
            b'{' | b'~' => {
                let open = at + usize::from(answer[at] == b'~');
                let close = open + answer[open..].iter().position(|byte| *byte == b'}').unwrap();
                let len = std::str::from_utf8(&answer[open + 1..close]).unwrap();
                let start = close + 3;
                let end = start + len.parse::<usize>().unwrap();
                tokens.push(Token::Text(answer[start..end].to_vec()));
                at = end;
            }
            _ => {
                let (start, mut inside) = (at, false);
                while let Some(byte) = answer.get(at) {
                    let is_end = matches!(byte, b' ' | b'(' | b')' | b'\r');
                    if is_end && !inside {
                        break;
                    }
                    inside = (inside || *byte == b'[') && *byte != b']';
                    at += 1;
                }
                tokens.push(Token::Atom(String::from_utf8_lossy(&answer[start..at]).into_owned()));
            }
        }
    }
    (tokens, at)
}

/// Returns the items of one answer by their names, and its sequence number.
pub(crate) fn items(tokens: &[Token]) -> Option<(u32, BTreeMap<String, Vec<Token>>)> {
    let is_fetch = |token: &Token| match token {
        Token::Atom(atom) => atom.eq_ignore_ascii_case("FETCH"),
        _ => false,
    };
    let start = tokens.iter().position(is_fetch)?;
    let Token::Atom(number) = &tokens[start - 1] else { return None };
    let mut items = BTreeMap::new();
    let mut rest = &tokens[start + 2..tokens.len() - 1];
    while let [Token::Atom(name), after @ ..] = rest {
        let (mut depth, mut len) = (0_i32, 0);
        loop {
            match &after[len] {
                Token::Open => depth += 1,
                Token::Close => depth -= 1,
                _ => {}
            }
            len += 1;
            if depth == 0 {
                break;
            }
        }
        items.insert(name.clone(), after[..len].to_vec());
        rest = &after[len..];
    }
    Some((number.parse().ok()?, items))
}

/// Returns the answers that our fetch writes.
pub(crate) fn fetch(mailbox: &mut Mailbox, uids: &[Uid], wanted: &str) -> Vec<Vec<Token>> {
    let wanted = FetchItems::parse(wanted).unwrap();
    let mut all = Vec::new();
    let report = mailbox
        .fetch(uids, &wanted, &|fetched, out| fetched.write_imap(out), &mut |bytes| {
            all.extend_from_slice(bytes);
            true
        })
        .unwrap();
    assert_eq!(report.fetched, uids.len() as u64);
    let (mut answers, mut at) = (Vec::new(), 0);
    while at < all.len() {
        let (answer, len) = tokens(&all[at..]);
        answers.push(answer);
        at += len;
    }
    answers
}

/// Counts equal answers, and stores the others.
#[derive(Default)]
struct Tally {
    compared: u64,
    equal: u64,
    explained: BTreeMap<&'static str, u64>,
    different: Vec<String>,
}

impl Tally {
    fn add(
        &mut self,
        ours: &[Token],
        theirs: &[Token],
        message: &[u8],
        sources: &dyn Fn() -> String,
    ) {
        let (Some((number, ours)), Some((other, all))) = (items(ours), items(theirs)) else {
            self.different.push("no answer".to_owned());
            return;
        };
        assert_eq!(number, other);
        for (name, ours) in &ours {
            self.compared += 1;
            let Some(theirs) = all.get(name) else {
                self.different.push(format!("{}: {name}: Dovecot says nothing", sources()));
                continue;
            };
            let length_of =
                |name: &str| match all.get(&name.replace(".SIZE", "")).map(Vec::as_slice) {
                    Some([Token::Text(text)]) => Some([Token::Atom(text.len().to_string())]),
                    _ => None,
                };
            if ours == theirs {
                self.equal += 1;
            } else if name.starts_with("BINARY.SIZE")
                && length_of(name).is_some_and(|length| length == ours[..])
            {
                *self.explained.entry("BINARY.SIZE is the length of BINARY").or_default() += 1;
            } else if let Some(why) = explain(name, ours, theirs, message) {
                *self.explained.entry(why).or_default() += 1;
            } else {
                let (a, b) = (format!("{ours:?}"), format!("{theirs:?}"));
                let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
                let from = |text: &str| -> String {
                    let bytes = &text.as_bytes()[same.saturating_sub(60).min(text.len())..];
                    String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned()
                };
                let text =
                    format!("{}: {name}\n  ours   {}\n  theirs {}", sources(), from(&a), from(&b));
                self.different.push(text);
            }
        }
    }
}

/// Returns the known reason why an answer differs from Dovecot's, if there is one
/// (`docs/deviations.md`, "FETCH").
fn explain(name: &str, ours: &[Token], theirs: &[Token], message: &[u8]) -> Option<&'static str> {
    let is_text =
        matches!(ours, [Token::Open, Token::Text(kind), ..] if kind.eq_ignore_ascii_case(b"text"));
    if name.starts_with("BODY") && is_text && mapped(ours, lower) == mapped(theirs, lower) {
        return Some("plain text in us-ascii keeps its case");
    }
    let with_line_end = |short: &[Token], long: &[Token]| match (short, long) {
        ([Token::Text(short)], [Token::Text(long)]) => {
            long.strip_suffix(b"\r\n").is_some_and(|rest| rest == short)
        }
        _ => false,
    };
    if name.starts_with("BODY[") && with_line_end(ours, theirs) {
        return Some("the line end before a boundary is the boundary's");
    }
    if name.starts_with("BODY[") && with_line_end(theirs, ours) {
        return Some("a blank line right before a boundary ends a header");
    }
    if barid::message::strip_owned(message).len() != message.len() {
        return Some("fields that mailbox formats own are no part of a message");
    }
    if name == "ENVELOPE" && mapped(ours, packed) == mapped(theirs, packed) {
        return Some("white space is not packed");
    }
    if name == "ENVELOPE" && mapped(ours, domain) == mapped(theirs, domain) {
        return Some("a missing domain is empty");
    }
    if name == "ENVELOPE" && repeats_addresses(message) {
        return Some("of repeated fields the cache has the first");
    }
    if name.starts_with("BODY") && mapped(ours, lower) == mapped(theirs, lower) {
        return Some("types keep their case");
    }
    if name.starts_with("BINARY") {
        let overflows = |token: &Token| matches!(token, Token::Atom(size) if size.len() > 18);
        if theirs.iter().any(overflows) {
            return Some("a size below zero");
        }
        return holds_parts(name, message).then_some("the parts of a part are as they are");
    }
    if matches!(name, "ENVELOPE" | "BODY" | "BODYSTRUCTURE")
        && mapped(ours, packed) == mapped(theirs, packed)
    {
        return Some("white space is not packed");
    }
    if matches!(name, "BODY" | "BODYSTRUCTURE") && mapped(ours, word) == mapped(theirs, word) {
        return Some("a value with spaces needs no quotes");
    }
    None
}

/// Returns `true` if the part of an item is a multipart or a message.
fn holds_parts(name: &str, message: &[u8]) -> bool {
    let number = name.split(['[', ']']).nth(1).unwrap_or_default();
    let (structure, _) = body_structure(message);
    let parts = numbered_parts(&structure);
    let part = parts.iter().find(|part| part.number == number).map(|numbered| numbered.part);
    part.is_some_and(|part| !part.parts.is_empty())
}

pub(crate) fn domain(text: &[u8]) -> Vec<u8> {
    if matches!(text, b"MISSING_DOMAIN" | b"MISSING_MAILBOX") { Vec::new() } else { packed(text) }
}

fn repeats_addresses(message: &[u8]) -> bool {
    let names = ["from", "sender", "reply-to", "to", "cc", "bcc", "message-id"];
    names.iter().any(|name| {
        let named =
            |field: &barid::message::RawField<'_>| field.name.eq_ignore_ascii_case(name.as_bytes());
        barid::message::fields(message).filter(named).count() > 1
    })
}

fn word(text: &[u8]) -> Vec<u8> {
    text.split(u8::is_ascii_whitespace).next().unwrap_or_default().to_vec()
}

pub(crate) fn mapped(tokens: &[Token], map: fn(&[u8]) -> Vec<u8>) -> Vec<Token> {
    let map = |token: &Token| match token {
        Token::Text(text) => Token::Text(map(text)),
        token => token.clone(),
    };
    tokens.iter().map(map).collect()
}

fn lower(text: &[u8]) -> Vec<u8> {
    text.to_ascii_lowercase()
}

fn packed(text: &[u8]) -> Vec<u8> {
    let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(&b' ')
}

/// Returns the step between compared messages of a corpus, and the minimum of items compared.
fn bounds(corpus: &str, step: usize, compared_min: u64) -> (usize, u64) {
    let own = (step.div_ceil(4), compared_min / 10);
    let (step, compared_min) = corpora::either(corpus, (step, compared_min), own);
    let is_all = std::env::var_os("BARID_FETCH_ALL").is_some();
    (if is_all { 1 } else { step }, compared_min)
}

/// Makes a Maildir of read messages in the scratch folder, which others may open.
pub(crate) fn maildir_of<'m>(
    scratch: &Scratch,
    messages: impl IntoIterator<Item = &'m [u8]>,
) -> PathBuf {
    let maildir = scratch.path().join("box");
    for folder in ["cur", "new", "tmp"] {
        disk::create_dir_all(&maildir.join(folder)).unwrap();
    }
    for (number, message) in messages.into_iter().enumerate() {
        let name = format!("{}.M1P1.host:2,S", 1_000_000_000 + number);
        disk::write(&maildir.join("cur").join(name), message).unwrap();
    }
    scratch.hand_over().unwrap();
    maildir
}

/// Compares all messages of a corpus, or every `step`th one of a large corpus. At least
/// `compared_min` items must be compared, or a tenth of that in a small corpus of our own. For
/// messages with a broken structure, `different_max` answers may differ for unknown reasons.
fn compare(corpus: &str, step: usize, compared_min: u64, different_max: u64) {
    let (Some(files), Some(dovecot)) = (corpora::files(corpus), Dovecot::new()) else { return };
    let scratch = Scratch::new("fetch").unwrap();
    let (step, compared_min) = bounds(corpus, step, compared_min);
    let files: Vec<_> = files.into_iter().step_by(step).collect();
    let messages: Vec<Vec<u8>> = files.iter().map(|file| corpora::read(file).unwrap()).collect();
    let maildir = maildir_of(&scratch, messages.iter().map(Vec::as_slice));
    let options = OpenOptions::new(None, scratch.path().join("state"));
    let mut mailbox = Mailbox::open(&maildir.to_string_lossy(), &options).unwrap();
    let uids: Vec<Uid> = mailbox.uids().unwrap().into_iter().filter_map(Uid::new).collect();
    assert_eq!(uids.len(), files.len());
    let mut imap = dovecot.imap(&dovecot.maildir_location(&maildir), &[]).unwrap();
    imap.command("EXAMINE INBOX").unwrap();
    let mut tally = Tally::default();
    for (chunk, uids) in uids.chunks(200).enumerate() {
        let first = chunk * 200;
        let theirs = imap.command(&format!("FETCH {}:{} ({ITEMS})", first + 1, first + uids.len()));
        let theirs: Vec<_> = theirs.unwrap().untagged.iter().map(|line| tokens(line).0).collect();
        let theirs: Vec<_> = theirs.into_iter().filter(|answer| items(answer).is_some()).collect();
        let ours = fetch(&mut mailbox, uids, ITEMS);
        assert_eq!(ours.len(), theirs.len());
        for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            let source = || name_of(&files[first + at]);
            tally.add(ours, theirs, &messages[first + at], &source);
        }
    }
    for (at, message) in messages.iter().enumerate() {
        let wanted = parts_wanted(message);
        let mut wanted = wanted;
        let mut reply = imap.command(&format!("FETCH {} ({wanted})", at + 1));
        if reply.is_err() {
            // // Dovecot decodes no broken part, and may have exited.
            *tally.explained.entry("a broken part is decoded as far as can be").or_default() += 1;
            let words: Vec<&str> =
                wanted.split(" B").filter(|word| !word.starts_with("INARY")).collect();
            wanted = words.join(" B");
            imap = dovecot.imap(&dovecot.maildir_location(&maildir), &[]).unwrap();
            imap.command("EXAMINE INBOX").unwrap();
            reply = imap.command(&format!("FETCH {} ({wanted})", at + 1));
        }
        let theirs = reply.unwrap();
        let theirs = theirs.untagged.iter().map(|line| tokens(line).0);
        let theirs = theirs.into_iter().find(|answer| items(answer).is_some()).unwrap_or_default();
        let ours = fetch(&mut mailbox, &uids[at..=at], &wanted);
        tally.add(&ours[0], &theirs, message, &|| name_of(&files[at]));
    }
    eprintln!(
        "{corpus}: {} messages, {} items compared, {} equal, explained: {:?}, different: {}",
        files.len(),
        tally.compared,
        tally.equal,
        tally.explained,
        tally.different.len()
    );
    for text in tally.different.iter().take(150) {
        eprintln!("{}", text.chars().take(700).collect::<String>());
    }
    assert!(tally.compared >= compared_min && tally.different.len() as u64 <= different_max);
}

fn name_of(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// /// Compares every part of a message, in every way.
fn parts_wanted(message: &[u8]) -> String {
    let (structure, _) = body_structure(message);
    let mut wanted = vec!["BODY.PEEK[1]".to_owned(), "BODY.PEEK[99]".to_owned()];
    for numbered in numbered_parts(&structure).iter().take(40) {
        let number = &numbered.number;
        if number.is_empty() || number.contains("TEXT") {
            continue;
        }
        wanted.push(format!("BODY.PEEK[{number}]"));
        wanted.push(format!("BODY.PEEK[{number}.MIME]"));
        wanted.push(format!("BINARY.PEEK[{number}]"));
        wanted.push(format!("BINARY.SIZE[{number}]"));
        if numbered.part.envelope.is_some() {
            wanted.push(format!("BODY.PEEK[{number}.HEADER]"));
            wanted.push(format!("BODY.PEEK[{number}.TEXT]"));
            wanted.push(format!("BODY.PEEK[{number}.HEADER.FIELDS (TO SUBJECT)]"));
        }
    }
    wanted.dedup();
    wanted.join(" ")
}

#[test]
fn what_moved_is_fetched_and_what_went_is_told() {
    let scratch = Scratch::new("fetch-moved").unwrap();
    let maildir = scratch.path().join("box");
    for folder in ["cur", "new", "tmp"] {
        disk::create_dir_all(&maildir.join(folder)).unwrap();
    }
    let path = |name: &str| maildir.join("cur").join(name);
    for number in 1..=3 {
        let text = format!("Subject: {number}\n\nbody\n");
        disk::write(&path(&format!("{number}.h:2,")), text.as_bytes()).unwrap();
    }
    let options = OpenOptions::new(None, scratch.path().join("state"));
    let mut mailbox = Mailbox::open(&maildir.to_string_lossy(), &options).unwrap();
    disk::rename(&path("2.h:2,"), &path("2.h:2,S")).unwrap();
    disk::remove_file(&path("3.h:2,")).unwrap();
    let uids: Vec<Uid> = (1..=4).filter_map(Uid::new).collect();
    let items = FetchItems::parse("UID FLAGS BODY[HEADER.FIELDS (SUBJECT)]").unwrap();
    let mut out = Vec::new();
    let report = mailbox
        .fetch(&uids, &items, &|fetched, out| fetched.write_imap(out), &mut |bytes| {
            out.extend_from_slice(bytes);
            true
        })
        .unwrap();
    let expected = "* 1 FETCH (UID 1 FLAGS () BODY[HEADER.FIELDS (SUBJECT)] {14}\r\nSubject: 1\r\n\r\n)\r\n\
        * 2 FETCH (UID 2 FLAGS () BODY[HEADER.FIELDS (SUBJECT)] {14}\r\nSubject: 2\r\n\r\n)\r\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
    assert_eq!((report.fetched, report.gone), (2, uids[2..].to_vec()));
    assert!(report.unreadable.is_empty());
}

#[test]
fn torture() {
    compare("torture", 1, 20_000, 102);
}

#[test]
fn usrp_users() {
    compare("usrp-users/msgs", 1, 10_000, 0);
}

#[test]
fn linux_man() {
    compare("linux-man/msgs", 40, 5_000, 0);
}
