//! Check of `dovecot-uidlist` and `dovecot-keywords`, line by line.

use std::collections::HashMap;
use std::path::Path;

use barid_mailbox::{Error, Result};
use barid_types::{Keyword, UidValidity};

use super::super::Maildir;
use super::super::keywords::parse_line;
use super::super::layout::{KEYWORDS, KEYWORDS_LEN_MAX, LETTERS, UIDLIST, UIDLIST_LEN_MAX};
use super::super::name;
use crate::check::{
    DOUBT, Damage, Diagnosis, FolderStep, NEW_UIDVALIDITY, Severity, UidsFound, new_uidvalidity,
    uidvalidity_now,
};

/// Examines both files.
pub(super) fn look_at_lists(
    maildir: &Maildir,
    letters: u32,
    diagnosis: &mut Diagnosis,
) -> Result<()> {
    if let Some(text) = read(maildir, UIDLIST, UIDLIST_LEN_MAX)? {
        let list = List::look(maildir, &text, diagnosis);
        if list.is_damaged {
            let text = list.text(maildir)?;
            // Before any rename: a line without its file does no harm.
            let step = FolderStep::write(&*maildir.vfs, &maildir.path, Path::new(UIDLIST), text)?;
            diagnosis.plan.steps.insert(0, step);
        }
    }
    let text = read(maildir, KEYWORDS, KEYWORDS_LEN_MAX)?;
    look_at_keywords(maildir, text.as_deref(), letters, diagnosis)
}

fn read(maildir: &Maildir, name: &str, len_max: u64) -> Result<Option<Vec<u8>>> {
    let path = maildir.path.join(name);
    match maildir.vfs.read(&path, len_max) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::at(&path)(error)),
    }
}

/// The list of UIDs.
struct List {
    /// The first line, if it is intact.
    header: Option<Vec<u8>>,
    uidvalidity: Option<u32>,
    uidnext: Option<u32>,
    lines: Vec<ReadableLine>,
    is_damaged: bool,
    /// Offset of the last line with an unreadable UID.
    unreadable: Option<u64>,
    /// The highest UID of lines that are left out.
    highest: u32,
    /// `true` if UIDs that were given out may be unknown: a new UIDVALIDITY is due.
    is_void: bool,
}

/// A readable line.
struct ReadableLine {
    offset: u64,
    uid: u32,
    /// The bytes between UID and name.
    fields: Vec<u8>,
    name: Vec<u8>,
}

impl List {
    fn look(maildir: &Maildir, text: &[u8], diagnosis: &mut Diagnosis) -> Self {
        let path = maildir.path.join(UIDLIST);
        let damage = |kind, severity| Damage::new(kind, severity, &path);
        let (header, uidvalidity, uidnext, lines) = (None, None, None, Vec::new());
        let mut list = Self {
            header,
            uidvalidity,
            uidnext,
            lines,
            is_damaged: false,
            unreadable: None,
            highest: 0,
            is_void: false,
        };
        let mut at = 0;
        let mut version = 3;
        for (number, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let offset = at as u64;
            at += line.len();
            let Some(line) = line.strip_suffix(b"\n") else {
                list.is_damaged = true;
                list.leave_out(line, offset);
                let what = "the last line has no line end and is ignored";
                let damage = damage("uidlist-end", Severity::Warning).at(offset).what(what);
                diagnosis.note(damage.repair("it is removed"));
                continue;
            };
            if number == 0 {
                version = line.first().map_or(3, |first| first.wrapping_sub(b'0'));
                if !list.read_header(line) {
                    list.is_damaged = true;
                    let what = "its first line cannot be read, so that all UIDs are invalid";
                    let damage = damage("uidlist-header", Severity::Error).at(0).what(what);
                    diagnosis.note(damage.repair("it is rewritten with its readable parts"));
                }
                continue;
            }
            match ReadableLine::parse(line, offset, version) {
                Ok((line, is_sound)) => {
                    if !is_sound {
                        list.is_damaged = true;
                        let what = "a field of the line is malformed";
                        let damage = damage("uidlist-field", Severity::Warning).at(offset);
                        diagnosis.note(damage.of(line.uid).what(what).repair("it is removed"));
                    }
                    list.lines.push(line);
                }
                Err(what) => {
                    list.is_damaged = true;
                    list.leave_out(line, offset);
                    let what = format!("{what}, so that all UIDs are invalid");
                    let damage = damage("uidlist-line", Severity::Error).at(offset).what(what);
                    diagnosis.note(damage.repair("the line is removed"));
                }
            }
        }
        list.order(&path, diagnosis);
        list.doubt(!text.is_empty(), &path, diagnosis);
        list
    }

    /// Records a line that cannot be parsed: digits and a space are a UID.
    fn leave_out(&mut self, line: &[u8], offset: u64) {
        let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let uid = std::str::from_utf8(&line[..digits]).ok().and_then(|digits| digits.parse().ok());
        match uid.filter(|_| line.get(digits) == Some(&b' ')) {
            Some(uid) => self.highest = self.highest.max(uid),
            None => self.unreadable = Some(offset),
        }
    }

