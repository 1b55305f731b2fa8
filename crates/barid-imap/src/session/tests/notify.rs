//! NOTIFY (RFC 5465).

use super::{Client, MESSAGES};
use crate::memory::MemoryAccount;

const ALL: &str = "(MessageNew MessageExpunge FlagChange)";

/// Two clients of an account with INBOX and `a`.
fn two() -> (Client, Client) {
    let account = MemoryAccount::new(&MESSAGES);
    let (one, mut other) = (Client::new(&account), Client::new(&account));
    other.create("a");
    (one, other)
}

fn append(client: &mut Client, mailbox: &str) {
    let answer = client.send(format!("x APPEND {mailbox} {{6+}}\r\ne: 5\r\n\r\n").as_bytes());
    assert!(answer.contains("APPENDUID"), "{answer}");
}

#[test]
fn events_of_the_selected_mailbox_come_between_commands() {
    let (mut one, mut other) = two();
    one.select();
    other.select();
    one.check("NOTIFY SET (selected (MessageNew (FLAGS) MessageExpunge FlagChange))", "x OK");
    assert!(one.session.notifies());
    other.check("STORE 2 +FLAGS.SILENT (\\Deleted)", "x OK");
    one.check_announced("* 2 FETCH (UID 2 FLAGS (\\Deleted \\Recent))");
    other.check("EXPUNGE", "* 2 EXPUNGE / x OK");
    append(&mut other, "INBOX");
    let new = "* 4 EXISTS / * 3 RECENT / * 4 FETCH (UID 5 FLAGS ())";
    one.check_announced(&format!("* 2 EXPUNGE / {new}"));
    one.check_announced("");
}

#[test]
fn delayed_expunges_wait_for_a_command() {
    let (mut one, mut other) = two();
    one.select();
    other.select();
    one.check(&format!("NOTIFY SET (selected-delayed {ALL})"), "x OK");
    other.check("STORE 2 +FLAGS.SILENT (\\Deleted)", "x OK");
    other.check("EXPUNGE", "* 2 EXPUNGE / x OK");
    one.check_announced("");
    one.check("FETCH 2 UID", "* 2 FETCH (UID 2) / x OK");
    one.check("NOOP", "* 2 EXPUNGE / x OK");
    append(&mut other, "INBOX");
    one.check_announced("* 4 EXISTS / * 3 RECENT");
}

#[test]
fn events_that_are_not_chosen_are_not_announced() {
    let (mut one, mut other) = two();
    one.select();
    other.select();
    for (command, is_awake) in [("NONE", false), ("SET (personal (MailboxName))", true)] {
        one.check(&format!("NOTIFY {command}"), "x OK");
        assert_eq!(one.session.notifies(), is_awake);
        append(&mut other, "INBOX");
        other.check("STORE 1 FLAGS.SILENT (\\Deleted)", "x OK");
        other.check("EXPUNGE", "* 1 EXPUNGE / x OK");
        one.check_announced("");
        one.check("NOOP", "x OK");
        one.check("FETCH 5 UID", "x BAD");
        // Its numbers are still valid, and it learns what has happened later.
        one.check("SEARCH UID 2", "* SEARCH 2 / x OK");
        one.check(
            "NOTIFY SET (selected (MessageNew MessageExpunge))",
            "* 1 EXPUNGE / * 4 EXISTS / * 3 RECENT / x OK",
        );
        // Flags are not chosen.
        other.check("STORE 1 +FLAGS.SILENT (\\Seen)", "x OK");
        one.check_announced("");
        one.check("STORE 1 FLAGS (\\Flagged)", "* 1 FETCH (FLAGS (\\Flagged \\Recent)) / x OK");
        other.check("NOOP", "* 1 FETCH (FLAGS (\\Flagged)) / x OK");
        (one, other) = two();
        one.select();
        other.select();
    }
}

