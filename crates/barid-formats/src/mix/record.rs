//! The lines of `.mixmeta`, `.mixindex`, `.mixstatus`, and before messages.
//!
//! Numbers are hexadecimal, of any length and case when read and of eight digits when written;
//! anything after the last known field is ignored, as c-client does for later extensions.

use std::io::Write as _;

use barid_types::{CivilDay, Flag, FlagSet, InternalDate};

use super::layout::{KEYWORDS_MAX, MESSAGE_TOKEN, bits};

/// Bytes of the date in a record, `YYYYMMDDhhmmss+zzzz`.
pub(super) const DATE_LEN: usize = 19;

/// `.mixmeta`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MixMeta {
    /// Sequence, which rises with every change.
    pub(super) seq: u32,
    pub(super) uidvalidity: u32,
    /// The last UID assigned.
    pub(super) uid_last: u32,
    /// Number of the data file to which new messages are appended.
    pub(super) current: u32,
    /// The keywords; their indexes are the bits of status records.
    pub(super) keywords: Vec<Vec<u8>>,
}

/// A message: its records in index and status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MixMessage {
    pub(super) uid: u32,
    pub(super) date: [u8; DATE_LEN],
    /// RFC822.SIZE.
    pub(super) size: u32,
    /// Number of the data file.
    pub(super) file: u32,
    /// Offset of its line in that file.
    pub(super) pos: u32,
    /// Length of that line in bytes.
    pub(super) line_len: u32,
    /// Length of the header in bytes.
    pub(super) header_len: u32,
    pub(super) keywords: u32,
    /// Its flags, as [`bits`].
    pub(super) flags: u16,
    /// Its mod-sequence; 0 if it has no status record.
    pub(super) modseq: u32,
}

impl MixMessage {
    /// Returns the offset of the next message.
    pub(super) fn end(&self) -> u64 {
        u64::from(self.pos) + u64::from(self.line_len) + u64::from(self.size)
    }

    pub(super) fn is_recent(&self) -> bool {
        self.flags & bits::OLD == 0
    }

    pub(super) fn internal_date(&self) -> InternalDate {
        parse_date(&self.date)
    }

    pub(super) fn flag_set(&self) -> FlagSet {
        let pairs = FLAGS.iter().filter(|(_, bit)| self.flags & bit != 0);
        let flags = pairs.fold(FlagSet::EMPTY, |flags, (flag, _)| flags.with(*flag));
        if self.is_recent() { flags.with(Flag::Recent) } else { flags }
    }
}

const FLAGS: [(Flag, u16); 5] = [
    (Flag::Seen, bits::SEEN),
    (Flag::Deleted, bits::DELETED),
    (Flag::Flagged, bits::FLAGGED),
    (Flag::Answered, bits::ANSWERED),
    (Flag::Draft, bits::DRAFT),
];

/// Returns the bits of flags, without \Recent.
pub(super) fn bits_of(flags: FlagSet) -> u16 {
    let set = FLAGS.iter().filter(|(flag, _)| flags.contains(*flag));
    set.fold(0, |bits, (_, bit)| bits | bit)
}

/// Parses a hexadecimal number; one that is too large becomes the largest possible.
fn take_hex(text: &mut &[u8]) -> Option<u32> {
    let len = text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (digits, rest) = text.split_at(len);
    *text = rest;
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(u64::from);
    let number = digits
        .iter()
        .filter_map(digit)
        .fold(0, |number: u64, digit| (number << 4 | digit).min(u64::from(u32::MAX) + 1));
    (len > 0).then_some(u32::try_from(number).unwrap_or(u32::MAX))
}

fn take_byte(text: &mut &[u8], expected: u8) -> Option<()> {
    let (first, rest) = text.split_first()?;
    *text = rest;
    (*first == expected).then_some(())
}

/// Parses a field and the colon after it.
fn take_field(text: &mut &[u8]) -> Option<u32> {
    let number = take_hex(text)?;
    take_byte(text, b':')?;
    Some(number)
}

