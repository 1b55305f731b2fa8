//! Scripts: the operations that make the new bytes of a unit from its old ones.
//!
//! A script is a sequence of ops, each a varint (LEB128) of its length times eight plus its kind;
//! an insertion is followed by its bytes (`docs/formats/mbox-journal.md`).

/// Operation on the next bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op<'a> {
    /// They stay, and are hashed: they prove that the file is the one the script was made for.
    Keep(u64),
    /// They stay, and are not hashed.
    Stay(u64),
    /// They are written to their new place.
    Copy(u64),
    /// They are left out.
    Skip(u64),
    /// These new bytes are written.
    Insert(&'a [u8]),
}

const KEEP: u64 = 0;
const STAY: u64 = 1;
const COPY: u64 = 2;
const SKIP: u64 = 3;
const INSERT: u64 = 4;

/// Builder of a script; consecutive copies become one.
#[derive(Debug, Default)]
pub(super) struct Script {
    bytes: Vec<u8>,
    /// Bytes to copy that are not in the script yet.
    copying: u64,
}

impl Script {
    /// Adds an op.
    pub(super) fn push(&mut self, op: Op<'_>) {
        if let Op::Copy(len) = op {
            self.copying += len;
            return;
        }
        self.flush();
        match op {
            Op::Keep(len) => self.put(len, KEEP),
            Op::Stay(len) => self.put(len, STAY),
            Op::Copy(_) => {}
            Op::Skip(len) => self.put(len, SKIP),
            Op::Insert(bytes) => {
                self.put(bytes.len() as u64, INSERT);
                self.bytes.extend_from_slice(bytes);
            }
        }
    }

    /// Returns the length of the script so far, without the last copy.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the whole script, and starts a new one.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.flush();
        std::mem::take(&mut self.bytes)
    }

    fn flush(&mut self) {
        if self.copying > 0 {
            let len = std::mem::take(&mut self.copying);
            self.put(len, COPY);
        }
    }

    fn put(&mut self, len: u64, kind: u64) {
        // File sizes are below 2^63, and lengths in a script below 2^60.
        let mut value = len << 3 | kind;
        while value >= 0x80 {
            self.bytes.push((value as u8) | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

/// Returns the ops of a script. Ends early with `Err` if it is malformed, which a checksum rules
/// out.
pub(super) fn ops(script: &[u8]) -> Ops<'_> {
    Ops { rest: script }
}

/// See [`ops`].
#[derive(Clone, Debug)]
pub(super) struct Ops<'a> {
    rest: &'a [u8],
}

/// A malformed script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl From<Malformed> for std::io::Error {
    fn from(_: Malformed) -> Self {
        Self::new(std::io::ErrorKind::InvalidData, "the journal has a malformed script")
    }
}

impl<'a> Ops<'a> {
    fn read(&mut self) -> Result<Op<'a>, Malformed> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or(Malformed)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f).checked_shl(shift).ok_or(Malformed)?;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let len = value >> 3;
        Ok(match value & 7 {
            KEEP => Op::Keep(len),
            STAY => Op::Stay(len),
            COPY => Op::Copy(len),
            SKIP => Op::Skip(len),
            INSERT => {
                let len = usize::try_from(len).map_err(|_| Malformed)?;
                let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Malformed)?;
                self.rest = rest;
                Op::Insert(bytes)
            }
            _ => return Err(Malformed),
        })
    }
}

impl<'a> Iterator for Ops<'a> {
    type Item = Result<Op<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let op = self.read();
        if op.is_err() {
            self.rest = &[];
        }
        Some(op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pushed: &[Op<'_>], expected: &[Op<'_>]) {
        let mut script = Script::default();
        pushed.iter().for_each(|op| script.push(*op));
        let bytes = script.take();
        let found: Result<Vec<Op<'_>>, Malformed> = ops(&bytes).collect();
        assert_eq!(found.unwrap(), expected);
    }

    #[test]
    fn a_script_is_read_back_and_copies_are_joined() {
        use Op::{Copy, Insert, Keep, Skip, Stay};
        let all =
            [Keep(64), Stay(1 << 40), Insert(b"Status: RO\n"), Skip(0), Copy(15), Insert(b"")];
        check(&all, &all);
        check(
            &[Copy(3), Copy(4), Skip(1), Skip(2), Copy(5)],
            &[Copy(7), Skip(1), Skip(2), Copy(5)],
        );
    }

    #[test]
    fn what_is_no_script_ends_with_an_error() {
        for bytes in [&[0x80][..], &[0xff; 12], &[7], &[0x24, b'a'], &[0x80, 0x80, 0x80]] {
            assert_eq!(ops(bytes).last(), Some(Err(Malformed)), "{bytes:?}");
        }
    }
}
