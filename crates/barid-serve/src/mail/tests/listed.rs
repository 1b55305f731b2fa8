//! A large mailbox that is selected before its messages are read.

use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use barid::vfs::{CallKind, Host as _, MeanwhileVfs, MemVfs, OpenOptions, Timestamp, Vfs as _};

use super::TestUser;
use crate::quota::Quota;

const MANY: usize = 2_100;
/// Longest wait for something that happens at once on an idle machine.
const LONG: Duration = Duration::from_secs(60);

type Gate = Arc<(Mutex<bool>, Condvar)>;

/// Returns a user whose INBOX has many messages in `new`, which can be read once the gate is open.
fn gated_user() -> (TestUser, MemVfs, Gate) {
    let (disk, gate) = (MemVfs::new(), Gate::default());
    for dir in ["new", "cur", "tmp"] {
        disk.create_dir_all(&Path::new("/ann/Maildir").join(dir), 0o700).unwrap();
    }
    for number in 0..MANY {
        let path = format!("/ann/Maildir/new/{}.P{number}.host", 1_000_000_000 + number);
        let file = disk.open(Path::new(&path), OpenOptions::create_new(0o600)).unwrap();
        file.write_all_at(format!("Subject: s{number}\n\ntext\n").as_bytes(), 0).unwrap();
    }
    disk.set_now(Timestamp { unix_nanos: disk.now().unix_nanos + 10_000_000_000 });
    let of_vfs = Arc::clone(&gate);
    let vfs = MeanwhileVfs::new(disk.clone(), move |kind, path| {
        let dir = path.parent().and_then(Path::to_str);
        if kind == CallKind::Open && matches!(dir, Some("/ann/Maildir/new" | "/ann/Maildir/cur")) {
            let is_open = of_vfs.0.lock().unwrap();
            let waited = of_vfs.1.wait_timeout_while(is_open, LONG, |is_open| !*is_open).unwrap();
            assert!(!waited.1.timed_out(), "a message was read too early");
        }
    });
    (TestUser::in_vfs(Arc::new(vfs), Quota::default()), disk, gate)
}

fn open(gate: &Gate) {
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
}

fn count(disk: &MemVfs, dir: &str) -> usize {
    let mut count = 0;
    let dir = disk.open_dir(&Path::new("/ann/Maildir").join(dir)).unwrap();
    dir.list(&mut |_, _| count += 1).unwrap();
    count
}

#[test]
fn a_mailbox_is_selected_before_its_messages_are_read() {
    let (user, disk, gate) = gated_user();
    let mut other = user.client();
    other.check("STATUS INBOX (MESSAGES RECENT UNSEEN UIDNEXT)", "MESSAGES 2100 RECENT 2100");
    let mut client = user.client();
    let selected = client.command("SELECT INBOX");
    for line in ["* 2100 EXISTS", "* 2100 RECENT", "[UNSEEN 1]", "[UIDNEXT 2101]", "x OK"] {
        assert!(selected.contains(line), "{line}: {selected}");
    }
    // They are recent for one session only, although no file could be renamed yet.
    other.check("EXAMINE INBOX", "* 0 RECENT");
    other.check("STATUS INBOX (RECENT)", "RECENT 0");
    assert_eq!((count(&disk, "new"), count(&disk, "cur")), (MANY, 0));
    client.check("UID FETCH 7 (FLAGS)", "* 7 FETCH (UID 7 FLAGS (\\Recent))\r\nx OK");
    client.check("FETCH 1:* (UID)", "* 2100 FETCH (UID 2100)\r\nx OK");
    client.check("NOOP", "x OK");

    let (sender, answers) = channel();
    let waiting = std::thread::spawn(move || {
        sender.send(client.command("FETCH 2100 (ENVELOPE FLAGS)")).unwrap();
        sender.send(client.command("UID SEARCH SUBJECT s2099")).unwrap();
        sender.send(client.command("NOOP")).unwrap();
        client
    });
    let (sender, sizes) = channel();
    let sizing = std::thread::spawn(move || {
        sender.send(other.command("STATUS INBOX (SIZE)")).unwrap();
    });
    assert!(answers.recv_timeout(Duration::from_millis(50)).is_err());
    assert!(sizes.recv_timeout(Duration::from_millis(1)).is_err());
    open(&gate);
    let fetched = answers.recv_timeout(LONG).unwrap();
    assert!(fetched.contains("(\"s2099\" ") || fetched.contains("NIL \"s2099\""), "{fetched}");
    assert!(fetched.contains("FLAGS (\\Recent)") && fetched.contains("x OK"), "{fetched}");
    assert!(answers.recv_timeout(LONG).unwrap().contains("* SEARCH 2100\r\n"));
    assert_eq!(answers.recv_timeout(LONG).unwrap(), "x OK NOOP completed\r\n");
    let size: usize =
        (0..MANY).map(|number| format!("Subject: s{number}\r\n\r\ntext\r\n").len()).sum();
    assert!(sizes.recv_timeout(LONG).unwrap().contains(&format!("SIZE {size}")));
    drop(waiting.join().unwrap());
    sizing.join().unwrap();
    assert_eq!((count(&disk, "new"), count(&disk, "cur")), (0, MANY));
}

#[test]
fn what_a_session_that_ends_early_has_claimed_is_renamed_without_it() {
    let (user, disk, gate) = gated_user();
    let mut client = user.client();
    client.check("SELECT INBOX", "* 2100 RECENT");
    // It does not wait for the messages.
    client.check("UNSELECT", "x OK");
    drop(client);
    assert_eq!(count(&disk, "new"), MANY);
    open(&gate);
    user.mail.wait_until_read();
    assert_eq!((count(&disk, "new"), count(&disk, "cur")), (0, MANY));
}

#[test]
fn mail_that_vanishes_before_it_is_read_is_announced() {
    let (user, disk, gate) = gated_user();
    let mut client = user.client();
    client.check("SELECT INBOX", "* 2100 EXISTS");
    disk.remove_file(Path::new("/ann/Maildir/new/1000000004.P4.host")).unwrap();
    let new = disk.open(Path::new("/ann/Maildir/new/2.new"), OpenOptions::create_new(0o600));
    new.unwrap().write_all_at(b"Subject: new\n\ntext\n", 0).unwrap();
    disk.set_now(Timestamp { unix_nanos: disk.now().unix_nanos + 10_000_000_000 });
    let fetching = std::thread::spawn(move || {
        let fetched = client.command("FETCH 4:6 (UID ENVELOPE)");
        (client, fetched)
    });
    open(&gate);
    let (mut client, fetched) = fetching.join().unwrap();
    // The numbers are those of the client, which does not know of the expunge.
    assert!(fetched.contains("* 4 FETCH (UID 4 ") && fetched.contains("* 6 FETCH (UID 6 "));
    assert!(!fetched.contains("* 5 FETCH") && !fetched.contains("EXPUNGE\r\n"), "{fetched}");
    assert!(fetched.contains("x NO [EXPUNGEISSUED]"), "{fetched}");
    let announced = client.command("NOOP");
    assert!(announced.starts_with("* 5 EXPUNGE\r\n* 2100 EXISTS\r\n"), "{announced}");
    client.check("FETCH 2100 (UID BODY[HEADER.FIELDS (SUBJECT)])", "(UID 2101 ");
}
