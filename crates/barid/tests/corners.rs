//! Corners of SEARCH and FETCH, as Dovecot answers them.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use barid::fetch::FetchItems;
use barid::query::parse_imap;
use barid::{Error, Mailbox, OpenOptions, Uid, UidSet};
use barid_testkit::Scratch;
use barid_testkit::peers::{Dovecot, Imap};

use crate::fetching::{Token, domain, fetch, items, maildir_of, mapped, tokens};

const MESSAGES: [&str; 12] = [
    "To: undisclosed-recipients:;\nSubject: text  \n\nb\n",
    "To: g: a@b, c@d;\nSubject: a text \nX-H: tail  \n\nb\n",
    "To: \"only quoted\"\nFrom: onlyatom\nCc: two atoms\nBcc: \"q\", x@y, \"r\"\n\
     Subject: =?utf-8?q?text=20?=\n\nb\n",
    "To: g:;, x@y\nSubject:   text\n\nb\n",
    "To: undisclosed-recipients: ;\nSubject: t \n \n\nb\n",
    "To: a group : ;\nSubject: text\n\nb\n",
    "Content-Transfer-Encoding: x-unknown\nSubject: u\n\nbody=41\n",
    "To: \"quoted group\": a@b;\nSubject: text\t\n\nb\n",
    "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Transfer-Encoding: x-u\n\none\n\
     --b\n\ntwo\n--b--\n",
    "To: \"q\" (comment), g: \"q\", a@b;\nCc: <\"q\">\nBcc: \"q\"; x@y\n\nb\n",
    "From: a@b\nSender: \"s\"\nReply-To: \"q\" <c@d>, \"e\"\nSubject: a\nX: b",
    "Subject: text\n  \n\nb\n",
];

const QUERIES: [&str; 27] = [
    "TO \"undisclosed-recipients:;\"",
    "TO \"undisclosed-recipients: ;\"",
    "TO \": ;\"",
    "TO \":;\"",
    "TO \"recipients:;\"",
    "TO \":;, <x@y>\"",
    "TO \";, <x@y>\"",
    "TO \"b>;\"",
    "TO \"g: <a@b>, <c@d>;\"",
    "TO \"d>; \"",
    "TO \"\\\"quoted group\\\": <a@b>;\"",
    "TO \"only quoted\"",
    "HEADER To \"undisclosed-recipients: ;\"",
    "SUBJECT \"text \"",
    "SUBJECT \"text  \"",
    "SUBJECT \" text\"",
    "SUBJECT \"t \"",
    "SUBJECT \" \"",
    "HEADER Subject \"text \"",
    "HEADER Subject \"text  \"",
    "HEADER X-H \"tail \"",
    "HEADER X-H \"tail  \"",
    "HEADER X-H \"tail   \"",
    "TEXT \"Subject: text \"",
    "NOT SUBJECT \"text \"",
    "OR SUBJECT \"text \" TO \":;\"",
    "SUBJECT \"TEXT \" NOT TO \":;\"",
];

/// Sections of existing and of missing parts.
const SECTIONS: [&str; 9] = [
    "BODY[1]",
    "BODY[1.1]",
    "BODY[2]",
    "BODY[3]",
    "BODY[1.1.1]",
    "BODY[1.HEADER]",
    "BODY[1.TEXT]",
    "BODY[2]<0.5>",
    "BODY[HEADER.FIELDS (TO SENDER)]",
];

struct Pair {
    imap: Imap,
    mailbox: Mailbox,
    uids: Vec<Uid>,
    _scratch: Scratch,
}

impl Pair {
    fn new(dovecot: &Dovecot, cache: bool) -> Self {
        Self::of(dovecot, cache, &MESSAGES.map(|message| message.as_bytes().to_vec()))
    }

    fn of(dovecot: &Dovecot, cache: bool, messages: &[Vec<u8>]) -> Self {
        let scratch = Scratch::new("corners").unwrap();
        let maildir = maildir_of(&scratch, messages.iter().map(Vec::as_slice));
        let dir = |name: &str| scratch.path().join(name);
        let options = OpenOptions::new(cache.then(|| dir("cache")), dir("state"));
        let mailbox = Mailbox::open(&maildir.to_string_lossy(), &options).unwrap();
        let uids: Vec<Uid> = mailbox.uids().unwrap().into_iter().filter_map(Uid::new).collect();
        let mut imap = dovecot.imap(&dovecot.maildir_location(Path::new(&maildir)), &[]).unwrap();
        imap.command("EXAMINE INBOX").unwrap();
        Self { imap, mailbox, uids, _scratch: scratch }
    }
}

