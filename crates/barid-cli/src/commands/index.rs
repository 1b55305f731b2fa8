//! `barid index`: builds the text index of a mailbox, tells its state, removes it.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use barid::vfs::{Host as _, OsVfs};
use barid::{IndexAmount, IndexReport, IndexStatus, Mailbox, MailboxSpec};
use clap::{Args, Subcommand, ValueHint};

use crate::context::Context;
use crate::exit::{Outcome, WithHint};
use crate::output::json::Json;
use crate::output::number::{counted, duration, grouped, size};
use crate::output::table::{Align, Table};
use crate::signals;

const EXAMPLES: &str = "\
Examples:
  barid index archive.mbox                 make searches for texts fast: read every message once
  barid index --attachments archive.mbox   the texts of PDF and office documents, too
  barid index status archive.mbox          what is indexed, and the size of the index
  barid index remove archive.mbox          free its space

With an index, `barid search` finds any text, words and parts of words alike, without reading the
mail. The first search that reads thousands of messages starts this command in the background, later
ones add new messages, without the texts of attachments. The index is a cache: it can be removed at
any time, and answers are the same without it. With --no-index, a search neither uses nor extends it.";

/// Index the texts of a mailbox, so that searches need not read it
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct IndexArgs {
    #[command(subcommand)]
    command: Option<IndexCommand>,
    #[command(flatten)]
    build: Option<BuildArgs>,
}

/// The mailboxes to index, and how.
#[derive(Clone, Debug, Args)]
struct BuildArgs {
    /// The mailboxes: paths, or FORMAT:PATH
    #[arg(required = true, value_name = "MAILBOX", value_hint = ValueHint::AnyPath)]
    mailboxes: Vec<OsString>,
    /// Also index the texts of attachments, for `attachment:` with --attachments
    #[arg(long)]
    attachments: bool,
    /// Give way to other processes, and print nothing
    #[arg(long, hide = true)]
    background: bool,
}

/// The index commands.
#[derive(Debug, Subcommand)]
enum IndexCommand {
    /// Show what is indexed, and the size of the index
    Status(IndexedMailbox),
    /// Remove the index of a mailbox
    Remove(IndexedMailbox),
}

/// The mailbox of an index.
#[derive(Clone, Debug, Args)]
struct IndexedMailbox {
    /// The mailbox: a path, or FORMAT:PATH
    #[arg(value_hint = ValueHint::AnyPath)]
    mailbox: OsString,
}

/// Builds, shows or removes the index.
pub(crate) fn run(context: &mut Context, args: &IndexArgs) -> anyhow::Result<Outcome> {
    match (&args.command, &args.build) {
        (Some(IndexCommand::Status(of)), _) => status(context, of),
        (Some(IndexCommand::Remove(of)), _) => remove(context, of),
        (None, Some(args)) if args.background => {
            args.prepare(context);
            build_quietly(context, &args.mailboxes);
            Ok(Outcome::Done)
        }
        (None, Some(args)) => {
            args.prepare(context);
            build_all(context, &args.mailboxes)
        }
        (None, None) => Err(WithHint::error("no mailbox", "`barid index --help` has examples")),
    }
}

impl BuildArgs {
    fn prepare(&self, context: &Context) {
        if self.attachments {
            context.read_attachments();
        }
    }
}

fn build_all(context: &mut Context, mailboxes: &[OsString]) -> anyhow::Result<Outcome> {
    let stop: Arc<AtomicBool> = Arc::default();
    signals::answer_signals(&stop, context.global.quiet).context("signals cannot be caught")?;
    mailboxes.iter().try_fold(Outcome::Done, |worst, mailbox| {
        Ok(worst.worse(build(context, mailbox, Arc::clone(&stop))?))
    })
}

