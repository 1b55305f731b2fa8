//! `dovecot-keywords`: names of the letters `a` to `z` in file names (Dovecot 2.3
//! `maildir-keywords.c`). Lines `<number 0..25> <keyword>`; the letter is `a` + number.

use std::path::Path;

use barid_mailbox::{Error, Result};
use barid_types::{Keyword, KeywordMask, KeywordTable};
use barid_vfs::{Timestamp, Vfs};

use super::layout::{KEYWORDS_LEN_MAX, KEYWORDS_LOCK, LETTERS};
use super::name::Letters;

/// The keywords of the file, by letter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Keywords {
    names: [Option<Keyword>; LETTERS],
    /// Lines that could not be parsed.
    pub(super) defects: Vec<&'static str>,
}

impl Keywords {
    /// Reads the file; a missing file has no keywords.
    pub(super) fn read(vfs: &dyn Vfs, path: &Path) -> Result<Self> {
        match vfs.read(path, KEYWORDS_LEN_MAX) {
            Ok(text) => Ok(Self::parse(&text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(Error::at(path)(source)),
        }
    }

    /// Parses the file. Invalid lines are skipped; of two lines with one letter the later one
    /// counts, as in Dovecot.
    pub(super) fn parse(text: &[u8]) -> Self {
        let mut keywords = Self::default();
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match parse_line(line) {
                Some((letter, keyword)) => keywords.names[letter] = Some(keyword),
                None => keywords.defects = vec!["dovecot-keywords: a line is not a keyword"],
            }
        }
        keywords
    }

    /// Returns the keywords that have a letter.
    pub(super) fn names(&self) -> impl Iterator<Item = &Keyword> {
        self.names.iter().flatten()
    }

    /// Returns the letter of a keyword, as bit number.
    pub(super) fn letter(&self, keyword: &Keyword) -> Option<usize> {
        self.names.iter().position(|name| name.as_ref() == Some(keyword))
    }

    /// Returns the letters of keywords, as bits; those without one are left out.
    pub(super) fn letters(&self, keywords: &[Keyword]) -> u32 {
        keywords.iter().filter_map(|keyword| self.letter(keyword)).fold(0, |all, at| all | 1 << at)
    }

    /// Gives a keyword a letter; `None` if all are taken.
    pub(super) fn add(&mut self, keyword: &Keyword) -> Option<usize> {
        if let Some(letter) = self.letter(keyword) {
            return Some(letter);
        }
        let letter = self.names.iter().position(Option::is_none)?;
        self.names[letter] = Some(keyword.clone());
        Some(letter)
    }

    /// Returns the name of a letter; one that is not in the file is `unknown-<number>`, as in
    /// Dovecot.
    fn name(&self, letter: usize) -> Option<Keyword> {
        let lost = || Keyword::new(&format!("unknown-{letter}"));
        self.names[letter].clone().or_else(lost)
    }

    /// Writes the file, durably. The dotlock of the UIDs is held.
    ///
    /// Order: write and fsync a file beside it, rename, fsync the directory. Commit point: the
    /// rename. The modification time always grows by a whole second, since other programs check
    /// nothing else.
    pub(super) fn write(&self, vfs: &dyn Vfs, dir: &Path, path: &Path) -> Result<()> {
        let beside = dir.join(KEYWORDS_LOCK);
        let mut text = String::new();
        for (number, name) in self.names.iter().enumerate() {
            if let Some(name) = name {
                text.push_str(&format!("{number} {}\n", name.as_str()));
            }
        }
        let write = || {
            // The other lock is held, so this one can only be a leftover.
            let file = super::open_beside(vfs, dir, path, &beside)?;
            file.write_all_at(text.as_bytes(), 0)?;
            grow_mtime(vfs, path, &beside)?;
            file.sync_all()?;
            vfs.rename(&beside, path)?;
            vfs.sync_dir(dir)
        };
        write().map_err(|source| {
            let _ = vfs.remove_file(&beside);
            Error::at(path)(source)
        })
    }
}

/// Makes the new file younger than the old one by at least a second.
fn grow_mtime(vfs: &dyn Vfs, old: &Path, new: &Path) -> std::io::Result<()> {
    let old = match vfs.metadata(old) {
        Ok(metadata) => metadata.modified.unix_seconds(),
        Err(_) => return Ok(()),
    };
    let fresh = vfs.metadata(new)?;
    if fresh.modified.unix_seconds() > old {
        return Ok(());
    }
    let unix_nanos = old.saturating_add(1).saturating_mul(1_000_000_000);
    vfs.set_times(new, fresh.accessed, Timestamp { unix_nanos })
}

/// Parses the letter of a line, as bit number, and its keyword.
pub(super) fn parse_line(line: &[u8]) -> Option<(usize, Keyword)> {
    let space = memchr::memchr(b' ', line)?;
    let number = std::str::from_utf8(&line[..space]).ok()?.parse::<usize>().ok()?;
    let keyword = Keyword::new(std::str::from_utf8(&line[space + 1..]).ok()?)?;
    (number < LETTERS).then_some((number, keyword))
}

/// Turns letters into the slots of the mailbox's [`KeywordTable`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LetterSlots {
    /// The slot of each letter plus one; 0 for a letter without a slot.
    pub(super) of_letter: [u8; LETTERS],
}

