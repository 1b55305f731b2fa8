//! `dovecot-uidlist`: the UIDs of a Maildir by base name (Dovecot 2.3 `maildir-uidlist.c`).
//!
//! ```text
//! 3 V<uidvalidity> N<uidnext> G<guid, 32 hex>[ <key><value>]...
//! <uid>[ <key><value>]... :<base name>
//! ```
//!
//! The file is read without a lock: it only grows, by whole lines, or is replaced by a rename. A
//! last line without its end does not count yet. Versions 1 (also Courier's) and 2 are read, never
//! written.

use std::path::Path;

use barid_mailbox::{Error, Result};
use barid_types::{Uid, UidValidity};
use barid_vfs::{File, FileStamp, OpenOptions, Vfs};

use super::layout::{HEADER_LINE_MAX, SHORT_HEADER_LINE_LEN, UIDLIST_LEN_MAX, UIDLIST_TMP};
use super::name;
use super::state::ListState;
use super::table::Index;

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UidListHeader {
    /// 1, 2 or 3.
    pub(super) version: u8,
    /// The UIDVALIDITY.
    pub(super) uidvalidity: UidValidity,
    /// The lowest UID never given out, according to the header; lines may exceed it.
    pub(super) uidnext: Uid,
    /// The GUID of the mailbox, 32 hex digits.
    pub(super) guid: Option<[u8; 32]>,
    /// Other fields, unchanged.
    pub(super) extensions: Vec<u8>,
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UidLine {
    /// Its UID.
    pub(super) uid: Uid,
    /// The hash of its base name.
    pub(super) hash: u64,
    fields_at: u32,
    fields_len: u16,
    name_at: u32,
    name_len: u16,
}

/// The part of the file that was read: all of it, or what was appended since.
#[derive(Debug)]
pub(super) struct UidList {
    /// The first line; where only the tail was read, that of the last complete read.
    pub(super) header: UidListHeader,
    /// Offset of the end of complete lines.
    pub(super) end_offset: u64,
    /// `true` if something (a torn last line, an invalid field, a repeated name, an old version, a
    /// missing GUID) requires a new file at the next write.
    pub(super) rewrite: bool,
    /// The stamp of the file when it was read.
    pub(super) stamp: FileStamp,
    text: Vec<u8>,
    lines: Vec<UidLine>,
    index: Index,
    last: u32,
}

/// Reason why a file is not a uidlist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Corrupt(pub(super) &'static str);

/// Result of reading the file.
#[derive(Debug)]
pub(super) enum UidListRead {
    /// The file does not exist.
    Missing,
    /// The file was read.
    Read(Box<UidList>),
    /// The file contradicts itself.
    Corrupt(Corrupt),
}

impl UidList {
    /// Makes a list without messages.
    pub(super) fn empty(uidvalidity: UidValidity, guid: [u8; 32]) -> Self {
        let header = UidListHeader {
            version: 3,
            uidvalidity,
            uidnext: Uid::MIN,
            guid: Some(guid),
            extensions: Vec::new(),
        };
        Self::new(header, FileStamp::default())
    }

    fn new(header: UidListHeader, stamp: FileStamp) -> Self {
        Self {
            header,
            end_offset: 0,
            rewrite: false,
            stamp,
            text: Vec::new(),
            lines: Vec::new(),
            index: Index::default(),
            last: 0,
        }
    }

    /// Reads the whole file.
    pub(super) fn read(vfs: &dyn Vfs, path: &Path) -> Result<UidListRead> {
        let file = match vfs.open(path, OpenOptions::READ) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(UidListRead::Missing);
            }
            Err(source) => return Err(Error::at(path)(source)),
        };
        let metadata = file.metadata().map_err(Error::at(path))?;
        if metadata.size > UIDLIST_LEN_MAX {
            return Ok(UidListRead::Corrupt(Corrupt("it is too large")));
        }
        let mut text = vec![0; metadata.size as usize];
        let len = file.read_full_at(&mut text, 0).map_err(Error::at(path))?;
        text.truncate(len);
        Ok(match Self::parse(text, FileStamp::from(&metadata)) {
            Ok(list) => UidListRead::Read(Box::new(list)),
            Err(corrupt) => UidListRead::Corrupt(corrupt),
        })
    }

    /// Makes the list of a file that has not changed since it was read.
    pub(super) fn unread(known: &ListState, stamp: FileStamp) -> Self {
        let mut list = Self::new(known.header.clone(), stamp);
        (list.last, list.end_offset) = (known.last_uid, known.offset);
        list
    }

    /// Reads what was appended to the file since it was `known`. Returns `None` if it is another
    /// file or does not continue as it should: then it must be read completely.
    pub(super) fn read_tail(vfs: &dyn Vfs, path: &Path, known: &ListState) -> Result<Option<Self>> {
        let offset = known.offset;
        let file = match vfs.open(path, OpenOptions::READ) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::at(path)(source)),
        };
        let metadata = file.metadata().map_err(Error::at(path))?;
        let wanted = 1..=UIDLIST_LEN_MAX;
        if metadata.inode != known.inode || metadata.size < offset || !wanted.contains(&offset) {
            return Ok(None);
        }
        // A file that replaced another may have its inode.
        if read_header(&*file, path)?.is_none_or(|header| header != known.header) {
            return Ok(None);
        }
        // One more byte: the part read before must still end with a line end.
        let size = metadata.size.min(offset + UIDLIST_LEN_MAX);
        let mut text = vec![0; (size - offset) as usize + 1];
        let len = file.read_full_at(&mut text, offset - 1).map_err(Error::at(path))?;
        text.truncate(len);
        if text.first() != Some(&b'\n') {
            return Ok(None);
        }
        let mut list = Self::new(known.header.clone(), FileStamp::from(&metadata));
        list.last = known.last_uid;
        list.text = text;
        match list.parse_lines(1) {
            Ok(()) => {
                list.end_offset += offset - 1;
                Ok(Some(list))
            }
            Err(_) => Ok(None),
        }
    }

    /// Parses the text of a whole file.
    pub(super) fn parse(text: Vec<u8>, stamp: FileStamp) -> std::result::Result<Self, Corrupt> {
        let first = memchr::memchr(b'\n', &text).ok_or(Corrupt("it has no first line"))?;
        let header = parse_header(&text[..first])?;
        let mut list = Self::new(header, stamp);
        list.rewrite = list.header.version != 3 || list.header.guid.is_none();
        // A line with its name is hardly shorter.
        list.lines.reserve(text.len() / 48);
        list.index = Index::with_capacity(text.len() / 48);
        list.text = text;
        list.parse_lines(first + 1)?;
        Ok(list)
    }

    fn parse_lines(&mut self, from: usize) -> std::result::Result<(), Corrupt> {
        let text = std::mem::take(&mut self.text);
        let mut at = from;
        let mut result = Ok(());
        while let Some(len) = memchr::memchr(b'\n', &text[at..]) {
            // A crash left this of lines being appended, whose UIDs were never announced.
            if memchr::memchr(0, &text[at..at + len]).is_some() {
                break;
            }
            result = self.parse_line(&text, at, len);
            if result.is_err() {
                break;
            }
            at += len + 1;
        }
        self.end_offset = at as u64;
        self.rewrite |= at < text.len();
        self.text = text;
        result
    }

    fn parse_line(
        &mut self,
        text: &[u8],
        at: usize,
        len: usize,
    ) -> std::result::Result<(), Corrupt> {
        let line = &text[at..at + len];
        let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let uid = number(&line[..digits]).ok_or(Corrupt("a UID is not a number"))?;
        if uid == 0 || line.get(digits) != Some(&b' ') {
            return Err(Corrupt("a line does not start with a UID"));
        }
        if uid <= self.last {
            return Err(Corrupt("the UIDs do not ascend"));
        }
        if uid == u32::MAX || (self.header.version == 1 && uid >= self.header.uidnext.get()) {
            return Err(Corrupt("a UID is too high"));
        }
        self.last = uid;
        let spaces = line[digits..].iter().take_while(|byte| **byte == b' ').count();
        let fields_at = digits + spaces;
        let (fields_len, name_at) = match self.header.version {
            3 => self.skip_fields(line, fields_at)?,
            2 => (0, fields_at + skip_number(&line[fields_at..])),
            _ => (0, fields_at),
        };
        let base = name::base(&line[name_at..]);
        if line.len() == name_at || memchr::memchr(b'/', line).is_some() {
            return Err(Corrupt("a line has no file name"));
        }
        self.add(
            UidLine {
                uid: Uid::new(uid).ok_or(Corrupt("a UID is 0"))?,
                hash: name::base_hash(base),
                fields_at: (at + fields_at) as u32,
                fields_len: u16::try_from(fields_len).map_err(|_| Corrupt("a line is too long"))?,
                name_at: (at + name_at) as u32,
                name_len: u16::try_from(base.len()).map_err(|_| Corrupt("a line is too long"))?,
            },
            text,
        );
        Ok(())
    }

    /// Skips `<key><value>` fields; returns their length and the offset of the name.
    fn skip_fields(
        &mut self,
        line: &[u8],
        from: usize,
    ) -> std::result::Result<(usize, usize), Corrupt> {
        let mut at = from;
        while at < line.len() && line[at] != b':' {
            self.rewrite |= !line[at].is_ascii_uppercase();
            at += memchr::memchr(b' ', &line[at..]).ok_or(Corrupt("a line has no file name"))?;
            at += line[at..].iter().take_while(|byte| **byte == b' ').count();
        }
        if at + 1 >= line.len() {
            return Err(Corrupt("a line has no file name"));
        }
        Ok((at - from, at + 1))
    }

    /// Adds a line; of two lines with one name the later one counts.
    fn add(&mut self, line: UidLine, text: &[u8]) {
        let base = &text[line.name_at as usize..][..usize::from(line.name_len)];
        let lines = &self.lines;
        let same = |at: u32| {
            let other = &lines[at as usize];
            other.hash == line.hash
                && &text[other.name_at as usize..][..usize::from(other.name_len)] == base
        };
        if let Some(at) = self.index.find(line.hash, same) {
            self.rewrite |= self.lines[at as usize].uid != line.uid;
            self.lines[at as usize] = line;
            return;
        }
        self.index.insert(line.hash, self.lines.len() as u32, |at| lines[at as usize].hash);
        self.lines.push(line);
    }

    /// Returns the lowest UID that was never given out, according to the header and the last line.
    pub(super) fn uidnext(&self) -> Uid {
        Uid::new(self.last.saturating_add(1)).unwrap_or(Uid::MAX).max(self.header.uidnext)
    }

    /// Returns the highest UID of a line, 0 if there are no lines.
    pub(super) fn last_uid(&self) -> u32 {
        self.last
    }

    /// Returns the lines, in the order of the file except for repeated names.
    pub(super) fn lines(&self) -> &[UidLine] {
        &self.lines
    }

    /// Returns the base name of a line.
    pub(super) fn name(&self, line: &UidLine) -> &[u8] {
        &self.text[line.name_at as usize..][..usize::from(line.name_len)]
    }

    /// Returns the line of a base name.
    pub(super) fn find(&self, hash: u64, base: &[u8]) -> Option<&UidLine> {
        let is = |at: u32| {
            let line = &self.lines[at as usize];
            line.hash == hash && self.name(line) == base
        };
        self.index.find(hash, is).map(|at| &self.lines[at as usize])
    }

    /// Returns a line whose base name has this hash.
    pub(super) fn find_hash(&self, hash: u64) -> Option<&UidLine> {
        let is = |at: u32| self.lines[at as usize].hash == hash;
        self.index.find(hash, is).map(|at| &self.lines[at as usize])
    }

    /// Writes a line with a base name, the fields as the file has them.
    pub(super) fn write_line(&self, line: &UidLine, base: &[u8], out: &mut Vec<u8>) {
        let fields = &self.text[line.fields_at as usize..][..usize::from(line.fields_len)];
        write_number(line.uid.get(), out);
        for field in fields.split(|byte| *byte == b' ') {
            if field.first().is_some_and(u8::is_ascii_uppercase) {
                out.push(b' ');
                out.extend_from_slice(field);
            }
        }
        out.extend_from_slice(b" :");
        out.extend_from_slice(base);
        out.push(b'\n');
    }
}