/// Charsets by the names that occur in mail, each with a text in it.
const CHARSETS: [(&str, &str); 32] = [
    ("cp932", "\u{65e5}\u{672c}\u{8a9e}"),
    ("eucjp", "\u{65e5}\u{672c}\u{8a9e}"),
    ("iso2022jp", "\u{65e5}\u{672c}\u{8a9e}"),
    ("iso-2022-jp-2", "\u{65e5}\u{672c} \u{4f60} \u{ac00}"),
    ("cp949", "\u{d55c}\u{ad6d}\u{c5b4} \u{b622}"),
    ("uhc", "\u{d55c}\u{ad6d}\u{c5b4} \u{b622}"),
    ("euckr", "\u{d55c}\u{ad6d}\u{c5b4}"),
    ("iso-2022-kr", "\u{d55c}\u{ad6d}\u{c5b4}"),
    ("johab", "\u{d55c}\u{ad6d}\u{c5b4} \u{b622} \u{97d3}"),
    ("cp950", "\u{7e41}\u{9ad4}\u{4e2d}\u{6587}"),
    ("big-5", "\u{7e41}\u{9ad4}\u{4e2d}\u{6587}"),
    ("cp936", "\u{7b80}\u{4f53}\u{4e2d}\u{6587}"),
    ("euc-cn", "\u{7b80}\u{4f53}\u{4e2d}\u{6587}"),
    ("cp437", "\u{e9}t\u{e9} \u{3c0}\u{2248}"),
    ("cp737", "\u{3b1}\u{3b2}\u{3b3}"),
    ("cp775", "\u{105}\u{10d}\u{17e}"),
    ("cp850", "na\u{ef}ve"),
    ("cp852", "\u{17e}lu\u{165}"),
    ("cp855", "\u{43f}\u{440}\u{438}"),
    ("cp857", "\u{131}\u{15f}\u{131}k"),
    ("cp858", "na\u{ef}ve \u{20ac}"),
    ("cp862", "\u{5d0}\u{5d1}\u{5d2}"),
    ("cp869", "\u{3b1}\u{3b2}\u{3b3}"),
    ("cp874", "\u{e44}\u{e17}\u{e22}"),
    ("tis620", "\u{e44}\u{e17}\u{e22}"),
    ("cp1125", "\u{43f}\u{440}\u{438}\u{454}"),
    ("koi8r", "\u{43f}\u{440}\u{438}"),
    ("koi8-t", "\u{493}\u{430}\u{43c}"),
    ("latin9", "\u{153}uvre"),
    ("iso_8859-16", "\u{219}i"),
    ("armscii-8", "\u{561}\u{562}\u{563}"),
    ("utf-32", "\u{e9}t\u{e9}"),
];

#[test]
fn charsets_are_read_as_dovecot_reads_them() {
    let Some(dovecot) = Dovecot::new() else { return };
    let encoded = CHARSETS.map(|(name, text)| {
        let bytes = iconv(name, &format!("before {text} behind"));
        [format!("Content-Type: text/plain; charset={name}\n\n").as_bytes(), &bytes, b"\n"].concat()
    });
    let mut pair = Pair::of(&dovecot, true, &encoded);
    for (number, (name, text)) in (1_u32..).zip(CHARSETS) {
        let query = format!("{number} BODY \"{text}\"");
        let command = format!("SEARCH CHARSET UTF-8 {query}");
        let theirs = pair.imap.command(&command).unwrap().find("SEARCH").unwrap_or_default();
        let program = parse_imap(query.as_bytes()).unwrap().program;
        let found = pair.mailbox.search(&program, &UidSet::new()).unwrap();
        let ours: Vec<String> = found.rows.iter().map(|row| (row + 1).to_string()).collect();
        assert_eq!((ours.join(" "), &theirs), (number.to_string(), &ours.join(" ")), "{name}");
    }
    pair.imap.logout().unwrap();
}

