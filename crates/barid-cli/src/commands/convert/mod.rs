//! `barid convert`: converts a mailbox to another format.

pub(crate) mod copy;
pub(crate) mod moving;
mod report;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Context as _;
use barid::convert::{ConvertOptions, ConvertReport, Dedupe, plan_tree};
use barid::vfs::{FileType, OsVfs, Vfs};
use barid::{Folder, FormatName, MailboxSpec, TreePlace, default_format, place_in_tree};
use clap::{Args, ValueEnum, ValueHint};

use crate::commands::change::locks::LockArgs;
use crate::context::Context;
use crate::exit::{Outcome, WithHint, report as report_error};
use crate::signals;
use report::{CopyPrinter, Pair, Proofs};

const EXAMPLES: &str = "\
Examples:
  barid convert ~/Maildir mix:archive
  barid convert old.mbox maildir:new --proof proof.jsonl
  barid convert inbox mbx:/mail/inbox --dedupe message-id
  barid convert ~/Mail maildir:new --proof proof.jsonl      a folder of mailboxes

Keeps texts, internal dates, flags, keywords, UIDs and UIDVALIDITY; lists what the new format cannot
store. A folder of mailboxes is converted as a tree: mailboxes below a mailbox NAME that is a file
are written to the folder NAME.sbd. If the command is interrupted, run it again: it compares the
messages already copied, and continues.

Exit status: 2 if a message could not be converted, or differs in the proof.";

/// Convert a mailbox to another format
///
/// The source stays unchanged. The new mailbox must not exist, or be empty.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ConvertArgs {
    /// The mailbox to convert: a path, or FORMAT:PATH
    #[arg(value_name = "SRC", value_hint = ValueHint::AnyPath)]
    source: OsString,
    /// The new mailbox: FORMAT:PATH, or a path in the format of the tree around it, else a Maildir
    /// if its name ends with `/`, else an mbox
    #[arg(value_name = "DST", value_hint = ValueHint::AnyPath)]
    target: OsString,
    /// Convert SRC alone, and not the mailboxes below it
    #[arg(long)]
    one: bool,
    #[command(flatten)]
    how: HowArgs,
}

/// Options of commands that copy messages.
#[derive(Clone, Debug, Args)]
pub(crate) struct HowArgs {
    /// Read every message back, compare it, and write a line of JSON for each to FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    proof: Option<PathBuf>,
    /// Leave out duplicates of earlier messages, or of messages already in DST, and list them
    #[arg(long, value_name = "BY")]
    dedupe: Option<By>,
    #[command(flatten)]
    locks: LockArgs,
}

/// The criterion by which messages are duplicates.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum By {
    /// The same Message-ID, or without one the same text
    MessageId,
    /// The same text except for line ends
    Content,
}

/// A running command that copies messages.
struct CopyCommand {
    started: Instant,
    stop: Arc<AtomicBool>,
    how: HowArgs,
}

impl CopyCommand {
    /// Checks that writing is allowed, and starts a session, in which signals request the end.
    fn start(context: &Context, verb: &str, how: &HowArgs) -> anyhow::Result<Self> {
        if context.global.read_only {
            return Err(WithHint::error(
                format!("`barid {verb}` writes a mailbox, and --read-only forbids it"),
                "leave out --read-only",
            ));
        }
        let stop: Arc<AtomicBool> = Arc::default();
        let quiet = context.global.quiet;
        signals::answer_signals(&stop, quiet).context("signals cannot be caught")?;
        Ok(Self { started: Instant::now(), stop, how: how.clone() })
    }

    fn options(&self) -> ConvertOptions {
        ConvertOptions {
            dedupe: self.how.dedupe.map(|by| match by {
                By::MessageId => Dedupe::MessageId,
                By::Content => Dedupe::Content,
            }),
            proof: self.how.proof.is_some(),
            stop: Some(Arc::clone(&self.stop)),
            ..ConvertOptions::default()
        }
    }

    /// Returns `true` if a signal requested the end.
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn proofs(&self) -> anyhow::Result<Option<Proofs>> {
        self.how.proof.as_deref().map(Proofs::create).transpose()
    }
}

