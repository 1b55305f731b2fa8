//! The commands that change a mailbox, and their common parts.
//!
//! A mailbox is opened as by any command, during which a signal ends the program. After that a
//! signal only requests the end: the change completes its current step.

pub(crate) mod append;
pub(crate) mod expunge;
pub(crate) mod flag;
pub(crate) mod incoming;
mod keep;
mod links;
pub(crate) mod locks;
mod one_message;
mod report;
pub(crate) mod sync;
pub(crate) mod tag;
pub(crate) mod undo;

use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Context as _;
use barid::{ChangeOptions, Changed, Mailbox};
use clap::Args;

use crate::context::Context;
use crate::exit::{Outcome, WithHint};
use crate::mail::selection::report_missing;
use crate::output::number::counted;
use crate::signals;
use locks::LockArgs;
use report::{Report, Verb, in_ranges};

/// Warns of everything that a change could not do, pending changes included.
pub(crate) fn warn_of(context: &Context, changed: &Changed) {
    changed.warnings.iter().for_each(|warning| context.warn(warning));
    if !changed.pending_gone.is_empty() {
        let count = counted(changed.pending_gone.len() as u64, "message");
        let which = in_ranges(&changed.pending_gone);
        context.warn(&format!(
            "the pending changes of {count} ({which}) are dropped: these messages no longer exist"
        ));
    }
    if changed.unwritable_count > 0 {
        let count = counted(changed.unwritable_count, "message");
        let which = in_ranges(&changed.unwritable);
        context.warn(&format!(
            "the headers of {count} ({which}) cannot be rewritten and stay unchanged"
        ));
    }
    if changed.ambiguous > 0 {
        let left = counted(changed.ambiguous.into(), "pending change");
        context.warn(&format!("{left} may belong to one of several messages, and stay pending"));
    }
}

/// Options of the commands that change a mailbox.
#[derive(Clone, Debug, Args)]
pub(crate) struct ChangeArgs {
    /// Report the bytes to write and move and the number of fsync calls, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    locks: LockArgs,
}

/// A mailbox to change.
struct ChangeCommand {
    verb: Verb,
    /// The mailbox as named on the command line.
    name: OsString,
    mailbox: Mailbox,
    started: Instant,
    dry_run: bool,
    stop: Arc<AtomicBool>,
}

impl ChangeCommand {
    /// Opens a mailbox to change it, or read-only for a dry run.
    fn open(
        context: &Context,
        verb: Verb,
        name: &OsStr,
        args: &ChangeArgs,
    ) -> anyhow::Result<Self> {
        let started = Instant::now();
        let dry_run = args.dry_run;
        if context.global.read_only && !dry_run {
            return Err(WithHint::error(
                format!("`barid {}` changes the mailbox, and --read-only forbids it", verb.name()),
                "leave out --read-only, or add --dry-run to see what would be done",
            ));
        }
        let stop: Arc<AtomicBool> = Arc::default();
        let mailbox = context.open_with(&context.spec_on_disk(name)?, &|options| {
            options.read_only |= dry_run;
            options.stop = Some(Arc::clone(&stop));
            args.locks.apply(options);
        })?;
        if !dry_run {
            let quiet = context.global.quiet;
            signals::answer_signals(&stop, quiet).context("signals cannot be caught")?;
        }
        Ok(Self { verb, name: name.to_owned(), mailbox, started, dry_run, stop })
    }

    /// Returns the default options for changes.
    fn options(&self) -> ChangeOptions {
        ChangeOptions {
            dry_run: self.dry_run,
            stop: Some(Arc::clone(&self.stop)),
            ..ChangeOptions::default()
        }
    }

    /// Makes a change, with progress on a terminal.
    fn change(
        &mut self,
        context: &Context,
        mut options: ChangeOptions,
        work: impl FnOnce(&mut Mailbox, &ChangeOptions) -> barid::Result<Changed>,
    ) -> anyhow::Result<Changed> {
        if !self.dry_run {
            context.has_changed.set(true);
        }
        let known = self.mailbox.notes().to_vec();
        let changed = context.with_line(Some(Arc::clone(&self.stop)), |progress| {
            options.progress = progress;
            work(&mut self.mailbox, &options)
        });
        context.print_new_notes(&self.mailbox, &known);
        match changed {
            Err(barid::Error::Mailbox(barid::FormatError::Locked { path, holder, .. }))
                if self.is_stopped() =>
            {
                Err(WithHint::error(
                    format!("{}: interrupted while waiting for {holder}", path.display()),
                    "nothing was changed: run it again when the mailbox is free",
                ))
            }
            Err(barid::Error::State(barid::StateError::Locked { path, .. }))
                if self.is_stopped() =>
            {
                Err(WithHint::error(
                    format!("{}: interrupted while waiting for this lock", path.display()),
                    "nothing was changed: run it again when the mailbox is free",
                ))
            }
            changed => Ok(changed?),
        }
    }

    /// Returns `true` if a signal requested the end.
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Prints the report, and warnings about everything that failed.
    fn finish(&self, context: &mut Context, report: &Report) -> anyhow::Result<Outcome> {
        report.print(context, self)?;
        context.out.flush()?;
        let changed = &report.changed;
        warn_of(context, changed);
        let missing = report.missing.iter().chain(&changed.gone);
        let mut outcome = report_missing(context, &self.name, missing);
        // Only `sync` is meant to write pending changes: for every other command that is an extra,
        // and a delivery that failed because of it would be repeated.
        if self.verb == Verb::Sync && !changed.pending_gone.is_empty() {
            outcome = Outcome::NothingMatched;
        }
        let is_left = self.verb == Verb::Sync && changed.ambiguous > 0;
        // A failed append would be repeated, although its messages are in the mailbox.
        let is_unsettled = !changed.unsettled.is_empty() && self.verb != Verb::Append;
        if changed.unwritable_asked > 0 || is_left || is_unsettled {
            outcome = Outcome::Incomplete;
        }
        Ok(outcome)
    }
}