/// Writes a new line for `name`.
pub(super) fn write_new_line(uid: Uid, base: &[u8], out: &mut Vec<u8>) {
    write_number(uid.get(), out);
    out.extend_from_slice(b" :");
    out.extend_from_slice(base);
    out.push(b'\n');
}

/// Writes the first line, with the `uidnext` given.
pub(super) fn write_header(
    header: &UidListHeader,
    uidnext: Uid,
    guid: &[u8; 32],
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(format!("3 V{} N{uidnext} G", header.uidvalidity).as_bytes());
    out.extend_from_slice(header.guid.as_ref().unwrap_or(guid));
    if !header.extensions.is_empty() {
        out.push(b' ');
        out.extend_from_slice(&header.extensions);
    }
    out.push(b'\n');
}

/// Appends `text` to the file, durably. The dotlock is held.
///
/// Commit point: the `fdatasync`. After a crash before it, readers find the old lines, perhaps some
/// of the new ones, and perhaps a torn last one, or NULs instead of some and others after them:
/// neither a torn line nor anything after NULs counts.
pub(super) fn append(vfs: &dyn Vfs, path: &Path, at: u64, text: &[u8]) -> Result<FileStamp> {
    let write = || {
        let file = vfs.open(path, OpenOptions::WRITE)?;
        file.write_all_at(text, at)?;
        file.sync_data()?;
        Ok(FileStamp::from(&file.metadata()?))
    };
    write().map_err(Error::at(path))
}

