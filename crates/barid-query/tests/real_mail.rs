//! Real mail, threaded and sorted by Dovecot, c-client and the library.
//!
//! Each server gets the messages of a corpus as one mailbox, Dovecot as a Maildir, c-client as an
//! mbox whose separators have the times of the Maildir's files. The server's profile must return
//! the server's answers. The default profile must too, except for messages that it reads
//! differently.

use barid_message::Profile;
use barid_query::{SortKey, SortProgram, ThreadAlgorithm};
use barid_testkit::Scratch;
use barid_testkit::corpora;
use barid_testkit::peers::{CClient, Dovecot};

use crate::ask::{c_client_answer, dovecot_answer};
use crate::mail::{Mail, Message};
use crate::mailbox_files::{write_maildir, write_mbox};

/// A corpus of real mail and the least number of its messages.
const CORPORA: [(&str, usize); 3] =
    [("dev-list-man", 17_885), ("dev-old-mips", 9151), ("torture/notmuch", 100)];

/// Charsets that a server does not know but `encoding_rs` does.
fn unknown_charsets(profile: Profile) -> &'static [&'static [u8]] {
    match profile {
        // glibc's iconv.
        Profile::Dovecot => &[b"=?ks_c_5601-1987?"],
        Profile::CClient => &[b"=?gb18030?"],
        Profile::Rfc => &[],
    }
}

/// Returns the messages with the server's unknown charsets renamed to names that no program knows,
/// and the number of those messages.
fn with_unknown_charsets(messages: &[Message], profile: Profile) -> (Vec<Message>, usize) {
    let mut messages = messages.to_vec();
    let mut count = 0;
    for message in &mut messages {
        let header = message.raw.len().min(barid_message::body_offset(&message.raw));
        for charset in unknown_charsets(profile) {
            let is_there = |at: &usize| {
                let here = &message.raw[*at..header];
                here.len() >= charset.len() && here[..charset.len()].eq_ignore_ascii_case(charset)
            };
            let places: Vec<usize> = (0..header).filter(is_there).collect();
            count += usize::from(!places.is_empty());
            places.iter().for_each(|at| message.raw[at + 2] = b'x');
        }
    }
    (messages, count)
}

/// Returns the files of a corpus as messages with an arrival order that differs from their order.
fn messages((corpus, messages_min): (&str, usize)) -> Option<Vec<Message>> {
    let files = corpora::files(corpus)?;
    let messages_min = corpora::either(corpus, messages_min, 100);
    assert!(files.len() >= messages_min, "{corpus}: {} files", files.len());
    let read = |(number, path): (usize, &std::path::PathBuf)| Message {
        raw: corpora::read(path).unwrap(),
        arrival: 1_100_000_000 + (number * 7919 % 20_011 * 60) as i64,
    };
    Some(files.iter().enumerate().map(read).collect())
}

#[test]
fn dovecot() {
    let Some(peer) = Dovecot::new() else { return };
    for corpus in CORPORA {
        let Some(messages) = messages(corpus) else { return };
        let scratch = Scratch::new("real-dovecot").unwrap();
        write_maildir(&scratch.path().join("mail"), &messages).unwrap();
        let location = format!("maildir:{}/mail", scratch.path().display());
        let mut imap = peer.imap(&location, &[("mail_fsync", "never")]).unwrap();
        imap.command("SELECT INBOX").unwrap();
        check(corpus.0, &messages, Profile::Dovecot, &mut |question| {
            dovecot_answer(&mut imap, question).unwrap()
        });
    }
}

#[test]
fn c_client() {
    for corpus in CORPORA {
        let Some(mut peer) = CClient::new() else { return };
        let Some(messages) = messages(corpus) else { return };
        let messages: Vec<Message> = messages.into_iter().map(for_mbox).collect();
        write_mbox(&peer.folder().join("box"), &messages).unwrap();
        assert_eq!(peer.open("box").unwrap() as usize, messages.len());
        check(corpus.0, &messages, Profile::CClient, &mut |question| {
            c_client_answer(&mut peer, question).unwrap()
        });
    }
}

/// Returns a message in the form of an mbox: with LF, and a mark before lines like a separator.
fn for_mbox(mut message: Message) -> Message {
    let mut raw = Vec::with_capacity(message.raw.len());
    for line in message.raw.split_inclusive(|byte| *byte == b'\n') {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if text.starts_with(b"From ") {
            raw.push(b'>');
        }
        raw.extend_from_slice(text);
        raw.push(b'\n');
    }
    message.raw = raw;
    message
}

