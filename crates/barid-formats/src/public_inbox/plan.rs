//! The messages of an archive, from the events of its epochs.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use barid_mailbox::{Known, Result, sink_error};
use barid_types::{InternalDate, Uid};

use super::git::{ObjectReader, Oid, Tip};
use super::history::{self, EpochHistory, MessageEvent, UnreadTrees};
use super::state::ArchiveState;
use super::{OpenEpoch, PublicInbox};
use crate::files::in_chunks;

/// A message of the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LiveMessage {
    /// Its blob.
    pub(super) blob: Oid,
    /// The epoch whose commit added it.
    pub(super) epoch: u32,
    /// The time of its committer.
    pub(super) committed: InternalDate,
}

/// Messages that events leave, in the order in which they were added.
#[derive(Debug, Default)]
struct Live {
    messages: Vec<Option<LiveMessage>>,
    by_blob: HashMap<Oid, usize>,
    /// Blobs that were deleted.
    deleted: HashSet<Oid>,
    keeps_deleted: bool,
}

impl Live {
    fn add(&mut self, epoch: u32, events: Vec<MessageEvent>) {
        for MessageEvent { blob, is_deletion, committed } in events {
            if is_deletion {
                if let Some(at) = self.by_blob.remove(&blob) {
                    self.messages[at] = None;
                }
                if self.keeps_deleted {
                    self.deleted.insert(blob);
                }
            } else if let std::collections::hash_map::Entry::Vacant(free) = self.by_blob.entry(blob)
            {
                free.insert(self.messages.len());
                self.messages.push(Some(LiveMessage { blob, epoch, committed }));
            }
        }
    }
}

/// Adds the trees of another epoch that cannot be read.
fn add_unread(all: &mut UnreadTrees, more: UnreadTrees) {
    match (all, more) {
        (Some((count, _)), Some((more, _))) => *count += more,
        (all @ None, more) => *all = more,
        _ => {}
    }
}

/// Differences between the known messages and the archive.
#[derive(Debug, Default)]
pub(super) struct ArchiveDifference {
    /// Messages that are not known, in the order of the archive.
    pub(super) new: Vec<LiveMessage>,
    /// Known messages that are deleted, ascending, and the sum of their sizes.
    pub(super) gone: Vec<Uid>,
    pub(super) gone_bytes: u64,
    /// Trees that cannot be read.
    pub(super) unread: UnreadTrees,
}

/// Reads all commits, of several epochs at a time; returns the messages of the archive, in its
/// order.
pub(super) fn all_messages(
    inbox: &PublicInbox,
    epochs: &[OpenEpoch],
    tips: &[Tip],
    threads: usize,
) -> Result<(Vec<LiveMessage>, UnreadTrees)> {
    let histories = Mutex::new(Vec::with_capacity(epochs.len()));
    let work = |reader: &mut ObjectReader, _: u32, range: std::ops::Range<usize>| {
        for at in range {
            let history = history::read(inbox.repository(&epochs[at]), reader, &tips[at], None)?;
            histories.lock().unwrap_or_else(PoisonError::into_inner).push((at, history));
        }
        Ok(())
    };
    in_chunks(epochs.len(), 1, threads, &ObjectReader::new, &work)?;
    let mut histories = histories.into_inner().unwrap_or_else(PoisonError::into_inner);
    histories.sort_unstable_by_key(|(at, _)| *at);
    let (mut live, mut unread) = (Live::default(), None);
    for (at, history) in histories {
        live.add(epochs[at].epoch.number, history.events);
        add_unread(&mut unread, history.unread);
    }
    Ok((live.messages.into_iter().flatten().collect(), unread))
}

/// Reads the commits since the last scan, and adds the messages that could not be read in it. Works
/// only if nothing else can have changed: the newest epoch that
/// was known went on, and newer epochs followed. Returns `None` if all commits are needed.
pub(super) fn new_messages(
    inbox: &PublicInbox,
    (epochs, tips): (&[OpenEpoch], &[Tip]),
    before: &ArchiveState,
    known: &dyn Known,
) -> Result<Option<ArchiveDifference>> {
    if epochs.len() < before.epochs.len() {
        return Ok(None);
    }
    let mut live = Live { keeps_deleted: true, ..Live::default() };
    for LiveMessage { blob, epoch, committed } in before.unread.iter().copied() {
        live.add(epoch, vec![MessageEvent { blob, is_deletion: false, committed }]);
    }
    let mut all_unread = None;
    for (at, (open, tip)) in epochs.iter().zip(tips).enumerate() {
        let was = before.epochs.get(at);
        let is_same_epoch = was
            .is_none_or(|was| was.number == open.epoch.number && was.shallow == tip.shallow_hash());
        let until = was.and_then(|was| was.commit);
        let is_last = at + 1 >= before.epochs.len();
        if !is_same_epoch || (until != tip.commit && !is_last) {
            return Ok(None);
        }
        let history = inbox.with_reader(|reader: &mut ObjectReader| {
            history::read(inbox.repository(open), reader, tip, until)
        })?;
        let EpochHistory { events, is_continued, unread, .. } = history;
        if until.is_some() && !is_continued {
            return Ok(None);
        }
        live.add(open.epoch.number, events);
        add_unread(&mut all_unread, unread);
    }
    let mut difference = ArchiveDifference { unread: all_unread, ..ArchiveDifference::default() };
    if live.by_blob.is_empty() && live.deleted.is_empty() {
        return Ok(Some(difference));
    }
    let mut is_sound = true;
    sink_error(known.visit(0, &mut |message| {
        let Some(blob) = message.location.message_name().and_then(|name| Oid::parse(name.name))
        else {
            is_sound = false;
            return false;
        };
        if live.deleted.contains(&blob) {
            difference.gone.push(message.uid);
            difference.gone_bytes = difference.gone_bytes.saturating_add(message.size);
        } else if let Some(at) = live.by_blob.remove(&blob) {
            // Added once more: it is still the same message.
            live.messages[at] = None;
        }
        true
    }))?;
    difference.new = live.messages.into_iter().flatten().collect();
    Ok(is_sound.then_some(difference))
}
