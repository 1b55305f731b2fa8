//! Blocks of messages, distributed over threads, with their output in order.

use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;

use barid_cache::Core;
use barid_mailbox::{ReadMessage, WHOLE_LEN_MAX};
use barid_message::wire_message_in;
use barid_types::{BodyStructure, Uid};
use barid_vfs::Workers;

use super::fetched::{Fetched, Needs, ReadParts};
use super::large::{FetchedLargeMessage, read_large};
use super::preview::{row_preview, text_preview};
use super::{FetchItem, FetchItems, FetchReport, TakeFetched, WriteFetched, facts};
use crate::email_ids::{EmailId, EmailIds, NewEmailIds};
use crate::large::is_too_large;
use crate::limits::{
    FETCH_BLOCK_LEN, FETCH_BLOCK_ROWS, FETCH_BLOCKS_WAITING, FETCH_LAZY_PREVIEWS_MAX,
    FETCH_THREADS_MAX, FETCH_UIDS_FEW, FETCH_WIRE_KEPT_LEN, READ_ROOM_KEPT_LEN,
};
use crate::read::ReadRoom;
use crate::structures::{NewStructures, Structures};
use crate::turns::{BlockTurn, Turns};
use crate::view::has_moved;
use crate::{Error, Result, View};

/// Result of a thread for a block.
#[derive(Default)]
struct FetchedBlock {
    out: Vec<u8>,
    fetched: u64,
    unreadable: Vec<(Uid, Error)>,
    learned: Learned,
    /// Messages that are gone since the view was made.
    gone: Vec<Uid>,
}

/// Values learned from messages that were read, to be stored.
#[derive(Default)]
pub(super) struct Learned {
    pub(super) sizes: Vec<(Uid, u64)>,
    pub(super) structures: NewStructures,
    pub(super) email_ids: NewEmailIds,
}

impl Learned {
    fn append(&mut self, other: Self) {
        self.sizes.extend(other.sizes);
        self.structures.append(other.structures);
        self.email_ids.append(other.email_ids);
    }
}

/// The request, and the structures and identifiers known already.
struct Order<'a> {
    view: &'a View,
    items: &'a FetchItems,
    structures: Structures,
    email_ids: EmailIds,
    write: &'a WriteFetched<'a>,
    /// `true` if previews are made.
    previews: bool,
}

impl<'a> Order<'a> {
    fn new(
        view: &'a View,
        items: &'a FetchItems,
        write: &'a WriteFetched<'a>,
        count: usize,
    ) -> Self {
        let structures = match items.has_structure() {
            true => view.structures(),
            false => Structures::default(),
        };
        let previews = items.items().iter().any(|item| match item {
            FetchItem::Preview { is_lazy } => !is_lazy || count <= FETCH_LAZY_PREVIEWS_MAX,
            _ => false,
        });
        let email_ids = match items.has(&FetchItem::EmailId) {
            true => view.email_ids(),
            false => EmailIds::default(),
        };
        Self { view, items, structures, email_ids, write, previews }
    }

    /// Returns the stored size of each message that is read, and 0 for each other one.
    fn sizes_to_read(&self, rows: &[u32]) -> Result<Vec<u64>> {
        let mut sizes = Vec::with_capacity(rows.len());
        let read = self.view.snapshot.cores_of(rows, &mut |_, core| {
            let is_read = self.previews || self.is_read(core);
            sizes.push(if is_read { core.size } else { 0 });
        });
        self.view.done(read)?;
        Ok(sizes)
    }

    /// Returns `true` if the cache does not have all that the items need.
    fn is_read(&self, core: &Core) -> bool {
        let Self { items, structures, email_ids, .. } = self;
        items.needs_message()
            || (items.has_structure() && !structures.has(core))
            || (items.has(&FetchItem::Rfc822Size) && core.rfc822_size.is_none())
            || (items.has(&FetchItem::Envelope) && core.cut)
            || (items.has(&FetchItem::EmailId) && email_ids.of(core).is_none())
    }
}

