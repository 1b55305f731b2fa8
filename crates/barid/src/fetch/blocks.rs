//! Blocks of messages, distributed over threads, with their output in order.

use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;

use barid_cache::Core;
use barid_formats::{ReadMessage, WHOLE_LEN_MAX};
use barid_message::wire_message_in;
use barid_types::{BodyStructure, Uid};

use super::fetched::{Fetched, Needs};
use super::large::{LargeMessage, is_gone, read_large};
use super::{FetchItem, FetchItems, FetchReport, TakeFetched, WriteFetched};
use crate::large::is_too_large;
use crate::limits::{
    FETCH_BLOCK_LEN, FETCH_BLOCK_ROWS, FETCH_BLOCKS_WAITING, FETCH_THREADS_MAX,
    FETCH_WIRE_KEPT_LEN, READ_ROOM_KEPT_LEN,
};
use crate::read::ReadRoom;
use crate::structures::{NewStructures, Structures};
use crate::turns::{Turn, Turns};
use crate::{Error, Mailbox, Result};

/// Result of a run.
pub(super) enum Stop {
    /// Everything is fetched, or the caller wants no more.
    Done,
    /// The message at this index of the list has moved.
    Gone(usize),
}

/// Result of a thread for a block.
#[derive(Default)]
struct Made {
    out: Vec<u8>,
    fetched: u64,
    unreadable: Vec<(Uid, Error)>,
    learned: Learned,
    /// Index in the block of a message that has moved; the block ends before it.
    gone: Option<usize>,
}

/// Values learned from messages that were read, to be stored.
#[derive(Default)]
pub(super) struct Learned {
    pub(super) sizes: Vec<(Uid, u64)>,
    pub(super) structures: NewStructures,
}

impl Learned {
    fn append(&mut self, other: Self) {
        self.sizes.extend(other.sizes);
        self.structures.append(other.structures);
    }
}

/// The request, and the structures known already.
struct Order<'a> {
    mailbox: &'a Mailbox,
    items: &'a FetchItems,
    structures: Structures,
    write: &'a WriteFetched<'a>,
}

impl<'a> Order<'a> {
    fn new(mailbox: &'a Mailbox, items: &'a FetchItems, write: &'a WriteFetched<'a>) -> Self {
        let structures = match items.has_structure() {
            true => mailbox.structures(),
            false => Structures::default(),
        };
        Self { mailbox, items, structures, write }
    }
}

/// A message of the list: its index in it, its row.
type Entry = (usize, u32);

