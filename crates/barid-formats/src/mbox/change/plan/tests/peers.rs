//! c-client and Dovecot open planned mailboxes and find nothing to write.

use barid_mailbox::{ChangeSet, FlagChange};
use barid_testkit::disk;
use barid_testkit::peers::{CClient, Dovecot};
use barid_types::{Flag, FlagSet, Keyword, Uid};

use super::support::World;
use crate::mbox::Variant;

/// Returns a mailbox of `count` messages, synced, with flags, keywords and an expunged message.
fn planned(variant: Variant, count: u32) -> Vec<Vec<u8>> {
    let separator = if variant == Variant::Mmdf { "\x01\x01\x01\x01\n" } else { "" };
    let end = if variant == Variant::Mmdf { separator } else { "\n" };
    let message = |number: u32| {
        let body = "text\n".repeat(number as usize * 40);
        format!(
            "{separator}From a@b.c Thu Nov  9 10:11:12 2023\n\
             Subject: {number}\nStatus: R\nX-Status: F\n\n{body}{end}"
        )
    };
    let text: String = (1..=count).map(message).collect();
    let world = World::new(variant, text.as_bytes());
    let sync = ChangeSet { drop_recent: true, write_uids: true, ..ChangeSet::default() };
    let change = FlagChange {
        add: FlagSet::EMPTY.with(Flag::Answered),
        remove: FlagSet::EMPTY.with(Flag::Flagged),
        add_keywords: vec![Keyword::new("Work").unwrap(), Keyword::new("$Label1").unwrap()],
        remove_keywords: Vec::new(),
    };
    let uid = |uid| Uid::new(uid).unwrap();
    let flags = vec![(uid(2), change.clone()), (uid(count), change)];
    let flagged = ChangeSet { flags: flags.into(), ..ChangeSet::default() };
    let expunged = |uids: Vec<Uid>| ChangeSet { expunge: uids, ..ChangeSet::default() };
    let every = world.scan().seen.iter().map(|seen| seen.uid).collect();
    let changes =
        [sync, flagged, expunged(vec![uid(3), uid(4)]), expunged(vec![uid(1)]), expunged(every)];
    changes.iter().map(|changes| world.apply(changes).bytes).collect()
}

#[test]
fn c_client_leaves_it_alone() {
    for variant in [Variant::Mboxo, Variant::Mmdf] {
        for (step, bytes) in planned(variant, 30).into_iter().enumerate() {
            let Some(mut peer) = CClient::new() else { return };
            let path = peer.folder().join("box");
            disk::write(&path, &bytes).unwrap();
            let count = [30, 30, 28, 27, 0][step];
            assert_eq!(peer.open("box").unwrap(), count, "{variant:?} {step}");
            let uids = peer.command("uids").unwrap();
            let first = [Some("1"), Some("1"), Some("1"), Some("2"), None][step];
            assert_eq!(uids.first().map(String::as_str), first);
            let flags = peer.command("flags").unwrap();
            if let Some(last) = flags.last().filter(|_| step > 0) {
                assert_eq!(last, "AS- Work $Label1");
            }
            peer.command("check").unwrap();
            peer.command("close").unwrap();
            assert!(disk::read(&path).unwrap() == bytes, "{variant:?} {step}: {:?}", peer.messages);
        }
    }
}

#[test]
fn dovecot_leaves_it_alone() {
    for (step, bytes) in planned(Variant::Mboxo, 30).into_iter().enumerate() {
        let Some(peer) = Dovecot::new() else { return };
        let path = peer.folder().join("box");
        disk::write(&path, &bytes).unwrap();
        let location = peer.mbox_location(&path);
        let args = ["-f", "tab", "fetch", "uid flags", "mailbox", "INBOX"];
        let options = [("mbox_lazy_writes", "no")];
        let text = peer.doveadm(&location, &options, &args).unwrap();
        let lines: Vec<_> = text.lines().skip(1).collect();
        assert_eq!(lines.len(), [30, 30, 28, 27, 0][step]);
        if let Some(last) = lines.last().filter(|_| step > 0) {
            assert_eq!(*last, "30\t\\Answered \\Seen Work $Label1");
        }
        let args = ["mailbox", "status", "uidvalidity uidnext recent", "INBOX"];
        let status = peer.doveadm(&location, &options, &args).unwrap();
        assert!(status.contains("uidnext=31 ") && status.contains("recent=0"), "{status}");
        assert!(disk::read(&path).unwrap() == bytes, "step {step}: {}", peer.log());
    }
}
