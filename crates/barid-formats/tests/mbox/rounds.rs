//! barid, Dovecot and c-client change one mbox in turn: every message keeps its bytes, its UID, its
//! flags and its keywords for every reader, and no program has a reason to rewrite what we wrote.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use barid_mailbox::{
    ChangeSet, FlagChange, Known, KnownMessage, NewMessage, Stamp, Storage, SyncContext, SyncReport,
};
use barid_testkit::disk;
use barid_testkit::peers::{CClient, Dovecot, Imap, Reply};
use barid_types::{Flag, InternalDate, Keyword, KeywordMask, KeywordTable, Uid, UidValidity};
use barid_vfs::{OsVfs, Timestamp, Vfs};

use super::support::{Box_, Found};

/// Number of rounds, which is also the minimum of rounds compared.
const ROUNDS: u32 = 100;

const KEYWORDS: [&str; 5] = ["Junk", "$Label1", "todo", "Work", "a-longer-keyword-of-somebody"];

const FLAGS: [(char, Flag, &str); 5] = [
    ('A', Flag::Answered, "\\Answered"),
    ('D', Flag::Deleted, "\\Deleted"),
    ('F', Flag::Flagged, "\\Flagged"),
    ('S', Flag::Seen, "\\Seen"),
    ('T', Flag::Draft, "\\Draft"),
];

/// A message as the model and every program sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// Its UID; 0 in the model until a program has numbered it.
    uid: u32,
    letters: BTreeSet<char>,
    keywords: BTreeSet<String>,
    /// Header and body, with LF, without the fields that mailboxes own.
    text: String,
}

/// An operation on the mailbox.
#[derive(Clone, Debug)]
enum Op {
    Flag(usize, char, bool),
    Keyword(usize, &'static str, bool),
    Expunge(usize),
    Append(Entry),
}

/// The mailbox as it should be.
struct Model {
    entries: Vec<Entry>,
    /// The highest UID ever seen.
    uid_last: u32,
    made: u32,
}

impl Model {
    fn new_entry(&mut self, rng: &mut fastrand::Rng) -> Entry {
        self.made += 1;
        let mut text =
            format!("Subject: message {}\nMessage-ID: <{}@test>\n", self.made, self.made);
        for line in 0..rng.u32(0..4) {
            writeln!(text, "X-Field-{line}: {}\n\tfolded", "word ".repeat(rng.usize(0..30)))
                .unwrap();
        }
        text.push('\n');
        // Dovecot adds a line to an empty body.
        for _ in 0..rng.u32(1..40) {
            match rng.u32(0..10) {
                0 => text.push('\n'),
                1 => text.push_str(">From somebody\n"),
                2 => text.push_str("Status: not a field here\nX-UID: 5\n"),
                _ => writeln!(text, "{}", "text ".repeat(rng.usize(0..60))).unwrap(),
            }
        }
        Entry { uid: 0, letters: BTreeSet::new(), keywords: BTreeSet::new(), text }
    }

    /// Returns some random changes; `actor` may not support all of them.
    fn ops(&mut self, rng: &mut fastrand::Rng) -> Vec<Op> {
        let mut ops: Vec<Op> = Vec::new();
        let len = self.entries.len();
        for _ in 0..rng.usize(1..8) {
            let index = rng.usize(0..len);
            ops.push(match rng.u32(0..10) {
                0..4 => {
                    // \Deleted is for expunges.
                    let letter = rng.choice(['A', 'F', 'S', 'T']).unwrap();
                    Op::Flag(index, letter, rng.bool())
                }
                4..7 => Op::Keyword(index, rng.choice(KEYWORDS).unwrap(), rng.u32(0..3) > 0),
                7 if len > 10 => Op::Expunge(index),
                7.. if len < 25 => Op::Append(self.new_entry(rng)),
                _ => Op::Expunge(index),
            });
        }
        if len > 30 {
            ops.extend((0..len).filter(|index| index % 3 == 0).map(Op::Expunge));
        }
        // Messages that are expunged are not changed otherwise.
        let gone: BTreeSet<usize> = ops
            .iter()
            .filter_map(|op| if let Op::Expunge(at) = op { Some(*at) } else { None })
            .collect();
        ops.retain(|op| match op {
            Op::Flag(at, ..) | Op::Keyword(at, ..) => !gone.contains(at),
            Op::Expunge(_) => false,
            Op::Append(_) => true,
        });
        ops.extend(gone.into_iter().map(Op::Expunge));
        ops
    }

