//! imaptest's scripts for FETCH and SEARCH, replayed through the library with their golden answers.
//!
//! A script has a header, then commands and the untagged lines that must answer them; `!` begins a
//! line that must not. Messages come from the mbox beside it. `$name` stands for a value that the
//! first line with it defines. Case is ignored.

use std::collections::HashMap;
use std::path::Path;

use barid::fetch::NumberSet;
use barid::query::{SearchResult, parse_imap};
use barid::{ChangeOptions, ChangeRequest, Flag, FlagChange, Keyword, Mailbox, Uid, UidSet};
use barid_testkit::corpora;
use barid_vfs::{OpenOptions, Vfs};

use crate::fetching::{Token, fetch, items, tokens};
use crate::world::World;

const FOLDER: &str = "torture/dovecot-imaptest/raw/src/tests";
/// Tests of features outside FETCH and SEARCH over a mailbox: reporting changes, and pages of
/// results (RFC 5267). The last one has no messages, and imaptest itself calls it broken.
const LEFT_OUT: [&str; 6] = [
    "search-context-update",
    "search-context-update2",
    "search-context-update3",
    "search-partial",
    "esearch-condstore",
    "search-intdate",
];
const SCRIPTS_MIN: usize = 19;
const ANSWERS_MIN: usize = 290;

#[test]
fn scripts_of_fetch_and_search() {
    let Some(files) = corpora::files(FOLDER) else { return };
    let (mut scripts, mut answers) = (0, 0);
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy();
        let is_ours = ["fetch", "search", "esearch"].iter().any(|kind| name.starts_with(kind));
        if is_ours && file.extension().is_none() && !LEFT_OUT.contains(&&*name) {
            answers += Replay::new(&file).run();
            scripts += 1;
        }
    }
    eprintln!("imaptest: {scripts} scripts, compared {answers}, equal {answers}");
    assert!(scripts >= SCRIPTS_MIN && answers >= ANSWERS_MIN, "{scripts} {answers}");
}

struct Replay {
    mailbox: Mailbox,
    script: String,
    name: String,
    variables: HashMap<String, String>,
    answers: usize,
}

impl Replay {
    fn new(path: &Path) -> Self {
        let script = String::from_utf8(corpora::read(path).unwrap()).unwrap();
        let mbox = corpora::read(&path.with_extension("mbox"))
            .or_else(|_| corpora::read(&path.with_file_name("default.mbox")))
            .unwrap();
        let count = script.lines().find_map(|line| line.strip_prefix("messages: ")).unwrap();
        let world = World::maildir(1);
        let messages = messages(&mbox).into_iter().take(count.parse().unwrap_or(usize::MAX));
        for (number, message) in messages.enumerate() {
            let path = world.path().join(format!("new/{}.h", 1_000_000 + number));
            let file = world.memory.open(&path, OpenOptions::create_new(0o600)).unwrap();
            file.write_all_at(message, 0).unwrap();
        }
        world.wait();
        let name = path.display().to_string();
        Self { mailbox: world.open(), script, name, variables: HashMap::new(), answers: 0 }
    }

    /// Fails at the first answer that differs from the golden one. Returns the number of answers.
    fn run(mut self) -> usize {
        let script = with_literals(&self.script);
        let mut lines = script.split_inclusive("\r\n").peekable();
        while let Some(line) = lines.next() {
            let Some(command) = line.trim().strip_prefix("ok ") else { continue };
            let command = self.substituted(command);
            let ours = self.obey(&command.to_ascii_lowercase());
            let mut golden = String::new();
            while let Some(line) = lines.next_if(|line| !line.starts_with("ok ")) {
                golden.push_str(line);
            }
            if let Some(ours) = ours {
                self.compare(&command, &ours, golden.trim_start());
            }
        }
        assert!(self.answers > 0, "{}: nothing is answered", self.name);
        self.answers
    }

