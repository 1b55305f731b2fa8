//! One message to append, from a file or from standard input. A large one stays in its file.

use std::ffi::OsStr;
use std::path::Path;

use barid::vfs::{File, FileType, OpenOptions, OsVfs, Vfs as _};
use barid::{FileRest, MessageRest as _};

use super::incoming::{Incoming, too_large};
use crate::context::Context;
use crate::exit::WithHint;
use crate::limits::INPUT_WHOLE_LEN_MAX;
use crate::mail::standard_input::{STDIN, StandardInput};

/// Reads a file that contains one message.
pub(super) fn read_file(name: &OsStr) -> anyhow::Result<Incoming> {
    let path = Path::new(name);
    let shown = path.display().to_string();
    let at = |error| anyhow::Error::new(error).context(shown.clone());
    let file = OsVfs.open(path, OpenOptions::READ).map_err(at)?;
    let found = file.metadata().map_err(at)?;
    match found.file_type {
        FileType::File => {}
        FileType::Dir => {
            return Err(WithHint::error(
                format!("{shown}: a folder, not a message"),
                "messages of a mailbox are appended with --mbox",
            ));
        }
        _ => {
            return Err(WithHint::error(
                format!("{shown}: not a regular file"),
                "give the message on standard input",
            ));
        }
    }
    if found.size > INPUT_WHOLE_LEN_MAX as u64 {
        return large_message(file, path);
    }
    let mut bytes = vec![0; found.size as usize];
    let len = file.read_full_at(&mut bytes, 0).map_err(at)?;
    bytes.truncate(len);
    one_message(bytes, None, &shown)
}

/// Returns `true` if a file is too large to be read into memory.
pub(super) fn is_large(name: &OsStr) -> bool {
    let found = OsVfs.metadata(Path::new(name));
    found.is_ok_and(|found| found.size > INPUT_WHOLE_LEN_MAX as u64)
}

/// Reads one message of at most `len_max` bytes from standard input.
pub(super) fn read_stdin(context: &Context, len_max: Option<u64>) -> anyhow::Result<Incoming> {
    let too_large = || too_large(STDIN, len_max);
    match StandardInput::read(
        &context.spool_folders(),
        len_max.map(|most| (most, &too_large as _)),
    )? {
        StandardInput::Whole(bytes) => one_message(bytes, None, STDIN),
        StandardInput::Spooled(file) => large_message(file, Path::new(STDIN)),
    }
}

/// Returns the message that is all of a file.
fn large_message(file: Box<dyn File>, path: &Path) -> anyhow::Result<Incoming> {
    let (bytes, rest) = FileRest::split(file, path)?;
    one_message(bytes, Some(rest).filter(|rest| rest.size() > 0), &path.display().to_string())
}

/// Returns the message without a From_ line before it.
fn one_message(mut bytes: Vec<u8>, rest: Option<FileRest>, name: &str) -> anyhow::Result<Incoming> {
    let mut sender = None;
    if bytes.starts_with(b"From ") && (rest.is_none() || bytes.contains(&b'\n')) {
        let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
        let line = String::from_utf8_lossy(&bytes[..end]);
        sender = line.split_ascii_whitespace().nth(1).map(str::to_owned);
        bytes.drain(..end);
    }
    if bytes.is_empty() {
        return Err(WithHint::error(
            format!("{name}: empty: not a message"),
            "a message is a header, a blank line and a body",
        ));
    }
    Ok(Incoming { bytes, rest, sender, ..Incoming::default() })
}

/// Returns `true` if another message seems to follow in the file of a message.
pub(super) fn has_more(message: &Incoming) -> anyhow::Result<bool> {
    const START: &[u8] = b"\n\nFrom ";
    let has_start = |text: &[u8]| text.windows(START.len()).any(|window| window == START);
    let mut has_more = has_start(&message.bytes);
    let mut text = message.bytes[message.bytes.len().saturating_sub(START.len() - 1)..].to_vec();
    if let Some(rest) = message.rest.as_ref().filter(|_| !has_more) {
        rest.read(&mut |piece| {
            text.extend_from_slice(piece);
            has_more = has_more || has_start(&text);
            text.drain(..text.len().saturating_sub(START.len() - 1));
            Ok(())
        })?;
    }
    Ok(has_more)
}
