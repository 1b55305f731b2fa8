//! The parent of helpers: attachments in, texts out.

use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use barid_vfs::{FileType, Vfs, cores, on_threads};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::Failure;
use crate::document_type::{DocumentType, is_encrypted_office};
use crate::extract::ExtractedText;
use crate::helper::{EXIT_CUT, EXIT_FAILED};
use crate::limits::{HELPER_TIME_MAX, INPUT_LEN_MAX, PATH_FOLDERS_MAX, TEXT_LEN_MAX};
use crate::plain::clean_charset;
use crate::talk::{Answer, Running};
use crate::text_cache::{READERS, TextCache, TextKey, program_id};

/// An attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentPart {
    /// `type/subtype`.
    pub media_type: String,
    /// The file name.
    pub file_name: Option<String>,
    /// The declared charset.
    pub charset: Option<String>,
    /// The bytes, without a transfer encoding.
    pub bytes: Vec<u8>,
}

/// Outcome of extracting the text of an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtractOutcome {
    /// It has this text, perhaps an empty one.
    Text(ExtractedText),
    /// Its text cannot be read.
    Failed(Failure),
    /// Its type has no text that can be read.
    Unsupported,
}

/// Extracts texts by helpers, a process for each attachment.
#[derive(Clone, Debug)]
pub struct Extractor {
    program: PathBuf,
    pdf_reader: Option<PathBuf>,
    stop: Option<Arc<AtomicBool>>,
    time_max: Duration,
    cache: Option<Arc<TextCache>>,
    /// Identity of the reader of PDF.
    pdf_reader_id: Vec<u8>,
}

impl Extractor {
    /// Creates an extractor. `program` is started with `extract-text --type TYPE` and calls
    /// [`run_helper`](crate::run_helper); `pdf_reader` is the program `pdftotext`, if there is one.
    pub fn new(program: PathBuf, pdf_reader: Option<PathBuf>) -> Self {
        let (stop, cache, pdf_reader_id) = (None, None, Vec::new());
        Self { program, pdf_reader, stop, time_max: HELPER_TIME_MAX, cache, pdf_reader_id }
    }

    /// Makes the extraction end, with [`Failure::Stopped`], once `stop` is `true`.
    #[must_use]
    pub fn stopped_by(self, stop: Arc<AtomicBool>) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// Sets the time after which a helper is killed, instead of [`HELPER_TIME_MAX`].
    #[must_use]
    pub fn within(self, time_max: Duration) -> Self {
        Self { time_max, ..self }
    }

    /// Looks texts up in a cache first, and remembers new ones there, and lasting failures.
    #[must_use]
    pub fn remembering(self, cache: Arc<TextCache>) -> Self {
        let reader = self.pdf_reader.as_deref();
        let pdf_reader_id = reader.map(|reader| cache.program_id(reader)).unwrap_or_default();
        Self { cache: Some(cache), pdf_reader_id, ..self }
    }

    /// Returns the identity of all readers, not 0: another one may read another text in the same
    /// attachment.
    pub fn readers_id(&self, vfs: &dyn Vfs) -> u32 {
        let pdf_reader = self.pdf_reader.as_deref().map(|path| program_id(vfs, path));
        let hash = xxh3_64_with_seed(&pdf_reader.unwrap_or_default(), READERS.into());
        (hash as u32).max(1)
    }

    /// Extracts the text of an attachment. Costs a process of a few milliseconds if its type has
    /// text. Never waits longer than [`HELPER_TIME_MAX`].
    pub fn text(&self, part: &AttachmentPart) -> ExtractOutcome {
        let AttachmentPart { media_type, file_name, charset, bytes } = part;
        let Some(kind) = DocumentType::of(media_type, file_name.as_deref(), bytes) else {
            return match is_encrypted_office(bytes) {
                true => ExtractOutcome::Failed(Failure::Encrypted),
                false => ExtractOutcome::Unsupported,
            };
        };
        let charset = clean_charset(charset.as_deref().unwrap_or_default());
        match self.known_or_extract(kind, &charset, bytes) {
            Ok(text) => ExtractOutcome::Text(text),
            Err(Failure::NotADocument) => ExtractOutcome::Unsupported,
            Err(failure) => ExtractOutcome::Failed(failure),
        }
    }