impl LetterSlots {
    /// Gives slots to all letters in the file. Names that have a slot keep it; new ones get the
    /// next free one, so that letter `a` is slot 0 in a mailbox without holes.
    pub(super) fn assign(keywords: &Keywords, table: &mut KeywordTable) -> Self {
        let mut slots = Self::default();
        for (letter, name) in keywords.names.iter().enumerate() {
            if let Some(slot) = name.as_ref().and_then(|name| table.intern(name).ok()) {
                slots.of_letter[letter] = slot as u8 + 1;
            }
        }
        slots
    }

    /// Gives slots to those of `letters` that have none, since their names are lost; returns `true`
    /// if there were any.
    pub(super) fn add_lost(
        &mut self,
        letters: u32,
        keywords: &Keywords,
        table: &mut KeywordTable,
    ) -> bool {
        let mut lost = false;
        for letter in (0..LETTERS).filter(|letter| letters >> letter & 1 == 1) {
            if self.of_letter[letter] == 0 {
                lost = true;
                let slot = keywords.name(letter).and_then(|name| table.intern(&name).ok());
                self.of_letter[letter] = slot.map_or(0, |slot| slot as u8 + 1);
            }
        }
        lost
    }

    /// Returns the keywords of a file name's letters.
    pub(super) fn mask(&self, letters: Letters) -> KeywordMask {
        let mut mask = 0;
        let mut rest = letters.keywords;
        while rest != 0 {
            let letter = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            if let Some(slot) = self.of_letter[letter].checked_sub(1) {
                mask |= 1_u64 << slot;
            }
        }
        KeywordMask(mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(usize, &str)], defects: usize) {
        let keywords = Keywords::parse(text.as_bytes());
        let found: Vec<_> = keywords
            .names
            .iter()
            .enumerate()
            .filter_map(|(letter, name)| Some((letter, name.as_ref()?.as_str())))
            .collect();
        assert_eq!(found, expected, "{text}");
        assert_eq!(keywords.defects.len(), defects, "{text}");
    }

    #[test]
    fn lines_are_read() {
        check("0 Junk\n2 $Forwarded\n", &[(0, "Junk"), (2, "$Forwarded")], 0);
        check("0 a\n0 b\n", &[(0, "b")], 0);
        check("x\n26 a\n-1 b\n1 \n1 c d\n3 e\n", &[(3, "e")], 1);
        check("", &[], 0);
    }

    #[test]
    fn slots_stay_and_lost_names_get_one() {
        let keywords = Keywords::parse(b"0 Junk\n2 todo\n");
        let mut table: KeywordTable = [Keyword::new("TODO").unwrap()].into_iter().collect();
        let mut slots = LetterSlots::assign(&keywords, &mut table);
        assert_eq!((slots.of_letter[0], slots.of_letter[1], slots.of_letter[2]), (2, 0, 1));
        assert!(slots.add_lost(0b111, &keywords, &mut table));
        let letters = Letters { keywords: 0b110, ..Letters::default() };
        assert_eq!(slots.mask(letters), KeywordMask(0b101));
        let names: Vec<_> = table.names().iter().map(Keyword::as_str).collect();
        assert_eq!(names, ["TODO", "Junk", "unknown-1"]);
    }

    #[test]
    fn a_new_keyword_takes_the_first_free_letter() {
        let mut keywords = Keywords::parse(b"0 Junk\n2 todo\n");
        assert_eq!(keywords.add(&Keyword::new("junk").unwrap()), Some(0));
        for letter in (1..LETTERS).filter(|letter| *letter != 2) {
            assert_eq!(keywords.add(&Keyword::new(&format!("k{letter}")).unwrap()), Some(letter));
        }
        assert_eq!(keywords.add(&Keyword::new("more").unwrap()), None);
    }
}
