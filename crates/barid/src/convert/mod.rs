//! Converting a mailbox to another format, and copying and moving messages, with proof.
//!
//! Messages are read by several threads and written in the source's order, some megabytes at a
//! time; acknowledged messages are durable. An interrupted conversion continues when it is called
//! again: the content of the target is then compared with the source, and nothing of it is trusted
//! (`docs/design/convert.md`).

mod dedupe;
mod existing;
pub(crate) mod large;
mod locked_note;
mod loss;
mod move_note;
mod moving;
mod note;
mod proof;
mod target;
mod text;
mod transfer;
mod tree;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use barid_formats::MailboxSpec;
use barid_mailbox::{Format, SyncFigures};
use barid_types::Uid;
use barid_vfs::Vfs;

pub use self::dedupe::{Dedupe, Dropped};
pub use self::loss::Losses;
pub use self::moving::{Moved, check_move, move_messages};
pub use self::proof::{Difference, Proof, ProofSide, Proven};
pub use self::text::Digest;
pub use self::tree::plan_tree;

use self::target::Site;
use self::transfer::{Copied, End, Transfer};
use crate::change::add_figures;
use crate::limits::{CONVERT_BATCH_LEN, CONVERT_RESTARTS_MAX};
use crate::{Changed, Error, Mailbox, OpenOptions, ProgressFn, Result};

/// Options of a copy or conversion.
#[derive(Clone)]
pub struct ConvertOptions {
    /// Criterion for leaving out messages that duplicate an earlier one, or in a copy one in the
    /// target; `None` to keep them.
    pub dedupe: Option<Dedupe>,
    /// `true` to read every message back from the target and compare it; [`ConvertEvent::Proof`]
    /// reports each.
    pub proof: bool,
    /// Bytes of messages that are written together, and so become durable together.
    pub batch_len: usize,
    /// `true` to leave the note of a finished conversion, so that the same call finds the
    /// conversion again: for one of several that are to continue together. [`forget`] removes it.
    pub keeps_note: bool,
    /// Once `true`, a copy ends after its current step.
    pub stop: Option<Arc<AtomicBool>>,
    /// Called with the progress.
    pub progress: Option<ProgressFn>,
}

impl Default for ConvertOptions {
    fn default() -> Self {
        let batch_len = CONVERT_BATCH_LEN;
        let (stop, progress) = (None, None);
        Self { dedupe: None, proof: false, batch_len, keeps_note: false, stop, progress }
    }
}

impl fmt::Debug for ConvertOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConvertOptions")
            .field("dedupe", &self.dedupe)
            .field("proof", &self.proof)
            .field("batch_len", &self.batch_len)
            .field("keeps_note", &self.keeps_note)
            .field("stop", &self.stop)
            .finish_non_exhaustive()
    }
}

