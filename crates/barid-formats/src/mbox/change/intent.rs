//! The journal of an append: the position of the messages, and the proof that bytes found there
//! belong to them. The byte map is `docs/formats/mbox-journal.md`.
//!
//! For an append of at most [`APPEND_BYTES_MAX`] bytes the proof is the bytes themselves. A longer
//! one would be written twice, so its proof is a hash of each piece: the bytes of one message in
//! one sector of the file.

use barid_vfs::le::u64_at;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::header::{HASH_AT, HEADER_LEN, ORIGIN_AT, Origin, TailHash, put_words};
use super::limits::{APPEND_BYTES_MAX, CONTEXT_LEN, OFFSET_MAX, SECTOR_LEN};

pub(super) const MAGIC: &[u8; 8] = b"baridMBA";
pub(super) const VERSION: u32 = 1;
const HAS_BYTES: u32 = 1;
const HAS_RAISE: u32 = 2;

/// Bytes of the hash of a piece.
const HASH_LEN: usize = 4;

/// Bytes of the number that gives the end of a message.
const END_LEN: usize = 8;

/// The change of the last UID in the mailbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::mbox) struct Raise {
    /// Offset of the ten digits.
    pub(in crate::mbox) offset: u64,
    /// The digits before.
    pub(in crate::mbox) old: [u8; 10],
    /// The digits after.
    pub(in crate::mbox) new: [u8; 10],
}

/// Proof that bytes of a mailbox belong to an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// The appended bytes.
    Bytes(Vec<u8>),
    /// The low four bytes of the XXH3 of each piece.
    Hashes(Vec<u32>),
}

/// An append, as its journal describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::mbox) struct Intent {
    /// Random id; the mailbox's attribute may repeat it.
    pub(super) id: [u8; 16],
    /// Identity of the mailbox.
    pub(super) origin: Origin,
    /// Offset of the first appended byte.
    pub(super) start: u64,
    /// Ends of the messages, relative to `start`, ascending.
    pub(super) ends: Vec<u64>,
    /// Fingerprint of the last bytes before `start`.
    pub(super) before: TailHash,
    /// The change of the last UID, if messages get UIDs.
    pub(super) raise: Option<Raise>,
    pub(super) proof: Proof,
}

/// The part of an [`Intent`] in the first sector of its journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IntentHeader {
    id: [u8; 16],
    pub(super) origin: Origin,
    start: u64,
    ends: u64,
    proof_len: u64,
    rest_hash: u64,
    before: TailHash,
    raise: Option<Raise>,
    has_bytes: bool,
}

impl IntentHeader {
    /// Decodes the first sector; `None` if it is damaged or of another version.
    pub(super) fn from_bytes(bytes: &[u8; HEADER_LEN as usize]) -> Option<Self> {
        let is_whole = u64_at(bytes, HASH_AT) == xxh3_64(&bytes[..HASH_AT]);
        if !is_whole || !bytes.starts_with(MAGIC) || u64_at(bytes, 8) as u32 != VERSION {
            return None;
        }
        let bits = (u64_at(bytes, 8) >> 32) as u32;
        let word = |at: usize| u64_at(bytes, 32 + at * 8);
        let digits = |at: usize| bytes[at..].first_chunk().copied().unwrap_or_default();
        let raise = Raise { offset: word(6), old: digits(88), new: digits(98) };
        let header = Self {
            id: *bytes[16..].first_chunk()?,
            origin: Origin::from_bytes(&bytes[ORIGIN_AT..])?,
            start: word(0),
            ends: word(1),
            proof_len: word(2),
            rest_hash: word(3),
            before: TailHash { len: word(4), hash: word(5) },
            raise: (bits & HAS_RAISE != 0).then_some(raise),
            has_bytes: bits & HAS_BYTES != 0,
        };
        let numbers = [header.start, header.ends, header.proof_len, raise.offset];
        let is_sane = numbers.into_iter().all(|number| number <= OFFSET_MAX)
            && header.before.len <= header.start.min(CONTEXT_LEN);
        is_sane.then_some(header)
    }

    fn to_bytes(self) -> [u8; HEADER_LEN as usize] {
        let mut bytes = [0; HEADER_LEN as usize];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let bits = if self.has_bytes { HAS_BYTES } else { 0 };
        let bits = bits | if self.raise.is_some() { HAS_RAISE } else { 0 };
        bytes[12..16].copy_from_slice(&bits.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.id);
        let raise = self.raise.unwrap_or_default();
        let TailHash { len, hash } = self.before;
        let words =
            [self.start, self.ends, self.proof_len, self.rest_hash, len, hash, raise.offset];
        put_words(&mut bytes[32..], &words);
        bytes[88..98].copy_from_slice(&raise.old);
        bytes[98..108].copy_from_slice(&raise.new);
        self.origin.put(&mut bytes[ORIGIN_AT..]);
        let hash = xxh3_64(&bytes[..HASH_AT]);
        bytes[HASH_AT..].copy_from_slice(&hash.to_le_bytes());
        bytes
    }