/// Fetches until a message has moved.
pub(super) fn run(
    mailbox: &Mailbox,
    uids: &[Uid],
    items: &FetchItems,
    write: &WriteFetched<'_>,
    take: &mut TakeFetched<'_>,
    report: &mut FetchReport,
    learned: &mut Learned,
) -> Result<Stop> {
    let (entries, mut gone) = entries(mailbox, uids)?;
    let order = &Order::new(mailbox, items, write);
    let reads = items.needs_message() || items.has_structure();
    let stored = if reads { mailbox.snapshot.sizes()? } else { Vec::new() };
    let blocks = blocks(&entries, &stored);
    let threads = match mailbox.options.threads {
        0 => thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let threads = threads.min(blocks.len()).min(FETCH_THREADS_MAX);
    let mut follow = |made: Result<Made>, block: &[Entry]| -> Result<(Option<Stop>, Vec<u8>)> {
        let made = made?;
        report.fetched += made.fetched;
        report.unreadable.extend(made.unreadable);
        learned.append(made.learned);
        let stop = match take(&made.out) {
            true => made.gone.map(|at| Stop::Gone(block[at].0)),
            false => Some(Stop::Done),
        };
        Ok((stop, made.out))
    };
    let stop = match threads {
        0 | 1 => alone(order, &blocks, &mut follow)?,
        threads => {
            let len = |block: &&[Entry]| match block {
                [(_, row)] => stored.get(*row as usize).copied().unwrap_or(0).min(WHOLE_LEN_MAX),
                _ => 0,
            };
            let turns = Turn::of_blocks(blocks.iter().map(len), FETCH_BLOCK_LEN);
            shared(order, (&blocks, &turns), threads, &mut follow)?
        }
    };
    // The rest of the list is looked up anew.
    let looked_up = match stop {
        Some(Stop::Gone(at)) => at,
        _ => uids.len(),
    };
    gone.truncate(gone.partition_point(|at| *at < looked_up));
    report.gone.extend(gone.into_iter().map(|at| uids[at]));
    Ok(stop.unwrap_or(Stop::Done))
}

/// Receives the result of a block; returns the end of the run, if it is reached, and the buffer.
type Follow<'a> = dyn FnMut(Result<Made>, &[Entry]) -> Result<(Option<Stop>, Vec<u8>)> + 'a;

/// Processes the blocks in this thread.
fn alone(order: &Order<'_>, blocks: &[&[Entry]], follow: &mut Follow<'_>) -> Result<Option<Stop>> {
    let (mut room, mut out) = (Room::default(), Vec::new());
    for block in blocks {
        let (stop, written) = follow(make(order, block, &mut room, out), block)?;
        if stop.is_some() {
            return Ok(stop);
        }
        out = written;
    }
    Ok(None)
}

/// Processes the blocks in several threads.
fn shared(
    order: &Order<'_>,
    (blocks, turns): (&[&[Entry]], &[Option<Turn>]),
    threads: usize,
    follow: &mut Follow<'_>,
) -> Result<Option<Stop>> {
    let gate = &Turns::default();
    thread::scope(|scope| {
        let spawn = |worker: usize| {
            let (sender, receiver) = sync_channel(FETCH_BLOCKS_WAITING);
            let (back, written) = channel();
            let all = blocks.iter().copied().zip(turns.iter().copied());
            let own: Vec<_> = all.skip(worker).step_by(threads).collect();
            scope.spawn(move || work(order, (&own, gate), &sender, &written));
            (receiver, back)
        };
        let workers: Vec<_> = (0..threads).map(spawn).collect();
        let _closing = gate.closing();
        for (number, block) in blocks.iter().enumerate() {
            let (receiver, back) = &workers[number % threads];
            // A thread that is gone before its last block has panicked; the scope resumes the
            // panic.
            let Ok(made) = receiver.recv() else { break };
            let (stop, written) = follow(made, block)?;
            gate.leave(turns[number]);
            if stop.is_some() {
                return Ok(stop);
            }
            // A thread that has ended writes no more.
            let _ = back.send(written);
        }
        Ok(None)
    })
}

/// Returns the messages that exist, and the indexes in the list of those that do not.
fn entries(mailbox: &Mailbox, uids: &[Uid]) -> Result<(Vec<Entry>, Vec<usize>)> {
    let all = mailbox.uids()?;
    let (mut entries, mut gone) = (Vec::with_capacity(uids.len()), Vec::new());
    for (at, uid) in uids.iter().enumerate() {
        match all.binary_search(&uid.get()) {
            Ok(row) => entries.push((at, row as u32)),
            Err(_) => gone.push(at),
        }
    }
    Ok((entries, gone))
}

/// Divides the messages into blocks of some megabytes, or of some rows if no message is read.
fn blocks<'e>(entries: &'e [Entry], stored: &[u64]) -> Vec<&'e [Entry]> {
    let (mut blocks, mut start, mut len) = (Vec::new(), 0, 0_u64);
    for (at, (_, row)) in entries.iter().enumerate() {
        let size = stored.get(*row as usize).copied().unwrap_or(0);
        let is_full = len.saturating_add(size) > FETCH_BLOCK_LEN || at - start >= FETCH_BLOCK_ROWS;
        if is_full && at > start {
            blocks.push(&entries[start..at]);
            (start, len) = (at, 0);
        }
        len = len.saturating_add(size);
    }
    if start < entries.len() {
        blocks.push(&entries[start..]);
    }
    blocks
}

/// The buffers of a thread, reused from block to block.
#[derive(Default)]
struct Room {
    read: ReadRoom,
    wire: Vec<u8>,
}

/// A block and its turn, if its messages are so large that threads take turns.
type BlockInTurn<'e> = (&'e [Entry], Option<Turn>);

