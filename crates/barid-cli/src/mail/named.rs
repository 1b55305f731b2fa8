//! Messages that the command line names, in one mailbox or in several.

use std::ffi::{OsStr, OsString};

use barid::{Mailbox, Uid};

use super::mailboxes::MailboxesArgs;
use super::query::QueryArgs;
use super::selection::{MessageSelection, Selector};
use crate::context::Context;
use crate::exit::{Outcome, WithHint};

/// The words of a command line that name messages.
pub(crate) struct NamedMessages<'a> {
    /// The mailbox; of several, the first word of the query.
    pub(crate) mailbox: &'a Option<OsString>,
    /// UIDs, or a query.
    pub(crate) words: &'a [String],
    pub(crate) several: &'a MailboxesArgs,
    pub(crate) query: QueryArgs,
    /// Consequence of an error, such as `nothing is shown`.
    pub(crate) nothing: &'static str,
}

/// Work on messages, mailbox after mailbox.
pub(crate) trait MessagesWork {
    /// Begins; there are `count` messages in all.
    fn begin(&mut self, count: usize) -> anyhow::Result<()>;

    /// Works on messages of a mailbox, which has a name where several are read.
    fn messages(
        &mut self,
        context: &mut Context,
        mailbox: (&mut Mailbox, Option<&OsStr>),
        uids: &[Uid],
    ) -> anyhow::Result<Outcome>;
}

impl NamedMessages<'_> {
    /// Works on the messages: UIDs in the order in which they are named, others in mailbox order.
    /// Reports those that do not exist, and those that could not be read for the search.
    ///
    /// # Errors
    ///
    /// Returns an error if the words name no messages, errors of the mailboxes, and those of
    /// `work`.
    pub(crate) fn each(
        &self,
        context: &mut Context,
        work: &mut dyn MessagesWork,
    ) -> anyhow::Result<Outcome> {
        self.several.check()?;
        let selector = Selector::reading(self.nothing);
        let Some(name) = self.several.one(self.mailbox) else {
            return self.each_of_several(context, selector, work);
        };
        let selection = MessageSelection::parse(context, self.words, self.query, selector)?;
        let (mut mailbox, selected) =
            context.open_and(name, |mailbox| selection.select_in_order(mailbox))?;
        let outcome = selected.report(context, name);
        // Reading may detect changes of the mailbox, which move rows; UIDs stay.
        let uids = selected.selected.uids;
        work.begin(uids.len())?;
        let outcome = outcome.worse(Outcome::nothing_if(uids.is_empty()));
        Ok(outcome.worse(work.messages(context, (&mut mailbox, None), &uids)?))
    }

    fn each_of_several(
        &self,
        context: &mut Context,
        selector: Selector,
        work: &mut dyn MessagesWork,
    ) -> anyhow::Result<Outcome> {
        let words = self.several.words(self.mailbox.as_deref(), self.words)?;
        if words.is_empty() {
            let message = format!("no messages are named: {}", self.nothing);
            return Err(WithHint::error(message, "name a query; `all` is every message"));
        }
        let program = MessageSelection::parse_for_mailboxes(context, &words, self.query, selector)?;
        let (mut found, mut outcome) = self.several.search(context, &program, false)?;
        work.begin(found.parts.iter().map(|part| part.rows.len()).sum())?;
        for part in &mut found.parts {
            let uids = part.mailbox.uids_of(&part.rows)?;
            let mailbox = (&mut part.mailbox, Some(&*part.name));
            outcome = outcome.worse(work.messages(context, mailbox, &uids)?);
        }
        Ok(found.outcome(context, outcome))
    }
}
