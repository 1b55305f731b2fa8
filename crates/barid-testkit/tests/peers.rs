//! The peers answer: one small mailbox each.

use barid_testkit::Scratch;
use barid_testkit::peers::{CClient, Dovecot, NeoMutt};
use barid_testkit::usage::Sampling;

const MESSAGES: [&str; 3] = [
    "From: a@example.org\nDate: Mon, 1 Jan 2024 10:00:00 +0000\nSubject: one\n\
     Message-ID: <1@example.org>\n\nfirst\n",
    "From: b@example.org\nDate: Mon, 1 Jan 2024 12:00:00 +0000\nSubject: Re: one\n\
     Message-ID: <2@example.org>\nReferences: <1@example.org>\n\nsecond\n",
    "From: c@example.org\nDate: Mon, 1 Jan 2024 11:00:00 +0000\nSubject: two\n\
     Message-ID: <3@example.org>\n\nthird\n",
];

#[expect(clippy::disallowed_methods, reason = "peers read real files")]
fn maildir(scratch: &Scratch) -> std::path::PathBuf {
    let path = scratch.path().join("box");
    for folder in ["cur", "new", "tmp"] {
        std::fs::create_dir_all(path.join(folder)).unwrap();
    }
    for (i, message) in MESSAGES.iter().enumerate() {
        std::fs::write(path.join(format!("cur/170410000{i}.M1P1.host:2,S")), message).unwrap();
    }
    path
}

#[test]
fn dovecot_threads_and_sorts() {
    let Some(dovecot) = Dovecot::new() else { return };
    let scratch = Scratch::new("test").unwrap();
    let location = format!("maildir:{}", maildir(&scratch).display());
    let mut imap = dovecot.imap(&location, &[]).unwrap();
    let selected = imap.command("SELECT INBOX").unwrap();
    assert_eq!(selected.number("EXISTS"), Some(3));
    assert!(selected.code("UIDVALIDITY").is_some());
    let threads = imap.command("THREAD REFERENCES UTF-8 ALL").unwrap();
    assert_eq!(threads.find("THREAD").as_deref(), Some("(1 2)(3)"));
    let order = imap.command("SORT (REVERSE DATE) UTF-8 ALL").unwrap();
    assert_eq!(order.numbers("SORT"), Some(vec![2, 3, 1]));
    let body = imap.command("FETCH 3 BODY.PEEK[TEXT]").unwrap();
    assert_eq!(body.untagged, [b"3 FETCH (BODY[TEXT] {7}\r\nthird\r\n)"]);
    imap.append("INBOX", "(\\Seen)", MESSAGES[0].replace('\n', "\r\n").as_bytes()).unwrap();
    assert!(imap.command("NONSENSE").is_err());
    assert!(imap.logout().unwrap().status.success());
    let fetched = dovecot.doveadm(&location, &[], &["fetch", "uid", "all"]).unwrap();
    assert_eq!(fetched.matches("uid: ").count(), 4, "{fetched}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "peers read real files")]
fn c_client_threads_and_sorts() {
    let Some(mut peer) = CClient::new() else { return };
    let from = |message: &&str| format!("From x@y Mon Jan  1 00:00:00 2024\n{message}\n");
    let mbox: String = MESSAGES.iter().map(from).collect();
    std::fs::write(peer.folder().join("box"), &mbox).unwrap();
    assert_eq!(peer.open("box").unwrap(), 3);
    assert_eq!(peer.thread("REFERENCES").unwrap(), "(1 2)(3)");
    assert_eq!(peer.sort("REVERSE DATE").unwrap(), [2, 3, 1]);
    assert_eq!(peer.command("uids").unwrap(), ["1", "2", "3"]);
    assert_eq!(peer.command("text 2").unwrap(), [" second"]);
    assert!(peer.open("none").is_err());
    assert!(peer.mailutil(&["check", "box"]).unwrap().contains('3'));
    assert!(peer.quit().unwrap().status.success());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "peers read real files")]
fn c_client_changes_and_appends() {
    let Some(mut peer) = CClient::new() else { return };
    let from = |message: &&str| format!("From x@y Mon Jan  1 00:00:00 2024\n{message}\n");
    let mbox: String = MESSAGES.iter().map(from).collect();
    let path = peer.folder().join("box");
    std::fs::write(&path, &mbox).unwrap();
    let wire = MESSAGES[0].replace('\n', "\r\n");
    let framed = format!("{}\n{wire}", wire.len()).repeat(2);
    std::fs::write(peer.folder().join("batch"), framed).unwrap();
    assert_eq!(peer.open("box").unwrap(), 3);
    peer.command("setflag 1:3 \\Flagged").unwrap();
    peer.command("clearflag 3 \\Flagged").unwrap();
    peer.command("setflag 2 \\Deleted").unwrap();
    peer.command("expunge").unwrap();
    assert_eq!(peer.command("append box batch").unwrap(), ["2"]);
    assert_eq!(peer.command("multiappend box batch").unwrap(), ["2"]);
    peer.command("check").unwrap();
    assert_eq!(peer.command("uids").unwrap(), ["1", "3", "4", "5", "6", "7"]);
    assert_eq!(peer.command("flags").unwrap()[..2], ["FR-", "R-"]);
    peer.command("close").unwrap();
    let mut uids = Vec::new();
    let count = barid_testkit::boxes::read_mbox(&path, |message| uids.extend(message.uid));
    assert_eq!((count.unwrap(), uids), (6, vec![1, 3, 4, 5, 6, 7]));
    assert!(peer.quit().unwrap().status.success());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "peers read real files")]
fn barriers_are_counted() {
    let (Some(dovecot), Some(mut peer)) = (Dovecot::new(), CClient::new_in(None, true)) else {
        return;
    };
    let from = |message: &&str| format!("From x@y Mon Jan  1 00:00:00 2024\n{message}\n");
    let mbox: String = MESSAGES.iter().map(from).collect();
    std::fs::write(peer.folder().join("box"), &mbox).unwrap();
    assert_eq!(peer.open("box").unwrap(), 3);
    assert!(peer.barriers().unwrap() > 0);
    assert!(peer.quit().unwrap().status.success());
    let path = dovecot.folder().join("box");
    std::fs::write(&path, &mbox).unwrap();
    let location = dovecot.mbox_location(&path);
    let mut imap = dovecot.imap_counted(&location, &[("mbox_lazy_writes", "no")]).unwrap();
    imap.command("SELECT INBOX").unwrap();
    // Dovecot syncs appends, but not rewrites.
    assert_eq!(imap.barriers(), Some(0));
    imap.append("INBOX", "", MESSAGES[0].replace('\n', "\r\n").as_bytes()).unwrap();
    assert!(imap.barriers().unwrap() > 0);
    let comm = std::fs::read_to_string(format!("/proc/{}/comm", imap.pid().unwrap())).unwrap();
    assert_eq!(comm.trim(), "imap");
    imap.logout().unwrap();
}

#[test]
fn neomutt_opens_a_maildir() {
    let Some(neomutt) = NeoMutt::new() else { return };
    let scratch = Scratch::new("test").unwrap();
    let maildir = maildir(&scratch);
    assert_eq!(neomutt.count(&maildir).unwrap().messages, Some(3));
    neomutt.clear_cache().unwrap();
    assert!(neomutt.open(&maildir, Sampling::Off).unwrap().usage.maxrss > 1 << 20);
}