/// Converts a mailbox, or all mailboxes of a tree.
pub(crate) fn run(context: &mut Context, args: &ConvertArgs) -> anyhow::Result<Outcome> {
    let session = CopyCommand::start(context, "convert", &args.how)?;
    let source = context.spec_on_disk(&args.source)?;
    let is_tree = !args.one && source.format.is_none() && is_dir(&source.path);
    let folders = if is_tree { barid::folders(&OsVfs, &source.path)? } else { Vec::new() };
    let mut proofs = session.proofs()?;
    // The note is kept until the proof is durable, so that a repeated command continues there and
    // proves all messages.
    let keeps_note = proofs.is_some();
    let mut done = Vec::new();
    let has_more = folders.iter().any(|folder| folder.depth > 0 && folder.format.is_some());
    let outcome = match has_more {
        true => convert_tree(context, &session, (&args.target, &folders), &mut proofs, &mut done)?,
        false => {
            let specs = (source, target_spec(context, &args.target)?);
            let pair = Pair::new(&args.source, &args.target);
            let converted =
                convert_one(context, &session, (&pair, &specs), keeps_note, &mut proofs)?;
            if keeps_note && converted.has_all() {
                done.push(specs.1.path);
            }
            report::report(context, "convert", &pair, &converted, session.started)?
        }
    };
    if let Some(proofs) = proofs {
        proofs.finish("give the command again: it copies nothing twice, and proves all anew")?;
    }
    for path in done {
        barid::convert::forget(&OsVfs, &path, &context.state_dir()?)?;
    }
    Ok(outcome)
}

fn is_dir(path: &Path) -> bool {
    OsVfs.metadata(path).is_ok_and(|metadata| metadata.file_type == FileType::Dir)
}

/// Converts all mailboxes of a tree. An error of one is reported, and the others are converted.
fn convert_tree(
    context: &mut Context,
    session: &CopyCommand,
    (target, folders): (&OsString, &[Folder]),
    proofs: &mut Option<Proofs>,
    done: &mut Vec<PathBuf>,
) -> anyhow::Result<Outcome> {
    let top = target_spec(context, target)?;
    let format = top.format.map_or_else(|| default_format(true), FormatName::format);
    let plan = plan_tree(folders, &top.path, format);
    let mut outcome = Outcome::Done;
    for (at, path) in &plan {
        let source = MailboxSpec { format: None, path: folders[*at].path.clone() };
        let specs = (source, MailboxSpec { format: top.format, path: path.clone() });
        let pair = Pair::new(specs.0.path.as_os_str(), path.as_os_str());
        let started = Instant::now();
        let one = match convert_one(context, session, (&pair, &specs), true, proofs) {
            Ok(converted) => report::report(context, "convert", &pair, &converted, started)?,
            Err(error) if session.is_stopped() => return Err(error),
            Err(error) => {
                report_error(context, &error);
                Outcome::Incomplete
            }
        };
        if one != Outcome::Done {
            outcome = one;
        }
    }
    if outcome == Outcome::Done {
        done.extend(plan.into_iter().map(|(_, path)| path));
    }
    Ok(outcome)
}

/// Returns the mailbox to convert to: without a format, one of the kind of the tree that it is in,
/// else a Maildir or an mbox by its name.
fn target_spec(context: &Context, target: &OsString) -> anyhow::Result<MailboxSpec> {
    let spec = context.spec_on_disk(target)?;
    if spec.format.is_some() || OsVfs.metadata(&spec.path).is_ok() {
        return Ok(spec);
    }
    let named = |name: &str| MailboxSpec::parse(&format!("{name}:")).format;
    if let Some(TreePlace { path, format }) = place_in_tree(&OsVfs, &spec.path) {
        return Ok(MailboxSpec { format: named(format.name()), path });
    }
    let is_maildir = spec.path.as_os_str().as_encoded_bytes().ends_with(b"/");
    Ok(MailboxSpec { format: named(if is_maildir { "maildir" } else { "mbox" }), ..spec })
}

fn convert_one(
    context: &mut Context,
    session: &CopyCommand,
    (pair, (source, target)): (&Pair, &(MailboxSpec, MailboxSpec)),
    keeps_note: bool,
    proofs: &mut Option<Proofs>,
) -> anyhow::Result<ConvertReport> {
    let mut open = context.open_options()?;
    open.stop = Some(Arc::clone(&session.stop));
    session.how.locks.apply(&mut open);
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
    let specs = (source, target);
    context.has_changed.set(true);
    let mut printer = CopyPrinter::new(context, pair, proofs)?;
    // No change is in progress while the source is opened.
    signals::set_idle(true);
    let converted = context.with_line(Some(Arc::clone(&session.stop)), |progress| {
        open.progress.clone_from(&progress);
        let options = ConvertOptions { progress, keeps_note, ..session.options() };
        barid::convert::convert(&vfs, specs, &open, &options, &mut |event| {
            printer.print_event(&event)
        })
    });
    let (told, asides) = printer.finish();
    context.out.block(&told)?;
    for path in asides {
        context.warn(&format!(
            "the conversion was started again; its earlier part is now {} and can be removed",
            path.display()
        ));
    }
    let converted = converted?;
    if let Some(proofs) = proofs {
        proofs.proven(&converted);
    }
    Ok(converted)
}
