//! Permitted results after a crash and a recovery.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use barid_mailbox::Storage;
use barid_types::{Flag, FlagSet, Uid};
use barid_vfs::{MemVfs, Vfs};

use super::mailbox::{self, DIR, PATH, SIZE_MAX, STATE};
use super::scenario::Scenario;
use super::subject::PENDING;

/// The attribute that names a journal.
const ATTRIBUTE: &str = "user.barid.journal";

/// Expected result of a change of a file.
#[derive(Debug)]
pub(super) struct Expected {
    /// The file before it.
    old: Vec<u8>,
    /// The file after it, without the appended bytes.
    new: Vec<u8>,
    /// The appended bytes.
    appended: Vec<u8>,
    /// `true` if the change only appends.
    only_appended: bool,
    pub(super) pending: bool,
}

/// State of a mailbox: before or after the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Old,
    New,
}

impl Expected {
    pub(super) fn of(scenario: &Scenario, mut after: Vec<u8>, appended_len: u64) -> Self {
        let appended = after.split_off(after.len() - appended_len as usize);
        let only_appended = scenario.changes.is_empty();
        let pending = scenario.pending_through.is_some();
        let (mut old, mut new) = (scenario.old.clone(), after);
        if !appended.is_empty() {
            mask_last_uid(&mut old);
            mask_last_uid(&mut new);
        }
        Self { old, new, appended, only_appended, pending }
    }

    /// Returns `true` if anything was changed except by appending.
    pub(super) fn is_change(&self) -> bool {
        self.old != self.new
    }

    /// Checks that the file is the old or the new one, followed by any part of the appended
    /// messages; exactly the new one if the change was acknowledged.
    pub(super) fn check(&self, mut content: Vec<u8>, acknowledged: bool) -> Result<State, String> {
        if !self.appended.is_empty() {
            mask_last_uid(&mut content);
        }
        let whole = || content.strip_prefix(&*self.new).filter(|rest| *rest == self.appended);
        if whole().is_some() {
            return Ok(State::New);
        }
        if acknowledged {
            return Err(format!("acknowledged, but {}", self.describe(&content)));
        }
        if content == self.old {
            return Ok(State::Old);
        }
        let is = |prefix: &[u8]| {
            content.strip_prefix(prefix).is_some_and(|rest| self.are_whole_messages(rest))
        };
        if is(&self.new) {
            return Ok(State::New);
        }
        if self.only_appended && is(&self.old) {
            return Ok(State::Old);
        }
        Err(self.describe(&content))
    }

    /// Checks that the file is the old or the new one, followed, apart from a line end or two, by
    /// exactly what another program appended.
    pub(super) fn check_with_tail(&self, content: &[u8], tail: &[u8]) -> Result<State, String> {
        let rest = content.strip_suffix(tail).ok_or("what another appended is not at the end")?;
        if !rest.is_empty() && !rest.ends_with(b"\n") {
            return Err("what another appended begins in mid-line".to_owned());
        }
        let mut rest = rest.to_vec();
        if !self.appended.is_empty() {
            mask_last_uid(&mut rest);
        }
        let is = |before: &[u8]| {
            let mut ends = self.ends();
            ends.any(|end| {
                let whole = [before, &self.appended[..end]].concat();
                whole.trim_ascii_end() == rest.trim_ascii_end()
            })
        };
        if is(&self.new) {
            return Ok(State::New);
        }
        let is_old = rest.trim_ascii_end() == self.old.trim_ascii_end();
        if is_old || self.only_appended && is(&self.old) {
            return Ok(State::Old);
        }
        Err(format!("with what another appended, {}", self.describe(&rest)))
    }

