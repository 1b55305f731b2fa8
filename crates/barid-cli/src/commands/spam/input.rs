//! What is given to the filter: mailboxes, files with one message each, standard input.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid::vfs::{FileType, MemVfs, OpenOptions, OsVfs, Vfs as _};
use barid::{Mailbox, MailboxSpec, Uid, compression_of};

use crate::context::{Context, parse_spec};
use crate::exit::WithHint;
use crate::limits::{MESSAGE_LEN_MAX, ONE_MESSAGE_LEN_MAX};
use crate::mail::uids::{SelectedUids, UidRanges};

/// Something with messages.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// A mailbox, as it was named.
    Mailbox(OsString),
    /// Files, each of which is a message.
    Files(Vec<PathBuf>),
    /// A message, or an mbox, on standard input.
    Stdin,
}

/// Sorts out what was named; nothing is standard input.
pub(super) fn inputs(names: &[OsString]) -> anyhow::Result<Vec<Input>> {
    if names.is_empty() {
        return Ok(vec![Input::Stdin]);
    }
    let mut inputs: Vec<Input> = Vec::new();
    for name in names {
        if name == "-" {
            inputs.push(Input::Stdin);
        } else if !is_message(name)? {
            inputs.push(Input::Mailbox(name.clone()));
        } else if let Some(Input::Files(files)) = inputs.last_mut() {
            files.push(name.into());
        } else {
            inputs.push(Input::Files(vec![name.into()]));
        }
    }
    Ok(inputs)
}

/// Returns `true` if a name is that of a file with one message. A file that begins with a From_
/// line is one if no second follows. A compressed file is a mailbox.
fn is_message(name: &OsStr) -> anyhow::Result<bool> {
    let spec = parse_spec(name);
    if spec.format.is_some() {
        return Ok(false);
    }
    let at = |error| anyhow::Error::new(error).context(spec.path.display().to_string());
    let metadata = OsVfs.metadata(&spec.path).map_err(at)?;
    if metadata.file_type != FileType::File || metadata.size == 0 {
        return Ok(false);
    }
    let mut head = [0; 6];
    let read = OsVfs.open(&spec.path, OpenOptions::READ);
    let len = read.and_then(|file| file.read_full_at(&mut head, 0)).map_err(at)?;
    let head = &head[..len];
    if head.starts_with(b"From ") && metadata.size <= ONE_MESSAGE_LEN_MAX {
        return one_from_line(&spec.path).map_err(at);
    }
    let marks: [&[u8]; 3] = [b"From ", b"*mbx*", b"\x01\x01\x01\x01\n"];
    Ok(compression_of(head).is_none() && !marks.iter().any(|mark| head.starts_with(mark)))
}

fn one_from_line(path: &Path) -> io::Result<bool> {
    Ok(!one_more_follows(&OsVfs.read(path, ONE_MESSAGE_LEN_MAX)?))
}

fn one_more_follows(bytes: &[u8]) -> bool {
    let follows = |line: &[u8]| bytes.windows(line.len()).any(|window| window == line);
    follows(b"\n\nFrom ") || follows(b"\n\r\nFrom ")
}

/// What is on standard input.
pub(super) enum FromStdin {
    /// One message.
    Message(Vec<u8>),
    /// An mbox of several.
    Mbox(Box<Mailbox>),
}

/// Reads standard input: an mbox if it begins with a From_ line and another message follows; one
/// message else. Compressed bytes are refused.
pub(super) fn read_stdin(context: &Context) -> anyhow::Result<FromStdin> {
    let bytes = read_all_of_stdin(context)?;
    if bytes.is_empty() {
        let hint = "a message is a header, a blank line and a body";
        return Err(WithHint::error("standard input: empty, and no message", hint));
    }
    if compression_of(&bytes).is_some() {
        let hint = "name the file, or decompress it first, as in `zcat FILE | barid spam train`";
        return Err(WithHint::error("standard input: compressed, and no message", hint));
    }
    if !bytes.starts_with(b"From ") || !one_more_follows(&bytes) {
        return Ok(FromStdin::Message(bytes));
    }
    let memory = MemVfs::new();
    let path = Path::new("/standard-input");
    memory.open(path, OpenOptions::create_new(0o600))?.write_all_at(&bytes, 0)?;
    let spec = MailboxSpec::parse("mbox:/standard-input");
    let options = barid::OpenOptions::new(None, "/state".into());
    let options = barid::OpenOptions { read_only: true, ..options };
    Ok(match Mailbox::open_in(Arc::new(memory), &spec, &options) {
        Ok(mailbox) if mailbox.len() > 1 => FromStdin::Mbox(Box::new(mailbox)),
        // What looks like a From_ line of another message is a line of this one.
        _ => FromStdin::Message(bytes),
    })
}

fn read_all_of_stdin(context: &Context) -> anyhow::Result<Vec<u8>> {
    if io::stdin().is_terminal() && !context.global.quiet {
        context.error_line("note", "reading a message from standard input, up to ^D");
    }
    let mut bytes = Vec::new();
    let at = |error: io::Error| anyhow::Error::new(error).context("standard input");
    io::stdin().lock().take(MESSAGE_LEN_MAX as u64 + 1).read_to_end(&mut bytes).map_err(at)?;
    if bytes.len() > MESSAGE_LEN_MAX {
        let message = "standard input: larger than any message that is read at once";
        return Err(WithHint::error(message, "name a mailbox instead"));
    }
    Ok(bytes)
}

/// The messages of a mailbox that are meant: all, if none are named.
pub(super) fn select(mailbox: &Mailbox, uids: Option<&UidRanges>) -> barid::Result<SelectedUids> {
    match uids {
        Some(ranges) => ranges.select(mailbox),
        None => {
            let uids = mailbox.uids()?.into_iter().filter_map(Uid::new).collect();
            Ok(SelectedUids { uids, missing: Vec::new() })
        }
    }
}
