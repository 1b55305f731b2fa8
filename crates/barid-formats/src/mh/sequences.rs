//! `.mh_sequences`: the sequences of messages, and so their flags and keywords.
//!
//! ```text
//! sequence = name ":" *(blanks (number / number "-" number)) LF
//! ```
//!
//! `unseen` lists the messages without \Seen; `replied`, `flagged`, `deleted` and `draft` list
//! those with the flag; every other sequence except `cur` stands for the keyword of its name. A
//! line that begins with white space continues the one before, as header fields do in nmh. A line
//! that is not a sequence is kept unchanged.
//!
//! nmh writes the file in place under an `fcntl` lock, which it also holds while it renumbers
//! messages; NeoMutt replaces it without a lock. This code replaces it under that lock.

use std::path::Path;
use std::sync::Arc;

use barid_mailbox::{ChangeProgress, Error, Result};
use barid_types::{Flag, FlagSet, Keyword, KeywordMask, KeywordTable};
use barid_vfs::{File, LockKind, LockMode, OpenOptions, Ownership, Vfs, replace_as};

use super::layout::{
    CURRENT, FLAG_SEQUENCES, LOCK_PAUSE, LOCK_TIMEOUT, SEQUENCE_NAME_LEN_MAX, SEQUENCES_LEN_MAX,
    UNSEEN,
};
use super::name::Number;
use super::ranges::Ranges;

/// The file, parsed.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequences {
    lines: Vec<SequenceLine>,
    /// Defects of the file.
    pub(super) defects: Vec<&'static str>,
}

/// A line with its continuation lines.
#[derive(Clone, Debug)]
struct SequenceLine {
    /// The bytes in the file; void once `changed`.
    raw: Vec<u8>,
    changed: bool,
    /// Name of the sequence; empty for a line that is not a sequence.
    name: Vec<u8>,
    numbers: Ranges,
}

/// Change of the sequence of a flag or keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum SequenceEdit {
    /// The messages get it.
    Add,
    /// The messages lose it.
    Remove,
}

impl Sequences {
    /// Reads the file; a missing file has no sequences.
    pub(super) fn read(vfs: &dyn Vfs, path: &Path) -> Result<Self> {
        match vfs.read(path, SEQUENCES_LEN_MAX) {
            Ok(text) => Ok(Self::parse(&text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(Error::at(path)(source)),
        }
    }

    /// Parses the file.
    pub(super) fn parse(text: &[u8]) -> Self {
        let mut sequences = Self::default();
        let mut rest = text;
        while !rest.is_empty() {
            let len = line_len(rest);
            let (raw, after) = rest.split_at(len);
            rest = after;
            let (name, numbers) = match parse_line(raw) {
                Some(parsed) => parsed,
                None => {
                    if !raw.trim_ascii().is_empty() {
                        sequences.defects = vec![".mh_sequences: a line is not a sequence"];
                    }
                    (Vec::new(), Ranges::default())
                }
            };
            sequences.lines.push(SequenceLine { raw: raw.to_vec(), changed: false, name, numbers });
        }
        sequences
    }

    /// Returns the text of the file; unchanged lines are as they were read. Sequences without a
    /// message are left out, as nmh does.
    fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for line in &self.lines {
            if !line.changed {
                text.extend_from_slice(&line.raw);
                if !line.raw.ends_with(b"\n") {
                    text.push(b'\n');
                }
            } else if !line.numbers.is_empty() {
                text.extend_from_slice(&line.name);
                text.push(b':');
                line.numbers.write(&mut text);
                text.push(b'\n');
            }
        }
        text
    }

    /// Returns `true` if anything was changed.
    pub(super) fn is_changed(&self) -> bool {
        self.lines.iter().any(|line| line.changed)
    }

    /// Gives a slot to every keyword that has none.
    pub(super) fn intern(&mut self, table: &mut KeywordTable) {
        let lines = self.lines.iter();
        let full = lines.filter_map(keyword).any(|keyword| table.intern(&keyword).is_err());
        if full {
            self.defects.push(".mh_sequences: too many keywords; some are not shown");
        }
    }

    /// Returns a view of the flags and keywords, prepared for many lookups.
    pub(super) fn view(&self, table: &KeywordTable) -> View<'_> {
        let mut view = View::default();
        for line in &self.lines {
            if line.name == UNSEEN {
                view.unseen.push(&line.numbers);
            } else if let Some((_, flag)) = flag_sequence(&line.name) {
                view.flags.push((flag, &line.numbers));
            } else if let Some(slot) = keyword(line).and_then(|keyword| table.slot(&keyword)) {
                view.keywords.push((slot, &line.numbers));
            }
        }
        view
    }