fn take_date(text: &mut &[u8]) -> Option<[u8; DATE_LEN]> {
    let (date, rest) = text.split_first_chunk::<DATE_LEN>()?;
    let is_sound = date.iter().enumerate().all(|(at, byte)| match at {
        14 => matches!(byte, b'+' | b'-'),
        _ => byte.is_ascii_digit(),
    });
    *text = rest;
    take_byte(text, b':')?;
    is_sound.then_some(*date)
}

/// Parses the sequence line at the start of every file; returns the sequence and the rest. An empty
/// file has sequence 1.
pub(super) fn take_sequence(text: &[u8]) -> Option<(u32, &[u8])> {
    if text.is_empty() {
        return Some((1, text));
    }
    let mut text = text;
    take_byte(&mut text, b'S')?;
    let seq = take_hex(&mut text)?;
    take_byte(&mut text, b'\r')?;
    take_byte(&mut text, b'\n')?;
    Some((seq, text))
}

/// Parses `.mixmeta`; fails with a description of the damage.
pub(super) fn parse_meta(text: &[u8]) -> Result<MixMeta, &'static str> {
    let sequence = take_sequence(text).filter(|_| !text.is_empty());
    let Some((seq, mut text)) = sequence else { return Err("no sequence number at its beginning") };
    let mut meta = MixMeta { seq, ..MixMeta::default() };
    while !text.is_empty() {
        let end = memchr::memmem::find(text, b"\r\n").ok_or("its last line has no line end")?;
        let (mut line, rest) = (&text[..end], &text[end + 2..]);
        text = rest;
        let Some((key, value)) = line.split_first() else { continue };
        line = value;
        match key {
            b'V' => meta.uidvalidity = take_hex(&mut line).ok_or("UIDVALIDITY is not a number")?,
            b'L' => meta.uid_last = take_hex(&mut line).ok_or("the last UID is not a number")?,
            b'N' => meta.current = take_hex(&mut line).ok_or("the data file is not a number")?,
            b'K' => {
                let words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
                meta.keywords = words.take(KEYWORDS_MAX).map(<[u8]>::to_vec).collect();
                continue;
            }
            _ => return Err("it has an unknown line"),
        }
        if !line.is_empty() {
            return Err("it has a line that is too long");
        }
    }
    match meta.uidvalidity {
        0 => Err("it has no UIDVALIDITY"),
        _ => Ok(meta),
    }
}

/// Returns the text of `.mixmeta`.
pub(super) fn write_meta(meta: &MixMeta) -> Vec<u8> {
    let mut text = Vec::with_capacity(64);
    let MixMeta { seq, uidvalidity, uid_last, current, keywords } = meta;
    let lines = [(b'S', seq), (b'V', uidvalidity), (b'L', uid_last), (b'N', current)];
    for (key, number) in lines {
        put(&mut text, format_args!("{}{number:08x}\r\n", char::from(key)));
    }
    if !keywords.is_empty() {
        text.push(b'K');
        text.extend_from_slice(&keywords.join(&b' '));
        text.extend_from_slice(b"\r\n");
    }
    text
}

/// Parses a record of the index, without its line end. The flags are those of a message without a
/// status record.
pub(super) fn parse_index(line: &[u8]) -> Option<MixMessage> {
    let mut text = line;
    take_byte(&mut text, b':')?;
    Some(MixMessage {
        uid: take_field(&mut text).filter(|uid| *uid > 0)?,
        date: take_date(&mut text)?,
        size: take_field(&mut text)?,
        file: take_field(&mut text)?,
        pos: take_field(&mut text)?,
        line_len: take_field(&mut text)?,
        header_len: take_field(&mut text)?,
        keywords: 0,
        flags: 0,
        modseq: 0,
    })
}

/// Returns the text of the index.
pub(super) fn write_index(seq: u32, messages: &[MixMessage]) -> Vec<u8> {
    let mut text = Vec::with_capacity(11 + messages.len() * 77);
    put(&mut text, format_args!("S{seq:08x}\r\n"));
    for message in messages {
        let MixMessage { uid, date, size, file, pos, line_len, header_len, .. } = message;
        text.push(b':');
        put_field(&mut text, *uid);
        text.extend_from_slice(date);
        text.push(b':');
        for number in [size, file, pos, line_len, header_len] {
            put_field(&mut text, *number);
        }
        text.extend_from_slice(b"\r\n");
    }
    text
}

