//! The check of an archive: every commit and every message is read. Nothing can be repaired here.

use barid_mailbox::{Error, Result};

use super::PublicInbox;
use super::git::{self, Oid};
use super::layout::EPOCHS;
use super::plan::{self, LiveMessage};
use crate::check::{CheckPurpose, Damage, Diagnosis, Doctor, LockedMailbox, Severity};

/// Bytes of a message that are read at once.
const PIECE_LEN: usize = 64 << 10;

impl Doctor for PublicInbox {
    fn hold(&self, _purpose: CheckPurpose) -> Result<LockedMailbox> {
        Ok(LockedMailbox::folder(&self.path, 0o600, ()))
    }

    fn diagnose(&self, _held: &LockedMailbox) -> Result<Diagnosis> {
        let mut diagnosis = Diagnosis::default();
        let epochs = self.epochs(true)?;
        let tip = |open: &super::OpenEpoch| git::tip(&*self.vfs, &open.epoch.git_dir);
        let tips = epochs.iter().map(tip).collect::<Result<Vec<_>>>();
        let found = tips.and_then(|tips| plan::all_messages(self, &epochs, &tips, 1));
        let (messages, unread) = match found {
            Ok(found) => found,
            Err(error @ Error::Object { .. }) => {
                let damage = Damage::new("object", Severity::Error, self.path.join(EPOCHS));
                diagnosis.note(damage.what(error.to_string()));
                return Ok(diagnosis);
            }
            Err(error) => return Err(error),
        };
        if let Some((count, first)) = unread {
            let damage = Damage::new("object", Severity::Error, self.path.join(EPOCHS));
            let what = format!("commits without a readable tree: {count}; the first: {first}");
            diagnosis.note(damage.what(what));
        }
        for LiveMessage { blob, epoch, .. } in messages {
            match self.verify(&epochs, epoch, blob)? {
                None => diagnosis.messages += 1,
                Some(problem) => {
                    let damage = Damage::new("object", Severity::Error, &self.path);
                    diagnosis.note(damage.what(format!("{blob} {problem}")));
                }
            }
        }
        Ok(diagnosis)
    }
}

impl PublicInbox {
    /// Reads a message completely; returns the problem if that fails.
    fn verify(&self, epochs: &[super::OpenEpoch], epoch: u32, blob: Oid) -> Result<Option<String>> {
        let read = self.with_reader(|reader| {
            self.in_epochs(epochs, epoch, |repository| {
                let mut stream = reader.open(repository, blob)?;
                let (mut at, mut buffer) = (0, vec![0; PIECE_LEN]);
                while at < stream.len() {
                    let left = usize::try_from(stream.len() - at).unwrap_or(usize::MAX);
                    let piece = &mut buffer[..left.min(PIECE_LEN)];
                    stream.read_at(piece, at)?;
                    at += piece.len() as u64;
                }
                Ok(())
            })
        });
        match read {
            Ok(()) => Ok(None),
            Err(error) if error.is_ours() => Err(error.of(blob)),
            Err(error) => Ok(Some(error.to_string())),
        }
    }
}
