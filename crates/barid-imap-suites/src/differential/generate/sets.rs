//! Sets of messages.

use super::Generator;

impl Generator<'_> {
    /// Returns a sequence set for the selected mailbox, or a set of UIDs.
    pub(super) fn set(&mut self, of_uids: bool) -> String {
        if self.has_saved_search && self.one_in(5) {
            return "$".to_owned();
        }
        let parts = if self.one_in(3) { self.rng.usize(2..5) } else { 1 };
        let parts: Vec<String> = (0..parts).map(|_| self.range(of_uids)).collect();
        parts.join(",")
    }

    fn range(&mut self, of_uids: bool) -> String {
        match self.rng.u32(0..10) {
            0..3 => "1:*".to_owned(),
            3..6 => self.number(of_uids),
            6 => "*".to_owned(),
            7 => format!("{}:*", self.number(of_uids)),
            _ => format!("{}:{}", self.number(of_uids), self.number(of_uids)),
        }
    }

    /// Returns the number of a message, now and then of one that does not exist.
    fn number(&mut self, of_uids: bool) -> String {
        let known = &self.boxes[self.current()];
        let (count, uidnext) = (known.uids.len(), known.uidnext);
        if count == 0 || self.one_in(30) {
            let last = if of_uids { uidnext } else { count as u32 };
            return (last + self.rng.u32(1..4)).to_string();
        }
        if of_uids && self.one_in(6) {
            return self.rng.u32(1..=uidnext).to_string();
        }
        // Messages may have been expunged: the last places are less certain than the first.
        let likely = if of_uids || self.one_in(10) { count } else { (count * 2).div_ceil(3) };
        let place = self.rng.usize(0..likely);
        let uid = self.boxes[self.current()].uids[place];
        if of_uids { uid.to_string() } else { (place + 1).to_string() }
    }

    /// Returns `UID ` in half of the cases, and `true` for it.
    pub(super) fn uid_prefix(&mut self) -> (&'static str, bool) {
        if self.rng.bool() { ("UID ", true) } else { ("", false) }
    }
}
