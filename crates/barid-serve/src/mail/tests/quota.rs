//! Quota in sessions.

use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use barid::Cancel;
use barid::vfs::{CallKind, MeanwhileVfs, MemVfs, Vfs as _};

use super::{Client, TestUser};
use crate::quota::{MailUse, Quota};

fn kilobytes(size: u64) -> Quota {
    Quota { size: Some(size * 1024), messages: None }
}

/// A message of as many bytes on the disk.
fn message(len: usize) -> String {
    format!("A: b\n\n{}", "x".repeat(len - 6))
}

#[track_caller]
fn check_use(client: &mut Client, expected: &str) {
    client.check("GETQUOTA user", &format!("* QUOTA user ({expected})\r\nx OK"));
}

#[test]
fn capabilities_and_roots_are_those_of_the_limits() {
    let mut none = TestUser::new(Quota::default()).client();
    assert!(!none.command("CAPABILITY").contains("QUOTA"));
    none.check("GETQUOTAROOT INBOX", "x BAD QUOTA is not available");
    none.check("STATUS INBOX (DELETED-STORAGE)", "x BAD QUOTA=RES-STORAGE is not available");
    let both = Quota { size: Some(2048), messages: Some(3) };
    let mut client = TestUser::new(both).client();
    client.check("CAPABILITY", " QUOTA QUOTA=RES-STORAGE QUOTA=RES-MESSAGE ");
    let answer = client.command("GETQUOTAROOT INBOX");
    let roots = "* QUOTAROOT INBOX user\r\n* QUOTA user (STORAGE 0 2 MESSAGE 0 3)\r\nx OK";
    assert!(answer.starts_with(roots), "{answer}");
    client.check("GETQUOTAROOT Nowhere", "* QUOTAROOT Nowhere user\r\n* QUOTA user ");
    client.check("GETQUOTA \"\"", "x NO [NONEXISTENT]");
    client.check("SETQUOTA user (STORAGE 9)", "x NO [NOPERM]");
    let messages = Quota { size: None, messages: Some(3) };
    let mut client = TestUser::new(messages).client();
    let answer = client.command("CAPABILITY");
    assert!(answer.contains(" QUOTA QUOTA=RES-MESSAGE "), "{answer}");
    assert!(!answer.contains("RES-STORAGE"), "{answer}");
}

#[test]
fn what_would_exceed_the_quota_is_refused_whole() {
    let user = TestUser::new(kilobytes(4));
    let mut client = user.client();
    client.check("CREATE Other", "x OK");
    assert!(client.append("INBOX", &[&message(1024), &message(1024)]).contains("APPENDUID"));
    assert!(client.append("Other", &[&message(1000)]).contains("APPENDUID"));
    check_use(&mut client, "STORAGE 3 4");
    // The first of them would fit.
    let answer = client.append("INBOX", &[&message(500), &message(600)]);
    assert!(answer.starts_with("x NO [OVERQUOTA]"), "{answer}");
    client.check("STATUS INBOX (MESSAGES)", "(MESSAGES 2)");
    client.check("SELECT INBOX", "x OK");
    client.check("COPY 1:2 Other", "x NO [OVERQUOTA]");
    client.check("COPY 1 INBOX", "COPYUID");
    check_use(&mut client, "STORAGE 4 4");
    client.check("COPY 1 Other", "x NO [OVERQUOTA]");
    // A move needs no room.
    client.check("MOVE 1:2 Other", "COPYUID");
    client.check("STATUS Other (MESSAGES)", "(MESSAGES 3)");
    check_use(&mut client, "STORAGE 4 4");
    client.check("STORE 1 +FLAGS (\\Deleted)", "x OK");
    client.check("STATUS INBOX (DELETED DELETED-STORAGE)", "(DELETED 1 DELETED-STORAGE 10");
    client.check("EXPUNGE", "x OK");
    check_use(&mut client, "STORAGE 3 4");
    assert!(client.append("INBOX", &[&message(1000)]).contains("APPENDUID"));
}