    fn apply(&mut self, ops: &[Op]) {
        let mut gone = BTreeSet::new();
        for op in ops {
            match op {
                Op::Flag(at, letter, set) => change(&mut self.entries[*at].letters, *letter, *set),
                Op::Keyword(at, name, set) => {
                    change(&mut self.entries[*at].keywords, (*name).to_owned(), *set);
                }
                Op::Expunge(at) => drop(gone.insert(self.entries[*at].uid)),
                Op::Append(entry) => self.entries.push(entry.clone()),
            }
        }
        self.entries.retain(|entry| entry.uid == 0 || !gone.contains(&entry.uid));
    }

    /// Copies the UIDs of new messages from those found, and compares everything.
    fn check(&mut self, found: &[Entry], what: &str) {
        let ids = |entries: &[Entry]| -> Vec<(u32, String)> {
            entries.iter().map(|entry| (entry.uid, subject(&entry.text))).collect()
        };
        assert_eq!(found.len(), self.entries.len(), "{what}: {:?}", ids(found));
        for (at, (entry, found)) in self.entries.iter_mut().zip(found).enumerate() {
            if entry.uid == 0 {
                assert!(found.uid > self.uid_last, "{what}: {} {}", found.uid, self.uid_last);
                entry.uid = found.uid;
                self.uid_last = found.uid;
            }
            assert_eq!(found.text, entry.text, "{what}, message {at}");
            assert_eq!(found.uid, entry.uid, "{what}, message {at} {}", subject(&entry.text));
            assert_eq!(found.letters, entry.letters, "{what}, UID {}", entry.uid);
            assert_eq!(found.keywords, entry.keywords, "{what}, UID {}", entry.uid);
        }
    }
}

fn subject(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn change<T: Ord>(set: &mut BTreeSet<T>, value: T, add: bool) {
    if add {
        set.insert(value);
    } else {
        set.remove(&value);
    }
}

/// Returns a text without `Content-Length`, which Dovecot adds to a long message.
fn without_length(text: &str) -> String {
    let (header, body) =
        text.split_once("\n\n").map_or((text, ""), |(header, body)| (header, body));
    let lines = header.split('\n').filter(|line| !line.starts_with("Content-Length:"));
    format!("{}\n\n{body}", lines.collect::<Vec<_>>().join("\n"))
}

/// The result of a scan, as the known messages of the next operation.
pub(super) struct Scanned<'a>(pub(super) &'a Found);

impl Known for Scanned<'_> {
    fn stamp(&self) -> Option<Stamp> {
        Some(self.0.report.stamp)
    }
    fn state(&self) -> &[u8] {
        &self.0.report.state
    }
    fn uidvalidity(&self) -> Option<UidValidity> {
        Some(self.0.report.uidvalidity)
    }
    fn uidnext(&self) -> Option<Uid> {
        Some(self.0.report.uidnext)
    }
    fn keywords(&self) -> &KeywordTable {
        &self.0.report.keywords
    }
    fn len(&self) -> u32 {
        self.0.messages.len() as u32
    }
    fn visit(
        &self,
        first: u32,
        visit: &mut dyn FnMut(&KnownMessage<'_>) -> bool,
    ) -> Result<(), barid_mailbox::SinkError> {
        let both = self.0.messages.iter().zip(&self.0.report.new_uids);
        for (message, uid) in both.skip(first as usize) {
            let known = KnownMessage {
                uid: *uid,
                flags: message.flags,
                keywords: KeywordMask(message.mask),
                location: message.location(),
                key: message.key,
                size: 0,
            };
            if !visit(&known) {
                break;
            }
        }
        Ok(())
    }
}

/// Applies operations with barid.
fn as_barid(mailbox: &mut Box_, entries: &[Entry], ops: &[Op]) -> SyncReport {
    let found = mailbox.scan();
    let known = Scanned(&found);
    let uid = |at: usize| Uid::new(entries[at].uid).unwrap();
    let mut changes = ChangeSet { drop_recent: true, write_uids: true, ..ChangeSet::default() };
    let mut flags = std::collections::BTreeMap::<Uid, FlagChange>::new();
    for op in ops {
        match op {
            Op::Flag(at, letter, set) => {
                let (_, flag, _) = FLAGS.iter().find(|(known, ..)| known == letter).unwrap();
                let change = flags.entry(uid(*at)).or_default();
                let (add, remove) = (change.add.without(*flag), change.remove.without(*flag));
                *change = match set {
                    true => FlagChange { add: add.with(*flag), remove, ..change.clone() },
                    false => FlagChange { add, remove: remove.with(*flag), ..change.clone() },
                };
            }
            Op::Keyword(at, name, set) => {
                let change = flags.entry(uid(*at)).or_default();
                let keyword = Keyword::new(name).unwrap();
                change.add_keywords.retain(|other| *other != keyword);
                change.remove_keywords.retain(|other| *other != keyword);
                match set {
                    true => change.add_keywords.push(keyword),
                    false => change.remove_keywords.push(keyword),
                }
            }
            Op::Expunge(at) => changes.expunge.push(uid(*at)),
            Op::Append(_) => {}
        }
    }
    changes.flags = flags.into_iter().collect();
    changes.expunge.sort_unstable();
    let appends: Vec<NewMessage<'_>> = ops
        .iter()
        .filter_map(|op| if let Op::Append(entry) = op { Some(entry) } else { None })
        .map(|entry| NewMessage {
            bytes: entry.text.as_bytes(),
            internal_date: Some(InternalDate { unix_seconds: 1_000_000_000, zone_minutes: 0 }),
            flags: FLAGS
                .iter()
                .filter(|(letter, ..)| entry.letters.contains(letter))
                .map(|(_, flag, _)| *flag)
                .collect(),
            keywords: entry.keywords.iter().filter_map(|name| Keyword::new(name)).collect(),
            ..NewMessage::default()
        })
        .collect();
    let mut ledger = mailbox.ledger();
    let mut context = SyncContext::new(&known);
    context.ledger = Some(&mut ledger);
    mailbox.mailbox.sync(&changes, &appends, &mut context).unwrap()
}

fn seen_by_barid(mailbox: &Box_) -> Vec<Entry> {
    let found = mailbox.scan();
    let both = found.messages.iter().zip(&found.report.new_uids);
    both.map(|(message, uid)| Entry {
        uid: uid.get(),
        letters: FLAGS
            .iter()
            .filter(|(_, flag, _)| message.flags.contains(*flag))
            .map(|(letter, ..)| *letter)
            .collect(),
        keywords: message.keywords.iter().cloned().collect(),
        text: without_length(&String::from_utf8(mailbox.same_bytes(message)).unwrap()),
    })
    .collect()
}

fn as_dovecot(session: &mut Imap, entries: &[Entry], ops: &[Op]) {
    session.command("SELECT INBOX").unwrap();
    for op in ops {
        match op {
            Op::Flag(at, letter, set) => {
                let (.., name) = FLAGS.iter().find(|(known, ..)| known == letter).unwrap();
                store(session, entries[*at].uid, name, *set);
            }
            Op::Keyword(at, name, set) => store(session, entries[*at].uid, name, *set),
            Op::Expunge(at) => {
                store(session, entries[*at].uid, "\\Deleted", true);
                session.command(&format!("UID EXPUNGE {}", entries[*at].uid)).unwrap();
            }
            Op::Append(entry) => {
                let text = entry.text.replace('\n', "\r\n");
                session.append("INBOX", "", text.as_bytes()).unwrap();
            }
        }
    }
    session.command("CHECK").unwrap();
}

fn store(session: &mut Imap, uid: u32, flag: &str, set: bool) {
    let sign = if set { '+' } else { '-' };
    session.command(&format!("UID STORE {uid} {sign}FLAGS.SILENT ({flag})")).unwrap();
}

fn seen_by_dovecot(session: &mut Imap) -> Vec<Entry> {
    session.command("EXAMINE INBOX").unwrap();
    let reply = session.command("UID FETCH 1:* (UID FLAGS BODY.PEEK[])").unwrap();
    fetched(&reply)
}

/// Parses `1 FETCH (UID 3 FLAGS (\Seen todo) BODY[] {12}` CRLF and the text, for each message.
fn fetched(reply: &Reply) -> Vec<Entry> {
    let part = |text: &str, from: &str, to: &str| -> String {
        let (_, rest) = text.split_once(from).unwrap_or_else(|| panic!("{from} in {text}"));
        rest.split_once(to).unwrap_or_else(|| panic!("{to} in {rest}")).0.to_owned()
    };
    let responses = reply.untagged.iter().filter_map(|line| {
        let text = std::str::from_utf8(line).unwrap();
        text.split_once(' ').filter(|(_, rest)| rest.starts_with("FETCH ")).map(|_| text)
    });
    responses
        .map(|text| {
            let (head, rest) = text.split_once("\r\n").unwrap();
            let head = format!("{head} ");
            let names = part(&head, "FLAGS (", ")");
            let names: Vec<&str> = names.split_ascii_whitespace().collect();
            let letter = |name: &&str| FLAGS.iter().find(|(.., flag)| flag == name);
            Entry {
                uid: part(&head.replace(')', " "), "UID ", " ").parse().unwrap(),
                letters: names.iter().filter_map(letter).map(|(letter, ..)| *letter).collect(),
                keywords: names
                    .iter()
                    .filter(|name| !name.starts_with('\\'))
                    .map(|name| (*name).to_owned())
                    .collect(),
                text: without_length(&rest.strip_suffix(')').unwrap_or(rest).replace("\r\n", "\n")),
            }
        })
        .collect()
}

fn as_c_client(peer: &mut CClient, entries: &[Entry], ops: &[Op], round: u32) {
    peer.open("box").unwrap();
    for op in ops {
        match op {
            Op::Flag(at, letter, set) => {
                let (.., name) = FLAGS.iter().find(|(known, ..)| known == letter).unwrap();
                mark(peer, at + 1, name, *set);
            }
            Op::Keyword(at, name, set) => mark(peer, at + 1, name, *set),
            Op::Expunge(at) => mark(peer, at + 1, "\\Deleted", true),
            Op::Append(_) => {}
        }
    }
    let expunges = ops.iter().any(|op| matches!(op, Op::Expunge(_)));
    if expunges || entries.iter().any(|entry| entry.letters.contains(&'D')) {
        peer.command("expunge").unwrap();
    }
    peer.command("check").unwrap();
    peer.command("close").unwrap();
    let mut source = String::new();
    for op in ops {
        if let Op::Append(entry) = op {
            write!(source, "From a@b Thu Nov 19 10:00:00 2009\n{}\n", entry.text).unwrap();
        }
    }
    if !source.is_empty() {
        let name = format!("source{round}");
        disk::write(&peer.folder().join(&name), source.as_bytes()).unwrap();
        peer.mailutil(&["append", &name, "box"]).unwrap();
        disk::remove_file(&peer.folder().join(&name)).unwrap();
    }
}

fn mark(peer: &mut CClient, number: usize, flag: &str, set: bool) {
    let word = if set { "flag" } else { "unflag" };
    peer.command(&format!("{word} {number} {flag}")).unwrap();
}

/// Returns the messages of `name` as c-client shows them, without writing to it.
fn seen_by_c_client(peer: &mut CClient, name: &str) -> Vec<Entry> {
    peer.command(&format!("examine {name}")).unwrap();
    shown_by_c_client(peer)
}

fn shown_by_c_client(peer: &mut CClient) -> Vec<Entry> {
    let uids = peer.command("uids").unwrap();
    let flags = peer.command("flags").unwrap();
    let mut entries = Vec::new();
    for (at, (uid, flags)) in uids.iter().zip(&flags).enumerate() {
        let mut words = flags.split(' ');
        let letters = words.next().unwrap();
        let lines = |lines: Vec<String>| -> String {
            lines.iter().map(|line| format!("{}\n", &line[1..])).collect()
        };
        let header = lines(peer.command(&format!("header {}", at + 1)).unwrap());
        let body = lines(peer.command(&format!("text {}", at + 1)).unwrap());
        entries.push(Entry {
            uid: uid.parse().unwrap(),
            letters: letters.chars().filter(|letter| !"-R".contains(*letter)).collect(),
            keywords: words.map(str::to_owned).collect(),
            text: without_length(&format!("{header}{body}")),
        });
    }
    peer.command("close").unwrap();
    entries
}

/// The three programs and the file.
struct World {
    c_client: CClient,
    dovecot: Dovecot,
    path: PathBuf,
    ours: Box_,
    /// Modification time of the file that some program has seen last, in whole seconds.
    seconds: i64,
}

impl World {
    fn new(bytes: &[u8]) -> Option<Self> {
        let (c_client, dovecot) = (CClient::new()?, Dovecot::new()?);
        let path = c_client.folder().join("box");
        disk::write(&path, bytes).unwrap();
        let ours = Box_::open(&path, None);
        let seconds = OsVfs.metadata(&path).unwrap().modified.unix_seconds();
        Some(Self { c_client, dovecot, path, ours, seconds })
    }

