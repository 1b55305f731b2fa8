//! Reading many messages: by several threads, in order, in blocks of a bounded size.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use barid_cache::Core;
use barid_mailbox::{Error as FormatError, ReadAs};
use barid_types::{FlagSet, InternalDate, Keyword, Uid};
use barid_vfs::Workers;

use crate::limits::{
    CONVERT_ATTEMPTS_MAX, CONVERT_BLOCK_LEN, CONVERT_BLOCK_ROWS, CONVERT_BLOCKS_WAITING,
    CONVERT_THREADS_MAX, COPY_WHOLE_LEN_MAX,
};
use crate::read::ReadRoom;
use crate::turns::{BlockTurn, Turns};
use crate::{Error, Mailbox, Result};

/// A message that was read.
#[derive(Clone, Debug)]
pub(crate) struct MessageRead<'t> {
    pub(crate) uid: Uid,
    pub(crate) flags: FlagSet,
    pub(crate) keywords: Vec<Keyword>,
    pub(crate) internal_date: InternalDate,
    /// The message; only the header of a large one.
    pub(crate) text: Cow<'t, [u8]>,
    /// The row of a large message.
    pub(crate) large: Option<u32>,
    /// The sender in its From_ line.
    pub(crate) sender: Option<String>,
}

impl MessageRead<'_> {
    /// Replaces the text.
    pub(crate) fn with_text(self, text: Vec<u8>) -> MessageRead<'static> {
        let Self { uid, flags, keywords, internal_date, large, sender, .. } = self;
        MessageRead { uid, flags, keywords, internal_date, text: Cow::Owned(text), large, sender }
    }
}

/// Outcome for a message of [`Mailbox::read_each`].
#[derive(Debug)]
pub enum ReadOutcome<T> {
    /// It was read, with this result.
    Made(T),
    /// It no longer exists.
    Gone,
    /// It cannot be read.
    Unreadable(Error),
}

/// The treatment of messages that are too large for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Large {
    /// They are unreadable.
    Refuse,
    /// Their headers are read, and [`MessageRead::large`] is set.
    Stream,
}

