//! Flags of links, brought back to the messages behind them.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use barid::vfs::{FileType, Host as _, OsVfs, Vfs as _};
use barid::{
    ChangeOptions, ChangeRequest, FlagChange, FlagChanges, FlagSet, Mailbox, Uid, WriteWhen,
};

use super::sync::SyncArgs;
use super::warn_of;
use crate::context::Context;
use crate::exit::{Outcome, WithHint, report};
use crate::mail::links::{LinkedMailbox, flags_of, is_known, read_links, split_name, write_links};
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::counted;
use crate::signals;

/// A file in a folder of links.
struct LinkFile {
    path: PathBuf,
    flags: FlagSet,
    is_link: bool,
}

/// Brings the flags of links back to their messages, then points links to where these are now. A
/// link that was removed changes nothing.
///
/// Each mailbox is changed as by `barid flag`; afterwards the file of the links gets the new flags,
/// by a rename. After a crash between both, the next run makes the same changes once more.
pub(super) fn bring_back(
    context: &mut Context,
    args: &SyncArgs,
    dir: &Path,
) -> anyhow::Result<Outcome> {
    if args.list || args.discard_pending || args.take_over || args.change.dry_run {
        return Err(WithHint::error(
            format!("{}: a folder of links has no pending changes of its own", dir.display()),
            "`barid sync DIR` without these options brings changed flags back to the messages",
        ));
    }
    if context.global.read_only {
        return Err(WithHint::error(
            "`barid sync` changes the messages behind the links, and --read-only forbids it",
            "leave out --read-only",
        ));
    }
    let mut links = read_links(dir)?;
    if !is_known(&context.state_dir()?, &links.id) {
        return Err(WithHint::error(
            format!("{}: these links were not made here: nothing is changed", dir.display()),
            "a folder from somebody else could flag any of your messages; `barid search --output \
             links --to DIR` makes one of your own",
        ));
    }
    let files = files_in(context, dir)?;
    let stop: Arc<AtomicBool> = Arc::default();
    signals::answer_signals(&stop, context.global.quiet).context("signals cannot be caught")?;
    let mut outcome = Outcome::Done;
    for linked in &mut links.mailboxes {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        match of_mailbox(context, args, &files, linked, &stop) {
            Ok(done) => outcome = outcome.worse(done),
            Err(error) => {
                report(context, &error);
                outcome = Outcome::Incomplete;
            }
        }
    }
    write_links(dir, &links)?;
    match stop.load(Ordering::Relaxed) {
        true => Err(WithHint::error("interrupted", "run it again for the rest")),
        false => Ok(outcome),
    }
}

/// Returns the files of a folder of links by their names without flags. Of two with one name, which
/// a mail program may leave, neither says anything.
fn files_in(context: &Context, dir: &Path) -> anyhow::Result<HashMap<String, LinkFile>> {
    let (mut files, mut twice) = (HashMap::new(), HashSet::new());
    for folder in ["new", "cur"] {
        let folder = dir.join(folder);
        let at = || folder.display().to_string();
        let kind = OsVfs.symlink_metadata(&folder).with_context(at)?.file_type;
        if kind != FileType::Dir {
            anyhow::bail!("{}: not a folder", folder.display());
        }
        let open = OsVfs.open_dir(&folder).with_context(at)?;
        let list = &mut |name: &[u8], kind: FileType| {
            let name = OsStr::from_bytes(name);
            if let Some((base, letters)) = split_name(name) {
                let is_link = kind == FileType::Symlink;
                let file = LinkFile { path: folder.join(name), flags: flags_of(letters), is_link };
                if files.insert(base.to_owned(), file).is_some() {
                    twice.insert(base.to_owned());
                }
            }
        };
        open.list(list).with_context(at)?;
    }
    for name in twice {
        files.remove(&name);
        let name = visible(name.as_bytes());
        context.warn(&format!("{name}: there twice with different flags, and left as it is"));
    }
    Ok(files)
}

