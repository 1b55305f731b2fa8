//! `barid watch`: prints a line for every change of a mailbox, as it happens.

mod hook;
mod watched;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use barid::{Mailbox, MailboxChange, Summary, Uid, WatchOptions};
use clap::{Args, ValueHint};

use crate::commands::change::locks::parse_time;
use crate::context::Context;
use crate::exit::{Outcome, report};
use crate::limits::WATCH_ROWS;
use crate::mail::json::{write_addresses, write_dates, write_flags, write_subject};
use crate::mail::line::MessageLine;
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::table::width;
use crate::signals;
use hook::Hook;
use watched::WatchedMailboxes;

const EXAMPLES: &str = "\
Examples:
  barid watch ~/Maildir
  barid watch --json ~/Maildir archive.mbox | jq -r 'select(.event == \"new\") | .subject'
  barid watch --exec 'notify-send \"$BARID_FROM\" \"$BARID_SUBJECT\"' ~/Maildir
  barid watch --tree ~/mail                      every mailbox in a folder and below, new ones too
  barid watch --once --timeout 5m ~/Maildir      wait for the next change

The command of --exec runs once for each change, one after the other, with `sh -c`. Its environment
describes the change: BARID_EVENT (new, flags, expunged, renumbered), BARID_MAILBOX (the path),
BARID_UIDVALIDITY, BARID_UID, and for a message that exists BARID_FLAGS, BARID_KEYWORDS, BARID_FROM
and BARID_SUBJECT.

Exit status: 0 after Ctrl-C or SIGTERM, 1 if nothing changed before --timeout.";

/// Report changes in mailboxes as they happen
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct WatchArgs {
    /// The mailboxes: paths, or FORMAT:PATH
    #[arg(required_unless_present = "trees", value_name = "MAILBOX")]
    #[arg(value_hint = ValueHint::AnyPath)]
    mailboxes: Vec<OsString>,
    /// Watch the mailboxes in DIR and below, as `barid folders` lists them; may be repeated
    ///
    /// A mailbox that is made later is found within seconds; its messages are reported as new.
    #[arg(long = "tree", value_name = "DIR", value_hint = ValueHint::DirPath)]
    trees: Vec<PathBuf>,
    /// Add new messages to the text index of their mailbox, some hundred at a time
    #[arg(long)]
    index: bool,
    /// Run COMMAND for each change
    #[arg(long, value_name = "COMMAND")]
    exec: Option<OsString>,
    /// End after the first change, or the first group of changes
    #[arg(long)]
    once: bool,
    /// End after TIME (as in 500ms, 30s, 2m)
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    timeout: Option<Duration>,
    /// Check the mailboxes at intervals, even if the system reports changes
    ///
    /// This is the default for mailboxes on file systems that other machines may write to.
    #[arg(long)]
    poll: bool,
    /// Time between checks, if needed
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "1s")]
    interval: Duration,
}

/// Prints changes until a signal requests the end.
pub(crate) fn run(context: &mut Context, args: &WatchArgs) -> anyhow::Result<Outcome> {
    let started = Instant::now();
    let stop: Arc<AtomicBool> = Arc::default();
    let stopped = || stop.load(Ordering::Relaxed);
    let options = WatchOptions {
        poll: args.poll,
        interval: args.interval,
        source: None,
        stop: Some(Arc::clone(&stop)),
    };
    let mut watched = WatchedMailboxes::new(options, Arc::clone(&stop));
    for name in &args.mailboxes {
        watched.add(context, name, &context.spec_on_disk(name)?)?;
    }
    for dir in &args.trees {
        watched.add_tree(context, dir)?;
    }
    signals::set_on_signal(&stop).context("signals cannot be caught")?;
    let mut teller = ChangePrinter::new(context, args, &stopped);
    teller.begin(&watched)?;
    let mut outcome = Outcome::NothingMatched;
    while !stopped() {
        let left = args.timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
        let mut found = watched.next(left);
        found.extend(watched.look_for_more(teller.context));
        for (number, changes) in found {
            match changes {
                Ok(changes) => {
                    outcome = Outcome::Done;
                    teller.print_changes(&mut watched, number, &changes)?;
                    if args.index {
                        watched.index(teller.context, number, &changes);
                    }
                }
                Err(error) => report(teller.context, &error.into()),
            }
        }
        let is_over = left.is_some_and(|left| left.is_zero());
        if is_over || args.once && outcome == Outcome::Done {
            return Ok(outcome);
        }
    }
    Ok(Outcome::Done)
}

/// Prints changes and runs the command for them.
struct ChangePrinter<'a> {
    context: &'a mut Context,
    args: &'a WatchArgs,
    hook: Option<Hook<'a>>,
    stopped: &'a dyn Fn() -> bool,
}

impl<'a> ChangePrinter<'a> {
    fn new(context: &'a mut Context, args: &'a WatchArgs, stopped: &'a dyn Fn() -> bool) -> Self {
        let hook = args.exec.as_deref().map(Hook::new);
        Self { context, args, hook, stopped }
    }

    /// Prints a line with `--json` that the watch has started.
    fn begin(&mut self, watched: &WatchedMailboxes) -> anyhow::Result<()> {
        if self.context.global.json {
            for (number, name) in watched.names().iter().enumerate() {
                let status = watched.mailbox(number).status();
                let mut json = Json::line(self.context.out.buffer(), "watch");
                json.key("mailbox").bytes(name.as_encoded_bytes());
                json.key("event").str("watching");
                json.key("uidvalidity").number(status.uidvalidity.get().into());
                json.key("messages").number(status.messages.into());
                json.end_line();
            }
        }
        Ok(self.context.out.flush()?)
    }

