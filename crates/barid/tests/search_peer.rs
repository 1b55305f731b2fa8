//! The same search programs, run by Dovecot and by the library.
//!
//! If they differ about a message, each key of that program is then tested alone; each of those
//! differences must be listed in `docs/deviations.md` ("Search").

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use barid::message::{
    DefectKind, HeaderScan, Profile, body_structure, crlf_size, field, fields, is_owned_field,
    parameter, parse_addresses, parse_date, parse_date_as, part_body, part_text, raw_header,
    rfc822_size,
};
use barid::query::{SearchNode, parse_imap};
use barid::{Mailbox, OpenOptions, ReadAs, Uid, UidSet};
use barid_testkit::peers::{Dovecot, Imap};
use barid_testkit::{Scratch, corpora, disk};
use fastrand::Rng;

use crate::search_programs::Matter;

/// Number of programs, unless set by the environment variable `BARID_SEARCH_PROGRAMS`.
const PROGRAMS: usize = 200;
const SEED: u64 = 9051;

struct Pair {
    imap: Imap,
    mailbox: Mailbox,
    matter: Matter,
    explained: BTreeMap<&'static str, usize>,
    unexplained: Vec<String>,
    _scratch: Scratch,
}

#[test]
fn a_mailing_list_is_searched_as_dovecot_does() {
    compare("dev-list-man", 8);
}

#[test]
fn rich_mail_is_searched_as_dovecot_does() {
    compare("dev-rich", 1);
}

#[test]
fn broken_mail_is_searched_as_dovecot_does() {
    compare("dev-torture", 1);
}

/// Compares a third of the programs on one in `step` of the messages of a corpus.
fn compare(corpus: &str, step: usize) {
    let Some(peer) = Dovecot::new() else { return };
    let Some(files) = corpora::files(corpus) else { return };
    let asked = std::env::var("BARID_SEARCH_PROGRAMS").ok().and_then(|count| count.parse().ok());
    let programs = asked.unwrap_or(PROGRAMS).div_ceil(3);
    let mut random = Rng::with_seed(SEED);
    let step = corpora::either(corpus, step, 1);
    let files: Vec<PathBuf> = files.into_iter().step_by(step).collect();
    let mut pair = Pair::new(&peer, &files, &mut random);
    let mut equal = 0;
    for _ in 0..programs {
        let program = pair.matter.program(&mut random);
        equal += usize::from(pair.is_equal(&program.text, &program.keys));
    }
    let Pair { imap, explained, unexplained, .. } = pair;
    imap.logout().unwrap();
    let differing = programs - equal;
    eprintln!("{corpus}: compared {programs}, equal {equal}, differing {differing}: {explained:?}");
    assert!(unexplained.is_empty(), "{}", unexplained.join("\n"));
    assert!(equal * 10 >= programs * 7, "too few are equal");
}

impl Pair {
    fn new(peer: &Dovecot, files: &[PathBuf], random: &mut Rng) -> Self {
        let scratch = Scratch::new("search").unwrap();
        let maildir = scratch.path().join("box");
        let mut matter = Matter::default();
        write_maildir(&maildir, files, &mut matter, random);
        let dir = |name: &str| scratch.path().join(name);
        let options = OpenOptions::new(Some(dir("cache")), dir("state"));
        let mailbox = Mailbox::open(maildir.to_str().unwrap(), &options).unwrap();
        assert_eq!(mailbox.len() as usize, files.len());
        scratch.hand_over().unwrap();
        let location = format!("maildir:{}", maildir.display());
        let mut imap = peer.imap(&location, &[]).unwrap();
        let reply = imap.command("SELECT INBOX").unwrap();
        assert_eq!(reply.number("EXISTS"), Some(mailbox.len()));
        let (explained, unexplained) = Default::default();
        Self { imap, mailbox, matter, explained, unexplained, _scratch: scratch }
    }

    fn is_equal(&mut self, program: &[u8], keys: &[Vec<u8>]) -> bool {
        let (theirs, ours) = (self.ask_peer(program), self.ask_library(program));
        if theirs == ours {
            return true;
        }
        for uid in theirs.iter().filter(|uid| !ours.contains(uid)) {
            self.explain(program, keys, *uid, "only Dovecot");
        }
        for uid in ours.iter().filter(|uid| !theirs.contains(uid)) {
            self.explain(program, keys, *uid, "only the library");
        }
        false
    }

