//! Check of `.mixmeta` and `.mixstatus`, line by line.

use std::collections::BTreeMap;
use std::path::Path;

use super::super::layout::{KEYWORD_LEN_MAX, KEYWORDS_MAX, META, STATUS};
use super::super::record::{self, MixMessage, StatusRecord, take_sequence};
use super::super::snapshot::lines;
use super::damage;
use crate::check::{DOUBT, Diagnosis, NEW_UIDVALIDITY, Severity, new_uidvalidity};

/// `.mixmeta`.
pub(super) struct CheckedMeta {
    pub(super) meta: record::MixMeta,
    /// `true` if it must be rewritten.
    pub(super) is_damaged: bool,
    /// `true` if the last UID can be read.
    has_last: bool,
    /// `true` if damage of the UIDVALIDITY, and of the last UID, is recorded already.
    is_told: (bool, bool),
}

impl CheckedMeta {
    /// Examines the file.
    pub(super) fn look(folder: &Path, text: Option<&[u8]>, diagnosis: &mut Diagnosis) -> Self {
        let (is_damaged, has_last, is_told) = (false, false, (false, false));
        let mut meta = Self { meta: record::MixMeta::default(), is_damaged, has_last, is_told };
        let Some(text) = text else {
            let damage = damage(folder, META, "meta-missing", Severity::Error)
                .what(".mixmeta is missing, so that programs do not detect the mailbox")
                .repair("it is created, with a new UIDVALIDITY");
            diagnosis.note(damage);
            (meta.is_damaged, meta.is_told) = (true, (true, true));
            return meta;
        };
        let mut lines = lines(text).peekable();
        match take_sequence(text).filter(|_| !text.is_empty()) {
            Some((seq, _)) => {
                meta.meta.seq = seq;
                lines.next();
            }
            None => {
                meta.is_damaged = true;
                let damage = damage(folder, META, "meta-sequence", Severity::Error)
                    .at(0)
                    .what("it does not begin with a sequence number")
                    .repair("a number above all others is added");
                diagnosis.note(damage);
                // A first line that is one of the others is not lost.
                let is_other = |line: &[u8]| line.first().is_some_and(|key| b"VLNK".contains(key));
                lines.next_if(|(_, line, _)| !is_other(line));
            }
        }
        for (offset, line, has_end) in lines {
            meta.line(folder, (offset, line, has_end), diagnosis);
        }
        meta
    }

    fn line(
        &mut self,
        folder: &Path,
        (offset, line, has_end): (u64, &[u8], bool),
        diagnosis: &mut Diagnosis,
    ) {
        let mut note = |kind, severity, what: &str, repair| {
            let damage = damage(folder, META, kind, severity).at(offset).what(what).repair(repair);
            diagnosis.note(damage);
            self.is_damaged = true;
        };
        let (key, value) = line.split_first().map_or((0, line), |(key, value)| (*key, value));
        let number = number(value);
        let is_number = value.is_empty() || number.is_none();
        let unreadable = |what: &str| format!("the {what} cannot be read");
        match key {
            0 if line.is_empty() => {}
            b'V' if is_number => {
                let what = unreadable("UIDVALIDITY");
                self.is_told.0 = true;
                note("uidvalidity", Severity::Error, &what, "a new UIDVALIDITY is assigned");
            }
            b'L' if is_number => {
                let what = unreadable("last UID");
                self.is_told.1 = true;
                note("uid-last", Severity::Error, &what, "it becomes that of the last message");
            }
            b'N' if is_number => {
                let what = unreadable("data file for new messages");
                note("meta-current", Severity::Error, &what, "it becomes that of the last message");
            }
            b'V' => self.meta.uidvalidity = number.unwrap_or(0),
            b'L' => (self.meta.uid_last, self.has_last) = (number.unwrap_or(0), true),
            b'N' => self.meta.current = number.unwrap_or(0),
            b'K' => {
                let words = value.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
                let words: Vec<Vec<u8>> = words.map(<[u8]>::to_vec).collect();
                let is_word = |word: &Vec<u8>| {
                    let is_plain = |byte: &u8| !byte.is_ascii_control();
                    word.len() <= KEYWORD_LEN_MAX && word.iter().all(is_plain)
                };
                if words.len() > KEYWORDS_MAX || !words.iter().all(is_word) {
                    let what = "a keyword is too long or invalid, or there are more than 30";
                    let repair = "invalid keywords are renamed to `unknown` with their number";
                    note("keyword-line", Severity::Warning, what, repair);
                }
                let named = words.into_iter().take(KEYWORDS_MAX).enumerate();
                let name = |(at, word): (usize, Vec<u8>)| match is_word(&word) {
                    true => word,
                    false => format!("unknown-{}", at + 1).into_bytes(),
                };
                self.meta.keywords = named.map(name).collect();
            }
            _ => note(
                "meta-line",
                Severity::Error,
                "a line is unknown, so that c-client refuses the mailbox",
                "it is removed",
            ),
        }
        if !has_end {
            let (kind, what) = ("meta-end", "the last line has no line end");
            let damage = damage(folder, META, kind, Severity::Error);
            let damage = damage.at(offset + line.len() as u64).what(what).repair("it is added");
            diagnosis.note(damage);
            self.is_damaged = true;
        }
    }