/// A record of the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StatusRecord {
    pub(super) uid: u32,
    pub(super) keywords: u32,
    pub(super) flags: u16,
    pub(super) modseq: u32,
}

/// Parses a record of the status, without its line end.
pub(super) fn parse_status(line: &[u8]) -> Option<StatusRecord> {
    let mut text = line;
    take_byte(&mut text, b':')?;
    Some(StatusRecord {
        uid: take_field(&mut text)?,
        keywords: take_field(&mut text)?,
        flags: take_field(&mut text)? as u16 & bits::ALL,
        modseq: take_field(&mut text)?,
    })
}

/// Returns the text of the status.
pub(super) fn write_status(seq: u32, messages: &[MixMessage]) -> Vec<u8> {
    let mut text = Vec::with_capacity(11 + messages.len() * 34);
    put(&mut text, format_args!("S{seq:08x}\r\n"));
    for message in messages {
        text.push(b':');
        put_field(&mut text, message.uid);
        put_field(&mut text, message.keywords);
        put(&mut text, format_args!("{:04x}:", message.flags));
        put_field(&mut text, message.modseq);
        text.extend_from_slice(b"\r\n");
    }
    text
}

/// Returns the line before a message, its line end included.
pub(super) fn message_line(uid: u32, date: &[u8; DATE_LEN], size: u32) -> Vec<u8> {
    let mut line = MESSAGE_TOKEN.to_vec();
    put_field(&mut line, uid);
    line.extend_from_slice(date);
    line.push(b':');
    put_field(&mut line, size);
    line.extend_from_slice(b"\r\n");
    line
}

/// Content of the line before a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageLine {
    pub(super) uid: u32,
    pub(super) date: [u8; DATE_LEN],
    pub(super) size: u32,
    /// Length of the line in bytes, the line end included.
    pub(super) len: u32,
}

/// Parses the line before a message, at the start of `text`.
pub(super) fn parse_message_line(text: &[u8]) -> Option<MessageLine> {
    let end = memchr::memchr(b'\n', text)?;
    let mut line = text[..end].strip_prefix(MESSAGE_TOKEN)?;
    Some(MessageLine {
        uid: take_field(&mut line)?,
        date: take_date(&mut line)?,
        size: take_field(&mut line)?,
        len: end as u32 + 1,
    })
}

fn put(text: &mut Vec<u8>, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("because a vector takes all");
}

fn put_field(text: &mut Vec<u8>, number: u32) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |shift: u32| DIGITS[(number >> shift & 0xf) as usize];
    text.extend_from_slice(&[28, 24, 20, 16, 12, 8, 4, 0].map(digit));
    text.push(b':');
}

const EPOCH: CivilDay = CivilDay { year: 1970, month: 1, day: 1 };
/// Days from 1970 to the end of 2097: c-client keeps seven bits of years since 1970.
const DAYS_MAX: i64 = 128 * 365 + 32;

/// Converts a date of a record.
fn parse_date(date: &[u8; DATE_LEN]) -> InternalDate {
    let number = |from: usize, to: usize| {
        date[from..to].iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'))
    };
    let month = number(4, 6).clamp(1, 12) as u32;
    let first = CivilDay { year: number(0, 4), month, day: 1 }.since_1970();
    // c-client does not check that the month has the day.
    let days = first.unwrap_or(0) + number(6, 8) - 1;
    let zone = number(15, 17) * 60 + number(17, 19);
    let zone = if date[14] == b'-' { -zone } else { zone };
    let seconds = days * 86_400 + number(8, 10) * 3600 + number(10, 12) * 60 + number(12, 14);
    InternalDate { unix_seconds: seconds - zone * 60, zone_minutes: zone as i16 }
}