fn build(context: &mut Context, mailbox: &OsStr, stop: Arc<AtomicBool>) -> anyhow::Result<Outcome> {
    let started = Instant::now();
    let mut options = context.open_options()?;
    options.stop = Some(Arc::clone(&stop));
    let stopped = Arc::clone(&stop);
    let spec = context.spec_on_disk(mailbox)?;
    let built = context.with_line(Some(stop), |progress| {
        options.progress = progress;
        let open = || Mailbox::open_in(Arc::new(OsVfs), &spec, &options);
        let mailbox = signals::while_idle(open)?;
        let report = index_in_turn(&mailbox, &stopped)?;
        Ok::<_, barid::Error>((report, mailbox))
    });
    let (report, mailbox) = built?;
    context.print_notes(&mailbox);
    if report.is_busy {
        return Err(is_busy());
    }
    let status = mailbox.view().index_status()?.unwrap_or_default();
    print(context, &status, Some((&report, started)));
    if report.unreadable > 0 {
        let messages = counted(report.unreadable.into(), "message");
        context.warn(&format!("{messages} could not be read; searches try them again"));
    }
    if report.attachments_unread > 0 {
        let messages = counted(report.attachments_unread.into(), "message");
        context.warn(&format!(
            "attachments of {messages} could not be read: `barid attachments --text` says why"
        ));
    }
    if report.is_stopped {
        let hint = "run it again: it goes on with the messages that are left";
        return Err(WithHint::error("interrupted before all messages were indexed", hint));
    }
    Ok(if report.unreadable > 0 { Outcome::Incomplete } else { Outcome::Done })
}

/// Builds the index when no other process does: a search may have begun it in the background.
fn index_in_turn(mailbox: &Mailbox, stop: &AtomicBool) -> barid::Result<IndexReport> {
    const PAUSE: Duration = Duration::from_millis(100);
    loop {
        let report = mailbox.view().index_texts(IndexAmount::All)?;
        if !report.is_busy || stop.load(Ordering::Relaxed) {
            return Ok(report);
        }
        OsVfs.sleep(PAUSE);
    }
}

/// Builds an index at a low priority. Whatever prevents it, the next search reads the messages.
fn build_quietly(context: &Context, mailboxes: &[OsString]) {
    const LOWER: i32 = 10;
    let _ = rustix::process::nice(LOWER);
    let Ok(options) = context.open_options() else { return };
    for mailbox in mailboxes {
        let Ok(spec) = context.spec_on_disk(mailbox) else { continue };
        if let Ok(mailbox) = Mailbox::open_in(Arc::new(OsVfs), &spec, &options) {
            let _ = mailbox.view().index_texts(IndexAmount::All);
        }
    }
}

/// Starts a process that builds the indexes of mailboxes, for which nobody waits. It has the
/// mailboxes and options of this one, and so needs no configuration.
pub(crate) fn build_in_background(context: &Context, mailboxes: &[MailboxSpec]) {
    let Ok(program) = std::env::current_exe() else { return };
    let Ok(names) = mailboxes.iter().map(name_of).collect::<io::Result<Vec<_>>>() else { return };
    let mut command = Command::new(program);
    command.args(["index", "--background", "--no-defaults", "--config-file", "/dev/null"]);
    let folders = [("--cache-dir", context.cache_dir()), ("--state-dir", context.state_dir().ok())];
    for (option, folder) in folders {
        let Some(folder) = folder else { return };
        command.arg(option).arg(folder);
    }
    let (store, compress) = (&context.global.store, &context.global.compress);
    command.args(store.iter().map(|store| format!("--store={store}")));
    command.args(compress.iter().map(|method| format!("--compress={method}")));
    if context.global.read_only {
        command.arg("--read-only");
    }
    if context.reads_attachments() {
        command.arg("--attachments");
    }
    command.arg("--").args(names);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Ctrl-C is for this command, which is about to end.
    let started = command.process_group(0).spawn();
    if started.is_ok() && io::stderr().is_terminal() {
        context.note("indexing in the background, for faster searches (--no-index prevents it)");
    }
}

