//! Standard error of the other processes: each has a pipe of its own, whose lines are logged with
//! the process that wrote them.
//!
//! They are what libraries print, and the messages of panics. A process that writes much loses its
//! pipe, so that it cannot fill the log.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use rustix::io::Errno;

use crate::limits::{LOG_VALUE_LEN_MAX, STDERR_LINES_MAX};

/// The process that writes to a pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StderrWriter {
    /// The name of its role.
    pub(super) role: &'static str,
    pub(super) pid: u32,
    /// The user of a worker.
    pub(super) user: Option<String>,
}

#[derive(Debug)]
struct StderrPipe {
    pipe: OwnedFd,
    writer: StderrWriter,
    /// A line that has not ended.
    line: Vec<u8>,
    lines_left: usize,
}

/// The pipes, by the tokens of the event loop.
#[derive(Debug, Default)]
pub(super) struct StderrPipes(HashMap<u64, StderrPipe>);

impl StderrPipes {
    /// Adds a pipe, which does not block.
    pub(super) fn add(&mut self, token: u64, pipe: OwnedFd, writer: StderrWriter) {
        let (line, lines_left) = (Vec::new(), STDERR_LINES_MAX);
        self.0.insert(token, StderrPipe { pipe, writer, line, lines_left });
    }

    pub(super) fn has(&self, token: u64) -> bool {
        self.0.contains_key(&token)
    }

    /// Reads what is there, as far as a buffer suffices; returns its whole lines.
    pub(super) fn read(&mut self, token: u64) -> Option<(StderrWriter, Vec<String>)> {
        let pipe = self.0.get_mut(&token)?;
        let mut piece = [0; 4096];
        let len = match rustix::io::read(&pipe.pipe, &mut piece) {
            Ok(len) => len,
            Err(Errno::AGAIN | Errno::INTR) => return None,
            Err(_) => 0,
        };
        let mut lines = pipe.take(&piece[..len]);
        let writer = pipe.writer.clone();
        let is_too_much = pipe.lines_left == 0;
        if is_too_much {
            lines.push("(more is not logged)".to_owned());
        }
        if len == 0 || is_too_much {
            self.0.remove(&token);
        }
        Some((writer, lines))
    }
}

impl StderrPipe {
    /// Takes bytes, or the end; returns the lines that end with them.
    fn take(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        let mut end = |line: &mut Vec<u8>, left: &mut usize| {
            if !line.is_empty() && *left > 0 {
                lines.push(String::from_utf8_lossy(line).into_owned());
                *left -= 1;
            }
            line.clear();
        };
        for byte in bytes {
            let is_end = *byte == b'\n';
            if !is_end {
                self.line.push(*byte);
            }
            if is_end || self.line.len() >= LOG_VALUE_LEN_MAX {
                end(&mut self.line, &mut self.lines_left);
            }
        }
        if bytes.is_empty() {
            end(&mut self.line, &mut self.lines_left);
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipes() -> (StderrPipes, OwnedFd, StderrWriter) {
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        let writer = StderrWriter { role: "worker", pid: 7, user: Some("ann".to_owned()) };
        let mut pipes = StderrPipes::default();
        pipes.add(3, read, writer.clone());
        (pipes, write, writer)
    }

    #[test]
    fn lines_belong_to_who_wrote_them() {
        let (mut pipes, write, writer) = pipes();
        let mut check = |text: &str, expected: &[&str]| {
            rustix::io::write(&write, text.as_bytes()).unwrap();
            let (by, lines) = pipes.read(3).unwrap();
            assert_eq!((by, lines.join("|")), (writer.clone(), expected.join("|")));
        };
        check("one\n\ntw", &["one"]);
        check("o\nrest", &["two"]);
        assert!(pipes.read(3).is_none() && pipes.has(3));
        drop(write);
        assert_eq!(pipes.read(3).unwrap().1, ["rest"]);
        assert!(!pipes.has(3));
    }

    #[test]
    fn who_writes_much_loses_the_pipe() {
        let (mut pipes, write, _) = pipes();
        let mut lines = Vec::new();
        while pipes.has(3) {
            rustix::io::write(&write, &[b'\n', b'x', b'\n'].repeat(50)).unwrap();
            lines.extend(pipes.read(3).unwrap().1);
        }
        assert_eq!(lines.len(), STDERR_LINES_MAX + 1);
        assert_eq!(lines.last().unwrap(), "(more is not logged)");
        assert!(rustix::io::write(&write, b"x").is_err());
    }
}