/// Converts a date to the text of a record; the year is limited to those that c-client can store.
pub(super) fn write_date(date: InternalDate) -> [u8; DATE_LEN] {
    let zone = i64::from(date.zone_minutes.clamp(-99 * 60, 99 * 60));
    let last = DAYS_MAX * 86_400 - 1;
    let local = date.unix_seconds.saturating_add(zone * 60).clamp(0, last);
    let (days, seconds) = (local.div_euclid(86_400), local.rem_euclid(86_400));
    let CivilDay { year, month, day } = CivilDay::after_1970(days).unwrap_or(EPOCH);
    let sign = if zone < 0 { '-' } else { '+' };
    let (hours, minutes) = (zone.abs() / 60, zone.abs() % 60);
    let mut text = Vec::with_capacity(DATE_LEN);
    put(&mut text, format_args!("{year:04}{month:02}{day:02}"));
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    put(&mut text, format_args!("{hour:02}{minute:02}{second:02}{sign}{hours:02}{minutes:02}"));
    let mut date = [b'0'; DATE_LEN];
    date.copy_from_slice(&text);
    date
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_and_written() {
        let check = |text: &[u8; DATE_LEN], seconds: i64, zone: i16| {
            let date = InternalDate { unix_seconds: seconds, zone_minutes: zone };
            assert_eq!(parse_date(text), date);
            assert_eq!(write_date(date), *text);
        };
        check(b"19700101000000+0000", 0, 0);
        check(b"19921202055322-0700", 723_300_802, -420);
        check(b"20210101114113+0000", 1_609_501_273, 0);
        check(b"20240229235959+0530", 1_709_231_399, 330);
        check(b"20000301000000+0000", 951_868_800, 0);
    }

    #[test]
    fn records_are_read_and_written() {
        let line = b":00000001:19921202055322-0700:00000050:6b01e5e5:00000000:0000002d:00000039:";
        let message = parse_index(line).unwrap();
        let (file, line_len) = (0x6b01_e5e5, 0x2d);
        assert_eq!((message.size, message.file, message.line_len), (0x50, file, line_len));
        let text = write_index(0x1234, &[message]);
        assert_eq!(text, [b"S00001234\r\n", &line[..], b"\r\n"].concat());
        assert_eq!(parse_index(&[line, &b"more:"[..]].concat()), Some(message));
        assert_eq!(parse_index(&line[..line.len() - 1]), None);
        assert_eq!(message_line(1, &message.date, 0x50).len(), 45);
        let line = message_line(7, &message.date, 0x50);
        let parsed = parse_message_line(&line).unwrap();
        assert_eq!((parsed.uid, parsed.size, parsed.len), (7, 0x50, 45));
        let status = parse_status(b":2:1F:002d:6b01e8e4:").unwrap();
        assert_eq!((status.uid, status.keywords, status.flags), (2, 0x1f, 0x2d));
    }

    #[test]
    fn meta_is_read_and_written() {
        let check = |text: &str, expected: Result<(u32, usize), &str>| {
            let found = parse_meta(text.as_bytes());
            match (found, expected) {
                (Ok(meta), Ok(expected)) => {
                    assert_eq!((meta.uid_last, meta.keywords.len()), expected, "{text:?}");
                    let canonical = text.len() != 44 || write_meta(&meta) == text.as_bytes();
                    assert!(canonical, "{text:?}");
                }
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
                (found, _) => panic!("{text:?}: {found:?}"),
            }
        };
        check("S00000003\r\nV00000002\r\nL00000005\r\nN00000001\r\n", Ok((5, 0)));
        check("S3\r\nV2\r\nL5\r\nN1\r\nKa b $C\r\n", Ok((5, 3)));
        check("S3\r\nV2\r\nL5\r\nN1\r\nKa", Err("no line end"));
        check("S3\r\nV2\r\nL5\r\nXfoo\r\n", Err("unknown"));
        check("S3\r\nL5\r\n", Err("no UIDVALIDITY"));
        check("V3\r\n", Err("no sequence number"));
        check("", Err("no sequence number"));
    }
}
