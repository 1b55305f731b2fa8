//! Mailboxes that are created with a UIDVALIDITY, with messages that have UIDs of their own.

use std::path::Path;
use std::sync::Arc;

use barid::{
    ChangeRequest, CreateOptions, Flag, FlagSet, Format, InternalDate, Keyword, Mailbox,
    MailboxSpec, NewMessage, OpenOptions, ReadAs, Uid, UidValidity, create,
};
use barid_testkit::peers::{CClient, Dovecot};
use barid_vfs::{OsVfs, Vfs};

use crate::arena::{memory, now};

const FORMATS: [&str; 9] =
    ["maildir", "mboxo", "mboxrd", "mboxcl", "mboxcl2", "mmdf", "mbx", "mix", "mh"];
const VALIDITY: u32 = 987_654_321;
/// The requested UIDs in turn, and those assigned.
const BATCHES: [(&[u32], &[u32]); 4] = [
    (&[3, 7, 8, 1000], &[3, 7, 8, 1000]),
    (&[0, 1000, 1001, 1500], &[1001, 1002, 1003, 1500]),
    (&[0, 0], &[1501, 1502]),
    (&[100_000_000, 3_758_096_383, u32::MAX], &[100_000_000, 3_758_096_383, 3_758_096_384]),
];

fn text(number: usize) -> Vec<u8> {
    format!("From: a@b\nSubject: number {number}\n\nbody {number}\n").into_bytes()
}

fn format_of(name: &str) -> Format {
    let spec = MailboxSpec::parse(&format!("{name}:x"));
    spec.format.unwrap().format()
}

fn open(vfs: &Arc<dyn Vfs>, root: &Path, name: &str, cached: bool) -> Mailbox {
    let spec = MailboxSpec::parse(&format!("{name}:{}", root.join("box").display()));
    let cache = cached.then(|| root.join("cache"));
    let options = OpenOptions { threads: 1, ..OpenOptions::new(cache, root.join("state")) };
    Mailbox::open_in(Arc::clone(vfs), &spec, &options).unwrap()
}

fn uids(mailbox: &Mailbox) -> Vec<u32> {
    let rows: Vec<u32> = (0..mailbox.len()).collect();
    let mut uids = Vec::new();
    let mut take = |summary: &barid::Summary<'_>| {
        uids.push(summary.uid.get());
        true
    };
    mailbox.summaries(&rows, &mut take).unwrap();
    uids
}

/// Creates a mailbox and appends batches; returns all UIDs.
fn fill(vfs: &Arc<dyn Vfs>, root: &Path, name: &str, batches: &[(&[u32], &[u32])]) -> Vec<u32> {
    let uidvalidity = UidValidity::new(VALIDITY);
    let options = CreateOptions { uidvalidity, ..CreateOptions::default() };
    create(vfs, &root.join("box"), format_of(name), &options, &root.join("state")).unwrap();
    let mut mailbox = open(vfs, root, name, true);
    assert_eq!(mailbox.status().uidvalidity.get(), VALIDITY, "{name}, empty");
    let mut all: Vec<u32> = Vec::new();
    for (batch, (wished, expected)) in batches.iter().enumerate() {
        let texts: Vec<Vec<u8>> = (0..wished.len()).map(|at| text(all.len() + at)).collect();
        let new = wished.iter().zip(&texts).enumerate().map(|(at, (uid, bytes))| NewMessage {
            bytes,
            internal_date: Some(InternalDate { unix_seconds: 1_000_000_000, zone_minutes: 0 }),
            flags: if at % 2 == 0 { FlagSet::EMPTY.with(Flag::Seen) } else { FlagSet::EMPTY },
            keywords: if at == 1 { Keyword::new("todo").into_iter().collect() } else { vec![] },
            uid: Uid::new(*uid),
            ..NewMessage::default()
        });
        let appends: Vec<NewMessage<'_>> = new.collect();
        let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
        let changed = mailbox.change(&request, &now()).unwrap();
        let given: Vec<u32> = changed.appended.iter().map(|uid| uid.get()).collect();
        assert_eq!(given, *expected, "{name}, batch {batch}");
        all.extend(*expected);
        assert_eq!(uids(&mailbox), all, "{name}, batch {batch}");
        if batch == 1 {
            mailbox = open(vfs, root, name, false);
        }
    }
    all
}

