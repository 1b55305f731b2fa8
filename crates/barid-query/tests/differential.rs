//! Random small mailboxes, threaded and sorted by Dovecot, c-client and the library.

use std::io;

use barid_message::Profile;
use barid_query::{SortKey, SortProgram, ThreadAlgorithm};
use barid_testkit::Scratch;
use barid_testkit::peers::{CClient, Dovecot};
use fastrand::Rng;

use crate::ask::{c_client_answer, dovecot_answers, dovecot_command};
use crate::mail::{Mail, Message};
use crate::mailbox_files::{mbox, rfc5322_date, write_maildir, write_mbox};

const MAILBOXES: usize = 10_000;
const SEED: u64 = 5256;

/// Mailboxes in one batch of questions to a peer, so that neither side waits for the other.
const BATCH: usize = 25;

/// A mailbox's number and the questions about it, in IMAP's syntax.
type Questions = (usize, Vec<String>);

/// A peer's answers to all questions of a batch, in their order.
type Ask<'a> = dyn FnMut(&[Questions]) -> io::Result<Vec<String>> + 'a;

#[test]
fn dovecot() {
    let Some(peer) = Dovecot::new() else { return };
    let scratch = Scratch::new("threads-dovecot").unwrap();
    let mailboxes = mailboxes();
    for (number, messages) in mailboxes.iter().enumerate() {
        write_maildir(&scratch.path().join(format!("mail/box{number}")), messages).unwrap();
    }
    let folder = scratch.path().display();
    let location = format!("maildir:{folder}/mail:INBOX={folder}/inbox:LAYOUT=fs:INDEX=MEMORY");
    let mut imap = peer.imap(&location, &[("mail_fsync", "never")]).unwrap();
    let mut ask = |batch: &[Questions]| {
        let mut commands = Vec::new();
        for (mailbox, questions) in batch {
            commands.push(format!("SELECT box{mailbox}"));
            commands.extend(questions.iter().map(|question| dovecot_command(question)));
        }
        dovecot_answers(&mut imap, &commands)
    };
    compare(&mailboxes, Profile::Dovecot, &mut ask);
    imap.logout().unwrap();
}

#[test]
fn c_client() {
    let Some(mut peer) = CClient::new() else { return };
    let mailboxes = mailboxes();
    for (number, messages) in mailboxes.iter().enumerate() {
        write_mbox(&peer.folder().join(format!("box{number}")), messages).unwrap();
    }
    // Passes the folder to the peer's user, which would take too long for each mailbox.
    peer.open("box0").unwrap();
    let mut ask = |batch: &[Questions]| {
        let mut answers = Vec::new();
        for (mailbox, questions) in batch {
            let lines = peer.command(&format!("examine box{mailbox}"))?;
            assert_eq!(lines, [mailboxes[*mailbox].len().to_string()], "{:?}", peer.messages);
            for question in questions {
                answers.push(c_client_answer(&mut peer, question)?);
            }
        }
        Ok(answers)
    };
    compare(&mailboxes, Profile::CClient, &mut ask);
}

/// Asks all questions of every mailbox; fails unless all answers are equal.
fn compare(mailboxes: &[Vec<Message>], profile: Profile, ask: &mut Ask<'_>) {
    let mut random = Rng::with_seed(SEED);
    let (mut equal, mut different) = (0, Vec::new());
    for (batch, messages) in mailboxes.chunks(BATCH).enumerate() {
        let mut questions_of: Vec<Questions> = Vec::new();
        let mut ours: Vec<String> = Vec::new();
        for (number, messages) in (batch * BATCH..).zip(messages) {
            let mail = Mail::read(messages, profile);
            let (asked, answers) = questions(&mail, profile, &mut random).into_iter().unzip();
            questions_of.push((number, asked));
            ours.extend::<Vec<String>>(answers);
        }
        let theirs = ask(&questions_of).unwrap_or_else(|error| panic!("batch {batch}: {error}"));
        assert_eq!(theirs.len(), ours.len(), "batch {batch}");
        let mut answers = theirs.iter().zip(&ours);
        for (number, questions) in &questions_of {
            let wrong = questions.iter().zip(answers.by_ref()).filter(|(_, (a, b))| a != b);
            let wrong: Vec<String> = wrong
                .map(|(question, (theirs, ours))| {
                    format!("box{number} {question}\n  {theirs}\n  {ours}")
                })
                .collect();
            equal += usize::from(wrong.is_empty());
            different.extend(wrong);
        }
    }
    eprintln!("{profile:?}: compared {}, equal {equal}, explained 0", mailboxes.len());
    if let Some(first) = different.first() {
        let number: usize = first[3..first.find(' ').unwrap()].parse().unwrap();
        let text = String::from_utf8_lossy(&mbox(&mailboxes[number])).into_owned();
        different.truncate(20);
        panic!("{equal} of {} are equal\n{}\n{text}", mailboxes.len(), different.join("\n"));
    }
    assert_eq!((equal, mailboxes.len()), (MAILBOXES, MAILBOXES));
}

