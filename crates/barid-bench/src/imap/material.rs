//! The mail of the bench, and copies of it for each server.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use barid_testkit::corpus::{Corpus, Profile};
use barid_testkit::disk;
use barid_testkit::peers::PeerUser;

use super::step::{Load, MailFormat};
use super::{Sizes, USERS};
use crate::lab::{BARE, fresh_folder};

/// The seed of the mail.
const SEED: u64 = 1;

/// The name of the user who owns the large mailboxes.
pub(crate) const USER: &str = "u1";

/// Generated mailboxes, made when first needed.
#[derive(Debug)]
pub(crate) struct Material {
    folder: PathBuf,
    sizes: Sizes,
}

impl Material {
    pub(crate) fn new(folder: PathBuf, sizes: Sizes) -> Self {
        Self { folder, sizes }
    }

    /// Returns the number of messages in the large mailbox, or in the small mailbox of each user.
    pub(crate) fn count(&self, load: Load) -> u64 {
        match load {
            Load::Users => self.sizes.small,
            Load::Large => self.sizes.large,
            Load::Middle => self.sizes.middle,
            Load::Threads => self.sizes.threads,
        }
    }

    fn corpus(&self, load: Load) -> Corpus {
        let profile = if load == Load::Threads { Profile::Classic } else { Profile::Modern };
        Corpus::with_profile(SEED, self.count(load), profile)
    }

    /// Returns a mailbox that is only copied.
    fn pristine(&self, load: Load, format: MailFormat) -> Result<PathBuf> {
        self.made(&format!("{load:?}-{}", format.name()).to_lowercase(), &self.corpus(load), format)
    }

    fn made(&self, name: &str, corpus: &Corpus, format: MailFormat) -> Result<PathBuf> {
        let path = self.folder.join(name);
        if !disk::exists(&path) {
            let written = match format {
                MailFormat::Maildir => corpus.write_maildir(&path),
                MailFormat::Mbox => corpus.write_mbox(&path, BARE),
            };
            written.with_context(|| path.display().to_string())?;
        }
        Ok(path)
    }

    /// Removes the pristine mailboxes.
    pub(crate) fn forget(&self) -> Result<()> {
        fresh_folder(&self.folder)
    }

    /// Makes a folder of users with the mail of a load, none of which any server has seen.
    /// `targets` is the number of mailboxes with 1,000 messages to move.
    pub(crate) fn fill(
        &self,
        mail: &Path,
        load: Load,
        format: MailFormat,
        targets: u32,
    ) -> Result<()> {
        fresh_folder(mail)?;
        let users = if load == Load::Users { USERS } else { 1 };
        let pristine = self.pristine(load, format)?;
        for user in 1..=users {
            let home = mail.join(format!("u{user}"));
            copy_mailbox(&pristine, &home, "INBOX", format)?;
        }
        if format == MailFormat::Maildir && targets > 0 {
            let corpus = Corpus::new(SEED + 1, self.sizes.moved);
            let moved = self.made("moved", &corpus, format)?;
            for target in 0..targets {
                copy_mailbox(&moved, &mail.join(USER), &format!("m{target}"), format)?;
            }
        }
        hand_over(mail)
    }

    /// Returns messages to append, with CRLF.
    pub(crate) fn messages(&self, count: u64) -> Vec<Vec<u8>> {
        let corpus = Corpus::new(SEED + 2, count);
        (0..count).map(|number| with_crlf(&corpus.message(number).bytes)).collect()
    }
}

/// Returns a text with CRLF as its line ends.
fn with_crlf(text: &[u8]) -> Vec<u8> {
    let mut with = Vec::with_capacity(text.len() + text.len() / 32);
    for (index, byte) in text.iter().enumerate() {
        if *byte == b'\n' && (index == 0 || text[index - 1] != b'\r') {
            with.push(b'\r');
        }
        with.push(*byte);
    }
    with
}

/// Gives a tree to the user that servers run as.
pub(crate) fn hand_over(path: &Path) -> Result<()> {
    let given = PeerUser::get().and_then(|user| user.take(path));
    given.with_context(|| path.display().to_string())
}

/// Copies a mailbox into the folder of a user. Of a Maildir the files are linked: servers rename
/// them, and write none.
fn copy_mailbox(from: &Path, home: &Path, name: &str, format: MailFormat) -> Result<()> {
    let at = || format!("{}: {name}", home.display());
    match format {
        MailFormat::Mbox => {
            disk::create_dir_all(home).with_context(at)?;
            disk::copy(from, &home.join(name)).with_context(at)?;
        }
        MailFormat::Maildir => {
            let to = if name == "INBOX" { home.to_owned() } else { home.join(format!(".{name}")) };
            for part in ["cur", "new", "tmp"] {
                disk::create_dir_all(&to.join(part)).with_context(at)?;
                for file in disk::list_files(&from.join(part)).with_context(at)? {
                    let name = file.file_name().unwrap_or_default();
                    disk::hard_link(&file, &to.join(part).join(name)).with_context(at)?;
                }
            }
            if name != "INBOX" {
                disk::write(&to.join("maildirfolder"), b"").with_context(at)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_are_crlf() {
        assert_eq!(with_crlf(b"a\nb\r\n\n"), b"a\r\nb\r\n\r\n");
    }
}