    /// Returns the length of the whole journal.
    pub(super) fn journal_len(&self) -> u64 {
        HEADER_LEN + self.ends * END_LEN as u64 + self.proof_len
    }

    /// Returns the intent with the rest of its journal; `None` if that is damaged.
    pub(super) fn with_rest(self, rest: &[u8]) -> Option<Intent> {
        let (ends, proof) = rest.split_at_checked(self.ends as usize * END_LEN)?;
        if xxh3_64(rest) != self.rest_hash || proof.len() as u64 != self.proof_len {
            return None;
        }
        let (ends, _) = ends.as_chunks::<END_LEN>();
        let ends: Vec<u64> = ends.iter().map(|end| u64::from_le_bytes(*end)).collect();
        let proof = match self.has_bytes {
            true => Proof::Bytes(proof.to_vec()),
            false => {
                let hashes = proof.as_chunks::<HASH_LEN>().0.iter();
                Proof::Hashes(hashes.map(|hash| u32::from_le_bytes(*hash)).collect())
            }
        };
        let Self { id, origin, start, before, raise, .. } = self;
        let intent = Intent { id, origin, start, ends, before, raise, proof };
        intent.is_sane().then_some(intent)
    }
}

impl Intent {
    /// Encodes the whole journal.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_LEN as usize];
        self.ends.iter().for_each(|end| bytes.extend_from_slice(&end.to_le_bytes()));
        let proof_at = bytes.len();
        match &self.proof {
            Proof::Bytes(proof) => bytes.extend_from_slice(proof),
            Proof::Hashes(hashes) => {
                hashes.iter().for_each(|hash| bytes.extend_from_slice(&hash.to_le_bytes()));
            }
        }
        let header = IntentHeader {
            id: self.id,
            origin: self.origin,
            start: self.start,
            ends: self.ends.len() as u64,
            proof_len: (bytes.len() - proof_at) as u64,
            rest_hash: xxh3_64(&bytes[HEADER_LEN as usize..]),
            before: self.before,
            raise: self.raise,
            has_bytes: matches!(self.proof, Proof::Bytes(_)),
        };
        bytes[..HEADER_LEN as usize].copy_from_slice(&header.to_bytes());
        bytes
    }

    /// Returns the number of bytes of all messages.
    pub(in crate::mbox) fn len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Returns the end of the piece that contains the byte `at`; both are relative to the start.
    pub(super) fn piece_end(&self, at: u64) -> u64 {
        let message = self.ends.partition_point(|end| *end <= at);
        let end = self.ends.get(message).copied().unwrap_or(at);
        end.min(sector_end(self.start, at))
    }

    /// Returns the start of the piece that ends at `end`; both are relative to the start.
    pub(super) fn piece_start(&self, end: u64) -> u64 {
        let messages = self.ends.partition_point(|before| *before < end);
        let message = messages.checked_sub(1).map_or(0, |last| self.ends[last]);
        let sector = end.checked_sub(1).map_or(0, |last| (self.start + last) / SECTOR_LEN);
        message.max((sector * SECTOR_LEN).saturating_sub(self.start))
    }

    fn is_sane(&self) -> bool {
        let is_ascending = self.ends.is_sorted() && self.len() <= OFFSET_MAX;
        is_ascending
            && match &self.proof {
                Proof::Bytes(bytes) => bytes.len() as u64 == self.len(),
                Proof::Hashes(hashes) => hashes.len() as u64 == self.pieces(),
            }
    }

    /// Returns the number of pieces.
    fn pieces(&self) -> u64 {
        let mut from = 0;
        let mut pieces = 0;
        for end in self.ends.iter().copied().filter(|end| *end > 0) {
            if end > from {
                let (first, last) = (self.start + from, self.start + end - 1);
                pieces += last / SECTOR_LEN - first / SECTOR_LEN + 1;
            }
            from = end;
        }
        pieces
    }
}

/// Returns the end of the sector that contains byte `at` of an append, relative to its start.
fn sector_end(start: u64, at: u64) -> u64 {
    ((start + at) / SECTOR_LEN + 1) * SECTOR_LEN - start
}

/// Returns the hash of a piece.
pub(super) fn piece_hash(piece: &[u8]) -> u32 {
    xxh3_64(piece) as u32
}

/// Collects the bytes of an append into an [`Intent`].
pub(in crate::mbox) struct IntentBuilder {
    start: u64,
    at: u64,
    ends: Vec<u64>,
    /// All bytes so far, unless there are more than [`APPEND_BYTES_MAX`].
    bytes: Option<Vec<u8>>,
    hashes: Vec<u32>,
    /// Hash state of the incomplete piece, and its length.
    open: Xxh3,
    open_len: u64,
}

