//! The mail to learn and classify, and word lists of several sizes.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use barid_testkit::corpus::{Corpus, GeneratedMessage};
use barid_testkit::disk;
use xxhash_rust::xxh3::xxh3_64;

use super::Options;
use crate::lab::{BARE, without_from};

/// Mail of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Mail {
    /// All messages as an mbox, which is never written to.
    pub(crate) mbox: PathBuf,
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

/// Everything made before the rounds.
#[derive(Clone, Debug)]
pub(crate) struct Material {
    pub(crate) spam: Mail,
    pub(crate) ham: Mail,
    /// A folder with messages of ham, one file each.
    pub(crate) singles: PathBuf,
}

impl Material {
    /// Generates mail, or copies the mail that the options name.
    pub(crate) fn make(folder: &Path, options: &Options) -> Result<Self> {
        let singles = folder.join("singles");
        disk::create_dir_all(&singles).with_context(|| singles.display().to_string())?;
        let spam = make(folder, Kind::Spam, options, &mut |_, _| Ok(()))?;
        let step = (options.ham / options.singles.max(1)).max(1);
        let ham = make(folder, Kind::Ham, options, &mut |number, message| {
            let index = number / step;
            if number % step > 0 || index >= options.singles {
                return Ok(());
            }
            let path = singles.join(format!("{index:06}"));
            disk::write(&path, message).with_context(|| path.display().to_string())
        })?;
        Ok(Self { spam, ham, singles })
    }
}

/// The kind of mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Spam,
    Ham,
}

/// Makes an mbox of a kind; `visit` sees each message.
fn make(
    folder: &Path,
    kind: Kind,
    options: &Options,
    visit: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
) -> Result<Mail> {
    let (name, count, given) = match kind {
        Kind::Spam => ("spam.mbox", options.spam, &options.spam_mail),
        Kind::Ham => ("ham.mbox", options.ham, &options.ham_mail),
    };
    let mbox = folder.join(name);
    let at = || mbox.display().to_string();
    let mut file = BufWriter::new(disk::create(&mbox).with_context(at)?);
    let mut text = Vec::new();
    let mut put = |number: u64, message: &GeneratedMessage| {
        text.clear();
        BARE.render(message, &mut text);
        file.write_all(&text).with_context(at)?;
        visit(number, &message.bytes)
    };
    match given {
        Some(folder) => each_of(folder, count, &mut put)?,
        None => each_generated(kind, count, &mut put)?,
    }
    file.into_inner().with_context(at)?.sync_all().with_context(at)?;
    Ok(Mail { bytes: disk::size(&mbox)?, mbox, count })
}

/// Generates mail; the two kinds have no message in common.
fn each_generated(
    kind: Kind,
    count: u64,
    put: &mut dyn FnMut(u64, &GeneratedMessage) -> Result<()>,
) -> Result<()> {
    let seed = if kind == Kind::Spam { 1 } else { 2 };
    let corpus = Corpus::new(seed, count);
    let mut message = GeneratedMessage::default();
    for number in 0..count {
        corpus.write_message(number, &mut message);
        put(number, &message)?;
    }
    Ok(())
}

/// Visits `count` messages of a folder, with LF, repeating the folder as often as needed. Each copy
/// gets a distinct header field, as barid learns the same message only once.
fn each_of(
    folder: &Path,
    count: u64,
    put: &mut dyn FnMut(u64, &GeneratedMessage) -> Result<()>,
) -> Result<()> {
    let files = disk::list_files(folder).with_context(|| folder.display().to_string())?;
    ensure!(!files.is_empty(), "{}: no messages", folder.display());
    let mut message = GeneratedMessage::default();
    for number in 0..count {
        let (pass, index) = (number / files.len() as u64, number % files.len() as u64);
        let path = &files[usize::try_from(index)?];
        let bytes = disk::read(path).with_context(|| path.display().to_string())?;
        message.bytes.clear();
        writeln!(&mut message.bytes, "X-Copy: {pass}-{index}")?;
        put_lf(without_from(&bytes), &mut message.bytes);
        put(number, &message)?;
    }
    Ok(())
}

