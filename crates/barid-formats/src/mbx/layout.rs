//! The bytes of the file: its header, the line before each message, and the limits.
//!
//! Sizes, places and the meaning of each bit are c-client's (`mbx.c`); numbers are hexadecimal but
//! for the size of a message.

use std::time::Duration;

use barid_types::{Flag, FlagSet, Keyword, KeywordTable};

/// Bytes of the header of the file.
pub(super) const HEADER_LEN: u64 = 2048;
/// What a file begins with.
pub(super) const MAGIC: &[u8; 7] = b"*mbx*\r\n";
/// Where the UIDVALIDITY stands.
pub(super) const UIDVALIDITY_OFFSET: u64 = 7;
/// Where the last UID stands.
pub(super) const UID_LAST_OFFSET: u64 = 15;
/// Where the names of the keywords begin.
const NAMES_OFFSET: usize = 25;
/// Where the process id of the last one stands who changed flags.
pub(super) const PID_OFFSET: u64 = 2038;
/// Keywords of a mailbox.
pub(super) const KEYWORDS_MAX: usize = 30;
/// Bytes of the name of a keyword.
pub(super) const KEYWORD_LEN_MAX: usize = 50;
/// Bytes in which the line before a message must end, its CRLF included.
pub(super) const LINE_LEN_MAX: usize = 64;
/// Bytes from the flags of a line to its end, and those of flags, `-` and UID.
pub(super) const STATUS_FROM_END: u64 = 23;
/// See [`STATUS_FROM_END`].
pub(super) const UID_FROM_END: u64 = 10;

/// Bytes read at once while small messages are walked over.
pub(super) const WALK_READ_LEN: usize = 16 * 1024;
/// Messages of fewer bytes count as small then.
pub(super) const WALK_SMALL_LEN: u64 = 4 * 1024;
/// Bytes of headers read at once where messages are small, and where they are not.
pub(super) const HEADERS_READ_LEN: usize = 128 * 1024;
/// See [`HEADERS_READ_LEN`].
pub(super) const HEADER_READ_LEN: usize = 8 * 1024;
/// Messages of fewer bytes are small for the reading of headers.
pub(super) const HEADERS_SMALL_LEN: u64 = 16 * 1024;
/// The longest header handed to a sink; what is longer is cut there and the rest counts as body.
pub(super) const HEADER_LEN_LIMIT: usize = 1024 * 1024;
/// Messages of one chunk at least.
pub(super) const CHUNK_MESSAGES_MIN: usize = 256;
/// Chunks for each thread.
pub(super) const CHUNKS_PER_THREAD: usize = 8;
/// Lines behind damage that are followed in search of whole messages.
pub(super) const RESYNC_WALKED_MAX: usize = 1 << 20;
/// Bytes behind damage that are searched at once.
pub(super) const RESYNC_READ_LEN: usize = 256 * 1024;
/// How long a file that ends in the middle of a message is watched for growing on where no lock
/// can be taken, and how often.
pub(super) const GROWTH_PAUSE: Duration = Duration::from_millis(20);
/// See [`GROWTH_PAUSE`].
pub(super) const GROWTH_TRIES: u32 = 5;
/// Bytes written at once when messages are appended.
pub(super) const WRITE_LEN: usize = 1024 * 1024;
/// Bytes that a compaction moves at most; of more, messages are hidden.
pub(super) const SLIDE_LEN_MAX: u64 = 64 << 20;
/// Bytes of a torn end copied at once.
pub(super) const COPY_LEN: usize = 256 * 1024;
/// What a disk writes whole or not at all.
pub(super) const SECTOR_LEN: u64 = 512;
/// The first and the longest pause between two tries of a lock.
pub(super) const LOCK_PAUSE_MIN: Duration = Duration::from_millis(2);
/// See [`LOCK_PAUSE_MIN`].
pub(super) const LOCK_PAUSE_MAX: Duration = Duration::from_millis(100);
/// How often the lock file is tried while others create and remove it.
pub(super) const LOCK_FILE_TRIES: u32 = 64;