    /// Returns the offsets at which appended messages end, and at which the first one begins.
    fn ends(&self) -> impl Iterator<Item = usize> {
        let begins = |at: usize| {
            let rest = &self.appended[at..];
            rest.starts_with(b"From ") && (at == 0 || self.appended[at - 1] == b'\n')
                || rest.starts_with(b"\x01\x01\x01\x01\nFrom ")
        };
        let len = self.appended.len();
        [0, len].into_iter().chain((0..len).filter(move |at| begins(*at)))
    }

    /// Returns `true` if `rest` is some of the appended messages, none of which is cut.
    fn are_whole_messages(&self, rest: &[u8]) -> bool {
        self.appended.starts_with(rest) && self.ends().any(|end| end == rest.len())
    }

    fn describe(&self, content: &[u8]) -> String {
        let differs = |from: &[u8]| {
            let same = content.iter().zip(from).take_while(|(a, b)| a == b).count();
            format!("{} bytes, the first different {same}", from.len())
        };
        format!(
            "{} bytes ({} NULs) are neither the old ({}) nor the new ({}) and {} appended",
            content.len(),
            content.iter().filter(|byte| **byte == 0).count(),
            differs(&self.old),
            differs(&self.new),
            self.appended.len(),
        )
    }
}

/// Masks the last UID in `X-IMAPbase`, which may be raised before anything is appended.
fn mask_last_uid(content: &mut [u8]) {
    let head = &content[..content.len().min(4096)];
    let text = String::from_utf8_lossy(head);
    let Some(at) = ["\nX-IMAPbase: ", "\nX-IMAP: "]
        .iter()
        .find_map(|name| text.find(name).map(|at| at + name.len()))
    else {
        return;
    };
    let mut number = 0;
    for byte in &mut content[at..] {
        match *byte {
            b' ' => number += 1,
            byte if !byte.is_ascii_digit() => break,
            _ if number == 1 => *byte = b'0',
            _ => {}
        }
    }
}

/// Checks a folder whose mailbox was recovered: no journal is left except one put aside, no
/// attribute names one, and pending changes are there only if they are not in the mailbox.
pub(super) fn check_leftovers(
    disk: &MemVfs,
    expected: &Expected,
    state: Option<State>,
    quarantined: Option<&Path>,
) -> Result<(), String> {
    let dir = disk.open_dir(Path::new(DIR)).map_err(|error| error.to_string())?;
    let mut left = Vec::new();
    let listed = dir.list(&mut |name, _| {
        let name = String::from_utf8_lossy(name).into_owned();
        if name.contains("journal") && quarantined != Some(&*Path::new(DIR).join(&name)) {
            left.push(name);
        }
    });
    listed.map_err(|error| error.to_string())?;
    if !left.is_empty() {
        return Err(format!("{left:?} is left"));
    }
    // A journal in the state folder counts only if the mailbox names it.
    let attribute = disk.xattr(Path::new(PATH), ATTRIBUTE).map_err(|error| error.to_string())?;
    if let Some(name) = attribute {
        return Err(format!("the attribute is left: {}", String::from_utf8_lossy(&name)));
    }
    let pending = disk.metadata(Path::new(PENDING)).is_ok();
    match state {
        Some(State::New) if pending => Err("what was pending is done and pending still".into()),
        Some(State::Old) if expected.pending && !pending => Err("what was pending is lost".into()),
        _ => Ok(()),
    }
}

/// Checks the result of a change by its meaning, message by message: all messages that were not
/// expunged exist once, in order, with the same bytes, their flags and UIDs; so do those that were
/// appended.
pub(super) fn check_meaning(scenario: &Scenario, disk: &MemVfs) -> Result<(), String> {
    check_messages(scenario, disk, &scenario.appends)
}

/// Checks the result as [`check_meaning`] does, except for appended bytes, which may be there in
/// any part.
pub(super) fn check_changed(scenario: &Scenario, disk: &MemVfs) -> Result<(), String> {
    match scenario.appends.is_empty() {
        true => check_messages(scenario, disk, &[]),
        false => Ok(()),
    }
}

