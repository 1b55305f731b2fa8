//! The mailbox that is copied for every side, and the messages to append.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use barid_testkit::boxes::{StoredMessage, read_mbox};
use barid_testkit::corpus::{Corpus, GeneratedMessage, Profile};
use barid_testkit::disk;

use super::model::Model;
use super::step::Step;
use crate::lab::{BARE, has_from};
use crate::limits::{APPEND_LEN, LARGE_MESSAGE_LEN, SMALL_MESSAGE_LEN};

/// The seed of the mail.
const SEED: u64 = 1;

/// Messages to append, in every form that a program needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    /// With LF, one file each.
    pub(crate) files: Vec<PathBuf>,
    /// A file of messages with CRLF, each after a line with its length.
    pub(crate) framed: PathBuf,
    /// The messages with CRLF.
    pub(crate) wire: Vec<Vec<u8>>,
    pub(crate) hashes: Vec<u64>,
}

/// Everything made before the rounds.
#[derive(Debug)]
pub(crate) struct Material {
    /// The mailbox, which is never written to.
    pub(crate) base: PathBuf,
    pub(crate) base_len: u64,
    pub(crate) model: Model,
    batches: [Batch; 2],
}

impl Material {
    /// Generates a mailbox with `count` messages; the first is small, the second large.
    pub(crate) fn generate(folder: &Path, count: u64) -> Result<Self> {
        ensure!(count >= 6, "at least 6 messages are needed");
        let base = folder.join("base.mbox");
        let corpus = Corpus::with_profile(SEED, count - 2, Profile::Classic);
        let is_small =
            |message: &GeneratedMessage| SMALL_MESSAGE_LEN.contains(&message.bytes.len());
        let small = (count..).map(|number| corpus.message(number)).find(is_small);
        let small = small.context("no message is small")?;
        let mut text = Vec::new();
        BARE.render(&small, &mut text);
        BARE.render(&large(&corpus), &mut text);
        let write = || {
            disk::write(&base, &text)?;
            corpus.append_mbox(&base, BARE)
        };
        write().with_context(|| base.display().to_string())?;
        Self::of(folder, base)
    }

    /// Copies an mbox, inserting a large message after the first one.
    pub(crate) fn copy(folder: &Path, mbox: &Path) -> Result<Self> {
        let base = folder.join("base.mbox");
        let mut first = None;
        let read = read_mbox(mbox, |message| first = first.or(Some(message.len)));
        read.with_context(|| mbox.display().to_string())?;
        let first = first.context("the mbox is empty")?;
        let mut text = Vec::new();
        BARE.render(&large(&Corpus::with_profile(SEED, 1, Profile::Classic)), &mut text);
        let write = || disk::copy_with(mbox, &base, first, &text);
        write().with_context(|| base.display().to_string())?;
        Self::of(folder, base)
    }

    fn of(folder: &Path, base: PathBuf) -> Result<Self> {
        let stored = stored(&base)?;
        let corpus = Corpus::with_profile(SEED + 1, 1, Profile::Classic);
        let len = stored.len().min(APPEND_LEN);
        let batch = |number| Batch::make(folder, &corpus, number, len);
        Ok(Self {
            base_len: disk::size(&base)?,
            base,
            model: Model::new(&stored)?,
            batches: [batch(0)?, batch(1)?],
        })
    }

    /// Returns the messages that a step appends.
    pub(crate) fn batch(&self, step: Step) -> &Batch {
        &self.batches[usize::from(step == Step::AppendBatch)]
    }
}

/// Returns the messages of an mbox.
pub(crate) fn stored(path: &Path) -> Result<Vec<StoredMessage>> {
    let mut messages = Vec::new();
    let read = read_mbox(path, |message| messages.push(message));
    read.with_context(|| path.display().to_string())?;
    Ok(messages)
}

/// Returns a message of more than [`LARGE_MESSAGE_LEN`].
fn large(corpus: &Corpus) -> GeneratedMessage {
    let mut message = corpus.message(0);
    let line = b"A line of a large message, which is like every other line of it.\n";
    message.bytes.extend(line.iter().cycle().take(LARGE_MESSAGE_LEN.next_multiple_of(line.len())));
    message
}

impl Batch {
    /// Makes a batch of messages without lines that some program quotes, as not all quote alike.
    fn make(folder: &Path, corpus: &Corpus, number: u64, len: usize) -> Result<Self> {
        let folder = folder.join(format!("batch-{number}"));
        disk::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let mut batch = Self { framed: folder.join("framed"), ..Self::default() };
        let (mut framed, mut mbox) = (Vec::new(), Vec::new());
        let messages = (0..).map(|n| corpus.message(number * 1_000_000 + n));
        for message in messages.filter(|message| !has_from(&message.bytes)).take(len) {
            let file = folder.join(format!("{:04}.eml", batch.files.len()));
            disk::write(&file, &message.bytes)?;
            batch.files.push(file);
            let wire = with_crlf(&message.bytes);
            framed.extend_from_slice(format!("{}\n", wire.len()).as_bytes());
            framed.extend_from_slice(&wire);
            batch.wire.push(wire);
            BARE.render(&message, &mut mbox);
        }
        disk::write(&batch.framed, &framed)?;
        let path = folder.join("mbox");
        disk::write(&path, &mbox)?;
        batch.hashes = stored(&path)?.iter().map(|message| message.hash).collect();
        ensure!(batch.hashes.len() == len, "a batch has {} messages", batch.hashes.len());
        disk::remove_file(&path)?;
        Ok(batch)
    }
}

fn with_crlf(bytes: &[u8]) -> Vec<u8> {
    let mut wire = Vec::with_capacity(bytes.len() + bytes.len() / 32);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_suffix(b"\n") {
            Some(text) => {
                wire.extend_from_slice(text.strip_suffix(b"\r").unwrap_or(text));
                wire.extend_from_slice(b"\r\n");
            }
            None => wire.extend_from_slice(line),
        }
    }
    wire
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_crlf() {
        assert_eq!(with_crlf(b"a\nb\r\nc"), b"a\r\nb\r\nc");
    }
}
