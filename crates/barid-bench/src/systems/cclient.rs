//! UW c-client behind its driver.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use barid_testkit::peers::CClient;
use barid_testkit::watch::so_far;
use barid_types::{Flag, FlagSet};

use super::answer::{Answer, content_hash};
use crate::lab::{Figures, with_libraries};
use crate::limits::BODIES_AT_ONCE;

/// The prefixes of error messages: of the library, and of the driver.
const ERRORS: [&str; 4] = ["2 ", "needs ", "not opened", "unknown "];

/// Characters of a command that an error shows.
const COMMAND_SHOWN: usize = 80;

/// Returns the answer to a command.
///
/// # Errors
///
/// Returns an error if the library reports one.
pub(crate) fn command(session: &mut CClient, text: &str) -> Result<Vec<String>> {
    session.messages.clear();
    let lines = session.command(text).context("c-client")?;
    let is_error = |message: &&String| ERRORS.iter().any(|prefix| message.starts_with(prefix));
    if let Some(message) = session.messages.iter().find(is_error) {
        let words: String = text.chars().take(COMMAND_SHOWN).collect();
        bail!("c-client at {words}: {message}");
    }
    Ok(lines)
}

/// Returns the number of messages of the open mailbox.
pub(crate) fn count(session: &mut CClient) -> Result<u64> {
    let status = command(session, "status")?.concat();
    let count = status.split(' ').next().and_then(|word| word.parse().ok());
    count.with_context(|| format!("c-client's status is {status:?}"))
}

/// Returns the texts of all messages of the open mailbox.
pub(crate) fn contents(session: &mut CClient) -> Result<Answer> {
    let count = count(session)?;
    let mut hashes = Vec::with_capacity(count as usize);
    for first in (1..=count).step_by(BODIES_AT_ONCE) {
        let last = first + BODIES_AT_ONCE as u64 - 1;
        let mut message = Vec::new();
        for line in command(session, &format!("bodies {first} {last}"))? {
            match line.strip_prefix(' ') {
                Some(text) => {
                    message.extend_from_slice(text.as_bytes());
                    message.push(b'\n');
                }
                None => {
                    ensure!(line == "=", "c-client says {line:?}");
                    hashes.push(content_hash(&message));
                    message.clear();
                }
            }
        }
    }
    Ok(Answer::Contents(hashes))
}

/// Returns the size of each message of the open mailbox.
pub(crate) fn sizes(session: &mut CClient) -> Result<Answer> {
    let size = |line: &String| {
        let size = line.parse().with_context(|| format!("the size {line:?}"));
        size.map(|size| (size, None))
    };
    command(session, "sizes")?.iter().map(size).collect::<Result<_>>().map(Answer::Summaries)
}

/// Parses the flags of a line of the driver.
pub(crate) fn flags(line: &str) -> FlagSet {
    let flag = |letter| match letter {
        'A' => Some(Flag::Answered),
        'D' => Some(Flag::Deleted),
        'F' => Some(Flag::Flagged),
        'S' => Some(Flag::Seen),
        'T' => Some(Flag::Draft),
        'R' => Some(Flag::Recent),
        _ => None,
    };
    line.split('-').next().unwrap_or_default().chars().filter_map(flag).collect()
}

/// Returns the figures of a session's process so far.
pub(crate) fn figures_so_far(session: &CClient) -> Result<Figures> {
    Ok(Figures::of_session(&so_far(session.pid().context("c-client has gone")?)))
}

/// Ends a session and returns the figures of its whole process.
pub(crate) fn figures_of(session: CClient) -> Result<Figures> {
    let watched = so_far(session.pid().context("c-client has gone")?);
    let usage = session.quit().context("c-client")?;
    // The kernel's figure at exit includes the peak of the parent process.
    Ok(Figures { maxrss_bytes: watched.maxrss, ..Figures::of_process(&usage) })
}

/// Returns the library and the program `mailutil`, with what they load.
pub(crate) fn programs() -> Vec<PathBuf> {
    let output = Command::new("cc").arg("-print-file-name=libc-client.so").output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let library = PathBuf::from(String::from_utf8_lossy(&text).trim());
    let mut files = if library.is_absolute() { with_libraries(&library) } else { Vec::new() };
    files.push("/usr/bin/mailutil".into());
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_flags() {
        assert_eq!(flags("FS- Seen"), FlagSet::EMPTY.with(Flag::Flagged).with(Flag::Seen));
        assert_eq!(flags("-"), FlagSet::EMPTY);
    }
}
