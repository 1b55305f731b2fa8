//! `barid sync DIR`: flags of links and of the messages behind them, brought together.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use barid::vfs::OsVfs;
use barid::{ChangeOptions, WriteWhen};

use super::sync::SyncArgs;
use super::warn_of;
use crate::context::Context;
use crate::exit::{Outcome, WithHint, report};
use crate::mail::link_folder::{LinkFolder, SyncedLinks};
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::counted;
use crate::signals;

/// Brings the flags of links and of their messages together, mailbox by mailbox.
pub(super) fn bring_together(
    context: &mut Context,
    args: &SyncArgs,
    dir: &Path,
) -> anyhow::Result<Outcome> {
    if args.list || args.discard_pending || args.take_over || args.change.dry_run {
        return Err(WithHint::error(
            format!("{}: a folder of links has no pending changes of its own", dir.display()),
            "`barid sync DIR` without these options brings the flags of links and messages together",
        ));
    }
    if context.global.read_only {
        return Err(WithHint::error(
            "`barid sync` changes the messages behind the links, and --read-only forbids it",
            "leave out --read-only",
        ));
    }
    let state_dir = context.state_dir()?;
    let mut folder = LinkFolder::open(&OsVfs, dir, &state_dir)?;
    for name in &folder.twice {
        let name = visible(name.as_bytes());
        context.warn(&format!("{name}: there twice with different flags, and left as it is"));
    }
    let stop: Arc<AtomicBool> = Arc::default();
    signals::answer_signals(&stop, context.global.quiet).context("signals cannot be caught")?;
    let mut outcome = Outcome::Done;
    for at in 0..folder.links.mailboxes.len() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        match of_mailbox(context, args, &mut folder, at, &stop) {
            Ok(done) => outcome = outcome.worse(done),
            Err(error) => {
                report(context, &error);
                outcome = Outcome::Incomplete;
            }
        }
    }
    match stop.load(Ordering::Relaxed) {
        true => Err(WithHint::error("interrupted", "run it again for the rest")),
        false => Ok(outcome),
    }
}

fn of_mailbox(
    context: &mut Context,
    args: &SyncArgs,
    folder: &mut LinkFolder<'_>,
    at: usize,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Outcome> {
    let linked = &folder.links.mailboxes[at];
    let (name, uidvalidity) = (linked.name.clone(), linked.uidvalidity);
    let spec = context.spec_on_disk(&name)?;
    let mut mailbox = context.open_with(&spec, &|options| {
        options.stop = Some(Arc::clone(stop));
        args.change.locks.apply(options);
    })?;
    let shown = name.display();
    if mailbox.status().uidvalidity.get() != uidvalidity {
        return Err(WithHint::error(
            format!("{shown}: its messages have other UIDs than when they were linked"),
            "nothing of it was changed; make the links anew with `barid search --output links`",
        ));
    }
    let options = ChangeOptions {
        write: WriteWhen::Pending,
        stop: Some(Arc::clone(stop)),
        ..ChangeOptions::default()
    };
    let synced = folder.sync_mailbox(at, &mut mailbox, &options)?;
    if synced.changed.is_some() || synced.followed > 0 {
        context.has_changed.set(true);
    }
    if synced.gone > 0 {
        let gone = counted(synced.gone, "linked message");
        context.warn(&format!("{shown}: {gone} no longer there"));
    }
    if let Some(changed) = &synced.changed {
        warn_of(context, changed);
    }
    write_line(context, name.as_encoded_bytes(), &synced)?;
    Ok(if synced.left > 0 { Outcome::Incomplete } else { Outcome::Done })
}

/// Prints how many messages of a mailbox, and how many links, have got other flags.
fn write_line(context: &mut Context, name: &[u8], synced: &SyncedLinks) -> anyhow::Result<()> {
    if context.global.json {
        let mut json = Json::line(context.out.buffer(), "links-synced");
        json.key("mailbox").bytes(name);
        json.key("flagged").number(synced.flagged);
        json.key("followed").number(synced.followed);
        json.end_line();
    } else {
        let (name, messages) = (visible(name), counted(synced.flagged, "message"));
        let links = counted(synced.followed, "link");
        context.out.line(&format!("{name}: flagged {messages}, {links}"))?;
    }
    Ok(context.out.settle()?)
}
