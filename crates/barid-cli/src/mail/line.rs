//! A message as a line for people.

use barid::Summary;
use barid::message::{decode_words, display_name};
use barid_types::{Flag, FlagSet, Uid};

use crate::output::date::write_short;
use crate::output::escape::{Space, write_visible_str};
use crate::output::style::Style;
use crate::output::table::{pad, width, write_cut, write_left};

/// Columns of the sender if lines are not cut.
const SENDER_WIDTH: usize = 24;
/// Letters of the flags, in display order.
const FLAG_LETTERS: [(Flag, u8); 4] =
    [(Flag::Answered, b'A'), (Flag::Flagged, b'F'), (Flag::Deleted, b'D'), (Flag::Draft, b'T')];

/// Writes messages as lines: UID, flags, date, sender, subject.
#[derive(Debug)]
pub(crate) struct MessageLine {
    /// Columns of a line; `None` for whole lines.
    width: Option<usize>,
    sender_width: usize,
    uid_width: usize,
    style: Style,
    /// A buffer for text that is cut.
    text: Vec<u8>,
}

impl MessageLine {
    /// Creates a writer for lines of `width` columns, for messages with UIDs below `uidnext`.
    pub(crate) fn new(width: Option<usize>, style: Style, uidnext: Uid) -> Self {
        let uid_width = (uidnext.get() - 1).max(1).ilog10() as usize + 1;
        let sender_width = width.map_or(SENDER_WIDTH, |width| (width / 4).clamp(10, 28));
        Self { width, sender_width, uid_width, style, text: Vec::new() }
    }

    /// Appends the line of one message.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>, summary: &Summary<'_>) {
        self.write_branched(out, b"", summary);
    }

    /// Appends the line of one message with the branches of a tree before the subject.
    pub(crate) fn write_branched(
        &mut self,
        out: &mut Vec<u8>,
        branches: &[u8],
        summary: &Summary<'_>,
    ) {
        let style = self.style;
        let unseen = !summary.flags.contains(Flag::Seen);
        out.extend_from_slice(style.dim.as_bytes());
        self.write_uid(out, summary.uid);
        out.extend_from_slice(style.reset.as_bytes());
        out.extend_from_slice(b"  ");
        write_flags(out, summary.flags);
        out.extend_from_slice(b"  ");
        out.extend_from_slice(style.dim.as_bytes());
        let arrived = (summary.internal_date.unix_seconds, summary.internal_date.zone_minutes);
        let sent = summary.sent_date.map(|date| (date.unix_seconds, date.zone_minutes));
        let (unix_seconds, zone_minutes) = sent.unwrap_or(arrived);
        write_short(out, unix_seconds, zone_minutes);
        out.extend_from_slice(style.reset.as_bytes());
        out.extend_from_slice(b"  ");
        if unseen {
            out.extend_from_slice(style.bold.as_bytes());
        }
        self.write_sender(out, summary.fields.from);
        out.extend_from_slice(b"  ");
        self.write_subject(out, branches, summary.fields.subject);
        if unseen {
            out.extend_from_slice(style.reset.as_bytes());
        }
        out.push(b'\n');
    }

    /// Appends the line of a missing message that has replies.
    pub(crate) fn write_missing(&mut self, out: &mut Vec<u8>, branches: &[u8]) {
        pad(out, self.subject_column());
        out.extend_from_slice(branches);
        out.extend_from_slice(self.style.dim.as_bytes());
        out.extend_from_slice(b"(not here)");
        out.extend_from_slice(self.style.reset.as_bytes());
        out.push(b'\n');
    }

    /// Returns the columns before the subject.
    fn subject_column(&self) -> usize {
        self.uid_width + 2 + 5 + 2 + crate::output::date::SHORT_WIDTH + 2 + self.sender_width + 2
    }

    fn write_uid(&self, out: &mut Vec<u8>, uid: Uid) {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(uid.get());
        pad(out, self.uid_width.saturating_sub(digits.len()));
        out.extend_from_slice(digits.as_bytes());
    }

    fn write_sender(&mut self, out: &mut Vec<u8>, from: Option<&[u8]>) {
        let (cells, cut, text) = (self.sender_width, self.width.is_some(), &mut self.text);
        text.clear();
        write_visible_str(text, &display_name(from.unwrap_or_default()), Space::OneLine);
        let text = std::str::from_utf8(text).expect("because visible text is UTF-8");
        if cut {
            write_left(out, text, cells);
        } else {
            out.extend_from_slice(text.as_bytes());
            pad(out, cells.saturating_sub(width(text)));
        }
    }

    fn write_subject(&mut self, out: &mut Vec<u8>, branches: &[u8], raw: Option<&[u8]>) {
        let column = self.subject_column();
        let subject = decode_words(raw.unwrap_or_default());
        let Some(cells) = self.width else {
            out.extend_from_slice(branches);
            write_visible_str(out, &subject, Space::OneLine);
            return;
        };
        let text = &mut self.text;
        text.clear();
        text.extend_from_slice(branches);
        write_visible_str(text, &subject, Space::OneLine);
        let text = std::str::from_utf8(text).expect("because visible text is UTF-8");
        write_cut(out, text, cells.saturating_sub(column).max(10));
    }
}

/// Writes `NAFDT`, with a dash for each flag that is not set.
fn write_flags(out: &mut Vec<u8>, flags: FlagSet) {
    let mut letters = *b"-----";
    if !flags.contains(Flag::Seen) {
        letters[0] = b'N';
    }
    for (at, (flag, letter)) in FLAG_LETTERS.into_iter().enumerate() {
        if flags.contains(flag) {
            letters[at + 1] = letter;
        }
    }
    out.extend_from_slice(&letters);
}
