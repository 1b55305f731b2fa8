//! The messages, and the mailboxes that are copied for every side.

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use barid_testkit::boxes::{MaildirWriter, maildir_name};
use barid_testkit::corpus::{Corpus, GeneratedMessage, Profile};
use barid_testkit::disk;
use barid_types::FlagSet;

use super::step::Work;
use crate::lab::{BARE, has_from};
use crate::limits::RARE_MESSAGES;
use crate::systems::answer::{Answer, content_hash};

/// The seed of the mail.
const SEED: u64 = 1;

/// The word to search for; it occurs only in the messages that contain it on purpose.
pub(crate) const RARE_WORD: &str = "zyzzogeton";

/// The messages of all mailboxes.
#[derive(Debug)]
pub(crate) struct Material {
    /// All messages as an mbox, which is never written to.
    pub(crate) mbox: PathBuf,
    /// Size of the mbox in bytes.
    pub(crate) bytes: u64,
    /// Number of messages.
    pub(crate) count: u64,
    contents: Answer,
    found: Answer,
}

impl Material {
    /// Generates `count` messages, some of which contain the rare word.
    pub(crate) fn generate(folder: &Path, count: u64) -> Result<Self> {
        ensure!(count >= 10, "at least 10 messages are needed");
        let mbox = folder.join("base.mbox");
        let at = || mbox.display().to_string();
        let mut file = BufWriter::new(disk::create(&mbox).with_context(at)?);
        let (mut contents, mut found) = (Vec::new(), Vec::new());
        let mut text = Vec::new();
        each(count, &mut |number, message, is_rare| {
            text.clear();
            BARE.render(message, &mut text);
            contents.push(content_hash(&message.bytes));
            found.extend(is_rare.then_some(number));
            file.write_all(&text).with_context(at)
        })?;
        file.into_inner().with_context(at)?.sync_all().with_context(at)?;
        let bytes = disk::size(&mbox)?;
        let (contents, found) = (Answer::Contents(contents), Answer::Numbers(found));
        Ok(Self { bytes, mbox, count, contents, found })
    }

    /// Writes the messages into a Maildir, in `cur` and without flags.
    pub(crate) fn write_maildir(&self, path: &Path) -> Result<()> {
        let at = || path.display().to_string();
        let maildir = MaildirWriter::create(path).with_context(at)?;
        each(self.count, &mut |number, message, _| {
            maildir.deliver(&maildir_name(number.into(), message), message).with_context(at)
        })
    }

    /// Writes the messages into an MH folder.
    pub(crate) fn write_mh(&self, path: &Path) -> Result<()> {
        let at = || path.display().to_string();
        disk::create_dir_all(path).with_context(at)?;
        each(self.count, &mut |number, message, _| {
            let mut file = disk::create(&path.join(number.to_string())).with_context(at)?;
            file.write_all(&message.bytes).with_context(at)?;
            disk::set_mtime(&file, message.date).with_context(at)
        })?;
        let sequences = format!("unseen: 1-{}\n", self.count);
        disk::write(&path.join(".mh_sequences"), sequences.as_bytes()).with_context(at)
    }

    /// Returns the answer that every side must give, if it is known beforehand.
    pub(crate) fn expected(&self, work: Work) -> Option<Answer> {
        match work {
            Work::Select => Some(Answer::Count(self.count)),
            Work::Fetch | Work::Convert => Some(self.contents.clone()),
            Work::Search => Some(self.found.clone()),
            Work::All | Work::Thread => None,
        }
    }
}

/// Visits each message with its number, counted from 1, and whether it contains the rare word.
/// Skips messages with a line that some programs quote in an mbox, as not all quote alike, and
/// messages whose header programs read differently.
fn each(
    count: u64,
    visit: &mut dyn FnMut(u32, &GeneratedMessage, bool) -> Result<()>,
) -> Result<()> {
    let corpus = Corpus::with_profile(SEED, count, Profile::Classic);
    let mut message = GeneratedMessage::default();
    let (mut number, mut rare) = (0, 0);
    let step = (count / RARE_MESSAGES).max(1);
    for at in 0.. {
        if u64::from(number) == count {
            break;
        }
        corpus.write_message(at, &mut message);
        if has_from(&message.bytes) || is_ambiguous(&message.bytes) {
            continue;
        }
        number += 1;
        message.flags = FlagSet::EMPTY;
        let is_rare = u64::from(number) >= rare * step && is_plain(&message.bytes);
        if is_rare {
            rare += 1;
            message.bytes.extend_from_slice(format!("They call it {RARE_WORD}.\n").as_bytes());
        }
        visit(number, &message, is_rare)?;
    }
    Ok(())
}

/// Returns `true` if the header repeats a field other than Received, or has a line that is not a
/// field or bytes beyond ASCII.
fn is_ambiguous(message: &[u8]) -> bool {
    let (mut seen, mut is_first) = (Vec::new(), true);
    for line in message.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty()) {
        let is_continued = line.starts_with(b" ") || line.starts_with(b"\t");
        if !line.is_ascii() {
            return true;
        }
        if std::mem::take(&mut is_first) && is_continued {
            return true;
        }
        if is_continued {
            continue;
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return true };
        let name = line[..colon].trim_ascii_end().to_ascii_lowercase();
        if seen.contains(&name) && name != b"received" {
            return true;
        }
        seen.push(name);
    }
    false
}

/// Returns `true` if text appended to the message becomes part of its body text.
fn is_plain(message: &[u8]) -> bool {
    let header = message.windows(2).position(|pair| pair == b"\n\n").unwrap_or(message.len());
    let header = String::from_utf8_lossy(&message[..header]).to_ascii_lowercase();
    !["multipart/", "base64", "utf-16", "format=flowed"].iter().any(|word| header.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_words_are_rare_and_messages_repeat() {
        let visit = |count| {
            let mut found = (Vec::new(), Vec::new());
            each(count, &mut |number, message, is_rare| {
                let has = String::from_utf8_lossy(&message.bytes).contains(RARE_WORD);
                assert_eq!(has, is_rare);
                assert!(!has_from(&message.bytes) && message.bytes.ends_with(b"\n"));
                found.0.push(content_hash(&message.bytes));
                found.1.extend(is_rare.then_some(number));
                Ok(())
            })
            .unwrap();
            found
        };
        let (contents, rare) = visit(300);
        assert_eq!(contents.len(), 300);
        assert!((5..=RARE_MESSAGES as usize + 1).contains(&rare.len()), "{rare:?}");
        assert_eq!(visit(300), (contents, rare));
    }

    #[test]
    fn ambiguous_headers_are_found() {
        let check = |text: &str, expected| {
            assert_eq!(is_ambiguous(text.as_bytes()), expected, "{text:?}");
        };
        check("Received: a\n\tb\nReceived: c\nSubject: d\n\nSubject: e\n", false);
        check("Subject: d\nSUBJECT : e\n\n", true);
        check("Subject: d\nno header\n\n", true);
        check("Subject: \u{e9}\n\n", true);
        check(" folded\nSubject: d\n\n", true);
    }

    #[test]
    fn only_texts_are_plain() {
        assert!(is_plain(b"Subject: a\nContent-Type: text/plain\n\nbase64 multipart/\n"));
        assert!(!is_plain(b"Content-Type: MULTIPART/mixed; boundary=x\n\n"));
        assert!(!is_plain(b"Content-Transfer-Encoding: Base64\n\n"));
    }
}
