//! Fast output of many lines: one for each of a list of messages, formatted by several threads and
//! written in order.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use barid::{Mailbox, Summary};

use crate::limits::{BLOCKS_WAITING_MAX, LINES_PER_BLOCK, WRITERS_MAX};
use crate::output::sink::Sink;

/// Formats the line of one message.
pub(crate) trait WriteLine {
    /// Appends the line, its line feed included.
    fn write_line(&mut self, out: &mut Vec<u8>, summary: &Summary<'_>);
}

type Block = barid::Result<Vec<u8>>;

/// Writes a line for each of `rows`, in their order. Every thread has its own writer.
pub(crate) fn write_lines<W: WriteLine>(
    sink: &mut Sink,
    mailbox: &Mailbox,
    rows: &[u32],
    make_writer: impl Fn() -> W + Sync,
) -> anyhow::Result<()> {
    let blocks = rows.len().div_ceil(LINES_PER_BLOCK);
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    let writers = if blocks < 2 { 1 } else { cores().min(blocks).min(WRITERS_MAX) };
    if writers == 1 {
        return write_here(sink, mailbox, rows, make_writer());
    }
    thread::scope(|scope| {
        let receivers: Vec<Receiver<Block>> = (0..writers)
            .map(|writer| {
                let (sender, receiver) = sync_channel(BLOCKS_WAITING_MAX);
                let make_writer = &make_writer;
                scope.spawn(move || {
                    let own = rows.chunks(LINES_PER_BLOCK).skip(writer).step_by(writers);
                    write_blocks(mailbox, own, make_writer(), &sender);
                });
                receiver
            })
            .collect();
        for block in 0..blocks {
            // A writer that ended before its last block has panicked; the scope propagates that.
            let Ok(block) = receivers[block % writers].recv() else { break };
            sink.block(&block?)?;
        }
        Ok(())
    })
}

fn write_here<W: WriteLine>(
    sink: &mut Sink,
    mailbox: &Mailbox,
    rows: &[u32],
    mut writer: W,
) -> anyhow::Result<()> {
    let mut written = Ok(());
    mailbox.summaries(rows, &mut |summary| {
        writer.write_line(sink.buffer(), summary);
        written = sink.settle();
        written.is_ok()
    })?;
    Ok(written?)
}

/// Formats blocks of lines until all are done, one fails, or the receiver is closed.
fn write_blocks<'a, W: WriteLine>(
    mailbox: &Mailbox,
    blocks: impl Iterator<Item = &'a [u32]>,
    mut writer: W,
    sender: &SyncSender<Block>,
) {
    let mut capacity = 0;
    for rows in blocks {
        let mut out = Vec::with_capacity(capacity);
        let result = mailbox.summaries(rows, &mut |summary| {
            writer.write_line(&mut out, summary);
            true
        });
        capacity = out.len() + out.len() / 8;
        let failed = result.is_err();
        if sender.send(result.map(|()| out)).is_err() || failed {
            return;
        }
    }
}