/// Replaces the file by one with the content `text`, durably. The dotlock is held.
///
/// Order: write and fsync a file beside it, rename, fsync the directory. Commit point: the rename;
/// a crash leaves the complete old file or the complete new one.
pub(super) fn replace(vfs: &dyn Vfs, dir: &Path, path: &Path, text: &[u8]) -> Result<FileStamp> {
    let beside = dir.join(UIDLIST_TMP);
    let write = || {
        let file = super::open_beside(vfs, dir, path, &beside)?;
        file.write_all_at(text, 0)?;
        file.sync_all()?;
        vfs.rename(&beside, path)?;
        vfs.sync_dir(dir)?;
        Ok(FileStamp::from(&file.metadata()?))
    };
    write().map_err(|source| {
        // A leftover of this attempt is overwritten by the next one.
        let _ = vfs.remove_file(&beside);
        Error::at(path)(source)
    })
}

/// Reads the first line, which is short unless it has many fields of others.
pub(super) fn read_header(file: &dyn File, path: &Path) -> Result<Option<UidListHeader>> {
    let mut start = [0; HEADER_LINE_MAX];
    for len in [SHORT_HEADER_LINE_LEN, HEADER_LINE_MAX] {
        let len = file.read_full_at(&mut start[..len], 0).map_err(Error::at(path))?;
        if let Some((header, _)) = first_line(&start[..len]) {
            return Ok(Some(header));
        }
    }
    Ok(None)
}

