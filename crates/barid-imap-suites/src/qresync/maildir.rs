//! A writer that knows a Maildir and no server.

use std::io;
use std::path::{Path, PathBuf};

use barid_testkit::disk;
use barid_testkit::peers::PeerUser;
use fastrand::Rng;

use super::writer::{Writer, message};
use crate::mail::letters_of;

/// A writer on the files of a Maildir.
pub(super) struct MaildirWriter {
    path: PathBuf,
    name: String,
    delivered: u32,
}

impl MaildirWriter {
    pub(super) fn new(path: PathBuf, number: usize) -> Self {
        Self { path, name: format!("files{number}"), delivered: 0 }
    }

    /// Delivers as Maildir says: a file in `tmp`, then in `new`.
    fn deliver(&mut self, rng: &mut Rng) -> io::Result<()> {
        self.delivered += 1;
        let name = format!("{}.{}_{}.foreign", disk::unix_seconds(), self.delivered, self.name);
        let (from, to) = (self.path.join("tmp").join(&name), self.path.join("new").join(&name));
        disk::write(&from, message(rng, &self.name).as_bytes())?;
        PeerUser::get()?.take(&from)?;
        disk::rename(&from, &to)
    }

    /// Returns a message of a folder.
    fn any(&self, folder: &str, rng: &mut Rng) -> io::Result<Option<PathBuf>> {
        let files = disk::list(&self.path.join(folder))?;
        Ok(if files.is_empty() { None } else { Some(files[rng.usize(0..files.len())].clone()) })
    }

    /// Changes a letter of a message in `cur`.
    fn flag(&self, path: &Path, rng: &mut Rng) -> io::Result<()> {
        let letter = ['F', 'R', 'S'][rng.usize(0..3)];
        self.with_letters(path, |letters| {
            if letters.contains(letter) {
                letters.replace(letter, "")
            } else {
                format!("{letters}{letter}")
            }
        })
    }

    fn with_letters(&self, path: &Path, change: impl FnOnce(String) -> String) -> io::Result<()> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (base, letters) = name.split_once(":2,").unwrap_or((&name, ""));
        let letters = letters_of(&change(letters.to_owned()));
        disk::rename(path, &self.path.join("cur").join(format!("{base}:2,{letters}")))
    }

    /// Adds, flags or marks a message of a client's own Maildir, as that of mbsync: what it deletes
    /// gets the letter `T`.
    pub(super) fn change(&mut self, rng: &mut Rng) -> io::Result<u64> {
        let path = self.any("cur", rng)?;
        match path {
            Some(path) if rng.u32(0..4) == 0 => self.with_letters(&path, |letters| letters + "T"),
            Some(path) if rng.bool() => self.flag(&path, rng),
            _ => self.deliver(rng),
        }?;
        Ok(1)
    }
}

impl Writer for MaildirWriter {
    fn name(&self) -> &str {
        &self.name
    }

    fn act(&mut self, rng: &mut Rng) -> io::Result<u64> {
        let done = match rng.u32(0..10) {
            0..4 => self.deliver(rng),
            4..8 => match self.any("cur", rng)? {
                Some(path) => self.flag(&path, rng),
                None => self.deliver(rng),
            },
            8 => match self.any("new", rng)? {
                Some(path) => {
                    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    disk::rename(&path, &self.path.join("cur").join(format!("{name}:2,S")))
                }
                None => self.deliver(rng),
            },
            _ => match self.any("cur", rng)? {
                Some(path) => disk::remove_file(&path),
                None => self.deliver(rng),
            },
        };
        match done {
            // Others rename and remove the same files.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            done => done.map(|()| 1),
        }
    }
}
