//! Found messages as a new Maildir of symbolic links.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use barid::vfs::{File, OpenOptions, OsVfs, Vfs};
use barid::{FlagSet, ReadAs, Uid};

use crate::commands::index::name_of;
use crate::context::Context;
use crate::exit::{Outcome, WithHint, report};
use crate::mail::links::{
    LinkedMailbox, LinkedMailboxes, MessageLink, is_links_dir, letters, new_id, write_links,
};
use crate::mail::listing::runs;
use crate::mail::mailboxes::FoundMailboxes;
use crate::mail::ranking::MessagePlace;
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::counted;

/// A message to be linked.
struct MessageToLink {
    place: MessagePlace,
    uid: Uid,
    flags: FlagSet,
    arrived: i64,
}

/// Creates a Maildir with a link, or where the message is not a file of its own a copy, for each
/// message. The mailboxes are only read.
///
/// The links are made durable before the file that names their messages, whose rename is the commit
/// point. After a crash before that, the folder is not one of links: it is to be removed, and made
/// anew.
pub(super) fn create(
    context: &mut Context,
    searched: &mut FoundMailboxes,
    places: &[MessagePlace],
    dir: &Path,
) -> anyhow::Result<Outcome> {
    let mut mailboxes = Vec::new();
    for part in &searched.parts {
        let spec = context.spec_on_disk(&part.name)?;
        if is_links_dir(&spec.path) {
            return Err(WithHint::error(
                format!("{}: a folder of links, and links lead to messages", spec.path.display()),
                "search the mailboxes themselves",
            ));
        }
        let name = name_of(&spec)?;
        let uidvalidity = part.mailbox.status().uidvalidity.get();
        mailboxes.push(LinkedMailbox { name, uidvalidity, links: Vec::new() });
    }
    let messages = linked(searched, places)?;
    prepare(dir)?;
    let (mut outcome, mut copies, mut links) = (Outcome::Done, 0, 0);
    for (number, message) in messages.into_iter().enumerate() {
        let base = format!("{}.L{}.barid", message.arrived.max(0), number + 1);
        let path = dir.join("cur").join(format!("{base}:2,{}", letters(message.flags)));
        match link_or_copy(searched, &message, &path) {
            Ok(true) => links += 1,
            Ok(false) => copies += 1,
            Err(error) => {
                report(context, &error.context(format!("UID {}", message.uid)));
                outcome = Outcome::Incomplete;
                continue;
            }
        }
        let link = MessageLink { base, uid: message.uid, flags: message.flags };
        mailboxes[message.place.0].links.push(link);
    }
    for folder in [&dir.join("cur"), dir] {
        OsVfs.sync_dir(folder).with_context(|| folder.display().to_string())?;
    }
    mailboxes.retain(|mailbox| !mailbox.links.is_empty());
    let id = new_id(&context.state_dir()?)?;
    write_links(dir, &LinkedMailboxes { id, mailboxes })?;
    if context.global.json {
        let mut json = Json::line(context.out.buffer(), "links");
        json.key("path").bytes(dir.as_os_str().as_encoded_bytes());
        json.key("links").number(links);
        json.key("copies").number(copies);
        json.end_line();
    } else {
        let name = visible(dir.as_os_str().as_encoded_bytes());
        let (links, copies) = (counted(links, "link"), counted(copies, "copy"));
        context.out.line(&format!("{name}: {links}, {copies}"))?;
    }
    Ok(outcome)
}

/// Creates the folders of an empty Maildir.
fn prepare(dir: &Path) -> anyhow::Result<()> {
    let at = || dir.display().to_string();
    let mut is_empty = true;
    match OsVfs.open_dir(dir) {
        Ok(open) => open.list(&mut |_, _| is_empty = false).with_context(at)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(anyhow::Error::new(error).context(at())),
    }
    if !is_empty {
        return Err(WithHint::error(
            format!("{}: not empty, and links are put into a folder of their own", dir.display()),
            "name a folder that does not exist; the links of an earlier search can be removed, the \
             messages stay where they are",
        ));
    }
    OsVfs.create_dir_all(dir, 0o700).with_context(at)?;
    for folder in ["cur", "new", "tmp"] {
        OsVfs.create_dir(&dir.join(folder), 0o700).with_context(at)?;
    }
    Ok(())
}

/// Returns the flags and the dates of messages, in their order.
fn linked(searched: &FoundMailboxes, places: &[MessagePlace]) -> barid::Result<Vec<MessageToLink>> {
    let mut all = Vec::with_capacity(places.len());
    for (part, rows) in runs(places) {
        searched.parts[part].mailbox.summaries(&rows, &mut |summary| {
            let (place, arrived) = ((part, summary.row), summary.internal_date.unix_seconds);
            all.push(MessageToLink { place, uid: summary.uid, flags: summary.flags, arrived });
            true
        })?;
    }
    Ok(all)
}

/// Links a message, or copies it. Returns `true` for a link.
fn link_or_copy(
    searched: &mut FoundMailboxes,
    message: &MessageToLink,
    path: &Path,
) -> anyhow::Result<bool> {
    let mailbox = &mut searched.parts[message.place.0].mailbox;
    let at = || path.display().to_string();
    if let Some(file) = mailbox.message_file(message.place.1)? {
        let target: PathBuf = std::path::absolute(&file)?;
        OsVfs.symbolic_link(&target, path).with_context(at)?;
        return Ok(true);
    }
    let file = OsVfs.open(path, OpenOptions::create_new(0o600)).with_context(at)?;
    let (mut len, mut failed, mut is_first) = (0, None, true);
    let read = mailbox.read_pieces(message.uid, ReadAs::Message, &mut |piece| {
        let header = std::mem::take(&mut is_first).then(|| barid::message::strip_owned(piece));
        let piece = header.as_deref().unwrap_or(piece);
        failed = file.write_all_at(piece, len).err();
        len += piece.len() as u64;
        failed.is_none()
    });
    let written = match failed {
        Some(error) => Err(anyhow::Error::new(error).context(at())),
        None => read.map_err(anyhow::Error::new),
    };
    let done = written.and_then(|()| File::sync_all(&*file).with_context(at));
    if done.is_err() {
        // Half a message would be taken for a whole one.
        let _ = OsVfs.remove_file(path);
    }
    done.map(|()| false)
}
