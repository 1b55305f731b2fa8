//! The messages that a script appends, from an mbox.

use std::fmt::Write as _;

/// A message and its date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScriptMessage {
    /// Date and time of the From_ line as APPEND has them, without quotes.
    pub(super) date: String,
    /// The message, with CRLF and with the empty line before the next From_ line.
    pub(super) text: Vec<u8>,
}

/// Messages that are used one after the other, and then from the first again.
#[derive(Clone, Debug, Default)]
pub(super) struct MessageSource {
    messages: Vec<ScriptMessage>,
    next: usize,
}

impl MessageSource {
    /// Takes an mbox apart.
    pub(super) fn new(mbox: &[u8]) -> Self {
        let mut messages: Vec<ScriptMessage> = Vec::new();
        let mbox = mbox.strip_suffix(b"\n").unwrap_or(mbox);
        for line in mbox.split(|byte| *byte == b'\n') {
            match date_of(line) {
                Some(date) => messages.push(ScriptMessage { date, text: Vec::new() }),
                None => {
                    let Some(message) = messages.last_mut() else { continue };
                    message.text.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
                    message.text.extend_from_slice(b"\r\n");
                }
            }
        }
        Self { messages, next: 0 }
    }

    /// Returns the number of messages.
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns the next message; `None` if there are no messages.
    pub(super) fn next(&mut self) -> Option<ScriptMessage> {
        let message = self.messages.get(self.next % self.messages.len().max(1))?;
        self.next += 1;
        Some(message.clone())
    }
}

/// Returns the date of a From_ line (`From sender Fri Feb 22 17:06:23 2008 +0200`, the zone may be
/// missing); `None` for another line.
fn date_of(line: &[u8]) -> Option<String> {
    let line = std::str::from_utf8(line.strip_prefix(b"From ")?).ok()?;
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, weekday, month, day, time, year, zone @ ..] = words.as_slice() else { return None };
    let is_date = weekday.len() == 3
        && month.len() == 3
        && day.parse::<u8>().is_ok()
        && time.len() == 8
        && year.len() == 4
        && year.parse::<u16>().is_ok();
    let mut date = String::new();
    let zone = zone.first().unwrap_or(&"+0000");
    write!(date, "{day:>2}-{month}-{year} {time} {zone}").ok().filter(|()| is_date)?;
    Some(date)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_mbox_is_taken_apart() {
        let mbox = "From a@b  Fri Feb  2 17:06:23 2008\nFrom: x\n\nFrom here\n\nFrom a@b Sat Feb \
                    23 17:06:23 2008 +0200\n\r\nlast\n";
        let mut source = MessageSource::new(mbox.as_bytes());
        assert_eq!(source.len(), 2);
        let first = source.next().unwrap();
        assert_eq!(first.date, " 2-Feb-2008 17:06:23 +0000");
        assert_eq!(first.text, b"From: x\r\n\r\nFrom here\r\n\r\n");
        let second = source.next().unwrap();
        assert_eq!(
            (second.date.as_str(), &*second.text),
            ("23-Feb-2008 17:06:23 +0200", &b"\r\nlast\r\n"[..])
        );
        assert_eq!(source.next(), Some(first));
        assert_eq!(MessageSource::default().next(), None);
    }
}
