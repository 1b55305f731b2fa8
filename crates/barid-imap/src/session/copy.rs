//! COPY, MOVE, EXPUNGE (RFC 9051 §6.4.3, §6.4.7, §6.4.8, RFC 4315, RFC 6851).

use barid_types::{Uid, UidSet};

use super::reply::Reply;
use super::select::write_uid_set;
use super::{Done, Session};
use crate::backend::{Account, Answer, Copied, MailView, Mailbox, Refusal};
use crate::command::{MailboxName, MessageSet};

impl<A: Account> Session<A> {
    pub(super) fn copy(
        &mut self,
        set: &MessageSet,
        to: &MailboxName,
        moves: bool,
        reply: &mut Reply<'_>,
    ) -> Answer<Done> {
        let selected = self.selected.as_mut().ok_or_else(|| Refusal::bad("No mailbox"))?;
        selected.is_uid_command = set.is_uid();
        let uids = selected.uids_of_set(set, &self.saved)?;
        if moves && selected.read_only {
            return Err(Refusal::new("READ-ONLY", "The mailbox is read-only"));
        }
        let text = if moves { "Move completed" } else { "Copy completed" };
        if uids.is_empty() {
            // A client that moves messages which another one has moved is content with OK.
            return Ok(Done::text(text));
        }
        let uids = match moves {
            true => self.limited(uids),
            false => self.all_or_none(uids)?,
        };
        let copied = self.selected_mut()?.mailbox.copy(&uids, to, moves)?;
        self.note_added(to, copied.to.len());
        let code = copy_uid(&copied).filter(|_| self.offers_or_rev2("UIDPLUS"));
        if !moves {
            return Ok(code.map_or(Done::text(text), |code| Done::with(code, text)));
        }
        // RFC 6851 §4.3: the code comes before the EXPUNGE responses.
        if let Some(code) = code {
            reply.line(format_args!("* OK [{code}] Moved UIDs"));
        }
        let now = self.selected_mut()?.mailbox.view();
        self.announce_view(now, true, &[], reply)?;
        match copied.not_removed {
            Some(refusal) => Err(refusal),
            None => self.done_with_modseq(text),
        }
    }

    pub(super) fn expunge(
        &mut self,
        set: Option<&MessageSet>,
        reply: &mut Reply<'_>,
    ) -> Answer<Done> {
        let selected = self.selected.as_mut().ok_or_else(|| Refusal::bad("No mailbox"))?;
        selected.is_uid_command = set.is_some();
        if selected.read_only {
            return Err(Refusal::new("READ-ONLY", "The mailbox is read-only"));
        }
        let uids = match set {
            Some(set) => {
                let uids = selected.uids_of_set(set, &self.saved)?;
                Some(self.limited_expunge(uids)?)
            }
            None => None,
        };
        let selected = self.selected_mut()?;
        if uids.as_ref().is_none_or(|uids| !uids.is_empty()) {
            selected.mailbox.expunge(uids.as_deref())?;
        }
        let now = selected.mailbox.view();
        self.announce_view(now, true, &[], reply)?;
        self.done_with_modseq("Expunge completed")
    }

    /// Returns a completion with HIGHESTMODSEQ if the client uses QRESYNC (RFC 7162 §3.2.7).
    fn done_with_modseq(&self, text: &'static str) -> Answer<Done> {
        match &self.selected {
            Some(selected) if self.enabled.qresync => {
                let modseq = selected.newest.numbers()?.highest_modseq;
                Ok(Done::with(format!("HIGHESTMODSEQ {modseq}"), text))
            }
            _ => Ok(Done::text(text)),
        }
    }
}

/// Returns the response code COPYUID; `None` if nothing was copied.
fn copy_uid(copied: &Copied) -> Option<String> {
    let uidvalidity = copied.uidvalidity.filter(|_| !copied.from.is_empty())?;
    let mut code = format!("COPYUID {uidvalidity} ").into_bytes();
    write_uid_set(&copied.from.iter().copied().collect(), &mut code);
    code.push(b' ');
    write_uid_set(&copied.to.iter().copied().collect::<UidSet>(), &mut code);
    String::from_utf8(code).ok()
}

/// Returns the response code APPENDUID.
pub(super) fn append_uid(uidvalidity: barid_types::UidValidity, uids: &[Uid]) -> String {
    let mut code = format!("APPENDUID {uidvalidity} ").into_bytes();
    write_uid_set(&uids.iter().copied().collect(), &mut code);
    String::from_utf8_lossy(&code).into_owned()
}
