//! X-IMAPbase: its present and new content, and the message that carries it.

use std::path::Path;

use barid_mailbox::{ChangeSet, Error, Known, Result};
use barid_types::{Keyword, KeywordTable, UidValidity};
use barid_vfs::Timestamp;

use super::block::Fields;
use super::targets::Targets;
use crate::mbox::layout::{KEYWORD_LEN_MAX, KEYWORDS_MAX, MMDF_SEPARATOR};
use crate::mbox::status::{MailboxFields, Separators};

/// Plan for X-IMAPbase.
#[derive(Debug, Default)]
pub(super) struct BasePlan {
    /// Its new value; `None` if there will be none.
    pub(super) value: Option<Vec<u8>>,
    /// The UIDVALIDITY in `value`.
    pub(super) validity: Option<UidValidity>,
    /// The UIDVALIDITY in the present field.
    pub(super) validity_found: Option<UidValidity>,
    /// The last UID in the present field; 0 if there is none.
    pub(super) uid_last_found: u32,
    /// `true` if the new value differs from the present one.
    pub(super) is_changed: bool,
}

/// Input of the plan.
pub(super) struct Wish<'a> {
    pub(super) path: &'a Path,
    pub(super) known: &'a dyn Known,
    pub(super) changes: &'a ChangeSet,
    pub(super) targets: &'a Targets,
    /// `true` if all messages are expunged: information that must survive has to be in the base.
    pub(super) is_last_home: bool,
}

impl Wish<'_> {
    /// Plans the base of a mailbox with this first `header`, which carries the present base if
    /// there is one. New keywords are added to `table` too.
    pub(super) fn plan(
        &self,
        header: &[u8],
        fields: &Fields,
        table: &mut KeywordTable,
    ) -> Result<BasePlan> {
        let text = fields.base.as_ref().and_then(|base| header.get(base.clone()));
        let found = text.and_then(|text| MailboxFields::read(text, fields.base_is_pseudo));
        let uids_are_written = self.changes.write_uids || self.is_last_home;
        let mut names = found.as_ref().map(|base| base.keywords.clone()).unwrap_or_default();
        let is_named = self.name_keywords(&mut names, table)?;
        if found.is_none() && !uids_are_written && !is_named {
            return Ok(BasePlan::default());
        }
        let validity_found = found.as_ref().map(|base| base.validity);
        let own_validity = self.known.uidvalidity();
        let validity = match &found {
            Some(base) if !self.changes.write_uids => Some(base.validity),
            _ => own_validity,
        };
        let Some(validity) = validity else {
            return Err(Error::Changed { path: self.path.to_owned() });
        };
        let own_last = self.known.uidnext().map_or(0, |next| next.get() - 1);
        let found_last = found.as_ref().map_or(0, |base| base.uid_last);
        let uid_last = if uids_are_written { own_last.max(found_last) } else { found_last };
        let mut value = format!("{} {uid_last:010}", validity.get());
        for name in names.names() {
            value.push(' ');
            value.push_str(name.as_str());
        }
        let is_changed = match &found {
            // Dovecot rewrites a field that is not in its form.
            Some(_) if self.changes.write_uids => {
                text.is_none_or(|text| text.trim_ascii() != value.as_bytes())
            }
            Some(base) => {
                base.validity != validity || base.uid_last != uid_last || base.keywords != names
            }
            None => true,
        };
        Ok(BasePlan {
            value: Some(value.into_bytes()),
            validity: Some(validity),
            validity_found,
            uid_last_found: found_last,
            is_changed,
        })
    }

    /// Adds the keywords of the changes to `names`, and all other known keywords if the base is
    /// written anyway. Returns `true` if it must be written for new keywords.
    fn name_keywords(&self, names: &mut KeywordTable, table: &mut KeywordTable) -> Result<bool> {
        let unsupported = |what| Error::Unsupported { path: self.path.to_owned(), what };
        let mut added = KeywordTable::default();
        let of_messages = self.targets.changes(self.changes);
        let all = of_messages.flat_map(|change| &change.add_keywords).chain(&self.changes.keywords);
        for keyword in all {
            let is_new = names.slot(keyword).is_none();
            if is_new && !is_portable(keyword) {
                let what = "an mbox can store only keywords of at most 50 ASCII characters";
                return Err(unsupported(what));
            }
            let full = "an mbox can store at most 30 keywords";
            table.intern(keyword).map_err(|_| unsupported(full))?;
            if is_new {
                added.intern(keyword).map_err(|_| unsupported(full))?;
            }
        }
        let is_needed = !added.names().is_empty();
        if names.names().len() + added.names().len() > KEYWORDS_MAX && is_needed {
            return Err(unsupported("an mbox can store at most 30 keywords"));
        }
        if !is_needed && !self.changes.write_uids {
            return Ok(false);
        }
        let others = table.names().iter().filter(|name| {
            names.slot(name).is_none() && added.slot(name).is_none() && is_portable(name)
        });
        let room = KEYWORDS_MAX.saturating_sub(names.names().len() + added.names().len());
        let chosen: KeywordTable = others.take(room).cloned().collect();
        let in_order = table.names().iter().filter(|name| {
            names.slot(name).is_none()
                && (added.slot(name).is_some() || chosen.slot(name).is_some())
        });
        *names = names.names().iter().chain(in_order).cloned().collect();
        Ok(is_needed)
    }
}

/// Returns `true` if both c-client and Dovecot keep the keyword.
pub(in crate::mbox) fn is_portable(keyword: &Keyword) -> bool {
    keyword.as_str().len() <= KEYWORD_LEN_MAX && keyword.as_str().is_ascii()
}

/// Returns the pseudo message, which only carries X-IMAPbase where no message can, and the range of
/// its header.
pub(super) fn pseudo_message(
    value: &[u8],
    now: Timestamp,
    separators: Separators,
) -> (Vec<u8>, std::ops::Range<usize>) {
    let instant = jiff::Timestamp::from_second(now.unix_seconds()).unwrap_or_default();
    let date = instant.to_zoned(jiff::tz::TimeZone::UTC);
    let mut text = Vec::with_capacity(512 + value.len());
    if separators == Separators::Mmdf {
        text.extend_from_slice(MMDF_SEPARATOR);
    }
    let line = date.strftime("From MAILER-DAEMON %a %b %e %H:%M:%S %Y\n").to_string();
    text.extend_from_slice(line.as_bytes());
    let header = text.len();
    let date = date.strftime("%a, %d %b %Y %H:%M:%S +0000");
    let fields = format!(
        "Date: {date}\n\
         From: Mailbox data <MAILER-DAEMON@localhost>\n\
         Subject: Data of this mailbox, not a message\n\
         X-IMAP: "
    );
    text.extend_from_slice(fields.as_bytes());
    text.extend_from_slice(value);
    text.extend_from_slice(b"\nStatus: RO\n\n");
    let header = header..text.len();
    text.extend_from_slice(
        b"Mail programs keep here what they must know of the mailbox as a whole, so that\n\
          they know its messages again. They do not show it, and write it anew if it is\n\
          removed.\n",
    );
    match separators {
        Separators::Mmdf => text.extend_from_slice(MMDF_SEPARATOR),
        Separators::From(_) => text.push(b'\n'),
    }
    (text, header)
}
