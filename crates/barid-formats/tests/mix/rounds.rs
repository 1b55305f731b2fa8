//! barid and c-client change one mailbox in turn: neither loses anything.
//!
//! The environment variable `BARID_MIX_ROUNDS` sets the number of rounds; the default is 20.

use std::collections::BTreeMap;
use std::sync::Arc;

use barid_mailbox::ChangeSet;
use barid_testkit::disk;
use barid_testkit::peers::CClient;
use barid_types::{Flag, FlagSet};
use barid_vfs::{OsVfs, Vfs};
use fastrand::Rng;

use super::support::{Cached, MixBox, add, new_message, uid};

const ROUNDS: u32 = 20;

/// Expected content of the mailbox: by UID the text, and `true` if it is flagged.
type Model = BTreeMap<u32, (Vec<u8>, bool)>;

fn text(rng: &mut Rng, number: u32) -> Vec<u8> {
    let mut text = format!("Subject: round {number}\r\n\r\n").into_bytes();
    for _ in 0..rng.usize(..400) {
        text.extend_from_slice(format!("{:x}\r\n", rng.u128(..)).as_bytes());
    }
    text
}

fn chosen(model: &Model, rng: &mut Rng, of: u32) -> Vec<u32> {
    model.keys().copied().filter(|_| rng.u32(..of) == 0).collect()
}

fn ours(mailbox: &mut MixBox, model: &mut Model, last: &mut u32, rng: &mut Rng, number: u32) {
    let flag = chosen(model, rng, 4);
    let expunge = chosen(model, rng, 6);
    let flags = FlagSet::EMPTY.with(Flag::Flagged);
    let changes = ChangeSet {
        flags: flag.iter().map(|n| add(*n, flags, &["todo"])).collect(),
        expunge: expunge.iter().map(|n| uid(*n)).collect(),
        drop_recent: rng.bool(),
        ..ChangeSet::default()
    };
    let texts: Vec<_> = (0..rng.usize(1..4)).map(|_| text(rng, number)).collect();
    let messages: Vec<_> = texts.iter().map(|text| new_message(text)).collect();
    let report = mailbox.sync(&changes, &messages).unwrap();
    assert_eq!((report.gone, report.failed), (Vec::new(), Vec::new()));
    flag.iter().for_each(|n| model.get_mut(n).unwrap().1 = true);
    expunge.iter().for_each(|n| drop(model.remove(n)));
    for text in texts {
        *last += 1;
        model.insert(*last, (text, false));
    }
}

fn theirs(peer: &mut CClient, model: &mut Model, last: &mut u32, rng: &mut Rng, number: u32) {
    let texts: Vec<_> = (0..rng.usize(1..4)).map(|_| text(rng, number)).collect();
    let mut batch = Vec::new();
    for text in &texts {
        batch.extend_from_slice(format!("{}\n", text.len()).as_bytes());
        batch.extend_from_slice(text);
    }
    let path = peer.folder().join("batch");
    disk::write(&path, &batch).unwrap();
    assert_eq!(peer.open("box").unwrap() as usize, model.len(), "{:?}", peer.messages);
    let numbers: Vec<u32> = model.keys().copied().collect();
    for (at, number) in numbers.iter().enumerate() {
        match rng.u32(..8) {
            0 => {
                peer.command(&format!("flag {} \\Flagged", at + 1)).unwrap();
                model.get_mut(number).unwrap().1 = true;
            }
            1 => {
                peer.command(&format!("flag {} \\Deleted", at + 1)).unwrap();
                model.remove(number);
            }
            _ => {}
        }
    }
    peer.command("expunge").unwrap();
    peer.command(&format!("append box {}", path.display())).unwrap();
    peer.command("close").unwrap();
    for text in texts {
        *last += 1;
        model.insert(*last, (text, false));
    }
    let bad = peer.messages.iter().find(|message| message.starts_with("2 "));
    assert_eq!(bad, None);
}

fn check(mailbox: &MixBox, known: Option<Cached>, model: &Model) -> Cached {
    let cached = match known {
        Some(known) => mailbox.rescan(&known).1,
        None => mailbox.scan(),
    };
    assert_eq!(cached.report.defects, []);
    let contents = mailbox.contents(&cached);
    let found: Model = contents
        .into_iter()
        .map(|(uid, content)| (uid, (content.text, content.flags.contains(Flag::Flagged))))
        .collect();
    assert!(found == *model, "{:?} instead of {:?}", found.keys(), model.keys());
    cached
}

#[test]
fn turns_are_taken_and_nothing_is_lost() {
    let rounds = std::env::var("BARID_MIX_ROUNDS").ok();
    let rounds = rounds.map_or(ROUNDS, |number| number.parse().unwrap());
    let Some(mut peer) = CClient::new() else { return };
    peer.mailutil(&["create", "#driver.mix/box"]).unwrap();
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
    let mut mailbox = MixBox::open(vfs, &peer.folder().join("box"));
    let (mut model, mut last, mut rng) = (Model::new(), 0, Rng::with_seed(4));
    let mut known = None;
    for number in 0..rounds {
        ours(&mut mailbox, &mut model, &mut last, &mut rng, number);
        known = Some(check(&mailbox, known, &model));
        theirs(&mut peer, &mut model, &mut last, &mut rng, number);
        known = Some(check(&mailbox, known, &model));
    }
    println!("mix: {rounds} rounds, {last} messages, {} left", model.len());
}
