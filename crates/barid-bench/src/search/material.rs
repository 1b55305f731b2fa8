//! The Maildir that is searched, and what is delivered to it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use barid_testkit::corpus::{Corpus, GeneratedMessage};
use barid_testkit::disk;

use super::Options;
use super::copies::renewed;
use super::decode::Texts;
use crate::lab::without_from;

/// The word that delivered messages alone have.
pub(crate) const DELIVERED: &str = "qvxdelivered";

/// The mailboxes. A message has a number, from 0, which is in the name of its file.
#[derive(Clone, Debug)]
pub(crate) struct Material {
    /// The folder with `box`, the Maildir.
    pub(crate) root: PathBuf,
    /// The same files in a Maildir for programs that move new messages to `cur`.
    pub(crate) linked: PathBuf,
    /// Number of messages before deliveries.
    pub(crate) count: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Number of messages delivered so far.
    pub(crate) delivered: u64,
    /// The files that were copied, in order and perhaps again and again; empty if the messages are
    /// generated.
    copied: Vec<PathBuf>,
}

impl Material {
    /// Makes a Maildir of the messages that the options name, or of generated ones.
    pub(crate) fn make(folder: &Path, options: &Options) -> Result<Self> {
        let (root, linked) = (folder.join("mail"), folder.join("linked"));
        let mut material =
            Self { root, linked, count: 0, bytes: 0, delivered: 0, copied: Vec::new() };
        for maildir in [material.maildir(), material.linked.clone()] {
            for name in ["cur", "new", "tmp"] {
                let path = maildir.join(name);
                disk::create_dir_all(&path).with_context(|| path.display().to_string())?;
            }
        }
        match &options.mail {
            Some(folder) => material.copy_from(folder, options)?,
            None => material.generate(options.messages.unwrap_or(super::MESSAGES))?,
        }
        Ok(material)
    }

    /// Returns the Maildir that is searched.
    pub(crate) fn maildir(&self) -> PathBuf {
        self.root.join("box")
    }

    /// Copies the messages of a folder, and repeats them with other ids until there are enough.
    fn copy_from(&mut self, folder: &Path, options: &Options) -> Result<()> {
        let files = disk::list_files(folder).with_context(|| folder.display().to_string())?;
        ensure!(!files.is_empty(), "{}: no messages", folder.display());
        let all = files.len() as u64;
        for number in 0..options.messages.unwrap_or(all) {
            let path = &files[usize::try_from(number % all)?];
            let bytes = disk::read(path).with_context(|| path.display().to_string())?;
            self.put("cur", number, &renewed(without_from(&bytes), number / all))?;
        }
        self.copied = files;
        Ok(())
    }

    fn generate(&mut self, count: u64) -> Result<()> {
        let corpus = Corpus::new(1, count);
        let mut message = GeneratedMessage::default();
        for number in 0..count {
            corpus.write_message(number, &mut message);
            self.put("cur", number, &message.bytes)?;
        }
        Ok(())
    }

    fn put(&mut self, subfolder: &str, number: u64, message: &[u8]) -> Result<()> {
        let (name, path) = (name(subfolder, number), self.maildir().join(subfolder));
        let path = path.join(&name);
        disk::write(&path, message).with_context(|| path.display().to_string())?;
        let linked = self.linked.join(subfolder).join(name);
        disk::hard_link(&path, &linked).with_context(|| linked.display().to_string())?;
        if subfolder == "cur" {
            self.count += 1;
            self.bytes += message.len() as u64;
        }
        Ok(())
    }

    /// Delivers messages, which have the word [`DELIVERED`] and else only words of their own.
    pub(crate) fn deliver(&mut self, messages: u64) -> Result<()> {
        for _ in 0..messages {
            let number = self.count + self.delivered;
            let (second, minute) = (number % 60, number / 60 % 60);
            let text = format!(
                "From: Ann Lee <ann@mail.example>\nTo: list@mail.example\n\
                 Subject: news {number}\nMessage-ID: <{number}.news@mail.example>\n\
                 Date: Mon, 2 Nov 2026 10:{minute:02}:{second:02} +0000\n\n\
                 The message {number} was {DELIVERED} a moment ago.\n"
            );
            self.put("new", number, text.as_bytes())?;
            self.delivered += 1;
        }
        Ok(())
    }

    /// Returns the file of a message that was there before all deliveries.
    fn path(&self, number: u64) -> PathBuf {
        self.maildir().join("cur").join(name("cur", number))
    }

    /// Returns the number of a message that was there before all deliveries, and where it is from.
    pub(crate) fn source(&self, number: u32) -> String {
        match self.copied.get(number as usize % self.copied.len().max(1)) {
            Some(path) => format!("{number} ({})", path.display()),
            None => format!("{number} (generated)"),
        }
    }

    /// Returns the texts of a message; `None` if they leave doubts.
    pub(crate) fn texts(&self, number: u64) -> Result<Option<Texts>> {
        let path = self.path(number);
        let bytes = disk::read(&path).with_context(|| path.display().to_string())?;
        Ok(Texts::of(&bytes))
    }
}

/// Returns the name of the file of a message.
fn name(subfolder: &str, number: u64) -> String {
    /// Makes the names ascend like those that programs give.
    const FIRST_SECOND: u64 = 1_500_000_000;
    let flags = if subfolder == "cur" { ":2,S" } else { "" };
    format!("{}.{number}.bench{flags}", FIRST_SECOND + number)
}

/// Returns the number of the message in a file.
pub(crate) fn number_of(path: &str) -> Result<u32> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let number = name.split('.').nth(1).and_then(|number| number.parse().ok());
    number.with_context(|| format!("{path} is not the file of a message"))
}

/// Returns the numbers of the messages with some UIDs, ascending, by a file `dovecot-uidlist`.
pub(crate) fn messages_of(uids: &[u32], list: &Path) -> Result<Vec<u32>> {
    let numbers = numbers_by_uid(list)?;
    let number = |uid: &u32| {
        let at = numbers.binary_search_by_key(uid, |(uid, _)| *uid).ok();
        at.map(|at| numbers[at].1).with_context(|| format!("UID {uid} is of no file"))
    };
    let found: Result<Vec<u32>> = uids.iter().map(number).collect();
    let mut found = found?;
    found.sort_unstable();
    Ok(found)
}

/// Returns UIDs and numbers of the messages of a list, by UID.
fn numbers_by_uid(list: &Path) -> Result<Vec<(u32, u32)>> {
    let text = disk::read_text(list).with_context(|| list.display().to_string())?;
    let mut numbers = Vec::new();
    // The first line is about the list.
    for line in text.lines().skip(1) {
        let (fields, name) = line.split_once(" :").with_context(|| line.to_owned())?;
        let uid = fields.split(' ').next().unwrap_or_default();
        numbers.push((uid.parse().with_context(|| line.to_owned())?, number_of(name)?));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use barid_testkit::Scratch;

    use super::*;

    #[test]
    fn messages_are_known_by_their_files() {
        assert_eq!(number_of(&format!("/a/b.c/cur/{}", name("cur", 77))).unwrap(), 77);
        assert!(number_of("dovecot-uidlist").is_err());
        let scratch = Scratch::new("list").unwrap();
        let path = scratch.path().join("dovecot-uidlist");
        let text = format!("3 V1 N9\n7 W5 :{}\n5 :{}\n", name("new", 1), name("new", 0));
        disk::write(&path, text.as_bytes()).unwrap();
        assert_eq!(messages_of(&[7, 5], &path).unwrap(), [0, 1]);
        assert!(messages_of(&[6], &path).is_err());
    }
}