    /// Adds a flag to messages or removes it; `numbers` ascend without repetition.
    pub(super) fn edit_flag(&mut self, flag: Flag, edit: SequenceEdit, numbers: &[Number]) {
        match (flag, edit) {
            (Flag::Recent, _) => {}
            (Flag::Seen, SequenceEdit::Add) => self.edit(UNSEEN, SequenceEdit::Remove, numbers),
            (Flag::Seen, SequenceEdit::Remove) => self.edit(UNSEEN, SequenceEdit::Add, numbers),
            _ => {
                let named = FLAG_SEQUENCES.iter().find(|(_, of)| *of == flag);
                if let Some((name, _)) = named {
                    self.edit(name, edit, numbers);
                }
            }
        }
    }

    /// Returns `true` if a message is in `unseen`.
    pub(super) fn is_unseen(&self, number: Number) -> bool {
        let mut lines = self.lines.iter().filter(|line| line.name == UNSEEN);
        lines.any(|line| line.numbers.contains(number))
    }

    /// Returns the messages that are in the sequence of a flag.
    pub(super) fn flagged(&self, flag: Flag, numbers: &[Number]) -> Vec<Number> {
        let named = FLAG_SEQUENCES.iter().filter(|(_, of)| *of == flag);
        let names: Vec<&[u8]> = named.map(|(name, _)| *name).collect();
        let lines = || self.lines.iter().filter(|line| names.contains(&line.name.as_slice()));
        let has = |number: &Number| lines().any(|line| line.numbers.contains(*number));
        numbers.iter().copied().filter(has).collect()
    }

    /// Adds a keyword to messages or removes it.
    pub(super) fn edit_keyword(
        &mut self,
        keyword: &Keyword,
        edit: SequenceEdit,
        numbers: &[Number],
    ) {
        // The sequence may have a name in another case, or there may be several.
        let names: Vec<Vec<u8>> = self
            .lines
            .iter()
            .filter(|line| self::keyword(line).as_ref() == Some(keyword))
            .map(|line| line.name.clone())
            .collect();
        match (edit, names.as_slice()) {
            (SequenceEdit::Add, []) => self.edit(keyword.as_str().as_bytes(), edit, numbers),
            (SequenceEdit::Add, [first, ..]) => self.edit(first, edit, numbers),
            (SequenceEdit::Remove, all) => {
                all.iter().for_each(|name| self.edit(name, edit, numbers))
            }
        }
    }

    fn edit(&mut self, name: &[u8], edit: SequenceEdit, numbers: &[Number]) {
        if numbers.is_empty() {
            return;
        }
        let ranges = || numbers.iter().map(|number| (*number, *number));
        match edit {
            SequenceEdit::Remove => {
                let has = |line: &SequenceLine| {
                    numbers.iter().any(|number| line.numbers.contains(*number))
                };
                let named = self.lines.iter_mut().filter(|line| line.name == name);
                for line in named.filter(|line| has(line)) {
                    line.numbers.remove(ranges());
                    line.changed = true;
                }
            }
            SequenceEdit::Add => {
                let named = |line: &&SequenceLine| line.name == name;
                let has = |number: &Number| {
                    self.lines.iter().filter(named).any(|line| line.numbers.contains(*number))
                };
                if numbers.iter().all(has) {
                    return;
                }
                if !self.lines.iter().any(|line| line.name == name) {
                    self.lines.push(SequenceLine {
                        raw: Vec::new(),
                        changed: true,
                        name: name.to_vec(),
                        numbers: Ranges::default(),
                    });
                }
                if let Some(line) = self.lines.iter_mut().find(|line| line.name == name) {
                    line.numbers.add(ranges());
                    line.changed = true;
                }
            }
        }
    }

    /// Removes messages from every sequence but `cur`, which nmh also leaves at a message that is
    /// gone. The ranges ascend and do not overlap.
    pub(super) fn forget(&mut self, ranges: &[(Number, Number)]) {
        for line in self.lines.iter_mut().filter(|line| line.name != CURRENT) {
            if ranges.iter().any(|(first, last)| line.numbers.overlaps(*first, *last)) {
                line.numbers.remove(ranges.iter().copied());
                line.changed = true;
            }
        }
    }

    /// Writes the file, durably: a file beside it, fsync, rename, fsync of the folder. Commit
    /// point: the rename. The new file is locked before it is renamed: `lock` then holds the lock
    /// of the new file.
    pub(super) fn write(
        &self,
        vfs: &dyn Vfs,
        path: &Path,
        mode: u32,
        lock: &mut SequencesLock,
    ) -> Result<()> {
        let text = self.text();
        let write = |file: &dyn File| {
            file.write_all_at(&text, 0)?;
            try_lock(file).map(drop)
        };
        let ownership = Ownership::replacing(vfs, path, mode).map_err(Error::at(path))?;
        lock.file = replace_as(vfs, path, &ownership, write).map_err(Error::at(path))?;
        Ok(())
    }
}

