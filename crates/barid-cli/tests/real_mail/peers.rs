//! `thread --imap` and `ls --sort`, compared with Dovecot and c-client.
//!
//! The program follows the RFCs. Each difference from a server's answer must come from messages
//! that the server parses differently: with the server's profile the same cache gives the server's
//! threads, and without those messages the orders are equal.

use std::collections::HashSet;

use barid::message::{self, HeaderFields, Profile};
use barid::{Mailbox, OpenOptions, SortKey, ThreadAlgorithm};
use barid_testkit::boxes::MboxVariant;
use barid_testkit::corpus::GeneratedMessage;
use barid_testkit::peers::{CClient, Dovecot};

use super::{Mail, Tally, run};

const ALGORITHMS: [ThreadAlgorithm; 3] =
    [ThreadAlgorithm::References, ThreadAlgorithm::OrderedSubject, ThreadAlgorithm::Refs];

/// A server with a mailbox; questions are in IMAP's form (`THREAD REFS`, `SORT REVERSE DATE`).
struct Peer<'a> {
    title: String,
    profile: Profile,
    mail: &'a Mail,
    /// The headers, restricted to charsets that the server supports.
    headers: Vec<Vec<u8>>,
    /// The mailbox that the program reads.
    path: String,
    ask: &'a mut dyn FnMut(&str) -> String,
}

/// Returns the threads of a THREAD response.
fn threads(response: &str) -> Vec<&str> {
    let (mut found, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, byte) in response.bytes().enumerate() {
        match byte {
            b'(' => {
                if depth == 0 {
                    start = at;
                }
                depth += 1;
            }
            b')' => {
                depth -= 1;
                if depth == 0 {
                    found.push(&response[start..=at]);
                }
            }
            _ => {}
        }
    }
    found
}

/// Returns the messages of a thread, counted from 0.
fn rows(thread: &str) -> impl Iterator<Item = usize> {
    let numbers = thread.split(|c: char| !c.is_ascii_digit()).filter(|text| !text.is_empty());
    numbers.map(|number| number.parse::<usize>().unwrap() - 1)
}

