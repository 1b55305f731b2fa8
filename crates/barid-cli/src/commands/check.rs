//! `barid check`: what is wrong with a mailbox, mending it, and undoing that.

mod kept;

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context as _;
use barid::MailboxSpec;
use barid::check::{self, CheckReport, Damage, RepairReport, Severity};
use barid::vfs::{OsVfs, Vfs};
use clap::{Args, ValueHint};

use crate::commands::change::locks::parse_time;
use crate::context::Context;
use crate::exit::{NotThere, Outcome};
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::{counted, size};
use crate::signals;

const EXAMPLES: &str = "\
Examples:
  barid check ~/Maildir
  barid check archive.mbx --repair --dry-run   what a repair would do
  barid check archive.mbx --repair
  barid check archive.mbx --undo               restore the bytes from before the repair
  barid check archive.mbx --list-kept          the repairs that can be undone
  barid check archive.mbx --discard            forget the bytes from before the repair
  barid check mbx:archive.mbx                  an mbx whose first bytes are damaged

Exit status: 2 if damage remains, 1 if no repair is kept.";

/// Check a mailbox for damage, and repair it
///
/// Checks every file that stores the places, flags and UIDs of messages, and as much of the
/// messages as that needs. --repair brings back every message that is still whole; before it
/// overwrites or removes bytes it saves them in the state folder, and --undo restores them byte for
/// byte. --verbose also reports harmless oddities. If the format is named, the mailbox is checked
/// as that format even if it begins like another.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct CheckArgs {
    /// The mailbox: a path, or FORMAT:PATH
    #[arg(value_hint = ValueHint::AnyPath)]
    mailbox: OsString,
    /// Repair the damage, as far as possible
    #[arg(long, group = "what")]
    repair: bool,
    /// Write nothing: report what would be done
    #[arg(long, conflicts_with_all = ["undo", "list_kept", "discard"])]
    dry_run: bool,
    /// Undo the last repair, unless the mailbox has changed since
    #[arg(long, group = "what")]
    undo: bool,
    /// List the repairs that can be undone, the last first
    #[arg(long, group = "what")]
    list_kept: bool,
    /// Delete the bytes saved by all repairs, which then cannot be undone
    #[arg(long, group = "what")]
    discard: bool,
    /// Wait no longer than TIME for another program's lock (as in 500ms, 30s, 2m)
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "30s")]
    lock_timeout: Duration,
}

/// Looks, mends, or undoes.
pub(crate) fn run(context: &mut Context, args: &CheckArgs) -> anyhow::Result<Outcome> {
    let spec = context.spec_on_disk(&args.mailbox)?;
    let mut options = context.open_options()?;
    options.lock_timeout = args.lock_timeout;
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
    if args.list_kept {
        return kept::list(context, &args.mailbox, &check::kept_repairs(&vfs, &spec, &options)?);
    }
    if args.discard {
        let count = check::discard_repairs(&vfs, &spec, &options)?;
        return kept::discarded(context, &args.mailbox, count);
    }
    if args.undo {
        context.has_changed.set(true);
        return undo(context, args, &vfs, &spec, &options);
    }
    if args.repair && !args.dry_run {
        context.has_changed.set(true);
        let stop: Arc<AtomicBool> = Arc::default();
        let quiet = context.global.quiet;
        signals::answer_signals(&stop, quiet).context("signals cannot be caught")?;
        options.stop = Some(Arc::clone(&stop));
        let done = context.with_line(Some(stop), |progress| {
            options.progress = progress;
            check::repair(&vfs, &spec, &options)
        })?;
        return print_report(context, args, &done.found, Some(&done));
    }
    let found = check::check(&vfs, &spec, &options)?;
    print_report(context, args, &found, None)
}

fn undo(
    context: &mut Context,
    args: &CheckArgs,
    vfs: &Arc<dyn Vfs>,
    spec: &MailboxSpec,
    options: &barid::OpenOptions,
) -> anyhow::Result<Outcome> {
    let name = args.mailbox.as_encoded_bytes();
    let Some(undone) = check::undo_repair(vfs, spec, options)? else {
        let text = format!("{}: no repair to undo", visible(name));
        return Err(NotThere::error(text, "each repair can be undone once, the last one first"));
    };
    if context.global.json {
        let mut json = Json::line(context.out.buffer(), "repair_undone");
        json.key("mailbox").bytes(name);
        json.key("files").number(undone.files);
        json.key("kept").bytes(undone.kept.as_os_str().as_encoded_bytes());
        json.end_line();
    } else {
        let files = counted(undone.files, "file");
        let text = format!("{}: restored {files} to the state before the repair", visible(name));
        context.out.line(&text)?;
    }
    Ok(Outcome::Done)
}

