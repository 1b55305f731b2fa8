//! APPEND, MULTIAPPEND, CATENATE and REPLACE (RFC 9051 §6.3.12, RFC 3502, RFC 4469, RFC 8508).

use barid_query::search::NumberSet;

use super::copy::append_uid;
use super::features::ClientInput;
use super::reply::Reply;
use super::{Done, Next, Session};
use crate::backend::{Account, Answer, Mailbox, Refusal};
use crate::command::{AppendMessage, AppendPart, MessageSet};

impl<A: Account> Session<A> {
    /// Begins a message. A refusal is answered when the client asks to send it, or at the end.
    pub(super) fn begin_message(&mut self, message: AppendMessage) {
        if message.is_first {
            self.account.append_abort();
            self.append_count = 0;
        }
        self.append_count += 1;
        if self.append_refused.is_none() {
            let begun = self.check_offered(ClientInput::Message(&message));
            let begun = begun.and_then(|()| self.check_append_count());
            self.append_refused = begun.and_then(|()| self.account.append_begin(&message)).err();
        }
    }

    pub(super) fn begin_part(
        &mut self,
        part: AppendPart,
        is_sync: bool,
        reply: &mut Reply<'_>,
    ) -> Next {
        if self.append_refused.is_none() {
            let begun = self.check_offered(ClientInput::Part(&part)).and_then(|()| match part {
                AppendPart::Literal { len, is_binary } => {
                    self.account.append_literal(len, is_binary)
                }
                AppendPart::Url(url) => self.account.append_url(&url),
            });
            self.append_refused = begun.err();
        }
        if is_sync {
            match self.append_refused.take() {
                None => reply.line(format_args!("+ OK")),
                Some(refusal) => {
                    // The client does not send the literal after a refusal.
                    let tag = self.decoder.tag().unwrap_or("*").to_owned();
                    self.decoder.abandon();
                    self.account.append_abort();
                    self.refuse(&tag, &refusal, reply);
                }
            }
        }
        Next::Continue
    }

    pub(super) fn append_data(&mut self, bytes: &[u8]) {
        if self.append_refused.is_none() {
            self.append_refused = self.account.append_bytes(bytes).err();
        }
    }

    pub(super) fn append(&mut self) -> Answer<Done> {
        if let Some(refusal) = self.append_refused.take() {
            self.account.append_abort();
            return Err(refusal);
        }
        let appended = self.account.append()?;
        let text = "Append completed";
        if appended.uids.is_empty() || !self.offers_or_rev2("UIDPLUS") {
            return Ok(Done::text(text));
        }
        Ok(Done::with(append_uid(appended.uidvalidity, &appended.uids), text))
    }

    /// Stores the new message, then expunges the old one.
    pub(super) fn replace(
        &mut self,
        number: &NumberSet,
        uid: bool,
        reply: &mut Reply<'_>,
    ) -> Answer<Done> {
        let set = match uid {
            true => MessageSet::Uids(number.clone()),
            false => MessageSet::Numbers(number.clone()),
        };
        let saved = std::mem::take(&mut self.saved);
        let selected = self.selected_mut()?;
        let old = selected.uids_of_set(&set, &saved);
        let read_only = selected.read_only;
        self.saved = saved;
        let old = old.and_then(|uids| match uids.as_slice() {
            [only] if !read_only => Ok(*only),
            [_] => Err(Refusal::new("READ-ONLY", "The mailbox is read-only")),
            _ => Err(Refusal::bad("REPLACE needs one message that exists")),
        });
        let old = old.inspect_err(|_| self.account.append_abort())?;
        let done = self.append()?;
        if let Some(code) = &done.code {
            reply.line(format_args!("* OK [{code}] Replacement message ready"));
        }
        let selected = self.selected_mut()?;
        selected.mailbox.remove(&[old])?;
        let now = selected.mailbox.view();
        self.announce_view(now, true, &[], reply)?;
        Ok(Done::text("Replace completed"))
    }
}
