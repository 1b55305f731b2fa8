//! Messages that mailboxes are filled with.

use std::io;
use std::path::PathBuf;

use barid_testkit::corpus::Corpus;
use barid_testkit::peers::PeerUser;
use barid_testkit::{Scratch, corpora, disk};

/// Largest message that is taken.
const MESSAGE_LEN_MAX: usize = 40_000;
/// Most messages of a mailing list, in their order, so that there are threads.
const LIST_MAX: usize = 400;
/// Most messages of parsers' torture sets.
const BROKEN_MAX: usize = 800;
/// Number of generated messages.
const GENERATED: u64 = 100;
/// Date of the first message.
const FIRST_DATE: i64 = 1_583_020_800;
/// Time between two messages; not a divisor of a day.
const INTERVAL_S: i64 = 7_777;

/// A message of the pool.
#[derive(Clone, Debug)]
pub struct PoolMessage {
    /// A file with the message, which others may link to.
    pub path: PathBuf,
    /// The message as in the file.
    pub bytes: Vec<u8>,
    /// Time of the file: seconds since 1970.
    pub date: i64,
}

/// Messages on the disk, well-formed and malformed ones.
#[derive(Debug)]
pub struct MailPool {
    /// List mail and generated mail.
    pub regular: Vec<PoolMessage>,
    /// Messages made to break parsers.
    pub broken: Vec<PoolMessage>,
    // The folder of the files.
    _scratch: Option<Scratch>,
}

impl MailPool {
    /// Takes messages from the corpora; where one is missing, generated mail replaces it.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn load() -> io::Result<Self> {
        let scratch = Scratch::new("imap-pool")?;
        let mut regular = of_corpus("linux-man/msgs", LIST_MAX, false)?;
        let generated = Corpus::new(5, GENERATED);
        regular.extend((0..GENERATED).map(|number| generated.message(number).bytes));
        let broken = of_corpus("torture", BROKEN_MAX, true)?;
        let user = PeerUser::get()?;
        let mut number = 0;
        let mut write = |bytes: Vec<u8>| {
            let path = scratch.path().join(format!("{number}"));
            let date = FIRST_DATE + number * INTERVAL_S;
            number += 1;
            disk::write(&path, &bytes)?;
            disk::set_mtime(&disk::open_append(&path)?, date)?;
            user.take(&path)?;
            Ok(PoolMessage { path, bytes, date })
        };
        let regular = regular.into_iter().map(&mut write).collect::<io::Result<_>>()?;
        let broken = broken.into_iter().map(&mut write).collect::<io::Result<_>>()?;
        scratch.hand_over()?;
        Ok(Self { regular, broken, _scratch: Some(scratch) })
    }

    /// Makes a pool of messages whose files may not exist.
    #[cfg(test)]
    pub(crate) fn of(regular: Vec<PoolMessage>, broken: Vec<PoolMessage>) -> Self {
        Self { regular, broken, _scratch: None }
    }
}

/// Returns messages of a corpus.
fn of_corpus(name: &str, count_max: usize, is_sampled: bool) -> io::Result<Vec<Vec<u8>>> {
    let files = corpora::files(name).unwrap_or_default();
    let step = if is_sampled { files.len().div_ceil(count_max).max(1) } else { 1 };
    let mut messages = Vec::new();
    for file in files.iter().step_by(step) {
        if disk::size(file)? > MESSAGE_LEN_MAX as u64 || messages.len() == count_max {
            continue;
        }
        let bytes = corpora::read(file)?;
        if is_message(&bytes) && !has_owned_field(&bytes) {
            messages.push(bytes);
        }
    }
    Ok(messages)
}

/// Returns `true` for a file that starts with a header field: not a mailbox, an index or a script.
fn is_message(bytes: &[u8]) -> bool {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
    let is_name_byte = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    name.len() < line.len() && !name.is_empty() && name.iter().all(is_name_byte)
}

/// Fields that mailbox formats own. Some servers leave them out of a message in every format, and
/// some only in an mbox.
const OWNED: [&str; 7] =
    ["status:", "x-status:", "x-keywords:", "x-uid:", "x-imap:", "x-imapbase:", "content-length:"];

/// Returns `true` for a message with a field in its header that a mailbox format owns.
fn has_owned_field(bytes: &[u8]) -> bool {
    let lines = bytes.split(|byte| *byte == b'\n').map(|line| line.trim_ascii_end());
    let mut header = lines.take_while(|line| !line.is_empty());
    header.any(|line| {
        let starts_with = |name: &&str| {
            line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes()))
        };
        OWNED.iter().any(starts_with)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_recognised() {
        let check = |text: &str, expected| assert_eq!(is_message(text.as_bytes()), expected);
        check("Subject: x\n\nx\n", true);
        check("From a@b Thu Jan  1 00:00:00 1970\n", false);
        check("ok fetch 1 body[]\n", false);
        check("", false);
    }

    #[test]
    fn fields_of_formats_are_recognised() {
        let check = |text: &str, expected| assert_eq!(has_owned_field(text.as_bytes()), expected);
        check("Subject: x\r\nstatus: RO\r\n\r\nx\n", true);
        check("Subject: x\n\nStatus: RO\n", false);
        check("X-Status-Of: x\n", false);
    }
}
