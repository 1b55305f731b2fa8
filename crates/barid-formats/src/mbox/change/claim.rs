//! Finds the remains of an interrupted append in the mailbox, and the bytes that others wrote into
//! its range or after it.
//!
//! Programs that deliver after a crash append at the end of the file. So our bytes end at the end
//! of the file, or at the first byte of another program's message. Bytes are claimed as ours up to
//! there if they equal those that the journal intended, or are NULs that a power failure left in
//! their place. If the first bytes of the other message happen to equal the intended ones, the
//! separator that it begins with shows where it begins. If that is uncertain, nothing is claimed.
//!
//! The journal of a complete append may still be there, and its messages may have been changed in
//! place since. So a separator counts only if the first byte that differs is in its line, and
//! nothing is claimed if the append ends as intended. A message that lacks only a line end is
//! complete: other programs remove those.

use std::io;

use barid_vfs::File;

use super::intent::{Intent, Proof, piece_hash};
use super::limits::CLAIM_READ_LEN;
use crate::mbox::from_line::parse;
use crate::mbox::layout::MMDF_SEPARATOR;
use crate::mbox::{FromProfile, Variant};

/// First bytes of a message of an mbox.
const FROM: &[u8] = b"From ";

/// Line ends before a message that are skipped in search of its separator.
const LINE_ENDS_MAX: usize = 8;

/// Bytes at the end of an append that are compared to see if it is complete.
const TAIL_LEN: u64 = 64;

/// Bytes of a From_ line that are read.
const SENDER_LINE_LEN: u64 = 512;

/// Parts of an interrupted append in the mailbox. Offsets are relative to the start of the append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    /// End of the last complete message; 0 if there is none.
    pub(super) complete: u64,
    /// End of our bytes; those after `complete` are removed.
    pub(super) own: u64,
    /// `true` if bytes of others follow.
    pub(super) is_followed: bool,
}

/// Result of comparing the file with the intended bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AppendState {
    /// Number of bytes that are as intended.
    equal: u64,
    /// Number of bytes that are as intended, or NULs.
    own: u64,
    /// Difference after them; `None` if the file or the append ends there.
    other: Option<Other>,
}

/// Bytes that differ from those intended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Other {
    /// The next byte differs.
    Byte,
    /// A byte before this offset differs, or the file ends before it.
    Piece(u64),
}

/// Finds the parts of `intent` in a file of `size` bytes. Returns `None` if they cannot be
/// distinguished from bytes that others wrote: then nothing may be removed.
pub(super) fn claim(
    file: &dyn File,
    size: u64,
    intent: &Intent,
    variant: Variant,
) -> io::Result<Option<Claim>> {
    let Some(len) = size.checked_sub(intent.start) else { return Ok(None) };
    let look = InterruptedAppend { file, intent, len, separator: separator_of(variant) };
    let compared = look.compare()?;
    let ends = intent.ends.iter().copied();
    let complete = ends.take_while(|end| *end <= compared.equal).last().unwrap_or(0);
    let own = match compared.other {
        None => Some(compared.own),
        Some(_) if look.ends_as_intended()? => None,
        Some(Other::Byte) => look.begin_of_other(compared.own, complete)?,
        Some(Other::Piece(end)) => look.begin_at_piece(compared.own, end)?,
    };
    let Some(own) = own else { return Ok(None) };
    let complete = look.complete(complete.min(own), own.min(compared.equal))?;
    Ok(Some(Claim { complete, own, is_followed: own < len }))
}

/// Returns the bytes with which a message begins.
fn separator_of(variant: Variant) -> &'static [u8] {
    if variant == Variant::Mmdf { MMDF_SEPARATOR } else { FROM }
}

/// A file in which an append was interrupted.
struct InterruptedAppend<'a> {
    file: &'a dyn File,
    intent: &'a Intent,
    /// Bytes in the file after the start of the append.
    len: u64,
    separator: &'static [u8],
}

