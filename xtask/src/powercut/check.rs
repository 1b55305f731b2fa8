//! Checks of the mailbox after a power failure.

use std::collections::{BTreeSet, HashMap};

use anyhow::{Context, Result, ensure};
use barid_testkit::boxes::{StoredMessage, read_mbox};
use barid_testkit::disk as files;

use super::Place;
use super::work::{Message, Model, Record, World};

/// A message of the mailbox: its bytes in the file, UID and flags according to barid.
#[derive(Clone, Debug)]
struct Found {
    hash: u64,
    uid: u32,
    flags: BTreeSet<String>,
}

/// Other observations of an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// `true` if there was a journal.
    pub(crate) had_work: bool,
    /// `true` if there were pieces of unacknowledged messages at the end.
    pub(crate) had_pieces: bool,
}

/// Checks that a mounted image contains all changes acknowledged up to event `position`; with
/// `is_again` the mailbox is changed once more.
pub(crate) fn image(
    world: &World<'_>,
    record: &Record,
    position: usize,
    is_again: bool,
) -> Result<Seen> {
    let done = record.acknowledged.partition_point(|change| change.ended <= position);
    let before = match done {
        0 => &record.at_first,
        n => &record.acknowledged[n - 1].after,
    };
    let running = record.acknowledged.get(done).filter(|change| change.began < position);
    let after = running.map_or(before, |change| &change.after);
    let during = || match running {
        Some(change) => format!("during barid {}", change.what),
        None => format!("after {done} changes"),
    };
    let had_work = has_journal(world)?;
    remove_lock(world)?;
    let found = found(world, record).with_context(during)?;
    let pieces = compare(&found, before, after).with_context(during)?;
    if is_again {
        again(world, record, &found).context("changed again").with_context(during)?;
    }
    Ok(Seen { had_work, had_pieces: pieces > 0 })
}

/// Removes the lock file of a program that died with the machine. It would become stale only with
/// time, which does not pass here.
fn remove_lock(world: &World<'_>) -> Result<()> {
    let lock = world.mailbox().with_extension("lock");
    if files::exists(&lock) { files::remove_file(&lock).context("the lock file") } else { Ok(()) }
}

/// Returns `true` if there is a journal beside the mailbox.
fn has_journal(world: &World<'_>) -> Result<bool> {
    let names = files::list(&world.root.join("mail"))?;
    Ok(names.iter().any(|path| path.to_string_lossy().contains("barid-journal")))
}

/// Returns the messages after barid has recovered the mailbox.
fn found(world: &World<'_>, record: &Record) -> Result<Vec<Found>> {
    let mailbox = world.mailbox().display().to_string();
    let status = world.run(&["status", &mailbox, "--json"].map(str::to_owned))?;
    ensure!(!has_journal(world)?, "unfinished work is still there: {status}");
    let mut stored: Vec<StoredMessage> = Vec::new();
    read_mbox(&world.mailbox(), |message| stored.push(message))?;
    let listing = world.run(&["ls", &mailbox, "--json"].map(str::to_owned))?;
    let mut lines: Vec<&str> = listing.lines().collect();
    // The listing is ordered by date.
    lines.sort_by_cached_key(|line| number(line, "seq"));
    ensure!(
        lines.len() == stored.len(),
        "barid lists {} messages, the file has {}; there were {}",
        lines.len(),
        stored.len(),
        record.at_first.len()
    );
    let mut all = Vec::with_capacity(lines.len());
    for (line, stored) in lines.iter().zip(&stored) {
        let uid = number(line, "uid").with_context(|| (*line).to_owned())?;
        // The file has no UIDs before the first sync is complete.
        let is_same = stored.uid.is_none_or(|stored| stored == uid);
        ensure!(is_same, "barid says UID {uid}, the file {:?}", stored.uid);
        let mut flags = strings(line, "flags");
        flags.remove("\\Recent");
        flags.extend(strings(line, "keywords"));
        all.push(Found { hash: stored.hash, uid, flags });
    }
    Ok(all)
}

/// Checks that every message in both models exists once and every other one at most once, with old
/// or new flags. Returns the number of pieces of unacknowledged messages, which are allowed at the
/// end.
fn compare(found: &[Found], before: &Model, after: &Model) -> Result<usize> {
    let index = |model: &Model| -> HashMap<u64, Message> {
        model.iter().map(|message| (message.hash, message.clone())).collect()
    };
    let (old, new) = (index(before), index(after));
    let appended = after.iter().filter(|message| !old.contains_key(&message.hash)).count();
    let kept = |message: &&Message| new.contains_key(&message.hash);
    let mut seen = HashMap::new();
    let (mut last_uid, mut pieces) = (0, 0);
    for message in found {
        let Found { hash, uid, flags } = message;
        let (old, new) = (old.get(hash), new.get(hash));
        let Some(known) = old.or(new) else {
            let is_after = before.iter().filter(kept).all(|old| seen.contains_key(&old.hash));
            pieces += 1;
            ensure!(is_after && pieces <= appended, "UID {uid} has bytes that no message has");
            continue;
        };
        ensure!(seen.insert(*hash, *uid).is_none(), "UID {uid} is there twice");
        ensure!(known.uid == *uid, "UID {uid} was UID {}", known.uid);
        ensure!(*uid > last_uid, "UID {uid} stands after UID {last_uid}");
        last_uid = *uid;
        let is_allowed = [old, new].into_iter().flatten().any(|known| known.flags == *flags);
        ensure!(is_allowed, "UID {uid} has {flags:?}; it had {old:?}, it gets {new:?}");
    }
    for message in before.iter().filter(kept) {
        ensure!(seen.contains_key(&message.hash), "UID {} is lost", message.uid);
    }
    Ok(pieces)
}