/// Fetches the messages; a message that has moved is followed.
pub(super) fn run(
    view: &View,
    uids: &[Uid],
    items: &FetchItems,
    write: &WriteFetched<'_>,
    learned: &mut Learned,
    take: &mut TakeFetched<'_>,
) -> Result<FetchReport> {
    let mut report = FetchReport::default();
    let uids = facts::run(view, uids, items, write, &mut report, take)?;
    if uids.is_empty() {
        return Ok(report);
    }
    let (rows, gone) = rows_of(view, uids)?;
    let order = &Order::new(view, items, write, rows.len());
    let sizes = order.sizes_to_read(&rows)?;
    let blocks = blocks(&rows, &sizes);
    let threads = view.options.thread_count().min(blocks.len()).min(FETCH_THREADS_MAX);
    let workers = if threads > 1 { Workers::take(threads) } else { Workers::none() };
    let mut consume = |made: Result<FetchedBlock>| -> Result<(bool, Vec<u8>)> {
        let mut made = made?;
        report.fetched += made.fetched;
        report.gone.extend(made.gone);
        report.unreadable.extend(made.unreadable);
        learned.append(made.learned);
        Ok((take(&mut made.out), made.out))
    };
    match workers.count() {
        0 | 1 => alone(order, &blocks, &mut consume)?,
        threads => {
            let len = |block: &FetchBlock<'_>| match block.rows {
                [_] => block.len.min(WHOLE_LEN_MAX),
                _ => 0,
            };
            let turns = BlockTurn::of_blocks(blocks.iter().map(len), FETCH_BLOCK_LEN);
            shared(order, (&blocks, &turns), threads, &mut consume)?;
        }
    }
    report.gone.extend(gone);
    Ok(report)
}

/// Messages that are processed together.
struct FetchBlock<'r> {
    rows: &'r [u32],
    /// Bytes of those that are read.
    len: u64,
}

/// Receives the result of a block. Returns `false` if no further block is wanted, and the buffer
/// for reuse.
type Consume<'a> = dyn FnMut(Result<FetchedBlock>) -> Result<(bool, Vec<u8>)> + 'a;

/// Processes the blocks in this thread.
fn alone(order: &Order<'_>, blocks: &[FetchBlock<'_>], consume: &mut Consume<'_>) -> Result<()> {
    let (mut room, mut out) = (FetchBuffers::default(), Vec::new());
    for block in blocks {
        let (goes_on, written) = consume(make(order, block.rows, &mut room, out))?;
        if !goes_on {
            break;
        }
        out = written;
    }
    Ok(())
}

/// Processes the blocks in several threads.
fn shared(
    order: &Order<'_>,
    (blocks, turns): (&[FetchBlock<'_>], &[Option<BlockTurn>]),
    threads: usize,
    consume: &mut Consume<'_>,
) -> Result<()> {
    let gate = &Turns::default();
    thread::scope(|scope| {
        let spawn = |worker: usize| {
            let (sender, receiver) = sync_channel(FETCH_BLOCKS_WAITING);
            let (back, written) = channel();
            let all = blocks.iter().map(|block| block.rows).zip(turns.iter().copied());
            let own: Vec<_> = all.skip(worker).step_by(threads).collect();
            scope.spawn(move || work(order, (&own, gate), &sender, &written));
            (receiver, back)
        };
        let workers: Vec<_> = (0..threads).map(spawn).collect();
        let _closing = gate.closing();
        for number in 0..blocks.len() {
            let (receiver, back) = &workers[number % threads];
            // A thread that is gone before its last block has panicked; the scope resumes the
            // panic.
            let Ok(made) = receiver.recv() else { break };
            let (goes_on, written) = consume(made)?;
            gate.leave(turns[number]);
            if !goes_on {
                break;
            }
            // A thread that has ended writes no more.
            let _ = back.send(written);
        }
        Ok(())
    })
}

/// Returns the rows of the messages that exist, in the order of `uids`, and the UIDs without a
/// message.
fn rows_of(view: &View, uids: &[Uid]) -> Result<(Vec<u32>, Vec<Uid>)> {
    let (mut rows, mut gone) = (Vec::with_capacity(uids.len()), Vec::new());
    if uids.len() <= FETCH_UIDS_FEW {
        for uid in uids {
            match view.row_of(*uid)? {
                Some(row) => rows.push(row),
                None => gone.push(*uid),
            }
        }
        return Ok((rows, gone));
    }
    let all = view.uids()?;
    // Usually the next message of the view is the next one wanted.
    let mut next = 0;
    for uid in uids {
        let row = match all.get(next) {
            Some(found) if *found == uid.get() => Ok(next),
            _ => all.binary_search(&uid.get()),
        };
        match row {
            Ok(row) => {
                rows.push(row as u32);
                next = row + 1;
            }
            Err(_) => gone.push(*uid),
        }
    }
    Ok((rows, gone))
}

/// Divides the messages into blocks of some bytes to read, or of some rows if no message is read.
fn blocks<'r>(rows: &'r [u32], sizes: &[u64]) -> Vec<FetchBlock<'r>> {
    let (mut blocks, mut start, mut len) = (Vec::new(), 0, 0_u64);
    for (at, size) in sizes.iter().enumerate() {
        let is_full = len.saturating_add(*size) > FETCH_BLOCK_LEN || at - start >= FETCH_BLOCK_ROWS;
        if is_full && at > start {
            blocks.push(FetchBlock { rows: &rows[start..at], len });
            (start, len) = (at, 0);
        }
        len = len.saturating_add(*size);
    }
    if start < rows.len() {
        blocks.push(FetchBlock { rows: &rows[start..], len });
    }
    blocks
}

