//! NOTIFY (RFC 5465) over mailboxes on a disk.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

use barid::vfs::{CallKind, MeanwhileVfs, MemVfs, Vfs as _};

use super::TestUser;
use crate::limits::NAMES_PERIOD;
use crate::mail::UserMail;
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

/// A user whose file system counts the calls of a kind for paths below the mail, and calls `act`
/// before each.
fn counting_user(kind: CallKind, act: impl Fn() + Send + Sync + 'static) -> (TestUser, Calls) {
    let disk = MemVfs::new();
    disk.create_dir_all(Path::new("/ann/Maildir"), 0o700).unwrap();
    let calls = Calls::default();
    let counted = Arc::clone(&calls);
    let vfs = MeanwhileVfs::new(disk, move |of, path| {
        if of == kind && path.starts_with("/ann/Maildir") {
            counted.fetch_add(1, Ordering::Relaxed);
            act();
        }
    });
    (TestUser::in_vfs(Arc::new(vfs), Quota::default()), calls)
}

type Calls = Arc<AtomicUsize>;

/// Returns the number of calls that some work makes.
fn counted(calls: &AtomicUsize, work: impl FnOnce()) -> usize {
    let before = calls.load(Ordering::Relaxed);
    work();
    calls.load(Ordering::Relaxed) - before
}

#[test]
fn events_are_noted_while_the_tree_is_listed() {
    let mail: &'static OnceLock<Arc<UserMail>> = Box::leak(Box::default());
    let (sender, noted) = mpsc::channel();
    let (sender, noted) = (Mutex::new(sender), Mutex::new(noted));
    let (user, lists) = counting_user(CallKind::List, move || {
        let Some(mail) = mail.get() else { return };
        let sender = sender.lock().unwrap().clone();
        std::thread::spawn(move || {
            mail.followed.attributes_changed();
            sender.send(()).unwrap();
        });
        let is_noted = noted.lock().unwrap().recv_timeout(Duration::from_secs(10));
        assert!(is_noted.is_ok(), "the lock of the events is held");
    });
    let mut client = user.client();
    assert!(mail.set(Arc::clone(&user.mail)).is_ok());
    let listings = counted(&lists, || client.check("NOTIFY SET (personal (MailboxName))", "x OK"));
    assert!(listings > 0);
}

#[test]
fn one_session_looks_for_all_and_opens_only_what_may_be_another() {
    let (user, lists) = counting_user(CallKind::List, || ());
    let mut other = user.client();
    for number in 0..10 {
        other.check(&format!("CREATE a{number}"), "x OK");
    }
    let events = "(MessageNew MessageExpunge FlagChange MailboxName SubscriptionChange)";
    let mut sessions: Vec<_> = (0..5).map(|_| user.client()).collect();
    for session in &mut sessions {
        session.check(&format!("NOTIFY SET (personal {events})"), "x OK");
    }
    let count = |work: &mut dyn FnMut()| counted(&lists, work);
    let one_list = count(&mut || other.check("LIST \"\" *", "x OK"));
    assert!(one_list > 0);
    other.check("SUBSCRIBE a1", "x OK");
    let listed = count(&mut || {
        for session in &mut sessions {
            assert_eq!(session.announced().lines().count(), 1);
        }
    });
    assert_eq!(listed, one_list);
    // Nothing is opened after a change of a subscription, and one mailbox after a rename.
    let (user, opened) = counting_user(CallKind::Open, || ());
    let (mut one, mut other) = (user.client(), user.client());
    for number in 0..50 {
        other.check(&format!("CREATE a{number}"), "x OK");
    }
    one.check(&format!("NOTIFY SET (personal {events})"), "x OK");
    let count = |work: &mut dyn FnMut()| counted(&opened, work);
    let listing = count(&mut || other.check("LIST \"\" *", "x OK"));
    other.check("SUBSCRIBE a1", "x OK");
    let announcing = count(&mut || assert_eq!(one.announced().lines().count(), 1));
    assert!(announcing <= listing + 5, "{announcing} after a subscription, {listing} for LIST");
    other.check("RENAME a1 b", "x OK");
    let announcing = count(&mut || assert!(one.announced().contains("OLDNAME")));
    assert!(announcing <= listing + 20, "{announcing} after a rename, {listing} for LIST");
}

#[test]
fn an_event_of_a_mailbox_that_cannot_be_read_comes_later() {
    let user = TestUser::new(Quota::default());
    let (mut one, mut other) = (user.client(), user.client());
    other.check("CREATE a", "x OK");
    other.check("CREATE b", "x OK");
    one.check(&format!("NOTIFY SET (personal {ALL})"), "x OK");
    other.append("a", &["A: b\r\n\r\n"]);
    user.mail.release_mailboxes();
    let (cur, away) = (Path::new("/ann/Maildir/.a/cur"), Path::new("/ann/away"));
    user.vfs.rename(cur, away).unwrap();
    assert_eq!(one.announced(), "");
    assert_eq!(one.announced(), "");
    user.vfs.rename(away, cur).unwrap();
    assert_eq!(one.announced(), "", "each attempt may take long");
    user.vfs.sleep(NAMES_PERIOD);
    assert!(one.announced().starts_with("* STATUS a (MESSAGES 1 "), "after it can be read again");
    assert_eq!(one.announced(), "");
}

#[test]
fn a_session_is_not_told_of_its_own_changes() {
    let user = TestUser::new(Quota::default());
    let (mut one, mut other) = (user.client(), user.client());
    let events = "(MessageNew MessageExpunge FlagChange MailboxName SubscriptionChange \
                  MailboxMetadataChange)";
    one.check(&format!("NOTIFY SET (personal {events})"), "x OK");
    one.check("CREATE a.b", "x OK");
    one.check("SUBSCRIBE a.b", "x OK");
    one.check("SETMETADATA a.b (/private/comment \"x\")", "x OK");
    assert_eq!(one.announced(), "");
    one.append("a.b", &["A: b\r\n\r\n", "A: c\r\n\r\n"]);
    assert_eq!(one.announced(), "");
    one.check("SELECT a.b", "x OK");
    one.check("COPY 1 INBOX", "x OK");
    one.check("MOVE 2 INBOX", "x OK");
    assert_eq!(one.announced(), "");
    one.check("UNSELECT", "x OK");
    one.check("RENAME a c", "x OK");
    assert_eq!(one.announced(), "");
    other.append("c.b", &["A: b\r\n\r\n"]);
    one.append("c.b", &["A: b\r\n\r\n"]);
    assert!(one.announced().starts_with("* STATUS c.b (MESSAGES 3 "));
    one.check("RENAME INBOX d", "x OK");
    one.check("DELETE c.b", "x OK");
    // It cannot know the numbers.
    let text = one.announced();
    assert!(text.starts_with("* STATUS d (MESSAGES 2 ") && text.lines().count() == 2, "{text}");
    assert!(text.contains("* STATUS INBOX (MESSAGES 0 "), "{text}");
}