    /// Determines if UIDs may have been given out that the list does not contain any more. Dovecot
    /// does not rewrite the first line with every line appended.
    fn doubt(&mut self, has_text: bool, path: &Path, diagnosis: &mut Diagnosis) {
        let (last_at, last) = self.lines.last().map_or((0, 0), |line| (line.offset, line.uid));
        let next = self.uidnext.unwrap_or(0).max(last.saturating_add(1));
        self.is_void |= has_text && self.uidnext.unwrap_or(0) == 0
            || self.unreadable.is_some_and(|at| at > last_at)
            || self.highest >= next;
        self.is_damaged |= self.is_void;
        if self.is_void && self.uidvalidity.is_some() {
            let damage = Damage::new("uidvalidity", Severity::Error, path).at(0).what(DOUBT);
            diagnosis.note(damage.repair(NEW_UIDVALIDITY));
        }
    }

    /// Parses the first line; returns `true` if it is intact.
    fn read_header(&mut self, line: &[u8]) -> bool {
        let text = String::from_utf8_lossy(line);
        let mut fields = text.split(' ').filter(|field| !field.is_empty());
        let version = fields.next();
        if matches!(version, Some("1" | "2")) {
            self.uidvalidity = fields.next().and_then(|field| field.parse().ok());
            self.uidnext = fields.next().and_then(|field| field.parse().ok());
        } else {
            for field in fields {
                match field.split_at_checked(1) {
                    Some(("V", number)) => self.uidvalidity = number.parse().ok(),
                    Some(("N", number)) => self.uidnext = number.parse().ok(),
                    _ => {}
                }
            }
        }
        self.uidvalidity = self.uidvalidity.filter(|number| *number > 0);
        let numbered = self.uidvalidity.is_some() && self.uidnext.is_some_and(|next| next > 0);
        let is_sound = numbered && matches!(version, Some("1" | "2" | "3"));
        self.header = (is_sound && version == Some("3")).then(|| line.to_vec());
        is_sound
    }

    /// Finds lines whose UIDs do not ascend, and duplicate names.
    fn order(&mut self, path: &Path, diagnosis: &mut Diagnosis) {
        let damage = |kind, severity| Damage::new(kind, severity, path);
        let found: Vec<u32> = self.lines.iter().map(|line| line.uid).collect();
        let uids = UidsFound { found: &found, last: None };
        let rise = uids.longest_rise();
        let mended = uids.mend_by(&rise);
        // A file whose line is removed gets a new UID: nothing else becomes void.
        let is_kept = rise.is_kept(found.len());
        self.highest = found.iter().copied().fold(self.highest, u32::max);
        for (at, line) in self.lines.iter_mut().enumerate().filter(|(at, _)| !is_kept[*at]) {
            self.is_damaged = true;
            let what = "the UID does not ascend, so that all UIDs are invalid";
            let damage = damage("uidlist-order", Severity::Error).at(line.offset).of(line.uid);
            let damage = damage.what(what);
            diagnosis
                .note(damage.repair(
                    "the line gets the UID between those of its neighbours, or is removed",
                ));
            line.uid = if mended.is_void { 0 } else { mended.uids[at] };
        }
        self.lines.retain(|line| line.uid > 0);
        let mut last: HashMap<Vec<u8>, u32> = HashMap::with_capacity(self.lines.len());
        for line in &self.lines {
            last.insert(name::base(&line.name).to_vec(), line.uid);
        }
        let mut twice = Vec::new();
        self.lines.retain(|line| {
            let is_last = last.get(name::base(&line.name)) == Some(&line.uid);
            if !is_last {
                twice.push((line.offset, line.uid));
            }
            is_last
        });
        for (offset, uid) in twice {
            self.is_damaged = true;
            let what = "a later line has the same name and takes precedence";
            let damage = damage("uidlist-twice", Severity::Warning).at(offset).of(uid).what(what);
            diagnosis.note(damage.repair("the line is removed"));
        }
    }

    /// Returns a UIDVALIDITY above the present one.
    fn new_uidvalidity(&self, maildir: &Maildir) -> u32 {
        new_uidvalidity(uidvalidity_now(&*maildir.vfs), self.uidvalidity.unwrap_or(0))
    }