/// Prints what is wrong, and what was done about it.
fn print_report(
    context: &mut Context,
    args: &CheckArgs,
    found: &CheckReport,
    done: Option<&RepairReport>,
) -> anyhow::Result<Outcome> {
    let name = args.mailbox.as_encoded_bytes();
    let is_json = context.global.json;
    for damage in &found.damages {
        let is_shown =
            damage.severity > Severity::Note || damage.repair.is_some() || context.global.verbose;
        match is_json {
            true => write_json(context.out.buffer(), name, damage),
            false if is_shown => context.out.line(&line(damage, args.repair))?,
            false => {}
        }
    }
    let is_bad = |damage: &&Damage| damage.severity > Severity::Note;
    let bad = found.damages.iter().filter(is_bad).count() as u64 + found.more;
    let left = found.damages.iter().filter(is_bad).filter(|damage| damage.repair.is_none());
    let left = if done.is_some() { left.count() as u64 } else { bad };
    if is_json {
        write_summary(context.out.buffer(), name, found, done, left);
    } else {
        for text in summary(name, found, done, bad) {
            context.out.line(&text)?;
        }
    }
    Ok(if left > 0 { Outcome::Incomplete } else { Outcome::Done })
}

fn line(damage: &Damage, shows_repair: bool) -> String {
    let mut text = format!(
        "{}: {}",
        damage.severity.name(),
        visible(damage.file.as_os_str().as_encoded_bytes())
    );
    if let Some(offset) = damage.offset {
        text.push_str(&format!(", byte {offset}"));
    }
    if let Some(uid) = damage.uid {
        text.push_str(&format!(", UID {uid}"));
    }
    text.push_str(&format!(": {}", visible(damage.what.as_bytes())));
    match damage.repair {
        Some(repair) if shows_repair => text.push_str(&format!(" (repair: {repair})")),
        None if shows_repair => text.push_str(" (cannot be repaired)"),
        _ => {}
    }
    text
}

fn summary(name: &[u8], found: &CheckReport, done: Option<&RepairReport>, bad: u64) -> Vec<String> {
    let name = visible(name);
    let messages = counted(found.messages, "message");
    let more = match found.more {
        0 => String::new(),
        more => format!(", {more} of them not listed"),
    };
    let mut lines = vec![match bad {
        0 => format!("{name}: {messages}, no damage"),
        _ => format!("{name}: {messages}, {} wrong{more}", counted(bad, "thing")),
    }];
    match done {
        Some(RepairReport { kept: Some(kept), bytes_kept, .. }) => lines.push(format!(
            "repaired; {} that were overwritten or removed are saved in {}",
            size(*bytes_kept),
            visible(kept.as_os_str().as_encoded_bytes())
        )),
        Some(_) => lines.push("nothing was repaired".to_owned()),
        None if found.is_too_large => {
            lines.push(
                "a repair would have to write more than 200 MB at once, or save more than it can"
                    .to_owned(),
            );
        }
        None if found.is_repairable => lines.push(
            "`barid check --repair` repairs what it can, and `--undo` undoes that".to_owned(),
        ),
        None => {}
    }
    lines
}

fn write_json(out: &mut Vec<u8>, name: &[u8], damage: &Damage) {
    let mut json = Json::line(out, "damage");
    json.key("mailbox").bytes(name);
    json.key("kind").str(damage.kind);
    json.key("severity").str(damage.severity.name());
    json.key("file").bytes(damage.file.as_os_str().as_encoded_bytes());
    for (key, number) in
        [("offset", damage.offset), ("uid", damage.uid.map(|uid| uid.get().into()))]
    {
        json.key(key);
        match number {
            Some(number) => json.number(number),
            None => json.null(),
        }
    }
    json.key("what").str(&damage.what);
    json.key("repair");
    match damage.repair {
        Some(repair) => json.str(repair),
        None => json.null(),
    }
    json.end_line();
}

fn write_summary(
    out: &mut Vec<u8>,
    name: &[u8],
    found: &CheckReport,
    done: Option<&RepairReport>,
    left: u64,
) {
    let mut json = Json::line(out, "check");
    json.key("mailbox").bytes(name);
    json.key("format").str(found.format.name());
    json.key("messages").number(found.messages);
    json.key("damages").number(found.damages.len() as u64 + found.more);
    json.key("left").number(left);
    json.key("repairable").bool(found.is_repairable && !found.is_too_large);
    json.key("repaired").bool(done.is_some_and(|done| done.kept.is_some()));
    json.key("kept");
    match done.and_then(|done| done.kept.as_ref()) {
        Some(kept) => json.bytes(kept.as_os_str().as_encoded_bytes()),
        None => json.null(),
    }
    json.key("bytes_kept").number(done.map_or(0, |done| done.bytes_kept));
    json.end_line();
}