    /// Opens a session of Dovecot. By default (`mbox_dirty_syncs`) it treats a file that grew as
    /// one that was appended to; if c-client or barid has moved messages, its first answer may then
    /// be an error.
    fn session(&self) -> Imap {
        let options = [("mbox_dirty_syncs", "no"), ("mbox_lazy_writes", "no")];
        self.dovecot.imap(&self.dovecot.mbox_location(&self.path), &options).unwrap()
    }

    /// Makes the modification time differ by a second: Dovecot considers a file of the same size
    /// and second unchanged, and c-client restores the modification time. barid sets another second
    /// itself; for the other programs the test does.
    fn let_time_pass(&mut self, is_ours: bool) {
        let metadata = OsVfs.metadata(&self.path).unwrap();
        let found = metadata.modified.unix_seconds();
        if is_ours {
            assert!(found > self.seconds, "the second of the last change is another");
        } else {
            let modified = Timestamp { unix_nanos: (self.seconds + 1) * 1_000_000_000 };
            OsVfs.set_times(&self.path, metadata.accessed, modified).unwrap();
        }
        self.seconds = if is_ours { found } else { self.seconds + 1 };
    }

    /// Restores the modification time of the last round after programs that only read; if one of
    /// them wrote, as Dovecot does when it first opens the file, sets the time that it remembers.
    fn restore_time(&mut self) {
        let metadata = OsVfs.metadata(&self.path).unwrap();
        self.seconds = self.seconds.max(metadata.modified.unix_seconds());
        let modified = Timestamp { unix_nanos: self.seconds * 1_000_000_000 };
        OsVfs.set_times(&self.path, metadata.accessed, modified).unwrap();
    }

