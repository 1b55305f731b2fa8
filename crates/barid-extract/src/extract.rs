//! Reading the text of a document in this process.

use crate::document_type::DocumentType;
use crate::limits::INPUT_LEN_MAX;
use crate::sink::{End, TextSink};
use crate::{Failure, html, office, plain};

/// The text of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtractedText {
    /// The text, in lines.
    pub text: String,
    /// `true` if the document has more text than
    /// [`TEXT_LEN_MAX`](crate::limits::TEXT_LEN_MAX) bytes.
    pub is_cut: bool,
}

/// Returns the text of a document. Pure; to be called only in a confined process, since its readers
/// may have faults. `charset` is that of a text, or empty.
///
/// # Errors
/// The reason why there is no text; [`Failure::NoPdfReader`] for PDF, which another program reads.
pub fn extract(
    document_type: DocumentType,
    charset: &str,
    bytes: &[u8],
) -> Result<ExtractedText, Failure> {
    if bytes.len() > INPUT_LEN_MAX {
        return Err(Failure::InputTooLong);
    }
    let mut sink = TextSink::default();
    let read = match document_type {
        DocumentType::Office => office::read(bytes, &mut sink),
        DocumentType::Pdf => return Err(Failure::NoPdfReader),
        DocumentType::Html => {
            let declared = match charset {
                "" => plain::html_charset(bytes),
                charset => charset.to_owned(),
            };
            html::read(&plain::decode(bytes, &declared)?, &mut sink)
        }
        DocumentType::Text => sink.push(&plain::decode(bytes, charset)?),
    };
    match read {
        Ok(()) | Err(End::Full) => {
            let (text, is_cut) = sink.finish();
            Ok(ExtractedText { text, is_cut })
        }
        Err(End::Failed(failure)) => Err(failure),
    }
}
