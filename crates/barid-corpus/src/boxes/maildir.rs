//! Writing a Maildir.

use std::io;
use std::path::{Path, PathBuf};

use barid_types::Flag;
use barid_vfs::{OpenOptions, OsVfs, Timestamp, Vfs as _};

use crate::corpus::GeneratedMessage;

/// The letters of flags in file names, in the order of the letters.
const LETTERS: [(Flag, char); 5] = [
    (Flag::Draft, 'D'),
    (Flag::Flagged, 'F'),
    (Flag::Answered, 'R'),
    (Flag::Seen, 'S'),
    (Flag::Deleted, 'T'),
];

/// A Maildir that is being filled.
#[derive(Debug)]
pub struct MaildirWriter {
    path: PathBuf,
}

impl MaildirWriter {
    /// Creates `cur`, `new` and `tmp`, where they are missing.
    pub fn create(path: &Path) -> io::Result<Self> {
        for folder in ["cur", "new", "tmp"] {
            OsVfs.create_dir_all(&path.join(folder), 0o777)?;
        }
        Ok(Self { path: path.to_path_buf() })
    }

    /// Writes a message under a unique name without flags (`SECONDS.UNIQUE.HOST`). A \Recent
    /// message goes to `new`, others to `cur` with their flags; the modification time is its date.
    pub fn deliver(&self, name: &str, message: &GeneratedMessage) -> io::Result<()> {
        let path = if message.flags.contains(Flag::Recent) {
            self.path.join("new").join(name)
        } else {
            let held = LETTERS.iter().filter(|(flag, _)| message.flags.contains(*flag));
            let letters: String = held.map(|(_, letter)| letter).collect();
            self.path.join("cur").join(format!("{name}:2,{letters}"))
        };
        let truncated = OpenOptions { truncate: true, ..OpenOptions::create(0o666) };
        let file = OsVfs.open(&path, truncated)?;
        file.write_all_at(&message.bytes, 0)?;
        let date = Timestamp { unix_nanos: message.date.max(0).saturating_mul(1_000_000_000) };
        file.set_times(date, date)
    }
}

/// Returns the unique part of the name of a message's file: one in three as Dovecot delivers them,
/// with both sizes, the others as qmail does. Names sort by date, and within a second by number.
pub fn maildir_name(number: u64, message: &GeneratedMessage) -> String {
    let date = message.date;
    // A corpus has less than a million messages in a second.
    let micros = number % 1_000_000;
    if number % 3 == 2 {
        return format!("{date}.M{micros:06}P{}Q{number}.mail", 400 + number % 30_000);
    }
    let size = message.bytes.len();
    let lines = message.bytes.iter().filter(|byte| **byte == b'\n').count();
    format!("{date}.M{micros:06}P{}.host,S={size},W={}", 400 + number % 30_000, size + lines)
}
