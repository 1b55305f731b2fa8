//! imap-codec, another implementation of the grammar, as a second opinion.

use arbitrary::{Arbitrary as _, Unstructured};
use imap_codec::CommandCodec;
use imap_codec::decode::Decoder as _;
use imap_codec::encode::{Encoder as _, Fragment};
use imap_codec::imap_types::command::Command;
use imap_codec::imap_types::core::LiteralMode;

use super::tables::{bytes, cases};
use super::*;

/// Reasons why imap-codec refuses commands of `valid.txt`, each with texts of these commands.
const REFUSED_BY_CODEC: &[(&str, &[&str])] = &[
    (
        "spaces that Dovecot accepts",
        &["LOGOUT ", "( QRESYNC", "/ ", "( messages", "( FLAGS", "( To )", "  1:3", "(UID)("],
    ),
    ("bytes in atoms, and forms of ID, that Dovecot accepts", &["p*\\w", "a ID", "os)"]),
    ("the place of the options in the examples of RFC 5464", &["(DEPTH infinity) /"]),
    ("Outlook sends it", &["RFC822.PEEK"]),
    ("iOS sends 0", &["CHANGEDSINCE 0"]),
    ("RFC 4314", &["MYRIGHTS x", "GETACL", "LISTRIGHTS", "SETACL", "DELETEACL"]),
    ("RFC 4731 and its extensions", &["RETURN"]),
    ("RFC 5182", &["$"]),
    ("RFC 5258 and its extensions, RFC 6154, XLIST", &["LIST (", "(%", "XLIST", "(USE"]),
    (
        "RFC 5267, RFC 5465, RFC 7377, RFC 8437, RFC 10022",
        &["CANCELUPDATE", "NOTIFY", "ESEARCH", "UNAUTHENTICATE", "UIDBATCHES"],
    ),
    ("RFC 7889, RFC 8474, RFC 8514, RFC 8970, RFC 9394", &["APPENDLIMIT", "PREVIEW", "PARTIAL"]),
];

/// Reasons why commands are refused that are valid for imap-codec, each with texts of the answer.
const REFUSED_BY_US: &[(&str, &[&str])] = &[
    ("names that no mailbox can have", &["[CANNOT] The mailbox name is "]),
    ("texts that are not UTF-8", &["is not valid UTF-8.", "not UTF-8"]),
    ("charsets other than US-ASCII and UTF-8", &["[BADCHARSET"]),
    ("algorithms that the server does not have", &["Unknown algorithm"]),
    ("mod-sequences have 63 bits (RFC 7162 §7)", &["Expected a mod-sequence"]),
    ("sets without * (RFC 7162 §7)", &["Expected a set without *"]),
    ("QRESYNC once", &["Unknown parameter QRESYNC"]),
    ("VANISHED has conditions (RFC 7162 §3.2.6)", &["VANISHED needs"]),
    ("names of entries have a form (RFC 5464 §3.2)", &["Expected an entry name"]),
    ("lists that are not empty", &["needs items", "needs entries"]),
    ("names that no header field can have", &["Expected the name of a header field"]),
    ("system flags that a client cannot set", &["Expected a known system flag"]),
];

fn has_reason(reasons: &[(&str, &[&str])], text: &str) -> bool {
    reasons.iter().flat_map(|(_, texts)| *texts).any(|part| text.contains(part))
}

fn is_refused(events: &[String]) -> bool {
    events.iter().any(|event| event.contains(" BAD ") || event.contains(" NO "))
}

/// Leaves out `+ OK`, since imap-codec chooses the form of literals itself.
fn without_continue(events: impl IntoIterator<Item = String>) -> Vec<String> {
    events.into_iter().filter(|event| event != "Continue").collect()
}

