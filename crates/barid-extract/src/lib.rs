//! The text of attachments: office documents, PDF, HTML and plain text.
//!
//! [`extract`] has the readers, which are pure: bytes in, text out, everything bounded by
//! [`limits`]. Documents come from anybody, and readers of documents have always had faults, so no
//! process with mail or keys in its memory calls them: [`Extractor`] starts a helper for each
//! attachment, which confines itself ([`run_helper`]) before it reads a byte. The program that
//! starts an [`Extractor`] must have a hidden verb that calls [`run_helper`].
//!
//! `docs/design/attachments.md` has the reasons.

mod archive;
mod confine;
mod document_type;
mod extract;
mod extractor;
mod failure;
mod helper;
mod html;
pub mod limits;
mod office;
mod plain;
mod sink;
mod talk;
mod text_cache;
mod xml;

pub use confine::{Protections, confine, confine_to_program, protections};
pub use document_type::DocumentType;
pub use extract::{ExtractedText, extract};
pub use extractor::{AttachmentPart, ExtractOutcome, Extractor, find_pdf_reader, find_program};
pub use failure::Failure;
pub use helper::{HelperOptions, run_helper};
pub use text_cache::{Extraction, TextCache, TextKey};