/// The flags of a line.
pub(super) const SEEN: u16 = 0x1;
/// See [`SEEN`].
pub(super) const DELETED: u16 = 0x2;
/// See [`SEEN`].
pub(super) const FLAGGED: u16 = 0x4;
/// See [`SEEN`].
pub(super) const ANSWERED: u16 = 0x8;
/// A session has seen the message; without it, it is \Recent.
pub(super) const OLD: u16 = 0x10;
/// See [`SEEN`].
pub(super) const DRAFT: u16 = 0x20;
/// The message is expunged, and only its bytes are still there.
pub(super) const EXPUNGED: u16 = 0x8000;

/// The date of what is hidden because it is no message.
const HIDDEN_DATE: &str = " 1-Jan-1970 00:00:00 +0000";

const FLAGS: [(Flag, u16); 5] = [
    (Flag::Seen, SEEN),
    (Flag::Deleted, DELETED),
    (Flag::Flagged, FLAGGED),
    (Flag::Answered, ANSWERED),
    (Flag::Draft, DRAFT),
];

/// The flags that the bits of a line stand for.
pub(super) fn flags_of(bits: u16) -> FlagSet {
    let recent = if bits & OLD == 0 { FlagSet::EMPTY.with(Flag::Recent) } else { FlagSet::EMPTY };
    let set = FLAGS.iter().filter(|(_, bit)| bits & bit != 0);
    set.fold(recent, |flags, (flag, _)| flags.with(*flag))
}

/// The bits of flags, but for [`OLD`].
pub(super) fn bits_of(flags: FlagSet) -> u16 {
    let set = FLAGS.iter().filter(|(flag, _)| flags.contains(*flag));
    set.fold(0, |bits, (_, bit)| bits | bit)
}

/// The header of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) uidvalidity: u32,
    pub(super) uid_last: u32,
    /// The names of the keywords, up to the first empty line.
    pub(super) names: Vec<Vec<u8>>,
    /// The process that changed flags last; 0 if none is named.
    pub(super) pid: u32,
}

impl Header {
    /// Reads the first [`HEADER_LEN`] bytes of a file; `None` if it is no mbx.
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

    /// The header as c-client writes it.
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

    /// The bit of a keyword.
    pub(super) fn slot(&self, keyword: &Keyword) -> Option<u32> {
        let is_it = |name: &Vec<u8>| name.eq_ignore_ascii_case(keyword.as_str().as_bytes());
        self.names.iter().position(is_it).map(|slot| slot as u32)
    }

    /// Adds a keyword; `false` if there is no room for it, or it is too long.
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

    /// Which slot of `table` each bit stands for; names that are not there yet are added.
    pub(super) fn slots(&self, table: &mut KeywordTable) -> Slots {
        let mut slots = Slots([None; KEYWORDS_MAX]);
        for (bit, name) in self.names.iter().enumerate() {
            let sound = name.len() <= KEYWORD_LEN_MAX;
            let keyword = std::str::from_utf8(name).ok().filter(|_| sound).and_then(Keyword::new);
            slots.0[bit] = keyword.and_then(|keyword| table.intern(&keyword).ok());
        }
        slots
    }
}

/// Whether bytes are those of a file's beginning, as c-client judges.
pub(crate) fn is_mbx(bytes: &[u8]) -> bool {
    bytes.len() >= HEADER_LEN as usize
        && bytes.starts_with(MAGIC)
        && bytes[7..23].iter().all(u8::is_ascii_hexdigit)
        && &bytes[23..25] == b"\r\n"
}

/// The slot of the table of keywords that each bit stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slots([Option<u32>; KEYWORDS_MAX]);

