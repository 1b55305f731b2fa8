//! Capabilities that are disabled: neither they nor their input are there.

use super::{Client, MESSAGES};
use crate::memory::MemoryAccount;
use crate::session::{DisabledForClient, SessionSettings};

/// Returns a client for whom capabilities are disabled, with INBOX selected.
fn without(disabled: &[&str]) -> Client {
    let settings = SessionSettings {
        disabled: disabled.iter().map(|name| (*name).to_owned()).collect(),
        can_compress: true,
        can_unauthenticate: true,
        message_limit: std::num::NonZeroU32::new(1000),
        ..SessionSettings::default()
    };
    let mut client = Client::with(&MemoryAccount::new(&MESSAGES), settings);
    client.select();
    client
}

/// Returns the words of the answer to CAPABILITY.
fn capabilities(client: &mut Client) -> Vec<String> {
    let answer = client.send(b"x CAPABILITY\r\n");
    let line = answer.lines().next().unwrap_or_default();
    line.split(' ').map(|word| word.split("LIMIT=").next().unwrap_or(word).to_owned()).collect()
}

/// Capabilities and input that belongs to them.
const INPUT: &[(&str, &str)] = &[
    ("ID", "ID NIL"),
    ("ENABLE", "ENABLE CONDSTORE"),
    ("IDLE", "IDLE\r\nDONE"),
    ("NAMESPACE", "NAMESPACE"),
    ("UIDPLUS", "UID EXPUNGE 1"),
    ("MOVE", "MOVE 1 INBOX"),
    ("MOVE", "UID MOVE 1 INBOX"),
    ("COMPRESS=DEFLATE", "COMPRESS DEFLATE"),
    ("UNAUTHENTICATE", "UNAUTHENTICATE"),
    ("UIDBATCHES", "UIDBATCHES 500"),
    ("MULTISEARCH", "ESEARCH IN (personal) ALL"),
    ("WITHIN", "ESEARCH IN (personal) OLDER 5"),
    ("NOTIFY", "NOTIFY NONE"),
    ("METADATA", "NOTIFY SET (personal (MailboxMetadataChange))"),
    ("PREVIEW", "NOTIFY SET (selected (MessageNew (PREVIEW) MessageExpunge))"),
    ("CONDSTORE", "NOTIFY SET (selected (MessageNew (MODSEQ) MessageExpunge))"),
    ("METADATA", "GETMETADATA \"\" /shared/comment"),
    ("METADATA", "SETMETADATA INBOX (/private/comment \"x\")"),
    ("ACL", "MYRIGHTS INBOX"),
    ("ACL", "GETACL INBOX"),
    ("LIST-EXTENDED", "LIST (SUBSCRIBED) \"\" *"),
    ("LIST-EXTENDED", "LIST \"\" (INBOX x)"),
    ("LIST-STATUS", "LIST \"\" * RETURN (STATUS (MESSAGES))"),
    ("LIST-EXTENDED", "LIST \"\" * RETURN (STATUS (MESSAGES))"),
    ("LIST-METADATA", "LIST \"\" * RETURN (METADATA (/private/comment))"),
    ("LIST-MYRIGHTS", "LIST \"\" * RETURN (MYRIGHTS)"),
    ("SPECIAL-USE", "LIST (SPECIAL-USE) \"\" *"),
    ("SPECIAL-USE", "CREATE y (USE (\\Sent))"),
    ("CREATE-SPECIAL-USE", "CREATE y (USE (\\Sent))"),
    ("STATUS=SIZE", "STATUS INBOX (SIZE)"),
    ("STATUS=SIZE", "LIST \"\" * RETURN (STATUS (SIZE))"),
    ("IMAP4rev2", "STATUS INBOX (DELETED)"),
    ("APPENDLIMIT", "STATUS INBOX (APPENDLIMIT)"),
    ("CONDSTORE", "STATUS INBOX (HIGHESTMODSEQ)"),
    ("CONDSTORE", "SELECT INBOX (CONDSTORE)"),
    ("CONDSTORE", "FETCH 1 MODSEQ"),
    ("CONDSTORE", "FETCH 1 FLAGS (CHANGEDSINCE 1)"),
    ("CONDSTORE", "STORE 1 (UNCHANGEDSINCE 1) FLAGS ()"),
    ("CONDSTORE", "SEARCH MODSEQ 1"),
    ("CONDSTORE", "SELECT INBOX (QRESYNC (1 1))"),
    ("QRESYNC", "SELECT INBOX (QRESYNC (1 1))"),
    ("BINARY", "FETCH 1 BINARY[1]"),
    ("BINARY", "FETCH 1 BINARY.SIZE[1]"),
    ("PREVIEW", "FETCH 1 PREVIEW"),
    ("OBJECTID", "FETCH 1 EMAILID"),
    ("OBJECTID", "FETCH 1 (UID THREADID)"),
    ("OBJECTID", "SEARCH EMAILID M1"),
    ("OBJECTID", "SEARCH NOT THREADID T1"),
    ("OBJECTID", "STATUS INBOX (MAILBOXID)"),
    ("SAVEDATE", "FETCH 1 SAVEDATE"),
    ("SAVEDATE", "SEARCH SAVEDATESUPPORTED"),
    ("SAVEDATE", "SEARCH NOT SAVEDON 1-Jan-2026"),
    ("PREVIEW", "FETCH 1 (UID PREVIEW (LAZY))"),
    ("PARTIAL", "FETCH 1:* FLAGS (PARTIAL 1:2)"),
    ("WITHIN", "SEARCH NOT YOUNGER 5"),
    ("WITHIN", "SEARCH OLDER 5"),
    ("ESEARCH", "SEARCH RETURN (COUNT) ALL"),
    ("ESORT", "SORT RETURN (COUNT) (DATE) UTF-8 ALL"),
    ("SEARCHRES", "SEARCH RETURN (SAVE) ALL"),
    ("SEARCHRES", "SEARCH $"),
    ("SEARCHRES", "FETCH $ FLAGS"),
    ("SEARCHRES", "UID COPY $ INBOX"),
    ("PARTIAL", "SEARCH RETURN (PARTIAL -1:-2) ALL"),
    ("CONTEXT=SEARCH", "SEARCH RETURN (UPDATE) ALL"),
    ("CONTEXT=SEARCH", "SEARCH RETURN (CONTEXT) ALL"),
    ("CONTEXT=SORT", "SORT RETURN (UPDATE) (DATE) UTF-8 ALL"),
    ("MESSAGELIMIT", "SEARCH UIDAFTER 1"),
    ("MESSAGELIMIT", "UID SEARCH UIDBEFORE 3"),
    ("SORT", "SORT (DATE) UTF-8 ALL"),
    ("SORT=DISPLAY", "SORT (DISPLAYFROM) UTF-8 ALL"),
    ("THREAD=REFS", "THREAD REFS UTF-8 ALL"),
    ("THREAD=REFERENCES", "THREAD REFERENCES UTF-8 ALL"),
    ("THREAD=ORDEREDSUBJECT", "THREAD ORDEREDSUBJECT UTF-8 ALL"),
    ("BINARY", "APPEND INBOX ~{3+}\r\na\0b"),
    ("MULTIAPPEND", "APPEND INBOX {3+}\r\nabc {3+}\r\nabc"),
    ("CATENATE", "APPEND INBOX CATENATE (TEXT {3+}\r\nabc)"),
    ("UTF8=ACCEPT", "APPEND INBOX UTF8 (~{3+}\r\nabc)"),
    ("REPLACE", "REPLACE 1 INBOX {3+}\r\nabc"),
    ("UNSELECT", "UNSELECT"),
];