    /// Runs a command; returns its untagged lines, if they are to be compared.
    fn obey(&mut self, command: &str) -> Option<Vec<Vec<Token>>> {
        let (by_uid, rest) = match command.strip_prefix("uid ") {
            Some(rest) => (true, rest),
            None => (false, command),
        };
        let (verb, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        match verb {
            // \Recent depends on sessions; a Maildir loses it with the first flag.
            "search" if ["new", "old", "recent"].contains(&rest) => None,
            "search" => Some(self.search(rest, by_uid)),
            "fetch" => {
                let (set, wanted) = rest.split_once(' ').unwrap();
                let uids = self.uids(set, by_uid);
                let answers = fetch(&mut self.mailbox, &uids, wanted);
                // A request without PEEK sets \Seen; here that is a separate change.
                let is_read = ["body[", "rfc822.text"].iter().any(|item| wanted.contains(item));
                if is_read || wanted == "rfc822" {
                    let seen = [Flag::Seen].into_iter().collect();
                    let change = FlagChange { add: seen, ..FlagChange::default() };
                    let flags = uids.into_iter().map(|uid| (uid, change.clone())).collect();
                    self.change(&ChangeRequest { flags, ..ChangeRequest::default() });
                }
                Some(answers)
            }
            "store" => {
                self.store(rest);
                None
            }
            "expunge" => {
                let expunge = self.mailbox.uids_with(Flag::Deleted).unwrap();
                self.change(&ChangeRequest { expunge, ..ChangeRequest::default() });
                None
            }
            "status" => {
                let uidnext = self.mailbox.status().uidnext.get();
                self.variables.insert("uidnext".into(), uidnext.to_string());
                None
            }
            _ => panic!("{}: {command}", self.name),
        }
    }

    fn search(&mut self, query: &str, uid: bool) -> Vec<Vec<Token>> {
        let request = parse_imap(query.as_bytes()).unwrap();
        let rows = self.mailbox.search(&request.program, &UidSet::new()).unwrap().rows;
        let numbers: Vec<u32> = match uid {
            true => rows.iter().map(|row| self.mailbox.uids().unwrap()[*row as usize]).collect(),
            false => rows.iter().map(|row| row + 1).collect(),
        };
        let mut out = Vec::new();
        match request.returns {
            Some(returns) => {
                SearchResult { numbers: &numbers, uid }.write_esearch(None, returns, &mut out)
            }
            None => {
                out.extend_from_slice(b"* search");
                numbers.iter().for_each(|number| out.extend(format!(" {number}").into_bytes()));
            }
        }
        vec![tokens(&out).0]
    }

    fn uids(&self, set: &str, by_uid: bool) -> Vec<Uid> {
        let greatest = match by_uid {
            true => self.mailbox.uids().unwrap().last().copied().unwrap_or(0),
            false => self.mailbox.len(),
        };
        let ranges = NumberSet::parse(set).unwrap().resolve(greatest);
        self.mailbox.uids_in(&ranges, !by_uid).unwrap()
    }

    /// Runs `store 1:* +flags (\seen)`.
    fn store(&mut self, rest: &str) {
        let words: Vec<&str> = rest.splitn(3, ' ').collect();
        let (mut change, mut add) = (FlagChange::default(), Vec::new());
        for name in words[2].trim_matches(['(', ')']).split(' ') {
            let system = Flag::ALL.into_iter().find(|flag| flag.name().eq_ignore_ascii_case(name));
            match system {
                Some(flag) => add.push(flag),
                None => change.add_keywords.push(Keyword::new(name).unwrap()),
            }
        }
        change.add = add.into_iter().collect();
        if words[1] == "flags" {
            let others = Flag::ALL.into_iter().filter(|flag| !change.add.contains(*flag));
            change.remove = others.filter(|flag| *flag != Flag::Recent).collect();
        }
        let flags = self.uids(words[0], false).into_iter().map(|uid| (uid, change.clone()));
        let flags = flags.collect();
        self.change(&ChangeRequest { flags, ..ChangeRequest::default() });
    }

    fn change(&mut self, request: &ChangeRequest<'_>) {
        self.mailbox.change(request, &ChangeOptions::default()).unwrap();
    }

    /// Compares untagged lines with those of the script, if it has any for this command.
    fn compare(&mut self, command: &str, ours: &[Vec<Token>], golden: &str) {
        let mut rest = golden.as_bytes();
        while !rest.is_empty() {
            let must_be = rest[0] == b'*';
            let (wanted, len) = tokens(rest);
            rest = rest[len..].trim_ascii_start();
            let names = items(&wanted).map(|(_, items)| items.into_keys().collect::<Vec<_>>());
            if names.is_some_and(|names| names == ["flags"]) && !command.contains("flags") {
                continue;
            }
            let found = ours.iter().any(|line| self.is_same(line, &wanted));
            assert_eq!(found, must_be, "{}: {command}\n  {wanted:?}\n  {ours:?}", self.name);
            self.answers += 1;
        }
    }

    /// Returns `true` if a line equals the golden one; records the values of variables.
    fn is_same(&mut self, ours: &[Token], golden: &[Token]) -> bool {
        let (Some((number, ours)), Some((wanted, golden))) = (items(ours), items(golden)) else {
            return self.matches(&ours[1..], &golden[1..]);
        };
        number == wanted
            && ours.len() == golden.len()
            && golden.iter().all(|(name, golden)| {
                let name = |other: &&String| other.eq_ignore_ascii_case(name);
                let ours = ours.keys().find(name).map(|name| &ours[name]);
                ours.is_some_and(|ours| self.matches(ours, golden))
            })
    }

    fn matches(&mut self, ours: &[Token], golden: &[Token]) -> bool {
        // All lines must report \Recent for a new message, or none.
        let is_told = |token: &&Token| **token != Token::Atom("\\Recent".into());
        let ours: Vec<&Token> = ours.iter().filter(is_told).collect();
        if golden.contains(&Token::Atom("$!unordered".into())) {
            return ours.len() > 2;
        }
        let golden: Vec<&Token> = golden.iter().collect();
        ours.len() == golden.len()
            && ours.into_iter().zip(golden).all(|(ours, golden)| match (ours, golden) {
                (Token::Text(ours), Token::Text(golden)) => ours.eq_ignore_ascii_case(golden),
                (ours, Token::Atom(golden)) if golden.starts_with('$') => {
                    let value = format!("{ours:?}");
                    let known = self.variables.entry(golden[1..].to_owned());
                    *known.or_insert_with(|| value.clone()) == value
                }
                (Token::Atom(ours), Token::Atom(golden)) => {
                    self.substituted(golden).eq_ignore_ascii_case(ours)
                }
                (ours, golden) => ours == golden,
            })
    }

    /// Returns a text with the values of known variables; `$$` is `$`.
    fn substituted(&self, text: &str) -> String {
        let mut names: Vec<&String> = self.variables.keys().collect();
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        let mut text = text.to_owned();
        for name in names {
            text = text.replace(&format!("${name}"), &self.variables[name]);
        }
        text.replace("$$", "$")
    }
}

/// Returns a script without comments and tags, with CRLF, its texts between `{{{` and `}}}` as
/// literals. Line ends of a binary text are unchanged.
fn with_literals(script: &str) -> String {
    let (mut out, mut lines) = (String::new(), script.split('\n'));
    while let Some(line) = lines.next() {
        if line.starts_with('#') || line.trim().is_empty() {
            continue;
        }
        out.push_str(&line.replace(" (tag $tag)", ""));
        while out.ends_with("{{{") {
            out.truncate(out.len() - 3);
            let mut text = Vec::new();
            let rest = loop {
                let line = lines.next().unwrap();
                match line.strip_prefix("}}}") {
                    Some(rest) => break rest,
                    None => text.push(line),
                }
            };
            let text = text.join(if out.ends_with('~') { "\n" } else { "\r\n" });
            out.push_str(&format!("{{{}}}\r\n{text}{rest}", text.len()));
        }
        out.push_str("\r\n");
    }
    out
}

/// Returns the messages of an mbox, with the empty lines between them, as imaptest has them.
fn messages(mbox: &[u8]) -> Vec<&[u8]> {
    let (mut starts, mut at) = (Vec::new(), 0);
    for line in mbox.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b"From ") && (at == 0 || mbox[..at].ends_with(b"\n\n")) {
            starts.push((at, at + line.len()));
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).map(|(start, _)| *start).chain([mbox.len()]);
    starts.iter().zip(ends).map(|((_, start), end)| &mbox[*start..end]).collect()
}