/// Computes a result from a message, in any thread; the buffer is for any use.
pub(crate) type Make<'a, T> =
    dyn Fn(&Mailbox, MessageRead<'_>, &mut Vec<u8>) -> Result<T> + Sync + 'a;

/// Receives the results, in order; `false` ends the reading.
pub(crate) type TakeOutcome<'a, T, E> =
    dyn FnMut(&Mailbox, Uid, ReadOutcome<T>) -> std::result::Result<bool, E> + 'a;

impl Mailbox {
    /// Reads messages in the order of their UIDs, computes a result of each by `make`, in any
    /// thread, and passes the results to `take`, in order, until that returns `false`. If a message
    /// has moved, the mailbox is scanned again and the reading continues with it. Memory is
    /// bounded; messages too large for it are [`ReadOutcome::Unreadable`].
    ///
    /// # Errors
    /// [`Error::Renumbered`] if the UIDs then mean other messages; errors of the mailbox and of
    /// `take`.
    pub fn read_each<T: Send, E: From<Error>>(
        &mut self,
        uids: &[Uid],
        make: &(dyn Fn(&[u8]) -> T + Sync),
        take: &mut dyn FnMut(Uid, ReadOutcome<T>) -> std::result::Result<bool, E>,
    ) -> std::result::Result<(), E> {
        let make = |_: &Self, read: MessageRead<'_>, _: &mut Vec<u8>| Ok(make(&read.text));
        read_each(self, (uids, Large::Refuse), &make, &mut |_, uid, outcome| take(uid, outcome))
    }
}

/// Reads messages in the order of their UIDs. If one has moved, the mailbox is scanned again and
/// the reading continues with it.
///
/// # Errors
/// [`Error::Renumbered`] if the UIDs then mean other messages; errors of the mailbox and of `take`.
pub(crate) fn read_each<T: Send, E: From<Error>>(
    mailbox: &mut Mailbox,
    (uids, large): (&[Uid], Large),
    make: &Make<'_, T>,
    take: &mut TakeOutcome<'_, T, E>,
) -> std::result::Result<(), E> {
    let uidvalidity = mailbox.status().uidvalidity;
    let (mut next, mut attempts) = (0, 0);
    while next < uids.len() {
        let at = match run(mailbox, (&uids[next..], large), make, take)? {
            Stop::Done => {
                mailbox.keep_restart_points();
                return Ok(());
            }
            Stop::Moved(at) => next + at,
        };
        attempts = if at == next { attempts + 1 } else { 1 };
        next = at;
        if attempts <= CONVERT_ATTEMPTS_MAX {
            // A mailbox that looks unchanged may have been read at its end only.
            mailbox.rescan(attempts > 1)?;
            mailbox.check_numbering(uidvalidity)?;
            continue;
        }
        let error = Error::KeepsChanging { path: mailbox.path().to_owned() };
        if !take(mailbox, uids[next], ReadOutcome::Unreadable(error))? {
            return Ok(());
        }
        (next, attempts) = (next + 1, 0);
    }
    Ok(())
}

/// Result of a run.
enum Stop {
    /// Everything is read, or the caller wants no more.
    Done,
    /// The message at this index of the list has moved.
    Moved(usize),
}

/// Result of a thread for a block: an outcome for each message up to one that has moved.
struct BlockOutcomes<T> {
    outcomes: Vec<ReadOutcome<T>>,
    has_moved: bool,
}

/// A section of the list, and the rows of its messages.
struct Block {
    from: usize,
    rows: Vec<Option<u32>>,
    /// Bytes of the messages as stored.
    len: u64,
}

fn run<T: Send, E: From<Error>>(
    mailbox: &Mailbox,
    (uids, large): (&[Uid], Large),
    make: &Make<'_, T>,
    take: &mut TakeOutcome<'_, T, E>,
) -> std::result::Result<Stop, E> {
    let blocks = blocks(mailbox, uids)?;
    let threads = mailbox.options.thread_count().min(blocks.len()).min(CONVERT_THREADS_MAX);
    let workers = Workers::take(threads);
    let threads = workers.count().max(1);
    let waiting = CONVERT_BLOCKS_WAITING / threads;
    let lens = blocks.iter().map(|block| if block.rows.len() == 1 { block.len } else { 0 });
    let turns = BlockTurn::of_blocks(lens, CONVERT_BLOCK_LEN);
    let gate = &Turns::default();
    let mut follow =
        |made: Result<BlockOutcomes<T>>, block: &Block| -> std::result::Result<Option<Stop>, E> {
            let made = made?;
            let count = made.outcomes.len();
            for (uid, outcome) in uids[block.from..].iter().zip(made.outcomes) {
                if !take(mailbox, *uid, outcome)? {
                    return Ok(Some(Stop::Done));
                }
            }
            Ok(made.has_moved.then_some(Stop::Moved(block.from + count)))
        };
    thread::scope(|scope| {
        let receivers: Vec<Receiver<Result<BlockOutcomes<T>>>> = (0..threads)
            .map(|worker| {
                let (sender, receiver) = sync_channel(waiting);
                let all = blocks.iter().zip(turns.iter().copied());
                let own: Vec<_> = all.skip(worker).step_by(threads).collect();
                scope.spawn(move || work((mailbox, large), (&own, gate), make, &sender));
                receiver
            })
            .collect();
        let mut receivers: VecDeque<_> = receivers.into();
        let _closing = gate.closing();
        for (block, turn) in blocks.iter().zip(&turns) {
            receivers.rotate_left(1);
            let receiver = receivers.back().expect("because there is a thread");
            // A thread that is gone before its last block has panicked; the scope resumes the
            // panic.
            let Ok(made) = receiver.recv() else { break };
            if let Some(stop) = follow(made, block)? {
                return Ok(stop);
            }
            gate.leave(*turn);
        }
        Ok(Stop::Done)
    })
}

/// Divides the messages into blocks of a bounded size.
fn blocks(mailbox: &Mailbox, uids: &[Uid]) -> Result<Vec<Block>> {
    let all = mailbox.uids()?;
    let sizes = mailbox.snapshot.sizes()?;
    let mut blocks: Vec<Block> = Vec::new();
    let mut len = u64::MAX;
    for (at, uid) in uids.iter().enumerate() {
        let row = all.binary_search(&uid.get()).ok();
        let size = row.and_then(|row| sizes.get(row).copied()).unwrap_or(0);
        len = len.saturating_add(size);
        match blocks.last_mut() {
            Some(block) if len <= CONVERT_BLOCK_LEN && block.rows.len() < CONVERT_BLOCK_ROWS => {
                block.rows.push(row.map(|row| row as u32));
                block.len = len;
            }
            _ => {
                len = size;
                blocks.push(Block { from: at, rows: vec![row.map(|row| row as u32)], len });
            }
        }
    }
    Ok(blocks)
}

/// Processes blocks until they are done, one ends early, or they are not wanted any more.
fn work<T>(
    mailbox: (&Mailbox, Large),
    (blocks, gate): (&[(&Block, Option<BlockTurn>)], &Turns),
    make: &Make<'_, T>,
    sender: &SyncSender<Result<BlockOutcomes<T>>>,
) {
    let (mut room, mut scratch) = (ReadRoom::default(), Vec::new());
    for (block, turn) in blocks {
        if !gate.enter(*turn) {
            return;
        }
        let made = read_block(mailbox, block, make, &mut room, &mut scratch);
        let is_last = !made.as_ref().is_ok_and(|made| !made.has_moved);
        if sender.send(made).is_err() || is_last {
            return;
        }
    }
}

fn read_block<T>(
    (mailbox, large): (&Mailbox, Large),
    block: &Block,
    make: &Make<'_, T>,
    room: &mut ReadRoom,
    scratch: &mut Vec<u8>,
) -> Result<BlockOutcomes<T>> {
    let mut made =
        BlockOutcomes { outcomes: Vec::with_capacity(block.rows.len()), has_moved: false };
    if let [Some(row)] = block.rows[..]
        && large == Large::Stream
        && block.len > COPY_WHOLE_LEN_MAX
        && let Some(outcome) = read_large(mailbox, row, make, scratch)?
    {
        made.has_moved = outcome.is_none();
        made.outcomes.extend(outcome);
        return Ok(made);
    }
    let with_core = |row: u32| Ok((row, mailbox.snapshot.core(row)?));
    let rows =
        block.rows.iter().flatten().map(|row| with_core(*row)).collect::<Result<Vec<_>>>()?;
    let mut messages = rows.iter().zip(mailbox.read_rows(&rows, room)?);
    for row in &block.rows {
        let message = if row.is_some() { messages.next() } else { None };
        made.outcomes.push(match message {
            None => ReadOutcome::Gone,
            Some(((_, core), message)) => {
                let text = message.map(|message| mailbox.text(&message, room));
                let made_of = text
                    .and_then(|text| make(mailbox, as_read(mailbox, core, text, None), scratch));
                match outcome_of(made_of)? {
                    Some(outcome) => outcome,
                    None => {
                        made.has_moved = true;
                        break;
                    }
                }
            }
        });
    }
    Ok(made)
}

/// Returns the outcome for a message; `None` if it has moved.
fn outcome_of<T>(made: Result<T>) -> Result<Option<ReadOutcome<T>>> {
    Ok(Some(match made {
        Ok(made) => ReadOutcome::Made(made),
        Err(Error::Mailbox(FormatError::MessageGone { .. })) => return Ok(None),
        Err(error @ Error::Cache(_)) => return Err(error),
        Err(error) => ReadOutcome::Unreadable(error),
    }))
}

/// Returns the outcome for a large message, whose header is read; `None` if the header has no end,
/// so that the message is read as any other or refused.
#[expect(clippy::option_option, reason = "not large is not the same as moved")]
fn read_large<T>(
    mailbox: &Mailbox,
    row: u32,
    make: &Make<'_, T>,
    scratch: &mut Vec<u8>,
) -> Result<Option<Option<ReadOutcome<T>>>> {
    let made = mailbox.row_header(row).and_then(|header| {
        let Some(header) = header else { return Ok(None) };
        let core = mailbox.snapshot.core(row)?;
        let read = as_read(mailbox, &core, Cow::Owned(header), Some(row));
        make(mailbox, read, scratch).map(Some)
    });
    match made {
        Ok(None) => Ok(None),
        made => {
            let made = made.map(|made| made.expect("because it is not `None`"));
            outcome_of(made).map(Some)
        }
    }
}

fn as_read<'t>(
    mailbox: &Mailbox,
    core: &Core,
    text: Cow<'t, [u8]>,
    large: Option<u32>,
) -> MessageRead<'t> {
    let (flags, keywords, _) = mailbox.shown.of_message(core);
    MessageRead {
        uid: core.uid,
        flags: flags.without(barid_types::Flag::Recent),
        keywords: mailbox.keywords().select(keywords).cloned().collect(),
        internal_date: core.internal_date,
        text,
        large,
        sender: None,
    }
}

/// Returns the sender in the From_ line of a message.
pub(crate) fn sender_of(mailbox: &Mailbox, uid: Uid) -> Option<String> {
    let row = mailbox.row_of(uid).ok()??;
    let mut name = Vec::new();
    let location = mailbox.snapshot.location(row, &mut name).ok()?;
    let head = location.without_body()?;
    let (mut bytes, stamp) = (Vec::new(), &mailbox.snapshot.meta().stamp);
    mailbox.storage.read_known(&head, ReadAs::Stored, stamp, &mut bytes).ok()?;
    let line = String::from_utf8_lossy(bytes.get(..location.separator_len()? as usize)?);
    line.split_ascii_whitespace().nth(1).map(str::to_owned)
}