/// The buffers of a thread, reused from block to block.
#[derive(Default)]
struct FetchBuffers {
    read: ReadRoom,
    wire: Vec<u8>,
}

/// A block and its turn, if its messages are so large that threads take turns.
type BlockInTurn<'e> = (&'e [u32], Option<BlockTurn>);

/// Processes blocks until they are done, one fails, or they are not wanted any more. Buffers come
/// back through `written` and are reused.
fn work(
    order: &Order<'_>,
    (blocks, gate): (&[BlockInTurn<'_>], &Turns),
    sender: &SyncSender<Result<FetchedBlock>>,
    written: &Receiver<Vec<u8>>,
) {
    let mut room = FetchBuffers::default();
    for (block, turn) in blocks {
        if !gate.enter(*turn) {
            return;
        }
        let made = make(order, block, &mut room, written.try_recv().unwrap_or_default());
        let is_last = made.is_err();
        if sender.send(made).is_err() || is_last {
            return;
        }
    }
}

/// A message of a block, as far as it was read.
struct FetchedMessage {
    known: KnownMessage,
    message: Option<ReadMessage>,
    /// The parts that were read, if the message is too large.
    large: Option<FetchedLargeMessage>,
    preview: Option<String>,
    /// The identifier of its content, if the message is too large and the identifier was not known.
    email_id: Option<EmailId>,
}

/// Facts of a message that are known before it is read.
struct KnownMessage {
    core: Core,
    structure: Option<BodyStructure>,
    email_id: Option<EmailId>,
    /// `true` if the identifier is requested and not known; it is then stored.
    learns_id: bool,
    /// `true` if the message must be read.
    is_needed: bool,
}

impl KnownMessage {
    fn new(order: &Order<'_>, core: Core) -> Self {
        let Order { items, structures, email_ids, .. } = order;
        let structure = items.has_structure().then(|| structures.of(&core)).flatten();
        let wants_id = items.has(&FetchItem::EmailId);
        let email_id = if wants_id { email_ids.of(&core) } else { None };
        let learns_id = wants_id && email_id.is_none();
        // A stored structure may be damaged.
        let is_needed = order.is_read(&core) || (items.has_structure() && structure.is_none());
        Self { core, structure, email_id, learns_id, is_needed }
    }
}

/// Reads the messages of a block as far as needed, and writes their answers to `out`, replacing its
/// content.
fn make(
    order: &Order<'_>,
    block: &[u32],
    room: &mut FetchBuffers,
    mut out: Vec<u8>,
) -> Result<FetchedBlock> {
    let Order { view, items, write, .. } = order;
    out.clear();
    out.shrink_to(READ_ROOM_KEPT_LEN);
    let mut made = FetchedBlock { out, ..FetchedBlock::default() };
    let (rows, read) = read(order, block, &mut room.read, &mut made)?;
    let (mut all, needs) = (read.into_iter(), Needs::of(items));
    view.summaries(&rows, &mut |summary| {
        let Some(fetched) = all.next() else { return false };
        let FetchedMessage { known, message, large, preview, email_id } = fetched;
        let KnownMessage { core, structure, learns_id, .. } = known;
        let is_known = structure.is_some();
        let stored = message.map(|message| view.text(&message, &room.read));
        room.wire.clear();
        room.wire.shrink_to(FETCH_WIRE_KEPT_LEN);
        let wire = match &large {
            Some(large) => Some(&*large.wire),
            None => stored.as_deref().map(|stored| wire_message_in(stored, &mut room.wire)),
        };
        let in_memory = stored.as_deref().filter(|_| order.previews && preview.is_none());
        let preview = preview.or_else(|| in_memory.map(text_preview));
        let about = (*items, needs);
        let mut parts = ReadParts { large: large.as_ref(), preview, email_id: known.email_id };
        if learns_id {
            let of_wire = || wire.filter(|_| large.is_none()).map(EmailId::of_wire);
            parts.email_id = email_id.or_else(of_wire);
            if let Some(id) = parts.email_id {
                made.learned.email_ids.add(&core, id);
            }
        }
        let fetched = Fetched::new(summary, wire, structure, about, parts);
        if summary.rfc822_size.is_none() {
            let size = fetched.rfc822_size().map(|size| (summary.uid, size));
            made.learned.sizes.extend(size);
        }
        if items.has_structure() && !is_known && wire.is_some() {
            made.learned.structures.add(&core, fetched.structure());
        }
        write(&fetched, &mut made.out);
        made.fetched += 1;
        made.unreadable.extend(undecodable(view, &fetched));
        true
    })?;
    Ok(made)
}

/// Returns the items of a message that cannot be decoded, and the errors.
fn undecodable<'a>(
    view: &'a View,
    fetched: &'a Fetched<'_>,
) -> impl Iterator<Item = (Uid, Error)> + 'a {
    fetched.items().items().iter().filter_map(|item| {
        let encoding = String::from_utf8_lossy(fetched.unknown_encoding(item)?).into_owned();
        let (path, item) = (view.path().to_owned(), item.to_string());
        Some((fetched.summary.uid, Error::UnknownEncoding { path, item, encoding }))
    })
}

