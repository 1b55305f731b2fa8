//! Identifiers and other facts that the scanner finds in a message besides its tokens.

use std::ops::Range;

/// Identifiers and other facts of the last message, for reports and for writing it again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The last `Message-ID`, cut off at three times the longest token.
    pub message_id: Vec<u8>,
    /// The first queue id of the `Received` fields.
    pub queue_id: Vec<u8>,
    /// The first IP address in brackets in the `Received` fields that is not `127.0.0.1`.
    pub address: Vec<u8>,
    /// `true` if an empty line ended a header.
    pub has_body: bool,
    /// Byte ranges in the message of the header lines that were skipped because they begin with
    /// [`Options::spam_header_name`](crate::Options::spam_header_name), and of their continuation
    /// lines.
    pub own_lines: Vec<Range<usize>>,
}

impl Facts {
    pub(super) fn reset(&mut self) {
        self.message_id.clear();
        self.queue_id.clear();
        self.address.clear();
        self.has_body = false;
        self.own_lines.clear();
    }

    pub(super) fn add_own_lines(&mut self, range: Range<usize>) {
        match self.own_lines.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.own_lines.push(range),
        }
    }

    pub(super) fn set_message_id(&mut self, value: &[u8], token_len_max: usize) {
        let value = without_space(value);
        self.message_id.clear();
        self.message_id.extend_from_slice(&value[..value.len().min(3 * token_len_max)]);
    }

    /// Stores the queue id of ` id `, white space and the id, which may be in angle brackets. Only
    /// the first one of a message is stored.
    pub(super) fn set_queue_id(&mut self, text: &[u8], token_len_max: usize) {
        if !self.queue_id.is_empty() || text.len() >= token_len_max {
            return;
        }
        let text = without_space(text);
        let text = without_space(text.strip_prefix(b"id").unwrap_or(text));
        let text = text.strip_prefix(b"<").unwrap_or(text);
        let text = text.strip_suffix(b">").unwrap_or(text);
        self.queue_id.extend_from_slice(text);
    }

    pub(super) fn set_address(&mut self, address: &[u8]) {
        if self.address.is_empty() && address != b"127.0.0.1" {
            self.address.extend_from_slice(address);
        }
    }
}

fn without_space(text: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = text.iter().position(|byte| !is_space(byte)).unwrap_or(text.len());
    &text[start..]
}