/// Returns the first line, parsed, and the other lines.
pub(super) fn first_line(text: &[u8]) -> Option<(UidListHeader, &[u8])> {
    let end = memchr::memchr(b'\n', text)?;
    Some((parse_header(&text[..end]).ok()?, &text[end + 1..]))
}

pub(super) fn parse_header(line: &[u8]) -> std::result::Result<UidListHeader, Corrupt> {
    let (version, rest) = match line {
        [version @ b'1'..=b'3', b' ', rest @ ..] => (version - b'0', rest),
        _ => return Err(Corrupt("the version is unknown")),
    };
    let mut fields = rest.split(|byte| *byte == b' ').filter(|field| !field.is_empty());
    let (mut uidvalidity, mut uidnext, mut guid) = (None, None, None);
    let mut extensions = Vec::new();
    if version < 3 {
        uidvalidity = fields.next().and_then(number);
        uidnext = fields.next().and_then(number);
    } else {
        for field in fields {
            match field[0] {
                b'V' => uidvalidity = number(&field[1..]),
                b'N' => uidnext = number(&field[1..]),
                b'G' => guid = Some(parse_guid(&field[1..])?),
                _ => {
                    if !extensions.is_empty() {
                        extensions.push(b' ');
                    }
                    extensions.extend_from_slice(field);
                }
            }
        }
    }
    Ok(UidListHeader {
        version,
        uidvalidity: uidvalidity
            .and_then(UidValidity::new)
            .ok_or(Corrupt("it has no UIDVALIDITY"))?,
        uidnext: uidnext.and_then(Uid::new).ok_or(Corrupt("it has no next UID"))?,
        guid,
        extensions,
    })
}