#[test]
fn other_mailboxes_have_status() {
    let (mut one, mut other) = two();
    one.select();
    let (a, b) = ("UIDVALIDITY 2 UNSEEN 0", "UIDVALIDITY 3 UNSEEN 0");
    one.check(
        &format!("NOTIFY SET STATUS (mailboxes a NONE) (selected {ALL}) (personal {ALL})"),
        "x OK",
    );
    append(&mut other, "a");
    one.check_announced("");
    one.check(
        "NOTIFY SET STATUS (mailboxes (a INBOX) (MessageNew MessageExpunge))",
        &format!("* STATUS a (MESSAGES 1 UIDNEXT 2 {a}) / x OK"),
    );
    one.check(
        &format!("NOTIFY SET STATUS (mailboxes (a INBOX) {ALL})"),
        &format!("* STATUS a (MESSAGES 1 UIDNEXT 2 {a} HIGHESTMODSEQ 2) / x OK"),
    );
    append(&mut other, "a");
    append(&mut other, "INBOX");
    one.check_announced(&format!("* STATUS a (MESSAGES 2 UIDNEXT 3 {a} HIGHESTMODSEQ 3)"));
    one.check_announced("");
    one.check("ENABLE CONDSTORE", "* ENABLED CONDSTORE / * OK [HIGHESTMODSEQ 6] / x OK");
    assert!(other.send(b"x SELECT a\r\n").contains("READ-WRITE"));
    other.check("STORE 1 +FLAGS.SILENT (\\Deleted)", "x OK");
    one.check_announced(&format!("* STATUS a (MESSAGES 2 UIDNEXT 3 {a} HIGHESTMODSEQ 4)"));
    other.check("EXPUNGE", "* 1 EXPUNGE / x OK");
    one.check_announced(&format!("* STATUS a (MESSAGES 1 UIDNEXT 3 {a} HIGHESTMODSEQ 5)"));
    // Without FlagChange.
    one.check("NOTIFY SET (personal (MessageNew MessageExpunge))", "x OK");
    other.check("STORE 1 +FLAGS.SILENT (\\Seen)", "x OK");
    one.check_announced("");
    // Mailboxes that are new belong to the groups, too.
    other.create("b");
    one.check_announced("");
    append(&mut other, "b");
    one.check_announced(&format!("* STATUS b (MESSAGES 1 UIDNEXT 2 {b} HIGHESTMODSEQ 2)"));
}

#[test]
fn names_and_subscriptions_are_listed() {
    let (mut one, mut other) = two();
    one.check("NOTIFY SET (subtree a (MailboxName SubscriptionChange))", "x OK");
    other.create("a/b");
    other.create("b");
    one.check_announced("* LIST (\\HasNoChildren) \"/\" a/b");
    other.check("SUBSCRIBE a/b", "x OK");
    one.check_announced("* LIST (\\HasNoChildren \\Subscribed) \"/\" a/b");
    other.check("UNSUBSCRIBE a/b", "x OK");
    one.check_announced("* LIST (\\HasNoChildren) \"/\" a/b");
    other.check("RENAME a/b a/c", "x OK");
    one.check_announced("* LIST (\\HasNoChildren) \"/\" a/c (\"OLDNAME\" (a/b))");
    other.check("DELETE a/c", "x OK");
    other.check("DELETE b", "x OK");
    one.check_announced("* LIST (\\NonExistent) \"/\" a/c");
    one.check("NOTIFY SET (subscribed (SubscriptionChange))", "x OK");
    other.check("SUBSCRIBE a", "x OK");
    one.check_announced("* LIST (\\HasNoChildren \\Subscribed) \"/\" a");
    other.check("UNSUBSCRIBE a", "x OK");
    one.check_announced("* LIST (\\HasNoChildren) \"/\" a");
}

#[test]
fn metadata_is_named() {
    let (mut one, mut other) = two();
    let set = "NOTIFY SET (mailboxes a (MailboxMetadataChange)) (personal (ServerMetadataChange))";
    one.check(set, "x OK");
    other.check("SETMETADATA a (/shared/x \"1\" /shared/y \"2\")", "x OK");
    other.check("SETMETADATA \"\" (/shared/z \"1\")", "x OK");
    other.check("SETMETADATA INBOX (/shared/x \"1\")", "x OK");
    one.check_announced("* METADATA \"\" /shared/z / * METADATA a /shared/x /shared/y");
    other.check("SETMETADATA a (/shared/x NIL /shared/y \"2\")", "x OK");
    one.check_announced("* METADATA a /shared/x");
}

