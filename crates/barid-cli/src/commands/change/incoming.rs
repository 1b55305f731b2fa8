//! Messages to append, and where those of a whole mailbox come from.

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use barid::vfs::{OsVfs, Vfs};
use barid::{
    Caps, CreateOptions, FileRest, InternalDate, Mailbox, MailboxSpec, MessageRest, ReadAs,
    TreePlace, Uid, default_format, place_in_tree,
};

use crate::context::Context;
use crate::exit::WithHint;
use crate::limits::INCOMING_ROWS;
use crate::mail::flags::FlagNames;
use crate::mail::standard_input::StandardInput;
use crate::output::number::size;

/// A message to append, with its known metadata.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    /// The message; only the header of one that is appended in pieces.
    pub(super) bytes: Vec<u8>,
    /// The rest of a large message in a file.
    pub(super) rest: Option<FileRest>,
    pub(super) internal_date: Option<InternalDate>,
    pub(super) names: FlagNames,
    /// The sender according to a From_ line.
    pub(super) sender: Option<String>,
}

impl Incoming {
    /// Returns the rest of a large message in a file.
    pub(super) fn rest(&self) -> Option<&dyn MessageRest> {
        self.rest.as_ref().map(|rest| rest as &dyn MessageRest)
    }
}

/// Returns the error that a message is larger than the mailbox can store.
pub(super) fn too_large(name: &str, len_max: Option<u64>) -> anyhow::Error {
    let most = size(len_max.unwrap_or(u64::MAX));
    WithHint::error(
        format!("{name}: too large: this mailbox stores messages of up to {most}"),
        "append it to a Maildir or an MH folder, which store messages of any size",
    )
}

/// Checks that a mailbox can store a large message.
pub(super) fn check_large(
    caps: &Caps,
    name: &str,
    message: &Incoming,
    rest: &dyn MessageRest,
) -> anyhow::Result<()> {
    let len = message.bytes.len() as u64 + rest.size();
    if caps.message_len_max.is_some_and(|most| len > most) {
        return Err(too_large(&format!("{name}: {}", size(len)), caps.message_len_max));
    }
    let has_header = message.rest.as_ref().is_none_or(FileRest::has_header);
    if caps.needs_header && !has_header {
        let start = size(message.bytes.len() as u64);
        return Err(WithHint::error(
            format!(
                "{name}: {}: no blank line in the first {start}, and this mailbox stores no \
                 longer header",
                size(len)
            ),
            "append it to a Maildir or an MH folder, which store it as it is",
        ));
    }
    Ok(())
}

/// Creates an empty mailbox unless the path exists.
pub(crate) fn create_mailbox(context: &Context, name: &OsStr) -> anyhow::Result<()> {
    let spec = context.spec_on_disk(name)?;
    if !is_missing(&spec)? {
        return Ok(());
    }
    let is_folder = || spec.path.as_os_str().as_encoded_bytes().ends_with(b"/");
    let place = match spec.format {
        Some(name) => TreePlace { path: spec.path.clone(), format: name.format() },
        None => place_in_tree(&OsVfs, &spec.path).unwrap_or_else(|| TreePlace {
            path: spec.path.clone(),
            format: default_format(is_folder()),
        }),
    };
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
    let TreePlace { path, format } = place;
    Ok(barid::create(&vfs, &path, format, &CreateOptions::default(), &context.state_dir()?)?)
}

/// Returns `true` if nothing is at the path of a mailbox.
pub(crate) fn is_missing(spec: &MailboxSpec) -> anyhow::Result<bool> {
    match OsVfs.metadata(&spec.path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        result => result.map(|_| false).with_context(|| spec.path.display().to_string()),
    }
}

/// The receiver of the messages of a mailbox.
pub(super) trait Receiver {
    /// Returns the mailbox to which the messages are appended.
    fn target(&self) -> &Mailbox;

    /// Notes that the message of a UID is read next.
    fn is_reading(&mut self, uid: Uid);

    /// Takes the message, with its body if it is too large for memory.
    fn take(&mut self, message: Incoming, rest: Option<&dyn MessageRest>) -> anyhow::Result<()>;
}

/// Passes on every message of an mbox on standard input from a UID on, in order.
pub(super) fn read_mbox_on_stdin(
    context: &Context,
    from: Option<Uid>,
    stop: &AtomicBool,
    receiver: &mut dyn Receiver,
) -> anyhow::Result<()> {
    let input = StandardInput::read(&context.spool_folders(), None)?;
    read_all(&mut input.into_mailbox()?, from, stop, receiver)
}

/// Passes on every message of a mailbox from a UID on, in order.
pub(super) fn read_mailbox(
    context: &Context,
    (name, from): (&OsStr, Option<Uid>),
    stop: &AtomicBool,
    receiver: &mut dyn Receiver,
) -> anyhow::Result<()> {
    let mut mailbox = context.open_with(&context.spec(name)?, &|options| {
        options.cache_dir = None;
        options.read_only = true;
    })?;
    read_all(&mut mailbox, from, stop, receiver)
}

fn read_all(
    mailbox: &mut Mailbox,
    from: Option<Uid>,
    stop: &AtomicBool,
    receiver: &mut dyn Receiver,
) -> anyhow::Result<()> {
    let mut next = from.map_or(Ok(0), |uid| mailbox.row_from(uid))?;
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
            receiver.is_reading(uid);
            let internal_date = Some(internal_date);
            let mut message = Incoming { internal_date, names, ..Incoming::default() };
            if let Some(large) = mailbox.large_message(uid, receiver.target(), Some(stop))? {
                message.bytes.clone_from(&large.header);
                receiver.take(message, Some(large.rest()))?;
                continue;
            }
            let read = mailbox.read(uid, ReadAs::Message)?;
            message.bytes = barid::message::strip_owned(&read.bytes).into_owned();
            receiver.take(message, None)?;
        }
        // Reading may detect changes of the mailbox, which move rows; UIDs stay.
        next = after.map_or(Ok(u32::MAX), |uid| mailbox.row_from(uid))?;
    }
    Ok(())
}