impl InterruptedAppend<'_> {
    fn read(&self, at: u64, len: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len.min(self.len.saturating_sub(at)) as usize];
        self.file.read_exact_at(&mut bytes, self.intent.start + at)?;
        Ok(bytes)
    }

    fn compare(&self) -> io::Result<AppendState> {
        let mut compared = AppendState { equal: 0, own: 0, other: None };
        let mut hashes = match &self.intent.proof {
            Proof::Bytes(intended) => {
                let found = self.read(0, self.intent.len())?;
                compared.bytes(&found, intended);
                return Ok(compared);
            }
            Proof::Hashes(hashes) => hashes.iter(),
        };
        let (mut window, mut window_at) = (Vec::new(), 0);
        while compared.own < self.intent.len().min(self.len) && compared.other.is_none() {
            let at = compared.own;
            let end = self.intent.piece_end(at);
            if end.min(self.len) > window_at + window.len() as u64 {
                (window, window_at) = (self.read(at, CLAIM_READ_LEN)?, at);
            }
            let found = &window[(at - window_at) as usize..];
            let found = &found[..found.len().min((end - at) as usize)];
            compared.piece(found, end, hashes.next().copied());
        }
        Ok(compared)
    }

    /// Returns `true` if a message begins `at`, or after line ends there.
    fn begins(&self, at: u64) -> io::Result<bool> {
        let bytes = self.read(at, (LINE_ENDS_MAX + self.separator.len()) as u64)?;
        let ends = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        Ok(bytes[ends..].starts_with(self.separator))
    }

    /// Returns the start of the bytes of others; the one at `own` is the first that differs.
    fn begin_of_other(&self, own: u64, complete: u64) -> io::Result<Option<u64>> {
        if self.begins(own)? {
            return Ok(Some(own));
        }
        // The separator that closes our message may open theirs.
        let is_opened = self.separator == MMDF_SEPARATOR && own == complete && own > 0;
        if is_opened && self.read(own, FROM.len() as u64)? == FROM {
            return Ok(Some(own));
        }
        // The separator itself may begin with intended bytes.
        let width = self.separator.len() as u64;
        let from = own.saturating_sub(width - 1);
        let bytes = self.read(from, own - from + width)?;
        if let Some(at) = memchr::memmem::find(&bytes, self.separator) {
            return Ok(Some(from + at as u64));
        }
        // So may the line that it is in, but not where a message of ours begins.
        let from = own.saturating_sub(SENDER_LINE_LEN).max(complete + 1);
        let bytes = self.read(from, own.saturating_sub(from) + SENDER_LINE_LEN)?;
        let differs = own.saturating_sub(from) as usize;
        let is_theirs = |at: &usize| {
            let len = self.separator_line(&bytes[*at..]);
            *at <= differs && len.is_some_and(|len| differs <= at + len)
        };
        let found = memchr::memmem::find_iter(&bytes, self.separator).filter(is_theirs).last();
        Ok(found.map(|at| from + at as u64))
    }

    /// Returns the length, without line end, of the line that `bytes` begins with, if it separates
    /// messages.
    fn separator_line(&self, bytes: &[u8]) -> Option<usize> {
        let len = memchr::memchr(b'\n', bytes)?;
        let is_separator = match self.separator == MMDF_SEPARATOR {
            true => bytes.starts_with(MMDF_SEPARATOR),
            false => matches!(parse(&bytes[..len], FromProfile::Union), Some(Some(_))),
        };
        is_separator.then_some(len)
    }

    /// Returns the start of the bytes of others; the first that differs is somewhere in the piece
    /// from `from` to `end`. A separator within the piece proves nothing.
    fn begin_at_piece(&self, from: u64, end: u64) -> io::Result<Option<u64>> {
        let bytes = self.read(from, SENDER_LINE_LEN)?;
        let ends = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        if ends <= LINE_ENDS_MAX && self.separator_line(&bytes[ends..]).is_some() {
            return Ok(Some(from));
        }
        // A part of a piece that ends the file in the middle of a line is the rest of ours.
        let is_torn = from > 0 && self.len < end && !bytes.ends_with(b"\n");
        Ok(is_torn.then_some(self.len))
    }

    /// Returns the end of the last complete message, given that messages are complete up to
    /// `complete` and bytes are as intended up to `equal`.
    fn complete(&self, complete: u64, equal: u64) -> io::Result<u64> {
        let next = self.intent.ends.iter().find(|end| **end > complete);
        let missing = next.map_or(0, |end| end.saturating_sub(equal));
        if self.separator == MMDF_SEPARATOR || equal < complete + 2 || missing > 2 {
            return Ok(complete);
        }
        let before = self.read(equal - 2, 2)?;
        let is_line_end = before == b"\r\n" || missing < 2 && before.ends_with(b"\n");
        Ok(if is_line_end { equal } else { complete })
    }

    /// Returns `true` if the last bytes of the append are in their place.
    fn ends_as_intended(&self) -> io::Result<bool> {
        let end = self.intent.len();
        if self.len < end {
            return Ok(false);
        }
        let tail = end.saturating_sub(TAIL_LEN);
        let hashes = match &self.intent.proof {
            Proof::Bytes(bytes) => {
                let tail_bytes = &bytes[tail as usize..];
                return Ok(self.read(tail, end - tail)? == tail_bytes);
            }
            Proof::Hashes(hashes) => hashes,
        };
        let mut piece = end;
        for hash in hashes.iter().rev() {
            let from = self.intent.piece_start(piece);
            if piece_hash(&self.read(from, piece - from)?) != *hash {
                return Ok(false);
            }
            piece = from;
            if piece <= tail {
                break;
            }
        }
        Ok(true)
    }
}

