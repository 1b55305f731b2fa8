//! The byte layout of the file (its header and the line before each message) and the limits.
//!
//! Sizes, offsets and the meaning of each bit are those of c-client (`mbx.c`). Numbers are
//! hexadecimal, except the size of a message.

use std::time::Duration;

use barid_types::{Flag, FlagSet, Keyword, KeywordTable};

/// Length of the file header in bytes.
pub(super) const HEADER_LEN: u64 = 2048;
/// First bytes of a file.
pub(super) const MAGIC: &[u8; 7] = b"*mbx*\r\n";
/// Offset of the UIDVALIDITY.
pub(super) const UIDVALIDITY_OFFSET: u64 = 7;
/// Offset of the last UID.
pub(super) const UID_LAST_OFFSET: u64 = 15;
/// Offset of the first keyword name.
const NAMES_OFFSET: usize = 25;
/// Offset of the id of the process that changed flags last.
pub(super) const PID_OFFSET: u64 = 2038;
/// Maximum number of keywords in a mailbox.
pub(super) const KEYWORDS_MAX: usize = 30;
/// Maximum length of a keyword name in bytes.
pub(super) const KEYWORD_LEN_MAX: usize = 50;
/// Maximum length of the line before a message in bytes, CRLF included.
pub(super) const LINE_LEN_MAX: usize = 64;
/// Bytes from the keywords and flags of a line to its end.
pub(super) const STATUS_FROM_END: u64 = 23;
/// Bytes from the UID of a line to its end.
pub(super) const UID_FROM_END: u64 = 10;

/// Bytes read at once while walking over small messages.
pub(super) const WALK_READ_LEN: usize = 16 * 1024;
/// Messages shorter than this many bytes are small for the walk.
pub(super) const WALK_SMALL_LEN: u64 = 4 * 1024;
/// Bytes of headers read at once if messages are small.
pub(super) const HEADERS_READ_LEN: usize = 128 * 1024;
/// Bytes of a header read at first if messages are not small.
pub(super) const HEADER_READ_LEN: usize = 8 * 1024;
/// Messages shorter than this many bytes are small for the reading of headers.
pub(super) const HEADERS_SMALL_LEN: u64 = 16 * 1024;
/// Maximum length of a header handed to a sink. A longer one is cut there; the rest counts as body.
pub(super) const HEADER_LEN_LIMIT: usize = 1024 * 1024;
/// Minimum number of messages in a chunk.
pub(super) const CHUNK_MESSAGES_MIN: usize = 256;
/// Number of chunks per thread.
pub(super) const CHUNKS_PER_THREAD: usize = 8;
/// Maximum number of lines followed after damage in search of whole messages.
pub(super) const RESYNC_WALKED_MAX: usize = 1 << 20;
/// Bytes searched at once after damage.
pub(super) const RESYNC_READ_LEN: usize = 256 * 1024;
/// Pause between two reads of a file that ends in the middle of a message, if no lock can be taken:
/// it may still be growing.
pub(super) const GROWTH_PAUSE: Duration = Duration::from_millis(20);
/// Number of such reads.
pub(super) const GROWTH_TRIES: u32 = 5;
/// Bytes written at once by an append.
pub(super) const WRITE_LEN: usize = 1024 * 1024;
/// Maximum number of bytes that a compaction moves. If more would move, messages are hidden.
pub(super) const SLIDE_LEN_MAX: u64 = 64 << 20;
/// Bytes of a torn end copied at once.
pub(super) const COPY_LEN: usize = 256 * 1024;
/// Length of a sector, which a disk writes whole or not at all.
pub(super) const SECTOR_LEN: u64 = 512;
/// First pause between two attempts to take a lock.
pub(super) const LOCK_PAUSE_MIN: Duration = Duration::from_millis(2);
/// Longest pause between two attempts to take a lock.
pub(super) const LOCK_PAUSE_MAX: Duration = Duration::from_millis(100);
/// Maximum number of attempts at the lock file while other programs create and remove it.
pub(super) const LOCK_FILE_TRIES: u32 = 64;