impl IntentBuilder {
    /// Creates a builder for an append at offset `start`.
    pub(in crate::mbox) fn new(start: u64) -> Self {
        let (ends, hashes) = (Vec::new(), Vec::new());
        let bytes = Some(Vec::new());
        Self { start, at: 0, ends, bytes, hashes, open: Xxh3::new(), open_len: 0 }
    }

    /// Adds the next bytes of a message.
    pub(in crate::mbox) fn push(&mut self, mut bytes: &[u8]) {
        if let Some(all) = &mut self.bytes {
            match all.len() + bytes.len() <= APPEND_BYTES_MAX {
                true => all.extend_from_slice(bytes),
                false => self.bytes = None,
            }
        }
        while !bytes.is_empty() {
            let room = sector_end(self.start, self.at) - self.at;
            let (piece, rest) = bytes.split_at(bytes.len().min(room as usize));
            self.at += piece.len() as u64;
            let is_whole = piece.len() as u64 == room;
            if is_whole && self.open_len == 0 {
                self.hashes.push(piece_hash(piece));
            } else {
                self.open.update(piece);
                self.open_len += piece.len() as u64;
                if is_whole {
                    self.close();
                }
            }
            bytes = rest;
        }
    }

    /// Ends the message.
    pub(in crate::mbox) fn end_message(&mut self) {
        if self.open_len > 0 {
            self.close();
        }
        self.ends.push(self.at);
    }

    fn close(&mut self) {
        self.hashes.push(self.open.digest() as u32);
        self.open.reset();
        self.open_len = 0;
    }

    /// Returns the offset of the append.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Returns the number of bytes so far.
    pub(in crate::mbox) fn len(&self) -> u64 {
        self.at
    }

    /// Returns all bytes so far, unless there are more than [`APPEND_BYTES_MAX`].
    pub(in crate::mbox) fn bytes(&self) -> Option<&[u8]> {
        self.bytes.as_deref()
    }

    /// Returns the intent, without a change of the last UID.
    pub(super) fn finish(self, id: [u8; 16], origin: Origin, before: TailHash) -> Intent {
        let Self { start, ends, bytes, hashes, .. } = self;
        let proof = bytes.map_or(Proof::Hashes(hashes), Proof::Bytes);
        Intent { id, origin, start, ends, before, raise: None, proof }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(start: u64, messages: &[Vec<u8>], step: usize) -> Intent {
        let mut builder = IntentBuilder::new(start);
        for message in messages {
            message.chunks(step).for_each(|bytes| builder.push(bytes));
            builder.end_message();
        }
        let raise = Raise { offset: 7, old: *b"0000000001", new: *b"0000000002" };
        let before = TailHash { len: start.min(3), hash: 5 };
        let intent = builder.finish(*b"0123456789abcdef", Origin::of(77, b"/mail/box"), before);
        Intent { raise: Some(raise), ..intent }
    }

    fn read(bytes: &[u8]) -> Option<Intent> {
        let header = IntentHeader::from_bytes(bytes.first_chunk()?)?;
        assert_eq!(header.journal_len(), bytes.len() as u64);
        header.with_rest(&bytes[HEADER_LEN as usize..])
    }

    #[test]
    fn an_intent_is_read_back_and_nothing_else_is_one() {
        let mut rng = fastrand::Rng::with_seed(5);
        for (count, len) in [(0, 0), (1, 1), (3, 700), (2, APPEND_BYTES_MAX)] {
            let message = |_| (0..len).map(|_| rng.u8(..)).collect::<Vec<u8>>();
            let messages: Vec<Vec<u8>> = (0..count).map(message).collect();
            let start = rng.u64(..2000);
            let intent = built(start, &messages, 1000);
            assert_eq!(intent, built(start, &messages, 333));
            let is_long = count * len > APPEND_BYTES_MAX;
            assert_eq!(matches!(intent.proof, Proof::Hashes(_)), is_long);
            let bytes = intent.to_bytes();
            assert_eq!(read(&bytes), Some(intent));
            for at in (0..bytes.len()).step_by(1 + bytes.len() / 2000) {
                let mut torn = bytes.clone();
                torn[at] ^= 1;
                assert_eq!(read(&torn), None, "byte {at}");
            }
        }
    }

    #[test]
    fn pieces_are_of_one_message_and_one_sector() {
        let messages = [vec![b'x'; 600], vec![], vec![b'y'; APPEND_BYTES_MAX]];
        let intent = built(500, &messages, 100);
        let Proof::Hashes(hashes) = &intent.proof else { panic!("it is long") };
        let all = messages.concat();
        let (mut at, mut ends) = (0, Vec::new());
        for hash in hashes {
            let end = intent.piece_end(at);
            assert_eq!(*hash, piece_hash(&all[at as usize..end as usize]));
            assert_eq!(intent.piece_start(end), at);
            ends.push(end);
            at = end;
        }
        assert_eq!((at, &ends[..4]), (intent.len(), &[12, 524, 600, 1036][..]));
    }
}