    fn ask_peer(&mut self, program: &[u8]) -> Vec<u32> {
        let command = [b"UID SEARCH CHARSET UTF-8 ", program].concat();
        let reply = self.imap.command_bytes(&command);
        let reply = reply.unwrap_or_else(|error| panic!("{}: {error}", shown(program)));
        let answer = reply.find("SEARCH").unwrap_or_default();
        // RFC 7162 adds the highest mod-sequence.
        let numbers = answer.split(" (MODSEQ").next().unwrap_or_default();
        numbers.split_ascii_whitespace().map(|number| number.parse().unwrap()).collect()
    }

    fn ask_library(&mut self, program: &[u8]) -> Vec<u32> {
        let request = parse_imap(program).unwrap_or_else(|e| panic!("{}: {e}", shown(program)));
        let found = self.mailbox.search(&request.program, &UidSet::new()).unwrap();
        assert!(found.unreadable.is_empty());
        found.rows.iter().map(|row| self.mailbox.uid_of(*row).unwrap().get()).collect()
    }

    /// Finds the keys that are answered differently for a message, and records the reason.
    fn explain(&mut self, program: &[u8], keys: &[Vec<u8>], uid: u32, who: &str) {
        let message = self.mailbox.read(Uid::new(uid).unwrap(), ReadAs::Message).unwrap().bytes;
        let mut names = Vec::new();
        if !self.is_itself(program, keys, uid) {
            names.push("contradicts-itself");
        }
        for key in keys {
            for not in ["", "NOT "] {
                let alone = [format!("UID {uid} {not}").as_bytes(), key].concat();
                if self.ask_peer(&alone) == self.ask_library(&alone) {
                    continue;
                }
                match name_of(key, &message) {
                    Some(name) => {
                        if !self.explained.contains_key(name) && !names.contains(&name) {
                            eprintln!("{name}: {}, {who} finds UID {uid}", shown(key));
                        }
                        names.push(name);
                    }
                    None => self.complain(key, uid, who),
                }
            }
        }
        if names.is_empty() {
            self.complain(program, uid, who);
        }
        for name in names {
            *self.explained.entry(name).or_default() += 1;
        }
    }

    /// Returns `true` if Dovecot's answer to a program follows from its answers to the keys.
    fn is_itself(&mut self, program: &[u8], keys: &[Vec<u8>], uid: u32) -> bool {
        let mut answer = |program: &[u8]| {
            let alone = [format!("UID {uid} ").as_bytes(), program].concat();
            !self.ask_peer(&alone).is_empty()
        };
        // UNSEEN is NOT SEEN.
        let mut of_keys = keys.iter().map(|key| answer(key) != key.starts_with(b"UN"));
        let mut values: Vec<bool> = Vec::new();
        for node in parse_imap(program).unwrap().program.nodes() {
            let at = |id: &u32| values[*id as usize];
            let value = match node {
                SearchNode::Key(_) => of_keys.next().unwrap(),
                SearchNode::Not(id) => !at(id),
                SearchNode::And(ids) => ids.iter().all(at),
                SearchNode::Or(ids) => ids.iter().any(at),
            };
            values.push(value);
        }
        drop(of_keys);
        answer(program) == *values.last().unwrap()
    }

    fn complain(&mut self, key: &[u8], uid: u32, who: &str) {
        let row = self.mailbox.row_of(Uid::new(uid).unwrap()).unwrap().unwrap();
        self.unexplained.push(format!("{}: {who} finds UID {uid} (row {row})", shown(key)));
    }
}

fn shown(program: &[u8]) -> String {
    String::from_utf8_lossy(program).replace("\r\n", " ")
}

/// Returns the known reason why Dovecot and the library differ about a search key and a message, if
/// there is one: a name in `docs/deviations.md`, "Search".
fn name_of(key: &[u8], message: &[u8]) -> Option<&'static str> {
    let key = shown(key);
    let mut words = key.split(' ');
    let word = words.next()?;
    let header = HeaderScan::new(message);
    let head = &message[..header.body_offset];
    let field = if word == "HEADER" { words.next()? } else { word };
    if key.contains('\u{fffd}') {
        return Some("replacement-character");
    }
    match word {
        "SENTBEFORE" | "SENTON" | "SENTSINCE" => {
            name_of_date(header.fields.date.unwrap_or_default())
        }
        "LARGER" | "SMALLER" => {
            (crlf_size(message) != rfc822_size(message)).then_some("owned-fields")
        }
        "FROM" | "TO" | "CC" | "BCC" | "SUBJECT" | "HEADER" => {
            let named: Vec<_> = fields(head)
                .filter(|found| found.name.eq_ignore_ascii_case(field.as_bytes()))
                .collect();
            match *named {
                [only] => name_of_field(word, only.body),
                [] => None,
                _ => Some("repeated-field"),
            }
        }
        "TEXT" if fields(head).any(|found| is_owned_field(found.name)) => Some("owned-fields"),
        "TEXT" | "BODY" => name_of_text(message, head),
        _ => None,
    }
}