impl Peer<'_> {
    fn check(&mut self, algorithms: &[ThreadAlgorithm], keys: &[SortKey]) {
        let count = self.mail.messages.len();
        for algorithm in algorithms {
            self.check_threads(*algorithm, count / 20);
        }
        for key in keys {
            self.check_order(*key, count);
        }
    }

    fn check_threads(&mut self, algorithm: ThreadAlgorithm, threads_min: usize) {
        let name = algorithm.name();
        let question = format!("THREAD {}", name.to_uppercase());
        let printed = self.mail.run(&["thread", "--imap", "--algorithm", name, &self.path]);
        let ours = String::from_utf8(printed).unwrap();
        let ours = ours.strip_prefix("* THREAD ").unwrap().trim_end();
        let theirs = (self.ask)(&question);
        let by_profile = self.threads_by_profile(algorithm);
        let mut tally = Tally::new(format!("{}: {question}, threads", self.title));
        let (ours_list, by_profile_list) = (threads(ours), threads(&by_profile));
        let here: HashSet<&str> = ours_list.iter().copied().collect();
        let profiled: HashSet<&str> = by_profile_list.iter().copied().collect();
        let causes = self.causes(&ours_list);
        for thread in threads(&theirs) {
            if here.contains(thread) {
                tally.equal();
            } else if profiled.contains(thread) {
                tally.explained("as the server's profile has it");
            } else if let Some(cause) = rows(thread).find_map(|row| causes[row]) {
                tally.explained(cause);
            } else {
                tally.different(format!("{thread} is not among ours"));
            }
        }
        tally.report(threads_min);
        let mut tally = Tally::new(format!("{}: {question}, the whole answer", self.title));
        let there: HashSet<&str> = threads(&theirs).into_iter().collect();
        if ours == theirs {
            tally.equal();
        } else if by_profile == theirs {
            tally.explained("the server's profile gives it");
        } else if by_profile_list.iter().filter(|thread| there.contains(**thread)).eq(threads(
            &theirs,
        )
        .iter()
        .filter(|thread| profiled.contains(**thread)))
        {
            tally.explained("the server's profile gives it but for the threads above");
        } else {
            tally.different(first_difference(ours, &theirs));
        }
        tally.report(1);
    }

    /// Returns the threads under the server's profile, from the program's own cache.
    fn threads_by_profile(&self, algorithm: ThreadAlgorithm) -> String {
        let world = &self.mail.world;
        let cache = world.path("home/.cache/barid");
        let options = OpenOptions::new(Some(cache), world.path("home/.local/state/barid"));
        let mailbox = Mailbox::open(&self.path, &options).unwrap();
        assert_eq!(mailbox.status().cache.messages_read, 0, "the program left a cache");
        let found = mailbox.threads_as(algorithm, self.profile).unwrap();
        let mut out = Vec::new();
        found.write_imap(|row| row + 1, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn check_order(&mut self, key: SortKey, rows_min: usize) {
        let name = key.name();
        let question = format!("SORT REVERSE {}", name.to_uppercase());
        let sort = format!("reverse:{name}");
        let mut args = vec!["ls", "--json", "--sort", &sort, &self.path];
        args.extend((key == SortKey::Size).then_some("--rfc822-size"));
        let printed = String::from_utf8(self.mail.run(&args)).unwrap();
        let ours: Vec<usize> = printed.lines().map(sequence_number).collect();
        let theirs: Vec<usize> = rows(&(self.ask)(&question)).map(|row| row + 1).collect();
        let mut tally = Tally::new(format!("{}: {question}, places", self.title));
        assert_eq!((ours.len(), theirs.len()), (rows_min, rows_min));
        if ours == theirs {
            ours.iter().for_each(|_| tally.equal());
            return tally.report(rows_min);
        }
        let keys = |profile| -> Vec<Vec<u8>> {
            (0..rows_min).map(|row| self.sort_key(row, key, profile)).collect()
        };
        let (ours_keys, their_keys) = (keys(Profile::Rfc), keys(self.profile));
        let mut by_profile: Vec<usize> = (1..=rows_min).collect();
        by_profile.sort_by(|one, two| their_keys[two - 1].cmp(&their_keys[one - 1]));
        let is_profiled = by_profile == theirs;
        // In lower case, as c-client compares; that is the other comparison below.
        let otherwise = |number: &usize| match key.is_number() {
            true => ours_keys[number - 1] != their_keys[number - 1],
            false => !ours_keys[number - 1].eq_ignore_ascii_case(&their_keys[number - 1]),
        };
        let rest =
            |order: &[usize]| order.iter().copied().filter(|number| !otherwise(number)).collect();
        let (ours, theirs): (Vec<usize>, Vec<usize>) = (rest(&ours), rest(&theirs));
        for (ours, theirs) in ours.iter().zip(&theirs) {
            if ours == theirs {
                tally.equal();
            } else if is_profiled {
                tally.explained("the server compares texts otherwise");
            } else {
                tally.different(format!("{ours} stands where {theirs} should"));
            }
        }
        for _ in ours.len()..rows_min {
            tally.explained("the server reads the key otherwise");
        }
        tally.report(rows_min);
    }

    /// Returns for each thread of ours the cause of a difference, if the server parses the subject
    /// of one of its messages differently from the cache.
    fn causes(&self, ours: &[&str]) -> Vec<Option<&'static str>> {
        let cause = |row: usize| {
            if self.has_space_after_subject(row) {
                Some("a subject with white space at its end, which the server keeps")
            } else if !self.mail.messages[row].bytes.starts_with(&self.headers[row]) {
                Some("a subject in a charset that the server does not know")
            } else {
                None
            }
        };
        let mut causes: Vec<_> = (0..self.headers.len()).map(cause).collect();
        for thread in ours {
            if let Some(cause) = rows(thread).find_map(|row| causes[row]) {
                rows(thread).for_each(|row| causes[row] = Some(cause));
            }
        }
        causes
    }

    /// Returns `true` if c-client's base subject ends with white space, which no cache keeps.
    fn has_space_after_subject(&self, row: usize) -> bool {
        let subject = HeaderFields::scan(&self.headers[row]).subject.unwrap_or_default();
        let trimmed = message::base_subject(subject, self.profile).text;
        self.profile == Profile::CClient && self.subject(row, self.profile) != trimmed
    }

    fn subject(&self, row: usize, profile: Profile) -> Vec<u8> {
        let header = &self.headers[row];
        let trimmed = HeaderFields::scan(header).subject.unwrap_or_default();
        let client = profile == Profile::CClient;
        let raw = if client { untrimmed_subject(header) } else { trimmed };
        message::base_subject(raw, profile).text
    }

    /// Returns the sort key of a message under a profile; keys are compared by octets.
    fn sort_key(&self, row: usize, key: SortKey, profile: Profile) -> Vec<u8> {
        let mail = &self.mail.messages[row];
        let is_ours = profile == Profile::Rfc;
        let header = if is_ours { &mail.bytes } else { &self.headers[row] };
        let fields = HeaderFields::scan(header);
        let fold = |text: &str| match profile {
            Profile::CClient => text.to_ascii_lowercase().into_bytes(),
            _ => message::casemap_as(text, profile).into_bytes(),
        };
        let address = |field: Option<&[u8]>| {
            let mailbox = message::first_mailbox_as(field.unwrap_or_default(), profile);
            match profile {
                Profile::CClient => mailbox.to_ascii_lowercase(),
                _ => fold(&message::decode_words(&mailbox)),
            }
        };
        let name = |field: Option<&[u8]>| {
            fold(&message::display_name_as(field.unwrap_or_default(), profile))
        };
        let number = |number: i64| (number ^ i64::MIN).to_be_bytes().to_vec();
        match key {
            SortKey::Arrival => number(mail.date),
            SortKey::Date => {
                let date = fields.date.and_then(|date| message::parse_date_as(date, profile));
                let date = date.map(|date| date.unix_seconds).filter(|date| is_ours || *date != 0);
                number(date.unwrap_or(mail.date))
            }
            SortKey::Size => {
                let counts_all = profile == Profile::Dovecot;
                let size = if counts_all { message::crlf_size } else { message::rfc822_size };
                size(&mail.bytes).to_be_bytes().to_vec()
            }
            SortKey::Subject if is_ours => {
                message::base_subject(fields.subject.unwrap_or_default(), profile).text
            }
            SortKey::Subject if profile == Profile::CClient => {
                self.subject(row, profile).to_ascii_lowercase()
            }
            SortKey::Subject => self.subject(row, profile),
            SortKey::From => address(fields.from),
            SortKey::To => address(fields.to),
            SortKey::Cc => address(fields.cc),
            SortKey::DisplayFrom => name(fields.from),
            SortKey::DisplayTo => name(fields.to),
        }
    }
}

