//! The unchanged bytes of a message of any size.

use std::path::Path;

use barid::vfs::{File, OpenOptions, OsVfs, Vfs};
use barid::{Mailbox, ReadAs, Uid};

use crate::context::Context;
use crate::mail::pieces::read_without_owned;
use crate::output::escape::{Space, write_visible};

/// Writes a message to a file or to standard output, piece by piece; on a terminal, control
/// characters are made visible. Unless `stored`, leaves out the fields that formats own.
pub(super) fn write(
    context: &mut Context,
    mailbox: &mut Mailbox,
    uid: Uid,
    stored: bool,
    output: Option<&Path>,
) -> anyhow::Result<()> {
    let (mut target, mut failed) = (None, None);
    let write = &mut |piece: &[u8]| {
        let written = match output {
            Some(path) => write_to_file(&mut target, path, piece),
            None => write_out(context, piece),
        };
        failed = written.err();
        failed.is_none()
    };
    let read = match stored {
        true => mailbox.read_pieces(uid, ReadAs::Stored, write),
        false => read_without_owned(mailbox, uid, write),
    };
    match failed {
        Some(error) => Err(error),
        None => Ok(read?),
    }
}

/// Writes to a file, which the first piece replaces.
fn write_to_file(
    target: &mut Option<(Box<dyn File>, u64)>,
    path: &Path,
    piece: &[u8],
) -> anyhow::Result<()> {
    let at = |error| anyhow::Error::new(error).context(path.display().to_string());
    let (file, offset) = match target {
        Some(target) => target,
        none => {
            let options = OpenOptions { truncate: true, ..OpenOptions::create(0o666) };
            none.insert((OsVfs.open(path, options).map_err(at)?, 0))
        }
    };
    file.write_all_at(piece, *offset).map_err(at)?;
    *offset += piece.len() as u64;
    Ok(())
}

fn write_out(context: &mut Context, piece: &[u8]) -> anyhow::Result<()> {
    if context.width.is_some() {
        write_visible(context.out.buffer(), piece, Space::Lines);
    } else {
        context.out.buffer().extend_from_slice(piece);
    }
    Ok(context.out.settle()?)
}
