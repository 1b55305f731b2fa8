//! The conversion of a scanned message to its rows: the only place where headers are read.

use barid_mailbox::ScannedMessage;
use barid_message::{
    HeaderFields, HeaderScan, Profile, SubjectScratch, base_subject_into, message_id, message_ids,
    parse_date,
};

use crate::core_row::Core;
use crate::limits::{NAME_LEN_MAX, REFERENCES_MAX};
use crate::record::Record;
use crate::thread_row::{IdHash, ThreadRow};

/// A parser of headers, whose buffers are reused for each message.
#[derive(Debug)]
pub(crate) struct Parser {
    seed: u64,
    subject: SubjectScratch,
    /// The references of the message last parsed.
    pub(crate) references: Vec<IdHash>,
}

/// The result of parsing a header.
pub(crate) struct Parsed<'a> {
    pub(crate) record: Record<'a>,
    pub(crate) core: Core,
    pub(crate) thread: ThreadRow,
}

impl Parser {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, subject: SubjectScratch::default(), references: Vec::new() }
    }

    /// Parses the header of a message; [`Parser::references`] then contains its references.
    pub(crate) fn parse<'a>(&mut self, message: &ScannedMessage<'a>) -> Parsed<'a> {
        let scan = HeaderScan::new(message.header);
        let fields = &scan.fields;
        let core = Core::of(message, fields.date.and_then(parse_date));
        self.find_references(fields);
        let id = |raw| message_id(raw, Profile::Rfc).map(|id| IdHash::of(self.seed, &id));
        let mut thread = ThreadRow {
            message_id: fields.message_id.and_then(id),
            date: core.sent_date.unix_seconds,
            references_count: self.references.len() as u16,
            ..ThreadRow::default()
        };
        if let Some(raw) = fields.subject {
            let (base, is_reply) = base_subject_into(raw, Profile::Rfc, &mut self.subject);
            thread.subject = (!base.is_empty()).then(|| IdHash::of(self.seed, base));
            thread.is_reply = is_reply;
        }
        Parsed { record: Record::from(&scan), core, thread }
    }

    /// Finds all valid ids of References; if there are none, the first valid one of In-Reply-To
    /// (RFC 5256 §3, REFERENCES).
    fn find_references(&mut self, fields: &HeaderFields<'_>) {
        let (seed, references) = (self.seed, &mut self.references);
        references.clear();
        for (raw, count_max) in [(fields.references, REFERENCES_MAX), (fields.in_reply_to, 1)] {
            if let (Some(raw), true) = (raw, references.is_empty()) {
                message_ids(raw, Profile::Rfc, &mut |id: &[u8]| {
                    if references.len() < count_max {
                        references.push(IdHash::of(seed, id));
                    }
                });
            }
        }
    }
}

/// Returns the file name of a message, within its bound; empty for a span.
pub(crate) fn name_of<'a>(message: &ScannedMessage<'a>) -> Result<&'a [u8], NameTooLong> {
    let name = message.location.message_name().map_or(&[][..], |name| name.name);
    if name.len() > NAME_LEN_MAX { Err(NameTooLong) } else { Ok(name) }
}

/// A file name longer than [`NAME_LEN_MAX`].
#[derive(Debug)]
pub(crate) struct NameTooLong;
