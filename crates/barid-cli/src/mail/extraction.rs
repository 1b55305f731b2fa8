//! The readers of attachments: helper processes of this program.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use barid::vfs::OsVfs;
use barid::{AttachmentReader, AttachmentText, AttachmentToRead};
use barid_extract::limits::INPUT_LEN_MAX;
use barid_extract::{
    AttachmentPart, ExtractOutcome, Extractor, Failure, TextCache, find_pdf_reader,
};

/// Returns an extractor whose helpers are this program, with the cache of texts in a folder.
pub(crate) fn extractor(cache_dir: Option<PathBuf>) -> Extractor {
    // The program that runs, even if a newer one has been installed meanwhile.
    let extractor = Extractor::new(PathBuf::from("/proc/self/exe"), pdf_reader());
    match cache_dir {
        Some(dir) => extractor.remembering(Arc::new(TextCache::new(Arc::new(OsVfs), dir))),
        None => extractor,
    }
}

/// Returns the reader of PDF that is installed.
pub(crate) fn pdf_reader() -> Option<PathBuf> {
    find_pdf_reader(&OsVfs, &std::env::var_os("PATH")?)
}

/// Returns an attachment as the extractor takes it.
pub(crate) fn part_of(attachment: AttachmentToRead) -> AttachmentPart {
    let AttachmentToRead { media_type, name, charset, bytes } = attachment;
    AttachmentPart { media_type, file_name: name, charset, bytes }
}

/// Reads attachments for searches and indexes.
#[derive(Debug)]
pub(crate) struct DocumentReader {
    extractor: Extractor,
    id: u32,
}

impl DocumentReader {
    /// Creates a reader that remembers texts in a folder.
    pub(crate) fn new(cache_dir: Option<PathBuf>) -> Self {
        let extractor = extractor(cache_dir);
        Self { id: extractor.readers_id(&OsVfs), extractor }
    }
}

impl AttachmentReader for DocumentReader {
    fn id(&self) -> u32 {
        self.id
    }

    fn len_max(&self) -> usize {
        INPUT_LEN_MAX
    }

    fn read(&self, attachment: AttachmentToRead, stop: Option<&Arc<AtomicBool>>) -> AttachmentText {
        let part = part_of(attachment);
        let outcome = match stop {
            Some(stop) => self.extractor.clone().stopped_by(Arc::clone(stop)).text(&part),
            None => self.extractor.text(&part),
        };
        match outcome {
            ExtractOutcome::Text(found) => AttachmentText::Text(found.text),
            ExtractOutcome::Unsupported => AttachmentText::NoText,
            // Another reader of PDF has another identity.
            ExtractOutcome::Failed(failure)
                if failure.is_lasting() || failure == Failure::NoPdfReader =>
            {
                AttachmentText::Failed
            }
            ExtractOutcome::Failed(_) => AttachmentText::FailedNow,
        }
    }
}
