//! Reclaiming the space of expunged messages in data files, as c-client does ("burp").
//!
//! This requires that no session has the mailbox open. Files without messages are removed, except
//! the current one, which becomes empty; what is after the last message is cut off; and messages
//! after gaps are moved down. Such a move and the new offsets in the index are one change of the
//! redo journal, file by file.

use barid_mailbox::{Error, Result, SyncContext};
use barid_vfs::{File, OpenOptions};

use super::layout::{MESSAGE_TOKEN, SLIDE_LEN_MAX};
use super::sync::MixChange;
use crate::redo::FileChange;

/// A stretch of a data file with messages that stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeptStretch {
    first: u64,
    end: u64,
}

/// Reclaims as much as possible; the rest is left for another time and reported, also after a
/// request to stop.
pub(super) fn burp(work: &mut MixChange<'_>, context: &SyncContext<'_>) -> Result<()> {
    if !work.locks.try_alone(work.mailbox)? {
        return Ok(());
    }
    let numbers = work.mailbox.data_files()?;
    // One damaged file must not keep the others from being reclaimed.
    for (at, number) in numbers.iter().enumerate() {
        if context.is_stopped() {
            work.report.failed.push("stopped before all space was reclaimed".to_owned());
            break;
        }
        context.report(at as u64, numbers.len() as u64);
        let done = match message_ranges(work, *number) {
            Ok(kept) if kept.is_empty() => drop_file(work, *number),
            Ok(kept) => compact(work, *number, &kept),
            Err(what) => {
                work.report.failed.push(what.to_owned());
                Ok(())
            }
        };
        match done {
            Err(error @ Error::Unfinished { .. }) => return Err(error),
            Err(error) => work.report.failed.push(error.to_string()),
            Ok(()) => {}
        }
    }
    work.locks.share(work.mailbox)
}

/// Returns the stretches of a file that contain messages, ascending.
fn message_ranges(
    work: &MixChange<'_>,
    number: u32,
) -> std::result::Result<Vec<KeptStretch>, &'static str> {
    let mut kept: Vec<KeptStretch> = Vec::new();
    for message in work.now.messages.iter().filter(|message| message.file == number) {
        let (first, end) = (u64::from(message.pos), message.end());
        match kept.last_mut() {
            Some(last) if last.end == first => last.end = end,
            Some(last) if last.end > first => {
                return Err("the messages of a data file overlap or are out of order");
            }
            _ => kept.push(KeptStretch { first, end }),
        }
    }
    Ok(kept)
}

/// Removes a file without messages; the current one is made empty.
fn drop_file(work: &mut MixChange<'_>, number: u32) -> Result<()> {
    let path = work.mailbox.data_path(number);
    let done = match number == work.now.meta.current {
        true => {
            let options = OpenOptions { no_follow: true, ..OpenOptions::WRITE };
            work.mailbox.vfs.open(&path, options).and_then(|file| file.set_len(0))
        }
        false => work.mailbox.vfs.remove_file(&path),
    };
    done.map_err(Error::at(&path))
}

/// Closes the gaps of a file.
fn compact(work: &mut MixChange<'_>, number: u32, kept: &[KeptStretch]) -> Result<()> {
    let path = work.mailbox.data_path(number);
    let at = || Error::at(&path);
    let options = OpenOptions { no_follow: true, ..OpenOptions::WRITE };
    let file = work.mailbox.vfs.open(&path, options).map_err(at())?;
    let size = file.metadata().map_err(at())?.size;
    let damaged = |offset, kind| Error::Damaged { path: path.clone(), offset, kind };
    if let Some(short) = kept.iter().find(|kept| kept.end > size) {
        return Err(damaged(short.first, "the file ends before its messages do"));
    }
    if let [KeptStretch { first: 0, end }] = kept {
        return match *end < size {
            true => file.set_len(*end).map_err(at()),
            false => Ok(()),
        };
    }
    for stretch in kept {
        let mut token = [0; MESSAGE_TOKEN.len()];
        file.read_exact_at(&mut token, stretch.first).map_err(at())?;
        if token != MESSAGE_TOKEN {
            return Err(damaged(stretch.first, "no message begins at the offset in the index"));
        }
    }
    let from = if kept[0].first == 0 { kept[0].end } else { 0 };
    if size - from > SLIDE_LEN_MAX {
        let what = "the gaps of a large data file are left";
        return Err(Error::Unsupported { path, what });
    }
    let name = super::data::data_name(number);
    let change = slide(&*file, &name, size, from, kept).map_err(at())?;
    let moved: u64 = change_len(kept) - from;
    let before = work.now.messages.clone();
    let mut pos = 0;
    for message in work.now.messages.iter_mut().filter(|message| message.file == number) {
        message.pos = pos;
        pos += message.line_len + message.size;
    }
    if let Err(error) = work.write([false, true, false], Some(change), (None, None)) {
        work.now.messages = before;
        return Err(error);
    }
    work.report.figures.bytes_moved += moved;
    Ok(())
}

/// Returns the bytes of all stretches.
fn change_len(kept: &[KeptStretch]) -> u64 {
    kept.iter().map(|kept| kept.end - kept.first).sum()
}

/// Returns the change that moves all stretches down; those before `from` stay.
fn slide(
    file: &dyn File,
    name: &str,
    size: u64,
    from: u64,
    kept: &[KeptStretch],
) -> std::io::Result<FileChange> {
    let mut old = vec![0; (size - from) as usize];
    file.read_exact_at(&mut old, from)?;
    let mut new = Vec::with_capacity(old.len());
    for stretch in kept.iter().filter(|stretch| stretch.first >= from) {
        let range = (stretch.first - from) as usize..(stretch.end - from) as usize;
        new.extend_from_slice(&old[range]);
    }
    let mut change = FileChange::new(name.as_bytes(), size);
    change.write(from, &old[..new.len()], &new);
    change.cut(from + new.len() as u64, file)?;
    Ok(change)
}
