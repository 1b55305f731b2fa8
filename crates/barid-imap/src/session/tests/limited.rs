//! MESSAGELIMIT (RFC 9738).

use super::{Client, MESSAGES};
use crate::memory::MemoryAccount;
use crate::session::SessionSettings;

/// Returns a client whose commands process two messages of four.
fn limited() -> Client {
    let settings =
        SessionSettings { message_limit: std::num::NonZeroU32::new(2), ..Default::default() };
    let mut client = Client::with(&MemoryAccount::new(&MESSAGES), settings);
    assert!(client.send(b"x CAPABILITY\r\n").contains(" MESSAGELIMIT=2 "));
    client.select();
    client
}

#[test]
fn the_highest_uids_are_processed_from_the_highest_down() {
    let mut client = limited();
    let code = "x OK [MESSAGELIMIT 2 3]";
    client.check("FETCH 1:2 UID", "* 1 FETCH (UID 1) / * 2 FETCH (UID 2) / x OK");
    client.check("FETCH 1:* UID", &format!("* 4 FETCH (UID 4) / * 3 FETCH (UID 3) / {code}"));
    client.check("UID FETCH 1,2,4 FLAGS (CHANGEDSINCE 1)", {
        "* OK [HIGHESTMODSEQ 5] / * 4 FETCH (UID 4 FLAGS (\\Recent) MODSEQ (5)) / \
         * 2 FETCH (UID 2 FLAGS (\\Recent) MODSEQ (3)) / x OK [MESSAGELIMIT 2 2]"
    });
    client.check("STORE 1:4 +FLAGS (\\Seen)", {
        "* 4 FETCH (MODSEQ (6) FLAGS (\\Seen \\Recent)) / \
         * 3 FETCH (MODSEQ (6) FLAGS (\\Seen \\Recent)) / x OK [MESSAGELIMIT 2 3]"
    });
    client.check("SEARCH UNSEEN", &format!("* SEARCH / {code}"));
    client.check("SEARCH 1:3 ALL", "* SEARCH 3 2 / x OK [MESSAGELIMIT 2 2]");
    client.check("SEARCH ALL", &format!("* SEARCH 4 3 / {code}"));
    client.check("SEARCH UIDBEFORE 3", "* SEARCH 1 2 / x OK");
    client.check("UID SEARCH UIDAFTER 3", "* SEARCH 4 / x OK");
    client.check("UID SEARCH UIDAFTER 4294967295", "* SEARCH / x OK");
    client.check("UID SEARCH UIDBEFORE 1", "* SEARCH / x OK");
    client.check("UID SEARCH UIDBEFORE 0", "x BAD");
    client.check("SEARCH OR UIDAFTER 3 UIDAFTER 3", &format!("* SEARCH 4 / {code}"));
    let saved = format!("* ESEARCH (TAG \"x\") COUNT 2 / {code}");
    client.check("SEARCH RETURN (SAVE COUNT) ALL", &saved);
    client.check("SEARCH $", "* SEARCH 3 4 / x OK");
}

#[test]
fn what_has_all_messages_or_none_is_refused() {
    let mut client = limited();
    client.check("COPY 2:4 INBOX", "x NO [MESSAGELIMIT 2 3]");
    client.check("COPY 2:3 INBOX", "* 6 EXISTS / * 6 RECENT / x OK [COPYUID 1 2:3 5:6]");
    client.check("SORT (DATE) UTF-8 ALL", "x NO [MESSAGELIMIT 2 5]");
    client.check("SORT (DATE) UTF-8 UID 1:2", "* SORT 2 1 / x OK");
    client.check("THREAD REFS UTF-8 ALL", "x NO [MESSAGELIMIT 2 5]");
    client.check("FETCH 1:* UID (PARTIAL -1:-3)", "x NO [MESSAGELIMIT 2]");
    client.check("FETCH 1:* UID (PARTIAL 2:3)", "* 2 FETCH (UID 2) / * 3 FETCH (UID 3) / x OK");
    client.check("APPEND INBOX {1+}\r\na {1+}\r\nb {1+}\r\nc", "x NO [MESSAGELIMIT 2]");
    client.check("APPEND INBOX {1+}\r\na {1+}\r\nb", {
        "* 8 EXISTS / * 8 RECENT / x OK [APPENDUID 1 7:8]"
    });
    let answer = client.send(b"x SEARCH RETURN (UPDATE) ALL\r\n");
    assert!(answer.contains("* NO [NOUPDATE \"x\"]"), "{answer}");
}

#[test]
fn messages_are_removed_in_parts() {
    let mut client = limited();
    client.check("CREATE box", "x OK [MAILBOXID (F2)]");
    client.check("MOVE 1:3 box", {
        "* OK [COPYUID 2 2:3 1:2] / * 2 EXPUNGE / * 2 EXPUNGE / x OK [MESSAGELIMIT 2 2]"
    });
    let mut client = limited();
    client.check("STORE 1:2 +FLAGS.SILENT (\\Deleted)", "x OK");
    // Only messages with \Deleted count, and EXPUNGE has no limit.
    client.check("UID EXPUNGE 1:*", "* 1 EXPUNGE / * 1 EXPUNGE / x OK");
    let mut client = limited();
    client.check("STORE 1:2 +FLAGS.SILENT (\\Deleted)", "x OK");
    client.check("STORE 4 +FLAGS.SILENT (\\Deleted)", "x OK");
    client.check("UID EXPUNGE 1:*", "* 2 EXPUNGE / * 3 EXPUNGE / x OK [MESSAGELIMIT 2 2]");
    client.check("STORE 1:2 +FLAGS.SILENT (\\Deleted)", "x OK");
    client.check("APPEND INBOX {1+}\r\na", "* 3 EXISTS / * 3 RECENT / x OK [APPENDUID 1 5]");
    client.check("STORE 3 +FLAGS.SILENT (\\Deleted)", "x OK");
    client.check("EXPUNGE", "* 1 EXPUNGE / * 1 EXPUNGE / * 1 EXPUNGE / x OK");
}

#[test]
fn another_code_keeps_its_place() {
    let mut client = limited();
    client.check("STORE 1:* (UNCHANGEDSINCE 1) +FLAGS (\\Seen)", {
        "* OK [HIGHESTMODSEQ 5] / * NO [MESSAGELIMIT 2 3] / x OK [MODIFIED 3:4]"
    });
    client.check("FETCH 1 UID", "* 1 FETCH (UID 1) / x OK");
}
