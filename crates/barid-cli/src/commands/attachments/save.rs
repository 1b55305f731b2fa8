//! Saving attachments as files.

use std::path::Path;

use barid::AttachedMessage;
use barid::message::Attachment;

use super::names::safe_name;
use super::{MessageTitle, Work};
use crate::context::Context;
use crate::exit::Outcome;
use crate::mail::save_folder::SaveFolder;
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::size;

/// Saves attachments into a folder.
pub(super) struct Saving(SaveFolder);

impl Saving {
    /// Creates the folder if it is missing.
    pub(super) fn new(dir: &Path) -> anyhow::Result<Self> {
        Ok(Self(SaveFolder::new(dir)?))
    }
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
        let mut file = self.0.create(&name)?;
        let mut written = Ok(());
        let read = message.read_part(&attachment.number, &mut |bytes| {
            written = file.write(bytes);
            written.is_ok()
        });
        let is_known = match written.and_then(|()| Ok(read?)) {
            Ok(is_known) => is_known,
            Err(error) => {
                file.remove();
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
            json.key("path").bytes(file.path().as_os_str().as_encoded_bytes());
            json.key("bytes").number(file.len());
            json.end_line();
        } else {
            let path = visible(file.path().as_os_str().as_encoded_bytes());
            out.extend_from_slice(format!("{path}  {}\n", size(file.len())).as_bytes());
        }
        context.out.settle()?;
        Ok(Outcome::Done)
    }
}
