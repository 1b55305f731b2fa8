//! A writer that knows an mbox and no server, with the locks of procmail and mutt.

use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use barid_testkit::corpus::Calendar;
use barid_testkit::disk;
use fastrand::Rng;
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Pid, test_kill_process};

use super::writer::{Writer, message};
use crate::limits::ANSWER_TIMEOUT;

/// A writer on an mbox.
pub(super) struct MboxWriter {
    path: PathBuf,
    name: String,
}

/// Held by the writer that removes a lock.
static BREAKING: Mutex<()> = Mutex::new(());

/// A dot lock. Removed when dropped.
struct DotLock(PathBuf);

impl Drop for DotLock {
    fn drop(&mut self) {
        // A lock that somebody has removed is gone, as it should be.
        drop(disk::remove_file(&self.0));
    }
}

impl MboxWriter {
    pub(super) fn new(path: PathBuf, number: usize) -> Self {
        Self { path, name: format!("files{number}") }
    }

    /// Waits for the dot lock, and removes that of a program that is gone, as Dovecot does.
    fn dot_lock(&self) -> io::Result<DotLock> {
        let lock = self.path.with_extension("lock");
        let own = self.path.with_extension(format!("{}.{}", self.name, std::process::id()));
        disk::write(&own, b"")?;
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        let linked = loop {
            match disk::hard_link(&own, &lock) {
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists
                        && Instant::now() < deadline =>
                {
                    // One of the writers only, which looks at the lock that is there then.
                    let breaking = BREAKING.lock().unwrap_or_else(PoisonError::into_inner);
                    if is_of_ended_process(&lock) {
                        drop(disk::remove_file(&lock));
                    }
                    drop(breaking);
                    std::thread::sleep(Duration::from_millis(5));
                }
                done => break done,
            }
        };
        disk::remove_file(&own)?;
        linked.map(|()| DotLock(lock))
    }

    /// Appends as procmail does.
    fn deliver(&self, rng: &mut Rng) -> io::Result<()> {
        let date = Calendar::asctime(i64::try_from(disk::unix_seconds()).unwrap_or(0));
        let text = format!("From w@example.org {date}\n{}\n", message(rng, &self.name));
        let lock = self.dot_lock()?;
        let file = disk::open_read_write(&self.path)?;
        fcntl_lock(&file, FlockOperation::LockExclusive)?;
        disk::append(&self.path, text.as_bytes())?;
        // In this order: closing any file ends the locks of another writer of this process.
        drop(file);
        drop(lock);
        Ok(())
    }

    /// Rewrites the file as mutt does: in place, under both locks.
    fn rewrite(&self, change: impl FnOnce(&mut Vec<String>)) -> io::Result<()> {
        let lock = self.dot_lock()?;
        let mut file = disk::open_read_write(&self.path)?;
        fcntl_lock(&file, FlockOperation::LockExclusive)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let mut messages = messages_of(&text);
        change(&mut messages);
        let text = messages.concat();
        file.rewind()?;
        file.write_all(text.as_bytes())?;
        file.set_len(text.len() as u64)?;
        drop(file);
        drop(lock);
        Ok(())
    }
}

impl Writer for MboxWriter {
    fn name(&self) -> &str {
        &self.name
    }

    fn act(&mut self, rng: &mut Rng) -> io::Result<u64> {
        match rng.u32(0..10) {
            0..5 => self.deliver(rng)?,
            5..9 => self.rewrite(|messages| {
                if !messages.is_empty() {
                    let place = rng.usize(0..messages.len());
                    let letter = ['R', 'F', 'A'][rng.usize(0..3)];
                    messages[place] = with_flag(&messages[place], letter);
                }
            })?,
            // The first message has the UIDVALIDITY, which mutt would drop with it.
            _ => self.rewrite(|messages| {
                if messages.len() > 1 {
                    messages.remove(rng.usize(1..messages.len()));
                }
            })?,
        }
        Ok(1)
    }
}

/// Returns `true` if a lock file has the content `PID:HOST` and that process has ended.
fn is_of_ended_process(lock: &Path) -> bool {
    let text = disk::read_text(lock).unwrap_or_default();
    let pid = text.split_once(':').and_then(|(pid, _)| Pid::from_raw(pid.parse().ok()?));
    pid.is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
}

/// Splits an mbox into messages with their From_ lines.
fn messages_of(text: &str) -> Vec<String> {
    let mut messages: Vec<String> = Vec::new();
    for line in text.split_inclusive('\n') {
        // Messages of the tests contain no other such line.
        if line.starts_with("From ") || messages.is_empty() {
            messages.push(String::new());
        }
        if let Some(message) = messages.last_mut() {
            message.push_str(line);
        }
    }
    messages
}

/// Returns a message with a flag switched: `R` in Status, others in X-Status.
fn with_flag(message: &str, letter: char) -> String {
    let field = if letter == 'R' { "Status" } else { "X-Status" };
    let prefix = format!("{field}: ");
    let end = message.find("\n\n").map_or(message.len(), |at| at + 1);
    let (header, body) = message.split_at(end);
    let old = header.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or("");
    let mut new = old.replace(letter, "");
    if !old.contains(letter) {
        new.insert(0, letter);
    }
    let kept = header.split_inclusive('\n').filter(|line| !line.starts_with(&prefix));
    let line = if new.is_empty() { String::new() } else { format!("{prefix}{new}\n") };
    kept.collect::<String>() + &line + body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_flags_are_edited() {
        let text = "From a\nS: x\nStatus: RO\n\nb\n\nFrom b\nS: y\n\nc\n";
        let messages = messages_of(text);
        assert_eq!(messages.len(), 2);
        assert_eq!(messages.concat(), text);
        assert_eq!(with_flag(&messages[0], 'R'), "From a\nS: x\nStatus: O\n\nb\n\n");
        assert_eq!(with_flag(&messages[1], 'F'), "From b\nS: y\nX-Status: F\n\nc\n");
    }
}