#[test]
fn input_of_a_disabled_capability_is_refused() {
    for (capability, input) in INPUT {
        let name = capability.replace("LIMIT", "");
        let command = format!("x {input}\r\n");
        let mut client = without(&[]);
        assert!(capabilities(&mut client).contains(&name), "{capability}");
        let answer = client.send(command.as_bytes());
        assert!(!answer.contains("not available"), "{input}: {answer}");
        let mut client = without(&[*capability]);
        assert!(!capabilities(&mut client).contains(&name), "{capability}");
        let answer = client.send(command.as_bytes());
        assert!(answer.contains("is not available\r\n"), "{input}: {answer}");
        assert!(answer.starts_with("x BAD "), "{input}: {answer}");
        // What belongs to the command was read with it.
        client.check("NOOP", "x OK");
    }
}

#[test]
fn clients_of_rev2_keep_what_belongs_to_it() {
    let disabled = ["BINARY", "ESEARCH", "SEARCHRES", "LIST-STATUS", "UIDPLUS", "STATUS=SIZE"];
    let mut client = without(&disabled);
    client.check("ENABLE IMAP4rev2", "* ENABLED IMAP4rev2 / x OK");
    client.check("SEARCH RETURN (SAVE COUNT) ALL", "* ESEARCH (TAG \"x\") COUNT 4 / x OK");
    client.check("UID EXPUNGE 1", "x OK");
    client.check("STATUS INBOX (SIZE)", "* STATUS INBOX (SIZE 0) / x OK");
    client.check("FETCH 1 BINARY.PEEK[]", "* 1 FETCH (BINARY[] NIL) / x OK");
    client.check("APPEND INBOX ~{1+}\r\na", "x BAD");
}

#[test]
fn responses_have_nothing_of_a_disabled_capability() {
    let mut client = without(&["CONDSTORE", "UIDPLUS", "CHILDREN", "SPECIAL-USE"]);
    let answer = client.send(b"x EXAMINE INBOX\r\n");
    assert!(answer.contains("UIDNEXT") && !answer.contains("HIGHESTMODSEQ"), "{answer}");
    client.check("ENABLE CONDSTORE QRESYNC", "* ENABLED / x OK");
    client.check("COPY 1 INBOX", "* 5 EXISTS / * 0 RECENT / x OK");
    client.check("APPEND INBOX {1+}\r\na", "* 6 EXISTS / * 0 RECENT / x OK");
    client.check("LIST \"\" INBOX", "* LIST () \"/\" INBOX / x OK");
    let asked = "LIST \"\" INBOX RETURN (CHILDREN)";
    client.check(asked, "* LIST (\\HasNoChildren) \"/\" INBOX / x OK");
}

#[test]
fn an_id_of_before_login_counts() {
    let settings = SessionSettings {
        disabled_for: DisabledForClient::new(|name| {
            (name == "Old").then(|| "IDLE".to_owned()).into_iter().collect()
        }),
        ..SessionSettings::default()
    };
    let mut client = Client::with(&MemoryAccount::new(&MESSAGES), settings);
    client.session.set_client_id(vec![("Name".to_owned(), Some("Old".to_owned()))]);
    client.check("IDLE", "x BAD");
    client.check("ID (\"name\" \"New\")", "* ID NIL / x OK");
    assert_eq!(client.send(b"x IDLE\r\n"), "+ idling\r\n");
}
