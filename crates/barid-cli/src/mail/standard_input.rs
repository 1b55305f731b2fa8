//! Standard input: one message or a mailbox. Input that is too large for memory goes to a file
//! without a name.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid::vfs::{File, MemVfs, OneFileVfs, OpenOptions as OpenFile, OsVfs, Vfs, create_unlinked};
use barid::{AttachmentReader, FormatName, Mailbox, MailboxSpec, OpenOptions};

use crate::hint::WithHint;
use crate::limits::{INPUT_PIECE_LEN, INPUT_WHOLE_LEN_MAX, SPOOL_FREE_PART};
use crate::output::number::size;
use crate::signals;

/// Name of standard input in errors.
pub(crate) const STDIN: &str = "standard input";
/// Number of the first bytes, enough for every mark of a file.
const START_LEN: usize = 16;
/// Path of the mailbox on standard input, in a file system of its own.
const MAILBOX_PATH: &str = "/standard-input";

/// The most bytes that are read, and the error if there are more.
pub(crate) type SizeLimit<'a> = (u64, &'a dyn Fn() -> anyhow::Error);

/// Everything that was read from standard input.
pub(crate) enum StandardInput {
    /// Bytes that fit into memory.
    Whole(Vec<u8>),
    /// The file with all bytes of a larger input.
    Spooled(Box<dyn File>),
}

impl StandardInput {
    /// Reads standard input up to its end. Input that is too large for memory goes to a file in the
    /// first of the folders that allows it. A signal ends the program meanwhile.
    pub(crate) fn read(folders: &[PathBuf], limit: Option<SizeLimit<'_>>) -> anyhow::Result<Self> {
        let mut start = Vec::new();
        let mut stdin = io::stdin().lock();
        signals::while_idle(|| {
            let most = INPUT_WHOLE_LEN_MAX as u64 + 1;
            stdin.by_ref().take(most).read_to_end(&mut start).map_err(of_stdin)?;
            if start.len() <= INPUT_WHOLE_LEN_MAX {
                return Ok(Self::Whole(start));
            }
            Ok(Self::Spooled(spool((&OsVfs, folders), &start, &mut stdin, limit)?))
        })
    }

    /// Returns the first bytes, which identify its kind.
    pub(crate) fn start(&self) -> io::Result<Vec<u8>> {
        let mut start = vec![0; START_LEN];
        let len = match self {
            Self::Whole(bytes) => bytes.as_slice().read(&mut start)?,
            Self::Spooled(file) => file.read_full_at(&mut start, 0)?,
        };
        start.truncate(len);
        Ok(start)
    }

    /// Opens the mailbox on standard input, an mbox, which may be compressed.
    pub(crate) fn into_mailbox(self) -> anyhow::Result<Mailbox> {
        let format = MailboxSpec::parse("mbox:").format;
        self.open(&|_| format, None)
    }

    /// Opens the mailbox on standard input, in the format that is named, or else detected; what is
    /// not a mailbox is one message.
    pub(crate) fn into_any_mailbox(
        self,
        format: Option<FormatName>,
        attachments: Option<Arc<dyn AttachmentReader>>,
    ) -> anyhow::Result<Mailbox> {
        let message = || FormatName::named("eml");
        let path = Path::new(MAILBOX_PATH);
        let format = |vfs: &dyn Vfs| match format {
            // An empty mailbox has no mark.
            None if barid::detect(vfs, path).is_ok_and(|found| found.is_none()) => message(),
            format => format,
        };
        self.open(&format, attachments)
    }

    fn open(
        self,
        format: &dyn Fn(&dyn Vfs) -> Option<FormatName>,
        attachments: Option<Arc<dyn AttachmentReader>>,
    ) -> anyhow::Result<Mailbox> {
        let path = Path::new(MAILBOX_PATH);
        let vfs = match self {
            Self::Spooled(file) => OneFileVfs::new(path, file),
            Self::Whole(bytes) => {
                let file = MemVfs::new().open(path, OpenFile::create_new(0o600))?;
                file.write_all_at(&bytes, 0)?;
                OneFileVfs::new(path, file)
            }
        };
        let vfs = vfs.map_err(of_stdin)?;
        let spec = MailboxSpec { format: format(&vfs), path: path.to_owned() };
        let options =
            OpenOptions { read_only: true, attachments, ..OpenOptions::new(None, "/state".into()) };
        Ok(Mailbox::open_in(Arc::new(vfs), &spec, &options)?)
    }
}

fn of_stdin(error: io::Error) -> anyhow::Error {
    anyhow::Error::new(error).context(STDIN)
}

/// Creates a file without a name in the first of the folders that allows it.
fn create_in<'f>(
    vfs: &dyn Vfs,
    folders: &'f [PathBuf],
) -> anyhow::Result<(Box<dyn File>, &'f Path)> {
    let mut first_error = None;
    for folder in folders {
        match create_unlinked(vfs, folder) {
            Ok(file) => return Ok((file, folder)),
            Err(error) => {
                first_error.get_or_insert_with(|| not_stored(folder)(error));
            }
        }
    }
    Err(first_error.unwrap_or_else(|| anyhow::Error::msg("no folder for temporary files")))
}