impl Slots {
    /// The mask of the table for the bits of a line. Bits without a name stand for nothing.
    pub(super) fn mask(&self, bits: u32) -> u64 {
        let named = |bit: &usize| bits >> bit & 1 == 1;
        let slots = (0..KEYWORDS_MAX).filter(named).filter_map(|bit| self.0[bit]);
        slots.fold(0, |mask, slot| mask | 1 << slot)
    }
}

/// The line before a message, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Where the line starts.
    pub(super) offset: u64,
    /// Bytes of the message.
    pub(super) size: u64,
    /// Its UID; 0 if it has none yet.
    pub(super) uid: u32,
    /// Its keywords.
    pub(super) keywords: u32,
    /// Its flags.
    pub(super) flags: u16,
    /// Bytes of the line, CRLF included.
    pub(super) line_len: u8,
    /// Bytes of the line before its comma: the date.
    pub(super) date_len: u8,
}

impl Record {
    /// Reads the line that `bytes` begin with, as strictly as c-client.
    pub(super) fn parse(bytes: &[u8], offset: u64) -> Result<Self, &'static str> {
        const NO_LINE: &str = "there is no line that tells of a message";
        let bytes = &bytes[..bytes.len().min(LINE_LEN_MAX)];
        let end = memchr::memchr2(b'\r', 0, bytes).filter(|end| bytes[*end] == b'\r');
        let end = end.filter(|end| bytes.get(end + 1) == Some(&b'\n')).ok_or(NO_LINE)?;
        let line = &bytes[..end];
        let comma = memchr::memchr(b',', line).ok_or(NO_LINE)?;
        let status = memchr::memchr(b';', &line[comma + 1..]).ok_or(NO_LINE)? + comma + 2;
        let size = decimal(&line[comma + 1..status - 1]).ok_or("its size is no number")?;
        let status = &line[status..];
        if status.len() != 21 || status[12] != b'-' {
            return Err("its flags and UID are not what they should be");
        }
        let keywords = hex(&status[..8]).ok_or("its keywords are no number")?;
        let flags = hex(&status[8..12]).ok_or("its flags are no number")? as u16;
        let uid = hex(&status[13..]).ok_or("its UID is no number")?;
        let (line_len, date_len) = (end as u8 + 2, comma as u8);
        Ok(Self { offset, size, uid, keywords, flags, line_len, date_len })
    }

    /// A message that is expunged and has no UID yet, whose line and bytes go from `offset` to
    /// `end`; `None` if there is no room for a line.
    pub(super) fn hidden(offset: u64, end: u64) -> Option<Self> {
        // As many digits as leave no fewer bytes than they tell of, with zeros before.
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

    /// The line of what [`Record::hidden`] gives.
    pub(super) fn hidden_line(&self) -> String {
        let digits = usize::from(self.line_len) - HIDDEN_DATE.len() - 25;
        let size = format!("{:0digits$}", self.size);
        format!("{HIDDEN_DATE},{size};{}-{:08x}\r\n", self.status(), self.uid)
    }

    /// Where the message starts.
    pub(super) fn text_offset(&self) -> u64 {
        self.offset + u64::from(self.line_len)
    }

    /// Where it ends, and the next line starts.
    pub(super) fn end(&self) -> u64 {
        self.text_offset().saturating_add(self.size)
    }

    /// Where its UID stands.
    pub(super) fn uid_offset(&self) -> u64 {
        self.text_offset() - UID_FROM_END
    }

    /// Whether it is expunged.
    pub(super) fn is_hidden(&self) -> bool {
        self.flags & EXPUNGED != 0
    }

    /// Its keywords and flags, as they stand in the line.
    pub(super) fn status(&self) -> String {
        format!("{:08x}{:04x}", self.keywords, self.flags)
    }
}

/// A number in hexadecimal digits of either case, at most eight.
pub(super) fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0_u32, |number, digit| {
        let value = char::from(*digit).to_digit(16)?;
        Some(number << 4 | value)
    })
}

