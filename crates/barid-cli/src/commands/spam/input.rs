//! Input of the filter: mailboxes, files with one message each, and standard input.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use barid::vfs::{File, FileType, OpenOptions, OsVfs, Vfs as _};
use barid::{Mailbox, Uid, WHOLE_LEN_MAX, compression_of};
use clap::Args;

use crate::context::Context;
use crate::exit::WithHint;
use crate::limits::ONE_MESSAGE_LEN_MAX;
use crate::mail::query::QueryArgs;
use crate::mail::selection::{MessageSelection, SelectedMessages, Selector};
use crate::mail::standard_input::{STDIN, StandardInput};
use crate::mail::uids::SelectedUids;
use crate::output::number::size;

/// An input with messages.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// A mailbox, as named on the command line.
    Mailbox(OsString),
    /// Files with one message each.
    Files(Vec<PathBuf>),
    /// A message or an mbox on standard input.
    Stdin,
}

/// Determines the inputs of the names on the command line; no names mean standard input.
pub(super) fn inputs(context: &Context, names: &[OsString]) -> anyhow::Result<Vec<Input>> {
    if names.is_empty() {
        return Ok(vec![Input::Stdin]);
    }
    let mut inputs: Vec<Input> = Vec::new();
    for name in names {
        if name == "-" {
            inputs.push(Input::Stdin);
        } else if !is_message(context, name)? {
            inputs.push(Input::Mailbox(name.clone()));
        } else if let Some(Input::Files(files)) = inputs.last_mut() {
            files.push(context.spec(name)?.path);
        } else {
            inputs.push(Input::Files(vec![context.spec(name)?.path]));
        }
    }
    Ok(inputs)
}

/// Returns `true` if a name is that of a file with one message. A file that begins with a From_
/// line counts as one message if no second From_ line follows. A compressed file is a mailbox.
fn is_message(context: &Context, name: &OsStr) -> anyhow::Result<bool> {
    let spec = context.spec(name)?;
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

/// The content of standard input.
pub(super) enum FromStdin {
    /// One message.
    Message(Vec<u8>),
    /// An mbox with several messages.
    Mbox(Box<Mailbox>),
}

/// Reads standard input: an mbox if it begins with a From_ line and another message follows,
/// otherwise one message. Compressed input is an error.
pub(super) fn read_stdin(context: &Context) -> anyhow::Result<FromStdin> {
    if io::stdin().is_terminal() && !context.global.quiet {
        context.error_line("note", "reading a message from standard input, up to ^D");
    }
    let input = StandardInput::read(&context.spool_folders(), None)?;
    let start = input.start().map_err(|error| anyhow::Error::new(error).context(STDIN))?;
    if start.is_empty() {
        let hint = "a message is a header, a blank line and a body";
        return Err(WithHint::error(format!("{STDIN}: empty: not a message"), hint));
    }
    if compression_of(&start).is_some() {
        let hint = "name the file, or decompress it first, as in `zcat FILE | barid spam train`";
        return Err(WithHint::error(format!("{STDIN}: compressed: not a message"), hint));
    }
    match input {
        StandardInput::Spooled(_) if start.starts_with(b"From ") => {
            Ok(FromStdin::Mbox(Box::new(input.into_mailbox()?)))
        }
        StandardInput::Spooled(file) => Ok(FromStdin::Message(read_message(&*file)?)),
        StandardInput::Whole(bytes) => Ok(of_bytes(bytes)),
    }
}

/// Reads a message from a file if it is not too large.
fn read_message(file: &dyn File) -> anyhow::Result<Vec<u8>> {
    let at = |error: io::Error| anyhow::Error::new(error).context(STDIN);
    let len = file.metadata().map_err(at)?.size;
    if len > WHOLE_LEN_MAX {
        let (len, most) = (size(len), size(WHOLE_LEN_MAX));
        return Err(WithHint::error(
            format!("{STDIN}: {len}: too large: the filter accepts messages of up to {most}"),
            "a mailbox on standard input begins with a From_ line",
        ));
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0).map_err(at)?;
    Ok(bytes)
}

fn of_bytes(bytes: Vec<u8>) -> FromStdin {
    if !bytes.starts_with(b"From ") || !one_more_follows(&bytes) {
        return FromStdin::Message(bytes);
    }
    match StandardInput::Whole(bytes.clone()).into_mailbox() {
        Ok(mailbox) if mailbox.len() > 1 => FromStdin::Mbox(Box::new(mailbox)),
        // The line that looks like another From_ line belongs to this message.
        _ => FromStdin::Message(bytes),
    }
}

/// The option for some messages of a mailbox.
#[derive(Clone, Debug, Args)]
pub(super) struct MessagesArgs {
    /// Only these messages of the mailbox: UIDs and ranges, as in 1,5:7; or a query as for `barid
    /// search`, in quotes if it has several words
    #[arg(long, value_name = "UIDS|QUERY", visible_alias = "messages")]
    uids: Option<String>,
    #[command(flatten)]
    query: QueryArgs,
}

impl MessagesArgs {
    /// Returns the selection; `None` for all messages.
    ///
    /// # Errors
    ///
    /// Returns an error for an invalid selection, and if the input is not one mailbox.
    pub(super) fn selection(
        &self,
        context: &Context,
        inputs: &[Input],
        selector: Selector,
    ) -> anyhow::Result<Option<MessageSelection>> {
        let Some(words) = &self.uids else { return Ok(None) };
        if !matches!(inputs, [Input::Mailbox(_)]) {
            let message = "--uids needs exactly one mailbox";
            return Err(WithHint::error(message, "name one mailbox, with its format before it"));
        }
        MessageSelection::parse_one(context, words, self.query, selector).map(Some)
    }
}

/// Returns the selected messages of a mailbox: those of a selection, or all without it.
pub(super) fn select(
    mailbox: &mut Mailbox,
    selection: Option<&MessageSelection>,
) -> barid::Result<SelectedMessages> {
    match selection {
        Some(selection) => selection.select(mailbox),
        None => {
            let uids = mailbox.uids()?.into_iter().filter_map(Uid::new).collect();
            let selected = SelectedUids { uids, missing: Vec::new() };
            Ok(SelectedMessages { selected, ..SelectedMessages::default() })
        }
    }
}