/// Returns the headers of all messages, with charsets that the server does not support (glibc's
/// iconv, c-client's tables) renamed to unknown names.
fn known_headers(mail: &Mail, profile: Profile) -> Vec<Vec<u8>> {
    let unknown: &[u8] = match profile {
        Profile::Dovecot => b"=?ks_c_5601-1987?",
        _ => b"=?gb18030?",
    };
    let known = |message: &GeneratedMessage| {
        let mut header = message.bytes[..message::body_offset(&message.bytes)].to_vec();
        for at in 0..header.len().saturating_sub(unknown.len()) {
            if header[at] == b'=' && header[at..at + unknown.len()].eq_ignore_ascii_case(unknown) {
                header[at + 2] = b'x';
            }
        }
        header
    };
    mail.messages.iter().map(known).collect()
}

fn sequence_number(line: &str) -> usize {
    let (_, rest) = line.split_once("\"seq\":").unwrap();
    rest.split(',').next().unwrap().parse().unwrap()
}

fn first_difference(ours: &str, theirs: &str) -> String {
    let at = ours.bytes().zip(theirs.bytes()).take_while(|(one, two)| one == two).count();
    let part = |text: &str| text[at.saturating_sub(40)..text.len().min(at + 160)].to_owned();
    format!("from {at}\n  {}\n  {}", part(ours), part(theirs))
}