/// The size of a message: not 0, and not more than a file can have.
fn decimal(digits: &[u8]) -> Option<u64> {
    let number = digits.iter().try_fold(0_u64, |number, digit| {
        let value = char::from(*digit).to_digit(10)?;
        number.checked_mul(10)?.checked_add(u64::from(value))
    })?;
    (1..i64::MAX as u64).contains(&number).then_some(number)
}

/// What a scan leaves for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Notes {
    /// Where the last whole message ends.
    pub(super) end: u64,
    /// The highest UID of any line, hidden ones included.
    pub(super) last_uid: u32,
    /// The process of the header.
    pub(super) pid: u32,
    /// Behind `end` stands what is no message.
    pub(super) is_torn: bool,
}

impl Notes {
    const VERSION: u8 = 1;
    /// Bytes of [`Notes::to_bytes`].
    const LEN: usize = 18;

    /// The notes as little-endian bytes: version, whether torn, then the numbers.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = vec![Self::VERSION, u8::from(self.is_torn)];
        bytes.extend(self.end.to_le_bytes());
        bytes.extend(self.last_uid.to_le_bytes());
        bytes.extend(self.pid.to_le_bytes());
        bytes
    }

    /// Reads [`Notes::to_bytes`] back; what is not of this version gives `None`.
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
        let found = Record::parse(line, 7);
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
            match Record::hidden(7, 7 + len) {
                None => assert!(len < 53, "{len}"),
                Some(record) => {
                    let line = record.hidden_line();
                    assert_eq!(Record::parse(line.as_bytes(), 7), Ok(record));
                    assert_eq!(record.end(), 7 + len);
                    assert_eq!(line.len(), usize::from(record.line_len));
                    assert!(record.is_hidden());
                }
            }
        }
        assert!(Record::hidden(0, 53).is_some());
    }

    #[test]
    fn a_header_comes_back() {
        let mut header =
            Header { uidvalidity: 0x544a_adf6, uid_last: 0xab, names: Vec::new(), pid: 4711 };
        assert!(header.add(&Keyword::new("$Forwarded").unwrap()));
        assert!(header.add(&Keyword::new("$forwarded").unwrap()));
        assert!(!header.add(&Keyword::new(&"x".repeat(51)).unwrap()));
        let bytes = header.to_bytes();
        assert_eq!(bytes.len() as u64, HEADER_LEN);
        assert!(bytes.starts_with(b"*mbx*\r\n544aadf6000000ab\r\n$Forwarded\r\n\r\n"));
        assert!(bytes.ends_with(b"\x0000001267\r\n"));
        assert_eq!(Header::parse(&bytes), Some(header.clone()));
        for number in 1..40 {
            let keyword = Keyword::new(&format!("{number:050}")).unwrap();
            assert_eq!(header.add(&keyword), number < KEYWORDS_MAX);
        }
        assert_eq!(Header::parse(&header.to_bytes()), Some(header));
        assert_eq!(Header::parse(&bytes[..2047]), None);
        let mut none = bytes.clone();
        none[9] = b'g';
        assert_eq!(Header::parse(&none), None);
        none.clone_from(&bytes);
        none[2038..].fill(0);
        assert_eq!(Header::parse(&none).map(|header| header.pid), Some(0));
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
        let header = Header { uidvalidity: 1, uid_last: 0, names, pid: 0 };
        let slots = header.slots(&mut table);
        assert_eq!(table.names().len(), 2);
        assert_eq!(slots.mask(0b1011), 0b11);
        assert_eq!(slots.mask(0b0110), 0b01);
        assert_eq!(slots.mask(1 << 29), 0);
    }

    #[test]
    fn notes_come_back() {
        let notes = Notes { end: 1 << 40, last_uid: 9, pid: 77, is_torn: true };
        assert_eq!(Notes::from_bytes(&notes.to_bytes()), Some(notes));
        assert_eq!(Notes::from_bytes(b""), None);
    }
}