/// Converts a text to a charset of the C library.
fn iconv(name: &str, text: &str) -> Vec<u8> {
    let mut command = Command::new("iconv");
    command.args(["-f", "UTF-8", "-t", name]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{name}");
    output.stdout
}

#[test]
fn texts_are_found_as_dovecot_finds_them() {
    let Some(dovecot) = Dovecot::new() else { return };
    let mut pair = Pair::new(&dovecot, true);
    for query in QUERIES {
        let reply = pair.imap.command(&format!("SEARCH {query}")).unwrap();
        let numbers = reply.find("SEARCH").unwrap_or_default();
        let theirs: Vec<u32> = numbers.split_whitespace().map(|n| n.parse().unwrap()).collect();
        let program = parse_imap(query.as_bytes()).unwrap().program;
        let found = pair.mailbox.search(&program, &UidSet::new()).unwrap();
        let ours: Vec<u32> = found.rows.iter().map(|row| row + 1).collect();
        assert_eq!(ours, theirs, "{query}");
    }
    pair.imap.logout().unwrap();
}

#[test]
fn addresses_and_parts_are_told_as_dovecot_tells_them() {
    let Some(dovecot) = Dovecot::new() else { return };
    let mut pair = Pair::new(&dovecot, false);
    let wanted = format!("ENVELOPE {}", SECTIONS.join(" "));
    let (mut compared, all) = (0, pair.uids.clone());
    let ours = fetch(&mut pair.mailbox, &all, &wanted);
    let reply =
        pair.imap.command(&format!("FETCH 1:* ({})", wanted.replace("BODY[", "BODY.PEEK[")));
    let theirs: Vec<_> = reply.unwrap().untagged.iter().map(|line| tokens(line).0).collect();
    let theirs: Vec<_> = theirs.iter().filter_map(|answer| items(answer)).collect();
    assert_eq!(ours.len(), theirs.len());
    for (ours, (number, theirs)) in ours.iter().zip(&theirs) {
        let (_, ours) = items(ours).unwrap();
        for (name, ours) in &ours {
            let (ours, theirs) = (mapped(ours, domain), mapped(&theirs[name], domain));
            compared += 1;
            // For Dovecot, a part of a part without parts is that part, in a multipart.
            if MESSAGES[*number as usize - 1].contains("multipart") && name.starts_with("BODY[1.1")
            {
                assert_eq!(ours, [Token::Text(Vec::new())], "{number} {name}");
                continue;
            }
            assert_eq!(ours, theirs, "{number} {name}");
        }
    }
    assert_eq!(compared, MESSAGES.len() * (1 + SECTIONS.len()));
    pair.imap.logout().unwrap();
}

#[test]
fn what_cannot_be_decoded_is_refused_as_dovecot_refuses_it() {
    let Some(dovecot) = Dovecot::new() else { return };
    let mut pair = Pair::new(&dovecot, false);
    for (number, item) in [
        (7, "BINARY[1]"),
        (7, "BINARY.SIZE[1]"),
        (7, "BINARY[]"),
        (7, "BINARY[1]<0.3>"),
        (7, "BINARY[2]"),
        (9, "BINARY[1]"),
        (9, "BINARY[2]"),
        (9, "BINARY[]"),
        (9, "BINARY[3]"),
        (9, "BINARY.SIZE[3]"),
    ] {
        let peek = item.replace("BINARY[", "BINARY.PEEK[");
        let reply = pair.imap.command(&format!("FETCH {number} ({peek})"));
        let is_refused = match &reply {
            Ok(_) => false,
            Err(error) => error.to_string().contains("[UNKNOWN-CTE]"),
        };
        assert!(reply.is_ok() || is_refused, "{item}: {reply:?}");
        let uid = pair.uids[number - 1];
        let asked = FetchItems::parse(&format!("UID {item}")).unwrap();
        let mut text = Vec::new();
        let report = pair.mailbox.fetch(
            &[uid],
            &asked,
            &|fetched, out| fetched.write_imap(out),
            &mut |some| {
                text.extend_from_slice(some);
                true
            },
        );
        let report = report.unwrap();
        let errors: Vec<&Error> = report.unreadable.iter().map(|(_, error)| error).collect();
        let refused = matches!(errors[..], [Error::UnknownEncoding { .. }]);
        assert_eq!(refused, is_refused, "{number} {item}: {errors:?}");
        let (_, answer) = items(&tokens(&text).0).unwrap();
        assert_eq!(answer.len(), if refused { 1 } else { 2 }, "{number} {item}");
        if let Ok(reply) = reply {
            let theirs = reply.untagged.iter().find_map(|line| items(&tokens(line).0)).unwrap().1;
            assert_eq!(answer.get(item), theirs.get(item), "{number} {item}");
        }
    }
    pair.imap.logout().unwrap();
}
