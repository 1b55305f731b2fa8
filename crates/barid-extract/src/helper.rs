//! The helper: a process that reads one attachment and ends.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;
use crate::confine::{confine, confine_to_program};
use crate::document_type::DocumentType;
use crate::extract::extract;
use crate::limits::INPUT_LEN_MAX;

/// Exit status of a helper whose reason is on standard error. A reader of PDF has others.
pub(crate) const EXIT_FAILED: u8 = 70;
/// Exit status of a helper that has left out text.
pub(crate) const EXIT_CUT: u8 = 71;

/// The arguments of a helper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelperOptions {
    /// The type of the document.
    pub document_type: DocumentType,
    /// The charset of a text, or empty.
    pub charset: String,
    /// The program `pdftotext`, for PDF.
    pub pdf_reader: Option<PathBuf>,
    /// The process id of the parent, with which the helper ends; `None` if it is not known.
    pub parent: Option<u32>,
}

/// Runs a helper: confines this process, reads a document from `input`, writes its text to
/// `output`, or the reason why there is none to `messages`. Returns the exit status.
///
/// The process must have one thread, nothing open but these three, and an empty environment.
/// Nothing is read before it is confined. PDF is read by another program in place of this one,
/// under the same limits; then this does not return.
pub fn run_helper(
    options: &HelperOptions,
    input: &mut dyn Read,
    output: &mut dyn Write,
    messages: &mut dyn Write,
) -> u8 {
    let done = match (options.document_type, &options.pdf_reader) {
        (DocumentType::Pdf, Some(program)) => Err(become_program(program, options.parent)),
        (DocumentType::Pdf, None) => Err(Failure::NoPdfReader),
        _ => read_confined(options, input, output),
    };
    match done {
        Ok(false) => 0,
        Ok(true) => EXIT_CUT,
        Err(failure) => {
            // A parent that does not listen needs no reason.
            let _ = writeln!(messages, "{}: {failure}", failure.name());
            EXIT_FAILED
        }
    }
}

/// Returns `true` if text was left out.
fn read_confined(
    options: &HelperOptions,
    input: &mut dyn Read,
    output: &mut dyn Write,
) -> Result<bool, Failure> {
    confine(options.parent).map_err(|_| Failure::NotConfined)?;
    let mut bytes = Vec::new();
    let len_max = INPUT_LEN_MAX as u64 + 1;
    input.take(len_max).read_to_end(&mut bytes).map_err(|error| of_memory(&error))?;
    let extracted = extract(options.document_type, &options.charset, &bytes)?;
    let written = output.write_all(extracted.text.as_bytes()).and_then(|()| output.flush());
    written.map_err(|_| Failure::Crashed)?;
    Ok(extracted.is_cut)
}

fn of_memory(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::OutOfMemory => Failure::OutOfMemory,
        _ => Failure::Crashed,
    }
}

/// Replaces this process by the reader of PDF; returns only on failure.
fn become_program(program: &Path, parent: Option<u32>) -> Failure {
    if confine_to_program(program, parent).is_err() {
        return Failure::NotConfined;
    }
    let _ = Command::new(program).args(["-q", "-enc", "UTF-8", "-", "-"]).env_clear().exec();
    Failure::NotStarted
}
