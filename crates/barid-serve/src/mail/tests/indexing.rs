//! The text index that the first searches of a session begin.

use std::path::Path;
use std::time::{Duration, Instant};

use barid::vfs::{File, atomic_replace};
use barid_imap::command::MailboxName;

use super::TestUser;
use crate::quota::Quota;

/// More messages than are searched without an index.
const MESSAGES: u32 = 2_500;

#[test]
fn a_search_that_reads_much_begins_an_index() {
    let user = TestUser::new(Quota::default());
    user.vfs.create_dir_all(Path::new("/ann/Maildir/cur"), 0o700).unwrap();
    for number in 0..MESSAGES {
        let path = format!("/ann/Maildir/cur/{}.M{number}.host:2,S", 1_500_000_000 + number);
        let text = format!("Subject: {number}\n\nword{number} text\n");
        let write = |file: &dyn File| file.write_all_at(text.as_bytes(), 0);
        atomic_replace(&*user.vfs, Path::new(&path), 0o600, false, write).unwrap();
    }
    let mut client = user.client();
    client.check("SELECT INBOX", "x OK");
    let mailbox = user.mail.open_mailbox(&MailboxName("INBOX".to_owned())).unwrap();
    let status = || mailbox.view().index_status().unwrap().unwrap();
    assert_eq!(status().covered, 0);
    let answer = client.command("SEARCH BODY ord1234");
    assert!(answer.starts_with("* SEARCH 1235\r\n"), "{answer}");
    let until = Instant::now() + Duration::from_secs(60);
    while status().covered < MESSAGES && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!((status().covered, status().messages), (MESSAGES, MESSAGES));
    assert_eq!(client.command("SEARCH BODY ord1234"), answer);
}
