//! Messages to append: from a file, from standard input, from another mailbox.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use barid::vfs::{FileType, MemVfs, OpenOptions as OpenFile, OsVfs, Vfs};
use barid::{
    CreateOptions, Format, FormatName, InternalDate, Mailbox, MailboxSpec, OpenOptions, ReadAs,
    TreePlace, Uid, place_in_tree,
};

use crate::context::{Context, parse_spec};
use crate::exit::WithHint;
use crate::limits::{INCOMING_ROWS, MESSAGE_LEN_MAX};
use crate::mail::flags::FlagNames;
use crate::signals;

/// A message to append, with its known metadata.
#[derive(Clone, Debug, Default)]
pub(super) struct Incoming {
    pub(super) bytes: Vec<u8>,
    pub(super) internal_date: Option<InternalDate>,
    pub(super) names: FlagNames,
    /// The sender according to a From_ line.
    pub(super) sender: Option<String>,
}

/// Reads a file that contains one message.
pub(super) fn read_file(name: &OsStr) -> anyhow::Result<Incoming> {
    let path = Path::new(name);
    let shown = path.display().to_string();
    let at = |error| anyhow::Error::new(error).context(shown.clone());
    let file = OsVfs.open(path, OpenFile::READ).map_err(at)?;
    let found = file.metadata().map_err(at)?;
    match found.file_type {
        FileType::File => {}
        FileType::Dir => {
            return Err(WithHint::error(
                format!("{shown}: a folder, and no message"),
                "messages of a mailbox are appended with --mbox",
            ));
        }
        _ => {
            return Err(WithHint::error(
                format!("{shown}: no file that can be read at once"),
                "give the message on standard input",
            ));
        }
    }
    if found.size > MESSAGE_LEN_MAX as u64 {
        return Err(too_large(&shown));
    }
    let mut bytes = vec![0; found.size as usize];
    let len = file.read_full_at(&mut bytes, 0).map_err(at)?;
    bytes.truncate(len);
    one_message(bytes, &shown)
}

/// Reads one message from standard input.
pub(super) fn read_stdin() -> anyhow::Result<Incoming> {
    one_message(read_all_of_stdin()?, "standard input")
}

fn read_all_of_stdin() -> anyhow::Result<Vec<u8>> {
    let name = "standard input";
    let mut bytes = Vec::new();
    let at = |error: io::Error| anyhow::Error::new(error).context(name);
    let mut stdin = io::stdin().lock().take(MESSAGE_LEN_MAX as u64 + 1);
    signals::while_idle(|| stdin.read_to_end(&mut bytes)).map_err(at)?;
    if bytes.len() > MESSAGE_LEN_MAX {
        return Err(too_large(name));
    }
    Ok(bytes)
}

fn too_large(name: &str) -> anyhow::Error {
    WithHint::error(
        format!("{name}: larger than any message that is appended"),
        "messages of a mailbox are appended with --mbox",
    )
}

/// Returns the message without a From_ line before it.
fn one_message(mut bytes: Vec<u8>, name: &str) -> anyhow::Result<Incoming> {
    let mut sender = None;
    if bytes.starts_with(b"From ") {
        let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
        let line = String::from_utf8_lossy(&bytes[..end]);
        sender = line.split_ascii_whitespace().nth(1).map(str::to_owned);
        bytes.drain(..end);
    }
    if bytes.is_empty() {
        return Err(WithHint::error(
            format!("{name}: empty, and no message"),
            "a message is a header, a blank line and a body",
        ));
    }
    Ok(Incoming { bytes, sender, ..Incoming::default() })
}

/// Returns `true` if another message seems to follow.
pub(super) fn has_more(bytes: &[u8]) -> bool {
    bytes.windows(7).any(|window| window == b"\n\nFrom ")
}

/// Creates an empty mailbox unless the path exists.
pub(crate) fn create_mailbox(context: &Context, name: &OsStr) -> anyhow::Result<()> {
    let spec = parse_spec(name);
    let at = |error| anyhow::Error::new(error).context(spec.path.display().to_string());
    match OsVfs.metadata(&spec.path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        result => return result.map(drop).map_err(at),
    }
    let is_maildir = || spec.path.as_os_str().as_encoded_bytes().ends_with(b"/");
    let place = match spec.format {
        Some(name) => TreePlace { path: spec.path.clone(), format: name.format() },
        None => place_in_tree(&OsVfs, &spec.path).unwrap_or_else(|| TreePlace {
            path: spec.path.clone(),
            format: if is_maildir() { Format::Maildir } else { FormatName::Mbox.format() },
        }),
    };
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
    let TreePlace { path, format } = place;
    Ok(barid::create(&vfs, &path, format, &CreateOptions::default(), &context.state_dir()?)?)
}

/// Visits every message of an mbox on standard input, in order.
pub(super) fn read_mbox_on_stdin(
    visit: &mut dyn FnMut(Incoming) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let bytes = read_all_of_stdin()?;
    let memory = MemVfs::new();
    let file = memory.open(Path::new("/standard-input"), OpenFile::create_new(0o600))?;
    file.write_all_at(&bytes, 0)?;
    drop(bytes);
    let spec = MailboxSpec::parse("mbox:/standard-input");
    let options = OpenOptions { read_only: true, ..OpenOptions::new(None, "/state".into()) };
    read_all(&mut Mailbox::open_in(Arc::new(memory), &spec, &options)?, visit)
}

/// Visits every message of a mailbox, in order.
pub(super) fn read_mailbox(
    context: &Context,
    name: &OsStr,
    visit: &mut dyn FnMut(Incoming) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut mailbox = context.open_with(&parse_spec(name), &|options| {
        options.cache_dir = None;
        options.read_only = true;
    })?;
    read_all(&mut mailbox, visit)
}

fn read_all(
    mailbox: &mut Mailbox,
    visit: &mut dyn FnMut(Incoming) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut next = 0;
    while next < mailbox.len() {
        let rows: Vec<u32> = (next..mailbox.len().min(next + INCOMING_ROWS)).collect();
        let mut known: Vec<(Uid, InternalDate, FlagNames)> = Vec::with_capacity(rows.len());
        mailbox.summaries(&rows, &mut |summary| {
            let keywords = summary.keyword_names().filter_map(barid::Keyword::new).collect();
            let flags = summary.flags.without(barid::Flag::Recent);
            known.push((summary.uid, summary.internal_date, FlagNames { flags, keywords }));
            true
        })?;
        let Some((last, ..)) = known.last() else { break };
        let after = last.get().checked_add(1).and_then(Uid::new);
        for (uid, internal_date, names) in known {
            let bytes = read_message(mailbox, uid)?;
            visit(Incoming { bytes, internal_date: Some(internal_date), names, sender: None })?;
        }
        // Reading may detect changes of the mailbox, which move rows; UIDs stay.
        next = after.map_or(Ok(u32::MAX), |uid| mailbox.row_from(uid))?;
    }
    Ok(())
}

fn read_message(mailbox: &mut Mailbox, uid: Uid) -> barid::Result<Vec<u8>> {
    let message = mailbox.read(uid, ReadAs::Message)?;
    Ok(barid::message::strip_owned(&message.bytes).into_owned())
}
