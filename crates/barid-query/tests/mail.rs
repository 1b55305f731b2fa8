//! Messages in text, parsed by `barid-message`, as columns and sort keys.

use std::collections::HashMap;

use barid_message::{
    HeaderFields, Profile, base_subject, casemap_as, crlf_size, decode_words, display_name_as,
    fields, first_mailbox_as, message_id, message_ids, parse_date_as, rfc822_size,
};
use barid_query::{NO_ID, SortKey, SortProgram, SortView, ThreadAlgorithm, sort, threads};

use crate::random::Mailbox;

/// A message and its arrival time.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) raw: Vec<u8>,
    pub(crate) arrival: i64,
}

/// A mailbox parsed with one profile.
#[derive(Debug)]
pub(crate) struct Mail {
    profile: Profile,
    columns: Mailbox,
    /// Subjects interned in the form that c-client's ORDEREDSUBJECT compares.
    folded_subjects: Vec<u32>,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    arrival: i64,
    size: i64,
    strings: [Vec<u8>; 6],
    /// Its own id and its references, each ended by LF.
    ids: Vec<u8>,
}

/// The keys that are texts, in the order of [`Row::strings`].
const STRING_KEYS: [SortKey; 6] = [
    SortKey::Subject,
    SortKey::From,
    SortKey::To,
    SortKey::Cc,
    SortKey::DisplayFrom,
    SortKey::DisplayTo,
];

/// Numbers for texts in order of appearance.
#[derive(Default)]
struct Numbers(HashMap<Vec<u8>, u32>);

impl Numbers {
    fn number(&mut self, text: &[u8]) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(text.to_vec()).or_insert(next)
    }
}

impl Mail {
    pub(crate) fn read(messages: &[Message], profile: Profile) -> Self {
        let mut mail = Mail {
            profile,
            columns: Mailbox::default(),
            folded_subjects: Vec::new(),
            rows: vec![],
        };
        let (mut ids, mut subjects) = (Numbers::default(), Numbers::default());
        let mut folded = Numbers::default();
        subjects.number(b"");
        folded.number(b"");
        for message in messages {
            let found = HeaderFields::scan(&message.raw);
            let columns = &mut mail.columns;
            let mut all = Vec::new();
            let own = message_id(found.message_id.unwrap_or_default(), profile);
            all.extend_from_slice(own.as_deref().unwrap_or_default());
            all.push(b'\n');
            columns.ids.push(own.map_or(NO_ID, |id| ids.number(&id)));
            let start = columns.refs.len();
            message_ids(found.references.unwrap_or_default(), profile, &mut |id| {
                columns.refs.push(ids.number(id));
                all.extend_from_slice(id);
                all.push(b'\n');
            });
            if columns.refs.len() == start {
                let parent = message_id(found.in_reply_to.unwrap_or_default(), profile);
                all.extend_from_slice(parent.as_deref().unwrap_or_default());
                columns.refs.extend(parent.map(|id| ids.number(&id)));
            }
            columns.ref_ends.push(columns.refs.len() as u32);
            let subject = match profile {
                Profile::CClient => untrimmed_subject(&message.raw),
                _ => found.subject.unwrap_or_default(),
            };
            let subject = base_subject(subject, profile);
            columns.subjects.push(subjects.number(&subject.text));
            mail.folded_subjects.push(folded.number(&subject.text.to_ascii_lowercase()));
            columns.replies.push(subject.is_reply_or_forward);
            columns.dates.push(sent_date(&found, message.arrival, profile));
            mail.rows.push(Row {
                arrival: message.arrival,
                size: size(&message.raw, profile),
                strings: strings(&found, subject.text, profile),
                ids: all,
            });
        }
        mail.columns.id_count = ids.0.len() as u32;
        mail.columns.subject_count = subjects.0.len() as u32;
        mail
    }

