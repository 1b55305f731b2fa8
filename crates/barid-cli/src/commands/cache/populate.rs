//! `barid cache populate`: fills caches and lists no messages.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::{Duration, Instant};

use barid::caches::CacheFigures;
use barid::vfs::OsVfs;
use barid::{CacheOptions, CacheState, ErrorKind, Mailbox, Note, NoteKind, Status, Uid};
use clap::{Args, ValueHint};

use super::figures::{store_and_compression, write_figures};
use crate::commands::status::cache_state_name;
use crate::context::Context;
use crate::exit::{Outcome, WithHint, report, report_unreadable};
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::{counted, duration, size};

const EXAMPLES: &str = "\
Examples:
  barid cache populate ~/Maildir
  barid cache populate --store lmdb --compress zstd+dict ~/mail/*.mbox
  barid cache populate --full ~/Maildir    also compute the sizes that IMAP clients ask for
  barid cache populate --json ~/Maildir | jq .elapsed_ms";

/// Fill the caches of mailboxes, or bring them up to date, without listing messages
///
/// An existing cache is only extended by new messages; run `barid cache clear` first to rebuild it.
/// If a mailbox cannot be opened, or its cache cannot be written or not with the given --store and
/// --compress, that is reported, the other caches are filled, and the exit status is 2.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct PopulateArgs {
    /// The mailboxes: paths, or FORMAT:PATH
    #[arg(required = true, value_name = "MAILBOX", value_hint = ValueHint::AnyPath)]
    mailboxes: Vec<OsString>,
    /// Also compute RFC822.SIZE, for which every message is read completely
    #[arg(long)]
    full: bool,
}

/// A filled cache, and the time that it took.
struct Filled {
    status: Status,
    figures: Option<CacheFigures>,
    elapsed: Duration,
    /// The error, if the cache was not written as requested.
    failure: Option<anyhow::Error>,
    /// Messages without a size, with the reasons.
    unreadable: Vec<(Uid, barid::Error)>,
}

/// Opens the mailboxes one after the other.
pub(super) fn run(context: &mut Context, args: &PopulateArgs) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::Done;
    for mailbox in &args.mailboxes {
        match fill(context, mailbox, args.full) {
            Ok(filled) => {
                if context.global.json {
                    write_json(context.out.buffer(), mailbox, &filled);
                } else {
                    context.out.line(&in_words(mailbox, &filled))?;
                }
                context.out.flush()?;
                if let Some(error) = filled.failure {
                    outcome = Outcome::Incomplete;
                    report(context, &error);
                }
                if report_unreadable(context, filled.unreadable) != Outcome::Done {
                    outcome = Outcome::Incomplete;
                }
            }
            Err(error) if args.mailboxes.len() > 1 => {
                outcome = Outcome::Incomplete;
                report(context, &error);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(outcome)
}

fn fill(context: &Context, mailbox: &OsStr, full: bool) -> anyhow::Result<Filled> {
    let started = Instant::now();
    let spec = context.spec_on_disk(mailbox)?;
    let (opened, figures, unreadable) = context.with_progress(|options| {
        let mut opened = Mailbox::open_in(Arc::new(OsVfs), &spec, options)?;
        let unreadable = match full.then(|| opened.fill_rfc822_sizes()) {
            None => Vec::new(),
            Some(Ok(unreadable)) => unreadable,
            Some(Err(error)) => {
                opened.heal(error)?;
                opened.fill_rfc822_sizes()?
            }
        };
        let figures = match opened.cache_figures() {
            Err(error)
                if error.kind() == ErrorKind::Corrupt
                    || matches!(error, barid::Error::Superseded { .. }) =>
            {
                opened.heal(error)?;
                opened.cache_figures()
            }
            figures => figures,
        };
        Ok((opened, figures, unreadable))
    })?;
    let elapsed = started.elapsed();
    context.print_notes(&opened);
    let (figures, unusable) = match figures {
        Ok(figures) => (figures, None),
        Err(error) => (None, Some(anyhow::Error::from(error))),
    };
    let failure = unusable.or_else(|| failure(context, mailbox, &opened, figures.as_ref()));
    Ok(Filled { status: opened.status(), figures, elapsed, failure, unreadable })
}

/// Returns an error if the cache was not written, or has a different store or compression than
/// requested.
fn failure(
    context: &Context,
    mailbox: &OsStr,
    opened: &Mailbox,
    figures: Option<&CacheFigures>,
) -> Option<anyhow::Error> {
    let name = visible(mailbox.as_encoded_bytes());
    if !opened.is_cached() {
        let of_cache = |note: &&Note| note.kind == NoteKind::Cache;
        let why = opened.notes().iter().rfind(of_cache).filter(|_| context.global.quiet);
        let why = why.map(|note| format!(": {}", note.text)).unwrap_or_default();
        return Some(WithHint::error(
            format!("{name}: no cache was written{why}"),
            "--cache-dir DIR names another folder for caches",
        ));
    }
    let options = figures?.options;
    let wanted = CacheOptions {
        store: context.global.store.unwrap_or(options.store),
        compression: context.global.compress.unwrap_or(options.compression),
    };
    (wanted.effective() != options).then(|| {
        WithHint::error(
            format!("{name}: the cache stays in {}", store_and_compression(&options)),
            "it remains usable; without --quiet the reason is printed before this",
        )
    })
}

/// Formats `Maildir: 100,000 messages in 0.61 s, 34.2 MB in lmdb, zstd+dict, records 5.4:1`.
fn in_words(mailbox: &OsStr, filled: &Filled) -> String {
    let Filled { status, figures, elapsed, .. } = filled;
    let mailbox = visible(mailbox.as_encoded_bytes());
    let messages = counted(status.messages.into(), "message");
    let mut text = format!("{mailbox}: {messages} in {}", duration(*elapsed));
    match status.cache.state {
        CacheState::Fresh => text.push_str(", nothing is new"),
        CacheState::Updated => {
            let read = counted(status.cache.messages_read, "message");
            text.push_str(&format!(", {read} read"));
        }
        CacheState::Populated | CacheState::None => {}
    }
    if let Some(figures) = figures {
        text.push_str(&format!(
            ", {} in {}",
            size(figures.bytes),
            store_and_compression(&figures.options)
        ));
        text.extend(figures.ratio().map(|ratio| format!(", records {ratio:.1}:1")));
    }
    text
}

fn write_json(out: &mut Vec<u8>, mailbox: &OsStr, filled: &Filled) {
    let Filled { status, figures, elapsed, .. } = filled;
    let mut json = Json::line(out, "cache_populated");
    json.key("mailbox").bytes(mailbox.as_encoded_bytes());
    json.key("messages").number(status.messages.into());
    json.key("messages_read").number(status.cache.messages_read);
    json.key("state").str(cache_state_name(status.cache.state));
    if let Some(figures) = figures {
        write_figures(&mut json, figures);
    }
    json.key("elapsed_ms").millis(*elapsed);
    json.end_line();
}