/// Brings flags back to the messages of one mailbox, and notes them.
fn of_mailbox(
    context: &mut Context,
    args: &SyncArgs,
    files: &HashMap<String, LinkFile>,
    linked: &mut LinkedMailbox,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Outcome> {
    let name = linked.name.display().to_string();
    let spec = context.spec_on_disk(&linked.name)?;
    let mut mailbox = context.open_with(&spec, &|options| {
        options.stop = Some(Arc::clone(stop));
        args.change.locks.apply(options);
    })?;
    if mailbox.status().uidvalidity.get() != linked.uidvalidity {
        return Err(WithHint::error(
            format!("{name}: its messages have other UIDs than when they were linked"),
            "nothing of it was changed; make the links anew with `barid search --output links`",
        ));
    }
    let (mut flags, mut count, mut gone) = (FlagChanges::default(), 0, 0);
    let mut brought = Vec::new();
    for (at, link) in linked.links.iter().enumerate() {
        let Some(file) = files.get(&link.base) else { continue };
        if mailbox.row_of(link.uid)?.is_none() {
            gone += 1;
        } else if file.flags != link.flags {
            let (now, before) = (file.flags.bits(), link.flags.bits());
            let of = FlagSet::from_bits;
            let (add, remove) = (of(now & !before), of(before & !now));
            flags.push((link.uid, FlagChange { add, remove, ..FlagChange::default() }));
            brought.push((at, file.flags));
            count += 1;
        }
    }
    if gone > 0 {
        let gone = counted(gone, "linked message");
        context.warn(&format!("{name}: {gone} no longer there"));
    }
    let mut outcome = Outcome::Done;
    if count > 0 {
        context.has_changed.set(true);
        let request = ChangeRequest { flags, ..ChangeRequest::default() };
        let options = ChangeOptions {
            write: WriteWhen::Pending,
            stop: Some(Arc::clone(stop)),
            ..ChangeOptions::default()
        };
        let changed = mailbox.change(&request, &options)?;
        warn_of(context, &changed);
        let is_left = |uid: &Uid| changed.gone.contains(uid) || changed.unwritable.contains(uid);
        for (at, flags) in brought {
            match is_left(&linked.links[at].uid) {
                true => count -= 1,
                false => linked.links[at].flags = flags,
            }
        }
        if changed.unwritable_asked > 0 {
            outcome = Outcome::Incomplete;
        }
    }
    point_anew(&mailbox, files, linked)?;
    write_line(context, linked, count)?;
    Ok(outcome)
}

/// Prints how many messages of a mailbox have got other flags.
fn write_line(context: &mut Context, linked: &LinkedMailbox, count: u64) -> anyhow::Result<()> {
    let name = linked.name.as_encoded_bytes();
    if context.global.json {
        let mut json = Json::line(context.out.buffer(), "links-synced");
        json.key("mailbox").bytes(name);
        json.key("flagged").number(count);
        json.end_line();
    } else {
        let (name, count) = (visible(name), counted(count, "message"));
        context.out.line(&format!("{name}: flagged {count}"))?;
    }
    Ok(context.out.settle()?)
}

/// Replaces links whose messages have other files now: a change of flags renames those of a
/// Maildir. Each is replaced by a rename.
fn point_anew(
    mailbox: &Mailbox,
    files: &HashMap<String, LinkFile>,
    linked: &LinkedMailbox,
) -> anyhow::Result<()> {
    for link in &linked.links {
        let Some(file) = files.get(&link.base).filter(|file| file.is_link) else { continue };
        let Some(row) = mailbox.row_of(link.uid)? else { continue };
        let Some(target) = mailbox.message_file(row)? else { continue };
        let target = std::path::absolute(&target)?;
        let at = || file.path.display().to_string();
        match OsVfs.read_link(&file.path) {
            Ok(known) if known == target => continue,
            Ok(_) => {}
            // A mail program has given it other flags meanwhile: the next run sees to it.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(anyhow::Error::new(error).context(at())),
        }
        let mut random = [0; 8];
        OsVfs.random(&mut random).with_context(at)?;
        let name = format!(".barid-{:016x}.tmp", u64::from_le_bytes(random));
        let temporary = file.path.with_file_name(name);
        OsVfs.symbolic_link(&target, &temporary).with_context(at)?;
        OsVfs.rename(&temporary, &file.path).with_context(at)?;
    }
    Ok(())
}
