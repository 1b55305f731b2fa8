//! Incremental results equal those from scratch: random deliveries, flag changes and expunges by
//! others.

use std::path::Path;

use barid_vfs::Vfs;

use crate::world::{World, orders, told};

/// Number of random histories of a format.
const HISTORIES: u64 = 40;
/// Number of steps of one history.
const STEPS: u32 = 12;

#[test]
fn a_maildir_in_change_equals_one_read_anew() {
    for seed in 0..HISTORIES {
        history(World::maildir(seed), seed, change_maildir);
    }
}

#[test]
fn an_mbox_in_change_equals_one_read_anew() {
    for seed in 0..HISTORIES {
        history(World::mbox(seed), seed, change_mbox);
    }
}

fn history(mut world: World, seed: u64, change: fn(&mut World, &mut fastrand::Rng)) {
    let mut random = fastrand::Rng::with_seed(seed);
    world.deliver(random.u64(0..20));
    let mut live = world.open();
    let mut given: Vec<u32> = Vec::new();
    let mut uidnext = 1;
    for step in 0..STEPS {
        for _ in 0..random.u32(0..4) {
            change(&mut world, &mut random);
        }
        if random.bool() {
            world.wait();
        }
        // One mailbox stays open, one is reopened with the cache, one without.
        live.refresh().unwrap();
        let mut cached = world.open();
        let mut scratch = world.open_from_scratch();
        let expected = told(&scratch);
        assert_eq!(told(&cached), expected, "seed {seed}, step {step}");
        assert_eq!(told(&live), expected, "seed {seed}, step {step}, kept open");
        let wanted = orders(&mut scratch);
        assert_eq!(orders(&mut cached), wanted, "seed {seed}, step {step}");
        assert_eq!(orders(&mut live), wanted, "seed {seed}, step {step}, kept open");
        let unseen = expected.iter().filter(|m| !m.flags.contains(barid::Flag::Seen)).count();
        assert_eq!(cached.status().unseen as usize, unseen, "seed {seed}, step {step}");
        let uids: Vec<u32> = expected.iter().map(|message| message.uid).collect();
        assert!(uids.is_sorted_by(|a, b| a < b));
        let new = uids.iter().filter(|uid| !given.contains(uid));
        assert!(new.clone().all(|uid| *uid >= uidnext), "a UID was used again");
        uidnext = cached.status().uidnext.get();
        given = uids;
    }
}

fn change_maildir(world: &mut World, random: &mut fastrand::Rng) {
    let files = world.files();
    let choice = random.u32(0..4);
    if choice == 0 || files.is_empty() {
        return world.deliver(random.u64(1..5));
    }
    let file = &files[random.usize(..files.len())];
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    let base = name.split(':').next().unwrap();
    match choice {
        1 => world.memory.remove_file(file).unwrap(),
        _ => {
            let letters: String = "DFRSTa".chars().filter(|_| random.bool()).collect();
            let to = world.path().join("cur").join(format!("{base}:2,{letters}"));
            world.memory.rename(file, &to).unwrap();
        }
    }
}

fn change_mbox(world: &mut World, random: &mut fastrand::Rng) {
    let bytes = world.read_mbox();
    let starts = message_starts(&bytes);
    let choice = random.u32(0..4);
    if choice == 0 || starts.is_empty() {
        return world.deliver(random.u64(1..5));
    }
    let at = random.usize(..starts.len());
    let start = starts[at];
    let end = starts.get(at + 1).copied().unwrap_or(bytes.len());
    let mut changed = bytes[..start].to_vec();
    if choice > 1 {
        // As a rewriting client does: a status line after the From_ line.
        let line_end = start + bytes[start..end].iter().position(|byte| *byte == b'\n').unwrap();
        changed.extend_from_slice(&bytes[start..=line_end]);
        let status = ["Status: R\n", "Status: RO\nX-Status: AF\n", "X-Status: D\n"];
        changed.extend_from_slice(random.choice(status).unwrap().as_bytes());
        changed.extend_from_slice(&bytes[line_end + 1..end]);
    }
    changed.extend_from_slice(&bytes[end..]);
    world.write_mbox(&changed);
}

fn message_starts(bytes: &[u8]) -> Vec<usize> {
    let at_line_start = |at: usize| at == 0 || bytes[at - 1] == b'\n';
    let lines = (0..bytes.len()).filter(|at| at_line_start(*at));
    lines.filter(|at| bytes[*at..].starts_with(b"From ")).collect()
}

#[test]
fn the_mailbox_lies_where_the_test_says() {
    // The changes above are made by path, without the library's knowledge.
    assert_eq!(World::maildir(0).path(), Path::new("/mail/box"));
}
