//! STORE, COPY, MOVE, EXPUNGE and APPEND.

use barid_testkit::corpus::Calendar;

use super::{Generator, KEYWORDS};

/// System flags.
const FLAGS: [&str; 5] = ["\\Answered", "\\Flagged", "\\Deleted", "\\Seen", "\\Draft"];

impl Generator<'_> {
    pub(super) fn store(&mut self) -> String {
        let (prefix, of_uids) = self.uid_prefix();
        let set = self.set(of_uids);
        let modifier = if self.has_condstore && self.one_in(4) {
            format!(" (UNCHANGEDSINCE {})", self.modseq())
        } else {
            String::new()
        };
        let sign = self.pick(&["+", "+", "-", ""]);
        let silent = if self.one_in(3) { ".SILENT" } else { "" };
        let flags = self.flags();
        format!("{prefix}STORE {set}{modifier} {sign}FLAGS{silent} {flags}")
    }

    /// Returns a list of flags and keywords in parentheses.
    fn flags(&mut self) -> String {
        if self.one_in(12) {
            return "()".to_owned();
        }
        let mut flags = self.some(&FLAGS, 25);
        if self.one_in(3) {
            flags.push(self.pick(&KEYWORDS));
        }
        format!("({})", flags.join(" "))
    }

    pub(super) fn copy_or_move(&mut self) -> String {
        let (prefix, of_uids) = self.uid_prefix();
        let set = self.set(of_uids);
        // In a read-only mailbox some servers copy instead, and others refuse.
        let may_move = self.has("MOVE") && !self.is_read_only;
        let verb = if may_move && self.rng.bool() { "MOVE" } else { "COPY" };
        let name = self.mailbox_name();
        // The number of messages is a guess: later sets may name some that do not exist.
        self.believe_added(&name, 1);
        if verb == "MOVE" {
            let current = self.current();
            self.boxes[current].uids.pop();
        }
        let name = self.spelled(&name);
        format!("{prefix}{verb} {set} {name}")
    }

    pub(super) fn expunge(&mut self) -> String {
        if self.has("UIDPLUS") && self.rng.bool() {
            return format!("UID EXPUNGE {}", self.set(true));
        }
        let current = self.current();
        if !self.is_read_only {
            self.boxes[current].uids.pop();
        }
        "EXPUNGE".to_owned()
    }

    pub(super) fn append(&mut self) -> Vec<u8> {
        let name = self.mailbox_name();
        let count =
            if self.has("MULTIAPPEND") && self.one_in(4) { self.rng.usize(2..4) } else { 1 };
        let mut command = format!("APPEND {}", self.spelled(&name)).into_bytes();
        for _ in 0..count {
            let number = self.rng.usize(0..self.messages.len());
            let message = crlf(&self.messages[number].bytes);
            let flags = if self.rng.bool() { format!(" {}", self.flags()) } else { String::new() };
            // Without a date the clock of the server would be compared.
            let date = self.messages[number].date + i64::from(self.rng.i32(-99_999..99_999));
            let date = Calendar::mbx(date);
            let zone = self.pick(&["+0000", "+0200", "-0530"]);
            let date = format!("{} {zone}", &date[..20]);
            let head = format!("{flags} \"{date}\" {{{}+}}\r\n", message.len());
            command.extend_from_slice(head.as_bytes());
            command.extend_from_slice(&message);
        }
        self.believe_added(&name, count);
        command
    }
}

/// Returns a message with CRLF line ends, and without NUL.
fn crlf(message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(message.len() + 100);
    for byte in message {
        match byte {
            b'\n' if bytes.last() != Some(&b'\r') => bytes.extend_from_slice(b"\r\n"),
            0 => bytes.push(b'?'),
            byte => bytes.push(*byte),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_are_those_of_the_wire() {
        assert_eq!(crlf(b"a\nb\r\n\0\n"), b"a\r\nb\r\n?\r\n");
    }
}