    /// Prints the changes of one mailbox, in batches. Rebuilds a cache that turns out to be
    /// damaged.
    fn print_changes(
        &mut self,
        watched: &mut WatchedMailboxes,
        number: usize,
        changes: &[MailboxChange],
    ) -> anyhow::Result<()> {
        for changes in changes.chunks(WATCH_ROWS) {
            if let Err(error) = self.print_batch(watched, number, changes) {
                watched.heal(number, error)?;
                self.context.out.buffer().clear();
                self.hook.iter_mut().for_each(Hook::clear);
                self.print_batch(watched, number, changes)?;
            }
            self.context.out.flush()?;
            self.run_hooks()?;
        }
        Ok(())
    }

    fn print_batch(
        &mut self,
        watched: &WatchedMailboxes,
        number: usize,
        changes: &[MailboxChange],
    ) -> barid::Result<()> {
        let mailbox = watched.mailbox(number);
        let of = (&*watched.names()[number], self.prefix_of(watched, number));
        let mut rows = Vec::new();
        for change in changes {
            match change {
                MailboxChange::Renumbered(_) => self.print_event(&of, mailbox, "renumbered", None),
                MailboxChange::Expunged(uid) => {
                    self.print_event(&of, mailbox, "expunged", Some(*uid));
                }
                MailboxChange::Flags(uid) => rows.extend(mailbox.row_of(*uid)?.zip(Some("flags"))),
                MailboxChange::ModSeq(_) => {}
                MailboxChange::New(uid) => rows.extend(mailbox.row_of(*uid)?.zip(Some("new"))),
            }
        }
        self.print_rows(&of, mailbox, &rows)
    }

    fn run_hooks(&mut self) -> anyhow::Result<()> {
        let Some(hook) = &mut self.hook else { return Ok(()) };
        for failed in hook.run(self.stopped)? {
            self.context.warn(&failed);
        }
        Ok(())
    }

    /// Prints a change without a message, or of a message that is gone.
    fn print_event(
        &mut self,
        (name, prefix): &(&OsStr, String),
        mailbox: &Mailbox,
        event: &str,
        uid: Option<Uid>,
    ) {
        let uidvalidity = mailbox.status().uidvalidity;
        if let Some(hook) = &mut self.hook {
            hook.push(event, name, uidvalidity, uid);
        }
        let prefix = with_event(prefix, event);
        let out = self.context.out.buffer();
        if self.context.global.json {
            let mut json = json_line(out, name, event);
            match uid {
                Some(uid) => json.key("uid").number(uid.get().into()),
                None => {
                    json.key("uidvalidity").number(uidvalidity.get().into());
                    json.key("messages").number(mailbox.len().into());
                }
            }
            json.end_line();
            return;
        }
        let text = uid.map_or_else(|| format!("UIDVALIDITY {uidvalidity}"), |uid| uid.to_string());
        out.extend_from_slice(format!("{prefix}{text}\n").as_bytes());
    }

    fn print_rows(
        &mut self,
        (name, prefix): &(&OsStr, String),
        mailbox: &Mailbox,
        rows: &[(u32, &'static str)],
    ) -> barid::Result<()> {
        let uidvalidity = mailbox.status().uidvalidity;
        let prefixes = ["flags", "new"].map(|event| (event, with_event(prefix, event)));
        let Context { width: cells, style, global, out, .. } = &mut *self.context;
        let cells = cells.map(|cells| cells.saturating_sub(width(&prefixes[0].1)));
        let mut line = MessageLine::new(cells, *style, mailbox.status().uidnext);
        let mut events = rows.iter().map(|(_, event)| *event);
        let rows: Vec<u32> = rows.iter().map(|(row, _)| *row).collect();
        let out = out.buffer();
        mailbox.summaries(&rows, &mut |summary| {
            let event = events.next().unwrap_or_default();
            if let Some(hook) = &mut self.hook {
                hook.push_message(event, name, uidvalidity, summary);
            }
            if global.json {
                write_json(out, name, event, summary);
            } else {
                let prefix = prefixes.iter().find(|(of, _)| *of == event);
                out.extend_from_slice(prefix.map_or("", |(_, prefix)| prefix).as_bytes());
                line.write(out, summary);
            }
            true
        })
    }

    /// Returns the start of a line: the mailbox if there are several.
    fn prefix_of(&self, watched: &WatchedMailboxes, number: usize) -> String {
        match watched.names().len() {
            1 if self.args.trees.is_empty() => String::new(),
            _ => format!("{}  ", visible(watched.names()[number].as_encoded_bytes())),
        }
    }
}

fn with_event(prefix: &str, event: &str) -> String {
    format!("{prefix}{event:<10}  ")
}

fn json_line<'a>(out: &'a mut Vec<u8>, name: &OsStr, event: &str) -> Json<'a> {
    let mut json = Json::line(out, "watch");
    json.key("mailbox").bytes(name.as_encoded_bytes());
    json.key("event").str(event);
    json
}

/// Appends the line of an existing message (`docs/json.md`, type `watch`).
fn write_json(out: &mut Vec<u8>, name: &OsStr, event: &str, summary: &Summary<'_>) {
    let mut json = json_line(out, name, event);
    json.key("uid").number(summary.uid.get().into());
    write_dates(&mut json, summary);
    write_addresses(json.key("from"), summary.fields.from);
    write_subject(&mut json, summary.fields.subject);
    write_flags(&mut json, summary);
    json.end_line();
}