/// Checks that the mailbox can be changed: sets a flag on the last message; all others must not
/// change.
fn again(world: &World<'_>, record: &Record, found: &[Found]) -> Result<()> {
    let Some(last) = found.last() else { return Ok(()) };
    let mailbox = world.mailbox().display().to_string();
    let words = ["flag", &mailbox, &last.uid.to_string(), "+deleted", "--write-through"];
    world.run(&words.map(str::to_owned))?;
    let now = self::found(world, record)?;
    ensure!(now.len() == found.len(), "{} messages instead of {}", now.len(), found.len());
    for (before, now) in found.iter().zip(&now) {
        let mut flags = before.flags.clone();
        if before.uid == last.uid {
            flags.insert("\\Deleted".to_owned());
        }
        let is_same = (before.hash, before.uid, &flags) == (now.hash, now.uid, &now.flags);
        ensure!(is_same, "UID {} has changed: {before:?}, {now:?}", before.uid);
    }
    Ok(())
}

/// Checks that the comparison detects lost changes: the disk as it was before a change must not
/// pass as the one after it.
pub(crate) fn can_fail(place: &Place<'_>, record: &Record) -> Result<()> {
    let mut disk = record.before.clone();
    record.log[..record.work_began].iter().for_each(|event| event.apply(&mut disk));
    let mounted = place.mount(disk, false)?;
    let found = found(&place.world(), record)?;
    compare(&found, &record.at_first, &record.at_first).context("the mailbox at first")?;
    for change in &record.acknowledged {
        let is_same = change.after == record.at_first;
        let passes = compare(&found, &change.after, &change.after).is_ok();
        ensure!(passes == is_same, "the check does not see what barid {} changed", change.what);
    }
    mounted.unmount().map(drop)
}

/// Returns the value of a number field of a JSON object.
fn number(json: &str, name: &str) -> Option<u32> {
    let rest = json.split(&format!("\"{name}\":")).nth(1)?;
    rest.split([',', '}']).next()?.trim().parse().ok()
}

/// Returns the plain strings of an array field of a JSON object.
fn strings(json: &str, name: &str) -> BTreeSet<String> {
    let rest = json.split(&format!("\"{name}\":[")).nth(1).unwrap_or_default();
    let array = rest.split(']').next().unwrap_or_default();
    let words = array.split('"').skip(1).step_by(2);
    words.map(|word| word.replace("\\\\", "\\")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(hash: u64, uid: u32, flags: &[&str]) -> Message {
        Message { hash, uid, flags: flags.iter().map(|flag| (*flag).to_owned()).collect() }
    }

    fn check(found: &[(u64, u32, &[&str])], expected: &str) {
        let before = vec![message(1, 1, &[]), message(2, 2, &["a"]), message(3, 3, &[])];
        let after = vec![message(1, 1, &["b"]), message(2, 2, &["a"]), message(4, 4, &[])];
        let found = found.iter().map(|(hash, uid, flags)| message(*hash, *uid, flags));
        let found: Vec<_> =
            found.map(|Message { hash, uid, flags }| Found { hash, uid, flags }).collect();
        let told = compare(&found, &before, &after).err().map(|error| error.to_string());
        assert!(told.unwrap_or_default().starts_with(expected), "{expected}");
    }

    #[test]
    fn old_and_new_are_allowed_and_nothing_else() {
        check(&[(1, 1, &[]), (2, 2, &["a"]), (3, 3, &[])], "");
        check(&[(1, 1, &["b"]), (2, 2, &["a"]), (4, 4, &[])], "");
        check(&[(1, 1, &[]), (2, 2, &["a"])], "");
        let told = compare(&[], &vec![message(1, 1, &[])], &Vec::new());
        told.unwrap();
        check(&[(1, 1, &[])], "UID 2 is lost");
        check(&[(1, 1, &["c"]), (2, 2, &["a"])], "UID 1 has");
        check(&[(1, 1, &[]), (2, 2, &["a"]), (2, 5, &["a"])], "UID 5 is there twice");
        check(&[(1, 1, &[]), (2, 5, &["a"])], "UID 5 was UID 2");
        check(&[(9, 1, &[])], "UID 1 has bytes");
        check(&[(1, 1, &[]), (2, 2, &["a"]), (9, 4, &[])], "");
        check(&[(1, 1, &[]), (2, 2, &["a"]), (9, 4, &[]), (8, 5, &[])], "UID 5 has bytes");
        check(&[(2, 2, &["a"]), (1, 1, &[])], "UID 1 stands after UID 2");
    }

    #[test]
    fn a_line_of_json_is_read() {
        let line = r#"{"v":1,"uid":17,"flags":["\\Seen","\\Draft"],"keywords":["todo"],"size":3}"#;
        assert_eq!(number(line, "uid"), Some(17));
        assert_eq!(strings(line, "flags").into_iter().collect::<Vec<_>>(), ["\\Draft", "\\Seen"]);
        assert_eq!(strings(line, "keywords").len(), 1);
        assert!(strings(line, "none").is_empty());
    }
}