#[test]
fn messages_get_the_uids_they_bring() {
    for name in FORMATS {
        let vfs: Arc<dyn Vfs> = Arc::new(memory());
        let root = Path::new("/");
        let all = fill(&vfs, root, name, &BATCHES);
        for cached in [true, false] {
            let mut mailbox = open(&vfs, root, name, cached);
            assert_eq!(mailbox.status().uidvalidity.get(), VALIDITY, "{name}");
            assert_eq!(uids(&mailbox), all, "{name}");
            for (at, uid) in all.iter().enumerate() {
                let message = mailbox.read(Uid::new(*uid).unwrap(), ReadAs::Message).unwrap();
                let found = barid::message::strip_owned(&message.bytes);
                assert!(
                    String::from_utf8_lossy(&found).trim_end().ends_with(&format!("body {at}")),
                    "{name} {uid}"
                );
            }
            assert!(mailbox.notes().is_empty(), "{name}: {:?}", mailbox.notes());
        }
    }
}

#[test]
fn many_messages_come_with_few_barriers() {
    for name in FORMATS {
        let vfs: Arc<dyn Vfs> = Arc::new(memory());
        let wished: Vec<u32> = (1..=300).map(|uid| uid * 3).collect();
        let all = fill(&vfs, Path::new("/"), name, &[(&wished, &wished)]);
        assert_eq!(uids(&open(&vfs, Path::new("/"), name, false)), all, "{name}");
        let texts: Vec<Vec<u8>> = (300..600).map(text).collect();
        let new = texts.iter().map(|bytes| NewMessage { bytes, ..NewMessage::default() });
        let appends: Vec<NewMessage<'_>> = new.collect();
        let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
        let mut mailbox = open(&vfs, Path::new("/"), name, true);
        let changed = mailbox.change(&request, &now()).unwrap();
        assert!(changed.figures.barriers <= 12, "{name}: {:?}", changed.figures);
        assert_eq!(mailbox.len(), 600, "{name}");
    }
}

#[test]
fn c_client_finds_the_uids() {
    for name in ["mboxo", "mboxcl", "mmdf", "mbx", "mix"] {
        let Some(mut peer) = CClient::new() else { return };
        let all = fill(&(Arc::new(OsVfs) as _), &peer.folder(), name, &BATCHES);
        assert_eq!(peer.open("box").unwrap() as usize, all.len(), "{name}");
        let theirs: Vec<u32> =
            peer.command("uids").unwrap().iter().map(|uid| uid.parse().unwrap()).collect();
        assert_eq!(theirs, all, "{name}");
        let status = peer.command("status").unwrap().concat();
        assert!(status.contains(&VALIDITY.to_string()), "{name}: {status}");
        assert!(peer.messages.is_empty(), "{name}: {:?}", peer.messages);
        peer.command("check").unwrap();
        peer.command("close").unwrap();
        let mailbox = open(&(Arc::new(OsVfs) as _), &peer.folder(), name, true);
        assert_eq!(mailbox.status().uidvalidity.get(), VALIDITY, "{name}");
        assert_eq!(uids(&mailbox), all, "{name}, as c-client left it");
        eprintln!("c-client: {} UIDs of {name}, all equal", all.len());
    }
}

#[test]
fn dovecot_finds_the_uids() {
    for name in ["maildir", "mboxo", "mboxrd", "mboxcl", "mboxcl2"] {
        let Some(peer) = Dovecot::new() else { return };
        let root = peer.folder();
        let all = fill(&(Arc::new(OsVfs) as _), &root, name, &BATCHES);
        let path = root.join("box");
        let location = match name {
            "maildir" => format!("maildir:{}", path.display()),
            _ => peer.mbox_location(&path),
        };
        let fetch = ["-f", "tab", "fetch", "uid", "mailbox", "INBOX"];
        let text = peer.doveadm(&location, &[], &fetch).unwrap();
        let theirs: Vec<u32> = text.lines().skip(1).map(|line| line.parse().unwrap()).collect();
        assert_eq!(theirs, all, "{name}");
        let status = ["-f", "tab", "mailbox", "status", "uidvalidity", "INBOX"];
        let text = peer.doveadm(&location, &[], &status).unwrap();
        assert!(text.contains(&VALIDITY.to_string()), "{name}: {text}");
        eprintln!("Dovecot: {} UIDs of {name}, all equal", all.len());
    }
}