fn name_of_date(date: &[u8]) -> Option<&'static str> {
    let Some(read) = parse_date(date) else { return Some("no-date") };
    if u32::try_from(read.unix_seconds).is_err() {
        return Some("date-beyond-32-bits");
    }
    (parse_date_as(date, Profile::Dovecot) != Some(read)).then_some("lenient-date")
}

fn name_of_field(word: &str, raw: &[u8]) -> Option<&'static str> {
    if std::str::from_utf8(raw).is_err() {
        return Some("undeclared-charset");
    }
    if matches!(word, "SUBJECT" | "HEADER") {
        return holds(raw, b"=?").then_some("encoded-word");
    }
    let is_missing = |part: &Option<Vec<u8>>| part.as_ref().is_none_or(Vec::is_empty);
    let addresses = parse_addresses(raw);
    match addresses.iter().any(|address| is_missing(&address.host) || is_missing(&address.mailbox))
    {
        true => Some("missing-address"),
        false => Some("broken-address"),
    }
}

fn name_of_text(message: &[u8], head: &[u8]) -> Option<&'static str> {
    let (root, defects) = body_structure(message);
    if defects.iter().any(|defect| defect.kind == DefectKind::BadContentType) {
        return Some("bad-content-type");
    }
    if are_boundaries_alike(message) {
        return Some("boundary-prefix");
    }
    if message.windows(11).any(|part| part.eq_ignore_ascii_case(b"boundary=\"\"")) {
        return Some("empty-boundary");
    }
    if std::str::from_utf8(head).is_err() {
        return Some("undeclared-charset");
    }
    let mut open = vec![&root];
    while let Some(part) = open.pop() {
        open.extend(&part.parts);
        if field(raw_header(message, part), b"content-transfer-encoding")
            .is_some_and(|found| found.body.is_empty())
        {
            return Some("empty-encoding");
        }
        let (bytes, broken) = part_body(message, part);
        let charset = parameter(&part.parameters, "charset").unwrap_or_default();
        let is_utf8 = ["", "us-ascii", "utf-8"].contains(&&*charset.to_ascii_lowercase());
        if is_utf8 && std::str::from_utf8(&bytes).is_err() {
            return Some("undeclared-charset");
        }
        if broken.iter().any(|defect| defect.kind != DefectKind::UnknownEncoding) {
            return Some("broken-encoding");
        }
        if !is_utf8 && !part_text(message, part).1.is_empty() {
            return Some("unknown-charset");
        }
    }
    None
}

/// Returns `true` if a boundary is a prefix of another, or equal.
fn are_boundaries_alike(message: &[u8]) -> bool {
    let text = String::from_utf8_lossy(message);
    let ends = |c: char| c == '"' || c.is_whitespace() || c == ';';
    let named = text.match_indices("boundary=").map(|(at, name)| {
        let value = text[at + name.len()..].trim_start_matches('"');
        value.split(ends).next().unwrap_or_default()
    });
    let boundaries: Vec<&str> = named.collect();
    boundaries.iter().enumerate().any(|(at, boundary)| {
        boundaries[..at].iter().any(|b| b.starts_with(boundary) || boundary.starts_with(b))
    })
}

fn holds(text: &[u8], what: &[u8]) -> bool {
    text.windows(what.len()).any(|window| window == what)
}

/// Writes messages with random flags, keywords and dates of arrival.
fn write_maildir(path: &Path, files: &[PathBuf], matter: &mut Matter, random: &mut Rng) {
    for folder in ["cur", "new", "tmp"] {
        disk::create_dir_all(&path.join(folder)).unwrap();
    }
    disk::write(&path.join("dovecot-keywords"), b"0 $Junk\n1 todo\n").unwrap();
    for (number, file) in files.iter().enumerate() {
        let bytes = disk::read(file).unwrap();
        let arrived = 1_000_000_000 + random.i64(..500_000_000);
        let flags: String = "DFRSTab".chars().filter(|_| random.u8(..3) == 0).collect();
        let name = format!("{}.M{number:06}.host:2,{flags}", 1_600_000_000 + number);
        let path = path.join("cur").join(name);
        disk::write(&path, &bytes).unwrap();
        disk::set_mtime(&disk::open_append(&path).unwrap(), arrived).unwrap();
        matter.learn(&bytes, arrived, random);
    }
}