/// Returns the words that name a mailbox in every folder and with every configuration.
pub(crate) fn name_of(spec: &MailboxSpec) -> io::Result<OsString> {
    let path = std::path::absolute(&spec.path)?;
    let mut name = spec.format.map_or_else(OsString::new, |it| format!("{}:", it.name()).into());
    name.push(path);
    Ok(name)
}

fn status(context: &mut Context, of: &IndexedMailbox) -> anyhow::Result<Outcome> {
    // The texts that count are those that searches would read now.
    context.read_attachments();
    let mailbox = context.open_on_disk(&of.mailbox)?;
    let status = mailbox.view().index_status()?.unwrap_or_default();
    print(context, &status, None);
    Ok(Outcome::Done)
}

fn remove(context: &mut Context, of: &IndexedMailbox) -> anyhow::Result<Outcome> {
    let mailbox = context.open_on_disk(&of.mailbox)?;
    let bytes = mailbox.view().remove_index()?.ok_or_else(is_busy)?;
    if context.global.json {
        let mut json = Json::line(context.out.buffer(), "index-removed");
        json.key("bytes").number(bytes);
        json.end_line();
    } else {
        context.out.buffer().extend_from_slice(format!("{} freed\n", size(bytes)).as_bytes());
    }
    Ok(Outcome::Done)
}

fn is_busy() -> anyhow::Error {
    let hint = "wait until the other barid process has indexed this mailbox";
    WithHint::error("another process is building this index", hint)
}

/// Describes which attachments are indexed.
fn describe_attachments(status: &IndexStatus) -> String {
    let IndexStatus { attachments, attachment_texts, attachments_unread, .. } = *status;
    let of = counted(attachments.into(), "message");
    match (attachment_texts, attachments_unread) {
        (0, _) if attachments > 0 => format!("the names in {of}; --attachments adds the texts"),
        (_, 0) => format!("the texts in {} of {of}", grouped(attachment_texts.into())),
        (_, unread) => format!(
            "the texts in {} of {of}, of which {} have one that could not be read",
            grouped(attachment_texts.into()),
            grouped(unread.into())
        ),
    }
}

fn print(context: &mut Context, status: &IndexStatus, built: Option<(&IndexReport, Instant)>) {
    let out = context.out.buffer();
    if context.global.json {
        let mut json = Json::line(out, "index");
        json.key("messages").number(status.messages.into());
        json.key("covered").number(status.covered.into());
        json.key("read_always").number(status.read_always.into());
        json.key("segments").number(status.segments.into());
        json.key("bytes").number(status.bytes);
        json.key("opaque_bytes").number(status.opaque_bytes);
        json.key("attachments").number(status.attachments.into());
        json.key("attachment_texts").number(status.attachment_texts.into());
        json.key("attachments_unread").number(status.attachments_unread.into());
        if let Some((report, started)) = built {
            json.key("added").number(report.added.into());
            json.key("unreadable").number(report.unreadable.into());
            json.key("seconds").real(started.elapsed().as_secs_f64());
        }
        json.end_line();
        return;
    }
    let mut table = Table::new(&[Align::Left, Align::Left]);
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    let messages = counted(status.messages.into(), "message");
    row("indexed", format!("{} of {messages}", grouped(status.covered.into())));
    if status.read_always > 0 {
        row("read all the same", grouped(status.read_always.into()));
    }
    if status.attachments > 0 {
        row("attachments", describe_attachments(status));
    }
    let opaque = size(status.opaque_bytes);
    row("size", format!("{} ({opaque} for fields that only programs read)", size(status.bytes)));
    row("segments", grouped(status.segments.into()));
    if let Some((report, started)) = built {
        let added = counted(report.added.into(), "message");
        row("added", format!("{added} in {}", duration(started.elapsed())));
    }
    table.write(out, "");
}