/// Returns the length of a line with its continuation lines, in bytes.
pub(super) fn line_len(text: &[u8]) -> usize {
    let mut len = 0;
    loop {
        len = match memchr::memchr(b'\n', &text[len..]) {
            Some(end) => len + end + 1,
            None => return text.len(),
        };
        if !matches!(text.get(len), Some(b' ' | b'\t')) {
            return len;
        }
    }
}

fn parse_line(line: &[u8]) -> Option<(Vec<u8>, Ranges)> {
    let (name, words) = parts(line)?;
    let ranges: Option<Vec<(Number, Number)>> = words.map(parse_range).collect();
    Some((name.to_vec(), ranges?.into_iter().collect()))
}

/// Returns the name of a sequence and the words after it.
pub(super) fn parts(line: &[u8]) -> Option<(&[u8], impl Iterator<Item = &[u8]>)> {
    let colon = memchr::memchr(b':', line)?;
    let name = &line[..colon];
    let valid = |byte: &u8| byte.is_ascii_graphic() || *byte >= 0x80;
    if !(1..=SEQUENCE_NAME_LEN_MAX).contains(&name.len()) || !name.iter().all(valid) {
        return None;
    }
    let words = line[colon + 1..].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    Some((name, words))
}

/// Parses a number, or two with `-` between them.
pub(super) fn parse_range(word: &[u8]) -> Option<(Number, Number)> {
    let word = std::str::from_utf8(word).ok()?;
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some((first, last))
}

fn flag_sequence(name: &[u8]) -> Option<(&'static [u8], Flag)> {
    FLAG_SEQUENCES.iter().find(|(known, _)| *known == name).copied()
}

/// Returns `true` if a name has a meaning of its own.
fn is_reserved(name: &[u8]) -> bool {
    let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
    is(UNSEEN) || is(CURRENT) || FLAG_SEQUENCES.iter().any(|(known, _)| is(known))
}

/// Returns the keyword of a line.
fn keyword(line: &SequenceLine) -> Option<Keyword> {
    let name = std::str::from_utf8(&line.name).ok()?;
    Keyword::new(name).filter(|_| !is_reserved(&line.name))
}

/// Returns `true` if a keyword can be the name of a sequence.
pub(super) fn can_hold(keyword: &Keyword) -> bool {
    let name = keyword.as_str();
    !is_reserved(name.as_bytes()) && !name.contains(':') && name.len() <= SEQUENCE_NAME_LEN_MAX
}

/// Flags and keywords of messages according to the sequences.
#[derive(Clone, Debug, Default)]
pub(super) struct View<'a> {
    unseen: Vec<&'a Ranges>,
    flags: Vec<(Flag, &'a Ranges)>,
    keywords: Vec<(u32, &'a Ranges)>,
}

impl View<'_> {
    /// Returns the flags and keywords of a message.
    pub(super) fn of(&self, number: Number) -> (FlagSet, KeywordMask) {
        let mut flags = FlagSet::EMPTY;
        if !self.unseen.iter().any(|numbers| numbers.contains(number)) {
            flags = flags.with(Flag::Seen);
        }
        for (flag, _) in self.flags.iter().filter(|(_, numbers)| numbers.contains(number)) {
            flags = flags.with(*flag);
        }
        let with = self.keywords.iter().filter(|(_, numbers)| numbers.contains(number));
        (flags, KeywordMask(with.fold(0, |mask, (slot, _)| mask | 1 << slot)))
    }
}

/// The lock of the sequences, under which nmh renumbers messages.
#[derive(Debug)]
pub(super) struct SequencesLock {
    file: Box<dyn File>,
}

impl SequencesLock {
    /// Takes the lock; the file is created if it is missing.
    ///
    /// # Errors
    /// [`Error::Locked`] after half a minute; [`Error::Stopped`].
    pub(super) fn take(
        vfs: &Arc<dyn Vfs>,
        path: &Path,
        mode: u32,
        steps: &ChangeProgress<'_>,
    ) -> Result<Self> {
        let mut waited = std::time::Duration::ZERO;
        loop {
            let file = vfs.open(path, OpenOptions::create(mode)).map_err(Error::at(path))?;
            let locked = try_lock(&*file).map_err(Error::at(path))?;
            // The process that had the lock may have replaced the file.
            let inode = file.metadata().map_err(Error::at(path))?.inode;
            if locked && vfs.metadata(path).is_ok_and(|found| found.inode == inode) {
                return Ok(Self { file });
            }
            if waited >= LOCK_TIMEOUT {
                return Err(Error::Locked {
                    path: path.to_owned(),
                    holder: "another program".to_owned(),
                    waited_ms: LOCK_TIMEOUT.as_millis() as u64,
                });
            }
            steps.check(path)?;
            vfs.sleep(LOCK_PAUSE);
            waited += LOCK_PAUSE;
        }
    }
}

