//! c-client and barid on one mbx: the same bytes for the same script, and nothing lost when they
//! take turns.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use barid_mailbox::{ChangeSet, FlagChange, NewMessage};
use barid_testkit::disk;
use barid_testkit::peers::CClient;
use barid_types::{Flag, FlagSet, Uid};
use barid_vfs::OsVfs;
use fastrand::Rng;

use super::support::{Cached, World, keyword, new_message};

/// Number of rounds, unless `BARID_MBX_ROUNDS` sets another.
const ROUNDS: u32 = 20;

const KEYWORDS: [&str; 3] = ["Junk", "$Label1", "todo"];

const FLAGS: [(Flag, &str); 5] = [
    (Flag::Seen, "\\Seen"),
    (Flag::Deleted, "\\Deleted"),
    (Flag::Flagged, "\\Flagged"),
    (Flag::Answered, "\\Answered"),
    (Flag::Draft, "\\Draft"),
];

/// An operation on a mailbox; messages are identified by their index.
#[derive(Clone, Debug)]
enum Op {
    Append(Vec<String>),
    Flag(usize, usize, bool),
    Keyword(usize, usize, bool),
    Expunge,
}

fn text(rng: &mut Rng, number: u32) -> String {
    let body = format!("Body {number} {}\r\n", rng.u32(..)).repeat(rng.usize(1..90));
    format!("Subject: message {number}\r\nMessage-ID: <{number}@example.org>\r\n\r\n{body}")
}

fn op(rng: &mut Rng, count: usize, made: &mut u32) -> Op {
    match rng.u32(..9) {
        0 | 1 => Op::Append(
            (0..rng.u32(1..4))
                .map(|_| {
                    *made += 1;
                    text(rng, *made)
                })
                .collect(),
        ),
        _ if count == 0 => Op::Append(vec![text(rng, 0)]),
        // \Deleted gets a larger share.
        2..=4 => {
            let flag = rng.usize(..8);
            let flag = if flag < FLAGS.len() { flag } else { 1 };
            Op::Flag(rng.usize(..count), flag, rng.u32(..3) > 0)
        }
        5 | 6 => Op::Keyword(rng.usize(..count), rng.usize(..KEYWORDS.len()), rng.bool()),
        _ => Op::Expunge,
    }
}

fn theirs(peer: &mut CClient, name: &str, op: &Op) {
    match op {
        Op::Append(texts) => {
            let file = peer.folder().join("messages");
            let all = texts.iter().map(|text| format!("{}\n{text}", text.len()));
            disk::write(&file, all.collect::<String>().as_bytes()).unwrap();
            let done = peer.command(&format!("append {name} {}", file.display())).unwrap();
            assert_eq!(done, [texts.len().to_string()], "{:?}", peer.messages);
            peer.command("ping").unwrap();
        }
        Op::Flag(at, flag, adds) => {
            let verb = if *adds { "flag" } else { "unflag" };
            peer.command(&format!("{verb} {} {}", at + 1, FLAGS[*flag].1)).unwrap();
        }
        Op::Keyword(at, name, adds) => {
            let verb = if *adds { "flag" } else { "unflag" };
            peer.command(&format!("{verb} {} {}", at + 1, KEYWORDS[*name])).unwrap();
        }
        Op::Expunge => drop(peer.command("expunge").unwrap()),
    }
}

fn ours(world: &World, op: &Op) {
    let known = world.scan();
    let mut changes = ChangeSet { drop_recent: true, ..ChangeSet::default() };
    let mut appends: Vec<NewMessage<'_>> = Vec::new();
    let uid = |at: &usize| known.seen[*at].uid;
    let mut change = FlagChange::default();
    match op {
        Op::Append(texts) => {
            appends.extend(texts.iter().map(|text| {
                let mut message = new_message(text.as_bytes(), 0);
                message.internal_date = None;
                message
            }));
        }
        Op::Flag(at, flag, adds) => {
            let set = if *adds { &mut change.add } else { &mut change.remove };
            *set = FlagSet::EMPTY.with(FLAGS[*flag].0);
            changes.flags.push((uid(at), change));
        }
        Op::Keyword(at, name, adds) => {
            let set = if *adds { &mut change.add_keywords } else { &mut change.remove_keywords };
            set.push(keyword(KEYWORDS[*name]));
            // c-client also lists keywords that are removed.
            changes.keywords.push(keyword(KEYWORDS[*name]));
            changes.flags.push((uid(at), change));
        }
        Op::Expunge => {
            let deleted = known.seen.iter().filter(|seen| seen.flags.contains(Flag::Deleted));
            changes.expunge = deleted.map(|seen| seen.uid).collect();
        }
    }
    world.try_sync(&known, &changes, &appends).unwrap();
}

