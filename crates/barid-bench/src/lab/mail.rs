//! Mail that is made for a bench.

use barid_testkit::boxes::{MboxOptions, MboxVariant};

/// An mbox without status headers: every message is new, and filters have nothing to learn of them.
pub(crate) const BARE: MboxOptions =
    MboxOptions { variant: MboxVariant::Mboxo, status: false, crlf: false };

/// Whether there is a line that a program quotes in an mbox.
pub(crate) fn has_from(bytes: &[u8]) -> bool {
    bytes.split(|byte| *byte == b'\n').any(|line| {
        let quotes = line.iter().take_while(|byte| **byte == b'>').count();
        line[quotes..].starts_with(b"From ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_lines_are_seen() {
        assert!(has_from(b"a\nFrom b\n"));
        assert!(has_from(b">>From b\n"));
        assert!(!has_from(b"a From b\n>Fro\n"));
    }
}