fn put_lf(bytes: &[u8], out: &mut Vec<u8>) {
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        out.extend_from_slice(line.strip_suffix(b"\r\n").unwrap_or(line));
        if line.ends_with(b"\r\n") {
            out.push(b'\n');
        }
    }
}

/// Writes a word list of about `tokens` tokens as text, in byte order: tokens of `dump`, the text
/// of a list, and as many invented ones as are missing.
pub(crate) fn write_list(dump: &str, tokens: u64, path: &Path) -> Result<()> {
    let (own, words): (Vec<&str>, Vec<&str>) = dump.lines().partition(|line| is_own(line));
    let date = own.first().and_then(|line| line.rsplit(' ').next()).unwrap_or("0");
    let wanted = usize::try_from(tokens)?;
    // Evenly spaced, to keep the proportion of words of all messages.
    let kept = words.len().min(wanted);
    let mut lines: BTreeSet<String> =
        (0..kept).map(|at| words[at * words.len() / kept.max(1)].to_owned()).collect();
    for number in 0.. {
        if lines.len() >= wanted {
            break;
        }
        lines.insert(invented(number, date));
    }
    let at = || path.display().to_string();
    let mut file = BufWriter::new(disk::create(path).with_context(at)?);
    for line in own.iter().copied().chain(lines.iter().map(String::as_str)) {
        file.write_all(line.as_bytes()).and_then(|()| file.write_all(b"\n")).with_context(at)?;
    }
    file.flush().with_context(at)
}

/// Returns `true` if a line of a dump is about the list itself.
fn is_own(line: &str) -> bool {
    line.starts_with('.')
}

/// Returns a token that no message has, with counts of a few messages.
fn invented(number: u64, date: &str) -> String {
    let mut hash = xxh3_64(&number.to_le_bytes());
    let len = 5 + hash % 10;
    let mut token = if hash.is_multiple_of(16) { "subj:" } else { "" }.to_owned();
    for _ in 0..len {
        hash = hash.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        token.push(char::from(b'a' + (hash >> 40) as u8 % 26));
    }
    let (spam, ham) = (hash % 3, 1 + hash % 2);
    write!(token, " {spam} {ham} {date}").expect("because writing to a string does not fail");
    token
}

#[cfg(test)]
mod tests {
    use barid_testkit::Scratch;

    use super::*;

    #[test]
    fn lists_have_the_tokens_that_are_wanted() {
        let scratch = Scratch::new("lists").unwrap();
        let path = scratch.path().join("list");
        let dump = ".MSG_COUNT 3 2 20261122\nalpha 1 0 20261122\nbeta 2 2 20261122\nmu 0 1 0\n";
        let check = |tokens, words: &[&str]| {
            write_list(dump, tokens, &path).unwrap();
            let text = disk::read_text(&path).unwrap();
            let mut lines: Vec<&str> = text.lines().collect();
            assert_eq!(lines.remove(0), ".MSG_COUNT 3 2 20261122");
            assert_eq!(lines.len() as u64, tokens);
            assert!(lines.is_sorted(), "{lines:?}");
            assert!(words.iter().all(|word| lines.contains(word)), "{lines:?}");
        };
        check(1, &["alpha 1 0 20261122"]);
        check(3, &["alpha 1 0 20261122", "beta 2 2 20261122", "mu 0 1 0"]);
        check(1000, &["alpha 1 0 20261122", "beta 2 2 20261122", "mu 0 1 0"]);
    }

    #[test]
    fn mail_of_a_folder_comes_again() {
        let scratch = Scratch::new("mail").unwrap();
        disk::write(&scratch.path().join("1"), b"From a b\r\nSubject: a\r\n\r\nb\r\n").unwrap();
        disk::write(&scratch.path().join("2"), b"Subject: c\n\nd").unwrap();
        let mut texts = Vec::new();
        each_of(scratch.path(), 3, &mut |_, message| {
            texts.push(String::from_utf8(message.bytes.clone()).unwrap());
            Ok(())
        })
        .unwrap();
        let expected = [
            "X-Copy: 0-0\nSubject: a\n\nb\n",
            "X-Copy: 0-1\nSubject: c\n\nd",
            "X-Copy: 1-0\nSubject: a\n\nb\n",
        ];
        assert_eq!(texts, expected);
    }
}