    /// Extracts the texts of attachments by as many helpers at once as there are cores; returns
    /// their outcomes in order.
    pub fn texts(&self, parts: &[AttachmentPart]) -> Vec<ExtractOutcome> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(part) = parts.get(number) else { return done };
                done.push((number, self.text(part)));
            }
        };
        let mut outcomes = on_threads(cores().min(parts.len()), work).concat();
        outcomes.sort_unstable_by_key(|(number, _)| *number);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }

    fn known_or_extract(
        &self,
        kind: DocumentType,
        charset: &str,
        bytes: &[u8],
    ) -> Result<ExtractedText, Failure> {
        if bytes.len() > INPUT_LEN_MAX {
            return Err(Failure::InputTooLong);
        }
        let Some(cache) = &self.cache else { return self.extract(kind, charset, bytes) };
        let reader = if kind == DocumentType::Pdf { &*self.pdf_reader_id } else { b"" };
        let key = TextKey::of(kind, charset, reader, bytes);
        cache.get(key).unwrap_or_else(|| {
            let found = self.extract(kind, charset, bytes);
            cache.put(key, &found);
            found
        })
    }

    fn extract(
        &self,
        kind: DocumentType,
        charset: &str,
        bytes: &[u8],
    ) -> Result<ExtractedText, Failure> {
        let mut command = Command::new(&self.program);
        command.args(["extract-text", "--type", kind.name()]);
        command.arg(format!("--parent={}", std::process::id()));
        if kind == DocumentType::Pdf {
            let reader = self.pdf_reader.as_ref().ok_or(Failure::NoPdfReader)?;
            command.arg("--pdf-reader").arg(reader);
        }
        if !charset.is_empty() {
            command.arg(format!("--charset={charset}"));
        }
        command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|_| Failure::NotStarted)?;
        let answer = Running(child).talk(bytes, self.time_max, self.stop.as_deref())?;
        outcome(kind, answer)
    }
}

/// Interprets the answer of a helper. Its output is never trusted to be text.
fn outcome(kind: DocumentType, answer: Answer) -> Result<ExtractedText, Failure> {
    let Answer { output, messages, status } = answer;
    let is_cut = match status.map(|status| (status.code(), status.signal())) {
        // It wrote more than it may.
        None => true,
        Some((Some(0), _)) => false,
        Some((Some(code), _)) if code == i32::from(EXIT_CUT) => true,
        Some((code, signal)) => return Err(reason(kind, code, signal, &messages)),
    };
    let mut text = String::from_utf8_lossy(&output).into_owned();
    if kind == DocumentType::Pdf {
        // A new page.
        text = text.replace('\u{c}', "\n");
    }
    text.truncate(text.floor_char_boundary(TEXT_LEN_MAX));
    Ok(ExtractedText { text, is_cut })
}

fn reason(kind: DocumentType, code: Option<i32>, signal: Option<i32>, messages: &[u8]) -> Failure {
    match (code, signal) {
        (Some(code), _) if code == i32::from(EXIT_FAILED) => {
            let messages = String::from_utf8_lossy(messages);
            let name = messages.split(':').next().unwrap_or_default();
            Failure::named(name).unwrap_or(Failure::Crashed)
        }
        (_, Some(libc::SIGXCPU)) => Failure::CpuTimeOver,
        (_, Some(libc::SIGHUP | libc::SIGINT | libc::SIGQUIT | libc::SIGKILL | libc::SIGTERM)) => {
            Failure::Killed
        }
        _ if is_about_memory(messages) => Failure::OutOfMemory,
        // Exit codes of pdftotext: 1 and 2 for a document that cannot be opened or printed, 3 for
        // one whose permissions forbid it.
        (Some(1 | 2), _) if kind == DocumentType::Pdf => Failure::BadPdf,
        (Some(3), _) if kind == DocumentType::Pdf => Failure::Encrypted,
        _ => Failure::Crashed,
    }
}

/// Returns `true` for the last words of allocators: of Rust, of C++, and of poppler.
fn is_about_memory(messages: &[u8]) -> bool {
    let words = [&b"memory allocation of"[..], b"bad_alloc", b"Out of memory"];
    words.iter().any(|words| memchr::memmem::find(messages, words).is_some())
}

/// Returns the first program `pdftotext` in the folders of `path`, the value of `PATH`, as
/// [`find_program`] does.
pub fn find_pdf_reader(vfs: &dyn Vfs, path: &OsStr) -> Option<PathBuf> {
    find_program(vfs, path, "pdftotext")
}

/// Returns the first program of a name in the folders of `path`, the value of `PATH`. Relative
/// folders and files that nobody may execute are left out.
pub fn find_program(vfs: &dyn Vfs, path: &OsStr, name: &str) -> Option<PathBuf> {
    let folders = std::env::split_paths(path).take(PATH_FOLDERS_MAX);
    let programs = folders.filter(|folder| folder.is_absolute());
    programs.map(|folder| folder.join(name)).find(|program| is_program(vfs, program))
}

fn is_program(vfs: &dyn Vfs, path: &Path) -> bool {
    let is = |mode: u32| mode & 0o111 != 0;
    vfs.metadata(path).is_ok_and(|found| found.file_type == FileType::File && is(found.mode))
}

#[cfg(test)]
mod tests {
    use barid_vfs::{MemVfs, OpenOptions};

    use super::*;

    #[test]
    fn another_reader_has_another_identity() {
        let vfs = MemVfs::new();
        let path = Path::new("/pdftotext");
        let id = |reader: Option<&Path>| {
            Extractor::new("/barid".into(), reader.map(Path::to_owned)).readers_id(&vfs)
        };
        let (without, missing) = (id(None), id(Some(path)));
        vfs.open(path, OpenOptions::create(0o700)).unwrap().write_all_at(b"one", 0).unwrap();
        let one = id(Some(path));
        assert_eq!(one, id(Some(path)));
        vfs.open(path, OpenOptions::WRITE).unwrap().write_all_at(b"newer", 0).unwrap();
        let mut all = vec![0, without, missing, one, id(Some(path))];
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 5);
    }
}
