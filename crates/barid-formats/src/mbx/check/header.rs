//! The header of the file: its first 2,048 bytes.

use std::io;
use std::path::Path;

use barid_vfs::File;

use super::super::layout::{
    HEADER_LEN, KEYWORD_LEN_MAX, KEYWORDS_MAX, MAGIC, MbxHeader, PID_OFFSET, UID_LAST_OFFSET,
    UIDVALIDITY_OFFSET, hex,
};
use crate::check::{Damage, Diagnosis, Severity};

const NAMES_OFFSET: usize = 25;

/// The header as it is and as the repair will write it.
pub(super) struct HeaderRepair {
    /// The parsed header, with repairs.
    pub(super) header: MbxHeader,
    /// `true` if the file begins as an mbx.
    pub(super) has_magic: bool,
    /// `true` if the last UID can be read.
    pub(super) uid_last_is_sound: bool,
    /// Raw bytes, with damaged parts replaced.
    old: Vec<u8>,
    /// The parsed header before repairs; only differences are written.
    read: MbxHeader,
    /// `true` if the names of the keywords must be rewritten.
    names_are_damaged: bool,
}

impl HeaderRepair {
    pub(super) fn set_uid_last(&mut self, uid: u32) {
        self.header.uid_last = uid;
        let at = UID_LAST_OFFSET as usize;
        self.old[at..at + 8].copy_from_slice(format!("{uid:08x}").as_bytes());
    }

    pub(super) fn set_uidvalidity(&mut self, uidvalidity: u32) {
        self.header.uidvalidity = uidvalidity;
        let at = UIDVALIDITY_OFFSET as usize;
        self.old[at..at + 8].copy_from_slice(format!("{uidvalidity:08x}").as_bytes());
    }

    /// Returns the repaired bytes.
    pub(super) fn bytes(self) -> Vec<u8> {
        let mut bytes = self.old;
        if self.names_are_damaged || self.header.names != self.read.names {
            let names = NAMES_OFFSET..PID_OFFSET as usize;
            let new = self.header.to_bytes();
            bytes[names.clone()].copy_from_slice(&new[names]);
        }
        bytes
    }
}

/// Checks the header.
pub(super) fn look_at_header(
    path: &Path,
    file: &dyn File,
    size: u64,
    diagnosis: &mut Diagnosis,
) -> io::Result<HeaderRepair> {
    let mut old = vec![0; HEADER_LEN.min(size) as usize];
    file.read_exact_at(&mut old, 0)?;
    let damage = |kind, severity| Damage::new(kind, severity, path);
    if old.len() < HEADER_LEN as usize {
        diagnosis.note(
            damage("header-short", Severity::Error)
                .at(size)
                .what(format!("the file ends after {size} of the {HEADER_LEN} bytes of its header"))
                .repair("the missing bytes are added"),
        );
        let empty = MbxHeader { uidvalidity: 0, uid_last: 0, names: Vec::new(), pid: 0 };
        let mut whole = empty.to_bytes();
        whole[PID_OFFSET as usize..].fill(0);
        whole[..old.len()].copy_from_slice(&old);
        old = whole;
    }
    let has_magic = old.starts_with(MAGIC);
    if !has_magic {
        diagnosis.note(
            damage("magic", Severity::Error)
                .at(0)
                .what("the file does not begin with `*mbx*`")
                .repair("it is written"),
        );
        old[..MAGIC.len()].copy_from_slice(MAGIC);
    }
    let (uidvalidity, uid_last) = numbers(path, &mut old, diagnosis);
    let (names, names_are_damaged) = names(path, &old, diagnosis);
    let pid = &old[PID_OFFSET as usize..];
    let is_pid =
        pid.iter().all(|byte| *byte == 0) || hex(&pid[..8]).is_some() && &pid[8..] == b"\r\n";
    if !is_pid {
        diagnosis.note(
            damage("pid", Severity::Note)
                .at(PID_OFFSET)
                .what("the process that last changed flags cannot be read")
                .repair("it is cleared"),
        );
        old[PID_OFFSET as usize..].fill(0);
    }
    let header = MbxHeader {
        uidvalidity: uidvalidity.unwrap_or(0),
        uid_last: uid_last.unwrap_or(0),
        names,
        pid: 0,
    };
    // Digits that were added because the file is too short prove nothing.
    let uid_last_is_sound = uid_last.is_some() && size >= UID_LAST_OFFSET + 8;
    let read = header.clone();
    Ok(HeaderRepair { read, header, has_magic, uid_last_is_sound, old, names_are_damaged })
}

