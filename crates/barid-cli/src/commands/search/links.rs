//! Found messages as a new Maildir of symbolic links.

use std::path::Path;

use barid::vfs::OsVfs;

use crate::commands::index::name_of;
use crate::context::Context;
use crate::exit::{Outcome, WithHint, report};
use crate::mail::link_folder::{self, MessageToLink};
use crate::mail::links::{LinkedMailbox, is_links_dir};
use crate::mail::listing::runs;
use crate::mail::mailboxes::FoundMailboxes;
use crate::mail::ranking::MessagePlace;
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::counted;

/// Creates a folder of links to messages, and reports it.
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
    let mut opened: Vec<_> = searched.parts.iter_mut().map(|part| &mut part.mailbox).collect();
    let state_dir = context.state_dir()?;
    let made = link_folder::make(&OsVfs, (dir, &state_dir), mailboxes, &mut opened, &messages)?;
    let (links, copies) = (made.links, made.copies);
    let outcome = if made.failed.is_empty() { Outcome::Done } else { Outcome::Incomplete };
    for (uid, error) in made.failed {
        report(context, &error.context(format!("UID {uid}")));
    }
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

/// Returns the flags and the dates of messages, in their order.
fn linked(searched: &FoundMailboxes, places: &[MessagePlace]) -> barid::Result<Vec<MessageToLink>> {
    let mut all = Vec::with_capacity(places.len());
    for (part, rows) in runs(places) {
        searched.parts[part].mailbox.summaries(&rows, &mut |summary| {
            let (row, arrived) = (summary.row, summary.internal_date.unix_seconds);
            let (uid, flags) = (summary.uid, summary.flags);
            all.push(MessageToLink { part, row, uid, flags, arrived });
            true
        })?;
    }
    Ok(all)
}