/// Returns the bytes of a file without those that differ in every run: UIDVALIDITY, process id, and
/// the times of appending.
fn normal(path: &Path) -> String {
    let mut bytes = disk::read(path).unwrap();
    bytes[7..15].fill(b'_');
    bytes[2038..2048].fill(b'_');
    let text = String::from_utf8(bytes).unwrap();
    let lines = text.split("\r\n").map(|line| match line.split_once(',') {
        Some((date, rest)) if date.len() == 26 && date.contains(':') => format!("DATE,{rest}"),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn world(peer: &CClient, name: &str) -> World {
    World::on(Arc::new(OsVfs), &peer.folder().join(name))
}

#[test]
fn the_same_script_gives_the_same_bytes() {
    let Some(mut peer) = CClient::new() else { return };
    for name in ["theirs", "ours"] {
        peer.mailutil(&["create", &format!("#driver.mbx/{name}")]).unwrap();
    }
    let our_world = world(&peer, "ours");
    let (mut rng, mut made, mut compared) = (Rng::with_seed(7), 0, 0);
    for round in 0..30 {
        peer.open("theirs").unwrap();
        for _ in 0..rng.u32(1..5) {
            let known = our_world.scan();
            let op = op(&mut rng, known.seen.len(), &mut made);
            theirs(&mut peer, "theirs", &op);
            ours(&our_world, &op);
            // Appended messages have been seen.
            ours(&our_world, &Op::Append(Vec::new()));
        }
        peer.command("close").unwrap();
        let [theirs, ours] = ["theirs", "ours"].map(|name| normal(&peer.folder().join(name)));
        assert!(theirs == ours, "round {round}:\n{theirs}\nand ours:\n{ours}");
        compared += 1;
    }
    println!("{compared} rounds, {made} messages appended, all bytes equal");
    let errors: Vec<_> = peer.messages.iter().filter(|text| text.starts_with('2')).collect();
    assert!(errors.is_empty(), "{errors:?}");
}

/// Returns the view of c-client: UIDs, flags except \Recent, text.
fn their_view(peer: &mut CClient) -> Vec<(u32, String, String)> {
    peer.command("check").unwrap();
    let uids = peer.command("uids").unwrap();
    let flags = peer.command("flags").unwrap();
    let mut view = Vec::new();
    for (number, (uid, flags)) in (1..).zip(uids.iter().zip(&flags)) {
        let mut text = String::new();
        for part in ["header", "text"] {
            for line in peer.command(&format!("{part} {number}")).unwrap() {
                text.push_str(&line[1..]);
                text.push_str("\r\n");
            }
        }
        view.push((uid.parse().unwrap(), flags.replace("R-", "-"), text));
    }
    view
}

fn our_view(world: &World, found: &Cached) -> Vec<(u32, String, String)> {
    let message = |seen: &super::support::Seen| {
        let text = String::from_utf8(world.read(seen).unwrap()).unwrap();
        (seen.uid.get(), found.flags_of(seen).replace("R-", "-"), text)
    };
    found.seen.iter().map(message).collect()
}

#[test]
fn taking_turns_loses_nothing() {
    let given = std::env::var("BARID_MBX_ROUNDS").ok();
    let rounds = given.map_or(ROUNDS, |rounds| rounds.parse().expect("because it is a number"));
    let Some(mut peer) = CClient::new() else { return };
    peer.mailutil(&["create", "#driver.mbx/box"]).unwrap();
    let world = world(&peer, "box");
    let (mut rng, mut made) = (Rng::with_seed(11), 0);
    let mut known = world.scan();
    let mut texts: BTreeMap<Uid, String> = BTreeMap::new();
    let (mut hidden, mut compared) = (0, 0);
    for round in 0..rounds {
        peer.open("box").unwrap();
        // Their session may stay open while we change the mailbox.
        let stays = rng.bool();
        if !stays {
            peer.command("close").unwrap();
        }
        let many = world.scan().seen.len();
        let mut ops: Vec<Op> = (0..rng.u32(1..4)).map(|_| op(&mut rng, many, &mut made)).collect();
        ops.retain(|op| !matches!(op, Op::Expunge));
        if many > 3 && rng.bool() {
            ops.extend([Op::Flag(rng.usize(..many), 1, true), Op::Expunge]);
        }
        for op in ops {
            let size = disk::size(&world.path).unwrap();
            let count = world.scan().seen.len();
            ours(&world, &op);
            let is_fewer = world.scan().seen.len() < count;
            hidden += u32::from(is_fewer && disk::size(&world.path).unwrap() == size);
        }
        if !stays {
            peer.open("box").unwrap();
        }
        // Their check removes hidden messages if no other session is open.
        let view = their_view(&mut peer);
        assert_eq!(view, our_view(&world, &world.scan()), "round {round}");
        for _ in 0..rng.u32(1..4) {
            let op = op(&mut rng, world.scan().seen.len(), &mut made);
            theirs(&mut peer, "box", &op);
        }
        // The state known before suffices to detect their changes.
        known = known.and(world.try_scan(&known).unwrap());
        assert_eq!(known.seen, world.scan().seen, "round {round}");
        let view = their_view(&mut peer);
        assert_eq!(view, our_view(&world, &world.scan()), "round {round}");
        for (uid, _, text) in view {
            let before = texts.entry(Uid::new(uid).unwrap()).or_insert_with(|| text.clone());
            assert_eq!(*before, text, "round {round}: a message became another");
            compared += 1;
        }
        peer.command("close").unwrap();
        known = known.and(world.try_scan(&known).unwrap());
    }
    println!("{rounds} rounds, {compared} messages compared, {hidden} times messages were hidden");
    assert!(compared > rounds * 2 && hidden > 0);
    let errors: Vec<_> = peer.messages.iter().filter(|text| text.starts_with('2')).collect();
    assert!(errors.is_empty(), "{errors:?}");
}
