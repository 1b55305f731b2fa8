//! The names of the files of messages: numbers in an MH folder, and names that end with `.eml` in a
//! folder of saved messages.
//!
//! Saved messages are numbered in the order of their names by every listing. That they get other
//! numbers when a file is added is nothing new here: nmh renumbers messages, too, and a message is
//! recognised by its mark, whatever its number.

use std::cmp::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use barid_vfs::{Dir, FileType};

use super::layout::MESSAGES_MAX;
use super::name::{self, Number};

/// The end of the name of a saved message, in any case.
pub(crate) const EML: &[u8] = b".eml";

/// The names of the files of messages.
#[derive(Debug)]
pub(super) enum Naming {
    /// Numbers.
    Numbers,
    /// Names that end with `.eml`; nothing is written.
    Saved(SavedNames),
}

/// The names of saved messages.
#[derive(Debug, Default)]
pub(super) struct SavedNames {
    /// The only name that counts, if the mailbox is a file.
    only: Option<Vec<u8>>,
    /// The names of the last listing; the first one has the number 1.
    listed: Mutex<Option<Arc<[Vec<u8>]>>>,
}

impl Naming {
    /// Makes the names of saved messages: of all in a folder, or of one.
    pub(super) fn saved(only: Option<Vec<u8>>) -> Self {
        Self::Saved(SavedNames { only, ..SavedNames::default() })
    }

    /// Returns `true` if the mailbox can only be read.
    pub(super) const fn is_saved(&self) -> bool {
        matches!(self, Self::Saved(_))
    }

    /// Returns `true` if the mailbox is a file.
    pub(super) fn is_file(&self) -> bool {
        matches!(self, Self::Saved(SavedNames { only: Some(_), .. }))
    }

    /// Lists the numbers of messages, in any order and perhaps more than once; passes every other
    /// name to `other`.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(super) fn list(
        &self,
        dir: &dyn Dir,
        other: &mut dyn FnMut(&[u8]),
    ) -> std::io::Result<Vec<Number>> {
        let saved = match self {
            Self::Saved(saved) => saved,
            Self::Numbers => {
                let mut numbers = Vec::new();
                dir.list(&mut |name, file_type| match name::number(name) {
                    Some(number) if file_type != FileType::Dir && numbers.len() < MESSAGES_MAX => {
                        numbers.push(number);
                    }
                    Some(_) => {}
                    None => other(name),
                })?;
                return Ok(numbers);
            }
        };
        let names = saved.list(dir)?;
        Ok((1..=names.len() as Number).collect())
    }

    /// Returns the file name of a number; `None` if the last listing does not have it. Lists the
    /// folder if it was not listed before.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(super) fn file_name(
        &self,
        number: Number,
        dir: &dyn Fn() -> std::io::Result<Box<dyn Dir>>,
    ) -> std::io::Result<Option<Vec<u8>>> {
        let Self::Saved(saved) = self else { return Ok(Some(name::file_name(number))) };
        let names = match saved.last() {
            Some(names) => names,
            None => saved.list(&*dir()?)?,
        };
        Ok(names.get((number as usize).wrapping_sub(1)).cloned())
    }

    /// Returns the file name of a number of the last listing, or for errors a name of that number.
    pub(super) fn listed_name(&self, number: Number) -> Vec<u8> {
        let listed = match self {
            Self::Numbers => None,
            Self::Saved(saved) => saved.last(),
        };
        let name = listed.and_then(|names| names.get((number as usize).wrapping_sub(1)).cloned());
        name.unwrap_or_else(|| name::file_name(number))
    }
}

impl SavedNames {
    fn last(&self) -> Option<Arc<[Vec<u8>]>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn list(&self, dir: &dyn Dir) -> std::io::Result<Arc<[Vec<u8>]>> {
        let names: Arc<[Vec<u8>]> = match &self.only {
            Some(only) => Arc::new([only.clone()]),
            None => {
                let mut names = Vec::new();
                dir.list(&mut |name, file_type| {
                    let is_room = names.len() < MESSAGES_MAX;
                    if is_saved_name(name) && file_type != FileType::Dir && is_room {
                        names.push(name.to_vec());
                    }
                })?;
                names.sort_unstable_by(|one, other| compare_names(one, other));
                names.dedup();
                names.into()
            }
        };
        *self.listed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&names));
        Ok(names)
    }
}

/// Returns `true` for the name of a saved message: it is not hidden, and ends with `.eml`.
pub(crate) fn is_saved_name(name: &[u8]) -> bool {
    let start = name.len().saturating_sub(EML.len());
    !name.starts_with(b".") && start > 0 && name[start..].eq_ignore_ascii_case(EML)
}

/// Compares names as people order them: numbers in them by their values (`2.eml` before `10.eml`).
fn compare_names(one: &[u8], other: &[u8]) -> Ordering {
    let (mut left, mut right) = (one, other);
    while let (Some(a), Some(b)) = (left.first(), right.first()) {
        if a.is_ascii_digit() && b.is_ascii_digit() {
            let (first, rest) = number_of(left);
            let (second, others) = number_of(right);
            let order = first.len().cmp(&second.len()).then_with(|| first.cmp(second));
            if order != Ordering::Equal {
                return order;
            }
            (left, right) = (rest, others);
        } else if a != b {
            return a.cmp(b);
        } else {
            (left, right) = (&left[1..], &right[1..]);
        }
    }
    left.len().cmp(&right.len()).then_with(|| one.cmp(other))
}

/// Returns the number at the start of a text, without leading zeros, and what follows it.
fn number_of(text: &[u8]) -> (&[u8], &[u8]) {
    let len = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let zeros = text[..len].iter().take_while(|byte| **byte == b'0').count();
    (&text[zeros..len], &text[len..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_messages_have_names_that_say_so() {
        for (name, expected) in [
            ("a.eml", true),
            ("Re: x.EML", true),
            ("1.eml", true),
            (".a.eml", false),
            (".eml", false),
            ("a.eml.gz", false),
            ("eml", false),
            ("", false),
        ] {
            assert_eq!(is_saved_name(name.as_bytes()), expected, "{name}");
        }
    }

    #[test]
    fn names_are_ordered_as_people_do() {
        let mut names = ["b2", "b10", "b1", "a", "b01", "b", "b2c", "10", "9", "b1.eml", "B"];
        names.sort_unstable_by(|one, other| compare_names(one.as_bytes(), other.as_bytes()));
        let expected = ["9", "10", "B", "a", "b", "b01", "b1", "b1.eml", "b2", "b2c", "b10"];
        assert_eq!(names, expected);
    }
}