    fn text(&self, maildir: &Maildir) -> Result<Vec<u8>> {
        let last = self.lines.last().map_or(0, |line| line.uid);
        let mut text = match &self.header {
            Some(header) if !self.is_void => header.clone(),
            Some(header) => with_uidvalidity(header, self.new_uidvalidity(maildir)),
            None => {
                let known = self.uidvalidity.filter(|_| !self.is_void);
                let uidvalidity = known.unwrap_or_else(|| self.new_uidvalidity(maildir));
                let uidvalidity = UidValidity::new(uidvalidity).unwrap_or(UidValidity::MIN);
                let uidnext = self.uidnext.unwrap_or(1).max(last.saturating_add(1));
                let mut guid = [0; 16];
                let path = || maildir.path.join(UIDLIST);
                maildir.vfs.random(&mut guid).map_err(|error| Error::at(&path())(error))?;
                let guid = u128::from_le_bytes(guid);
                format!("3 V{uidvalidity} N{uidnext} G{guid:032x}").into_bytes()
            }
        };
        text.push(b'\n');
        for line in &self.lines {
            text.extend_from_slice(line.uid.to_string().as_bytes());
            text.extend_from_slice(&line.fields);
            text.extend_from_slice(&line.name);
            text.push(b'\n');
        }
        Ok(text)
    }
}

/// Returns the first line with another UIDVALIDITY.
fn with_uidvalidity(header: &[u8], uidvalidity: u32) -> Vec<u8> {
    let fields = header.split(|byte| *byte == b' ');
    let fields: Vec<Vec<u8>> = fields
        .map(|field| match field.first() {
            Some(b'V') => format!("V{uidvalidity}").into_bytes(),
            _ => field.to_vec(),
        })
        .collect();
    fields.join(&b' ')
}

impl ReadableLine {
    /// Parses a line; returns it and `true` if all its fields are valid, or a description of the
    /// damage.
    fn parse(
        line: &[u8],
        offset: u64,
        version: u8,
    ) -> std::result::Result<(Self, bool), &'static str> {
        let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let uid = std::str::from_utf8(&line[..digits]).ok().and_then(|digits| digits.parse().ok());
        let uid: u32 = uid.filter(|uid| (1..u32::MAX).contains(uid)).ok_or("a line has no UID")?;
        let mut rest =
            line[digits..].strip_prefix(b" ").ok_or("a line has no UID")?.trim_ascii_start();
        let mut fields = b" ".to_vec();
        let mut is_sound = true;
        if version != 3 {
            fields.push(b':');
            let flags = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            rest = if version == 2 { rest[flags..].trim_ascii_start() } else { rest };
        }
        while version == 3 && rest.first() != Some(&b':') {
            let end = memchr::memchr(b' ', rest).ok_or("a line has no file name")?;
            let field = &rest[..end];
            match field.first().is_some_and(u8::is_ascii_uppercase) {
                true => fields.extend_from_slice(&rest[..=end]),
                false => is_sound &= field.is_empty(),
            }
            rest = &rest[end + 1..];
        }
        if version == 3 {
            fields.push(b':');
            rest = &rest[1..];
        }
        if name::base(rest).is_empty() || memchr::memchr(b'/', line).is_some() {
            return Err("a line has no file name");
        }
        Ok((Self { offset, uid, fields, name: rest.to_vec() }, is_sound))
    }
}

fn look_at_keywords(
    maildir: &Maildir,
    text: Option<&[u8]>,
    letters: u32,
    diagnosis: &mut Diagnosis,
) -> Result<()> {
    let path = maildir.path.join(KEYWORDS);
    let mut names: [Option<Keyword>; LETTERS] = Default::default();
    let mut is_damaged = false;
    let mut at = 0;
    for line in text.unwrap_or_default().split_inclusive(|byte| *byte == b'\n') {
        let offset = at as u64;
        at += line.len();
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let (kind, what, repair) = match parse_line(line) {
            Some((_, keyword)) if names.contains(&Some(keyword.clone())) => {
                ("keywords-twice", "the keyword is repeated", "the line is removed")
            }
            Some((number, keyword)) => match names[number].replace(keyword) {
                None => continue,
                Some(_) => (
                    "keywords-twice",
                    "its letter already has a keyword",
                    "the later one takes precedence",
                ),
            },
            None => ("keywords-line", "the line is not a keyword", "it is removed"),
        };
        is_damaged = true;
        let damage = Damage::new(kind, Severity::Warning, &path).at(offset).what(what);
        diagnosis.note(damage.repair(repair));
    }
    for letter in (0..LETTERS).filter(|letter| letters >> letter & 1 == 1) {
        if names[letter].is_none() {
            let what = format!(
                "messages have the keyword {:?}, which has no name",
                (b'a' + letter as u8) as char
            );
            diagnosis.note(Damage::new("keyword-name", Severity::Note, &path).what(what));
        }
    }
    if !is_damaged {
        return Ok(());
    }
    let mut new = Vec::new();
    for (number, name) in names.iter().enumerate() {
        if let Some(name) = name {
            new.extend_from_slice(format!("{number} {}\n", name.as_str()).as_bytes());
        }
    }
    let step = FolderStep::write(&*maildir.vfs, &maildir.path, Path::new(KEYWORDS), new)?;
    diagnosis.plan.steps.push(step);
    Ok(())
}
