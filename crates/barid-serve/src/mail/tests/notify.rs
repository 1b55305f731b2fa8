//! NOTIFY (RFC 5465) over mailboxes on a disk.

use std::path::Path;

use super::TestUser;
use crate::quota::Quota;

const ALL: &str = "(MessageNew MessageExpunge FlagChange)";

#[test]
fn changes_of_other_sessions_are_announced() {
    let user = TestUser::new(Quota::default());
    let (mut one, mut other) = (user.client(), user.client());
    one.check("CAPABILITY", " NOTIFY");
    other.check("CREATE a", "x OK");
    other.check("CREATE b", "x OK");
    let events = "(MessageNew MessageExpunge FlagChange MailboxName SubscriptionChange)";
    one.check("SELECT INBOX", "x OK");
    let answer = one.command(&format!("NOTIFY SET STATUS (selected {ALL}) (personal {events})"));
    let statuses: Vec<&str> = answer.lines().filter(|line| line.contains("STATUS")).collect();
    assert_eq!(statuses.len(), 2, "{answer}");
    assert!(statuses[0].starts_with("* STATUS a (MESSAGES 0 UIDNEXT 1 UIDVALIDITY "), "{answer}");
    assert_eq!(one.announced(), "");
    other.append("a", &["A: b\r\n\r\n"]);
    other.append("INBOX", &["A: b\r\n\r\n"]);
    let text = one.announced();
    assert!(text.starts_with("* 1 EXISTS\r\n* 1 RECENT\r\n* STATUS a (MESSAGES 1 "), "{text}");
    assert_eq!(text.lines().count(), 3, "{text}");
    other.check("SELECT a", "x OK");
    other.check("STORE 1 +FLAGS (\\Seen)", "x OK");
    assert!(one.announced().contains(" UNSEEN 0 HIGHESTMODSEQ "), "flags");
    other.check("MOVE 1 b", "x OK");
    let text = one.announced();
    assert!(text.contains("* STATUS b (MESSAGES 1 ") && text.contains("* STATUS a (MESSAGES 0 "));
    other.check("RENAME b c", "x OK");
    let text = one.announced();
    assert!(text.contains("c (\"OLDNAME\" (b))\r\n"), "{text}");
    other.append("c", &["A: b\r\n\r\n"]);
    assert!(one.announced().contains("* STATUS c (MESSAGES 2 "));
    other.check("DELETE c", "x OK");
    other.check("SUBSCRIBE a", "x OK");
    let text = one.announced();
    assert!(text.contains("* LIST (\\NonExistent) \".\" c\r\n"), "{text}");
    assert!(text.contains("\\Subscribed) \".\" a\r\n"), "{text}");
    // The name means another mailbox, and nothing else is different.
    other.check("UNSELECT", "x OK");
    other.check("DELETE a", "x OK");
    other.check("CREATE a", "x OK");
    let text = one.announced();
    assert!(text.starts_with("* STATUS a (MESSAGES 0 UIDNEXT 1 "), "{text}");
    other.append("a", &["A: b\r\n\r\n"]);
    assert!(one.announced().starts_with("* STATUS a (MESSAGES 1 UIDNEXT 2 "));
    one.check("NOTIFY NONE", "x OK");
    other.append("a", &["A: b\r\n\r\n"]);
    assert_eq!(one.announced(), "");
}

#[test]
fn mailboxes_are_open_once_and_closed_with_the_last_session() {
    let user = TestUser::new(Quota::default());
    let mut other = user.client();
    // Without those that stay open for the next command.
    let open = || {
        user.mail.release_mailboxes();
        user.mail.mailboxes.len()
    };
    for number in 0..20 {
        other.check(&format!("CREATE a{number}"), "x OK");
    }
    assert_eq!(open(), 0);
    let mut sessions: Vec<_> = (0..5).map(|_| user.client()).collect();
    for session in &mut sessions {
        session.check(&format!("NOTIFY SET (subtree (a1 a2 a3) {ALL})"), "x OK");
    }
    assert_eq!(open(), 3);
    other.append("a1", &["A: b\r\n\r\n"]);
    other.append("a4", &["A: b\r\n\r\n"]);
    for session in &mut sessions {
        let text = session.announced();
        assert!(text.starts_with("* STATUS a1 ") && text.lines().count() == 1, "{text}");
    }
    sessions.truncate(1);
    sessions[0].check(&format!("NOTIFY SET (mailboxes a2 {ALL})"), "x OK");
    assert_eq!(open(), 1);
    sessions.clear();
    assert_eq!(open(), 0);
}

#[test]
fn mailboxes_of_other_programs_are_found_after_a_while() {
    let user = TestUser::new(Quota::default());
    let mut client = user.client();
    client.check("NOTIFY SET (personal (MailboxName MailboxMetadataChange))", "x OK");
    for folder in ["", "new", "cur", "tmp"] {
        let path = Path::new("/ann/Maildir/.found").join(folder);
        user.vfs.create_dir(&path, 0o700).unwrap();
    }
    assert_eq!(client.announced(), "");
    user.vfs.sleep(std::time::Duration::from_secs(6));
    let text = client.announced();
    assert_eq!(text, "* LIST (\\HasNoChildren) \".\" found\r\n");
    let mut other = user.client();
    other.check("SETMETADATA found (/private/comment \"x\")", "x OK");
    assert_eq!(client.announced(), "* METADATA found /private/comment\r\n");
}