/// Flag bit: \Seen.
pub(super) const SEEN: u16 = 0x1;
/// Flag bit: \Deleted.
pub(super) const DELETED: u16 = 0x2;
/// Flag bit: \Flagged.
pub(super) const FLAGGED: u16 = 0x4;
/// Flag bit: \Answered.
pub(super) const ANSWERED: u16 = 0x8;
/// Flag bit: a session has seen the message. Without it, the message is \Recent.
pub(super) const OLD: u16 = 0x10;
/// Flag bit: \Draft.
pub(super) const DRAFT: u16 = 0x20;
/// Flag bit: the message is expunged, and only its bytes are still there.
pub(super) const EXPUNGED: u16 = 0x8000;

/// Date in the line of a hidden hole.
const HIDDEN_DATE: &str = " 1-Jan-1970 00:00:00 +0000";

const FLAGS: [(Flag, u16); 5] = [
    (Flag::Seen, SEEN),
    (Flag::Deleted, DELETED),
    (Flag::Flagged, FLAGGED),
    (Flag::Answered, ANSWERED),
    (Flag::Draft, DRAFT),
];

/// Returns the flags that the bits of a line stand for.
pub(super) fn flags_of(bits: u16) -> FlagSet {
    let recent = if bits & OLD == 0 { FlagSet::EMPTY.with(Flag::Recent) } else { FlagSet::EMPTY };
    let set = FLAGS.iter().filter(|(_, bit)| bits & bit != 0);
    set.fold(recent, |flags, (flag, _)| flags.with(*flag))
}

/// Returns the bits of flags, without [`OLD`].
pub(super) fn bits_of(flags: FlagSet) -> u16 {
    let set = FLAGS.iter().filter(|(flag, _)| flags.contains(*flag));
    set.fold(0, |bits, (_, bit)| bits | bit)
}

/// The header of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MbxHeader {
    pub(super) uidvalidity: u32,
    pub(super) uid_last: u32,
    /// Names of the keywords, up to the first empty line.
    pub(super) names: Vec<Vec<u8>>,
    /// Process that changed flags last; 0 if none is named.
    pub(super) pid: u32,
}

impl MbxHeader {
    /// Parses the first [`HEADER_LEN`] bytes of a file. Returns `None` if it is not an mbx.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEADER_LEN as usize)?;
        let is_mbx = is_mbx(bytes);
        is_mbx.then_some(())?;
        let uidvalidity = hex(&bytes[7..15])?;
        let uid_last = hex(&bytes[15..23])?;
        let mut names = Vec::new();
        let mut rest = &bytes[NAMES_OFFSET..PID_OFFSET as usize];
        while names.len() < KEYWORDS_MAX
            && let Some(end) = memchr::memchr2(b'\r', 0, rest)
            && end > 0
            && rest[end] == b'\r'
        {
            names.push(rest[..end].to_vec());
            rest = rest.get(end + 2..).unwrap_or_default();
        }
        let pid = &bytes[PID_OFFSET as usize..];
        let pid = if pid.ends_with(b"\r\n") { hex(&pid[..8]).unwrap_or(0) } else { 0 };
        Some(Self { uidvalidity, uid_last, names, pid })
    }

    /// Returns the header as c-client writes it.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_LEN as usize);
        bytes.extend_from_slice(MAGIC);
        let numbers = format!("{:08x}{:08x}\r\n", self.uidvalidity, self.uid_last);
        bytes.extend_from_slice(numbers.as_bytes());
        for line in 0..KEYWORDS_MAX {
            let name = self.names.get(line).map_or(&b""[..], |name| name);
            bytes.extend_from_slice(name);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.resize(PID_OFFSET as usize, 0);
        bytes.extend_from_slice(format!("{:08x}\r\n", self.pid).as_bytes());
        bytes
    }

    /// Returns the number of the bit of a keyword.
    pub(super) fn slot(&self, keyword: &Keyword) -> Option<u32> {
        let is_it = |name: &Vec<u8>| name.eq_ignore_ascii_case(keyword.as_str().as_bytes());
        self.names.iter().position(is_it).map(|slot| slot as u32)
    }

    /// Adds a keyword. Returns `false` if it is too long or there is no room for it.
    pub(super) fn add(&mut self, keyword: &Keyword) -> bool {
        if self.slot(keyword).is_some() {
            return true;
        }
        let name = keyword.as_str().as_bytes();
        let fits = self.names.len() < KEYWORDS_MAX && name.len() <= KEYWORD_LEN_MAX;
        if fits {
            self.names.push(name.to_vec());
        }
        fits
    }

    /// Returns the slot in `table` of each keyword bit, adding names that the table lacks.
    pub(super) fn slots(&self, table: &mut KeywordTable) -> KeywordBits {
        let mut slots = KeywordBits([None; KEYWORDS_MAX]);
        for (bit, name) in self.names.iter().enumerate() {
            let sound = name.len() <= KEYWORD_LEN_MAX;
            let keyword = std::str::from_utf8(name).ok().filter(|_| sound).and_then(Keyword::new);
            slots.0[bit] = keyword.and_then(|keyword| table.intern(&keyword).ok());
        }
        slots
    }
}