#[test]
fn large_messages_are_refused_before_they_are_sent() {
    let user = TestUser::new(kilobytes(200));
    let mut client = user.client();
    client.check("APPEND INBOX {1000000}", "x NO [OVERQUOTA]");
    // It may be 200 KB on the disk.
    client.check("APPEND INBOX {400000}", "+ OK");
}

#[test]
fn mail_of_other_programs_counts_at_once() {
    let quota = Quota { size: None, messages: Some(3) };
    let user = TestUser::new(quota);
    let mut client = user.client();
    client.check("CREATE Other", "x OK");
    check_use(&mut client, "MESSAGE 0 3");
    for (number, folder) in [(1, ""), (2, ".Other/")] {
        let path = format!("/ann/Maildir/{folder}new/{number}.a.b");
        let options = barid::vfs::OpenOptions::create_new(0o600);
        let file = user.vfs.open(Path::new(&path), options).unwrap();
        file.write_all_at(b"A: b\n\nc\n", 0).unwrap();
        user.vfs.sleep(std::time::Duration::from_secs(5));
        check_use(&mut client, &format!("MESSAGE {number} 3"));
    }
    assert!(client.append("INBOX", &["A: b\r\n\r\n"]).contains("APPENDUID"));
    assert!(client.append("INBOX", &["A: b\r\n\r\n"]).starts_with("x NO [OVERQUOTA]"));
    // Another process, such as a later worker, counts the same.
    let mut later = TestUser::in_vfs(Arc::clone(&user.vfs), quota).client();
    check_use(&mut later, "MESSAGE 3 3");
}

#[test]
fn sessions_at_once_do_not_exceed_the_quota_together() {
    let user = TestUser::new(Quota { size: None, messages: Some(40) });
    let stored: usize = std::thread::scope(|scope| {
        let session = |mailbox: &'static str| {
            let mut client = user.client();
            client.command(&format!("CREATE {mailbox}"));
            scope.spawn(move || {
                let stored = |_: &u32| client.append(mailbox, &["A: b\r\n\r\n"]).contains("UID");
                (0..15).filter(stored).count()
            })
        };
        let sessions = ["INBOX", "A", "A", "B"].map(session);
        sessions.map(|session| session.join().unwrap()).iter().sum()
    });
    assert_eq!(stored, 40);
    check_use(&mut user.client(), "MESSAGE 40 40");
}

#[test]
fn room_is_released_while_mail_is_counted() {
    let disk = MemVfs::new();
    disk.create_dir_all(Path::new("/ann/Maildir"), 0o700).unwrap();
    let (to_releaser, asked) = mpsc::channel::<()>();
    let (released, from_releaser) = mpsc::channel();
    let channels = Arc::new(Mutex::new(Some((to_releaser, from_releaser))));
    let (is_armed, arm) = mpsc::channel::<()>();
    let arm = Mutex::new(arm);
    let vfs = MeanwhileVfs::new(disk, move |kind, path| {
        let is_list = kind == CallKind::List && path.starts_with("/ann/Maildir");
        if !is_list || arm.lock().unwrap().try_recv().is_err() {
            return;
        }
        let Some((to_releaser, from_releaser)) = channels.lock().unwrap().take() else { return };
        to_releaser.send(()).unwrap();
        let is_released = from_releaser.recv_timeout(Duration::from_secs(10));
        assert!(is_released.is_ok(), "the lock of the quota is held");
    });
    let user = TestUser::in_vfs(Arc::new(vfs), Quota { size: None, messages: Some(3) });
    let room = |messages| MailUse { size: 1, messages };
    std::thread::scope(|scope| {
        let reserved = user.mail.reserve(room(2), &Cancel::new()).unwrap();
        scope.spawn(move || {
            asked.recv().unwrap();
            drop(reserved);
            released.send(()).unwrap();
        });
        is_armed.send(()).unwrap();
        // What was released meanwhile counts as stored, and then turns out not to be.
        let all = user.mail.reserve(room(3), &Cancel::new()).unwrap();
        drop(all);
    });
}
