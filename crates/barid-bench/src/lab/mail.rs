//! Mail generated for a bench.

use barid_testkit::boxes::{MboxOptions, MboxVariant};

/// An mbox without status headers: every message is new, and filters can learn nothing from them.
pub(crate) const BARE: MboxOptions =
    MboxOptions { variant: MboxVariant::Mboxo, status: false, crlf: false };

/// Returns `true` if a line would be quoted in an mbox by some programs.
pub(crate) fn has_from(bytes: &[u8]) -> bool {
    bytes.split(|byte| *byte == b'\n').any(|line| {
        let quotes = line.iter().take_while(|byte| **byte == b'>').count();
        line[quotes..].starts_with(b"From ")
    })
}

/// Returns a message without its From_ line.
pub(crate) fn without_from(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
    if bytes.starts_with(b"From ") { &bytes[end..] } else { bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_from_line_is_left_out() {
        assert_eq!(without_from(b"From a b\nSubject: c\n"), b"Subject: c\n");
        assert_eq!(without_from(b"From: a\n"), b"From: a\n");
        assert_eq!(without_from(b"From a"), b"");
    }

    #[test]
    fn quoted_lines_are_seen() {
        assert!(has_from(b"a\nFrom b\n"));
        assert!(has_from(b">>From b\n"));
        assert!(!has_from(b"a From b\n>Fro\n"));
    }
}
