//! Dovecot as a second opinion on valid and refused commands.

use barid_testkit::peers::{Dovecot, Imap};

use super::tables::{bytes, cases};

/// Commands after which a session is another one, or waits.
const NOT_SENT: &[&str] = &["LOGOUT", "IDLE", "STARTTLS", "COMPRESS"];

/// Reasons why only Dovecot 2.3 answers BAD, each with texts of the commands.
const REFUSED_BY_DOVECOT: &[(&str, &[&str])] = &[
    ("it is logged in already", &["LOGIN", "AUTHENTICATE"]),
    ("the mailbox has one message", &["MOVE 1,3"]),
    (
        "plugins that are not loaded",
        &["QUOTA", "MYRIGHTS", "GETACL", "LISTRIGHTS", "EACL", "SETACL"],
    ),
    (
        "RFC 7377, RFC 8437, RFC 10022, RFC 9394 with the last results",
        &["ESEARCH", "UNAUTH", "UIDBATCHES", "PARTIAL -1"],
    ),
    ("it takes modifiers of FETCH for those of PREVIEW", &["PREVIEW (CHANGEDSINCE"]),
    ("RFC 7889, RFC 8474", &["APPENDLIMIT", "EMAILID"]),
    ("the place of the options in the examples of RFC 5464", &["(DEPTH infinity) /"]),
    ("clients send back \\Recent; Outlook sends the other", &["(\\Recent x X)", "RFC822.PEEK"]),
    ("8-bit bytes in an atom: NO, because the name is not modified UTF-7", &["SELECT \u{e4}"]),
    ("the charset of SORT is missing: NO, because ALL is not a charset", &["SORT (DATE) ALL"]),
];

/// Reasons why only Dovecot does not answer BAD.
const ACCEPTED_BY_DOVECOT: &[(&str, &[&str])] = &[
    (
        "arguments that it does not look at",
        &[
            "NOOP x",
            "CAPABILITY  \"x\"",
            "ID x",
            "ID ((",
            "SELECT x CONDSTORE",
            "SELECT x (QRESYNC (1 2)) y",
            "DELETE x y",
            "EXPUNGE 1",
            "LSUB \"\" (a b)",
            "LSUB \"\" * RETURN",
        ],
    ),
    ("parameters of CREATE, of which it supports none", &["CREATE x ("]),
    ("lists without items", &["ENABLE", "LIST \"\" ()", "METADATA x ()"]),
    ("METADATA, which is not enabled here, answers NO", &["SETMETADATA x (/private/a"]),
    ("names end at a NUL, or a space is missing behind them", &["SELECT {3+}", "SELECT {1+}"]),
    ("QRESYNC twice", &["QRESYNC (1 2) QRESYNC"]),
    ("mod-sequences of 64 bits", &["9223372036854775808"]),
    ("events of NOTIFY that need others", &["(MessageNew))", "(selected (MailboxName))"]),
    ("REVERSE twice is REVERSE", &["(REVERSE REVERSE DATE)"]),
];

fn has_reason(reasons: &[(&str, &[&str])], input: &str) -> bool {
    reasons.iter().flat_map(|(_, texts)| *texts).any(|text| input.contains(text))
}

/// Returns the command without its tag, with all literals non-synchronizing.
fn for_dovecot(input: &str) -> Vec<u8> {
    let text = bytes(input);
    let text = text.strip_prefix("a ").unwrap_or(&text).trim_end_matches("\r\n");
    text.replace("}\r\n", "+}\r\n").replace("++}", "+}").into_bytes()
}

/// Returns `true` if Dovecot answers BAD.
fn is_bad(imap: &mut Imap, command: &[u8]) -> bool {
    imap.command("SELECT INBOX").unwrap();
    match imap.command_bytes(command) {
        Ok(_) => false,
        Err(error) => error.to_string().contains(": BAD "),
    }
}

#[test]
fn dovecot_accepts_and_refuses_the_same() {
    let Some(dovecot) = Dovecot::new() else { return };
    let location = format!("maildir:{}", dovecot.folder().join("box").display());
    let mut imap = dovecot.imap(&location, &[]).unwrap();
    imap.append("INBOX", "", b"Subject: x\r\n\r\ny\r\n").unwrap();
    imap.command("ENABLE QRESYNC").unwrap();
    let tables = [include_str!("valid.txt"), include_str!("refused.txt")];
    let (mut equal, mut explained, mut unexplained) = (0, 0, Vec::new());
    for (input, events) in tables.into_iter().flat_map(cases) {
        if NOT_SENT.iter().any(|name| input.contains(name)) {
            continue;
        }
        let ours = events.iter().any(|event| event.contains(" BAD "));
        let theirs = is_bad(&mut imap, &for_dovecot(input));
        let reasons = match (ours, theirs) {
            (false, true) => REFUSED_BY_DOVECOT,
            (true, false) => ACCEPTED_BY_DOVECOT,
            _ => {
                equal += 1;
                continue;
            }
        };
        match has_reason(reasons, input) {
            true => explained += 1,
            false => unexplained.push(format!("{input}: BAD here {ours}, from Dovecot {theirs}")),
        }
    }
    println!("{equal} of {} commands are equal, {explained} explained", equal + explained);
    assert!(unexplained.is_empty(), "{unexplained:#?}");
    assert!(equal >= 220, "{equal}");
}