#[test]
fn valid_commands_are_those_of_imap_codec() {
    let (mut equal, mut explained) = (0, 0);
    for (input, expected) in cases(include_str!("valid.txt")) {
        let codec = CommandCodec::new();
        let text = bytes(input);
        let Ok((rest, command)) = codec.decode(text.as_bytes()) else {
            assert!(has_reason(REFUSED_BY_CODEC, input), "imap-codec refuses {input}");
            explained += 1;
            continue;
        };
        assert!(rest.is_empty(), "{input}");
        // The same command in another form has the same value.
        let again = codec.encode(&command).dump();
        let found = without_continue(events(logged_in(), &again, usize::MAX));
        let expected = without_continue(expected.into_iter().map(str::to_owned));
        assert_eq!(found, expected, "{input} as {}", again.escape_ascii());
        equal += 1;
    }
    println!("{equal} commands are equal, {explained} explained");
    assert!(equal >= 70, "{equal}");
}

#[test]
fn refused_commands_are_those_of_imap_codec() {
    let (mut equal, mut explained) = (0, 0);
    for (input, answer) in cases(include_str!("refused.txt")) {
        if let Ok((rest, command)) = CommandCodec::new().decode(bytes(input).as_bytes()) {
            assert!(has_reason(REFUSED_BY_US, answer[0]), "imap-codec reads {command:?}, {rest:?}");
            explained += 1;
        } else {
            equal += 1;
        }
    }
    println!("{equal} commands are refused by both, {explained} explained");
    assert!(equal >= 130, "{equal}");
}

/// Sends a command as a client does that waits for `+ OK` where it must; returns the events.
fn sent(command: &Command<'_>) -> (Vec<u8>, Vec<String>) {
    let mut decoder = logged_in();
    let (mut input, mut found) = (Vec::new(), Vec::new());
    for fragment in CommandCodec::new().encode(command) {
        let (Fragment::Line { data } | Fragment::Literal { data, .. }) = &fragment;
        let waits = matches!(&fragment, Fragment::Literal { mode: LiteralMode::Sync, .. });
        if waits && is_refused(&found) {
            break;
        }
        input.extend_from_slice(data);
        decoder.push(data);
        loop {
            match decoder.next() {
                Event::More => break,
                event => found.push(show(&event)),
            }
        }
    }
    decoder.push(b"next NOOP\r\n");
    assert_eq!(show(&decoder.next()), "next Noop", "after {}", input.escape_ascii());
    (input, found)
}

/// Returns the first word of our command for the first word of one of imap-codec.
fn our_name(name: &str) -> &str {
    match name {
        "Examine" => "Select",
        "Unsubscribe" => "Subscribe",
        "Lsub" => "List",
        "ExpungeUid" => "Expunge",
        "Move" => "Copy",
        name => name,
    }
}

#[test]
fn random_commands_of_imap_codec_are_read() {
    let mut random = fastrand::Rng::with_seed(3501);
    let (mut read, mut explained) = (0, 0);
    let mut names = std::collections::BTreeSet::new();
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..random.usize(16..400)).map(|_| random.u8(..)).collect();
        let Ok(command) = Command::arbitrary(&mut Unstructured::new(&bytes)) else { continue };
        let (input, found) = sent(&command);
        if is_refused(&found) {
            let has_reason = found.iter().any(|event| has_reason(REFUSED_BY_US, event));
            assert!(has_reason, "{}: {found:?}", input.escape_ascii());
            explained += 1;
            continue;
        }
        let name = format!("{:?}", command.body);
        let name = our_name(name.split([' ', '(']).next().unwrap_or_default());
        let last = found.last().map_or("", String::as_str);
        let start = format!("{} {name}", command.tag.as_ref());
        let is_same = last.to_ascii_lowercase().starts_with(&start.to_ascii_lowercase());
        assert!(is_same, "{}: {found:?}", input.escape_ascii());
        names.insert(name.to_owned());
        read += 1;
    }
    println!("{read} commands of {} kinds are read, {explained} explained", names.len());
    assert!(read >= 1_800 && names.len() >= 28, "{read} {names:?}");
}