fn check_messages(scenario: &Scenario, disk: &MemVfs, appends: &[Vec<u8>]) -> Result<(), String> {
    let vfs: Arc<dyn Vfs> = Arc::new(disk.snapshot());
    let fail = |error: barid_mailbox::Error| error.to_string();
    let after = mailbox::scan(&vfs, &scenario.spec, STATE).map_err(fail)?;
    let texts = mailbox::texts(&vfs, &scenario.spec, &after).map_err(fail)?;
    let Scenario { cached, changes, .. } = scenario;
    let flags: BTreeMap<Uid, _> = changes.flags.iter().collect();
    let mut found = after.seen.iter().zip(&texts);
    for (seen, text) in cached.seen.iter().zip(&scenario.texts) {
        let uid = &seen.uid;
        if changes.expunge.contains(uid) {
            continue;
        }
        let (now, now_text) = found.next().ok_or_else(|| format!("message {uid:?} is missing"))?;
        if now_text != text {
            let shown = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
            return Err(format!("{uid:?} is not\n{}\nbut\n{}", shown(text), shown(now_text)));
        }
        if now.uid != *uid {
            return Err(format!("{uid:?} became {:?}", now.uid));
        }
        let (mut wanted, mut keywords) = (seen.flags, cached.keywords_of(seen));
        if let Some(change) = flags.get(uid) {
            let bits = wanted.bits() & !change.remove.bits() | change.add.bits();
            wanted = FlagSet::from_bits(bits);
            let name = |keyword: &barid_types::Keyword| keyword.as_str().to_owned();
            let removed: Vec<String> = change.remove_keywords.iter().map(name).collect();
            keywords.retain(|keyword| !removed.contains(keyword));
            keywords.extend(change.add_keywords.iter().map(name));
        }
        keywords.sort();
        keywords.dedup();
        let now_keywords = after.keywords_of(now);
        if now.flags.without(Flag::Recent) != wanted.without(Flag::Recent)
            || now_keywords != keywords
            || changes.drop_recent && now.flags.contains(Flag::Recent)
        {
            let now = now.flags;
            return Err(format!("{uid:?}: {now:?} {now_keywords:?}, not {wanted:?} {keywords:?}"));
        }
    }
    for text in scenario.delivered.iter().chain(appends) {
        let (_, found) = found.next().ok_or("an appended message is missing")?;
        if with_lf(text.trim_ascii_end()) != with_lf(found) {
            return Err(format!("{} was appended", String::from_utf8_lossy(found)));
        }
    }
    match found.next() {
        None => Ok(()),
        Some((_, text)) => Err(format!("too many: {}", String::from_utf8_lossy(text))),
    }
}

/// Returns a text without CRs: appended bytes get the line ends of the mailbox.
fn with_lf(text: &[u8]) -> Vec<u8> {
    text.iter().copied().filter(|byte| *byte != b'\r').collect()
}

/// Returns the content of the mailbox file on a disk.
pub(super) fn content(disk: &MemVfs) -> Vec<u8> {
    disk.read(Path::new(PATH), SIZE_MAX).unwrap_or_default()
}

/// Checks that a mailbox can be used as before: nothing is unfinished, and a scan finds messages
/// whose bytes can be read.
pub(super) fn check_usable(scenario: &Scenario, disk: &MemVfs) -> Result<(), String> {
    let vfs: Arc<dyn Vfs> = Arc::new(disk.snapshot());
    let fail = |error: barid_mailbox::Error| error.to_string();
    let mailbox = mailbox::open(&vfs, &scenario.spec).map_err(fail)?;
    if let Some(unfinished) = mailbox.unfinished(Some(Path::new(STATE))).map_err(fail)? {
        return Err(format!("still unfinished: {unfinished:?}"));
    }
    let found = mailbox::scan(&vfs, &scenario.spec, STATE).map_err(fail)?;
    mailbox::texts(&vfs, &scenario.spec, &found).map_err(fail)?;
    Ok(())
}
