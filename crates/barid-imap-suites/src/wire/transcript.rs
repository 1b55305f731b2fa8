//! Record of a session for the report of a failure.

use crate::limits::{SHOWN_LEN_MAX, TRANSCRIPT_LEN_MAX};

/// Lines that were sent and received, the newest up to a bound.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    text: String,
    is_cut: bool,
}

impl Transcript {
    /// Adds bytes that were sent (`C: `) or received (`S: `).
    pub(super) fn add(&mut self, label: &str, bytes: &[u8]) {
        if self.text.len() > TRANSCRIPT_LEN_MAX {
            // The end of a session says more than its start.
            let half = self.text.len() / 2;
            let from = self.text[half..].find('\n').map_or(self.text.len(), |at| half + at + 1);
            self.text.drain(..from);
            self.is_cut = true;
        }
        self.text.push_str(label);
        self.text.push_str(&shown(bytes));
        self.text.push('\n');
    }

    /// Returns the lines.
    pub fn text(&self) -> String {
        if self.is_cut { format!("...\n{}", self.text) } else { self.text.clone() }
    }
}

/// Returns bytes as text in which line ends and unprintable bytes are escaped; cut after a bound.
pub fn shown(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes.iter().take(SHOWN_LEN_MAX) {
        match byte {
            b'\r' => text.push_str("\\r"),
            b'\n' => text.push_str("\\n"),
            0x20..0x7f => text.push(char::from(*byte)),
            other => text.push_str(&format!("\\x{other:02x}")),
        }
    }
    if bytes.len() > SHOWN_LEN_MAX {
        text.push_str(&format!("... ({} bytes)", bytes.len()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_one_line() {
        assert_eq!(shown(b"a\r\n\0\xe4"), "a\\r\\n\\x00\\xe4");
        let long = shown(&[b'x'; SHOWN_LEN_MAX + 1]);
        assert!(long.ends_with("x... (2001 bytes)"), "{long}");
    }

    #[test]
    fn the_end_is_kept() {
        let mut transcript = Transcript::default();
        for number in 0..TRANSCRIPT_LEN_MAX / 500 {
            transcript.add("S: ", format!("{number} {}", "x".repeat(1_000)).as_bytes());
        }
        let text = transcript.text();
        assert!(text.len() < TRANSCRIPT_LEN_MAX + 3_000 && text.starts_with("...\nS: "));
        assert!(text.trim_end().ends_with('x'));
    }
}