/// The results for one corpus.
#[derive(Default)]
struct Tally {
    compared: usize,
    /// Answers that the server's profile does not return.
    different: Vec<String>,
    /// Answers that the default profile returns too, and the reasons why it does not return the
    /// others.
    equal_by_default: usize,
    explained: Vec<String>,
}

fn check(
    corpus: &str,
    messages: &[Message],
    profile: Profile,
    ask: &mut dyn FnMut(&str) -> String,
) {
    let (renamed, unknown) = with_unknown_charsets(messages, profile);
    let theirs = Mail::read(&renamed, profile);
    let ours = Mail::read(messages, Profile::Rfc);
    let mut tally = Tally::default();
    let mut algorithms = vec![ThreadAlgorithm::References, ThreadAlgorithm::OrderedSubject];
    let mut keys = SortKey::ALL.to_vec();
    if profile == Profile::Dovecot {
        algorithms.push(ThreadAlgorithm::Refs);
    } else {
        keys.retain(|key| !matches!(key, SortKey::DisplayFrom | SortKey::DisplayTo));
    }
    for algorithm in algorithms {
        let question = format!("THREAD {}", algorithm.name().to_uppercase());
        let answer = ask(&question);
        let by_default = ours.thread(algorithm);
        let explain = || {
            let read_otherwise = count(&ours.differing_links(&theirs));
            assert!(read_otherwise > 0, "{corpus} {question}: nothing explains the difference");
            format!("{question}: {read_otherwise} messages read otherwise")
        };
        tally.add(&question, &answer, &theirs.thread(algorithm), &by_default, explain);
    }
    for key in keys {
        let question = format!("SORT REVERSE {}", key.name().to_uppercase());
        let answer = ask(&question);
        let order = |mail: &Mail| join(&mail.sort(&SortProgram(vec![(key, true)])));
        let by_default = order(&ours);
        let explain = || {
            let otherwise = ours.differing_keys(&theirs, key);
            let is_equal = without(&answer, &otherwise) == without(&by_default, &otherwise);
            let is_text = profile == Profile::CClient && !key.is_number();
            assert!(is_equal || is_text, "{corpus} {question}: nothing explains the difference");
            let collation = if is_equal { "" } else { ", and another collation" };
            format!("{question}: {} messages read otherwise{collation}", count(&otherwise))
        };
        tally.add(&question, &answer, &order(&theirs), &by_default, explain);
    }
    tally.report(&format!("{corpus}, {profile:?}"), messages.len(), unknown);
}

impl Tally {
    fn add(
        &mut self,
        question: &str,
        answer: &str,
        by_profile: &str,
        by_default: &str,
        explain: impl Fn() -> String,
    ) {
        self.compared += 1;
        if answer != by_profile {
            self.different.push(first_difference(question, answer, by_profile));
        }
        match answer == by_default {
            true => self.equal_by_default += 1,
            false => self.explained.push(explain()),
        }
    }

    fn report(&self, title: &str, messages: usize, unknown: usize) {
        let (compared, different) = (self.compared, self.different.len());
        eprintln!(
            "{title}: compared {compared} answers over {messages} messages, equal {}, explained \
             {unknown} messages in charsets that the server does not know",
            compared - different
        );
        eprintln!(
            "{title}, by the default profile: equal {}, explained {}\n  {}",
            self.equal_by_default,
            self.explained.len(),
            self.explained.join("\n  ")
        );
        assert!(compared >= 9 && different == 0, "{title}\n{}", self.different.join("\n"));
    }
}

fn count(differs: &[bool]) -> usize {
    differs.iter().filter(|differs| **differs).count()
}

/// Returns an order without the marked messages.
fn without(order: &str, marked: &[bool]) -> Vec<usize> {
    let numbers = order.split(' ').map(|number| number.parse::<usize>().unwrap());
    numbers.filter(|number| !marked[number - 1]).collect()
}

fn join(order: &[u32]) -> String {
    order.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

fn first_difference(question: &str, theirs: &str, ours: &str) -> String {
    let at = theirs.bytes().zip(ours.bytes()).take_while(|(left, right)| left == right).count();
    let part = |text: &str| text[at.saturating_sub(40)..text.len().min(at + 160)].to_owned();
    format!("{question} from {at}\n  {}\n  {}", part(theirs), part(ours))
}