    /// Checks that every program shows the messages of the model.
    fn check(&mut self, model: &mut Model, what: &str) {
        model.check(&seen_by_barid(&self.ours), &format!("{what}, seen by barid"));
        let mut session = self.session();
        model.check(&seen_by_dovecot(&mut session), &format!("{what}, seen by Dovecot"));
        session.logout().unwrap();
        let seen = seen_by_c_client(&mut self.c_client, "box");
        model.check(&seen, &format!("{what}, seen by c-client"));
        self.restore_time();
    }

    /// Opens copies of the file for writing with both peers as if they had never seen it: they show
    /// the messages of the model, and leave every byte unchanged.
    fn check_settled(&mut self, model: &mut Model, what: &str) {
        let bytes = disk::read(&self.path).unwrap();
        let copy = self.c_client.folder().join("copy");
        for _ in 0..2 {
            disk::write(&copy, &bytes).unwrap();
            self.c_client.open("copy").unwrap();
            let seen = shown_by_c_client(&mut self.c_client);
            model.check(&seen, &format!("{what}, opened by c-client"));
            check_same(&bytes, &disk::read(&copy).unwrap(), &format!("{what}, c-client"));
            disk::write(&copy, &bytes).unwrap();
            self.dovecot.clear_indexes(&copy).unwrap();
            let mut session = self.dovecot.imap(&self.dovecot.mbox_location(&copy), &[]).unwrap();
            session.command("SELECT INBOX").unwrap();
            let reply = session.command("UID FETCH 1:* (UID FLAGS BODY.PEEK[])").unwrap();
            model.check(&fetched(&reply), &format!("{what}, opened by Dovecot"));
            session.command("CHECK").unwrap();
            session.logout().unwrap();
            check_same(&bytes, &disk::read(&copy).unwrap(), &format!("{what}, Dovecot"));
        }
        disk::remove_file(&copy).unwrap();
    }
}

/// Checks that nothing was rewritten.
fn check_same(before: &[u8], after: &[u8], what: &str) {
    if before != after {
        let at = before.iter().zip(after).position(|(one, two)| one != two);
        let at = at.unwrap_or(before.len().min(after.len()));
        let show = |bytes: &[u8]| {
            let (start, end) = (at.saturating_sub(200), (at + 300).min(bytes.len()));
            String::from_utf8_lossy(&bytes[start..end]).into_owned()
        };
        panic!(
            "{what} rewrote {} bytes to {} from {at} on:\n{}\n-- to --\n{}",
            before.len(),
            after.len(),
            show(before),
            show(after)
        );
    }
}

#[test]
fn a_hundred_rounds_of_three_programs() {
    let mut rng = fastrand::Rng::with_seed(4);
    let mut model = Model { entries: Vec::new(), uid_last: 0, made: 0 };
    let mut file = String::new();
    for number in 0..12 {
        let entry = model.new_entry(&mut rng);
        let second = number % 60;
        writeln!(file, "From a@b Thu Nov 19 10:00:{second:02} 2009").unwrap();
        writeln!(file, "{}", entry.text).unwrap();
        model.entries.push(entry);
    }
    let Some(mut world) = World::new(file.as_bytes()) else { return };
    let (mut turns, mut operations) = ([0; 3], 0);
    world.check(&mut model, "at first");
    for round in 0..ROUNDS {
        let mut ops = model.ops(&mut rng);
        let entries = model.entries.clone();
        let actor = if round < 3 { round as usize } else { rng.usize(0..3) };
        if actor == 1 {
            // It writes X-IMAPbase after X-Keywords of the next message, where c-client cannot read
            // it.
            ops.retain(|op| !matches!(op, Op::Expunge(0)));
        }
        if actor == 0 {
            for op in &mut ops {
                let Op::Append(entry) = op else { continue };
                entry.letters.extend(rng.choice(['A', 'F', 'S', 'T']));
                entry.keywords.extend(rng.choice(KEYWORDS).map(str::to_owned));
                // The mailbox has to list it first.
                if rng.u32(0..6) == 0 {
                    entry.keywords.insert(format!("of-round-{}", round / 10));
                }
            }
        }
        let what = format!("round {round} of {actor}: {ops:?}");
        let what: String = what.chars().take(1000).collect();
        let before = disk::read(&world.path).unwrap();
        match actor {
            0 => drop(as_barid(&mut world.ours, &entries, &ops)),
            1 => {
                let mut session = world.session();
                as_dovecot(&mut session, &entries, &ops);
                session.logout().unwrap();
            }
            _ => as_c_client(&mut world.c_client, &entries, &ops, round),
        }
        model.apply(&ops);
        let is_same = disk::read(&world.path).unwrap() == before;
        let grew = ops.iter().any(|op| matches!(op, Op::Append(_)));
        world.let_time_pass(actor == 0 && !grew && !is_same);
        world.check(&mut model, &what);
        if actor == 0 && !grew {
            world.check_settled(&mut model, &what);
        }
        turns[actor] += 1;
        operations += ops.len();
    }
    println!(
        "{ROUNDS} rounds ({} of barid, {} of Dovecot, {} of c-client), {operations} operations: \
         after each all three saw the same",
        turns[0], turns[1], turns[2]
    );
    assert!(turns.iter().all(|turns| *turns >= 20) && operations >= 200, "{turns:?} {operations}");
}