fn parse_guid(text: &[u8]) -> std::result::Result<[u8; 32], Corrupt> {
    let guid: [u8; 32] = text.try_into().map_err(|_| Corrupt("the GUID is malformed"))?;
    match guid.iter().all(u8::is_ascii_hexdigit) {
        true => Ok(guid),
        false => Err(Corrupt("the GUID is malformed")),
    }
}

/// Parses a number of decimal digits only.
fn number(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u32, |number, digit| match digit {
        b'0'..=b'9' => number.checked_mul(10)?.checked_add(u32::from(digit - b'0')),
        _ => None,
    })
}

/// Returns the length of a number and the spaces after it (the flags of version 2).
fn skip_number(text: &[u8]) -> usize {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits + text[digits..].iter().take_while(|byte| **byte == b' ').count()
}

fn write_number(number: u32, out: &mut Vec<u8>) {
    let mut digits = [0; 10];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "3 V7 N5 G0123456789abcdef0123456789abcdef";

    fn parse(text: &str) -> std::result::Result<UidList, Corrupt> {
        UidList::parse(text.as_bytes().to_vec(), FileStamp::default())
    }

    fn check(text: &str, expected: &[(u32, &str)], rewrite: bool) {
        let list = parse(text).unwrap();
        let lines: Vec<_> = list
            .lines()
            .iter()
            .map(|line| (line.uid.get(), std::str::from_utf8(list.name(line)).unwrap()))
            .collect();
        assert_eq!(lines, expected, "{text}");
        assert_eq!(list.rewrite, rewrite, "{text}");
        for line in list.lines() {
            assert_eq!(list.find(line.hash, list.name(line)), Some(line));
        }
    }

    #[test]
    fn lines_are_read() {
        check(&format!("{HEADER}\n1 :a\n3 S12 W13 :b\n"), &[(1, "a"), (3, "b")], false);
        check(&format!("{HEADER}\n1 :a:2,S\n"), &[(1, "a")], false);
        check(&format!("{HEADER}\n1  :a b\n"), &[(1, "a b")], false);
        check(&format!("{HEADER}\n1 :a\n2 :to"), &[(1, "a")], true);
        check(&format!("{HEADER}\n1 x :a\n"), &[(1, "a")], true);
        check(&format!("{HEADER}\n1 :a\n2 :b\0\0c\n4 :d\n"), &[(1, "a")], true);
        check(&format!("{HEADER}\n1 :a\n2 :b\n3 :a\n"), &[(3, "a"), (2, "b")], true);
        check("3 V7 N5\n1 :a\n", &[(1, "a")], true);
        check("1 7 5\n1 a\n", &[(1, "a")], true);
        check("2 7 5\n1 0 a\n", &[(1, "a")], true);
    }

    #[test]
    fn contradictions_are_corrupt() {
        for lines in ["0 :a", "2 :a\n2 :b", "4294967295 :a", "1 :a/b", "1 a", "1 :", "x", "1", ""] {
            assert!(parse(&format!("{HEADER}\n{lines}\n")).is_err(), "{lines}");
        }
        for header in ["", "4 V1 N1", "3 N1", "3 V1", "3 V0 N1", "1 7", "3 V1 N1 Gxyz"] {
            assert!(parse(&format!("{header}\n")).is_err(), "{header}");
        }
        assert!(parse("1 7 5\n5 a\n").is_err());
        assert!(parse("3 V1 N1").is_err());
    }

    #[test]
    fn the_next_uid_is_of_the_header_or_past_the_last_line() {
        let next = |text: &str| parse(text).unwrap().uidnext().get();
        assert_eq!(next(&format!("{HEADER}\n")), 5);
        assert_eq!(next(&format!("{HEADER}\n9 :a\n")), 10);
    }

    #[test]
    fn a_line_is_written_as_it_was_read() {
        let list = parse(&format!("{HEADER} Pxyz\n3 S12 bad W13 :b\n")).unwrap();
        let mut out = Vec::new();
        write_header(&list.header, list.uidnext(), &[b'0'; 32], &mut out);
        list.write_line(&list.lines()[0], list.name(&list.lines()[0]), &mut out);
        write_new_line(Uid::new(12).unwrap(), b"c", &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            format!("{HEADER} Pxyz\n3 S12 W13 :b\n12 :c\n")
        );
    }
}
