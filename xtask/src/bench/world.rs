//! Shared by all parts: the folder with the mail, the program under test, the peers.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use barid_testkit::boxes::{MboxOptions, MboxVariant, Written};
use barid_testkit::corpus::{Corpus, Profile};
use barid_testkit::peers::{Dovecot, NeoMutt, PeerUser};
use barid_testkit::{corpora, disk};

use crate::shell::cargo;

/// The seed of the mail.
pub(crate) const SEED: u64 = 1;
/// Messages of the Maildir.
pub(crate) const MAILDIR_LEN: u64 = 100_000;
/// Messages of the mbox, as in Timo Sirainen's comparison of 2004.
pub(crate) const MBOX_LEN: u64 = 361_052;
/// Messages of the large Maildir.
pub(crate) const MILLION: u64 = 1_000_000;

/// The options of the command line.
#[derive(Debug)]
pub(crate) struct Options {
    /// The folder in which mail is made and kept for the next run.
    pub(crate) folder: PathBuf,
    /// The program to measure instead of a release build.
    pub(crate) barid: Option<PathBuf>,
    /// Runs of each side.
    pub(crate) runs: usize,
    /// Divisor of the number of messages, for trials.
    pub(crate) scale: u64,
}

/// The prepared machine.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) options: Options,
    /// The program under test, at a path that the peers' user can read.
    pub(crate) program: PathBuf,
    pub(crate) user: &'static PeerUser,
    pub(crate) dovecot: Dovecot,
    pub(crate) neomutt: NeoMutt,
}

impl World {
    pub(crate) fn prepare(options: Options) -> Result<Self> {
        ensure!(options.runs > 0 && options.scale > 0, "at least one run of one message");
        let folder = &options.folder;
        disk::create_dir_all(&folder.join("bin")).with_context(|| folder.display().to_string())?;
        let built = match &options.barid {
            Some(program) => program.clone(),
            None => {
                cargo(&["build", "--release", "-q", "-p", "barid-cli"], &[])?;
                corpora::target_folder().join("release/barid")
            }
        };
        let program = folder.join("bin/barid");
        disk::copy(&built, &program).with_context(|| built.display().to_string())?;
        let user = PeerUser::get()?;
        let dovecot = Dovecot::new().context("Dovecot is needed")?;
        let neomutt = NeoMutt::new().context("NeoMutt is needed")?;
        Ok(Self { options, program, user, dovecot, neomutt })
    }

    /// Returns the number of messages for `full` at the scale of this run.
    pub(crate) fn scaled(&self, full: u64) -> u64 {
        full / self.options.scale
    }

    /// Returns the Maildir with `full` messages (scaled); makes it if it does not exist.
    pub(crate) fn maildir(&self, full: u64) -> Result<(PathBuf, Corpus)> {
        let corpus = Corpus::new(SEED, self.scaled(full));
        let path = self.options.folder.join(format!("maildir-{}", corpus.len()));
        self.make(&path, || corpus.write_maildir(&path))?;
        Ok((path, corpus))
    }

    /// Returns an mbox (mboxo, no Status headers); makes it if it does not exist. `name`
    /// distinguishes copies.
    pub(crate) fn mbox(&self, name: &str) -> Result<(PathBuf, Corpus)> {
        let corpus = Corpus::with_profile(SEED, self.scaled(MBOX_LEN), Profile::Classic);
        let folder = self.options.folder.join(format!("mbox-{}{name}", corpus.len()));
        let path = folder.join("box");
        let options = MboxOptions { variant: MboxVariant::Mboxo, status: false, crlf: false };
        self.make(&folder, || {
            disk::create_dir_all(&folder)?;
            corpus.write_mbox(&path, options)
        })?;
        Ok((path, corpus))
    }

    /// Makes a mailbox at `path` unless a note beside it marks it as complete. Waits until new mail
    /// is older than the racy interval.
    fn make(&self, path: &Path, make: impl FnOnce() -> std::io::Result<Written>) -> Result<()> {
        let note = path.with_extension("complete");
        if disk::exists(&note) {
            return Ok(());
        }
        if disk::exists(path) {
            bail!("{} is there but not complete: remove it", path.display());
        }
        println!("making {}", path.display());
        let written = make().with_context(|| path.display().to_string())?;
        self.user.take(path)?;
        disk::write(&note, format!("{} {}\n", written.messages, written.bytes).as_bytes())?;
        settle();
        Ok(())
    }

    /// Returns a new empty folder of this run, owned by the peers' user.
    pub(crate) fn fresh_folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.options.folder.join(name);
        if disk::exists(&path) {
            disk::remove_tree(&path)?;
        }
        disk::create_dir_all(&path)?;
        self.user.take(&path)?;
        Ok(path)
    }
}

/// Waits until recent writes are older than the racy interval.
pub(crate) fn settle() {
    std::thread::sleep(std::time::Duration::from_millis(2_500));
}