/// Returns the questions for a mailbox, and the library's answers.
fn questions(mail: &Mail, profile: Profile, random: &mut Rng) -> Vec<(String, String)> {
    let mut questions = Vec::new();
    let mut algorithms = vec![ThreadAlgorithm::References, ThreadAlgorithm::OrderedSubject];
    // Keys that c-client does not have.
    let mut keys = SortKey::ALL.to_vec();
    if profile == Profile::Dovecot {
        algorithms.push(ThreadAlgorithm::Refs);
    } else {
        keys.retain(|key| !matches!(key, SortKey::DisplayFrom | SortKey::DisplayTo));
    }
    for algorithm in algorithms {
        let name = algorithm.name().to_uppercase();
        questions.push((format!("THREAD {name}"), mail.thread(algorithm)));
    }
    let program: Vec<(SortKey, bool)> = (0..random.usize(1..4))
        .map(|_| (keys[random.usize(..keys.len())], random.bool()))
        .collect();
    let text: Vec<String> = program
        .iter()
        .map(|(key, reverse)| {
            let reverse = if *reverse { "REVERSE " } else { "" };
            format!("{reverse}{}", key.name().to_uppercase())
        })
        .collect();
    let order: Vec<String> =
        mail.sort(&SortProgram(program).read_by(profile)).iter().map(u32::to_string).collect();
    questions.push((format!("SORT {}", text.join(" ")), order.join(" ")));
    questions
}

fn mailboxes() -> Vec<Vec<Message>> {
    let mut random = Rng::with_seed(SEED);
    (0..MAILBOXES).map(|_| mailbox(&mut random)).collect()
}

/// Returns a mailbox of up to twelve messages that have much in common.
fn mailbox(random: &mut Rng) -> Vec<Message> {
    let ids = random.usize(1..14);
    let days = random.i64(1..8);
    let refs_max = random.usize(0..5);
    let words = random.usize(1..4);
    (0..random.usize(1..=12))
        .map(|number| {
            let raw = message(random, number, (ids, days, refs_max, words));
            Message { raw, arrival: 1_000_000_000 + random.i64(0..days) * 86400 }
        })
        .collect()
}

fn message(
    random: &mut Rng,
    number: usize,
    (ids, days, refs_max, words): (usize, i64, usize, usize),
) -> Vec<u8> {
    let mut raw = String::new();
    let mut field = |name: &str, body: Option<String>| {
        if let Some(body) = body {
            raw.push_str(&format!("{name}: {body}\n"));
        }
    };
    for (name, rarity) in [("From", 9), ("To", 5), ("Cc", 2)] {
        field(name, (random.u8(..10) < rarity).then(|| addresses(random)));
    }
    field("Date", date(random, days));
    field("Subject", subject(random, words));
    field("Message-ID", (random.u8(..10) != 0).then(|| id(random, ids)));
    let refs: Vec<String> = (0..random.usize(..=refs_max)).map(|_| id(random, ids)).collect();
    let gap = ["", " ", "\n ", "\n\t"][random.usize(..4)];
    field("References", (!refs.is_empty()).then(|| refs.join(gap)));
    field("In-Reply-To", (random.u8(..3) == 0).then(|| id(random, ids) + &id(random, ids)));
    raw.push('\n');
    raw.push_str(&"x\n".repeat(random.usize(..4) * 10));
    raw.push_str(&format!("{number}\n"));
    raw.into_bytes()
}

/// Returns an id that is mostly valid, in varying quoting.
fn id(random: &mut Rng, ids: usize) -> String {
    let number = random.usize(..ids);
    match random.u8(..24) {
        0 => format!("<\"{number}\"@id>"),
        1 => format!("<{number}>"),
        _ => format!("<{number}@id>"),
    }
}

fn date(random: &mut Rng, days: i64) -> Option<String> {
    let seconds = 1_000_000_000 + random.i64(0..days) * 86400;
    match random.u8(..12) {
        0 => None,
        1 => Some("yesterday".to_owned()),
        2 => Some(rfc5322_date(0, 0)),
        _ => Some(rfc5322_date(seconds, random.i64(-11..12))),
    }
}

fn subject(random: &mut Rng, words: usize) -> Option<String> {
    let word = ["foo", "bar", "caf\u{e9} \u{fb01}"][random.usize(..words)];
    let word = if word.is_ascii() { word } else { "=?utf-8?q?caf=C3=A9_=EF=AC=81?=" };
    Some(match random.u8(..16) {
        0 => return None,
        1 => String::new(),
        2 => format!("Re: {word}"),
        3 => format!("[x] {word}"),
        4 => format!("Fwd: {word} (fwd)"),
        5 => format!("[Fwd: {word}]"),
        6 => format!("RE:{}", word.to_uppercase().replace("UTF-8?Q", "utf-8?q")),
        7 => format!("[x] Re: [y] {word}"),
        8 => format!("Re[2] : {word}"),
        9 => "[x]".to_owned(),
        10 => "Re:".to_owned(),
        11 => format!("[Fwd: Re: {word} (fwd)] "),
        12 => format!("\t{word}\n  (FWD) "),
        _ => word.to_owned(),
    })
}

fn addresses(random: &mut Rng) -> String {
    let mailbox = ["anna", "Anna", "bob", "carl.x", "\"d e\""][random.usize(..5)];
    let address = format!("{mailbox}@{}.example", ["a", "b"][random.usize(..2)]);
    match random.u8(..10) {
        0 => format!("group: {address};"),
        1 => "nobody:;".to_owned(),
        2 => String::new(),
        3 => format!("=?utf-8?q?=C3=84nne?= <{address}>"),
        4 => format!("\"Zoe\" <{address}>, x@y"),
        5 => format!("zoe <{address}>"),
        6 => format!("{address} (Zoe)"),
        7 => format!("<{address}>"),
        _ => address,
    }
}
