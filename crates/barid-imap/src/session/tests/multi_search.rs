//! ESEARCH in several mailboxes (RFC 7377).

use super::{Client, MESSAGES};
use crate::memory::MemoryAccount;

/// A client of INBOX with four messages, `a` with two, and `a/b` with one.
fn client() -> Client {
    let account = MemoryAccount::new(&MESSAGES);
    let mut client = Client::new(&account);
    for (name, count) in [("a", 2), ("a/b", 1), ("empty", 0)] {
        client.create(name);
        for number in 0..count {
            let text = format!("x APPEND {name} {{6+}}\r\n{}: x\r\n\r\n", ["a", "b"][number]);
            assert!(client.send(text.as_bytes()).contains("APPENDUID"));
        }
    }
    client
}

#[test]
fn mailboxes_with_results_are_answered() {
    let mut client = client();
    let (inbox, a, b) = (
        "* ESEARCH (TAG \"x\" MAILBOX INBOX UIDVALIDITY 1) UID ALL 1:4",
        "* ESEARCH (TAG \"x\" MAILBOX a UIDVALIDITY 2) UID ALL 1:2",
        "* ESEARCH (TAG \"x\" MAILBOX a/b UIDVALIDITY 3) UID ALL 1",
    );
    client.check("ESEARCH IN (personal) ALL", &format!("{inbox} / {a} / {b} / x OK"));
    client.check("ESEARCH IN (subtree a) RETURN () ALL", &format!("{a} / {b} / x OK"));
    let both = format!("{inbox} / {a} / x OK");
    client.check("ESEARCH IN (mailboxes (a inbox none empty)) ALL", &both);
    client.check("ESEARCH IN (mailboxes a subtree-one inbox mailboxes a) ALL", &both);
    client.check(
        "ESEARCH IN (mailboxes a) RETURN (MIN COUNT) CHARSET UTF-8 UID 2",
        "* ESEARCH (TAG \"x\" MAILBOX a UIDVALIDITY 2) UID MIN 2 COUNT 1 / x OK",
    );
    client.check(
        "ESEARCH IN (subtree a) RETURN (PARTIAL 2:3) ALL",
        "* ESEARCH (TAG \"x\" MAILBOX a UIDVALIDITY 2) UID PARTIAL (2:3 2) / x OK",
    );
    client.check("ESEARCH IN (subscribed) ALL", "x OK");
}

#[test]
fn the_selected_mailbox_is_that_of_the_session() {
    let mut client = client();
    client.check("ESEARCH ALL", "x BAD");
    client.check("ESEARCH IN (mailboxes a selected) ALL", "x BAD");
    client.select();
    let inbox = "* ESEARCH (TAG \"x\" MAILBOX INBOX UIDVALIDITY 1) UID ALL 2:3";
    client.check("ESEARCH 2:3", &format!("{inbox} / x OK"));
    client.check("ESEARCH IN (selected) RETURN (SAVE ALL) UID 2:3", &format!("{inbox} / x OK"));
    client.check("ESEARCH IN (personal) $", &format!("{inbox} / x OK"));
    client.check("FETCH $ UID", "* 2 FETCH (UID 2) / * 3 FETCH (UID 3) / x OK");
    client.check("ESEARCH IN (personal) 1", "x BAD");
    client.check("ESEARCH IN (personal) RETURN (SAVE) ALL", "x BAD");
    client.check("ESEARCH IN (selected-delayed) ALL", "x BAD");
    client.check("ESEARCH IN () ALL", "x BAD");
    client.check("ESEARCH IN (mailboxes ()) ALL", "x BAD");
}
