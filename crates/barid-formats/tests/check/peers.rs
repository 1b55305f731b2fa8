//! Repaired mailboxes: c-client and Dovecot open them without a complaint, and see the same
//! messages, UIDs and flags as we do.

use std::path::Path;
use std::sync::Arc;

use barid_formats::MailboxSpec;
use barid_mailbox::{EmptyKnown, ScanContext};
use barid_testkit::disk;
use barid_testkit::peers::{CClient, Dovecot};
use barid_vfs::Vfs;
use fastrand::Rng;

use super::cases;
use super::crash::files;
use super::world::{Box_, Case, View};
use crate::support::{Cached, new_ledger};

/// Number of mailboxes for each kind of damage.
const SEEDS: u64 = 3;

/// A message: UID, flags and keywords in order, Message-ID.
type Seen = (u32, Vec<String>, String);

/// Returns a mailbox that was damaged and repaired; `None` if nothing could be repaired.
fn repaired(case: &Case, seed: u64) -> Option<Box_> {
    let mut rng = Rng::with_seed(seed);
    let mut mailbox = (case.build)(&mut rng);
    let expected = (case.damage)(&mut mailbox, &mut rng);
    if expected.is_hopeless {
        return None;
    }
    let view = View::of(&mailbox.disk, &mailbox.spec);
    assert!(view.repair().unwrap().kept.is_some());
    Some(mailbox)
}

fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    words.sort();
    words
}

fn ours(mailbox: &Box_) -> Vec<Seen> {
    let vfs: Arc<dyn Vfs> = Arc::new(mailbox.disk.snapshot());
    let mailbox = barid_formats::open(vfs, &MailboxSpec::parse(&mailbox.spec)).unwrap();
    let mut ledger = new_ledger();
    let mut context = ScanContext {
        ledger: &mut ledger,
        read_only: false,
        full_check: true,
        will_rescan: false,
        threads: 1,
        progress: None,
    };
    let found = Cached::scan(&*mailbox, &EmptyKnown::default(), &mut context).unwrap();
    let message = |seen| {
        let seen: &crate::support::Seen = seen;
        let (letters, keywords) = {
            let flags = found.flags_of(seen);
            let (letters, keywords) = flags.split_once('-').unwrap();
            (letters.replace('R', ""), keywords.to_owned())
        };
        let flags = letters.split("").chain(keywords.split(' ')).filter(|word| !word.is_empty());
        let id = barid_message::field(&seen.header, b"Message-ID");
        let id = id.map(|field| String::from_utf8_lossy(field.body).trim().to_owned());
        (seen.uid.get(), words(flags), id.unwrap_or_default())
    };
    found.seen.iter().map(message).collect()
}

/// Writes the files where the other program looks for them.
fn put(mailbox: &Box_, path: &Path) {
    let is_dir = mailbox.folder.ends_with("box");
    if is_dir {
        disk::create_dir(path).unwrap();
    }
    for (file, bytes) in files(&mailbox.disk, &mailbox.folder) {
        let name = file.strip_prefix(&mailbox.folder).unwrap();
        let to = if is_dir { path.join(name) } else { path.to_owned() };
        disk::write(&to, &bytes.unwrap()).unwrap();
    }
}

fn c_client(peer: &mut CClient, name: &str) -> Vec<Seen> {
    peer.messages.clear();
    peer.open(name).unwrap();
    let [uids, flags, ids] = ["uids", "flags", "ids"].map(|what| peer.command(what).unwrap());
    let seen = uids.iter().zip(&flags).zip(&ids).map(|((uid, flags), id)| {
        let (letters, keywords) = flags.split_once('-').unwrap_or((flags, ""));
        let letters = letters.replace(['R', ' '], "");
        let flags = letters.split("").chain(keywords.split(' ')).filter(|word| !word.is_empty());
        (uid.parse().unwrap(), words(flags), id.trim().to_owned())
    });
    let seen = seen.collect();
    peer.command("close").unwrap();
    let bad = peer.messages.iter().find(|message| message.starts_with('2'));
    assert_eq!(bad, None, "{name}");
    seen
}

fn dovecot(peer: &Dovecot, path: &Path) -> Vec<Seen> {
    let args = ["-f", "tab", "fetch", "uid flags hdr.message-id", "mailbox", "INBOX"];
    let text = peer.doveadm(&peer.mbox_location(path), &[], &args).unwrap();
    let letter = |word| match word {
        "\\Answered" => "A",
        "\\Deleted" => "D",
        "\\Flagged" => "F",
        "\\Seen" => "S",
        "\\Draft" => "T",
        word => word,
    };
    let seen = text.lines().skip(1).map(|line| {
        let [uid, flags, id] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let flags = flags.split(' ').filter(|word| !matches!(*word, "" | "\\Recent"));
        (uid.parse().unwrap(), words(flags.map(letter)), id.trim().to_owned())
    });
    seen.collect()
}

#[test]
fn c_client_sees_what_was_repaired() {
    let Some(mut peer) = CClient::new() else { return };
    let (mut messages, mut failed) = (0, Vec::new());
    for (number, case) in cases().iter().enumerate() {
        for seed in 0..SEEDS {
            let Some(mailbox) = repaired(case, seed) else { break };
            if !["mbx", "mix", "mbox"].contains(&case.format) {
                break;
            }
            let name = format!("box-{number}-{seed}");
            put(&mailbox, &peer.folder().join(&name));
            let (theirs, ours) = (c_client(&mut peer, &name), ours(&mailbox));
            messages += ours.len();
            if ours != theirs {
                failed.push((case.format, case.name, seed, ours, theirs));
            }
        }
    }
    println!("{messages} messages");
    assert!(messages > 1_000, "{messages}");
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn dovecot_sees_what_was_repaired() {
    let Some(peer) = Dovecot::new() else { return };
    let (mut messages, mut failed) = (0, Vec::new());
    for (number, case) in cases().iter().enumerate().filter(|(_, case)| case.format == "mbox") {
        for seed in 0..SEEDS {
            let Some(mailbox) = repaired(case, seed) else { break };
            let path = peer.folder().join(format!("box-{number}-{seed}"));
            put(&mailbox, &path);
            let (theirs, ours) = (dovecot(&peer, &path), ours(&mailbox));
            messages += ours.len();
            if ours != theirs {
                failed.push((case.name, seed, ours, theirs));
            }
        }
    }
    println!("{messages} messages");
    assert!(messages > 100, "{messages}");
    assert!(failed.is_empty(), "{failed:#?}");
}