/// Returns the first Subject with its trailing white space, which c-client does not always remove
/// and no cache keeps.
fn untrimmed_subject(raw: &[u8]) -> &[u8] {
    let Some(field) = message::field(raw, b"Subject") else { return b"" };
    let line = &raw[field.offset..field.end];
    let value = line.iter().position(|byte| *byte == b':').map_or(line.len(), |colon| colon + 1);
    let value = line[value..].trim_ascii_start();
    value.strip_suffix(b"\n").unwrap_or(value)
}

fn dovecot(corpus: &'static str, count: usize) {
    let Some(mail) = Mail::of(corpus, count) else { return };
    let Some(peer) = Dovecot::new() else { return };
    let path = mail.maildir();
    // The program assigns the UIDs; Dovecot reads them from the Maildir.
    mail.run(&["status", &path]);
    let location = format!("maildir:{path}");
    let mut imap = peer.imap(&location, &[("mail_fsync", "never")]).unwrap();
    let selected = imap.command("SELECT INBOX").unwrap();
    let status = String::from_utf8(mail.run(&["status", "--json", &path])).unwrap();
    for (code, key) in [("UIDVALIDITY", "uidvalidity"), ("UIDNEXT", "uidnext")] {
        let theirs = selected.code(code).unwrap();
        assert!(status.contains(&format!("\"{key}\":{theirs},")), "{code} {theirs}: {status}");
    }
    let mut ask = |question: &str| {
        let command = match question.strip_prefix("SORT ") {
            Some(keys) => format!("SORT ({keys}) UTF-8 ALL"),
            None => format!("{question} UTF-8 ALL"),
        };
        let reply = imap.command(&command).unwrap();
        reply.find("THREAD").or(reply.find("SORT")).unwrap()
    };
    let title = format!("{corpus}, Dovecot");
    let profile = Profile::Dovecot;
    let headers = known_headers(&mail, profile);
    let mut peer = Peer { title, profile, mail: &mail, headers, path, ask: &mut ask };
    peer.check(&ALGORITHMS, &SortKey::ALL);
}

/// Threads are those of the Maildir; orders are those of the mbox, in which quoted lines change the
/// sizes.
fn c_client(corpus: &'static str, count_min: usize) {
    let Some(mail) = Mail::of(corpus, count_min) else { return };
    let count = mail.messages.len();
    let Some(mut peer) = CClient::new() else { return };
    let mbox = mail.write_mbox(peer.folder().join("box"), MboxVariant::Mboxo);
    let own = mail.write_mbox(mail.world.path("for-c-client.mbox"), MboxVariant::Mboxo);
    assert!(!mbox.is_empty());
    assert_eq!(peer.open("box").unwrap() as usize, count);
    let mut ask = |question: &str| {
        let (verb, rest) = question.split_once(' ').unwrap();
        peer.command(&format!("{} {rest}", verb.to_lowercase())).unwrap().concat()
    };
    let keys: Vec<SortKey> = SortKey::ALL
        .into_iter()
        .filter(|key| !matches!(key, SortKey::DisplayFrom | SortKey::DisplayTo))
        .collect();
    let profile = Profile::CClient;
    for (kind, path, keys) in [("Maildir", mail.maildir(), &[][..]), ("mbox", own, &keys)] {
        let title = format!("{corpus} as {kind}, c-client");
        let headers = known_headers(&mail, profile);
        let mut peer = Peer { title, profile, mail: &mail, headers, path, ask: &mut ask };
        peer.check(&ALGORITHMS[..2], keys);
    }
    let gone = run(&mail.world, &["cache", "prune"]);
    assert_eq!(gone.code, 0, "{}", gone.stderr);
}

#[test]
fn dovecot_on_list_mail() {
    dovecot("dev-list-man", 17_885);
}

#[test]
fn dovecot_on_old_mail() {
    dovecot("dev-old-mips", 9151);
}

#[test]
fn c_client_on_list_mail() {
    c_client("dev-list-man", 17_885);
}

#[test]
fn c_client_on_old_mail() {
    c_client("dev-old-mips", 9151);
}

#[test]
fn dovecot_on_loops() {
    dovecot("torture/notmuch", 100);
}

#[test]
fn c_client_on_loops() {
    c_client("torture/notmuch", 100);
}
