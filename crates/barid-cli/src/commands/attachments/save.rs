//! Saving attachments as files.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use barid::AttachedMessage;
use barid::message::Attachment;
use barid::vfs::{File, OpenOptions, OsVfs, Vfs};

use super::names::{TriedNames, safe_name};
use super::{MessageTitle, Work};
use crate::context::Context;
use crate::exit::Outcome;
use crate::limits::FILE_NAMES_MAX;
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::size;

/// Saves attachments into a folder.
pub(super) struct Saving {
    dir: PathBuf,
    tried: TriedNames,
}

impl Saving {
    /// Creates the folder if it is missing.
    pub(super) fn new(dir: &Path) -> anyhow::Result<Self> {
        OsVfs.create_dir_all(dir, 0o777).with_context(|| dir.display().to_string())?;
        Ok(Self { dir: dir.to_owned(), tried: TriedNames::default() })
    }

    /// Creates a file that did not exist (`O_EXCL`), so that neither a file nor a link of that name
    /// is followed or overwritten.
    fn create(&mut self, name: &str) -> anyhow::Result<(PathBuf, Box<dyn File>)> {
        for _ in 0..FILE_NAMES_MAX {
            let path = self.dir.join(self.tried.next(name));
            let options = OpenOptions { no_follow: true, ..OpenOptions::create_new(0o666) };
            match OsVfs.open(&path, options) {
                Ok(file) => return Ok((path, file)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(at(&path, error)),
            }
        }
        anyhow::bail!("{}: there are {FILE_NAMES_MAX} files of this name", self.dir.display())
    }
}

/// Returns an error with its path; it is none of standard output.
fn at(path: &Path, error: std::io::Error) -> anyhow::Error {
    anyhow::anyhow!("{}: {error}", path.display())
}

impl Work for Saving {
    /// Writes the file. It is not synced: the mailbox still has the attachment. After an error it
    /// is removed.
    fn attachment(
        &mut self,
        context: &mut Context,
        (message, title): (&AttachedMessage, &MessageTitle),
        attachment: &Attachment,
    ) -> anyhow::Result<Outcome> {
        let fallback = format!("{}-{}", title.uid, attachment.number);
        let name = safe_name(attachment.name.as_deref(), &fallback, &attachment.media_type);
        let (path, file) = self.create(&name)?;
        let (mut len, mut written) = (0, Ok(()));
        let read = message.read_part(&attachment.number, &mut |bytes| {
            written = file.write_all_at(bytes, len);
            len += bytes.len() as u64;
            written.is_ok()
        });
        let is_known = match (read, written) {
            (Ok(is_known), Ok(())) => is_known,
            (read, written) => {
                let error = match written {
                    Err(error) => at(&path, error),
                    Ok(()) => read.err().map_or_else(|| anyhow::anyhow!("not read"), Into::into),
                };
                // Half an attachment would be taken for a whole one.
                let _ = OsVfs.remove_file(&path);
                return Err(error);
            }
        };
        if !is_known {
            let title = title.of(attachment);
            context.warn(&format!("{title}: unknown transfer encoding, saved without decoding"));
        }
        let out = context.out.buffer();
        if context.global.json {
            let mut json = Json::line(out, "attachment");
            title.write_keys(&mut json, attachment);
            json.key("path").bytes(path.as_os_str().as_encoded_bytes());
            json.key("bytes").number(len);
            json.end_line();
        } else {
            let path = visible(path.as_os_str().as_encoded_bytes());
            out.extend_from_slice(format!("{path}  {}\n", size(len)).as_bytes());
        }
        context.out.settle()?;
        Ok(Outcome::Done)
    }
}
