//! UIDONLY, UIDBATCHES, and capabilities that are not available to a client.

use super::{Client, MESSAGES};
use crate::memory::MemoryAccount;
use crate::session::{DisabledForClient, SessionSettings};

fn settings() -> SessionSettings {
    SessionSettings {
        offers_uid_only: true,
        disabled: vec!["SORT".to_owned()],
        disabled_for: DisabledForClient::new(|name| {
            let is_meant = name.eq_ignore_ascii_case("Some Client");
            is_meant.then(|| "MOVE".to_owned()).into_iter().collect()
        }),
        ..SessionSettings::default()
    }
}

#[test]
fn a_client_without_numbers_gets_none() {
    let account = MemoryAccount::new(&MESSAGES);
    let mut client = Client::with(&account, settings());
    client.check("ENABLE UIDONLY", "* ENABLED UIDONLY / x OK");
    let answer = client.send(b"x SELECT INBOX\r\n");
    assert!(answer.contains("* 4 EXISTS") && !answer.contains("UNSEEN"), "{answer}");
    for command in [
        "FETCH 1 FLAGS",
        "STORE 1 FLAGS (\\Seen)",
        "SEARCH ALL",
        "UID SEARCH 1:2",
        "UID SEARCH OR (NOT 1) SEEN",
        "COPY 1 INBOX",
        "MOVE 1 INBOX",
        "THREAD REFERENCES UTF-8 ALL",
        "SELECT INBOX (QRESYNC (1 1 1:4 (1 1)))",
    ] {
        client.check(command, "x BAD [UIDREQUIRED]");
    }
    client.check("UID FETCH 2 FLAGS", "* 2 UIDFETCH (FLAGS (\\Recent)) / x OK");
    client.check("UID STORE 3 +FLAGS (\\Seen)", "* 3 UIDFETCH (FLAGS (\\Seen \\Recent)) / x OK");
    let mut other = Client::new(&account);
    other.select();
    other.check("STORE 2 +FLAGS.SILENT (\\Deleted)", "x OK");
    other.check("EXPUNGE", "* 2 EXPUNGE / x OK");
    client.check("NOOP", "* VANISHED 2 / x OK");
    client.check("UID SEARCH ALL", "* SEARCH 1 3 4 / x OK");
}

#[test]
fn capabilities_follow_the_name_of_the_client() {
    let account = MemoryAccount::new(&MESSAGES);
    let mut client = Client::with(&account, settings());
    let has = |client: &mut Client, name: &str| {
        let answer = client.send(b"x CAPABILITY\r\n");
        answer.lines().next().is_some_and(|line| line.split(' ').any(|word| word == name))
    };
    assert!(has(&mut client, "UIDONLY") && has(&mut client, "MOVE"));
    assert!(!has(&mut client, "SORT") && !has(&mut client, "SORT=DISPLAY"));
    client.select();
    client.check("SORT (DATE) UTF-8 ALL", "x BAD");
    client.check("ID (\"name\" \"some client\")", "* ID NIL / x OK");
    assert!(!has(&mut client, "MOVE") && has(&mut client, "UIDONLY"));
    client.check("MOVE 1 INBOX", "x BAD");
    client.check("ID (\"name\" \"Microsoft Office 365\")", "* ID NIL / x OK");
    assert!(has(&mut client, "MOVE") && !has(&mut client, "UIDONLY"));
    client.check("ENABLE UIDONLY", "* ENABLED / x OK");
    client.check("FETCH 1 UID", "* 1 FETCH (UID 1) / x OK");
}

#[test]
fn uidonly_is_off_by_default() {
    let mut client = Client::new(&MemoryAccount::new(&MESSAGES));
    assert!(!client.send(b"x CAPABILITY\r\n").contains("UIDONLY"));
    client.check("ENABLE UIDONLY", "* ENABLED / x OK");
}

#[test]
fn batches_cover_all_messages() {
    let texts = vec!["a: b\r\n\r\n"; 1201];
    let account = MemoryAccount::new(&texts);
    let mut client = Client::new(&account);
    client.check("UIDBATCHES 500", "x BAD");
    client.select();
    let batches = |ranges: &str| format!("* UIDBATCHES (TAG \"x\"){ranges} / x OK");
    client.check("UIDBATCHES 500", &batches(" 1201:702,701:202,201:1"));
    client.check("UIDBATCHES 500 2:9", &batches(" 701:202,201:1"));
    client.check("UIDBATCHES 500 2:2", &batches(" 701:202"));
    client.check("UIDBATCHES 500 4:5", &batches(""));
    client.check("UIDBATCHES 1201", &batches(" 1201:1"));
    client.check("UIDBATCHES 4294967295 1:4294967295", &batches(" 1201:1"));
    client.check("UIDBATCHES 499", "x NO [TOOSMALL]");
    client.check("UIDBATCHES 500 3:2", "x BAD [CLIENTBUG]");
    client.check("UIDBATCHES 500 3", "x BAD");
    client.check("UID STORE 702:1201 +FLAGS.SILENT (\\Deleted)", "x OK");
    assert!(client.send(b"x EXPUNGE\r\n").ends_with("x OK Expunge completed\r\n"));
    client.check("UIDBATCHES 500", &batches(" 701:202,201:1"));
}