/// Processes blocks until they are done, one fails, or they are not wanted any more. Buffers come
/// back through `written` and are reused.
fn work(
    order: &Order<'_>,
    (blocks, gate): (&[BlockInTurn<'_>], &Turns),
    sender: &SyncSender<Result<Made>>,
    written: &Receiver<Vec<u8>>,
) {
    let mut room = Room::default();
    for (block, turn) in blocks {
        if !gate.enter(*turn) {
            return;
        }
        let made = make(order, block, &mut room, written.try_recv().unwrap_or_default());
        let is_last = !made.as_ref().is_ok_and(|made| made.gone.is_none());
        if sender.send(made).is_err() || is_last {
            return;
        }
    }
}

/// A message of a block, as far as it was read.
struct Read {
    core: Core,
    message: Option<ReadMessage>,
    structure: Option<BodyStructure>,
    /// The parts that were read, if the message is too large.
    large: Option<LargeMessage>,
}

/// Reads the messages of a block as far as needed, and writes their answers to `out`, replacing its
/// content.
fn make(order: &Order<'_>, block: &[Entry], room: &mut Room, mut out: Vec<u8>) -> Result<Made> {
    let Order { mailbox, items, write, .. } = order;
    out.clear();
    out.shrink_to(READ_ROOM_KEPT_LEN);
    let mut made = Made { out, ..Made::default() };
    let (rows, read) = read(order, block, &mut room.read, &mut made)?;
    let (mut all, needs) = (read.into_iter(), Needs::of(items));
    mailbox.summaries(&rows, &mut |summary| {
        let Some(Read { core, message, structure, large }) = all.next() else { return false };
        let is_known = structure.is_some();
        let stored = message.map(|message| mailbox.text(&message, &room.read));
        room.wire.clear();
        room.wire.shrink_to(FETCH_WIRE_KEPT_LEN);
        let wire = match &large {
            Some(large) => Some(&*large.wire),
            None => stored.as_deref().map(|stored| wire_message_in(stored, &mut room.wire)),
        };
        let about = (*items, needs);
        let fetched = Fetched::new(summary, wire, structure, about, large.as_ref());
        if summary.rfc822_size.is_none() {
            let size = fetched.rfc822_size().map(|size| (summary.uid, size));
            made.learned.sizes.extend(size);
        }
        if items.has_structure() && !is_known && wire.is_some() {
            made.learned.structures.add(&core, fetched.structure());
        }
        write(&fetched, &mut made.out);
        made.fetched += 1;
        made.unreadable.extend(undecodable(mailbox, &fetched));
        true
    })?;
    Ok(made)
}

/// Returns the items of a message that cannot be decoded, and the errors.
fn undecodable<'a>(
    mailbox: &'a Mailbox,
    fetched: &'a Fetched<'_>,
) -> impl Iterator<Item = (Uid, Error)> + 'a {
    fetched.items().items().iter().filter_map(|item| {
        let encoding = String::from_utf8_lossy(fetched.unknown_encoding(item)?).into_owned();
        let (path, item) = (mailbox.path().to_owned(), item.to_string());
        Some((fetched.summary.uid, Error::UnknownEncoding { path, item, encoding }))
    })
}

/// Reads the messages of a block for which not enough is known; returns the rows that can be
/// reported, and what was read of them.
fn read(
    order: &Order<'_>,
    block: &[Entry],
    room: &mut ReadRoom,
    made: &mut Made,
) -> Result<(Vec<u32>, Vec<Read>)> {
    let Order { mailbox, items, structures, .. } = order;
    let mut known: Vec<(Core, Option<BodyStructure>, bool)> = Vec::with_capacity(block.len());
    let mut wanted: Vec<(u32, Core)> = Vec::with_capacity(block.len());
    for (_, row) in block {
        let core = mailbox.snapshot.core(*row)?;
        let structure = items.has_structure().then(|| structures.of(&core)).flatten();
        let is_needed = items.needs_message()
            || (items.has_structure() && structure.is_none())
            || (items.has(&FetchItem::Rfc822Size) && core.rfc822_size.is_none())
            || (items.has(&FetchItem::Envelope) && core.cut);
        wanted.extend(is_needed.then_some((*row, core)));
        known.push((core, structure, is_needed));
    }
    let mut messages = mailbox.read_rows(&wanted, room)?.into_iter();
    let mut rows: Vec<u32> = Vec::with_capacity(block.len());
    let mut all: Vec<Read> = Vec::with_capacity(block.len());
    for (at, ((_, row), (core, structure, is_needed))) in block.iter().zip(known).enumerate() {
        let message = if is_needed { messages.next() } else { None };
        let read = match message.transpose() {
            Err(error) if is_too_large(&error) => {
                let knows_size = core.rfc822_size.is_some();
                read_large(mailbox, *row, items, knows_size).map(|large| (None, Some(large)))
            }
            read => read.map(|message| (message, None)),
        };
        match read {
            Ok((message, large)) => {
                rows.push(*row);
                all.push(Read { core, message, structure, large });
            }
            Err(error) if is_gone(&error) => {
                made.gone = Some(at);
                break;
            }
            Err(error @ Error::Cache(_)) => return Err(error),
            Err(error) => made.unreadable.push((core.uid, error)),
        }
    }
    Ok((rows, all))
}