/// Returns `true` if `bytes` begin a file that c-client accepts as an mbx.
pub(crate) fn is_mbx(bytes: &[u8]) -> bool {
    bytes.len() >= HEADER_LEN as usize
        && bytes.starts_with(MAGIC)
        && bytes[7..23].iter().all(u8::is_ascii_hexdigit)
        && &bytes[23..25] == b"\r\n"
}

/// The slot of each keyword bit in the table of keywords.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeywordBits([Option<u32>; KEYWORDS_MAX]);

impl KeywordBits {
    /// Returns the mask for the keyword bits of a line. Bits without a name are ignored.
    pub(super) fn mask(&self, bits: u32) -> u64 {
        let named = |bit: &usize| bits >> bit & 1 == 1;
        let slots = (0..KEYWORDS_MAX).filter(named).filter_map(|bit| self.0[bit]);
        slots.fold(0, |mask, slot| mask | 1 << slot)
    }
}

/// A parsed line before a message, with its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MbxRecord {
    /// Offset of the line.
    pub(super) offset: u64,
    /// Size of the message in bytes.
    pub(super) size: u64,
    /// UID of the message; 0 if it has none yet.
    pub(super) uid: u32,
    /// Keyword bits.
    pub(super) keywords: u32,
    /// Flag bits.
    pub(super) flags: u16,
    /// Length of the line in bytes, CRLF included.
    pub(super) line_len: u8,
    /// Length of the date in bytes, which is everything before the comma.
    pub(super) date_len: u8,
}

impl MbxRecord {
    /// Parses the line at the start of `bytes`, as strictly as c-client.
    pub(super) fn parse(bytes: &[u8], offset: u64) -> Result<Self, &'static str> {
        const NO_LINE: &str = "no line of a message";
        let bytes = &bytes[..bytes.len().min(LINE_LEN_MAX)];
        let end = memchr::memchr2(b'\r', 0, bytes).filter(|end| bytes[*end] == b'\r');
        let end = end.filter(|end| bytes.get(end + 1) == Some(&b'\n')).ok_or(NO_LINE)?;
        let line = &bytes[..end];
        let comma = memchr::memchr(b',', line).ok_or(NO_LINE)?;
        let status = memchr::memchr(b';', &line[comma + 1..]).ok_or(NO_LINE)? + comma + 2;
        let size = decimal(&line[comma + 1..status - 1]).ok_or("its size is not a number")?;
        let status = &line[status..];
        if status.len() != 21 || status[12] != b'-' {
            return Err("its flags and UID are malformed");
        }
        let keywords = hex(&status[..8]).ok_or("its keywords are not a number")?;
        let flags = hex(&status[8..12]).ok_or("its flags are not a number")? as u16;
        let uid = hex(&status[13..]).ok_or("its UID is not a number")?;
        let (line_len, date_len) = (end as u8 + 2, comma as u8);
        Ok(Self { offset, size, uid, keywords, flags, line_len, date_len })
    }

    /// Returns an expunged message without a UID whose line and bytes fill `offset..end`, or `None`
    /// if there is no room for a line.
    pub(super) fn hidden(offset: u64, end: u64) -> Option<Self> {
        // More digits make the line longer and the message shorter, so leading zeros may be needed.
        let (mut digits, mut most) = (1, 9);
        let len = end.checked_sub(offset)?;
        let size_with = |digits: u64| len.checked_sub(HIDDEN_DATE.len() as u64 + 25 + digits);
        while size_with(digits)? > most {
            (digits, most) = (digits + 1, most * 10 + 9);
        }
        let size = size_with(digits).filter(|size| *size > 0)?;
        let (line_len, date_len) = ((len - size) as u8, HIDDEN_DATE.len() as u8);
        let flags = EXPUNGED | DELETED | OLD;
        Some(Self { offset, size, uid: 0, keywords: 0, flags, line_len, date_len })
    }

    /// Returns the line of a record made by [`MbxRecord::hidden`].
    pub(super) fn hidden_line(&self) -> String {
        let digits = usize::from(self.line_len) - HIDDEN_DATE.len() - 25;
        let size = format!("{:0digits$}", self.size);
        format!("{HIDDEN_DATE},{size};{}-{:08x}\r\n", self.status(), self.uid)
    }

    /// Returns the offset of the message.
    pub(super) fn text_offset(&self) -> u64 {
        self.offset + u64::from(self.line_len)
    }

    /// Returns the offset at which the message ends and the next line starts.
    pub(super) fn end(&self) -> u64 {
        self.text_offset().saturating_add(self.size)
    }

    /// Returns the offset of the UID.
    pub(super) fn uid_offset(&self) -> u64 {
        self.text_offset() - UID_FROM_END
    }

    /// Returns `true` if the message is expunged.
    pub(super) fn is_hidden(&self) -> bool {
        self.flags & EXPUNGED != 0
    }

    /// Returns the keywords and flags as the line has them.
    pub(super) fn status(&self) -> String {
        format!("{:08x}{:04x}", self.keywords, self.flags)
    }
}

