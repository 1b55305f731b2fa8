//! Parsers from the bytes of a message to the values that a mail store needs.
//!
//! Everything here is pure: slices in, values out, no input or output, no clock. Malformed mail is
//! never an error: every function returns the best value it can, and those that read whole messages
//! return [`Defect`]s beside it. Everything that mail could make large or deep is bounded in
//! [`limits`].
//!
//! [`HeaderScan::new`] finds the fields that a header cache needs in one pass without
//! allocating; [`parse_date`], [`base_subject`], [`message_ids`], [`first_mailbox`] and
//! [`display_name`] make columns of them.

mod address;
mod body;
mod casemap;
mod crlf;
mod date;
mod defect;
mod envelope;
mod fields;
mod ids;
mod lexer;
pub mod limits;
mod owned;
mod params;
mod peers;
mod pieces;
mod plain_address;
mod preview;
mod profile;
mod sections;
mod structure;
mod subject;
mod text;
mod utf7;
mod wire;
mod words;

pub use address::{
    AddressRef, address_display_name, display_name, display_name_as, first_mailbox,
    first_mailbox_as, parse_addresses, visit_addresses,
};
pub use body::{is_known_encoding, part_body, part_text, raw_body, raw_header};
pub use casemap::{casemap, casemap_foreign, casemap_into};
pub use crlf::{CrlfPieces, crlf_size, has_only_crlf, push_crlf};
pub use date::parse_date;
pub use defect::{Defect, DefectKind};
pub use envelope::envelope;
pub use fields::{Fields, HeaderFields, HeaderScan, RawField, body_offset, field, fields};
pub use ids::{message_id, message_ids};
pub use owned::{header_key, is_owned_field, rfc822_size, rfc822_size_of_crlf, strip_owned};
pub use params::parameter;
pub use peers::{casemap_as, parse_date_as};
pub use pieces::{LinePieces, TakeLines};
pub use preview::preview;
pub use profile::Profile;
pub use sections::{Section, SectionError, SectionText};
pub use structure::{StructureReader, body_structure, is_message};
pub use subject::{BaseSubject, SubjectScratch, base_subject, base_subject_into};
pub use text::{
    Attachment, NumberedPart, attachments, file_name, media_type, numbered_parts, part_by_number,
    readable_text, readable_text_of,
};
pub use utf7::{decode_utf7, encode_utf7};
pub use wire::{wire_message, wire_message_in};
pub use words::{decode_charset, decode_plain, decode_words, unfold};
