//! UIDBATCHES (RFC 10022): ranges of UIDs that divide a mailbox into batches of messages, from the
//! newest on.

use super::reply::Reply;
use super::{Done, Session};
use crate::backend::{Account, Answer, MailView, Refusal};
use crate::limits::UID_BATCH_MIN;

impl<A: Account> Session<A> {
    pub(super) fn uid_batches(
        &mut self,
        tag: &str,
        size: u32,
        range: Option<(u32, u32)>,
        reply: &mut Reply<'_>,
    ) -> Answer<Done> {
        let numbers = &self.selected_mut()?.numbers;
        if size < UID_BATCH_MIN {
            let text = format!("A batch has at least {UID_BATCH_MIN} messages");
            return Err(Refusal::new("TOOSMALL", text));
        }
        let count = numbers.len().div_ceil(size);
        let (first, last) = range.unwrap_or((1, count));
        // The first row of each batch after its last, as the batches go towards the oldest message.
        let highest = |batch: u32| -> Answer<u32> {
            match u64::from(batch - 1) * u64::from(size) {
                behind if behind < u64::from(numbers.len()) => {
                    Ok(numbers.uid_of(numbers.len() - 1 - behind as u32)?.get())
                }
                _ => Ok(0),
            }
        };
        reply.push(&format!("* UIDBATCHES (TAG \"{tag}\")"));
        for batch in first..=last.min(count) {
            let space = if batch == first { ' ' } else { ',' };
            reply.push(&format!("{space}{}:{}", highest(batch)?, highest(batch + 1)? + 1));
        }
        reply.end_line();
        Ok(Done::text("Uidbatches completed"))
    }
}