/// Parses a hexadecimal number in digits of either case. The caller passes at most eight.
pub(super) fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0_u32, |number, digit| {
        let value = char::from(*digit).to_digit(16)?;
        Some(number << 4 | value)
    })
}

/// Parses the size of a message: not 0, and at most what a file can have.
fn decimal(digits: &[u8]) -> Option<u64> {
    let number = digits.iter().try_fold(0_u64, |number, digit| {
        let value = char::from(*digit).to_digit(10)?;
        number.checked_mul(10)?.checked_add(u64::from(value))
    })?;
    (1..i64::MAX as u64).contains(&number).then_some(number)
}

/// The state that a scan leaves for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MbxScanState {
    /// Offset at which the last whole message ends.
    pub(super) end: u64,
    /// Highest UID of any line, including hidden ones.
    pub(super) last_uid: u32,
    /// Process id from the header.
    pub(super) pid: u32,
    /// `true` if bytes that are not a message follow `end`.
    pub(super) is_torn: bool,
}

impl MbxScanState {
    const VERSION: u8 = 1;
    /// Length of [`MbxScanState::to_bytes`].
    const LEN: usize = 18;

    /// Returns the notes as little-endian bytes: version, torn flag, then the numbers.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = vec![Self::VERSION, u8::from(self.is_torn)];
        bytes.extend(self.end.to_le_bytes());
        bytes.extend(self.last_uid.to_le_bytes());
        bytes.extend(self.pid.to_le_bytes());
        bytes
    }

    /// Parses [`MbxScanState::to_bytes`]. Returns `None` for another version or length.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.try_into().ok()?;
        let long = bytes[2..10].try_into().expect("because these are eight");
        let last = bytes[10..14].try_into().expect("because these are four");
        let pid = bytes[14..].try_into().expect("because these are four");
        (bytes[0] == Self::VERSION).then(|| Self {
            is_torn: bytes[1] != 0,
            end: u64::from_le_bytes(long),
            last_uid: u32::from_le_bytes(last),
            pid: u32::from_le_bytes(pid),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &[u8] = b" 2-Dec-1992 05:53:22 -0700,80;0000000a0013-0000002b\r\nSubject";

    fn check(line: &[u8], expected: Result<(u64, u32, u32, u16, u8), &str>) {
        let found = MbxRecord::parse(line, 7);
        match (found, expected) {
            (Ok(found), Ok(expected)) => {
                let numbers = (found.size, found.uid, found.keywords, found.flags, found.line_len);
                assert_eq!(numbers, expected);
                assert_eq!(found.end(), 7 + u64::from(found.line_len) + found.size);
            }
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
            (found, expected) => panic!("{found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn a_line_is_read_as_c_client_reads_it() {
        check(LINE, Ok((80, 0x2b, 0xa, 0x13, 53)));
        let upper = b" 2-Dec-1992 05:53:22 -0700,80;0000000A0013-0000002B\r\n";
        check(upper, Ok((80, 0x2b, 0xa, 0x13, 53)));
        check(b" 2-Dec-1992 05:53:22 -0700,80;0000000a0013-0000002b\n", Err("no line"));
        check(b" 2-Dec-1992 05:53:22 -0700,80;0000000a0013-0000002\r\n", Err("flags and UID"));
        check(b" 2-Dec-1992 05:53:22 -0700,0;0000000a0013-0000002b\r\n", Err("size"));
        check(b" 2-Dec-1992 05:53:22 -0700,8x;0000000a0013-0000002b\r\n", Err("size"));
        check(b" 2-Dec-1992 05:53:22 -0700,;0000000a0013-0000002b\r\n", Err(""));
        check(b" 2-Dec-1992 05:53:22 -0700,8;0000000g0013-0000002b\r\n", Err("keywords"));
        check(b" 2-Dec-1992 05:53:22 -0700 8;0000000a0013-0000002b\r\n", Err("no line"));
        check(&[0; 64], Err("no line"));
        check(b"", Err("no line"));
        let long = [&[b' '; 20][..], LINE].concat();
        check(&long, Err("no line"));
    }

    #[test]
    fn what_is_hidden_fills_its_place() {
        for len in (0..3000).chain([999_999, 1_000_000, 1_000_076, 1_000_077, u64::from(u32::MAX)])
        {
            match MbxRecord::hidden(7, 7 + len) {
                None => assert!(len < 53, "{len}"),
                Some(record) => {
                    let line = record.hidden_line();
                    assert_eq!(MbxRecord::parse(line.as_bytes(), 7), Ok(record));
                    assert_eq!(record.end(), 7 + len);
                    assert_eq!(line.len(), usize::from(record.line_len));
                    assert!(record.is_hidden());
                }
            }
        }
        assert!(MbxRecord::hidden(0, 53).is_some());
    }

    #[test]
    fn a_header_comes_back() {
        let mut header =
            MbxHeader { uidvalidity: 0x544a_adf6, uid_last: 0xab, names: Vec::new(), pid: 4711 };
        assert!(header.add(&Keyword::new("$Forwarded").unwrap()));
        assert!(header.add(&Keyword::new("$forwarded").unwrap()));
        assert!(!header.add(&Keyword::new(&"x".repeat(51)).unwrap()));
        let bytes = header.to_bytes();
        assert_eq!(bytes.len() as u64, HEADER_LEN);
        assert!(bytes.starts_with(b"*mbx*\r\n544aadf6000000ab\r\n$Forwarded\r\n\r\n"));
        assert!(bytes.ends_with(b"\x0000001267\r\n"));
        assert_eq!(MbxHeader::parse(&bytes), Some(header.clone()));
        for number in 1..40 {
            let keyword = Keyword::new(&format!("{number:050}")).unwrap();
            assert_eq!(header.add(&keyword), number < KEYWORDS_MAX);
        }
        assert_eq!(MbxHeader::parse(&header.to_bytes()), Some(header));
        assert_eq!(MbxHeader::parse(&bytes[..2047]), None);
        let mut none = bytes.clone();
        none[9] = b'g';
        assert_eq!(MbxHeader::parse(&none), None);
        none.clone_from(&bytes);
        none[2038..].fill(0);
        assert_eq!(MbxHeader::parse(&none).map(|header| header.pid), Some(0));
    }

    #[test]
    fn flags_and_bits_agree() {
        for bits in 0..0x40 {
            let flags = flags_of(bits);
            assert_eq!(bits_of(flags), bits & !OLD);
            assert_eq!(flags.contains(Flag::Recent), bits & OLD == 0);
        }
        let mut table = KeywordTable::default();
        let names = vec![b"a".to_vec(), b"b c".to_vec(), b"A".to_vec(), b"d".to_vec()];
        let header = MbxHeader { uidvalidity: 1, uid_last: 0, names, pid: 0 };
        let slots = header.slots(&mut table);
        assert_eq!(table.names().len(), 2);
        assert_eq!(slots.mask(0b1011), 0b11);
        assert_eq!(slots.mask(0b0110), 0b01);
        assert_eq!(slots.mask(1 << 29), 0);
    }

    #[test]
    fn notes_come_back() {
        let notes = MbxScanState { end: 1 << 40, last_uid: 9, pid: 77, is_torn: true };
        assert_eq!(MbxScanState::from_bytes(&notes.to_bytes()), Some(notes));
        assert_eq!(MbxScanState::from_bytes(b""), None);
    }
}