/// Returns `true` if the lock was taken, or if the file system has no locks.
fn try_lock(file: &dyn File) -> std::io::Result<bool> {
    match file.try_lock(LockKind::Fcntl, LockMode::Exclusive) {
        Err(error) if error.kind() == std::io::ErrorKind::Unsupported => Ok(true),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, edit: impl Fn(&mut Sequences), expected: &str) {
        let mut sequences = Sequences::parse(text.as_bytes());
        edit(&mut sequences);
        assert_eq!(String::from_utf8(sequences.text()).unwrap(), expected);
    }

    fn word(name: &str) -> Keyword {
        Keyword::new(name).unwrap()
    }

    #[test]
    fn sequences_are_flags_and_keywords() {
        let text =
            "cur: 3\nunseen: 1-2 4\nreplied: 2\nflagged:2\n$Forwarded: 2\nTODO: 1-4000000000\n";
        let mut sequences = Sequences::parse(text.as_bytes());
        let mut table = KeywordTable::default();
        sequences.intern(&mut table);
        assert_eq!(table.names(), [word("$Forwarded"), word("todo")]);
        let view = sequences.view(&table);
        let flags = |flags: &[Flag]| flags.iter().copied().collect::<FlagSet>();
        assert_eq!(view.of(1), (FlagSet::EMPTY, KeywordMask(2)));
        assert_eq!(view.of(2), (flags(&[Flag::Answered, Flag::Flagged]), KeywordMask(3)));
        assert_eq!(view.of(3), (flags(&[Flag::Seen]), KeywordMask(2)));
        assert!(sequences.defects.is_empty());
    }

    #[test]
    fn what_is_not_changed_stays_as_it_was() {
        let odd = "unseen:  1   2\nbroken: x\n\nlong: 1\n\t5 7\nno colon";
        check(odd, |_| {}, &format!("{odd}\n"));
        check(
            odd,
            |sequences| sequences.edit_flag(Flag::Seen, SequenceEdit::Add, &[1, 9]),
            "unseen: 2\nbroken: x\n\nlong: 1\n\t5 7\nno colon\n",
        );
        check(
            odd,
            |sequences| sequences.edit_keyword(&word("LONG"), SequenceEdit::Add, &[6]),
            "unseen:  1   2\nbroken: x\n\nlong: 1 5-7\nno colon\n",
        );
    }

    #[test]
    fn flags_and_keywords_are_edited() {
        check(
            "",
            |sequences| {
                sequences.edit_flag(Flag::Seen, SequenceEdit::Remove, &[2, 3]);
                sequences.edit_flag(Flag::Seen, SequenceEdit::Add, &[1]);
                sequences.edit_flag(Flag::Flagged, SequenceEdit::Add, &[3]);
                sequences.edit_keyword(&word("todo"), SequenceEdit::Add, &[1, 2, 3, 7]);
            },
            "unseen: 2-3\nflagged: 3\ntodo: 1-3 7\n",
        );
        check(
            "todo: 1\nTodo: 1-2\n",
            |sequences| sequences.edit_keyword(&word("todo"), SequenceEdit::Remove, &[1]),
            "Todo: 2\n",
        );
    }

    #[test]
    fn messages_that_are_gone_are_forgotten() {
        check(
            "cur: 2\nunseen: 1-3\ntodo: 2\n",
            |sequences| sequences.forget(&[(2, 2), (9, 20)]),
            "cur: 2\nunseen: 1 3\n",
        );
    }

    #[test]
    fn the_lock_stays_when_the_file_is_replaced() {
        let vfs: Arc<dyn Vfs> = Arc::new(barid_vfs::MemVfs::new());
        let path = Path::new("/.mh_sequences");
        let mut lock = SequencesLock::take(&vfs, path, 0o600, &ChangeProgress::default()).unwrap();
        let sequences = Sequences::parse(b"unseen: 1\n");
        let is_free = || try_lock(&*vfs.open(path, OpenOptions::WRITE).unwrap()).unwrap();
        for _ in 0..2 {
            sequences.write(vfs.as_ref(), path, 0o600, &mut lock).unwrap();
            assert!(!is_free());
        }
        drop(lock);
        assert!(is_free());
    }

    #[test]
    fn some_keywords_cannot_be_held() {
        for (name, can) in [("todo", true), ("$Junk", true), ("a:b", false), ("Unseen", false)] {
            assert_eq!(can_hold(&word(name)), can, "{name}");
        }
    }
}
