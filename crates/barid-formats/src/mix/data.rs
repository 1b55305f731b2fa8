//! Data files: their names, and listing them.

use std::path::PathBuf;

use super::MixMailbox;
use super::layout::{DATA_FILES_MAX, DATA_PREFIX};
use barid_mailbox::{Error, Result};

/// Returns the name of a data file. That of number 0 is the prefix alone (c-client).
pub(super) fn data_name(number: u32) -> String {
    match number {
        0 => ".mix".to_owned(),
        number => format!(".mix{number:08x}"),
    }
}

/// Returns the number of a data file; `None` for another name.
pub(super) fn data_number(name: &[u8]) -> Option<u32> {
    let digits = name.strip_prefix(DATA_PREFIX)?;
    if !digits.iter().all(u8::is_ascii_hexdigit) || digits.len() > 8 {
        return None;
    }
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    Some(digits.iter().filter_map(digit).fold(0, |number, digit| number << 4 | digit))
}

impl MixMailbox {
    /// Returns the path of a data file.
    pub(super) fn data_path(&self, number: u32) -> PathBuf {
        self.path.join(data_name(number))
    }

    /// Returns the numbers of the existing data files, ascending.
    pub(super) fn data_files(&self) -> Result<Vec<u32>> {
        let at = || Error::at(&self.path);
        let dir = self.vfs.open_dir(&self.path).map_err(at())?;
        let mut numbers = Vec::new();
        let list = &mut |name: &[u8], _| {
            let own = data_number(name).filter(|number| data_name(*number).as_bytes() == name);
            numbers.extend(own.filter(|_| numbers.len() < DATA_FILES_MAX));
        };
        dir.list(list).map_err(at())?;
        numbers.sort_unstable();
        Ok(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_from_others() {
        for (name, expected) in [
            (".mix6b01e8e0", Some(0x6b01_e8e0)),
            (".mix", Some(0)),
            (".mixmeta", None),
            (".mixindex", None),
            (".mix123456789", None),
            (".barid-journal", None),
            ("mix1", None),
        ] {
            assert_eq!(data_number(name.as_bytes()), expected, "{name}");
        }
        assert_eq!(data_name(0x6b01_e8e0), ".mix6b01e8e0");
    }
}
