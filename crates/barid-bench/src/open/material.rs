//! The mailboxes of the bench.

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use barid_testkit::boxes::Written;
use barid_testkit::corpus::{Corpus, Profile};
use barid_testkit::disk;
use barid_testkit::peers::PeerUser;

use super::step::Part;
use crate::lab::BARE;

/// The seed of the mail.
const SEED: u64 = 1;
/// Messages of the Maildir.
pub(crate) const MAILDIR_LEN: u64 = 100_000;
/// Messages of the mbox, as in the comparison of 2004 that `barid-bench mbox` repeats.
pub(crate) const MBOX_LEN: u64 = 361_052;
/// Messages of the large Maildir.
pub(crate) const MILLION: u64 = 1_000_000;

/// A generated mailbox.
#[derive(Clone, Debug)]
pub(crate) struct GeneratedMailbox {
    pub(crate) path: PathBuf,
    /// Number of messages.
    pub(crate) count: u64,
    /// Bytes of all messages.
    pub(crate) bytes: u64,
}

/// The mailboxes, as far as the parts need them.
#[derive(Clone, Debug)]
pub(crate) struct Material {
    pub(crate) maildir: Option<GeneratedMailbox>,
    pub(crate) mbox: Option<GeneratedMailbox>,
    pub(crate) million: Option<GeneratedMailbox>,
    classic: Corpus,
}

impl Material {
    /// Makes the mailboxes that some parts need, with 1/`scale` of the messages.
    pub(crate) fn generate(folder: &Path, parts: &[Part], scale: u64) -> Result<Self> {
        let has = |wanted: &[Part]| parts.iter().any(|part| wanted.contains(part));
        let maildir = |name: &str, len: u64| {
            let (path, corpus) = (folder.join(name), Corpus::new(SEED, len / scale));
            let written =
                corpus.write_maildir(&path).with_context(|| path.display().to_string())?;
            hand_over(&path)?;
            Ok::<_, anyhow::Error>(generated(path, written))
        };
        let classic = Corpus::with_profile(SEED, MBOX_LEN / scale, Profile::Classic);
        let mbox = || {
            let path = folder.join("box");
            let written = classic.write_mbox(&path, BARE);
            let written = written.with_context(|| path.display().to_string())?;
            Ok::<_, anyhow::Error>(generated(path, written))
        };
        let needs_maildir = has(&[Part::Maildir, Part::Million]);
        Ok(Self {
            maildir: needs_maildir.then(|| maildir("maildir", MAILDIR_LEN)).transpose()?,
            mbox: has(&[Part::Mbox, Part::Thread]).then(mbox).transpose()?,
            million: has(&[Part::Million]).then(|| maildir("million", MILLION)).transpose()?,
            classic,
        })
    }

    /// Returns the mailbox of a part.
    pub(crate) fn of(&self, part: Part) -> Result<&GeneratedMailbox> {
        let mailbox = match part {
            Part::Maildir => &self.maildir,
            Part::Mbox | Part::Thread => &self.mbox,
            Part::Million => &self.million,
        };
        mailbox.as_ref().with_context(|| format!("no mailbox for the part {}", part.name()))
    }

    /// Appends a message to the mbox, as a delivery does; a new one for each `number`.
    pub(crate) fn deliver(&self, number: u64) -> Result<()> {
        let path = &self.of(Part::Mbox)?.path;
        let at = || path.display().to_string();
        let mut message = Vec::new();
        BARE.render(&self.classic.message(self.classic.len() + number), &mut message);
        let mut file = BufWriter::new(disk::open_append(path).with_context(at)?);
        file.write_all(&message).with_context(at)?;
        file.flush().with_context(at)
    }

    /// Removes what was delivered to the mbox. Returns `true` if anything was.
    pub(crate) fn restore_mbox(&self, len: u64) -> Result<bool> {
        let path = &self.of(Part::Mbox)?.path;
        let at = || path.display().to_string();
        let is_changed = disk::size(path).with_context(at)? != len;
        if is_changed {
            disk::set_len(path, len).with_context(at)?;
        }
        Ok(is_changed)
    }
}

fn generated(path: PathBuf, written: Written) -> GeneratedMailbox {
    GeneratedMailbox { path, count: written.messages, bytes: written.bytes }
}

/// Gives a file or folder to the user that peers run as.
pub(crate) fn hand_over(path: &Path) -> Result<()> {
    let given = PeerUser::get().and_then(|user| user.take(path));
    given.with_context(|| path.display().to_string())
}
