//! Deliveries to folders with a file per message.

use std::io;
use std::path::Path;

use barid_vfs::{OpenOptions, Vfs};

use super::overwrite;

/// Delivers to a Maildir as qmail does: a file in `tmp`, linked to `new`.
///
/// # Errors
/// Errors of the file system.
pub fn deliver_to_maildir(vfs: &dyn Vfs, path: &Path, text: &[u8]) -> io::Result<bool> {
    let name = unique_name(vfs);
    let (tmp, new) = (path.join("tmp").join(&name), path.join("new").join(&name));
    vfs.open(&tmp, OpenOptions::create_new(0o600))?.write_all_at(text, 0)?;
    vfs.hard_link(&tmp, &new)?;
    vfs.remove_file(&tmp).map(|()| true)
}

/// Delivers to a Maildir as Dovecot does: a file in `tmp`, a line in `dovecot-uidlist` under its
/// lock, a rename to `new`. A lock that is there is stale. A list that cannot be read, which
/// Dovecot writes anew, counts as a refusal.
///
/// # Errors
/// Errors of the file system.
pub fn deliver_to_listed_maildir(vfs: &dyn Vfs, path: &Path, text: &[u8]) -> io::Result<bool> {
    let list = path.join("dovecot-uidlist");
    let content = match vfs.read(&list, 1 << 30) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        read => read?,
    };
    let Some(uid) = next_uid(&content) else { return Ok(false) };
    let name = unique_name(vfs);
    let (tmp, new) = (path.join("tmp").join(&name), path.join("new").join(&name));
    vfs.open(&tmp, OpenOptions::create_new(0o600))?.write_all_at(text, 0)?;
    let lock = path.join("dovecot-uidlist.lock");
    overwrite(vfs, &lock, b"4711:host.example")?;
    let file = vfs.open(&list, OpenOptions::WRITE)?;
    file.write_all_at(format!("{uid} :{name}\n").as_bytes(), content.len() as u64)?;
    vfs.rename(&tmp, &new)?;
    vfs.remove_file(&lock).map(|()| true)
}

fn unique_name(vfs: &dyn Vfs) -> String {
    format!("{}.4711_0.host.example", vfs.now().unix_seconds())
}

/// Returns the UID of the next message of a list, or `None` if the list cannot be read.
fn next_uid(content: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(content).ok()?;
    let mut lines = text.strip_suffix('\n')?.split('\n');
    let header = lines.next()?.strip_prefix("3 ")?;
    let next = header.split(' ').find_map(|field| field.strip_prefix('N'))?.parse().ok()?;
    lines.try_fold(next, |next: u32, line| {
        let uid: u32 = line.split_once(' ')?.0.parse().ok()?;
        Some(next.max(uid + 1))
    })
}

/// Delivers to an MH folder as procmail does: a file under another name, linked to the number
/// after the last one. The sequences stay as they are.
///
/// # Errors
/// Errors of the file system.
pub fn deliver_to_mh(vfs: &dyn Vfs, path: &Path, text: &[u8]) -> io::Result<bool> {
    link_after_last(vfs, path, text).map(|_| true)
}

/// Delivers to an MH folder as nmh's rcvstore does, which then adds the message to the sequence
/// `unseen` and removes missing messages from every sequence.
///
/// # Errors
/// Errors of the file system.
pub fn deliver_with_nmh(vfs: &dyn Vfs, path: &Path, text: &[u8]) -> io::Result<bool> {
    let list = path.join(".mh_sequences");
    let sequences = match vfs.read(&list, 1 << 30) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read?,
    };
    let Ok(sequences) = String::from_utf8(sequences) else { return Ok(false) };
    let new = link_after_last(vfs, path, text)?;
    let there = numbers(vfs, path)?;
    let mut lines = Vec::new();
    let mut unseen = vec![new];
    for line in sequences.lines() {
        let Some((name, ranges)) = line.split_once(':') else { return Ok(false) };
        let Some(ranges) = parse_ranges(ranges) else { return Ok(false) };
        let is_listed = |number: &u32| ranges.iter().any(|(a, b)| (a..=b).contains(&number));
        // Its array of messages ends with the last one that it has found before its own.
        let listed = there.iter().copied().filter(|number| *number != new && is_listed(number));
        match name {
            "unseen" => unseen.extend(listed),
            _ => lines.push((name, listed.collect())),
        }
    }
    unseen.sort_unstable();
    lines.push(("unseen", unseen));
    let words = |numbers: &[u32]| -> String { numbers.iter().map(|n| format!(" {n}")).collect() };
    lines.retain(|(_, numbers)| !numbers.is_empty());
    let text: String =
        lines.iter().map(|(name, numbers)| format!("{name}:{}\n", words(numbers))).collect();
    overwrite(vfs, &list, text.as_bytes()).map(|()| true)
}

/// Writes a file and gives it the number after the last one; returns the number.
fn link_after_last(vfs: &dyn Vfs, path: &Path, text: &[u8]) -> io::Result<u32> {
    let draft = path.join("_4711.host.example");
    vfs.open(&draft, OpenOptions::create_new(0o600))?.write_all_at(text, 0)?;
    let mut number = numbers(vfs, path)?.last().map_or(1, |last| last + 1);
    loop {
        match vfs.hard_link(&draft, &path.join(number.to_string())) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            linked => {
                linked?;
                break;
            }
        }
    }
    vfs.remove_file(&draft).map(|()| number)
}

/// Returns the numbers of all messages, ascending.
fn numbers(vfs: &dyn Vfs, path: &Path) -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    vfs.open_dir(path)?.list(&mut |name, _| {
        numbers.extend(std::str::from_utf8(name).ok().and_then(|name| name.parse::<u32>().ok()));
    })?;
    numbers.sort_unstable();
    Ok(numbers)
}

fn parse_ranges(text: &str) -> Option<Vec<(u32, u32)>> {
    let range = |word: &str| {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        Some((first.parse().ok()?, last.parse().ok()?))
    };
    text.split_whitespace().map(range).collect()
}