impl AppendState {
    /// Compares bytes with those intended.
    fn bytes(&mut self, found: &[u8], intended: &[u8]) {
        let pairs = || found.iter().zip(intended);
        let equal = pairs().take_while(|(found, intended)| found == intended).count();
        let is_own = |(found, intended): &(&u8, &u8)| found == intended || **found == 0;
        let own = pairs().take_while(is_own).count();
        (self.equal, self.own) = (equal as u64, own as u64);
        self.other = (own < found.len()).then_some(Other::Byte);
    }

    /// Compares the next piece, which should end at `end`.
    fn piece(&mut self, found: &[u8], end: u64, hash: Option<u32>) {
        let is_whole = found.len() as u64 == end - self.own;
        if is_whole && hash == Some(piece_hash(found)) {
            if self.equal == self.own {
                self.equal = end;
            }
            self.own = end;
        } else if found.iter().all(|byte| *byte == 0) {
            self.own += found.len() as u64;
        } else {
            self.other = Some(Other::Piece(end));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use barid_vfs::{MemVfs, OpenOptions, Vfs as _};

    use super::super::header::{Origin, TailHash};
    use super::super::intent::IntentBuilder;
    use super::*;

    const OLD: &str = "From x@y Thu Nov 19 10:00:00 2009\nA: 1\n\none\n\n";
    const THEIRS: &str = "From z@y Thu Nov 19 10:00:00 2009\nB: 1\n\ntheirs\n\n";

    fn message(number: u32, lines: usize) -> String {
        let line = format!("From here to line {number}\n");
        format!("From a@b Thu Nov 19 10:00:00 2009\nC: {number}\n\n>{}\n", line.repeat(lines))
    }

    fn intent(messages: &[String]) -> Intent {
        let mut builder = IntentBuilder::new(OLD.len() as u64);
        for message in messages {
            builder.push(message.as_bytes());
            builder.end_message();
        }
        builder.finish([0; 16], Origin::of(1, b""), TailHash::default())
    }

    fn found_in(intent: &Intent, content: &[u8]) -> Option<Claim> {
        let vfs = MemVfs::new();
        let file = vfs.open(Path::new("/box"), OpenOptions::create(0o600)).unwrap();
        file.write_all_at(&[OLD.as_bytes(), content].concat(), 0).unwrap();
        let size = (OLD.len() + content.len()) as u64;
        claim(&*file, size, intent, Variant::Mboxo).unwrap()
    }

    fn check(messages: &[String], at: usize) {
        let intent = intent(messages);
        let all = messages.concat();
        let complete = intent.ends.iter().copied().filter(|end| *end <= at as u64).max();
        let complete = complete.unwrap_or(0);
        // The last line end makes no difference.
        let is_last = intent.ends.contains(&(at as u64 + 1)) && all[..at].ends_with('\n');
        let complete = if is_last { at as u64 } else { complete };
        let own = |claim: Option<Claim>| claim.map(|claim| (claim.complete, claim.own));
        let at_end = found_in(&intent, &all.as_bytes()[..at]);
        assert_eq!(own(at_end), Some((complete, at as u64)), "cut at {at}");
        for lead in ["", "\n"] {
            let theirs = format!("{}{lead}{THEIRS}", &all[..at]);
            let Some(claim) = found_in(&intent, theirs.as_bytes()) else {
                // Theirs begins as our next message would: nothing can be removed.
                let next = intent.ends.iter().find(|end| **end >= at as u64).unwrap();
                let rest = &all[at..*next as usize];
                assert!(at == 0 || lead.starts_with(rest), "{at} {lead:?}");
                continue;
            };
            let begin = claim.own as usize;
            // A line end may belong to either.
            assert!(begin == at || theirs[begin.min(at)..begin.max(at)] == *"\n", "{at} {lead:?}");
            assert!(claim.complete >= complete && claim.is_followed, "{at} {lead:?}");
        }
    }

    #[test]
    fn every_cut_is_found_and_no_byte_of_others_is_claimed() {
        let messages = [message(1, 3), message(2, 9), message(3, 1)];
        for at in 0..messages.concat().len() {
            check(&messages, at);
        }
    }

    #[test]
    fn a_long_append_is_told_by_its_pieces() {
        let messages = [message(1, 3), message(2, 20_000), message(3, 90)];
        let intent = intent(&messages);
        assert!(matches!(intent.proof, Proof::Hashes(_)));
        let len = messages.concat().len() as u64;
        let mut at = 0;
        while at < len {
            if at < 4096 || len - at < 6000 {
                check(&messages, at as usize);
            }
            at = intent.piece_end(at);
        }
        // In the middle of a piece, its rest is removed only at the end of the file.
        let all = messages.concat();
        let claim = found_in(&intent, &all.as_bytes()[..300_010]).unwrap();
        assert_eq!((claim.own, claim.is_followed), (300_010, false));
    }

    #[test]
    fn what_was_changed_since_is_not_claimed() {
        for messages in [vec![message(1, 9)], vec![message(1, 20_000)]] {
            let intent = intent(&messages);
            let all = messages.concat();
            let changed = all.replacen("C: 1\n", "C: 2\n", 1);
            let claim = found_in(&intent, changed.as_bytes());
            assert!(claim.is_none_or(|claim| claim.own == 0), "{claim:?}");
            let with_theirs = format!("{all}{THEIRS}");
            let len = intent.len();
            let expected = Claim { complete: len, own: len, is_followed: true };
            assert_eq!(found_in(&intent, with_theirs.as_bytes()), Some(expected));
        }
    }

    #[test]
    fn a_separator_in_what_was_changed_since_is_not_taken_for_theirs() {
        let quoted = "X-Foo: From a@b Thu Nov 19 10:00:00 2009\nStatus: RO\n";
        for lines in [9, 20_000] {
            let messages = [message(1, 2), message(2, lines).replacen("C: 2\n", quoted, 1)];
            let intent = intent(&messages);
            let all = messages.concat();
            let complete = messages[0].len() as u64;
            for status in ["Status: OO", "Status: O", "Status: ROO"] {
                for theirs in ["", THEIRS] {
                    let found = all.replacen("Status: RO", status, 1) + theirs;
                    let claim = found_in(&intent, found.as_bytes());
                    let is_none = claim.is_none_or(|claim| claim.own == claim.complete);
                    assert!(is_none, "{status} {lines} {theirs:?}: {claim:?}");
                }
            }
            // Nor is one in a piece that another program shortened.
            let found = all.replacen("Status: RO\n", "", 1);
            let claim = found_in(&intent, format!("{found}{THEIRS}").as_bytes());
            assert!(claim.is_none_or(|claim| claim.own == complete), "{claim:?}");
        }
    }

    #[test]
    fn a_message_that_lacks_only_a_line_end_is_complete() {
        for lines in [9, 20_000] {
            let messages = [message(1, 2), message(2, lines)];
            let intent = intent(&messages);
            let all = messages.concat();
            let cut = all.trim_end();
            for theirs in ["", THEIRS] {
                let found = format!("{cut}\n{theirs}");
                let claim = found_in(&intent, found.as_bytes());
                let is_whole = claim.is_none_or(|claim| claim.complete > cut.len() as u64);
                assert!(is_whole, "{lines} {theirs:?}: {claim:?}");
            }
        }
    }

    #[test]
    fn the_last_message_of_a_long_append_may_have_been_shortened_since() {
        let messages = [message(1, 20_000), message(2, 2)];
        let intent = intent(&messages);
        let found = messages.concat().replacen("C: 2\n", "C:\n", 1);
        for theirs in ["", THEIRS] {
            let claim = found_in(&intent, format!("{found}{theirs}").as_bytes());
            let is_none = claim.is_none_or(|claim| claim.own == claim.complete);
            assert!(is_none, "{theirs:?}: {claim:?}");
        }
    }

    #[test]
    fn zeros_in_place_of_what_was_written_are_ours() {
        let messages = [message(1, 9), message(2, 9)];
        let intent = intent(&messages);
        let mut all = messages.concat().into_bytes();
        let first = messages[0].len();
        all[first + 20..first + 60].fill(0);
        for theirs in ["", THEIRS] {
            let claim = found_in(&intent, &[&all, theirs.as_bytes()].concat()).unwrap();
            let expected = (first as u64, all.len() as u64, !theirs.is_empty());
            assert_eq!((claim.complete, claim.own, claim.is_followed), expected);
        }
    }
}