    /// Returns the THREAD response.
    pub(crate) fn thread(&self, algorithm: ThreadAlgorithm) -> String {
        let mut columns = self.columns.columns();
        if self.profile == Profile::CClient && algorithm == ThreadAlgorithm::OrderedSubject {
            columns.keys.subjects = &self.folded_subjects;
        }
        let mut out = Vec::new();
        threads(algorithm, &columns, self.profile).unwrap().write_imap(|row| row + 1, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// Returns the SORT response.
    pub(crate) fn sort(&self, program: &SortProgram) -> Vec<u32> {
        let rows: Vec<u32> = (0..self.rows.len() as u32).collect();
        sort(&rows, program, self).into_iter().map(|row| row + 1).collect()
    }

    /// Returns for each message `true` if another profile reads its sort key differently.
    pub(crate) fn differing_keys(&self, other: &Mail, key: SortKey) -> Vec<bool> {
        let rows = self.rows.iter().zip(&other.rows).enumerate();
        let differs = rows.map(|(row, (ours, theirs))| match key {
            SortKey::Arrival => ours.arrival != theirs.arrival,
            SortKey::Size => ours.size != theirs.size,
            SortKey::Date => self.columns.dates[row] != other.columns.dates[row],
            // In lower case, as c-client compares.
            key => {
                let text = |mail: &Mail| mail.string(key, row).to_ascii_lowercase();
                text(self) != text(other)
            }
        });
        differs.collect()
    }

    /// Returns for each message `true` if another profile reads its threading data differently.
    pub(crate) fn differing_links(&self, other: &Mail) -> Vec<bool> {
        let subjects = self.differing_keys(other, SortKey::Subject);
        let dates = self.differing_keys(other, SortKey::Date);
        (0..self.rows.len())
            .map(|row| {
                subjects[row]
                    || dates[row]
                    || self.rows[row].ids != other.rows[row].ids
                    || self.columns.replies[row] != other.columns.replies[row]
            })
            .collect()
    }

    /// Returns the text of a key.
    pub(crate) fn string(&self, key: SortKey, row: usize) -> &[u8] {
        let at = STRING_KEYS.iter().position(|known| *known == key).unwrap();
        &self.rows[row].strings[at]
    }
}

impl SortView for Mail {
    fn numbers(&self, key: SortKey, rows: &[u32], out: &mut Vec<i64>) {
        out.extend(rows.iter().map(|&row| match key {
            SortKey::Arrival => self.rows[row as usize].arrival,
            SortKey::Size => self.rows[row as usize].size,
            _ => self.columns.dates[row as usize],
        }));
    }

    fn strings(&self, key: SortKey, rows: &[u32], visit: &mut dyn FnMut(&[u8])) {
        rows.iter().for_each(|&row| visit(self.string(key, row as usize)));
    }
}

/// Returns the first Subject with the white space at its end, which c-client does not always
/// remove.
fn untrimmed_subject(raw: &[u8]) -> &[u8] {
    let field = fields(raw).find(|field| field.name.eq_ignore_ascii_case(b"subject"));
    let Some(field) = field else { return b"" };
    let line = &raw[field.offset..field.end];
    let value = line.iter().position(|byte| *byte == b':').map_or(line.len(), |colon| colon + 1);
    let value = line[value..].trim_ascii_start();
    value.strip_suffix(b"\n").map_or(value, |value| value.strip_suffix(b"\r").unwrap_or(value))
}

/// Returns the size with CRLF. Dovecot counts the fields that mailbox formats own if its format
/// does not use them.
fn size(raw: &[u8], profile: Profile) -> i64 {
    let size = if profile == Profile::Dovecot { crlf_size(raw) } else { rfc822_size(raw) };
    size as i64
}

/// Returns the sent date (RFC 5256 §2.2); the servers treat the first second of 1970 as a missing
/// date.
fn sent_date(fields: &HeaderFields<'_>, arrival: i64, profile: Profile) -> i64 {
    let sent = fields.date.and_then(|date| parse_date_as(date, profile));
    match sent.map(|date| date.unix_seconds) {
        None => arrival,
        Some(0) if profile != Profile::Rfc => arrival,
        Some(date) => date,
    }
}

fn strings(fields: &HeaderFields<'_>, subject: Vec<u8>, profile: Profile) -> [Vec<u8>; 6] {
    let mailbox = |field: Option<&[u8]>| {
        let mailbox = first_mailbox_as(field.unwrap_or_default(), profile);
        match profile {
            // Compared octet by octet, with ASCII letters in lower case.
            Profile::CClient => mailbox.to_ascii_lowercase(),
            _ => casemap_as(&decode_words(&mailbox), profile).into_bytes(),
        }
    };
    let display = |field: Option<&[u8]>| {
        let name = display_name_as(field.unwrap_or_default(), profile);
        casemap_as(&name, profile).into_bytes()
    };
    let subject = if profile == Profile::CClient { subject.to_ascii_lowercase() } else { subject };
    [
        subject,
        mailbox(fields.from),
        mailbox(fields.to),
        mailbox(fields.cc),
        display(fields.from),
        display(fields.to),
    ]
}