    /// Completes missing lines from the messages; `highest` is the highest UID of the index.
    pub(super) fn complete(
        &mut self,
        folder: &Path,
        messages: &[MixMessage],
        highest: u32,
        now: u32,
        diagnosis: &mut Diagnosis,
    ) {
        let damage = |kind, severity| damage(folder, META, kind, severity);
        if self.meta.uidvalidity == 0 && !self.is_told.0 {
            let damage = damage("uidvalidity", Severity::Error).at(0);
            let damage = damage.what("the UIDVALIDITY is missing");
            diagnosis.note(damage.repair("a new UIDVALIDITY is assigned"));
        }
        let last = messages.last().map_or(0, |last| last.uid);
        if last > self.meta.uid_last {
            if !self.is_told.1 {
                let what =
                    format!("the last UID is {}, but a message has {last}", self.meta.uid_last);
                let damage = damage("uid-last", Severity::Warning).at(0).of(last).what(what);
                diagnosis.note(damage.repair("it becomes that of the last message"));
            }
            (self.meta.uid_last, self.is_damaged) = (last, true);
        }
        let old = self.meta.uidvalidity;
        let is_doubtful = !self.has_last || highest > self.meta.uid_last;
        if is_doubtful && old > 0 {
            let damage = damage("uidvalidity", Severity::Error).at(0).what(DOUBT);
            diagnosis.note(damage.repair(NEW_UIDVALIDITY));
        }
        if is_doubtful || old == 0 {
            (self.meta.uidvalidity, self.is_damaged) = (new_uidvalidity(now, old), true);
        }
        if self.meta.current == 0 && self.is_damaged {
            self.meta.current = messages.last().map_or(now, |last| last.file);
        }
        let used = messages.iter().fold(0, |used, message| used | message.keywords);
        let count = (32 - used.leading_zeros() as usize).min(KEYWORDS_MAX);
        let named = self.meta.keywords.len();
        if count > named {
            let what = format!("messages have keyword {count}, but only {named} have names");
            let damage = damage("keyword-name", Severity::Warning).at(0).what(what);
            diagnosis.note(damage.repair("it is named `unknown` with its number"));
            let names = (named..count).map(|at| format!("unknown-{}", at + 1).into_bytes());
            self.meta.keywords.extend(names);
            self.is_damaged = true;
        }
    }
}

/// Parses a hexadecimal number and nothing else.
fn number(text: &[u8]) -> Option<u32> {
    let text = text.iter().all(u8::is_ascii_hexdigit).then_some(text)?;
    u32::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}