/// An event of a copy.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConvertEvent<'a> {
    /// The source of a conversion is open and up to date; from now on messages are written.
    Begun,
    /// A message is left out.
    Dropped(&'a Dropped),
    /// A message was read back.
    Proof(&'a Proof),
    /// An interrupted conversion could not be continued, and is begun anew. Its remains are at this
    /// path, and can be removed.
    PutAside(&'a Path),
}

/// Called with each event, in order.
pub type TellConvert<'a> = dyn FnMut(ConvertEvent<'_>) + 'a;

/// Report of a copy or conversion.
#[derive(Debug)]
#[non_exhaustive]
pub struct ConvertReport {
    /// The format of the source.
    pub source: Format,
    /// The format of the target.
    pub target: Format,
    /// Number of messages of the source that were read.
    pub messages: u64,
    /// Number of messages written.
    pub appended: u64,
    /// Number of messages that an interrupted conversion had written before.
    pub found: u64,
    /// Number of messages left out as duplicates.
    pub dropped: u64,
    /// Messages that disappeared from the source before they were read.
    pub gone: Vec<Uid>,
    /// Messages that could not be read or stored, and the errors.
    pub failed: Vec<(Uid, Error)>,
    /// `true` if messages of the source are left out because another program was still writing
    /// them.
    pub is_arriving: bool,
    /// Properties that the target cannot store.
    pub losses: Losses,
    /// Result of the proof, if there was one.
    pub proven: Option<Proven>,
    /// Cost of the writes.
    pub figures: SyncFigures,
    /// Problems of the changes of the target; the other fields of this value are not set.
    pub trouble: Changed,
    /// The UIDs of messages in the source and in the target.
    pub uids: Vec<(Uid, Uid)>,
    /// `true` if all messages of the source are wanted, including those gone since.
    wants_all: bool,
}

impl ConvertReport {
    fn new(source: Format, target: Format) -> Self {
        Self {
            source,
            target,
            messages: 0,
            appended: 0,
            found: 0,
            dropped: 0,
            gone: Vec::new(),
            failed: Vec::new(),
            is_arriving: false,
            losses: Losses::default(),
            proven: None,
            figures: SyncFigures::default(),
            trouble: Changed::default(),
            uids: Vec::new(),
            wants_all: false,
        }
    }

    /// Returns `true` if every message is in the target.
    pub fn has_all(&self) -> bool {
        self.failed.is_empty()
            && !self.is_arriving
            && self.trouble.unsettled.is_empty()
            && (self.gone.is_empty() || !self.wants_all)
    }

    fn add(&mut self, changed: &Changed) {
        add_figures(&mut self.figures, &changed.figures);
        self.trouble.add_trouble(changed);
    }

    /// Returns `true` if every message is in the target, and was proven unchanged if a proof was
    /// requested. Messages that are gone from the source count as missing in a conversion, but not
    /// in a copy.
    pub fn is_whole(&self) -> bool {
        self.has_all() && self.proven.is_none_or(|proven| proven.differing == 0)
    }
}

/// Creates a mailbox of another format with the messages of the source: their texts, internal
/// dates, flags, keywords and UIDs under the same UIDVALIDITY, as far as the format can store them
/// ([`ConvertReport::losses`]).
///
/// The target must name its format, unless an empty mailbox is there. If the call is interrupted
/// and repeated, it continues, even if messages failed; a complete target is refused as one with
/// messages. **Commit points:** each batch of messages is durable before the next is written.
///
/// # Errors
/// [`Error::TargetNotEmpty`], [`Error::OtherConversion`], [`Error::ConversionRunning`],
/// [`Error::ConversionStopped`], [`Error::Renumbered`] if the messages of the source got other UIDs
/// meanwhile; errors of either mailbox.
pub fn convert(
    vfs: &Arc<dyn Vfs>,
    (source, target): (&MailboxSpec, &MailboxSpec),
    open: &OpenOptions,
    options: &ConvertOptions,
    tell: &mut TellConvert<'_>,
) -> Result<ConvertReport> {
    let mut source = Mailbox::open_in(Arc::clone(vfs), source, open)?;
    let is_arriving = !source.wait_for_arrivals()?;
    let uidvalidity = source.status().uidvalidity;
    let site = Site::find(vfs, &source, target, open, options)?;
    tell(ConvertEvent::Begun);
    for _ in 0..=CONVERT_RESTARTS_MAX {
        let Some(mut target) = site.open(&source)? else {
            tell(ConvertEvent::PutAside(&site.put_aside()?));
            continue;
        };
        let uids = all_uids(&source)?;
        let transfer =
            Transfer::new(&source, &mut target, options, tell)?.going_on(site.is_ours())?;
        let copied = match transfer.run(&mut source, &uids)? {
            End::Whole(copied) => copied,
            End::Deviates => {
                drop(target);
                tell(ConvertEvent::PutAside(&site.put_aside()?));
                continue;
            }
        };
        // Another program may have renumbered the source without a scan having noticed it.
        source.catch_up()?;
        source.check_numbering(uidvalidity)?;
        let mut converted = concluded(&mut target, *copied, options, true, tell)?;
        converted.is_arriving = is_arriving;
        let is_same = target.status().uidvalidity == uidvalidity;
        converted.losses.uidvalidity = !is_same;
        converted.losses.uidnext = is_same && target.status().uidnext < source.status().uidnext;
        // A message that could not be read may be readable the next time.
        if !options.keeps_note && converted.has_all() {
            site.finish()?;
        }
        return Ok(converted);
    }
    let what = "its content keeps changing: another program writes to it";
    Err(Error::TargetInTheWay { path: site.path().to_owned(), what })
}

/// Removes the note of a finished conversion ([`ConvertOptions::keeps_note`]).
///
/// # Errors
/// [`Error::ConversionRunning`]; errors of the file system.
pub fn forget(vfs: &dyn Vfs, target: &Path, state_dir: &Path) -> Result<()> {
    target::forget(vfs, target, state_dir)
}

/// Copies messages to another mailbox, where they get new UIDs. Batches that were written before an
/// error stay.
///
/// # Errors
/// [`Error::ConversionStopped`]; errors of either mailbox.
pub fn copy(
    source: &mut Mailbox,
    uids: &[Uid],
    target: &mut Mailbox,
    options: &ConvertOptions,
    tell: &mut TellConvert<'_>,
) -> Result<ConvertReport> {
    let transfer = Transfer::new(source, target, options, tell)?.looking_at_target()?;
    match transfer.run(source, uids)? {
        End::Whole(copied) => concluded(target, *copied, options, false, tell),
        End::Deviates => {
            let what = "its content differs from what was written";
            Err(Error::TargetInTheWay { path: target.path().to_owned(), what })
        }
    }
}

/// Proves a copy, if requested.
fn concluded(
    target: &mut Mailbox,
    copied: Copied,
    options: &ConvertOptions,
    all: bool,
    tell: &mut TellConvert<'_>,
) -> Result<ConvertReport> {
    let proven = match options.proof {
        true => Some(proof::prove(target, &copied, all, tell)?),
        false => None,
    };
    let uids = copied.entries.iter().filter_map(|entry| Some((entry.uid, entry.after?)));
    let uids = uids.collect();
    Ok(ConvertReport { proven, uids, ..copied.report })
}

fn all_uids(mailbox: &Mailbox) -> Result<Vec<Uid>> {
    Ok(mailbox.uids()?.into_iter().filter_map(Uid::new).collect())
}

/// Returns the path with the given number for putting something aside.
fn aside(path: &Path, number: u32) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".barid-aside-{number}"));
    path.with_file_name(name)
}

/// Returns the format with a name.
#[cfg(test)]
fn format_named(name: &str) -> Format {
    barid_formats::FormatName::named(name).unwrap().format()
}