/// Checks UIDVALIDITY, the last UID and the end of their line.
fn numbers(path: &Path, old: &mut [u8], diagnosis: &mut Diagnosis) -> (Option<u32>, Option<u32>) {
    let damage = |kind, severity| Damage::new(kind, severity, path);
    let uidvalidity = hex(&old[7..15]);
    if uidvalidity.unwrap_or(0) == 0 {
        diagnosis.note(
            damage("uidvalidity", Severity::Error)
                .at(UIDVALIDITY_OFFSET)
                .what("the UIDVALIDITY cannot be read, or is 0")
                .repair("a new UIDVALIDITY is assigned"),
        );
    }
    let uid_last = hex(&old[15..23]);
    if uid_last.is_none() {
        diagnosis.note(
            damage("uid-last", Severity::Error)
                .at(UID_LAST_OFFSET)
                .what("the last assigned UID cannot be read")
                .repair("it becomes that of the last message"),
        );
    }
    if &old[23..25] != b"\r\n" {
        diagnosis.note(
            damage("header-line", Severity::Error)
                .at(23)
                .what("the first line of numbers has no line end")
                .repair("it is written"),
        );
        old[23..25].copy_from_slice(b"\r\n");
    }
    (uidvalidity, uid_last)
}

/// Returns the names of the keywords, and `true` if they must be rewritten. An invalid name before
/// others is replaced, because c-client would read none of the following.
fn names(path: &Path, old: &[u8], diagnosis: &mut Diagnosis) -> (Vec<Vec<u8>>, bool) {
    let mut rest = &old[NAMES_OFFSET..PID_OFFSET as usize];
    let mut lines: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut is_damaged = false;
    for _ in 0..KEYWORDS_MAX {
        let offset = PID_OFFSET as usize - rest.len();
        let Some(end) = memchr::memmem::find(rest, b"\r\n") else {
            is_damaged = true;
            diagnosis.note(
                Damage::new("keyword-lines", Severity::Warning, path)
                    .at(offset as u64)
                    .what(format!(
                        "there are {} lines of keywords, not {KEYWORDS_MAX}",
                        lines.len()
                    ))
                    .repair("the missing lines are added, empty"),
            );
            break;
        };
        lines.push((offset, rest[..end].to_vec()));
        rest = &rest[end + 2..];
    }
    let used = lines.iter().rposition(|(_, name)| is_name(name)).map_or(0, |last| last + 1);
    let mut names = Vec::with_capacity(used);
    for (number, (offset, name)) in lines.into_iter().enumerate() {
        if is_name(&name) && number < used {
            names.push(name);
            continue;
        }
        if number >= used && name.is_empty() {
            continue;
        }
        is_damaged = true;
        let what = match name.is_empty() {
            true => "a keyword has no name, so that later ones are not read".to_owned(),
            false => format!("{:?} is not a valid keyword", String::from_utf8_lossy(&name)),
        };
        diagnosis.note(
            Damage::new("keyword-line", Severity::Warning, path)
                .at(offset as u64)
                .what(what)
                .repair("it is named `unknown` with its number"),
        );
        if number < used {
            names.push(format!("unknown-{}", number + 1).into_bytes());
        }
    }
    (names, is_damaged)
}

fn is_name(name: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !b"(){%*\"\\]".contains(byte);
    !name.is_empty() && name.len() <= KEYWORD_LEN_MAX && name.iter().all(is_plain)
}