/// `.mixstatus`.
pub(super) struct Statuses {
    pub(super) seq: u32,
    by_uid: BTreeMap<u32, StatusRecord>,
    /// `true` if it must be rewritten.
    pub(super) is_damaged: bool,
}

impl Statuses {
    /// Examines the file.
    pub(super) fn look(folder: &Path, text: Option<&[u8]>, diagnosis: &mut Diagnosis) -> Self {
        let mut found = Self { seq: 0, by_uid: BTreeMap::new(), is_damaged: false };
        let damage = |kind, severity| damage(folder, STATUS, kind, severity);
        let Some(text) = text else {
            let what = ".mixstatus is missing, so that all flags are lost";
            let damage = damage("status-missing", Severity::Error).what(what);
            diagnosis.note(damage.repair("it is created, without flags"));
            found.is_damaged = true;
            return found;
        };
        let mut lines = lines(text).peekable();
        match take_sequence(text) {
            Some((seq, _)) => {
                found.seq = seq;
                lines.next();
            }
            None => {
                found.is_damaged = true;
                let what = "it does not begin with a sequence number";
                let damage = damage("status-sequence", Severity::Error).at(0).what(what);
                diagnosis.note(damage.repair("a number above all others is added"));
                lines.next_if(|(_, line, _)| line.first() != Some(&b':'));
            }
        }
        let mut last = 0;
        for (offset, line, _) in lines {
            let Some(status) = record::parse_status(line).filter(|status| status.uid > 0) else {
                found.is_damaged = true;
                let what = "a record cannot be read; c-client loses the flags after it";
                let damage = damage("status-record", Severity::Warning).at(offset).what(what);
                diagnosis.note(damage.repair("it is removed, and those after it are kept"));
                continue;
            };
            if status.uid <= last || found.by_uid.contains_key(&status.uid) {
                found.is_damaged = true;
                let what = "the UID does not ascend, so that c-client does not find the record";
                let damage = damage("status-order", Severity::Warning).at(offset).of(status.uid);
                diagnosis.note(damage.what(what).repair("records are sorted"));
            }
            last = last.max(status.uid);
            found.by_uid.entry(status.uid).or_insert(status);
        }
        found
    }

    /// Returns `true` if it lists a message, or was written before the message existed.
    pub(super) fn may_be_there(&self, uid: u32) -> bool {
        let last = self.by_uid.last_key_value().map_or(0, |(uid, _)| *uid);
        uid > last || self.by_uid.contains_key(&uid)
    }

    /// Returns `true` if it lists a message.
    pub(super) fn names(&self, uid: u32) -> bool {
        self.by_uid.contains_key(&uid)
    }

    /// Applies the records to the messages.
    pub(super) fn merge(
        &mut self,
        folder: &Path,
        mut messages: Vec<MixMessage>,
        diagnosis: &mut Diagnosis,
    ) -> Vec<MixMessage> {
        let mut named = 0;
        for message in &mut messages {
            if let Some(status) = self.by_uid.get(&message.uid) {
                named += 1;
                message.keywords = status.keywords;
                message.flags = status.flags;
                message.modseq = status.modseq;
            }
        }
        for message in &mut messages {
            let beyond = message.keywords & !((1 << KEYWORDS_MAX) - 1);
            if beyond != 0 {
                let what = format!("keyword bits above the highest possible are set: {beyond:08x}");
                let damage = damage(folder, STATUS, "keyword-bits", Severity::Warning);
                diagnosis.note(damage.of(message.uid).what(what).repair("they are cleared"));
                message.keywords &= !beyond;
                self.is_damaged = true;
            }
        }
        let orphans = self.by_uid.len() - named;
        if orphans > 0 {
            let what = format!("{orphans} records have no message");
            let damage = damage(folder, STATUS, "status-orphan", Severity::Note).what(what);
            diagnosis.note(damage);
        }
        messages
    }
}