/// Adds to an error that standard input cannot be stored in a folder.
fn not_stored(folder: &Path) -> impl Fn(io::Error) -> anyhow::Error {
    let shown = folder.display().to_string();
    move |error| {
        anyhow::Error::new(error).context(format!("{STDIN}: it cannot be stored in {shown}"))
    }
}

/// Writes `start` and the rest of the input into a file without a name, which takes at most half of
/// the free space of its folder, because the mailbox needs as much.
fn spool(
    (vfs, folders): (&dyn Vfs, &[PathBuf]),
    start: &[u8],
    input: &mut impl Read,
    limit: Option<SizeLimit<'_>>,
) -> anyhow::Result<Box<dyn File>> {
    let (file, folder) = create_in(vfs, folders)?;
    let at = not_stored(folder);
    let room = vfs.free_space(folder).map_err(&at)? / SPOOL_FREE_PART;
    let (mut piece, mut offset) = (start.to_vec(), 0);
    while !piece.is_empty() {
        let len = offset + piece.len() as u64;
        if let Some((_, too_large)) = limit.filter(|(most, _)| len > *most) {
            return Err(too_large());
        }
        if len > room {
            return Err(WithHint::error(
                format!(
                    "{STDIN}: larger than {}, half of the space that is free in {}",
                    size(room),
                    folder.display()
                ),
                "save it to a file, and give the name of that file",
            ));
        }
        file.write_all_at(&piece, offset).map_err(&at)?;
        offset = len;
        piece.clear();
        input.by_ref().take(INPUT_PIECE_LEN).read_to_end(&mut piece).map_err(of_stdin)?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::env;

    use barid::ReadAs;

    use super::*;

    const INPUT_LEN: u64 = 2 * INPUT_PIECE_LEN + 1;

    fn check(len_max: Option<u64>, free: u64, expected: &str) {
        let vfs = MemVfs::new();
        // No folder can be made where a file is.
        vfs.open(Path::new("/file"), OpenFile::create_new(0o600)).unwrap();
        let folders = ["/file/cache".into(), "/state".into(), "/tmp".into()];
        vfs.set_free_space(Some(free));
        let mut input = io::repeat(b'x').take(INPUT_LEN);
        let too_large = || anyhow::Error::msg("too large");
        let limit = len_max.map(|most| (most, &too_large as &dyn Fn() -> anyhow::Error));
        let spooled = spool((&vfs, &folders), b"start", &mut input, limit);
        let result = match spooled {
            Ok(file) => file.metadata().unwrap().size.to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(result, expected);
    }

    #[test]
    fn input_is_spooled_within_its_limits() {
        let len = INPUT_LEN + 5;
        check(None, 2 * len, "524294");
        check(Some(len), 2 * len, "524294");
        check(Some(len - 1), 2 * len, "too large");
        let no_room =
            "standard input: larger than 300 KB, half of the space that is free in /state";
        check(None, 600_000, no_room);
        check(Some(10 * len), 600_000, no_room);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let vfs = MemVfs::new();
        vfs.open(Path::new("/file"), OpenFile::create_new(0o600)).unwrap();
        let folders = ["/file/cache".into(), "/file/state".into()];
        let error = spool((&vfs, &folders), b"start", &mut io::empty(), None).unwrap_err();
        let expected = "standard input: it cannot be stored in /file/cache";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn what_is_not_a_mailbox_is_one_message() {
        let text = b"X-Unknown: first\nSubject: one\n\nFrom me\n";
        let file = create_unlinked(&OsVfs, &env::temp_dir()).unwrap();
        file.write_all_at(text, 0).unwrap();
        for input in [StandardInput::Whole(text.to_vec()), StandardInput::Spooled(file)] {
            let mut mailbox = input.into_any_mailbox(None, None).unwrap();
            assert_eq!(mailbox.uids().unwrap(), [1]);
            let message = mailbox.read(barid::Uid::MIN, ReadAs::Message).unwrap();
            assert_eq!(message.bytes, text);
        }
        let empty = StandardInput::Whole(Vec::new()).into_any_mailbox(None, None).unwrap();
        assert_eq!(empty.len(), 0);
        assert!(StandardInput::Whole(b"\0\x01x".to_vec()).into_any_mailbox(None, None).is_err());
    }

    #[test]
    fn an_mbox_is_opened_from_memory_and_from_a_file() {
        let text = b"From a@b Sat Jan  3 01:05:34 1996\nSubject: one\n\nx\n\n\
            From a@b Sat Jan  3 01:05:35 1996\nSubject: two\n\ny\n";
        let file = create_unlinked(&OsVfs, &env::temp_dir()).unwrap();
        file.write_all_at(text, 0).unwrap();
        for input in [StandardInput::Whole(text.to_vec()), StandardInput::Spooled(file)] {
            let mut mailbox = input.into_mailbox().unwrap();
            let uids = mailbox.uids().unwrap();
            assert_eq!(uids, [1, 2]);
            let second = mailbox.read(barid::Uid::new(2).unwrap(), ReadAs::Message).unwrap();
            assert_eq!(second.bytes, b"Subject: two\n\ny\n");
        }
    }
}