#[test]
fn too_many_mailboxes_overflow() {
    let (mut one, mut other) = two();
    one.select();
    one.check(&format!("NOTIFY SET (selected {ALL}) (personal {ALL})"), "x OK");
    for number in 0..1000 {
        other.create(&format!("b{number}"));
    }
    one.check_announced("* OK [NOTIFICATIONOVERFLOW]");
    assert!(!one.session.notifies());
    append(&mut other, "INBOX");
    one.check_announced("");
    one.check(&format!("NOTIFY SET (personal {ALL})"), "x NO [NOTIFICATIONOVERFLOW]");
    // A command that is refused changes nothing.
    one.check("UNSELECT", "x OK");
    one.check(&format!("NOTIFY SET (mailboxes INBOX {ALL}) (personal (MailboxName))"), "x OK");
    other.create("c");
    one.check(&format!("NOTIFY SET (personal {ALL})"), "x NO [NOTIFICATIONOVERFLOW]");
    append(&mut other, "INBOX");
    let status = "* STATUS INBOX (MESSAGES 6 UIDNEXT 7 UIDVALIDITY 1 UNSEEN 0 HIGHESTMODSEQ 7)";
    one.check_announced(&format!("* LIST (\\HasNoChildren) \"/\" c / {status}"));
}

#[test]
fn a_client_is_not_told_of_its_own_names() {
    let (mut one, mut other) = two();
    let events = "(MailboxName SubscriptionChange MailboxMetadataChange)";
    one.check(&format!("NOTIFY SET (personal {events})"), "x OK");
    one.create("b");
    one.check("SUBSCRIBE b", "x OK");
    one.check("SETMETADATA b (/shared/x \"1\")", "x OK");
    one.check_announced("");
    one.check("RENAME b c", "x OK");
    one.check("DELETE c", "x OK");
    one.check("UNSUBSCRIBE b", "x OK");
    one.check_announced("");
    // Others undo what it has done, before and after it was looked at.
    one.create("d");
    one.check("SUBSCRIBE a", "x OK");
    other.check("DELETE d", "x OK");
    other.check("UNSUBSCRIBE a", "x OK");
    let unsubscribed = "* LIST (\\HasNoChildren) \"/\" a";
    one.check_announced(&format!("{unsubscribed} / * LIST (\\NonExistent) \"/\" d"));
    one.create("d");
    one.check_announced("");
    other.check("SETMETADATA d (/shared/x \"1\")", "x OK");
    one.check("SETMETADATA d (/shared/x \"2\" /shared/y \"2\")", "x OK");
    other.check("SETMETADATA d (/shared/x \"3\")", "x OK");
    one.check_announced("* METADATA d /shared/x");
    // Changes of others at the same time are announced.
    one.create("e");
    other.create("f");
    one.check_announced("* LIST (\\HasNoChildren) \"/\" f");
    other.check("DELETE e", "x OK");
    one.check_announced("* LIST (\\NonExistent) \"/\" e");
}

#[test]
fn a_client_is_not_told_of_its_own_messages() {
    let (mut one, mut other) = two();
    one.select();
    let set = format!("NOTIFY SET (selected (MessageNew (FLAGS) MessageExpunge)) (personal {ALL})");
    one.check(&set, "x OK");
    append(&mut one, "a");
    let copied = one.send(b"x UID COPY 1:2 a\r\nx UID MOVE 3 a\r\n");
    assert!(copied.contains("COPYUID") && copied.contains("* 3 EXPUNGE"), "{copied}");
    one.check_announced("");
    append(&mut one, "a");
    append(&mut other, "a");
    let numbers = "UIDVALIDITY 2 UNSEEN 0 HIGHESTMODSEQ";
    one.check_announced(&format!("* STATUS a (MESSAGES 6 UIDNEXT 7 {numbers} 7)"));
    append(&mut other, "a");
    append(&mut one, "a");
    one.check_announced(&format!("* STATUS a (MESSAGES 8 UIDNEXT 9 {numbers} 9)"));
    // In the selected mailbox it learns the number of messages, and fetches what it wants itself.
    let answer = one.send(b"x APPEND INBOX {6+}\r\ne: 5\r\n\r\n");
    assert!(answer.contains("* 4 EXISTS\r\n") && !answer.contains("FETCH"), "{answer}");
    append(&mut other, "INBOX");
    one.check_announced("* 5 EXISTS / * 5 RECENT / * 5 FETCH (UID 6 FLAGS (\\Recent))");
    // A mailbox that it renames has the same messages.
    one.check("RENAME a b", "x OK");
    one.check_announced("");
    append(&mut other, "b");
    one.check_announced(&format!("* STATUS b (MESSAGES 9 UIDNEXT 10 {numbers} 10)"));
}
