//! Blocks of messages, shared among threads, their output in order.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use barid_cache::Core;
use barid_formats::{Error as FormatError, ReadAs};
use barid_types::{BodyStructure, Uid};

use super::fetched::{Fetched, Needs};
use super::{FetchItem, FetchItems, FetchReport, TakeFetched, WriteFetched};
use crate::limits::{FETCH_BLOCK_LEN, FETCH_BLOCK_ROWS, FETCH_BLOCKS_WAITING, FETCH_THREADS_MAX};
use crate::structures::{NewStructures, Structures};
use crate::{Error, Mailbox, Result};

/// How a run ended.
pub(super) enum Stop {
    /// All is fetched, or nobody wants more.
    Done,
    /// The message at this place of the list is not where it was.
    Gone(usize),
}

/// What a thread made of a block.
#[derive(Default)]
struct Made {
    out: Vec<u8>,
    fetched: u64,
    unreadable: Vec<(Uid, Error)>,
    learned: Learned,
    /// The place in the block of a message that is not where it was; the block ends before it.
    gone: Option<usize>,
}

/// What messages told that were read, to be kept.
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

/// What is asked for, and what is known already.
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

/// A message of the list: its place in it, its row.
type Entry = (usize, u32);

/// Fetches until a message is not where it was.
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
    let mut follow = |made: Result<Made>, block: &[Entry]| -> Result<Option<Stop>> {
        let made = made?;
        report.fetched += made.fetched;
        report.unreadable.extend(made.unreadable);
        learned.append(made.learned);
        if !take(&made.out) {
            return Ok(Some(Stop::Done));
        }
        Ok(made.gone.map(|at| Stop::Gone(block[at].0)))
    };
    let stop = if threads <= 1 {
        let mut stop = None;
        for block in blocks {
            stop = follow(make(order, block, Vec::new()), block)?;
            if stop.is_some() {
                break;
            }
        }
        stop
    } else {
        thread::scope(|scope| -> Result<Option<Stop>> {
            let spawn = |worker: usize| {
                let (sender, receiver) = sync_channel(FETCH_BLOCKS_WAITING);
                let own: Vec<&[Entry]> =
                    blocks.iter().skip(worker).step_by(threads).copied().collect();
                scope.spawn(move || work(order, &own, &sender));
                receiver
            };
            let receivers: Vec<Receiver<Result<Made>>> = (0..threads).map(spawn).collect();
            for (number, block) in blocks.iter().enumerate() {
                // A thread that is gone before its last block has panicked; the scope passes that
                // on.
                let Ok(made) = receivers[number % threads].recv() else { break };
                let stop = follow(made, block)?;
                if stop.is_some() {
                    return Ok(stop);
                }
            }
            Ok(None)
        })?
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

/// The messages that are there, and the places in the list of those that are not.
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

/// Divides the messages into blocks of some megabytes, or of some rows where none is read.
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

/// Works on blocks until they are done, one fails, or nobody wants them any more.
fn work(order: &Order<'_>, blocks: &[&[Entry]], sender: &SyncSender<Result<Made>>) {
    let mut capacity = 0;
    for block in blocks {
        let made = make(order, block, Vec::with_capacity(capacity));
        capacity = made.as_ref().map_or(0, |made| made.out.len());
        let is_last = !made.as_ref().is_ok_and(|made| made.gone.is_none());
        if sender.send(made).is_err() || is_last {
            return;
        }
    }
}

/// A message of a block, as far as it was read.
struct Read {
    core: Core,
    bytes: Option<Vec<u8>>,
    structure: Option<BodyStructure>,
}

/// Reads the messages of a block as far as that is needed, and writes their answers.
fn make(order: &Order<'_>, block: &[Entry], out: Vec<u8>) -> Result<Made> {
    let Order { mailbox, items, write, .. } = order;
    let mut made = Made { out, ..Made::default() };
    let mut all: Vec<Read> = Vec::with_capacity(block.len());
    let mut rows: Vec<u32> = Vec::with_capacity(block.len());
    for (at, (_, row)) in block.iter().enumerate() {
        let core = mailbox.snapshot.core(*row)?;
        match read(order, core) {
            Ok(read) => {
                rows.push(*row);
                all.push(read);
            }
            Err(Error::Mailbox(FormatError::MessageGone { .. })) => {
                made.gone = Some(at);
                break;
            }
            Err(error @ Error::Cache(_)) => return Err(error),
            Err(error) => made.unreadable.push((core.uid, error)),
        }
    }
    let (mut all, needs) = (all.into_iter(), Needs::of(items));
    mailbox.summaries(&rows, &mut |summary| {
        let Some(Read { core, bytes, structure }) = all.next() else { return false };
        let is_known = structure.is_some();
        let fetched = Fetched::new(summary, bytes.as_deref(), structure, items, needs);
        if summary.rfc822_size.is_none() {
            let size = fetched.rfc822_size().map(|size| (summary.uid, size));
            made.learned.sizes.extend(size);
        }
        if items.has_structure() && !is_known && bytes.is_some() {
            made.learned.structures.add(&core, fetched.structure());
        }
        write(&fetched, &mut made.out);
        made.fetched += 1;
        true
    })?;
    Ok(made)
}

/// Reads a message, if what is known of it is not enough.
fn read(order: &Order<'_>, core: Core) -> Result<Read> {
    let Order { mailbox, items, structures, .. } = order;
    let structure = items.has_structure().then(|| structures.of(&core)).flatten();
    let is_needed = items.needs_message()
        || (items.has_structure() && structure.is_none())
        || (items.has(&FetchItem::Rfc822Size) && core.rfc822_size.is_none())
        || (items.has(&FetchItem::Envelope) && core.cut);
    let bytes = match is_needed {
        true => Some(mailbox.read_once(core.uid, ReadAs::Message)?.bytes),
        false => None,
    };
    Ok(Read { core, bytes, structure })
}