/// Reads the messages of a block for which not enough is known; returns the rows that can be
/// reported, and what was read of them.
fn read(
    order: &Order<'_>,
    block: &[u32],
    room: &mut ReadRoom,
    made: &mut FetchedBlock,
) -> Result<(Vec<u32>, Vec<FetchedMessage>)> {
    let Order { view, items, .. } = order;
    let mut known: Vec<KnownMessage> = Vec::with_capacity(block.len());
    let mut wanted: Vec<(u32, Core)> = Vec::with_capacity(block.len());
    let read = view.snapshot.cores_of(block, &mut |row, core| {
        let message = KnownMessage::new(order, *core);
        wanted.extend(message.is_needed.then_some((row, message.core)));
        known.push(message);
    });
    view.done(read)?;
    let mut messages = view.read_rows(&wanted, room)?.into_iter();
    let mut rows: Vec<u32> = Vec::with_capacity(block.len());
    let mut all: Vec<FetchedMessage> = Vec::with_capacity(block.len());
    for (row, known) in block.iter().zip(known) {
        let message = if known.is_needed { messages.next() } else { None };
        let knows_size = known.core.rfc822_size.is_some();
        let large = |view: &View, row| Ok((None, Some(read_large(view, row, items, knows_size)?)));
        let read = match message.transpose() {
            Err(error) if is_too_large(&error) => view.follow(*row, &mut { large })?,
            Err(error) if has_moved(&error) => {
                view.follow(*row, &mut |view, row| match view.append_row(row, room) {
                    Err(error) if is_too_large(&error) => large(view, row),
                    read => Ok((Some(read?), None)),
                })?
            }
            read => read.map(|message| (message, None)),
        };
        let read = match read {
            Ok((message, large @ Some(_))) if known.learns_id => {
                let id = view.follow(*row, &mut |view, row| view.row_email_id(row))?;
                id.map(|id| (message, large, Some(id)))
            }
            read => read.map(|(message, large)| (message, large, None)),
        };
        let read = match read {
            // What is in memory need not be read again.
            Ok(read @ (None, ..)) if order.previews => {
                view.follow(*row, &mut row_preview)?.map(|preview| (read, Some(preview)))
            }
            read => read.map(|read| (read, None)),
        };
        match read {
            Ok(((message, large, email_id), preview)) => {
                rows.push(*row);
                all.push(FetchedMessage { known, message, large, preview, email_id });
            }
            Err(Error::NoSuchMessage { uid, .. }) => made.gone.push(uid),
            Err(error @ (Error::Cache(_) | Error::Superseded { .. })) => return Err(error),
            Err(error) => made.unreadable.push((known.core.uid, error)),
        }
    }
    Ok((rows, all))
}
